/* SPDX-License-Identifier: MIT */
/*
 * No memory in the client, neither on the heap nor from the device: what needs some ends with
 * KVD_ERR_NO_MEMORY and a text, alone and among others, and does nothing; what needs none goes on;
 * and all works when there is memory again. When the handle is closed, all of it was given back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/calls.h"

static struct fake_server *server;
static struct kvd *kvd;
static struct device_ops ops;
static const struct device_ops *fake_ops;
static bool no_memory, device_failed;
static const uint64_t keys[] = { 0, 1, 2, 3, 4 };
static uint8_t found[CALLS_LARGE_BYTES], large[CALLS_LARGE_BYTES];
static struct kvd_item item;
static unsigned int traced;

static int allocator_user, pieces; /* of memory that are not freed */

static void *heap_alloc_(void *user, size_t bytes)
{
	void *memory = no_memory ? NULL : malloc(bytes);

	assert_ptr_equal(user, &allocator_user);
	pieces += memory != NULL;
	return memory;
}

static void *heap_realloc_(void *user, void *memory, size_t bytes)
{
	void *moved = no_memory ? NULL : realloc(memory, bytes);

	assert_ptr_equal(user, &allocator_user);
	pieces += !memory && moved;
	return moved;
}

static void heap_free_(void *user, void *memory)
{
	assert_ptr_equal(user, &allocator_user);
	pieces -= memory != NULL;
	free(memory);
}

static int alloc_mem(struct device *dev, size_t bytes, struct device_mem *mem)
{
	return no_memory ? -ENOMEM : fake_ops->alloc_mem(dev, bytes, mem);
}

static int reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr)
{
	if (device_failed)
		return -EIO;
	return no_memory ? -ENOMEM : fake_ops->reg_mr(pd, mem, access, mr);
}

static int setup(void **state)
{
	(void)state;
	no_memory = device_failed = false;
	server = calls_open();
	pieces++; /* the handle itself, which the server has made */
	kvd = &server->kvd;
	fake_server_put(server, 4, 30000, 0);
	fake_ops = kvd->dev->ops;
	ops = *fake_ops;
	ops.alloc_mem = alloc_mem;
	ops.reg_mr = reg_mr;
	kvd->dev->ops = &ops;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	no_memory = device_failed = false;
	kvd_close(kvd);
	kvd_observe(NULL, 0);
	assert_int_equal(pieces, 0);
	return 0;
}

/* The calls. */
static enum kvd_status get_large(void)
{
	return kvd_get(kvd, &keys[1], 8, found, sizeof(found), &item);
}

static enum kvd_status get_middle(void)
{
	return kvd_get(kvd, &keys[4], 8, found, sizeof(found), &item);
}

static enum kvd_status getv_large(void)
{
	const struct iovec iov[2] = { { found, 100 }, { found + 100, sizeof(found) - 100 } };

	return kvd_getv(kvd, &keys[1], 8, iov, 2, &item);
}

static enum kvd_status put_large(void)
{
	return kvd_put(kvd, &keys[0], 8, large, sizeof(large), NULL, &item.version);
}

static enum kvd_status putv_large(void)
{
	const struct iovec iov[2] = { { large, 100 }, { large + 100, sizeof(large) - 100 } };

	return kvd_putv(kvd, &keys[0], 8, iov, 2, NULL, &item.version);
}

/* The short one is found, and the call has done all. */
static enum kvd_status get_many(void)
{
	struct kvd_get_request requests[2] = {
		{ .key = &keys[1], .key_len = 8, .value = found, .value_size = sizeof(found) },
		{ .key = &keys[2], .key_len = 8, .value = large, .value_size = 20 },
	};

	assert_int_equal(kvd_get_many(kvd, requests, 2), KVD_OK);
	assert_int_equal(requests[1].status, KVD_OK);
	item = requests[0].item;
	return requests[0].status;
}

static enum kvd_status submitted(struct kvd_op *op)
{
	struct kvd_op *list[] = { op }, *done[1];
	enum kvd_status status = kvd_submit(kvd, list, 1);

	if (status) {
		assert_int_equal(kvd_outstanding(kvd), 0);
		return status;
	}
	assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
	return op->status;
}

static enum kvd_status submit(void)
{
	struct kvd_op op;

	kvd_prep_ping(&op);
	return submitted(&op);
}

/* The first operation has made room for all. */
static void submit_first(void)
{
	bool before = no_memory;

	no_memory = false;
	assert_int_equal(submit(), KVD_OK);
	no_memory = before;
}

static enum kvd_status submit_get(void)
{
	struct kvd_op op;

	submit_first();
	kvd_prep_get(&op, &keys[1], 8, found, sizeof(found));
	return submitted(&op);
}

static enum kvd_status submit_get_pieces(void)
{
	const struct iovec iov[2] = { { found, 100 }, { found + 100, sizeof(found) - 100 } };
	struct kvd_op op;

	submit_first();
	kvd_prep_getv(&op, &keys[1], 8, iov, 2);
	return submitted(&op);
}

static enum kvd_status submit_put(void)
{
	struct kvd_op op;

	submit_first();
	kvd_prep_put(&op, &keys[0], 8, large, sizeof(large), NULL);
	return submitted(&op);
}

static enum kvd_status register_memory(void)
{
	struct kvd_mem *mem = (struct kvd_mem *)(void *)large;
	enum kvd_status status = kvd_register(kvd, large, sizeof(large), &mem);

	if (status)
		assert_null(mem);
	return status ? status : kvd_deregister(mem);
}

static enum kvd_status alloc(void)
{
	struct kvd_mem *mem = (struct kvd_mem *)(void *)large;
	void *addr = large;
	enum kvd_status status = kvd_alloc(kvd, 4096, &addr, &mem);

	if (status) {
		assert_null(mem);
		assert_null(addr);
	}
	return status ? status : kvd_free(mem);
}

static enum kvd_status observe(void)
{
	return kvd_observe(kvd, KVD_OBSERVE_OPS);
}

static void trace(void *user, const struct kvd_trace_event *event)
{
	(void)user, (void)event;
	traced++;
}

static enum kvd_status trace_all(void)
{
	return kvd_trace(kvd, trace, NULL);
}

/* Figures are the process's, so an error is in the thread's text. */
static enum kvd_status op_stats(void)
{
	struct kvd_op_stats figures = { .count = 5 };
	enum kvd_status status = kvd_op_stats(kvd, KVD_OP_GET, KVD_PATH_WARM, &figures,
					      sizeof(figures));

	assert_int_equal(figures.count, status ? 5 : 0);
	return status;
}

static enum kvd_status stats_text(void)
{
	char text[8192] = "as it was";
	size_t len = 5;
	enum kvd_status status = kvd_stats_text(NULL, KVD_STATS_LINES, text, sizeof(text), &len);

	if (status) {
		assert_int_equal(len, 5);
		assert_string_equal(text, "as it was");
	}
	return status;
}

/* Without memory it does not get as far as the socket, which is not there. */
static enum kvd_status open_another(void)
{
	struct kvd *db = kvd;
	enum kvd_status status = kvd_open(&db, "softnic:///nowhere", NULL);

	assert_null(db);
	return status == KVD_ERR_UNREACHABLE ? KVD_OK : status;
}

static const struct {
	const char *name;
	enum kvd_status (*run)(void);
	bool of_thread; /* so is its text */
} with_memory[] = {
	{ "kvd_get of a middle value", get_middle, false },
	{ "kvd_get of a large value", get_large, false },
	{ "kvd_getv of a large value", getv_large, false },
	{ "kvd_get_many of a large value", get_many, false },
	{ "kvd_put of a large value", put_large, false },
	{ "kvd_putv of a large value", putv_large, false },
	{ "kvd_submit", submit, false },
	{ "kvd_submit of a GET of a large value", submit_get, false },
	{ "kvd_submit of a GET of a large value in pieces", submit_get_pieces, false },
	{ "kvd_submit of a PUT of a large value", submit_put, false },
	{ "kvd_register", register_memory, false },
	{ "kvd_alloc", alloc, false },
	{ "kvd_observe", observe, false },
	{ "kvd_trace", trace_all, false },
	{ "kvd_op_stats", op_stats, true },
	{ "kvd_stats_text", stats_text, true },
	{ "kvd_open", open_another, true },
};

/* What needs no memory goes on; nothing is observed or traced. */
static void assert_goes_on(void)
{
	struct kvd_info info;

	assert_int_equal(kvd_get(kvd, &keys[2], 8, found, 20, NULL), KVD_OK);
	assert_int_equal(kvd_put(kvd, &keys[0], 8, "x", 1, NULL, NULL), KVD_OK);
	assert_int_equal(traced, 0);
	assert_null(kvd->observing);
	kvd_info(kvd, &info);
	assert_string_equal(info.connection, "up");
}

static void each(void **state)
{
	enum kvd_status status;
	const char *text;
	size_t i;

	for (i = 0; i < sizeof(with_memory) / sizeof(with_memory[0]); i++) {
		if (i && teardown(state) + setup(state))
			fail();
		traced = 0;
		memset(&item, 0, sizeof(item));
		/* An earlier text must not pass for the call's. */
		assert_int_equal(kvd_open(NULL, NULL, NULL), KVD_ERR_INVALID);
		no_memory = true;
		status = with_memory[i].run();
		text = kvd_error(with_memory[i].of_thread ? NULL : kvd);
		if (status != KVD_ERR_NO_MEMORY || item.version ||
		    !(strstr(text, "memory") || strstr(text, "alloc") || strstr(text, "register")))
			fail_msg("%s: %s: %s", with_memory[i].name, kvd_status_text(status), text);
		assert_goes_on();
		no_memory = false;
		status = with_memory[i].run();
		if (status)
			fail_msg("%s: %s: %s", with_memory[i].name, kvd_status_text(status),
				 kvd_error(kvd));
		assert_int_equal(kvd->bounces, 0);
	}
}

/* The calls that need none: a handle that is open has what short values take. */
static void others(void **state)
{
	enum kvd_status status;
	const struct call *call;

	for (call = calls; call->kind < CALL_LOCAL; call++) {
		if ((strstr(call->name, "large") && !strstr(call->name, "request") &&
		     !strstr(call->name, "touch")) ||
		    strstr(call->name, "submit"))
			continue;
		if (teardown(state) + setup(state))
			fail();
		no_memory = true;
		status = call->run(kvd);
		if (status)
			fail_msg("%s: %s: %s", call->name, kvd_status_text(status), kvd_error(kvd));
	}
}

/* A device that has failed is not out of memory: the handle is to leave it. */
static void of_a_failed_device(void **state)
{
	enum kvd_status (*const run[])(void) = { put_large, register_memory };
	size_t i;

	for (i = 0; i < sizeof(run) / sizeof(run[0]); i++) {
		if (i && teardown(state) + setup(state))
			fail();
		device_failed = true;
		assert_int_equal(run[i](), KVD_ERR_DEVICE);
		assert_non_null(strstr(kvd_error(kvd), ": can't register "));
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct kvd_allocator allocator = {
		heap_alloc_,
		heap_realloc_,
		heap_free_,
		&allocator_user,
	};
	const struct CMUnitTest tests[] = {
		CASE(each),
		CASE(others),
		CASE(of_a_failed_device),
	};

	if (kvd_set_allocator(&allocator))
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
