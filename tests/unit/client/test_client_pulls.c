/* SPDX-License-Identifier: MIT */
/*
 * Values that the server READs, and what sending them needs: memory, room in the send queue,
 * figures, ends. With those responses and arguments that must not be taken.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/libkvd/device.h"
#include "tests/support/fake_server.h"

#define LARGE_BYTES 200000u
#define PAGE_BYTES 4096u
#define USER_NOBODY 65534

static struct fake_server *server;
static struct kvd *kvd;
static struct request sent; /* the last one, */
static uint8_t large[LARGE_BYTES];
static uint8_t pulled[LARGE_BYTES]; /* and its value, when it came */

static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	(void)p, (void)value;
	sent = *request;
	response->version = 9ull << 40 | 4;
	if (request->flags & WIRE_F_PULL)
		memcpy(pulled, (const void *)(uintptr_t)request->pull_addr, request->value_len);
}

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(2, 1, 0, 0, NULL);
	kvd = &server->kvd;
	server->respond = respond;
	memset(&sent, 0, sizeof(sent));
	memset(pulled, 0, sizeof(pulled));
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (uint8_t)(i * 7 + (i >> 8));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static enum kvd_status put_large(void)
{
	return kvd_put(kvd, "key", 3, large, sizeof(large), NULL, NULL);
}

static void figures(void **state)
{
	struct kvd_stats s;

	(void)state;
	assert_int_equal(put_large(), KVD_OK);
	kvd_stats(kvd, &s);
	assert_int_equal(s.pulled_bytes, sizeof(large));
	assert_int_equal(s.direct_bytes, 0);
	assert_int_equal(s.requests, 1);
	assert_int_equal(s.round_trips, 1);
	assert_int_equal(s.sent_bytes, sizeof(struct wire_request) + 3);
	assert_memory_equal(pulled, large, sizeof(large));
	assert_int_equal(kvd_put(kvd, "key", 3, large, 10, NULL, NULL), KVD_OK);
	kvd_stats(kvd, &s);
	assert_int_equal(s.pulled_bytes, sizeof(large));
	assert_int_equal(s.sent_bytes, 2 * (sizeof(struct wire_request) + 3) + 10);
}

/* Acts as a server that waits for what is copied after the request. */
static void wait_for_copy(struct fake_device *fake, uint64_t addr, uint32_t left)
{
	(void)fake, (void)addr, (void)left;
}

/* Pieces have been put together when the request is sent, also where the server would wait. */
static void pieces_are_whole_at_once(void **state)
{
	const struct iovec iov[] = { { large, 70000 },
				     { large + 70000, 0 },
				     { large + 70000, LARGE_BYTES - 70000 } };
	uint64_t version = 0;

	(void)state;
	server->fake.fill = wait_for_copy;
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, 3, NULL, &version), KVD_OK);
	assert_int_equal(sent.value_len, LARGE_BYTES);
	assert_memory_equal(pulled, large, sizeof(large));
	assert_true(version == (9ull << 40 | 4));
}

/* More pieces than are allowed are not looked at: they may not be there. */
static void too_many_pieces(void **state)
{
	uint8_t *pages = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec *iov = (struct iovec *)(void *)(pages + PAGE_BYTES) - 1;

	(void)state;
	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + PAGE_BYTES, PAGE_BYTES, PROT_NONE), 0);
	*iov = (struct iovec){ large, 1 };
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, 1, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_putv(kvd, "key", 3, iov, KVD_IOV_MAX + 1, NULL, NULL),
			 KVD_ERR_INVALID);
	munmap(pages, 2 * PAGE_BYTES);
}

/* A request waits while the send queue has no room for it, and takes no memory for its value. */
static void a_full_send_queue(void **state)
{
	struct kvd_op ops[2], *list[] = { &ops[0], &ops[1] }, *done[2];
	struct connection *conn = &kvd->conn;
	unsigned int i;

	(void)state;
	conn->window = 4;
	conn->sq_posted = conn->sq_done + SENDS_MAX;
	kvd_prep_put(&ops[0], "key", 3, large, sizeof(large), NULL);
	kvd_prep_ping(&ops[1]);
	assert_int_equal(kvd_submit(kvd, list, 2), KVD_OK);
	for (i = 0; i < 10; i++)
		assert_int_equal(kvd_poll(kvd, done, 2), 0);
	assert_int_equal(server->requests, 0);
	assert_int_equal(kvd->bounces, 0);
	conn->sq_done = conn->sq_posted;
	assert_int_equal(kvd_wait(kvd, done, 2, 2, FAKE_TIMEOUT_MS), 2);
	assert_int_equal(ops[0].status, KVD_OK);
	assert_int_equal(ops[1].status, KVD_OK);
	conn->sq_posted = conn->sq_done + SENDS_MAX;
	kvd->options.timeout_ms = 1;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_TIMEOUT);
	assert_int_equal(put_large(), KVD_ERR_TIMEOUT);
	assert_int_equal(server->requests, 2);
}

/* A handle counts as a user of the pool once, until it has not used it for a while, or ends. */
static void users_of_the_pool(void **state)
{
	struct bounce_pool *pool = &kvd->shared_device->bounces;
	unsigned int i;

	(void)state;
	assert_int_equal(pool->users, 0);
	assert_int_equal(put_large(), KVD_OK);
	assert_int_equal(put_large(), KVD_OK);
	assert_int_equal(pool->users, 1);
	for (i = 0; i < 3 * BOUNCE_CALLS; i++)
		assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(pool->users, 0);
	assert_int_equal(bounce_pool_bytes(pool), 0);
	assert_int_equal(put_large(), KVD_OK);
	assert_int_equal(pool->users, 1);
	device_buffers_release(kvd);
	assert_int_equal(pool->users, 0);
	assert_int_equal(bounce_pool_bytes(pool), 0);
}

/*
 * A value across the border of two registrations is copied, so its memory is not in use, and at its
 * deadline the connection stays.
 */
static void a_value_of_two_registrations(void **state)
{
	static uint8_t arena[16 * PAGE_BYTES] __attribute__((aligned(4096)));
	struct kvd_op op, *list[] = { &op }, *done[1];
	struct kvd_mem_info info;
	struct kvd_mem *mem;

	(void)state;
	server->fake.mr_max = 8 * PAGE_BYTES;
	assert_int_equal(kvd_register(kvd, arena, sizeof(arena), &mem), KVD_OK);
	kvd_mem_info(mem, &info);
	assert_int_equal(info.registrations, 2);
	assert_true(info.register_ns > 0);
	server->hold_all = true;
	kvd_prep_put(&op, "key", 3, arena + 6 * PAGE_BYTES, 4 * PAGE_BYTES, NULL);
	op.timeout_ms = 1;
	assert_int_equal(kvd_submit(kvd, list, 1), KVD_OK);
	assert_int_equal(server->queued, 1);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, UINT32_MAX), 1);
	assert_int_equal(op.status, KVD_ERR_TIMEOUT);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	server->hold_all = false;
	fake_server_answer(server, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* The registrations of an RDMA device are bounded by RLIMIT_MEMLOCK: the text says so. */
static int no_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **mr)
{
	(void)pd, (void)mem, (void)access, (void)mr;
	return -ENOMEM;
}

static bool texts_name_the_limit(void)
{
	struct device_ops ops;
	struct kvd_mem *mem;

	setup(NULL);
	ops = *kvd->dev->ops;
	ops.reg_mr = no_mr;
	kvd->dev->ops = &ops;
	if (kvd_register(kvd, large, sizeof(large), &mem) != KVD_ERR_NO_MEMORY ||
	    strstr(kvd_error(kvd), "MEMLOCK"))
		return false;
	kvd->dev->kind = DEVICE_RDMA;
	return kvd_register(kvd, large, sizeof(large), &mem) == KVD_ERR_NO_MEMORY &&
	       strstr(kvd_error(kvd), "may lock 64 KiB of memory (RLIMIT_MEMLOCK)") &&
	       put_large() == KVD_ERR_NO_MEMORY && strstr(kvd_error(kvd), "MEMLOCK");
}

/* The process that has such a limit is a child, since root may lock what it wants. */
static void texts_of_locked_memory(void **state)
{
	const struct rlimit limit = { 65536, 65536 };
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(setrlimit(RLIMIT_MEMLOCK, &limit) || (!getuid() && setuid(USER_NOBODY)) ||
		      !texts_name_the_limit());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void answer_with_id_0(struct fake_server *p, struct wire_response *response)
{
	(void)p;
	response->id = 0;
}

/* No request has the id 0, though a message that is free has it. */
static void a_response_without_an_id(void **state)
{
	struct kvd_op ops[2], *list[] = { &ops[0], &ops[1] }, *done[2];
	unsigned int i;

	(void)state;
	kvd->conn.window = server->welcome.window = 4;
	server->hold_all = true;
	for (i = 0; i < 2; i++) {
		kvd_prep_ping(&ops[i]);
		assert_int_equal(kvd_submit(kvd, list + i, 1), KVD_OK);
	}
	server->hold_all = false;
	fake_server_answer(server, 2);
	assert_int_equal(kvd_wait(kvd, done, 2, 2, FAKE_TIMEOUT_MS), 2);
	/* The first one's message is free, and was that of a PING. */
	assert_int_equal(kvd->conn.messages[0].id, 0);
	assert_int_equal(kvd->conn.messages[0].op, WIRE_PING);
	server->before_response = answer_with_id_0;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_PROTOCOL);
}

/* Where the kernel does not mark a child's pages, a failure in the child has its true cause. */
static void a_failure_in_a_child(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	kvd->owner_page = NULL;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		fake_device_lose(&server->fake);
		kvd_poll(kvd, NULL, 0);
		_exit(!strstr(kvd_error(kvd), "fork(2)"));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(figures),
		CASE(pieces_are_whole_at_once),
		CASE(too_many_pieces),
		CASE(a_full_send_queue),
		CASE(users_of_the_pool),
		CASE(a_value_of_two_registrations),
		CASE(texts_of_locked_memory),
		CASE(a_response_without_an_id),
		CASE(a_failure_in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
