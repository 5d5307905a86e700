/* SPDX-License-Identifier: MIT */
/* Requests that concern a whole server, or fleet: statistics, connections, flushes, drains. */
#include <string.h>
#include <time.h>

#include "client/libkvd/engine.h"
#include "client/libkvd/fleet.h"
#include "client/libkvd/fleet_links.h"
#include "client/libkvd/handle.h"
#include "common/util/clock.h"

/*
 * Pauses between two tries of a request that is answered BUSY or LIMIT: the first, and the longest.
 */
#define PAUSE_MS_MIN 1
#define PAUSE_MS_MAX 20

struct tries {
	uint64_t until_ns;
	unsigned int pause_ms;
};

static void tries_begin(struct tries *tries, const struct kvd *handle)
{
	tries->until_ns = clock_ns() + handle->options.timeout_ms * 1000000ull;
	tries->pause_ms = PAUSE_MS_MIN;
}

/* Pauses before the next try, or returns false: timeout_ms has passed. */
static bool tries_pause(struct tries *tries)
{
	struct timespec pause = { .tv_nsec = tries->pause_ms * 1000000l };

	if (clock_ns() >= tries->until_ns)
		return false;
	nanosleep(&pause, NULL);
	tries->pause_ms *= 2;
	if (tries->pause_ms > PAUSE_MS_MAX)
		tries->pause_ms = PAUSE_MS_MAX;
	return true;
}

static bool is_worth_a_try(enum kvd_status status)
{
	return status == KVD_ERR_BUSY || status == KVD_ERR_LIMIT;
}

/*
 * Asks for a page of a text. If the server refuses a page after the first one, it is asked for
 * again: the earlier pages would have been useless.
 */
static enum kvd_status page_read(struct kvd *handle, struct rpc *rpc, bool first,
				 struct response *response)
{
	enum kvd_status status;
	struct tries tries;

	tries_begin(&tries, handle);
	do {
		handle->deadline_ns = 0;
		status = rpc_call(handle, rpc, response);
	} while (is_worth_a_try(status) && !first && tries_pause(&tries));
	return status;
}

/*
 * Reads a text that may take several responses: each has as many lines as fit, and says where the
 * next ones begin. @op is STATS, CLIENTS, TENANT, WHOAMI, REPORT or CONFIG, with @mode; @name is
 * what the text is called, with its verb.
 */
static enum kvd_status text_read_mode(struct kvd *handle, enum wire_op op, uint8_t mode,
				      const char *name, const char *verb, char *text, size_t size,
				      size_t *len)
{
	struct rpc rpc = { .on_loss = LOSS_REPEATS, .head = { .op = (uint8_t)op, .mode = mode } };
	struct response response;
	enum kvd_status status;
	uint64_t at = 0, next;
	size_t used = 0;

	if (!text || !size)
		return handle_fail(handle, KVD_ERR_INVALID, "no room for the %s", name);
	do {
		status = page_read(handle, &rpc, !at, &response);
		if (status)
			return status;
		if (response.value_len >= size - used)
			return handle_fail(handle, KVD_ERR_BUFFER, "the %s %s more than %zu bytes",
					   name, verb, size);
		memcpy(text + used, response.value, response.value_len);
		used += response.value_len;
		next = op == WIRE_STATS	 ? response.next_line :
		       op == WIRE_WHOAMI ? 0 :
					   response.cursor;
		/* Or a server could keep this loop running for ever. */
		if (next && next <= at)
			return handle_fail(handle, KVD_ERR_PROTOCOL,
					   "the server at %s sent the same %s twice",
					   handle->dev->address, name);
		at = next;
		/* Another connection does not have the rest of it. */
		rpc.on_loss = LOSS_FAILS;
		if (op == WIRE_STATS)
			rpc.head.first_line = response.next_line;
		else
			rpc.head.cursor = response.cursor;
	} while (next);
	text[used] = '\0';
	if (len)
		*len = used;
	return KVD_OK;
}

static enum kvd_status text_read(struct kvd *handle, enum wire_op op, const char *name,
				 const char *verb, char *text, size_t size, size_t *len)
{
	return text_read_mode(handle, op, 0, name, verb, text, size, len);
}

enum kvd_status kvd_server_stats(struct kvd *handle, char *text, size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status :
			call_end(handle, text_read(handle, WIRE_STATS, "statistics", "need", text,
						   size, len));
}

enum kvd_status kvd_client_list(struct kvd *handle, char *text, size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status :
			call_end(handle,
				 text_read(handle, WIRE_CLIENTS, "list", "needs", text, size, len));
}

enum kvd_status kvd_client_kill(struct kvd *handle, uint64_t id)
{
	enum kvd_status status = call_begin_server(handle);
	struct rpc rpc = { .on_loss = LOSS_SERVER, .head = { .op = WIRE_KILL, .client = id } };
	struct response response;

	return status ? status : call_end(handle, rpc_call(handle, &rpc, &response));
}

/* The loss of the connection may be the server's end, so the request is not repeated. */
static enum kvd_status shutdown_ask(struct kvd *handle)
{
	struct rpc rpc = { .on_loss = LOSS_FAILS, .head = { .op = WIRE_SHUTDOWN } };
	struct response response = { 0 };

	return rpc_call(handle, &rpc, &response);
}

enum kvd_status kvd_shutdown(struct kvd *handle)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status : call_end(handle, shutdown_ask(handle));
}

enum kvd_status kvd_whoami(struct kvd *handle, char *text, size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status :
			call_end(handle,
				 text_read(handle, WIRE_WHOAMI, "text", "needs", text, size, len));
}

enum kvd_status kvd_server_report(struct kvd *handle, enum kvd_report report, char *text,
				  size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	if (status)
		return status;
	if (report < KVD_REPORT_SLOW || report > KVD_REPORT_PROCESS ||
	    (int)report == WIRE_REPORT_SAMPLE)
		return call_end(handle, handle_fail(handle, KVD_ERR_INVALID,
						    "there is no such report: see kvd_report"));
	return call_end(handle, text_read_mode(handle, WIRE_REPORT, (uint8_t)report, "report",
					       "needs", text, size, len));
}

static enum kvd_status sample(struct kvd *handle, uint32_t every, uint64_t *cursor, char *text,
			      size_t size, size_t *len)
{
	struct rpc rpc = {
		.on_loss = LOSS_REPEATS,
		.head = {
			.op = WIRE_REPORT,
			.mode = WIRE_REPORT_SAMPLE,
			.every = every,
			.cursor = *cursor,
		},
	};
	struct response response;
	enum kvd_status status = rpc_call(handle, &rpc, &response);

	if (status)
		return status;
	if (response.value_len >= size)
		return handle_fail(handle, KVD_ERR_BUFFER, "the sample needs more than %zu bytes",
				   size);
	memcpy(text, response.value, response.value_len);
	text[response.value_len] = '\0';
	*cursor = response.cursor;
	if (len)
		*len = response.value_len;
	return KVD_OK;
}

enum kvd_status kvd_sample(struct kvd *handle, uint32_t every, uint64_t *cursor, char *text,
			   size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	if (status)
		return status;
	if (!cursor || !text || !size || !every)
		return call_end(handle,
				handle_fail(handle, KVD_ERR_INVALID,
					    "a sample needs a cursor, room for the text, and every "
					    "how many operations"));
	return call_end(handle, sample(handle, every, cursor, text, size, len));
}

enum kvd_status kvd_tenant_list(struct kvd *handle, char *text, size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status :
			call_end(handle,
				 text_read(handle, WIRE_TENANT, "list", "needs", text, size, len));
}

/* As rpc_call(). If the server says why it refuses, that is the error's text. */
static enum kvd_status call_that_says_why(struct kvd *handle, struct rpc *rpc,
					  struct response *response)
{
	enum kvd_status status;

	memset(response, 0, sizeof(*response));
	status = rpc_call(handle, rpc, response);
	if (status && response->op == rpc->head.op && response->value_len)
		return handle_fail(handle, status, "%.*s", (int)response->value_len,
				   (const char *)response->value);
	return status;
}

static enum kvd_status tenant_change(struct kvd *handle, enum wire_tenant mode, const char *name,
				     uint64_t bytes)
{
	size_t length = name ? strlen(name) : 0;
	struct rpc rpc = {
		.on_loss = LOSS_FAILS,
		.head = {
			.op = WIRE_TENANT,
			.mode = (uint8_t)mode,
			.bytes = bytes,
		},
		.key = name,
		.key_len = length,
	};
	struct response response;

	if (!length || length > WIRE_TENANT_MAX)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "the name of a tenant has 1 to %u bytes", WIRE_TENANT_MAX);
	return call_that_says_why(handle, &rpc, &response);
}

enum kvd_status kvd_tenant_create(struct kvd *handle, const char *name, uint64_t bytes)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status :
			call_end(handle, tenant_change(handle, WIRE_TENANT_CREATE, name, bytes));
}

enum kvd_status kvd_tenant_resize(struct kvd *handle, const char *name, uint64_t bytes)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status :
			call_end(handle, tenant_change(handle, WIRE_TENANT_RESIZE, name, bytes));
}

enum kvd_status kvd_tenant_drop(struct kvd *handle, const char *name)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status : call_end(handle, tenant_change(handle, WIRE_TENANT_DROP, name, 0));
}

enum kvd_status kvd_config_get(struct kvd *handle, char *text, size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status :
			call_end(handle,
				 text_read(handle, WIRE_CONFIG, "list", "needs", text, size, len));
}

static enum kvd_status config_set(struct kvd *handle, const char *assignments)
{
	struct rpc rpc = {
		.on_loss = LOSS_FAILS,
		.head = { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_SET },
		.key = assignments,
		.key_len = assignments ? strlen(assignments) : 0,
	};
	struct response response;

	if (!rpc.key_len || rpc.key_len > KVD_KEY_MAX)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "the options to set have 1 to %u bytes together: set some of "
				   "them first, or change the server's file and send it SIGHUP",
				   KVD_KEY_MAX);
	return call_that_says_why(handle, &rpc, &response);
}

enum kvd_status kvd_config_set(struct kvd *handle, const char *assignments)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status : call_end(handle, config_set(handle, assignments));
}

static enum kvd_status config_rewrite(struct kvd *handle, char *text, size_t size, size_t *len)
{
	struct rpc rpc = {
		.on_loss = LOSS_FAILS,
		.head = { .op = WIRE_CONFIG, .mode = WIRE_CONFIG_REWRITE },
	};
	struct response response;
	enum kvd_status status;

	if (!text || !size)
		return handle_fail(handle, KVD_ERR_INVALID, "no room for the text");
	status = call_that_says_why(handle, &rpc, &response);
	if (status)
		return status;
	if (response.value_len >= size)
		return handle_fail(handle, KVD_ERR_BUFFER,
				   "the file was written; the text needs more than %zu bytes",
				   size);
	memcpy(text, response.value, response.value_len);
	text[response.value_len] = '\0';
	if (len)
		*len = response.value_len;
	return KVD_OK;
}

enum kvd_status kvd_config_rewrite(struct kvd *handle, char *text, size_t size, size_t *len)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status : call_end(handle, config_rewrite(handle, text, size, len));
}

static const char revoke_whom[] =
	"that names no client: use user=NAME, identity=NAME, uid=N, addr=ADDRESS or id=N";

/*
 * BUSY: some are being closed, but are not cut off yet. The first of these answers has the number
 * of those that are closed; at a later one they may be gone.
 */
static enum kvd_status revoke(struct kvd *handle, const char *who, uint64_t *closed)
{
	struct rpc rpc = {
		.on_loss = LOSS_REPEATS,
		.head = { .op = WIRE_REVOKE },
		.key = who,
		.key_len = strlen(who),
	};
	struct response response = { 0 };
	enum kvd_status status;
	struct tries tries;
	bool begun = false;

	tries_begin(&tries, handle);
	do {
		handle->deadline_ns = 0;
		status = rpc_call(handle, &rpc, &response);
		begun |= status == KVD_ERR_BUSY;
		if (response.result > *closed)
			*closed = response.result;
	} while (begun && is_worth_a_try(status) && tries_pause(&tries));
	if (status == KVD_ERR_INVALID)
		return handle_fail(handle, status, "%s", revoke_whom);
	/* LIMIT would say that nothing was done. */
	if (begun && status == KVD_ERR_LIMIT)
		return handle_fail(handle, KVD_ERR_BUSY,
				   "connections were closed, but this client is over its limit, "
				   "and can't learn whether they are cut off; try again later");
	return status == KVD_NOT_FOUND && *closed ? KVD_OK : status;
}

enum kvd_status kvd_revoke(struct kvd *handle, const char *who, uint64_t *closed)
{
	enum kvd_status status = call_begin_server(handle);
	uint64_t count = 0;

	if (status)
		return status;
	if (!who || !*who || strlen(who) > KVD_KEY_MAX)
		return call_end(handle, handle_fail(handle, KVD_ERR_INVALID, "%s", revoke_whom));
	status = revoke(handle, who, &count);
	if (closed)
		*closed = count;
	return call_end(handle, status);
}

static enum kvd_status flush_start(struct kvd *handle, uint32_t delay_s, uint64_t *ticket)
{
	struct rpc rpc = { .head = { .op = WIRE_FLUSH, .ttl = delay_s } };
	enum kvd_status status = ttl_check(handle, delay_s);
	struct response response;

	if (!status)
		status = rpc_call(handle, &rpc, &response);
	if (status == KVD_ERR_BUSY && delay_s)
		return handle_fail(handle, status,
				   "at most %d flushes with a delay of this client and %d of all "
				   "may wait: cancel one (kvctl flush --cancel, "
				   "kvd_flush_cancel())",
				   WIRE_FLUSHES_OWNER_MAX, WIRE_FLUSHES_LATER_MAX);
	if (status)
		return status;
	if (!response.ticket)
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "the server at %s sent no ticket for a flush",
				   handle->dev->address);
	if (ticket)
		*ticket = response.ticket;
	return KVD_OK;
}

enum kvd_status kvd_flush_start(struct kvd *handle, uint32_t delay_s, uint64_t *ticket)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status : call_end(handle, flush_start(handle, delay_s, ticket));
}

enum kvd_status kvd_flush_done(struct kvd *handle, uint64_t ticket)
{
	enum kvd_status status = call_begin_server(handle);
	struct rpc rpc = {
		.on_loss = LOSS_REPEATS,
		.head = { .op = WIRE_FLUSH, .ticket = ticket },
	};
	struct response response;

	if (status)
		return status;
	if (!ticket)
		return call_end(handle, handle_fail(handle, KVD_ERR_INVALID,
						    "0 is not a ticket: use the one from "
						    "kvd_flush_start()"));
	return call_end(handle, rpc_call(handle, &rpc, &response));
}

enum kvd_status kvd_flush_cancel(struct kvd *handle, uint64_t ticket, int any_owner,
				 uint64_t *cancelled)
{
	enum kvd_status status = call_begin_server(handle);
	struct rpc rpc = {
		.on_loss = LOSS_REPEATS,
		.head = {
			.op = WIRE_FLUSH,
			.mode = any_owner ? WIRE_FLUSH_CANCEL_ANY : WIRE_FLUSH_CANCEL,
			.ticket = ticket,
		},
	};
	struct response response;

	if (status)
		return status;
	status = rpc_call(handle, &rpc, &response);
	if (!status && cancelled)
		*cancelled = response.result;
	return call_end(handle, status);
}

static enum kvd_status flush_all(struct kvd *handle)
{
	enum kvd_status status;
	uint64_t ticket, incarnation;
	struct tries tries;

	status = kvd_flush_start(handle, 0, &ticket);
	if (status)
		return status;
	incarnation = handle->geometry.incarnation;
	tries_begin(&tries, handle);
	do {
		status = kvd_flush_done(handle, ticket);
		/* What was stored before the flush is gone with the server that had it. */
		if (status == KVD_ERR_BUSY && handle->geometry.incarnation != incarnation)
			return KVD_OK;
		if (!is_worth_a_try(status))
			return status;
	} while (tries_pause(&tries));
	return handle_error_set(handle, KVD_ERR_TIMEOUT,
				"the flush was not done within timeout_ms; it goes on");
}

/* KVD_ERR_MOVED: the member has a map of another epoch than the fleet's handle. */
static enum kvd_status epoch_check(struct kvd *member)
{
	enum kvd_status status;
	uint64_t epoch;

	status = member_epoch(member, &epoch);
	if (status || epoch == fleet_epoch(member->member.home))
		return status;
	return handle_error_set(member, KVD_ERR_MOVED, "the fleet's map changed during the flush");
}

/* FLEET-14: at one epoch, from begin to end. */
static enum kvd_status member_flush(struct kvd *member)
{
	enum kvd_status status = epoch_check(member);

	if (!status)
		status = flush_all(member);
	return status ? status : epoch_check(member);
}

/* What another member flushed before its shards were given to it stays: then all flush again. */
static enum kvd_status fleet_flush(struct kvd *handle)
{
	uint64_t until_ns = clock_ns() + handle->options.timeout_ms * 1000000ull;
	enum kvd_status status = fleet_settle(handle);

	while (!status) {
		status = fleet_each(handle, member_flush, true);
		if (status != KVD_ERR_MOVED)
			break;
		if (!fleet_map_wait(handle, until_ns))
			return handle_error_set(handle, KVD_ERR_TIMEOUT,
						"the fleet's map kept changing during the flush: "
						"flush again");
		status = KVD_OK;
	}
	/* Which connection was lost does not matter to a fleet. */
	return status == KVD_ERR_DISCONNECTED ? KVD_ERR_AWAY : status;
}

enum kvd_status kvd_flush_all(struct kvd *handle)
{
	enum kvd_status status;

	if (!handle || !handle->fleet)
		return flush_all(handle);
	status = call_begin(handle);
	return status ? status : call_end(handle, fleet_flush(handle));
}

/* Why the fleet was not changed, where the member's answer alone does not say it. */
static enum kvd_status change_failed(struct kvd *home, enum kvd_status status, const char *id)
{
	if (status == KVD_NOT_FOUND)
		return handle_error_set(home, status, "the fleet has no member %s", id);
	if (status == KVD_ERR_BUSY)
		return handle_error_set(home, status,
					"the fleet's map did not change within timeout_ms, but may "
					"still: do its members reach etcd (kvctl fleet status)?");
	return status == KVD_ERR_DISCONNECTED ? KVD_ERR_AWAY : status;
}

/* The members of a try: one that is up, else one after another. */
static struct kvd *member_choose(struct kvd *home, uint32_t tries)
{
	uint32_t at = 0;
	struct kvd *member;

	while ((member = home->fleet_ops->next(home, &at)))
		if (member->up && !connection_is_silent(&member->conn))
			return member;
	return fleet_member(home, tries % fleet_members(home));
}

static enum kvd_status member_change(struct kvd *member, struct rpc *rpc)
{
	struct response response = { 0 };
	enum kvd_status status;

	member->deadline_ns = 0;
	status = rpc_call(member, rpc, &response);
	/* What the members have done since the first answer counts: enum wire_fleet. */
	if (status == KVD_ERR_BUSY && !rpc->head.epoch)
		rpc->head.epoch = response.epoch;
	return status ? member_failed(member, status) : KVD_OK;
}

/* Asks until one has done it, whose map the handle then gets. */
static enum kvd_status fleet_change(struct kvd *home, enum wire_fleet what, const char *id)
{
	struct rpc rpc = {
		.on_loss = LOSS_REPEATS,
		.head = { .op = WIRE_FLEET, .mode = (uint8_t)what },
		.key = id,
		.key_len = id ? strlen(id) : 0,
	};
	struct kvd *member;
	enum kvd_status status;
	struct tries tries;
	uint32_t n = 0;

	tries_begin(&tries, home);
	do {
		member = member_choose(home, n++);
		status = member ? member_change(member, &rpc) : KVD_ERR_DISCONNECTED;
	} while ((is_worth_a_try(status) || status == KVD_ERR_AWAY ||
		  status == KVD_ERR_DISCONNECTED) &&
		 tries_pause(&tries));
	if (!status)
		fleet_map_wait(home, tries.until_ns);
	return change_failed(home, status, id);
}

static enum kvd_status change_begin(struct kvd *handle)
{
	enum kvd_status status = call_begin(handle);

	if (status)
		return status;
	status = fleet_check(handle);
	return status ? call_end(handle, status) : KVD_OK;
}

static enum kvd_status change_of(struct kvd *handle, enum wire_fleet what, const char *id)
{
	enum kvd_status status = change_begin(handle);

	if (status)
		return status;
	if (!id || !*id || strlen(id) > WIRE_TENANT_MAX)
		return call_end(handle, handle_error_set(handle, KVD_ERR_INVALID,
							 "the name of a member has 1 to %u bytes",
							 WIRE_TENANT_MAX));
	return call_end(handle, fleet_change(handle, what, id));
}

enum kvd_status kvd_fleet_drain(struct kvd *handle, const char *id)
{
	return change_of(handle, WIRE_FLEET_DRAIN, id);
}

enum kvd_status kvd_fleet_undrain(struct kvd *handle, const char *id)
{
	return change_of(handle, WIRE_FLEET_UNDRAIN, id);
}

enum kvd_status kvd_fleet_rebalance(struct kvd *handle)
{
	enum kvd_status status = change_begin(handle);

	return status ? status : call_end(handle, fleet_change(handle, WIRE_FLEET_REBALANCE, NULL));
}
