/* SPDX-License-Identifier: MIT */
/* Checks HELLO, has remote read granted, and sends the welcome. */
#include "server/worker/hello.h"

#include <string.h>

#include "common/sum.h"
#include "server/fleet/fleet.h"
#include "server/worker/answers.h"
#include "server/worker/grant.h"
#include "server/worker/query.h"
#include "server/worker/window.h"
#include "server/worker/worker.h"

/* The word is that of the region: the client's next one is READ from there. */
static void welcome_fill_fleet(struct wire_welcome *welcome, const struct fleet *fleet,
			       const struct fleet_word *word)
{
	welcome->fleet_generation = word->generation;
	welcome->fleet_epoch = word->epoch;
	welcome->fleet_end_ns = word->end_ns;
	memcpy(welcome->fleet_member, fleet->id, FLEET_NAME_MAX);
}

static void welcome_fill(struct wire_welcome *welcome, struct conn *conn,
			 const struct fleet_word *word)
{
	const struct poller *poller = conn->poller;
	const struct table *table = conn->client.part->thread.table;
	const struct config *config = poller->worker->env->config;
	bool evicts = config->memory.eviction != EVICTION_NONE;

	*welcome = (struct wire_welcome){
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = window_welcome(conn),
		.request_bytes = poller->limits.buffer_bytes,
		.by_request = conn->query.by_request,
		.access_rate = evicts ? config->memory.access_rate : 0,
		.access_delay_ms = ACCESS_DELAY_MS,
	};
	if (conn->answers) {
		welcome->change_last = conn->answers->last;
		welcome->answers = ANSWERS_MAX;
		welcome->identity_known = conn->query.hello.known;
	}
	if (conn->client.fleet)
		welcome_fill_fleet(welcome, conn->client.fleet, word);
	index_geometry(table, &welcome->geometry);
	/*
	 * Only for a client that may READ: with the seed one finds keys that fall into one bucket.
	 */
	if (conn->query.by_request) {
		welcome->geometry.hash_seed = 0;
		welcome->geometry.sum = geometry_sum(&welcome->geometry);
		return;
	}
	welcome->extents = conn->extents;
	welcome->region_addr = (uintptr_t)table->region->base;
	welcome->sum_key = table->region->sum_key;
	welcome->extent_bytes = table->region->extent_bytes;
	grant_keys(conn, welcome->rkeys);
}

/* A HELLO has a number if, and only if, it has an identity. */
static bool identity_is_valid(const struct wire_hello *hello)
{
	static const uint8_t none[WIRE_IDENTITY_BYTES];
	bool has = memcmp(hello->identity, none, sizeof(none));

	return has ? (uint32_t)hello->change_next != 0 : !hello->change_next;
}

static enum piece_next hello_check(struct deferred *deferred, struct response_list *responses)
{
	uint32_t bytes_max = responses->poller->limits.buffer_bytes;
	struct conn *conn = deferred->conn;
	struct wire_hello hello;

	memcpy(&hello, deferred->request.value, sizeof(hello));
	if (hello.magic != WIRE_MAGIC || hello_done(conn) ||
	    hello.response_bytes < WIRE_RESPONSE_MIN || hello.response_bytes > WIRE_RESPONSE_MAX ||
	    !identity_is_valid(&hello)) {
		conn_fail(conn,
			  "HELLO with values that the protocol does not allow, or a second HELLO");
		return PIECE_DONE;
	}
	if (hello.abi != WIRE_ABI) {
		response_start(responses, conn, WIRE_HELLO, deferred->request.id)->head.status =
			WIRE_PROTOCOL;
		return PIECE_DONE;
	}
	conn->response_bytes = hello.response_bytes < bytes_max ? hello.response_bytes : bytes_max;
	atomic_store_explicit(&conn->hello_taken, true, memory_order_relaxed);
	conn->query.hello = (struct hello_query){ .change_next = hello.change_next };
	memcpy(conn->query.hello.identity, hello.identity, sizeof(hello.identity));
	query_send(conn, WIRE_HELLO, 0);
	deferred->query.asked = true;
	return PIECE_WAIT;
}

/* From now on the client may read the region, if its user may: the welcome says where it is. */
static void hello_welcome(struct deferred *deferred, struct response_list *responses,
			  const struct fleet_word *word)
{
	struct conn *conn = deferred->conn;
	struct wire_welcome welcome;
	struct response_wr *response;
	uint32_t size;
	void *value;

	response = response_start(responses, conn, WIRE_HELLO, deferred->request.id);
	value = response_buffer(responses, response, &size);
	if (!value)
		return;
	welcome_fill(&welcome, conn, word);
	memcpy(value, &welcome, sizeof(welcome));
	explicit_bzero(&welcome.sum_key, sizeof(welcome.sum_key));
	response->value_len = sizeof(welcome);
	atomic_store_explicit(&conn->hello_done, true, memory_order_relaxed);
	client_attach(&conn->client);
}

/* False: the client says that it has never sent a change that was answered. */
static bool hello_identify(struct conn *conn)
{
	const struct hello_query *hello = &conn->query.hello;

	if (hello->answers && hello->answers->last >= hello->change_next) {
		conn_fail(conn, "HELLO with a number of changes that is below one executed before");
		return false;
	}
	conn->answers = hello->answers;
	conn->change_admitted = hello->answers ? hello->answers->last : 0;
	return true;
}

static enum piece_next hello_step(struct deferred *deferred, struct response_list *responses,
				  uint64_t until_ns)
{
	struct conn *conn = deferred->conn;
	struct fleet_word word;

	(void)until_ns;
	if (!deferred->query.asked)
		return hello_check(deferred, responses);
	if (!conn->query.answered)
		return PIECE_WAIT;
	/* The fleet's thread may just be writing it. */
	if (conn->client.fleet && !store_word(conn->client.part->store, &word))
		return PIECE_AGAIN;
	if (!conn->query.granted)
		conn_fail(conn, "the device did not grant remote read");
	else if (hello_identify(conn) && (conn->query.by_request || grant_bind(conn)))
		hello_welcome(deferred, responses, &word);
	return PIECE_DONE;
}

const struct deferred_kind hello_kind = { .step = hello_step };
