/* SPDX-License-Identifier: MIT */
/*
 * Tests of what softnic keeps for many queue pairs: asynchronous events, of which none is lost, and
 * numbers, which are unique after they have wrapped; limits, and the ends of files.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define MANY 1500
#define FEW 8
#define LAST_NUMBER 0xffffffu
#define FIRST_NUMBER 1000
#define GROWN 200
#define FILE_BYTES 16384

static struct end server, client;
static struct cm_id *ids[MANY];

static int ends_start(void **state)
{
	(void)state;
	return default_ends(&server, &client);
}

static int ends_stop(void **state)
{
	(void)state;
	end_release(&client);
	end_release(&server);
	return 0;
}

static void qps_create(unsigned int from, unsigned int to)
{
	unsigned int i;

	for (i = from; i < to; i++) {
		assert_int_equal(OPS->create_id(client.cm, &ids[i]), 0);
		assert_int_equal(end_create_qp(&client, ids[i], &END_DEFAULTS), 0);
	}
}

static void qps_destroy(unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		OPS->destroy_id(ids[i]);
}

static void qp_fail(unsigned int i)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_int_equal(OPS->modify_qp(ids[i]->qp, &attr, IBV_QP_STATE), 0);
}

static bool is_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

/* All queue pairs fail before an event is taken: each is reported, once and in order. */
static void test_no_event_is_lost(void **state)
{
	struct device_async_event event;
	unsigned int i;

	(void)state;
	qps_create(0, MANY);
	for (i = 0; i < MANY; i++)
		qp_fail(i);
	for (i = 0; i < MANY; i++) {
		assert_true(is_readable(client.dev->verbs->async_fd));
		assert_int_equal(OPS->get_async_event(client.dev, &event), 0);
		assert_int_equal(event.type, IBV_EVENT_QP_LAST_WQE_REACHED);
		assert_ptr_equal(event.qp, ids[i]->qp);
	}
	assert_int_equal(OPS->get_async_event(client.dev, &event), -EAGAIN);
	assert_false(is_readable(client.dev->verbs->async_fd));
	qps_destroy(MANY);
}

/* Events of a queue pair that was destroyed are not reported. */
static void test_events_end_with_their_object(void **state)
{
	struct device_async_event event;

	(void)state;
	qps_create(0, 3);
	qp_fail(0);
	qp_fail(1);
	qp_fail(2);
	OPS->destroy_qp(ids[1]);
	assert_int_equal(OPS->get_async_event(client.dev, &event), 0);
	assert_ptr_equal(event.qp, ids[0]->qp);
	assert_int_equal(OPS->get_async_event(client.dev, &event), 0);
	assert_ptr_equal(event.qp, ids[2]->qp);
	assert_false(is_readable(client.dev->verbs->async_fd));
	qp_fail(0); /* it has failed already */
	assert_int_equal(OPS->get_async_event(client.dev, &event), -EAGAIN);
	qps_destroy(3);
}

/*
 * The key of a window is not used again soon: not by the next windows, and not by registrations,
 * whose keys look otherwise.
 */
static void test_window_keys(void **state)
{
	struct device_mem mem = { .addr = ids, .length = sizeof(ids), .fd = -1 };
	struct ibv_mw *kept, *mw;
	uint32_t key, last;
	struct ibv_mr *mr;
	unsigned int i;

	(void)state;
	assert_int_equal(OPS->alloc_mw(client.pd, &kept), 0);
	key = kept->rkey;
	assert_true(key & 0x80000000u);
	assert_int_equal(key & 0xff, 0);
	for (i = 0, last = key; i < SN_MW_MAX + FEW; i++) {
		assert_int_equal(OPS->alloc_mw(client.pd, &mw), 0);
		assert_int_equal(mw->type, IBV_MW_TYPE_2);
		assert_int_not_equal(mw->rkey, key);
		assert_int_not_equal(mw->rkey, last);
		last = mw->rkey;
		OPS->dealloc_mw(mw);
	}
	/* The kept window's slot comes round again, with another tag. */
	OPS->dealloc_mw(kept);
	for (i = 0; i < SN_MW_MAX; i++) {
		assert_int_equal(OPS->alloc_mw(client.pd, &mw), 0);
		assert_int_not_equal(mw->rkey, key);
		OPS->dealloc_mw(mw);
	}
	for (i = 0; i < FEW; i++) {
		assert_int_equal(OPS->reg_mr(client.pd, &mem, IBV_ACCESS_REMOTE_READ, &mr), 0);
		assert_false(mr->rkey & 0x80000000u);
		OPS->dereg_mr(mr);
	}
	OPS->dealloc_mw(NULL);
}

static struct ibv_mw *windows[SN_MW_MAX];

/* As many as there may be, all with keys of their own; one more is refused. */
static void test_windows_are_bounded(void **state)
{
	static uint8_t seen[SN_MW_MAX];
	struct ibv_mw *mw;
	unsigned int i;

	(void)state;
	memset(seen, 0, sizeof(seen));
	for (i = 0; i < SN_MW_MAX; i++) {
		assert_int_equal(OPS->alloc_mw(client.pd, &windows[i]), 0);
		assert_int_equal(seen[windows[i]->rkey >> 8 & (SN_MW_MAX - 1)]++, 0);
	}
	assert_int_equal(OPS->alloc_mw(client.pd, &mw), -ENOMEM);
	OPS->dealloc_mw(windows[77]);
	assert_int_equal(OPS->alloc_mw(client.pd, &windows[77]), 0);
	for (i = 0; i < SN_MW_MAX; i++)
		OPS->dealloc_mw(windows[i]);
}

static void test_numbers_wrap(void **state)
{
	struct sn_qp_numbers *numbers = &dev_to_sn_context(client.dev)->qp_numbers;
	unsigned int i, j;

	(void)state;
	numbers->next = LAST_NUMBER - 1;
	qps_create(0, FEW);
	assert_int_equal(ids[0]->qp->qp_num, LAST_NUMBER - 1);
	assert_int_equal(ids[1]->qp->qp_num, LAST_NUMBER);
	for (i = 2; i < FEW; i++)
		assert_int_equal(ids[i]->qp->qp_num, i);
	/* One that was given back is used again, those in use are left out. */
	OPS->destroy_qp(ids[4]);
	numbers->next = LAST_NUMBER - 1;
	qps_create(FEW, 5 * FEW);
	assert_int_equal(ids[FEW]->qp->qp_num, 4);
	for (i = 0; i < 5 * FEW; i++)
		for (j = 0; j < i && i != 4; j++)
			assert_true(j == 4 || ids[i]->qp->qp_num != ids[j]->qp->qp_num);
	qps_destroy(5 * FEW);
}

/* The table of numbers grows with their count, and still finds each one that is in use. */
static void test_numbers_in_use_are_found_after_growth(void **state)
{
	struct sn_qp_numbers *numbers = &dev_to_sn_context(client.dev)->qp_numbers;
	unsigned int i, j;

	(void)state;
	numbers->next = FIRST_NUMBER;
	qps_create(0, GROWN);
	assert_true(numbers->bucket_count >= GROWN);
	numbers->next = FIRST_NUMBER;
	qps_create(GROWN, 2 * GROWN);
	for (i = 0; i < 2 * GROWN; i++)
		for (j = 0; j < i; j++)
			assert_int_not_equal(ids[i]->qp->qp_num, ids[j]->qp->qp_num);
	qps_destroy(2 * GROWN);
}

/* What a limit has refused takes no place: when one goes, another one can come. */
static void test_limits_count_what_exists(void **state)
{
	static struct ibv_pd *pds[SN_PD_MAX];
	struct ibv_pd *more;
	unsigned int i;

	(void)state;
	for (i = 1; i < SN_PD_MAX; i++) /* the end has one */
		assert_int_equal(OPS->alloc_pd(client.dev, &pds[i]), 0);
	for (i = 0; i < FEW; i++)
		assert_int_equal(OPS->alloc_pd(client.dev, &more), -ENOMEM);
	OPS->dealloc_pd(pds[1]);
	assert_int_equal(OPS->alloc_pd(client.dev, &pds[1]), 0);
	assert_int_equal(OPS->alloc_pd(client.dev, &more), -ENOMEM);
	for (i = 1; i < SN_PD_MAX; i++)
		OPS->dealloc_pd(pds[i]);
}

/* One that could not be created has no place in the completion queues. */
static void test_refused_has_no_place(void **state)
{
	struct sn_cq *cqs[2];
	uint32_t reserved[2];

	(void)state;
	qps_create(0, 1);
	cqs[0] = to_sn_qp(ids[0]->qp)->send_cq;
	cqs[1] = to_sn_qp(ids[0]->qp)->recv_cq;
	for (unsigned int i = 0; i < 2; i++)
		reserved[i] = cqs[i]->reserved;
	/* The id has a queue pair already, which is found last. */
	assert_int_equal(end_create_qp(&client, ids[0], &END_DEFAULTS), -EINVAL);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(cqs[i]->reserved, reserved[i]);
	assert_ptr_equal(&TAILQ_LAST(&dev_to_sn_context(client.dev)->qps, sn_qp_list)->verbs,
			 ids[0]->qp);
	qps_destroy(1);
}

/* A queue pair that has to wait for long puts off none that waits for a moment. */
static void test_shortest_wait_first(void **state)
{
	struct sn_channel *channel = sn_container(client.comp, struct sn_channel, verbs);
	struct pollfd fd = { .fd = client.comp->fd, .events = POLLIN };

	(void)state;
	sn_channel_timer(channel, 1000000);
	sn_channel_timer(channel, 3600000000000ull);
	assert_int_equal(poll(&fd, 1, PAIR_WAIT_MS), 1);
	OPS->sleep(client.comp, -1, 0);
	/* The other way round. */
	sn_channel_timer(channel, 3600000000000ull);
	sn_channel_timer(channel, 1000000);
	assert_int_equal(poll(&fd, 1, PAIR_WAIT_MS), 1);
	OPS->sleep(client.comp, -1, 0);
}

/* A side that ends a connection gets no later event that it was established. */
static void test_ended_before_it_is_told(void **state)
{
	struct sn_id *id;
	struct cm_event event;

	(void)state;
	assert_int_equal(end_connect(&client, &client.id, &END_DEFAULTS), 0);
	id = to_sn_id(client.id);
	/* The event is there and not taken, as when several come together. */
	while (!(id->pending & 1u << CM_ESTABLISHED)) {
		end_serve_cm(&server, &END_DEFAULTS);
		pthread_mutex_lock(&sn_id_channel(id)->lock);
		do_sn_handshake(id, POLLIN);
		pthread_mutex_unlock(&sn_id_channel(id)->lock);
	}
	assert_int_equal(OPS->disconnect(client.id), 0);
	assert_int_equal(OPS->cm_get_event(client.cm, &event), -EAGAIN);
	OPS->destroy_id(client.id);
	client.id = NULL;
	while (!server.disconnected)
		end_serve_cm(&server, &END_DEFAULTS);
}

/* Memory that a peer could READ beyond the end of its file, which would end the peer. */
static void test_memory_ends_with_its_file(void **state)
{
	static const struct {
		size_t offset, length;
		int result;
	} ranges[] = {
		{ 0, FILE_BYTES, 0 },
		{ 4096, FILE_BYTES - 4096, 0 },
		{ 0, FILE_BYTES + 1, -EINVAL },
		{ 4096, FILE_BYTES - 4095, -EINVAL },
		{ 4096, FILE_BYTES, -EINVAL },
		{ FILE_BYTES, 1, -EINVAL },
		{ FILE_BYTES + 4096, 1, -EINVAL },
		{ SIZE_MAX - 4095, 8192, -EINVAL },
	};
	const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct device_mem mem = { .fd = fd };
	struct ibv_mr *mr;
	unsigned int i;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	mem.addr = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mem.addr, MAP_FAILED);
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		mem.fd_offset = ranges[i].offset;
		mem.length = ranges[i].length;
		assert_int_equal(OPS->reg_mr(server.pd, &mem,
					     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &mr),
				 ranges[i].result);
		if (!ranges[i].result)
			OPS->dereg_mr(mr);
	}
	munmap(mem.addr, FILE_BYTES);
	close(fd);
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_event_is_lost, ends_start, ends_stop),
		cmocka_unit_test_setup_teardown(test_events_end_with_their_object, ends_start,
						ends_stop),
		cmocka_unit_test_setup_teardown(test_window_keys, ends_start, ends_stop),
		cmocka_unit_test_setup_teardown(test_windows_are_bounded, ends_start, ends_stop),
		cmocka_unit_test_setup_teardown(test_numbers_wrap, ends_start, ends_stop),
		cmocka_unit_test_setup_teardown(test_numbers_in_use_are_found_after_growth,
						ends_start, ends_stop),
		cmocka_unit_test_setup_teardown(test_limits_count_what_exists, ends_start,
						ends_stop),
		cmocka_unit_test_setup_teardown(test_refused_has_no_place, ends_start, ends_stop),
		cmocka_unit_test_setup_teardown(test_shortest_wait_first, ends_start, ends_stop),
		cmocka_unit_test_setup_teardown(test_ended_before_it_is_told, ends_start,
						ends_stop),
		cmocka_unit_test_setup_teardown(test_memory_ends_with_its_file, ends_start,
						ends_stop),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
