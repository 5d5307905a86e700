/* SPDX-License-Identifier: MIT */
#include "server/control/session_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/config/config.h"
#include "server/config/version.h"
#include "server/users/users.h"

#define THREADS_SUM(store, field) table_sum(&(store)->table, offsetof(struct store_thread, field))

/* Connections in `stats conns`, so that it takes no longer than others; `kvctl clients` has all. */
#define CONNECTIONS_SHOWN 1024

static void text(FILE *out, const char *name, const char *value)
{
	fprintf(out, "STAT %s %s\r\n", name, value);
}

static void number(FILE *out, const char *name, uint64_t value)
{
	fprintf(out, "STAT %s %" PRIu64 "\r\n", name, value);
}

static void seconds(FILE *out, const char *name, const struct timeval *time)
{
	fprintf(out, "STAT %s %lld.%06ld\r\n", name, (long long)time->tv_sec, (long)time->tv_usec);
}

static const char *yes_no(bool yes)
{
	return yes ? "yes" : "no";
}

/* The sums over all workers, those that went included. */
static void counters_read(const struct tenant *tenant, struct mc_counters *sums)
{
	*sums = (struct mc_counters){ 0 };
	for (unsigned int i = 0; i < WORKERS_MAX && tenant->now.parts[i]; i++) {
		const struct mc_counters *counters = &tenant->now.parts[i]->commands;

#define X(name, help) sums->name += stat_read(&counters->name);
		MC_COUNTERS(X)
#undef X
	}
}

/* Since `stats reset`; a tenant of another size counts anew. */
static uint64_t since(uint64_t count, uint64_t reset)
{
	return count < reset ? count : count - reset;
}

static void process_stats(FILE *out, const struct net *net)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	number(out, "pid", (uint64_t)getpid());
	number(out, "uptime", (clock_ns() - net->made_ns) / 1000000000u);
	number(out, "time", (uint64_t)time(NULL));
	text(out, "version", "1.6.18-kvd-" KVD_SERVER_VERSION);
	number(out, "pointer_size", 8 * sizeof(void *));
	seconds(out, "rusage_user", &usage.ru_utime);
	seconds(out, "rusage_system", &usage.ru_stime);
	number(out, "threads", net->worker_count);
}

/* Connections of all kinds, as server.max_connections counts them. */
static void connection_stats(FILE *out, const struct net *net)
{
	number(out, "max_connections", net->env.config->server.max_connections);
	number(out, "curr_connections", stat_read(&net->stats.connections));
	number(out, "total_connections", stat_read(&net->stats.connections_total));
	number(out, "rejected_connections", stat_read(&net->stats.connections_rejected));
	number(out, "accepting_conns", !net->stopping);
	/* kvd never stops listening. */
	number(out, "listen_disabled_num", 0);
	number(out, "time_in_listen_disabled_us", 0);
}

static void store_stats(FILE *out, const struct store *store)
{
	number(out, "limit_maxbytes", stat_read(&store->region.bytes));
	number(out, "bytes", THREADS_SUM(store, stats.live_bytes));
	number(out, "curr_items", store_items(store));
	number(out, "total_items",
	       THREADS_SUM(store, stats.inserts) + THREADS_SUM(store, stats.replaces_in_place) +
		       THREADS_SUM(store, stats.replaces_elsewhere));
	number(out, "evictions", THREADS_SUM(store, stats.evictions));
	number(out, "reclaimed", THREADS_SUM(store, stats.expired));
	number(out, "hash_bytes", index_buckets(&store->table) * BUCKET_BYTES);
}

static void general_stats(FILE *out, const struct net *net, const struct tenant *tenant)
{
	const struct mc_counters *reset = &tenant->mc_reset;
	struct mc_counters sums;

	process_stats(out, net);
	connection_stats(out, net);
	counters_read(tenant, &sums);
#define X(name, help) number(out, #name, since(sums.name, reset->name));
	MC_COUNTERS(X)
#undef X
	store_stats(out, tenant->now.store);
}

static void settings_stats(FILE *out, const struct net *net, const struct session *session)
{
	const struct config *config = net->env.config;
	const struct store *store = session->client.part->store;

	number(out, "maxbytes", stat_read(&store->region.bytes));
	number(out, "maxconns", config->server.max_connections);
	text(out, "domain_socket", session->client.peer.uid_known ? "yes" : "NULL");
	text(out, "evictions", store->table.eviction == EVICTION_NONE ? "off" : "on");
	number(out, "item_size_max", config_value_max(config));
	number(out, "num_threads", net->worker_count);
	text(out, "cas_enabled", "yes");
	text(out, "auth_enabled_sasl", "no");
	text(out, "auth_enabled_ascii",
	     net->users && net->users->with_password ? config->users.file : "no");
	text(out, "flush_enabled", "yes");
	text(out, "binding_protocol", "ascii");
	text(out, "shutdown_command", "no");
	number(out, "idle_timeout", config->memcached.idle_timeout / 1000000000u);
	text(out, "evictions_by", eviction_policy_name(store->table.eviction));
	text(out, "hugepages", yes_no(stat_read(&store->region.large_bytes)));
}

/* No statistics of slab classes: kvd's sizes are in `kvctl stats`. */
static void slabs_stats(FILE *out, const struct store *store)
{
	number(out, "total_malloced", memory_bytes(store->memory));
}

static void connections_stats(FILE *out, const struct net *net, const struct session *asks)
{
	const struct tenant *tenant = asks->client.part->tenant;
	uint64_t now_ns = store_clock_ns(tenant->now.store), active_ns;
	const bool all = client_sees_others(&asks->client);
	unsigned int left = CONNECTIONS_SHOWN;
	const struct session *session;
	const struct cm_peer *peer;

	LIST_FOREACH(session, &net->sessions, entry) {
		if (session->client.part->tenant != tenant ||
		    !(all || principal_is(session->client.principal, asks->client.principal)))
			continue;
		if (!left--)
			break;
		active_ns = stat_read(&session->client.active_ns);
		peer = &session->client.peer;
		fprintf(out, "STAT %d:addr %s:%s\r\n", session->fd,
			peer->uid_known ? "unix" : "tcp", peer->address);
		fprintf(out, "STAT %d:state conn_read\r\n", session->fd);
		fprintf(out, "STAT %d:secs_since_last_cmd %" PRIu64 "\r\n", session->fd,
			active_ns && active_ns < now_ns ? (now_ns - active_ns) / 1000000000u : 0);
	}
}

/* False: there are no such statistics. */
static bool print(FILE *out, struct net *net, const struct session *session)
{
	struct tenant *tenant = session->client.part->tenant;
	const char *name = session->query->name;

	if (!*name)
		general_stats(out, net, tenant);
	else if (!strcmp(name, "settings"))
		settings_stats(out, net, session);
	else if (!strcmp(name, "slabs"))
		slabs_stats(out, tenant->now.store);
	else if (!strcmp(name, "conns"))
		connections_stats(out, net, session);
	else if (!strcmp(name, "sizes"))
		text(out, "sizes_status", "disabled");
	else
		/* There are no classes to show items of: an empty list. */
		return !strcmp(name, "items") || !strcmp(name, "cachedump");
	return true;
}

void session_stats_answer(struct net *net, struct session *session)
{
	struct session_query *query = session->query;
	struct tenant *tenant = session->client.part->tenant;
	FILE *out = open_memstream(&query->text, &query->len);

	if (!out)
		return;
	if (!strcmp(query->name, "reset") && !client_sees_others(&session->client)) {
		fputs("CLIENT_ERROR the user needs the right 'admin' for this\r\n", out);
	} else if (!strcmp(query->name, "reset")) {
		counters_read(tenant, &tenant->mc_reset);
		fputs("RESET\r\n", out);
	} else {
		fputs(print(out, net, session) ? "END\r\n" : "ERROR\r\n", out);
	}
	if (fclose(out)) {
		free(query->text);
		query->text = NULL;
	}
}
