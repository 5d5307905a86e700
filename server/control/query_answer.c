/* SPDX-License-Identifier: MIT */
/* Grants remote read, lists connections, finds the one to close, and says who a client is. */
#include "server/control/query_answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/control/query_text.h"
#include "server/control/report.h"
#include "server/memcached/session.h"
#include "server/worker/audit.h"
#include "server/worker/conn.h"
#include "server/worker/grant.h"
#include "server/worker/permit.h"

#define LINE_MAX_BYTES 896
static_assert(LINE_MAX_BYTES + sizeof(struct wire_response) <= WIRE_RESPONSE_MIN,
	      "a response has room for a line");
#define NS_PER_S 1000000000u

static const char *state_name(struct client *client)
{
	const struct conn *conn;

	if (client_is_session(client))
		return session_of(client)->is_cut ? "closing" : "open";
	conn = client_conn(client);
	if (conn->stage != CONN_LIVE)
		return "closing";
	return atomic_load_explicit(&conn->hello_done, memory_order_relaxed) ? "open" : "hello";
}

/* The worker stores its clock with each batch, so @then_ns may be later than @now_ns. */
static uint64_t seconds_since(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? (now_ns - then_ns) / NS_PER_S : 0;
}

/* Writes the client's line to @line; returns its length. A session has no window. */
static uint32_t print_client(const struct net *net, struct client *client, char *line)
{
	uint64_t age_s = seconds_since(client->connected_ns, clock_ns());
	uint64_t active_ns = stat_read(&client->active_ns);
	uint64_t idle_s = seconds_since(active_ns, store_clock_ns(net->env.store));
	char uid[24] = "", identity[sizeof(" identity=") + TLS_IDENTITY_MAX] = "";
	char name[sizeof(" user=") + USER_NAME_MAX] = "";
	const struct user *user = client_user(client);
	struct conn *conn = client_is_session(client) ? NULL : client_conn(client);
	int n;

	if (client->peer.uid_known)
		snprintf(uid, sizeof(uid), " uid=%u", (unsigned int)client->peer.uid);
	if (client->peer.identity)
		snprintf(identity, sizeof(identity), " identity=%s", client->peer.identity);
	if (user)
		snprintf(name, sizeof(name), " user=%s", user->name);
	n = snprintf(line, LINE_MAX_BYTES,
		     "id=%" PRIu64 " device=%s addr=%s%s%s%s worker=%u state=%s age=%" PRIu64
		     " idle=%" PRIu64 " requests=%" PRIu64 " received=%" PRIu64 " sent=%" PRIu64
		     " window=%" PRIu64 "\n",
		     client->number, conn ? conn_device_name(conn) : "memcached",
		     client->peer.address, uid, identity, name, client->worker->number,
		     state_name(client), age_s, active_ns ? idle_s : age_s,
		     stat_read(&client->requests), stat_read(&client->received_bytes),
		     stat_read(&client->sent_bytes), conn ? stat_read(&conn->window_shown) : 0);
	return n < LINE_MAX_BYTES ? (uint32_t)n : LINE_MAX_BYTES - 1;
}

/* The cursor is the first slot wanted: 0 at the start of the list, and after its end. */
static void answer_clients(const struct net *net, struct query *query)
{
	uint32_t count = net->registry.count, len, slot, at, end;
	struct client *client;
	char line[LINE_MAX_BYTES];

	slot = query->arg < count ? (uint32_t)query->arg : count;
	end = slot + QUERY_SLOTS_MAX;
	while (slot < count && slot < end) {
		at = slot;
		client = conn_registry_next(&net->registry, &at, end - slot);
		len = client ? print_client(net, client, line) : 0;
		if (len > query->size - query->len)
			break;
		memcpy(query->text + query->len, line, len);
		query->len += len;
		slot = at;
	}
	query->cursor = slot < count ? slot : 0;
}

static const char *const right_names[] = {
#define X(upper, name) name,
	USER_RIGHTS(X)
#undef X
};

/* Writes @rights to @text, like "read,write". */
static void print_rights(uint32_t rights, char *text)
{
	*text = '\0';
	for (unsigned int i = 0; i < USER_RIGHTS_COUNT; i++)
		if (rights & 1u << i)
			strcat(strcat(text, *text ? "," : ""), right_names[i]);
}

/* The client's user, if there is users.file, and what it may do. */
static void answer_whoami(const struct conn *conn, struct query *query)
{
	const struct user *user = client_user(&conn->client);
	const struct cm_peer *peer = &conn->client.peer;
	char rights[USER_RIGHTS_COUNT * 8];
	char line[LINE_MAX_BYTES];
	int n;

	print_rights(user ? user->rights : USER_ALL, rights);
	n = snprintf(line, sizeof(line), "user=%s rights=%s tenant=%s", user ? user->name : "",
		     rights, conn->client.part->tenant->name);
	if (user && (user->read.count || user->write.count))
		n += snprintf(line + n, sizeof(line) - (size_t)n,
			      " read_prefixes=%u write_prefixes=%u", user->read.count,
			      user->write.count);
	n += snprintf(line + n, sizeof(line) - (size_t)n, " addr=%s", peer->address);
	if (peer->uid_known)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " uid=%u",
			      (unsigned int)peer->uid);
	if (peer->identity)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " identity=%s", peer->identity);
	n += snprintf(line + n, sizeof(line) - (size_t)n, " id=%" PRIu64 "\n", conn->client.number);
	query->len = n < LINE_MAX_BYTES ? (uint32_t)n : LINE_MAX_BYTES - 1;
	memcpy(query->text, line, query->len);
}

/*
 * The client's current right counts: the file of users may have been read since the worker looked.
 * Without users only the owner of the server may stop it, not any client: all data would be lost.
 */
static void answer_shutdown(struct net *net, const struct conn *conn, struct query *query)
{
	static const struct request request = { .op = WIRE_SHUTDOWN };
	char why[PERMIT_WHY_BYTES] = "only root and the server's own user, on the Unix socket, may "
				     "stop a server that has no users (users.file)";
	const struct user *user = client_user(&conn->client);

	if (client_is_admin(&conn->client)) {
		log_ratelimited(LOG_NOTICE, 10, CONN_FMT ": %s asked the server to stop (SHUTDOWN)",
				CONN_ARG(conn), conn->client.principal->name);
		audit_admin(&conn->client, "SHUTDOWN", "", "ok");
		net->stop_asked = true;
		return;
	}
	if (user)
		(void)permit_why(user, &request, why);
	audit_admin(&conn->client, "SHUTDOWN", "", why);
	query_say(query, WIRE_NOT_ALLOWED, "%s", why);
}

struct client *query_answer(struct net *net, struct conn *conn)
{
	struct query *query = &conn->query;
	const struct user *user;
	struct client *kill = NULL;

	query->status = WIRE_OK;
	query->len = 0;
	query->cursor = 0;
	if (query->op == WIRE_HELLO) {
		user = client_user(&conn->client);
		query->by_request = user && !user_reads_all(user);
		query->granted = query->by_request || grant_allow(conn);
		return NULL;
	}
	if (query->op == WIRE_CLIENTS) {
		answer_clients(net, query);
		return NULL;
	}
	if (query->op == WIRE_WHOAMI) {
		answer_whoami(conn, query);
		return NULL;
	}
	if (query->op == WIRE_REPORT) {
		report_answer(net, conn, query);
		return NULL;
	}
	if (query->op == WIRE_SHUTDOWN) {
		answer_shutdown(net, conn, query);
		return NULL;
	}
	kill = conn_registry_find(&net->registry, query->arg);
	if (!kill)
		query->status = WIRE_NOT_FOUND;
	return kill;
}
