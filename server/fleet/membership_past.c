/* SPDX-License-Identifier: MIT */
/* What of a membership goes over to the next process of the member: MEMBERSHIP-10. */
#include <inttypes.h>
#include <string.h>

#include "common/util/log.h"
#include "server/fleet/membership_state.h"

const struct fleet_map *membership_keep(const struct membership *m, struct membership_kept *kept)
{
	const struct shards *shards = &m->shards;

	/* Two are compared by their bytes. */
	memset(kept, 0, sizeof(*kept));
	kept->cluster_id = m->cluster_id;
	kept->incarnation = m->options.incarnation;
	kept->map_revision = m->map_revision;
	kept->lease = m->lease;
	kept->own = m->own;
	kept->registered_epoch = m->registered_epoch;
	kept->attempt_epoch = shards->attempt_epoch;
	kept->session = m->session;
	kept->registering = m->registering || m->call == CALL_REGISTER;
	kept->served = shards->served;
	kept->used = shards->used;
	kept->frozen = shards->frozen;
	kept->accepted = shards->accepted;
	kept->opening = shards->opening;
	kept->closing = shards->closing;
	kept->accepts.count = m->accepts.count;
	memcpy(kept->accepts.all, m->accepts.all, m->accepts.count * sizeof(*m->accepts.all));
	return m->map;
}

/* Why what was kept can't be followed to the map that etcd has now; NULL: it can. */
static const char *past_refuse(const struct membership *m, const struct membership_past *past)
{
	const struct fleet_head *head = m->map->head, *old = past->map->head;

	if (past->kept->cluster_id != m->cluster_id || old->generation != head->generation ||
	    old->hash_seed != head->hash_seed || old->lease_ns != head->lease_ns ||
	    past->kept->map_revision > m->map_revision || old->epoch > head->epoch ||
	    (past->kept->map_revision == m->map_revision) != (old->epoch == head->epoch))
		return "etcd, or the fleet's map, is another one";
	return NULL;
}

static void past_set(struct membership *m, const struct membership_kept *kept)
{
	struct shards *shards = &m->shards;

	m->options.incarnation = kept->incarnation;
	m->map_revision = kept->map_revision;
	m->lease = kept->lease;
	m->own = kept->own;
	m->registered_epoch = kept->registered_epoch;
	m->session = kept->session;
	m->registering = kept->registering;
	m->accepts = kept->accepts;
	shards->attempt_epoch = kept->attempt_epoch;
	shards->served = kept->served;
	shards->used = kept->used;
	shards->frozen = kept->frozen;
	shards->accepted = kept->accepted;
	shards->opening = kept->opening;
	shards->closing = kept->closing;
}

void past_take(struct membership *m, struct membership_past *past, uint64_t now_ns)
{
	const char *why = past->map ? past_refuse(m, past) : NULL;
	int64_t revision = m->map_revision;
	struct fleet_map *first = m->map;

	if (why)
		log_warn("fleet: the items that were kept are dropped: %s", why);
	if (why || !past->map) {
		fleet_map_free(past->map);
		past->map = NULL;
		shards_forget(&m->shards);
		return;
	}
	m->map = past->map;
	past->map = NULL;
	m->number = number_in(m, m->map);
	past_set(m, past->kept);
	/* Another process has registered since: the key is its own. */
	if (session_in(m, first) != m->session)
		m->own = 0;
	shards_return(&m->shards, m->map, m->number, now_ns);
	m->may_open = true;
	if (revision != m->map_revision)
		map_install(m, first, revision, now_ns);
	else
		fleet_map_free(first);
	m->holds_word = shards_drops(&m->shards);
	log_notice("fleet: %.*s returns, session %" PRIu32 ", epoch %" PRIu64
		   ": it still serves %" PRIu32 " shards, and waits for %" PRIu32,
		   (int)FLEET_NAME_MAX, m->options.id, m->session, m->map->head->epoch,
		   m->shards.served_count, m->shards.waiting);
}
