/* SPDX-License-Identifier: MIT */
/* Takes what the workers have noted, names the clients, and logs what was slow. */
#include "server/control/traces.h"

#include <string.h>

#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/users/user.h"

#define NS_PER_US 1000u

static void record_name(struct trace_record *record, const struct client *client)
{
	const struct user *user;

	if (!client)
		return;
	user = client_user(client);
	record->kind = client->kind;
	strcpy(record->address, client->peer.address);
	strcpy(record->tenant, client->part->tenant->name);
	if (user)
		strcpy(record->user, user->name);
}

static void record_say(const struct trace_record *record)
{
	const struct trace_entry *entry = &record->entry;

	log_ratelimited(LOG_NOTICE, 10,
			"slow: %s, with a key of %u bytes and a value of %llu, of %s took %llu us "
			"in worker %u (log.slow; kvctl slowlog)",
			wire_op_name(entry->op), entry->key_len,
			(unsigned long long)entry->value_len,
			*record->address ? record->address : "a client that is gone",
			(unsigned long long)(entry->took_ns / NS_PER_US), record->worker);
}

/* Counts what the worker has lost since the last time. */
static uint64_t lost_since(uint64_t *before, const uint64_t *lost)
{
	uint64_t now = stat_read(lost), since = now - *before;

	*before = now;
	return since;
}

static void worker_take(struct net *net, struct worker *worker)
{
	struct traces *traces = &net->traces;
	struct trace_record record;
	uint64_t lost;

	/* Bounded: the worker may add as fast as this takes. */
	for (unsigned int i = 0; i < TRACE_ENTRIES; i++) {
		memset(&record, 0, sizeof(record));
		if (!trace_take(&worker->trace, &record.entry))
			break;
		record.worker = worker->number;
		record_name(&record, conn_registry_find(&net->registry, record.entry.client));
		if (record.entry.sampled)
			trace_log_add(&traces->sample, &record);
		if (!record.entry.slow)
			continue;
		trace_log_add(&traces->slow, &record);
		stat_add(&net->stats.slow_requests, 1);
		record_say(&record);
	}
	traces->sample.next += lost_since(&traces->sampled_lost[worker->number],
					  &worker->trace.sampled_lost);
	lost = lost_since(&traces->slow_lost[worker->number], &worker->trace.slow_lost);
	traces->slow.next += lost;
	stat_add(&net->stats.slow_requests, lost);
}

void traces_take(struct net *net)
{
	for (unsigned int i = 0; i < net->worker_count; i++)
		worker_take(net, &net->workers[i]);
}

void traces_renew(struct net *net)
{
	for (unsigned int i = 0; i < net->worker_count; i++)
		stat_set(&net->workers[i].trace.slow_ns, net->env.config->log.slow);
}
