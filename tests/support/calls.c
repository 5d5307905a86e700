/* SPDX-License-Identifier: MIT */
/* The calls, with arguments that are right, and what they returned. */
#include "tests/support/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MANY 40u /* more than a call looks up at once */
#define UNTOUCHED 0x5555555555555555u

static const uint64_t keys[] = { 0, 1, 2, 3 };
static uint8_t found[CALLS_LARGE_BYTES], large[CALLS_LARGE_BYTES];
static struct {
	uint64_t version, number;
	size_t length;
	struct kvd_item item;
} results, untouched;
static enum kvd_status statuses[MANY];
static unsigned int status_count;

void calls_reset(void)
{
	memset(&results, 0x55, sizeof(results));
	memset(&untouched, 0x55, sizeof(untouched));
	status_count = 0;
}

bool calls_untouched(void)
{
	return !memcmp(&results, &untouched, sizeof(results));
}

unsigned int calls_others(enum kvd_status status)
{
	unsigned int i, n = 0;

	for (i = 0; i < status_count; i++)
		n += statuses[i] != status;
	return n;
}

void calls_respond(struct fake_server *server, const struct request *request,
		   struct wire_response *response, uint8_t *value)
{
	(void)server, (void)value;
	response->status = WIRE_OK;
	if (request->op == WIRE_FLUSH)
		response->ticket = 1;
	else if (request->op != WIRE_SCAN && request->op != WIRE_STATS &&
		 request->op != WIRE_CLIENTS && request->op != WIRE_KILL &&
		 request->op != WIRE_REVOKE && request->op != WIRE_TENANT &&
		 request->op != WIRE_SHUTDOWN && request->op != WIRE_WHOAMI &&
		 request->op != WIRE_REPORT && request->op != WIRE_CONFIG)
		response->version = 5;
}

static enum kvd_status get(struct kvd *kvd)
{
	return kvd_get(kvd, &keys[2], 8, found, 100, &results.item);
}

static enum kvd_status get_large(struct kvd *kvd)
{
	return kvd_get(kvd, &keys[1], 8, found, sizeof(found), &results.item);
}

static enum kvd_status getv(struct kvd *kvd)
{
	const struct iovec iov[2] = { { found, 10 }, { found + 50, 30 } };

	return kvd_getv(kvd, &keys[2], 8, iov, 2, &results.item);
}

static enum kvd_status getv_large(struct kvd *kvd)
{
	const struct iovec iov[2] = { { found, 10 }, { found + 10, sizeof(found) - 10 } };

	return kvd_getv(kvd, &keys[1], 8, iov, 2, &results.item);
}

static enum kvd_status get_range(struct kvd *kvd)
{
	return kvd_get_range(kvd, &keys[2], 8, 3, found, 100, &results.item);
}

static enum kvd_status get_range_large(struct kvd *kvd)
{
	return kvd_get_range(kvd, &keys[1], 8, 70000, found, 3000, &results.item);
}

static enum kvd_status get_ranges(struct kvd *kvd)
{
	struct kvd_range ranges[MANY];
	enum kvd_status status;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		ranges[i] = (struct kvd_range){
			.key = &keys[2 + i % 2],
			.key_len = 8,
			.offset = i % 3,
			.value = found,
			.value_size = 100,
		};
	status = kvd_get_ranges(kvd, ranges, MANY);
	for (i = 0; i < MANY; i++)
		statuses[i] = ranges[i].status;
	status_count = MANY;
	return status;
}

static enum kvd_status get_by_request(struct kvd *kvd)
{
	return kvd_get_by_request(kvd, &keys[2], 8, found, 100, &results.item);
}

static enum kvd_status get_by_request_large(struct kvd *kvd)
{
	return kvd_get_by_request(kvd, &keys[1], 8, found, sizeof(found), &results.item);
}

static enum kvd_status get_and_touch(struct kvd *kvd)
{
	return kvd_get_and_touch(kvd, &keys[2], 8, 5, found, 100, &results.item);
}

static enum kvd_status get_and_touch_large(struct kvd *kvd)
{
	return kvd_get_and_touch(kvd, &keys[1], 8, 5, found, sizeof(found), &results.item);
}

static enum kvd_status get_many(struct kvd *kvd)
{
	struct kvd_get_request requests[MANY];
	enum kvd_status status;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		requests[i] = (struct kvd_get_request){
			.key = &keys[2 + i % 2],
			.key_len = 8,
			.value = found,
			.value_size = 100,
		};
	status = kvd_get_many(kvd, requests, MANY);
	for (i = 0; i < MANY; i++)
		statuses[i] = requests[i].status;
	status_count = MANY;
	return status;
}

static enum kvd_status exists_many(struct kvd *kvd)
{
	struct kvd_exists exists[MANY];
	struct kvd_key list[MANY];
	enum kvd_status status;
	size_t present = 0;
	unsigned int i;

	memset(exists, 0, sizeof(exists));
	for (i = 0; i < MANY; i++)
		list[i] = (struct kvd_key){ &keys[2 + i % 2], 8 };
	status = kvd_exists_many(kvd, list, MANY, exists, &present);
	for (i = 0; i < MANY; i++)
		statuses[i] = exists[i].status;
	status_count = MANY;
	if (present)
		results.length = present;
	return status;
}

static enum kvd_status exists_leading(struct kvd *kvd)
{
	const struct kvd_key list[2] = { { &keys[2], 8 }, { &keys[3], 8 } };
	size_t leading = 0;
	enum kvd_status status = kvd_exists_leading(kvd, list, 2, &leading);

	if (leading)
		results.length = leading;
	return status;
}

static enum kvd_status put(struct kvd *kvd)
{
	return kvd_put(kvd, &keys[0], 8, "x", 1, NULL, &results.version);
}

static enum kvd_status put_large(struct kvd *kvd)
{
	return kvd_put(kvd, &keys[0], 8, large, sizeof(large), NULL, &results.version);
}

static enum kvd_status putv(struct kvd *kvd)
{
	const struct iovec iov[2] = { { large, 10 }, { large + 50, 30 } };

	return kvd_putv(kvd, &keys[0], 8, iov, 2, NULL, &results.version);
}

static enum kvd_status delete_(struct kvd *kvd)
{
	return kvd_delete(kvd, &keys[0], 8);
}

static enum kvd_status delete_if(struct kvd *kvd)
{
	return kvd_delete_if(kvd, &keys[0], 8, 3);
}

static enum kvd_status incr(struct kvd *kvd)
{
	return kvd_incr(kvd, &keys[0], 8, 1, NULL, &results.number, &results.version);
}

static enum kvd_status decr(struct kvd *kvd)
{
	return kvd_decr(kvd, &keys[0], 8, 1, NULL, &results.number, &results.version);
}

static enum kvd_status touch(struct kvd *kvd)
{
	return kvd_touch(kvd, &keys[0], 8, 1, &results.version);
}

static enum kvd_status flush_start(struct kvd *kvd)
{
	return kvd_flush_start(kvd, 1, &results.number);
}

static enum kvd_status flush_done(struct kvd *kvd)
{
	return kvd_flush_done(kvd, 1);
}

static enum kvd_status flush_cancel(struct kvd *kvd)
{
	return kvd_flush_cancel(kvd, 0, 0, &results.number);
}

static int each(void *arg, const struct kvd_entry *entry)
{
	(void)entry;
	++*(size_t *)arg;
	return 0;
}

static enum kvd_status scan(struct kvd *kvd)
{
	return kvd_scan(kvd, &results.number, NULL, each, &results.length);
}

static int each_used(void *arg, const struct kvd_used *used)
{
	(void)used;
	++*(size_t *)arg;
	return 0;
}

static enum kvd_status scan_uses(struct kvd *kvd)
{
	if (!kvd->access.rate)
		kvd->access.rate = 1;
	return kvd_scan_uses(kvd, &results.number, NULL, each_used, &results.length);
}

static enum kvd_status server_stats(struct kvd *kvd)
{
	char text[100];

	return kvd_server_stats(kvd, text, sizeof(text), &results.length);
}

static enum kvd_status client_list(struct kvd *kvd)
{
	char text[100];

	return kvd_client_list(kvd, text, sizeof(text), &results.length);
}

static enum kvd_status client_kill(struct kvd *kvd)
{
	return kvd_client_kill(kvd, 5);
}

static enum kvd_status whoami(struct kvd *kvd)
{
	char text[100];

	return kvd_whoami(kvd, text, sizeof(text), &results.length);
}

static enum kvd_status server_report(struct kvd *kvd)
{
	char text[100];

	return kvd_server_report(kvd, KVD_REPORT_SLOW, text, sizeof(text), &results.length);
}

static enum kvd_status sample(struct kvd *kvd)
{
	char text[100];

	return kvd_sample(kvd, 1, &results.number, text, sizeof(text), &results.length);
}

static enum kvd_status config_get(struct kvd *kvd)
{
	char text[100];

	return kvd_config_get(kvd, text, sizeof(text), &results.length);
}

static enum kvd_status revoke(struct kvd *kvd)
{
	return kvd_revoke(kvd, "uid=5", NULL);
}

static enum kvd_status submit(struct kvd *kvd)
{
	struct kvd_op op, *list[] = { &op }, *done[1];
	enum kvd_status status;

	kvd_prep_put(&op, &keys[0], 8, "x", 1, NULL);
	op.item.version = UNTOUCHED;
	status = kvd_submit(kvd, list, 1);
	while (!status && !kvd_wait(kvd, done, 1, 1, UINT32_MAX))
		;
	results.version = op.item.version;
	return status ? status : op.status;
}

static enum kvd_status cancel(struct kvd *kvd)
{
	struct kvd_op op;

	kvd_prep_ping(&op);
	return kvd_cancel(kvd, &op);
}

static enum kvd_status register_(struct kvd *kvd)
{
	struct kvd_mem *mem;
	enum kvd_status status = kvd_register(kvd, large, sizeof(large), &mem);

	return status ? status : kvd_deregister(mem);
}

static enum kvd_status alloc(struct kvd *kvd)
{
	struct kvd_mem *mem;
	void *addr;
	enum kvd_status status = kvd_alloc(kvd, 4096, &addr, &mem);

	return status ? status : kvd_free(mem);
}

static enum kvd_status observe(struct kvd *kvd)
{
	return kvd_observe(kvd, KVD_OBSERVE_OFF);
}

static enum kvd_status trace(struct kvd *kvd)
{
	return kvd_trace(kvd, NULL, NULL);
}

const struct call calls[] = {
	{ "kvd_get", CALL_LOOKUP, get },
	{ "kvd_get of a large value", CALL_LOOKUP, get_large },
	{ "kvd_getv", CALL_LOOKUP, getv },
	{ "kvd_getv of a large value", CALL_LOOKUP, getv_large },
	{ "kvd_get_many", CALL_LOOKUP, get_many },
	{ "kvd_get_range", CALL_LOOKUP, get_range },
	{ "kvd_get_range of a large value", CALL_LOOKUP, get_range_large },
	{ "kvd_get_ranges of many", CALL_LOOKUP, get_ranges },
	{ "kvd_exists_many", CALL_LOOKUP, exists_many },
	{ "kvd_exists_leading", CALL_LOOKUP, exists_leading },
	{ "kvd_get_by_request", CALL_REQUEST, get_by_request },
	{ "kvd_get_by_request of a large value", CALL_REQUEST, get_by_request_large },
	{ "kvd_flush_done", CALL_REQUEST, flush_done },
	{ "kvd_flush_cancel", CALL_REQUEST, flush_cancel },
	{ "kvd_scan", CALL_REQUEST, scan },
	{ "kvd_scan_uses", CALL_REQUEST, scan_uses },
	{ "kvd_ping", CALL_REQUEST, kvd_ping },
	{ "kvd_server_stats", CALL_REQUEST, server_stats },
	{ "kvd_client_list", CALL_REQUEST, client_list },
	{ "kvd_whoami", CALL_REQUEST, whoami },
	{ "kvd_server_report", CALL_REQUEST, server_report },
	{ "kvd_sample", CALL_REQUEST, sample },
	{ "kvd_config_get", CALL_REQUEST, config_get },
	{ "kvd_get_and_touch", CALL_CHANGE, get_and_touch },
	{ "kvd_get_and_touch of a large value", CALL_CHANGE, get_and_touch_large },
	{ "kvd_put", CALL_CHANGE, put },
	{ "kvd_put of a large value", CALL_CHANGE, put_large },
	{ "kvd_putv", CALL_CHANGE, putv },
	{ "kvd_delete", CALL_CHANGE, delete_ },
	{ "kvd_delete_if", CALL_CHANGE, delete_if },
	{ "kvd_incr", CALL_CHANGE, incr },
	{ "kvd_decr", CALL_CHANGE, decr },
	{ "kvd_touch", CALL_CHANGE, touch },
	{ "kvd_submit of a PUT", CALL_CHANGE, submit },
	{ "kvd_flush_start", CALL_CHANGE, flush_start },
	{ "kvd_flush_all", CALL_CHANGE, kvd_flush_all },
	{ "kvd_client_kill", CALL_KILL, client_kill },
	{ "kvd_revoke", CALL_REQUEST, revoke },
	{ "kvd_cancel", CALL_LOCAL, cancel },
	{ "kvd_arm", CALL_LOCAL, kvd_arm },
	{ "kvd_register", CALL_LOCAL, register_ },
	{ "kvd_alloc", CALL_LOCAL, alloc },
	{ "kvd_observe", CALL_LOCAL, observe },
	{ "kvd_trace", CALL_LOCAL, trace },
};
const unsigned int call_count = sizeof(calls) / sizeof(calls[0]);

static struct fake_server *server;

struct fake_server *calls_open(void)
{
	server = fake_server_open(4, 4, 0, 0, NULL);
	server->respond = calls_respond;
	for (unsigned int i = 1; i < 4; i++)
		fake_server_put(server, keys[i], i == 1 ? CALLS_LARGE_BYTES : 20, 0);
	calls_reset();
	return server;
}

int calls_close(void **state)
{
	(void)state;
	kvd_close(&server->kvd);
	return 0;
}

void calls_anew(void **state, int (*setup)(void **state))
{
	if (calls_close(state) + setup(state))
		fail();
}
