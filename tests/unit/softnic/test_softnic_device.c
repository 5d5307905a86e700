/* SPDX-License-Identifier: MIT */
/*
 * Tests of a softnic device as a whole (context.c): what it says of itself, which addresses it
 * refuses, what is left of one that can't be opened or is closed too early, of its objects that
 * can't be created and of connections, and how those that sleep or poll learn that it has died.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/receive_queue.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "tests/support/descriptors.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define MANY 20

static struct end server, client;

/* Whether the next eventfd(2), and each GRANT, fails. */
static bool eventfd_fails, grants_fail;

static unsigned int heap_fails_at; /* the next, or a later one; 0: none */
static int allocations;		   /* that were not freed */
static const void *kept;	   /* memory that is not freed yet */
static bool freed;

static void *memory_take(void *user, size_t bytes)
{
	(void)user;
	if (heap_fails_at && !--heap_fails_at)
		return NULL;
	allocations++;
	return malloc(bytes);
}

static void *memory_resize(void *user, void *memory, size_t bytes)
{
	(void)user;
	if (heap_fails_at && !--heap_fails_at)
		return NULL;
	allocations += !memory;
	return realloc(memory, bytes);
}

static void memory_give(void *user, void *memory)
{
	(void)user;
	freed |= memory && memory == kept;
	allocations -= memory != NULL;
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

ssize_t sendmsg(int sock, const struct msghdr *msg, int flags)
{
	const struct link_message *message = msg->msg_iov[0].iov_base;

	if (!grants_fail || message->type != LINK_MESSAGE_GRANT)
		return syscall(SYS_sendmsg, sock, msg, flags);
	errno = ENOBUFS;
	return -1;
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
	(void)state;
	return default_ends(&server, &client);
}

static int teardown(void **state)
{
	(void)state;
	grants_fail = false;
	heap_fails_at = 0;
	fault_reset();
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
	addrs[0].kind = DEVICE_RDMA;
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
		heap_fails_at = 1;
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
	heap_fails_at = 1;
	assert_int_equal(OPS->alloc_pd(server.dev, &pd), -ENOMEM);
	assert_int_equal(atomic_load(&objects[SN_OBJECT_PD]), 1);
	heap_fails_at = 1;
	assert_int_equal(OPS->create_comp_channel(server.dev, &comp), -ENOMEM);
	assert_int_equal(atomic_load(&objects[SN_OBJECT_COMP_CHANNEL]), 1);
}

/* Creates a queue pair with two CQs, without memory for the N-th part of it. False: it succeeds. */
static bool queue_pair_fails(unsigned int n)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = &server,
		.send_cq = client.cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	const _Atomic int *objects = dev_to_sn_context(client.dev)->objects;
	struct ibv_cq *second;
	int ret, before;

	assert_int_equal(OPS->create_cq(client.dev, 16, NULL, NULL, &second), 0);
	attr.recv_cq = second;
	assert_int_equal(OPS->create_id(client.cm, &client.id), 0);
	before = allocations;
	heap_fails_at = n;
	ret = OPS->create_qp(client.id, client.pd, &attr, 0);
	heap_fails_at = 0;
	if (ret) {
		assert_int_equal(ret, -ENOMEM);
		assert_null(client.id->qp);
		/* The CQs may keep room for it. */
		assert_in_range(allocations, before, before + 4);
	} else {
		assert_ptr_equal(client.id->qp->qp_context, &server);
		assert_null(client.id->qp->srq);
	}
	assert_int_equal(atomic_load(&objects[SN_OBJECT_QP]), !ret);
	assert_int_equal(to_sn_cq(client.cq)->reserved, !ret);
	assert_int_equal(to_sn_cq(second)->reserved, !ret);
	assert_int_equal(TAILQ_EMPTY(&dev_to_sn_context(client.dev)->qps), ret != 0);
	OPS->destroy_id(client.id);
	client.id = NULL;
	assert_int_equal(to_sn_cq(client.cq)->reserved, 0);
	OPS->destroy_cq(second);
	return ret;
}

/* Nothing is left of one that fails. Each time with a new device, which keeps memory for more. */
static void a_queue_pair_without_memory(void **state)
{
	unsigned int n;

	(void)state;
	for (n = 1; queue_pair_fails(n); n++) {
		assert_true(n < MANY);
		teardown(state);
		assert_int_equal(setup(state), 0);
	}
	assert_true(n > 8);
}

static void queues_without_memory(void **state)
{
	const _Atomic int *objects = dev_to_sn_context(server.dev)->objects;
	const int before = allocations;
	struct ibv_cq *cq;

	(void)state;
	for (unsigned int n = 1; n <= 2; n++) {
		heap_fails_at = n;
		assert_int_equal(OPS->create_cq(server.dev, 16, NULL, NULL, &cq), -ENOMEM);
		assert_int_equal(atomic_load(&objects[SN_OBJECT_CQ]), 1);
		assert_int_equal(allocations, before);
	}
}

/* One completion too many, or no memory for it: told once, after what was there; for ever. */
static void queues_that_overflow(void **state)
{
	const struct sn_cqe cqe = { .wc = { .wr_id = 7 } };
	struct ibv_comp_channel *comp;
	struct cm_channel *cm;

	(void)state;
	assert_int_equal(OPS->create_channel_pair(server.dev, &comp, &cm), 0);
	for (unsigned int i = 0; i < 2; i++) {
		const unsigned int room = i ? SN_QUEUE_FIRST : 3;
		struct device_async_event event;
		struct ibv_wc wc[SN_QUEUE_FIRST + 1];
		struct ibv_cq *cq;

		assert_int_equal(OPS->create_cq(server.dev, i ? 16 : 3, NULL, i ? comp : NULL, &cq),
				 0);
		for (unsigned int n = 0; n < room; n++)
			assert_true(sn_cq_push(to_sn_cq(cq), &cqe));
		heap_fails_at = i;
		assert_false(sn_cq_push(to_sn_cq(cq), &cqe));
		assert_int_equal(heap_fails_at, 0);
		assert_false(sn_cq_push(to_sn_cq(cq), &cqe));
		assert_int_equal(OPS->get_async_event(server.dev, &event), 0);
		assert_int_equal(event.type, IBV_EVENT_CQ_ERR);
		assert_ptr_equal(event.cq, cq);
		assert_int_equal(ibv_poll_cq(cq, SN_QUEUE_FIRST + 1, wc), room);
		assert_int_equal(ibv_poll_cq(cq, 1, wc), -EIO);
		assert_false(sn_cq_push(to_sn_cq(cq), &cqe));
		assert_int_equal(OPS->get_async_event(server.dev, &event), -EAGAIN);
		fault_set(&(struct fault_plan){ .reorder = 1 });
		assert_int_equal(ibv_poll_cq(cq, 1, wc), -EIO);
		fault_reset();
		OPS->destroy_cq(cq);
	}
	OPS->destroy_cm_channel(cm);
	OPS->destroy_comp_channel(comp);
}

/* An overflow is not reported when the queue is gone. */
static void an_overflow_ends_with_its_queue(void **state)
{
	const struct sn_cqe cqe = { .wc = { .wr_id = 7 } };
	struct device_async_event event;
	struct ibv_cq *cq;

	(void)state;
	assert_int_equal(OPS->create_cq(server.dev, 1, NULL, NULL, &cq), 0);
	assert_true(sn_cq_push(to_sn_cq(cq), &cqe));
	assert_false(sn_cq_push(to_sn_cq(cq), &cqe));
	OPS->destroy_cq(cq);
	assert_int_equal(OPS->get_async_event(server.dev, &event), -EAGAIN);
}

static int reg_mr(size_t length, int fd, int access, struct ibv_mr **mr)
{
	struct device_mem mem = { .addr = server.mem, .length = length, .fd = fd };

	return OPS->reg_mr(server.pd, &mem, access, mr);
}

static void registrations(void **state)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	const int before = allocations, open = descriptors();
	struct ibv_mr *mr;

	(void)state;
	/* Only what peers may read has to be a file that they can map. */
	assert_int_equal(reg_mr(64, ctx->verbs.async_fd, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	OPS->dereg_mr(mr);
	assert_int_equal(reg_mr(64, ctx->verbs.async_fd, IBV_ACCESS_REMOTE_READ, &mr), -EINVAL);
	assert_int_equal(allocations, before);
	assert_int_equal(descriptors(), open);
	assert_int_equal(atomic_load(&ctx->objects[SN_OBJECT_MR]), 1);
	/* A place that is in use is left out, also after all were used once; a key is never 0. */
	ctx->mr_next = server.mr->handle;
	ctx->mr_tag = (1u << 20) - 1;
	assert_int_equal(reg_mr(64, -1, 0, &mr), 0);
	assert_int_not_equal(mr->handle, server.mr->handle);
	assert_ptr_equal(&atomic_load(&ctx->mrs[server.mr->handle])->verbs, server.mr);
	assert_int_equal(mr->lkey, 1u << 12 | mr->handle);
	OPS->dereg_mr(mr);
	/* As long as the device says. */
	fault_set(&(struct fault_plan){ .mr_max = 8192 });
	assert_int_equal(reg_mr(8193, -1, 0, &mr), -EINVAL);
	assert_int_equal(reg_mr(8192, -1, 0, &mr), 0);
	fault_reset();
	OPS->dereg_mr(mr);
}

/* A file that can't be passed is served. */
static void a_grant_that_fails(void **state)
{
	struct ibv_wc wc;

	(void)state;
	grants_fail = true;
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS),
			 0);
	memcpy(server.mem, "served", 7);
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 7, client.remote.addr,
				       client.remote.rkey),
			 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal((const char *)client.mem, "served");
}

/* A piece of no bytes may name any memory. */
static void a_piece_of_nothing(void **state)
{
	struct ibv_sge nothing = { .addr = 1, .length = 0, .lkey = 0 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &nothing,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS),
			 0);
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* Errors of the verbs are positive. */
static void an_error_of_arming(void **state)
{
	(void)state;
	fault_set(&(struct fault_plan){ .fail_call = FAULT_req_notify_cq, .fail_at = 1 });
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), ENOMEM);
	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
}

/* A device's memory is a file, which peers can map, and is given back. */
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
	const uint32_t reserved = to_sn_cq(client.cq)->reserved;
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
		assert_int_equal(to_sn_cq(client.cq)->reserved, reserved);
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
		CASE(a_queue_pair_without_memory),
		CASE(queues_without_memory),
		CASE(queues_that_overflow),
		CASE(an_overflow_ends_with_its_queue),
		CASE(registrations),
		CASE(a_grant_that_fails),
		CASE(a_piece_of_nothing),
		CASE(an_error_of_arming),
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
