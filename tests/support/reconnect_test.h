/* SPDX-License-Identifier: MIT */
/*
 * The fixture for the tests of a handle that connects again (client/libkvd/reconnect.c): a fake
 * server that executes a change once, by its number, and answers tries to connect as the test says.
 */
#ifndef KVD_TESTS_SUPPORT_RECONNECT_TEST_H
#define KVD_TESTS_SUPPORT_RECONNECT_TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/changes.h"
#include "tests/support/fake_server.h"

#define WINDOW 4
#define OPS 8

static struct fake_server *server;
static struct kvd *kvd;
static struct kvd_op ops[OPS], *list[OPS], *done[OPS];
static uint64_t keys[OPS];
static uint8_t values[OPS][32];
static unsigned int changes;  /* executed */
static uint16_t change_flags; /* of the last one that came */
static unsigned int refusals; /* tries that are refused first */
static struct wire_reject reject;

static uint32_t recorded;    /* the last number that was executed, */
static uint64_t answers[64]; /* and what was answered */
static unsigned int twice;   /* changes that came again and were not executed */

/* As a server that knows identities: a number is executed once, and no number is left out. */
static inline bool is_recorded(const struct request *request, struct wire_response *response)
{
	if (!request->change)
		return false;
	if (request->change > recorded) {
		assert_int_equal(request->change, recorded + 1);
		recorded = request->change;
		answers[recorded % 64] = changes + 1;
		return false;
	}
	twice++;
	response->flags = WIRE_R_REPEATED;
	response->version = answers[request->change % 64];
	return true;
}

static inline void execute(struct fake_server *p, const struct request *request,
			   struct wire_response *response, uint8_t *value)
{
	uint64_t key;

	(void)value;
	change_flags = (uint16_t)request->flags;
	if (is_recorded(request, response))
		return;
	memcpy(&key, request->key, 8);
	response->status = WIRE_OK;
	response->version = ++changes;
	if (request->op == WIRE_PUT)
		fake_server_put(p, key, 20, 0);
}

static inline void accept_try(struct fake_device *fake)
{
	if (!refusals) {
		fake_device_event(fake, CM_ESTABLISHED, 0);
		return;
	}
	refusals--;
	if (!reject.magic) {
		fake_device_event(fake, CM_UNREACHABLE, -ECONNREFUSED);
		return;
	}
	fake_device_event(fake, CM_REJECTED, 0);
	memcpy(fake->events[0].private_data, &reject, sizeof(reject));
	fake->events[0].private_len = sizeof(reject);
}

static inline int setup(void **state)
{
	struct kvd_options options;
	unsigned int i;

	(void)state;
	kvd_options_init(&options);
	options.depth = OPS;
	server = fake_server_open(4, WINDOW, 0, 0, &options);
	kvd = &server->kvd;
	kvd->options.reconnect = 1;
	server->respond = execute;
	server->fake.connect = accept_try;
	changes = refusals = recorded = twice = 0;
	memset(&reject, 0, sizeof(reject));
	memset(values, 0, sizeof(values));
	for (i = 0; i < OPS; i++) {
		keys[i] = i;
		list[i] = &ops[i];
	}
	fake_server_put(server, 1, 20, 0);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static inline enum kvd_status get(unsigned int key)
{
	return kvd_get(kvd, &keys[key], 8, values[key], sizeof(values[key]), NULL);
}

static inline enum kvd_status put(unsigned int key)
{
	return kvd_put(kvd, &keys[key], 8, "12345678901234567890", 20, NULL, NULL);
}

static inline void submit_put(unsigned int i, unsigned int key)
{
	kvd_prep_put(&ops[i], &keys[key], 8, "12345678901234567890", 20, NULL);
	assert_int_equal(kvd_submit(kvd, &list[i], 1), KVD_OK);
}

static inline void submit_get(unsigned int i, unsigned int key)
{
	kvd_prep_get(&ops[i], &keys[key], 8, values[key], sizeof(values[key]));
	assert_int_equal(kvd_submit(kvd, &list[i], 1), KVD_OK);
}

static inline void await_all(void)
{
	while (kvd_outstanding(kvd))
		kvd_wait(kvd, done, OPS, 1, UINT32_MAX);
}

static inline struct kvd_stats stats(void)
{
	struct kvd_stats s;

	kvd_stats(kvd, &s);
	return s;
}

/* Submits a PUT of each key in one call, and awaits that each was done once. */
static inline void put_together(void)
{
	unsigned int i;

	for (i = 0; i < OPS; i++)
		kvd_prep_put(&ops[i], &keys[i], 8, "12345678901234567890", 20, NULL);
	assert_int_equal(kvd_submit(kvd, list, OPS), KVD_OK);
	await_all();
	for (i = 0; i < OPS; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_int_equal(changes, OPS);
}

/* Submits a PUT of each of the first @count keys, which are not answered. */
static inline void hold_puts(unsigned int count)
{
	server->hold_all = true;
	for (unsigned int i = 0; i < count; i++)
		submit_put(i, i);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif /* KVD_TESTS_SUPPORT_RECONNECT_TEST_H */
