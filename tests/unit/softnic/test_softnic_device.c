/* SPDX-License-Identifier: MIT */
/*
 * Tests of a softnic device as a whole (context.c): what it says of itself, which addresses it
 * refuses, what is left of one that can't be opened or is closed too early, and how those that
 * sleep or poll learn that it has died.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define MANY 20

static struct end server, client;

/* Whether the next allocation, or the next eventfd(2), fails; memory that is not freed. */
static bool heap_fails, eventfd_fails;
static const void *kept;
static bool freed;

static void *memory_take(void *user, size_t bytes)
{
	(void)user;
	if (!heap_fails)
		return malloc(bytes);
	heap_fails = false;
	return NULL;
}

static void *memory_resize(void *user, void *memory, size_t bytes)
{
	(void)user;
	return realloc(memory, bytes);
}

static void memory_give(void *user, void *memory)
{
	(void)user;
	freed |= memory && memory == kept;
	free(memory);
}

int eventfd(unsigned int count, int flags)
{
	if (!eventfd_fails)
		return (int)syscall(SYS_eventfd2, count, flags);
	eventfd_fails = false;
	errno = EMFILE;
	return -1;
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* Of shared memory. */
static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	int count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, "memfd:") != NULL;
	fclose(file);
	return count;
}

static int setup(void **state)
{
	char path[64];
	int ret;

	(void)state;
	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS);
	return ret ?: end_init(&client, DEVICE_CONNECT, path, &END_DEFAULTS);
}

static int teardown(void **state)
{
	(void)state;
	end_release(&client);
	end_release(&server);
	return 0;
}

static struct device_addr new_addr(void)
{
	struct device_addr addr = { .kind = DEVICE_SOFTNIC, .mode = 0600 };

	snprintf(addr.path, sizeof(addr.path), "%s", pair_path());
	return addr;
}

static void what_it_says_of_itself(void **state)
{
	struct device_addr addr = new_addr();
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct device *dev;

	(void)state;
	assert_int_equal(OPS->open(&dev, &addr, DEVICE_LISTEN, 0), 0);
	assert_int_equal(dev->kind, DEVICE_SOFTNIC);
	assert_string_equal(dev->name, "softnic");
	assert_string_equal(dev->address, addr.path);
	assert_string_equal(dev->verbs->device->name, "softnic");
	assert_int_equal(dev->verbs->num_comp_vectors, 1);
	assert_int_equal(OPS->query(dev, &attr, &port), 0);
	assert_true(attr.max_mr_size == SIZE_MAX);
	fault_set(&(struct fault_plan){ .mr_max = 8192 });
	assert_int_equal(OPS->query(dev, &attr, &port), 0);
	assert_int_equal(attr.max_mr_size, 8192);
	fault_reset();
	/* What the objects of the device are refused beyond. */
	assert_int_equal(attr.max_qp, SN_QP_MAX);
	assert_int_equal(attr.max_qp_wr, SN_WR_MAX);
	assert_int_equal(attr.max_sge, SN_SGE_MAX);
	assert_int_equal(attr.max_sge_rd, SN_SGE_MAX);
	assert_int_equal(attr.max_cq, SN_CQ_MAX);
	assert_int_equal(attr.max_cqe, SN_CQE_MAX);
	assert_int_equal(attr.max_mr, SN_MR_MAX);
	assert_int_equal(attr.max_pd, SN_PD_MAX);
	assert_int_equal(attr.max_srq, SN_SRQ_MAX);
	assert_int_equal(attr.max_srq_wr, SN_SRQ_WR_MAX);
	assert_int_equal(attr.max_srq_sge, SN_SGE_MAX);
	assert_int_equal(attr.max_qp_rd_atom, SN_READS_MAX);
	assert_int_equal(attr.max_qp_init_rd_atom, SN_READS_MAX);
	assert_int_equal(attr.max_res_rd_atom, SN_READS_MAX * SN_QP_MAX);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.active_mtu, IBV_MTU_4096);
	assert_int_equal(port.max_msg_sz, SN_MESSAGE_MAX);
	OPS->close(dev);
}

static void addresses_that_are_refused(void **state)
{
	struct device_addr addrs[3] = { new_addr(), new_addr(), new_addr() };
	const int before = descriptors();
	struct device *dev;

	(void)state;
	addrs[0].kind = DEVICE_VERBS;
	addrs[1].path[0] = 0;
	memset(addrs[2].path, 'x', sizeof(addrs[2].path)); /* without an end */
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(OPS->open(&dev, &addrs[i], DEVICE_LISTEN, 0), -EINVAL);
		assert_int_equal(OPS->open(&dev, &addrs[i], DEVICE_CONNECT, 0), -EINVAL);
	}
	addrs[0] = new_addr(); /* where no server is */
	assert_int_equal(OPS->open(&dev, &addrs[0], DEVICE_CONNECT, 0), -ECONNREFUSED);
	assert_int_equal(descriptors(), before);
}

/* All that it opened is closed again, and nothing of its caller's. */
static void one_that_is_closed(void **state)
{
	const int before = descriptors(), mapped = mappings();
	struct device *dev, *other;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		struct device_addr addr = new_addr();

		assert_int_equal(OPS->open(&dev, &addr, DEVICE_LISTEN, 0), 0);
		assert_int_equal(OPS->open(&other, &addr, DEVICE_CONNECT, 0), 0);
		assert_int_equal(mappings(), mapped + 1); /* the server's life word */
		OPS->close(other);
		OPS->close(dev);
		assert_int_not_equal(access(addr.path, F_OK), 0);
		assert_int_equal(descriptors(), before);
		assert_int_equal(mappings(), mapped);
		assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
		eventfd_fails = true;
		assert_int_equal(OPS->open(&dev, &addr, DEVICE_LISTEN, 0), -EMFILE);
		heap_fails = true;
		assert_int_equal(OPS->open(&dev, &addr, DEVICE_LISTEN, 0), -ENOMEM);
		assert_int_equal(descriptors(), before);
	}
}

/* What is left of it, of any kind, may still use it; but no client finds it any more. */
static void one_that_is_closed_too_early(void **state)
{
	struct device *dev;

	(void)state;
	for (enum sn_object object = 0; object < SN_OBJECT_COUNT; object++) {
		struct device_addr addr = new_addr();
		struct sn_context *ctx;

		assert_int_equal(OPS->open(&dev, &addr, DEVICE_LISTEN, 0), 0);
		ctx = dev_to_sn_context(dev);
		kept = ctx;
		freed = false;
		assert_int_equal(sn_object_add(ctx, object), 0);
		OPS->close(dev);
		assert_false(freed);
		assert_int_not_equal(access(addr.path, F_OK), 0);
		sn_object_remove(ctx, object);
		OPS->close(dev);
		assert_true(freed);
	}
	kept = NULL;
}

/* Without memory an object takes none of the places. */
static void objects_without_memory(void **state)
{
	const _Atomic int *objects = dev_to_sn_context(server.dev)->objects;
	struct ibv_comp_channel *comp;
	struct ibv_pd *pd;

	(void)state;
	heap_fails = true;
	assert_int_equal(OPS->alloc_pd(server.dev, &pd), -ENOMEM);
	assert_int_equal(atomic_load(&objects[SN_OBJECT_PD]), 1);
	heap_fails = true;
	assert_int_equal(OPS->create_comp_channel(server.dev, &comp), -ENOMEM);
	assert_int_equal(atomic_load(&objects[SN_OBJECT_COMP_CHANNEL]), 1);
	assert_false(heap_fails);
}

/* Its memory is a file, which peers can map, and is given back. */
static void memory(void **state)
{
	const int before = descriptors(), mapped = mappings();
	struct device_mem mem;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(OPS->alloc_mem(server.dev, 8192, &mem), 0);
		assert_true(mem.fd >= 0);
		assert_int_equal(mappings(), mapped + 1);
		OPS->free_mem(server.dev, &mem);
		assert_int_equal(mappings(), mapped);
		assert_int_equal(descriptors(), before);
	}
}

/* Connections that come and go leave no memory. */
static void connections_leave_nothing(void **state)
{
	int mapped = 0;

	(void)state;
	for (unsigned int i = 0; i < MANY; i++) {
		assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS,
					      &END_DEFAULTS),
				 0);
		OPS->destroy_id(client.id);
		client.id = NULL;
		while (server.disconnected <= i)
			end_serve_cm(&server, &END_DEFAULTS);
		if (!i)
			mapped = mappings();
		assert_int_equal(mappings(), mapped);
	}
}

static void send_unanswered(void)
{
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS),
			 0);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
}

/* The next poll finds what was under way flushed. */
static void who_polls_learns_that_it_died(void **state)
{
	struct ibv_wc wc;

	(void)state;
	send_unanswered();
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	sn_context_kill(dev_to_sn_context(client.dev));
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void who_sleeps_learns_that_it_died(void **state)
{
	struct pollfd fd = { .fd = client.comp->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_wc wc;

	(void)state;
	send_unanswered();
	/* The server's file comes by the socket. */
	assert_int_equal(OPS->get_cq_event(client.comp, &cq), -EAGAIN);
	assert_int_equal(ibv_req_notify_cq(client.cq, 0), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	sn_context_kill(dev_to_sn_context(client.dev));
	do
		assert_int_equal(poll(&fd, 1, PAIR_WAIT_MS), 1);
	while (OPS->get_cq_event(client.comp, &cq));
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void it_dies_once(void **state)
{
	struct device_async_event event;

	(void)state;
	sn_context_kill(dev_to_sn_context(client.dev));
	assert_int_equal(OPS->get_async_event(client.dev, &event), 0);
	assert_int_equal(event.type, IBV_EVENT_DEVICE_FATAL);
	sn_context_kill(dev_to_sn_context(client.dev));
	assert_int_equal(OPS->get_async_event(client.dev, &event), -EAGAIN);
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct heap_functions functions = {
		.alloc = memory_take,
		.realloc = memory_resize,
		.free = memory_give,
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_says_of_itself),
		cmocka_unit_test(addresses_that_are_refused),
		cmocka_unit_test(one_that_is_closed),
		cmocka_unit_test(one_that_is_closed_too_early),
		CASE(objects_without_memory),
		CASE(memory),
		CASE(connections_leave_nothing),
		CASE(who_polls_learns_that_it_died),
		CASE(who_sleeps_learns_that_it_died),
		CASE(it_dies_once),
	};

	if (heap_set(&functions))
		return 1;
	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
