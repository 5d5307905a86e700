/* SPDX-License-Identifier: MIT */
/* What a member of a fleet asks of etcd, and what it makes of the answers. */
#include "server/fleet/membership.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/heap.h"
#include "common/util/log.h"
#include "common/util/splitmix.h"
#include "server/fleet/membership_state.h"
#include "server/fleet/moves.h"

#define NS_PER_MS 1000000ull

/* Clocks may differ by 0.4 %. */
#define CLOCK_ERROR(ns) ((ns) / 250)
/* Extensions, and looks of the controller, in a lease. */
#define PERIODS 10
/*
 * After n transactions in a row that lost against another member's: up to 2^n of these, but not
 * more than 2^CONFLICTS_MAX, 51 s, so that a thousand members that start together get through; nor
 * than 2^CONFLICTS_URGENT for what shards wait for.
 */
#define CONFLICT_NS(period_ns)                                                                     \
	((period_ns) / 8 < CONFLICT_NS_MAX ? (period_ns) / 8 : CONFLICT_NS_MAX)
#define CONFLICT_NS_MAX 25000000ull /* what a transaction takes does not depend on leases */
#define CONFLICTS_MAX 11
#define CONFLICTS_URGENT 3
/* After one that lost, the map is read again if it is older. */
#define FRESH_NS(period_ns) ((period_ns) / 10)
/* A lease that was granted so long ago may end before it is used. */
#define GRANT_NS(lease_ns) ((lease_ns) / 2)
/* Between two polls because others want a look at etcd. */
#define LOOK_NS(period_ns) ((period_ns) / 8)
/* This long without an answer is an outage (MEMBERSHIP-6). */
#define OUTAGE_NS(lease_ns) ((lease_ns) / 2)

struct membership *membership_create(const struct membership_options *options,
				     struct registry_result *first, struct membership_past *past,
				     uint64_t now_ns)
{
	struct membership *m = heap_calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->options = *options;
	m->period_ns = options->lease_ns / PERIODS;
	m->margin_ns = CLOCK_ERROR(options->lease_ns) + NS_PER_MS;
	m->shards.wait_ns = options->lease_ns + CLOCK_ERROR(options->lease_ns) + m->margin_ns;
	m->random = options->incarnation;
	m->cluster_id = first->cluster_id;
	m->map = first->map;
	m->map_revision = first->map_revision;
	first->map = NULL;
	m->number = number_in(m, m->map);
	m->view_is_old = true;
	if (past)
		past_take(m, past, now_ns);
	return m;
}

void membership_destroy(struct membership *m)
{
	if (!m)
		return;
	fleet_map_free(m->plan.map);
	fleet_map_free(m->draft);
	fleet_map_free(m->map);
	heap_free(m);
}

static uint64_t random_below(struct membership *m, uint64_t limit)
{
	return splitmix_next(&m->random) % limit;
}

#define NAME(id) (int)strnlen(id, FLEET_NAME_MAX), id

static void plan_drop(struct membership *m)
{
	fleet_map_free(m->plan.map);
	m->plan.map = NULL;
}

static void depose(struct membership *m)
{
	if (m->controller)
		log_notice("fleet: this member is not the controller any more");
	m->controller = 0;
	m->campaigns = false;
	plan_drop(m);
	m->plan.why[0] = 0;
}

/* The own key is gone, or will be. The word ends by itself; items and views stay. */
static void lose(struct membership *m, const char *why)
{
	if (m->own)
		log_warn("fleet: %.*s is not registered any more (%s): it serves no key until it "
			 "is again; its items stay",
			 NAME(m->options.id), why);
	m->own = 0;
	m->key_free = false;
	m->kept_ns = 0;
	m->poll_is_due = false;
	m->wants_flags = false;
	m->retry_ns = m->now_ns; /* of transactions that it does not make any more */
	move_end(m, why);
	depose(m);
}

static void fence(struct membership *m, const struct registry_result *result)
{
	const char *what = "it has an older map, or another history of it";
	const char *remedy = "run kvd --fleet-adopt, once, with this configuration";

	if (result->reads & REGISTRY_READ_MAP && !result->map) {
		what = "it has no map";
		remedy = "restore it, or run kvd --fleet-init, once, and restart all members";
	} else if (result->map && result->map->head->hash_seed != m->map->head->hash_seed) {
		what = "the fleet was made anew";
		remedy = "restart all members";
	} else if (result->cluster_id != m->cluster_id) {
		what = "it is another etcd";
	}
	if (!m->fenced || m->remedy != remedy)
		log_error("fleet: etcd was restored from a backup, or replaced: %s. This member "
			  "serves no key: %s",
			  what, remedy);
	lose(m, "etcd was restored or replaced");
	m->fenced = true;
	m->remedy = remedy;
	m->lease = 0;
	m->registering = false;
	m->word_is_new = true;
	m->end_ns = 0;
}

/* A map of another generation is there: nothing that was known of etcd counts any more. */
static void history_begin(struct membership *m, uint64_t cluster_id)
{
	log_notice("fleet: the map has another generation: the fleet was adopted");
	lose(m, "the fleet was adopted");
	m->cluster_id = cluster_id;
	m->fenced = false;
	m->lease = 0;
	m->registering = false;
	m->session = 0;
	move_forget(m);
}

enum news { NEWS_NONE, NEWS_MAP, NEWS_FENCE, NEWS_BROKEN };

/* MEMBERSHIP-5. What the map of an answer is, beside the one that is known. */
static enum news news_judge(const struct membership *m, const struct registry_result *result)
{
	bool foreign = result->cluster_id != m->cluster_id;
	const struct fleet_head *known = m->map->head, *head;

	if (!(result->reads & REGISTRY_READ_MAP))
		return foreign ? NEWS_FENCE : NEWS_NONE;
	if (!result->map)
		return result->map_revision ? NEWS_BROKEN : NEWS_FENCE;
	head = result->map->head;
	if (head->hash_seed != known->hash_seed || head->lease_ns != known->lease_ns)
		return NEWS_FENCE;
	if (head->generation != known->generation)
		return head->epoch > known->epoch ? NEWS_MAP : NEWS_FENCE;
	if (foreign || m->fenced)
		return NEWS_FENCE;
	if (result->map_revision == m->map_revision && head->epoch == known->epoch)
		return NEWS_NONE;
	return result->map_revision > m->map_revision && head->epoch > known->epoch ? NEWS_MAP :
										      NEWS_FENCE;
}

/* How many shards of @frozen the newest map gives to another member. */
static uint32_t given_count(const struct membership *m, const struct shard_set *frozen)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		count += shard_set_has(frozen, i) && m->map->rows[i] & FLEET_GIVEN &&
			 fleet_row_owner(m->map->rows[i]) != m->number;
	return count;
}

/* MEMBERSHIP-1 */
void map_install(struct membership *m, struct fleet_map *map, int64_t revision, uint64_t now_ns)
{
	bool comparable = map->head->generation == m->map->head->generation;
	bool proves = m->session && session_in(m, map) == m->session;
	const struct shard_set frozen = m->shards.frozen;

	m->number = number_in(m, map);
	shards_follow(&m->shards, comparable ? m->map : NULL, map, m->number, proves, now_ns);
	accepts_follow(&m->accepts, &m->shards);
	fleet_map_free(m->map);
	m->map = map;
	m->map_revision = revision;
	m->view_is_old = true;
	m->may_open = true;
	plan_drop(m);
	move_follow(m, given_count(m, &frozen));
}

/* MEMBERSHIP-9 */
static void registered(struct membership *m, int64_t own, uint32_t session)
{
	m->own = own;
	m->session = session;
	m->registering = false;
	m->key_free = false;
	m->held_ns = 0;
	m->kept_ns = 0;
	m->registrations++;
	accepts_end(&m->accepts, &m->shards);
}

/* After the map of the registration was followed. */
static void registered_log(struct membership *m, uint64_t now_ns)
{
	m->holds_word = shards_drops(&m->shards);
	m->registered_epoch = m->map->head->epoch;
	m->next_ns = now_ns;
	log_notice("fleet: %.*s is registered, session %" PRIu32 ", epoch %" PRIu64
		   ": it serves %" PRIu32 " shards, and waits for %" PRIu32,
		   NAME(m->options.id), m->session, m->map->head->epoch, m->shards.served_count,
		   m->shards.waiting);
}

static void held_note(struct membership *m, uint64_t now_ns)
{
	m->key_free = false;
	if (!m->held_ns) {
		m->held_ns = now_ns;
		m->held_is_logged = false;
	}
	if (!m->held_is_logged && now_ns - m->held_ns > 2 * m->options.lease_ns) {
		log_warn("fleet: another kvd is registered as %.*s: this one waits until it ends; "
			 "give each its own fleet.member",
			 NAME(m->options.id));
		m->held_is_logged = true;
	}
}

/* True: an attempt to register is seen to have succeeded. @map: that was read, or NULL. */
static bool own_take(struct membership *m, const struct registry_result *result,
		     const struct fleet_map *map, uint64_t now_ns)
{
	bool is_own = result->own_incarnation == m->options.incarnation;

	if (!(result->reads & REGISTRY_READ_OWN))
		return false;
	if (m->own && is_own && result->own_create_revision == m->own)
		return false;
	lose(m, "its key is gone");
	if (!result->own_create_revision) {
		m->key_free = true;
		m->held_ns = 0;
		return false;
	}
	/* Without a newer map it was one that keeps the map. */
	if (is_own && m->registering && (map || session_in(m, m->map) == m->session)) {
		registered(m, result->own_create_revision, session_in(m, map ? map : m->map));
		return true;
	}
	held_note(m, now_ns);
	return false;
}

static void controller_take(struct membership *m, const struct registry_result *result,
			    uint64_t now_ns)
{
	bool is_own = !memcmp(result->controller, m->options.id, FLEET_NAME_MAX);

	if (!(result->reads & REGISTRY_READ_CONTROLLER) || !m->own)
		return;
	if (!m->campaigns && !result->controller_create_revision)
		m->retry_ns = now_ns;
	m->campaigns = !result->controller_create_revision;
	if (m->campaigns || !is_own) {
		bool campaigns = m->campaigns;

		depose(m);
		m->campaigns = campaigns;
		return;
	}
	if (result->controller_create_revision == m->controller)
		return;
	m->controller = result->controller_create_revision;
	m->elected_ns = now_ns;
	log_notice("fleet: this member is the controller");
}

static int id_compare(const void *id, const void *member)
{
	return memcmp(id, ((const struct registry_member *)member)->id, FLEET_NAME_MAX);
}

/* The create_revision of the key of member @id; 0: there is none. */
static int64_t revision_find(const struct registry_result *result, const char *id)
{
	const struct registry_member *member = NULL;

	if (result->member_count)
		member = bsearch(id, result->members, result->member_count, sizeof(*member),
				 id_compare);
	return member ? member->create_revision : 0;
}

/* What the controller makes of a look at all members. */
static void plan_make(struct membership *m, const struct registry_result *result, uint64_t now_ns)
{
	struct controller_input input = {
		.map = m->map,
		.now_ns = now_ns,
		.elected_ns = m->elected_ns,
		.answered_ns = m->answered_ns,
		.lease_ns = m->options.lease_ns,
		.time_s = m->now_s,
	};
	int64_t *present;

	if (!m->controller || !(result->reads & REGISTRY_READ_MEMBERS))
		return;
	present = heap_calloc(m->map->head->members + 1, sizeof(*present));
	if (!present)
		return;
	for (uint32_t i = 0; i < m->map->head->members; i++)
		present[i] = revision_find(result, m->map->members[i]->id);
	input.present = present;
	plan_drop(m);
	controller_plan(&input, &m->plan);
	heap_free(present);
	/* Whatever else waits, and has lost. */
	if (m->plan.map)
		m->retry_ns = now_ns;
}

/* MEMBERSHIP-3, MEMBERSHIP-4. A poll has found the own key, after a keepalive begun at kept_ns. */
static void extend(struct membership *m)
{
	uint64_t end_ns = m->kept_ns + m->options.lease_ns - m->margin_ns;

	m->next_ns = m->kept_ns + m->period_ns;
	m->kept_ns = 0;
	if (m->stops || m->holds_word || shards_open_unserved(&m->shards, m->map, m->number))
		return;
	m->end_ns = m->last_end_ns = end_ns;
	m->word_is_new = true;
}

static void outcome_note(struct membership *m, bool answered, const char *why, uint64_t now_ns)
{
	if (!answered) {
		if (!m->failing && !m->stops)
			log_warn("fleet: etcd: %s", why);
		m->failing = true;
		return;
	}
	if (m->failing)
		log_notice("fleet: etcd answers again");
	m->failing = false;
	if (!m->last_ns || now_ns - m->last_ns > OUTAGE_NS(m->options.lease_ns))
		m->answered_ns = now_ns;
	m->last_ns = now_ns;
}

/* Another member's transaction was first. */
static void conflict(struct membership *m, enum call call, uint64_t now_ns)
{
	const bool can_wait = call == CALL_REGISTER || call == CALL_OPEN || call == CALL_CLOSE;
	const unsigned int most = can_wait ? CONFLICTS_MAX : CONFLICTS_URGENT;
	const uint64_t most_ns = CONFLICT_NS(m->period_ns)
				 << (m->conflicts < most ? m->conflicts : most);

	m->retry_ns = now_ns + random_below(m, most_ns + 1);
	m->conflicts += m->conflicts < most;
}

static void txn_fail(struct membership *m, enum call call, const struct registry_result *result,
		     uint64_t sent_ns, uint64_t now_ns)
{
	m->kept_ns = 0;
	m->next_ns = sent_ns + m->period_ns;
	m->retry_ns = now_ns + m->period_ns;
	/* The client that wants them asks again. */
	if (call == CALL_FLAGS)
		m->wants_flags = false;
	if (call == CALL_GIVE && result->outcome == ETCD_UNKNOWN) {
		move_not_given(m, "it is not known whether etcd has given it the shards");
		m->retry_ns = now_ns;
	}
	if (call != CALL_REGISTER)
		return;
	m->key_free = false;
	if (result->outcome == ETCD_UNKNOWN)
		m->registering = true;
	else if (result->err == -ENOENT)
		m->lease = 0;
}

/* The call has put its map. */
static void put_done(struct membership *m, enum call call, int64_t revision, uint64_t now_ns)
{
	struct fleet_map *map = m->draft;

	m->draft = NULL;
	m->conflicts = 0;
	if (call == CALL_FLAGS)
		m->wants_flags = false;
	if (call == CALL_REGISTER)
		registered(m, revision, session_in(m, map));
	map_install(m, map, revision, now_ns);
	if (call == CALL_REGISTER)
		registered_log(m, now_ns);
	/* There may be more to assign. */
	if (call == CALL_ASSIGN)
		m->poll_is_due = true;
}

/* An answer that is no news of another etcd. */
static void txn_take(struct membership *m, enum call call, struct registry_result *result,
		     enum news news, uint64_t now_ns)
{
	struct fleet_map *map = news == NEWS_MAP ? result->map : NULL;
	bool is_registered;

	if (map && map->head->generation != m->map->head->generation)
		history_begin(m, result->cluster_id);
	is_registered = own_take(m, result, map, now_ns);

	if (map) {
		result->map = NULL;
		map_install(m, map, result->map_revision, now_ns);
	}
	if (is_registered)
		registered_log(m, now_ns);
	if (map || result->outcome == ETCD_SUCCEEDED)
		m->seen_ns = now_ns;
	if (result->outcome == ETCD_SUCCEEDED && m->draft) {
		put_done(m, call, result->revision, now_ns);
	} else if (result->outcome == ETCD_SUCCEEDED && call == CALL_REGISTER) {
		m->conflicts = 0;
		registered(m, result->revision, m->session);
		registered_log(m, now_ns);
	}
	if (result->outcome == ETCD_COMPARE_FAILED && call != CALL_POLL && call != CALL_LOOK &&
	    call != CALL_CAMPAIGN)
		conflict(m, call, now_ns);
	/* Neither the map nor the own key differs. */
	if (result->outcome == ETCD_COMPARE_FAILED && call == CALL_GIVE && !map)
		move_not_given(m, "its key is not the one that it has confirmed by");
	controller_take(m, result, now_ns);
	plan_make(m, result, now_ns);
}

static void txn_done(struct membership *m, enum call call, struct registry_result *result,
		     uint64_t sent_ns, uint64_t now_ns)
{
	/* There was no memory for what has changed. */
	bool blind = result->outcome == ETCD_COMPARE_FAILED && !result->reads;
	enum news news;

	if (blind ||
	    (result->outcome != ETCD_SUCCEEDED && result->outcome != ETCD_COMPARE_FAILED)) {
		txn_fail(m, call, result, sent_ns, now_ns);
		return;
	}
	news = news_judge(m, result);
	m->map_is_useless = news == NEWS_BROKEN;
	if (news == NEWS_BROKEN) {
		log_ratelimited(LOG_ERROR, 1, "fleet: the map in etcd can't be used: %s",
				result->map_error);
		txn_fail(m, call, result, sent_ns, now_ns);
		return;
	}
	if (news == NEWS_FENCE) {
		fence(m, result);
		m->next_ns = sent_ns + m->period_ns;
		return;
	}
	txn_take(m, call, result, news, now_ns);
	if (call == CALL_LOOK && !m->own)
		m->next_ns = sent_ns + m->period_ns;
	if (call == CALL_POLL && m->own && m->kept_ns)
		extend(m);
}

void membership_done(struct membership *m, struct registry_result *result, const char *why,
		     uint64_t sent_ns, uint64_t now_ns)
{
	bool answered = result->outcome == ETCD_SUCCEEDED || result->outcome == ETCD_COMPARE_FAILED;
	enum call call = m->call;

	m->call = CALL_NONE;
	m->now_ns = now_ns;
	outcome_note(m, answered || result->err == -ENOENT, why, now_ns);
	switch (call) {
	case CALL_GRANT:
		m->lease = answered ? result->lease : 0;
		m->granted_ns = sent_ns;
		m->retry_ns = answered ? now_ns : now_ns + m->period_ns;
		break;
	case CALL_KEEPALIVE:
		m->next_ns = sent_ns + m->period_ns;
		if (answered) {
			m->kept_ns = sent_ns;
			m->poll_is_due = true;
		} else if (result->err == -ENOENT) {
			lose(m, "its lease has ended");
			m->lease = 0;
		}
		break;
	case CALL_REVOKE:
		m->lease = 0;
		break;
	default:
		txn_done(m, call, result, sent_ns, now_ns);
	}
	fleet_map_free(m->draft);
	m->draft = NULL;
}

/* A transaction that has lost would lose again with the map that it had. */
static bool is_stale(const struct membership *m, uint64_t now_ns)
{
	return m->conflicts && now_ns - m->seen_ns > FRESH_NS(m->period_ns);
}

/* Of the transactions that can wait: the one to be made first. */
static enum call choose_more(const struct membership *m)
{
	if (m->move.state == MOVE_GIVE)
		return CALL_GIVE;
	if (m->plan.map)
		return CALL_ASSIGN;
	if (m->campaigns)
		return CALL_CAMPAIGN;
	if (m->wants_flags)
		return CALL_FLAGS;
	if (m->may_open)
		return CALL_OPEN;
	return m->move.state == MOVE_CLOSE ? CALL_CLOSE : CALL_NONE;
}

/* What a registered member asks now, or until when it waits. */
static enum call choose_registered(struct membership *m, uint64_t now_ns, uint64_t *until_ns)
{
	uint64_t poll_ns = m->alive ? m->next_ns : m->next_ns + m->period_ns;
	enum call more = choose_more(m);
	uint64_t look_ns;

	if (m->poll_is_due)
		return CALL_POLL;
	if (now_ns >= poll_ns) {
		/* Workers that hang get no lease, so that others get the shards. */
		if (m->alive)
			return CALL_KEEPALIVE;
		m->next_ns = now_ns;
		return CALL_POLL;
	}
	/* Not more often, however often clients ask: what keeps the lease comes first. */
	look_ns = m->look_is_wanted ? m->polled_ns + LOOK_NS(m->period_ns) : UINT64_MAX;
	if (now_ns >= look_ns)
		return CALL_POLL;
	*until_ns = shards_next_ns(&m->shards);
	if (look_ns < *until_ns)
		*until_ns = look_ns;
	if (poll_ns < *until_ns)
		*until_ns = poll_ns;
	if (move_next_ns(m) < *until_ns)
		*until_ns = move_next_ns(m);
	if (more != CALL_NONE && now_ns >= m->retry_ns)
		return is_stale(m, now_ns) ? CALL_POLL : more;
	if (more != CALL_NONE && m->retry_ns < *until_ns)
		*until_ns = m->retry_ns;
	return CALL_NONE;
}

/* What a member without a key, which nobody has, asks now. */
static enum call choose_free(struct membership *m, uint64_t now_ns)
{
	/* An attempt that may be executed still has its lease. */
	if (!m->registering && now_ns - m->granted_ns > GRANT_NS(m->options.lease_ns))
		m->lease = 0;
	if (!m->lease)
		return CALL_GRANT;
	return is_stale(m, now_ns) ? CALL_LOOK : CALL_REGISTER;
}

static enum call choose(struct membership *m, uint64_t now_ns, uint64_t *until_ns)
{
	if (m->stops)
		return m->lease && !m->options.keeps ? CALL_REVOKE : CALL_NONE;
	if (m->own)
		return choose_registered(m, now_ns, until_ns);
	*until_ns = m->key_free ? m->retry_ns : m->next_ns;
	if (now_ns < *until_ns)
		return CALL_NONE;
	return m->key_free ? choose_free(m, now_ns) : CALL_LOOK;
}

enum membership_next membership_next(struct membership *m, uint64_t now_ns, uint64_t now_s,
				     struct registry_call *call, uint64_t *until_ns)
{
	enum call what;

	assert(m->call == CALL_NONE);
	m->now_ns = now_ns;
	m->now_s = now_s;
	if (m->own && m->shards.waiting) {
		uint32_t served = m->shards.served_count;

		shards_serve(&m->shards, now_ns);
		m->may_open |= m->shards.served_count != served;
	}
	move_step(m, now_ns);
	do {
		what = choose(m, now_ns, until_ns);
	} while (what != CALL_NONE && !call_make(m, what, now_ns, call));
	m->call = what;
	if (what != CALL_NONE)
		return MEMBERSHIP_CALL;
	return m->stops ? MEMBERSHIP_ENDED : MEMBERSHIP_SLEEP;
}

void membership_alive(struct membership *m)
{
	m->alive = true;
}

static bool is_drained(const struct membership *m)
{
	return m->number == FLEET_NO_OWNER ||
	       m->map->members[m->number]->flags & FLEET_MEMBER_DRAINED;
}

/* MEMBERSHIP-9 */
static void accept(struct membership *m, const struct fleet_wants *wants)
{
	const struct fleet_head *head = m->map->head;

	if (!m->own || m->stops || wants->accept_generation != head->generation)
		return;
	if (wants->accept_epoch > head->epoch)
		m->look_is_wanted = true;
	else if (wants->accept_epoch > m->registered_epoch && !is_drained(m))
		accepts_begin(&m->accepts, &m->shards, m->map, m->number, wants->accept_epoch);
}

void membership_want(struct membership *m, const struct fleet_wants *wants)
{
	if (wants->look && m->own)
		m->look_is_wanted = true;
	else if (wants->look && !m->key_free)
		m->next_ns = m->now_ns;
	if (wants->accept_epoch)
		accept(m, wants);
	if (wants->change && m->own) {
		if (!m->wants_flags)
			m->retry_ns = m->now_ns;
		m->wants_flags = true;
		m->flags = *wants;
	}
}

/* What the next view says of the member. */
static void view_make(struct membership *m, struct membership_changes *changes)
{
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		m->view_served.bits[i] = m->shards.served.bits[i] & ~m->shards.frozen.bits[i];
	changes->map = m->map;
	changes->served = &m->view_served;
	changes->frozen = shard_set_empty(&m->shards.frozen) ? NULL : &m->shards.frozen;
	changes->accepts = m->accepts.all;
	changes->accept_count = m->accepts.count;
	changes->own = m->view_own;
	changes->takes = m->view_takes;
}

void membership_changes(struct membership *m, struct membership_changes *changes)
{
	bool takes = m->own && !m->stops && !is_drained(m) && m->end_ns > m->now_ns &&
		     m->accepts.count < FLEET_ACCEPTS_MAX;

	*changes = (struct membership_changes){ 0 };
	m->view_is_old |= m->shards.changed || m->own != m->view_own || takes != m->view_takes;
	m->view_own = m->own;
	m->view_takes = takes;
	if (m->view_is_old)
		view_make(m, changes);
	m->view_is_old = m->shards.changed = false;
	if (shards_drop(&m->shards))
		changes->drop = &m->shards.dropping;
	changes->has_word = m->word_is_new;
	m->word_is_new = false;
	changes->word = (struct fleet_word){
		.generation = m->map->head->generation,
		.epoch = m->map->head->epoch,
		.end_ns = m->end_ns,
	};
}

void membership_dropped(struct membership *m)
{
	shards_dropped(&m->shards);
	if (!shards_drops(&m->shards))
		m->holds_word = false;
}

void membership_stop(struct membership *m)
{
	m->stops = true;
	move_end(m, "this member stops");
	m->end_ns = 0;
	m->word_is_new = true;
	if (m->shards.served_count)
		log_notice("fleet: %.*s leaves: its %" PRIu32
			   " shards go to other members, without their items%s",
			   NAME(m->options.id), m->shards.served_count,
			   m->options.keeps ? ", unless it returns before its lease ends" : "");
}

void membership_status(const struct membership *m, struct membership_status *status)
{
	*status = (struct membership_status){
		.end_ns = m->end_ns,
		.registrations = m->registrations,
		.epoch = m->map->head->epoch,
		.members = m->map->head->members,
		.shards = m->shards.served_count + m->shards.waiting,
		.shards_served = m->shards.served_count,
		.controller = m->controller != 0,
	};
	if (m->fenced)
		snprintf(status->waits, sizeof(status->waits), "etcd was restored or replaced: %s",
			 m->remedy);
	else if (m->map_is_useless)
		strcpy(status->waits, "the map in etcd can't be used");
	else if (m->failing)
		strcpy(status->waits, "etcd does not answer");
	else if (!m->own)
		strcpy(status->waits, m->held_ns ? "another kvd is registered by this name" :
						   "is being registered");
	else if (m->holds_word)
		strcpy(status->waits, "items of shards that were lost are dropped");
	else if (m->controller)
		strcpy(status->waits, m->plan.why);
	move_status(m, status);
}
