/* SPDX-License-Identifier: MIT */
/*
 * Test of softnic with the threads of kvd: a control thread accepts and destroys connections while
 * a worker polls and posts on the same CQ and SRQ; clients connect and leave, some without
 * disconnecting. Most useful under ThreadSanitizer.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/softnic/device_context.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define CLIENTS 3
#define SESSIONS 25
#define MESSAGES 40
#define CONNS 64
#define WR_SEND 4096 /* the offset in the memory, which is also the work request's number */

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static struct end server;
static char path[64];
static _Atomic unsigned int clients_left;
static _Atomic bool stop;

/* The connections; the control thread removes one from here before it destroys it. */
static pthread_mutex_t conns_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_id *conns[CONNS];

static void conn_put(struct cm_id *from, struct cm_id *to)
{
	unsigned int i;

	pthread_mutex_lock(&conns_lock);
	for (i = 0; i < CONNS && conns[i] != from; i++)
		;
	MUST(i < CONNS);
	conns[i] = to;
	pthread_mutex_unlock(&conns_lock);
}

static void worker_respond(const struct ibv_wc *wc)
{
	unsigned int i;

	pthread_mutex_lock(&conns_lock);
	for (i = 0; i < CONNS; i++)
		if (conns[i] && conns[i]->qp->qp_num == wc->qp_num)
			MUST(!end_post_send(&server, conns[i]->qp, WR_SEND, wc->byte_len,
					    IBV_SEND_SIGNALED));
	pthread_mutex_unlock(&conns_lock);
}

static void worker_sleep(void)
{
	struct pollfd pfd = { .fd = server.comp->fd, .events = POLLIN };
	struct ibv_cq *cq;

	if (poll(&pfd, 1, 20) == 1)
		OPS->get_cq_event(server.comp, &cq);
}

static void *worker(void *arg)
{
	struct ibv_wc wc[8];

	(void)arg;
	while (!atomic_load(&stop)) {
		int count = ibv_poll_cq(server.cq, 8, wc);
		int i;

		if (!count) {
			MUST(!ibv_req_notify_cq(server.cq, 0));
			count = ibv_poll_cq(server.cq, 8, wc);
		}
		if (!count)
			worker_sleep();
		MUST(count >= 0);
		for (i = 0; i < count; i++) {
			/*
			 * A flushed request may be of either kind: a send has no receive's number.
			 */
			if (wc[i].wr_id == WR_SEND)
				continue;
			MUST(!end_post_recv(&server, (unsigned int)wc[i].wr_id));
			if (!wc[i].status)
				worker_respond(&wc[i]);
		}
	}
	return NULL;
}

static void *control(void *arg)
{
	struct cm_param param = { .rnr_retry_count = 7, .min_rnr_timer = 5 };
	struct pair_hello hello = { (uintptr_t)server.mem, server.mr->rkey };
	struct device_async_event async;
	struct cm_event event;

	(void)arg;
	param.private_data = &hello;
	param.private_len = sizeof(hello);
	while (!atomic_load(&stop)) {
		struct pollfd pfd = { .fd = server.cm->fd, .events = POLLIN };

		OPS->get_async_event(server.dev, &async);
		if (poll(&pfd, 1, 20) != 1 || OPS->cm_get_event(server.cm, &event))
			continue;
		switch (event.type) {
		case CM_CONNECT_REQUEST:
			MUST(!end_create_qp(&server, event.id, &END_DEFAULTS));
			conn_put(NULL, event.id);
			MUST(!OPS->accept(event.id, &param));
			break;
		case CM_DISCONNECTED:
			conn_put(event.id, NULL);
			OPS->destroy_id(event.id);
			break;
		default:
			MUST(event.type == CM_ESTABLISHED);
		}
	}
	return NULL;
}

static void client_session(struct end *end, unsigned int *seed)
{
	struct ibv_wc wc;
	unsigned int i, received = 0;
	bool read;

	MUST(!end_connect(end, &end->id, &END_DEFAULTS));
	while (!end->connected) {
		int ret = end_serve_cm(end, &END_DEFAULTS);

		MUST(!ret || ret == -EAGAIN);
		sched_yield();
	}
	for (i = 0; i < MESSAGES; i++) {
		*seed = *seed * 1664525u + 1013904223u;
		MUST(!end_post_send(end, end->id->qp, 0, 1 + (*seed >> 8) % end_recv_bytes(),
				    IBV_SEND_SIGNALED));
		MUST(!end_post_read(end, end->id->qp, 4096, 512, end->remote.addr + 64 * i,
				    end->remote.rkey));
		read = false;
		do {
			MUST(!end_wait(end, NULL, &wc));
			MUST(wc.status == IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_RDMA_READ)
				read = true;
			if (wc.opcode == IBV_WC_RECV) {
				received++;
				MUST(!end_post_recv(end, (unsigned int)wc.wr_id));
			}
		} while (!read || (i % 4 == 0 && received <= i));
	}
	if (*seed & 0x100)
		MUST(!OPS->disconnect(end->id));
}

static void *client(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	unsigned int i;

	for (i = 0; i < SESSIONS; i++) {
		struct end end;

		MUST(!end_init(&end, DEVICE_CONNECT, path, &END_DEFAULTS));
		client_session(&end, &seed);
		end_release(&end);
	}
	atomic_fetch_sub(&clients_left, 1);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[2 + CLIENTS];
	unsigned int i;

	(void)state;
	snprintf(path, sizeof(path), "%s", pair_path());
	assert_int_equal(end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS), 0);
	atomic_store(&clients_left, CLIENTS);
	assert_int_equal(pthread_create(&threads[0], NULL, worker, NULL), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, control, NULL), 0);
	for (i = 0; i < CLIENTS; i++)
		assert_int_equal(pthread_create(&threads[2 + i], NULL, client,
						(void *)(uintptr_t)(i + 1)),
				 0);
	for (i = 0; i < CLIENTS; i++)
		pthread_join(threads[2 + i], NULL);
	assert_int_equal(atomic_load(&clients_left), 0);
	/* Every connection is destroyed, also those of clients that did not disconnect. */
	while (atomic_load(&dev_to_sn_context(server.dev)->objects[SN_OBJECT_QP]))
		sched_yield();
	atomic_store(&stop, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	end_release(&server);
	pair_path_release();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
