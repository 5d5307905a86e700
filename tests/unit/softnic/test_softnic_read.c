/* SPDX-License-Identifier: MIT */
/*
 * Tests of softnic's READs of shared memory: grants, torn READs, revoked rights, peers that failed
 * or died.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/life_word.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/sum.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define TORN_BYTES 1024
#define READS_MAX 4
#define REG_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

static struct end server, client;
static const struct sum_key sum_key;
static char path[64];

static int setup(void **state)
{
	int ret;

	(void)state;
	snprintf(path, sizeof(path), "%s", pair_path());
	ret = end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS);
	if (!ret)
		ret = end_init(&client, DEVICE_CONNECT, path, &END_DEFAULTS);
	if (!ret)
		ret = ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS);
	return ret;
}

static int teardown(void **state)
{
	(void)state;
	fault_reset();
	end_release(&client);
	end_release(&server);
	return 0;
}

/* Private memory, which the other end has to serve. */
static uint8_t served[4096];
static struct ibv_mr *served_mr;

static void served_memory(struct end *end)
{
	const struct device_mem mem = { .addr = served, .length = sizeof(served), .fd = -1 };

	assert_int_equal(OPS->reg_mr(end->pd, &mem, REG_ACCESS, &served_mr), 0);
}

/* Users of all mappings of the client's device together. */
static unsigned int mapping_users(void)
{
	const struct sn_map *map;
	unsigned int users = 0;

	TAILQ_FOREACH(map, &dev_to_sn_context(client.dev)->maps, in_context)
		users += map->users;
	return users;
}

static enum ibv_wc_status read_status(uint32_t length, uint64_t offset, uint32_t rkey)
{
	struct ibv_wc wc;

	assert_int_equal(end_post_read(&client, client.id->qp, 0, length,
				       client.remote.addr + offset, rkey),
			 0);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	return wc.status;
}

/* A READ of shared memory succeeds while nothing polls the server. */
static void test_nobody_serves(void **state)
{
	(void)state;
	memset(server.mem, 0x5a, 4096);
	assert_int_equal(read_status(4096, 0, client.remote.rkey), IBV_WC_SUCCESS);
	assert_memory_equal(client.mem, server.mem, 4096);
}

static void test_mapping_is_read_only(void **state)
{
	struct sn_grant *grant = &to_sn_qp(client.id->qp)->grants[0];

	(void)state;
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
	assert_non_null(grant->map);
	assert_int_equal(mprotect(grant->map->base, grant->map->length, PROT_READ | PROT_WRITE),
			 -1);
	assert_int_equal(errno, EACCES);
	/* Not even the owner can shorten the file that its readers have mapped. */
	assert_int_equal(ftruncate(server.fd, 0), -1);
}

static void torn_write(void *arg)
{
	memset(server.mem, ++*(uint8_t *)arg, TORN_BYTES);
}

/* The server writes between each two pieces: the READ returns a piece of each write. */
static void test_torn(void **state)
{
	uint8_t value = 0;
	struct fault_plan plan = { .tear = 64, .tear_hook = torn_write, .tear_arg = &value };
	unsigned int i;

	(void)state;
	memset(server.mem, 0, TORN_BYTES);
	fault_set(&plan);
	assert_int_equal(read_status(TORN_BYTES, 0, client.remote.rkey), IBV_WC_SUCCESS);
	fault_reset();
	assert_int_equal(value, TORN_BYTES / 64 - 1);
	for (i = 0; i < TORN_BYTES; i++)
		assert_int_equal(client.mem[i], i / 64);
}

/* The call itself reads; the sum is the one of the bytes that it returns, torn or not. */
static void test_now(void **state)
{
	uint8_t value = 0;
	struct fault_plan plan = { .tear = 64, .tear_hook = torn_write, .tear_arg = &value };
	const uint64_t addr = client.remote.addr;
	const uint32_t rkey = client.remote.rkey;
	struct value_sum sum = { 0 };
	struct ibv_wc wc;
	uint32_t i;

	(void)state;
	for (i = 0; i < PAIR_MEM_BYTES; i++)
		server.mem[i] = (uint8_t)(i * 7 + i / 251);
	/* What the server has passed is taken by a READ. */
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr, NULL, 0, &sum), -EAGAIN);
	assert_int_equal(read_status(64, 0, rkey), IBV_WC_SUCCESS);
	value_sum_begin(&sum, &sum_key);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr, NULL, 0, &sum), 0);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr + 3, client.mem, 5000, &sum),
			 5000);
	assert_memory_equal(client.mem, server.mem + 3, 5000);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr + 5003, client.mem, 100, &sum),
			 100);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, server.mem + 3, 5100));
	fault_set(&plan);
	value_sum_begin(&sum, &sum_key);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr, client.mem, TORN_BYTES, &sum),
			 TORN_BYTES);
	fault_reset();
	assert_int_equal(client.mem[TORN_BYTES - 1], TORN_BYTES / 64 - 1);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, client.mem, TORN_BYTES));
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
}

/* What a READ would fail with, or what only a READ can do. */
static void test_not_now(void **state)
{
	const uint64_t addr = client.remote.addr;
	const uint32_t rkey = client.remote.rkey;
	struct value_sum sum = { 0 };

	(void)state;
	assert_int_equal(read_status(64, 0, rkey), IBV_WC_SUCCESS);
	value_sum_begin(&sum, &sum_key);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr + PAIR_MEM_BYTES - 64, client.mem,
				       64, &sum),
			 64);
	value_sum_begin(&sum, &sum_key);
	memset(client.mem, 1, 65);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr + PAIR_MEM_BYTES - 64, client.mem,
				       65, &sum),
			 -EACCES);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr - 1, client.mem, 64, &sum),
			 -EACCES);
	assert_int_equal(OPS->read_now(client.id->qp, rkey + 1, addr, client.mem, 64, &sum),
			 -EAGAIN);
	OPS->disconnect(client.id);
	assert_int_equal(OPS->read_now(client.id->qp, rkey, addr, client.mem, 64, &sum), -ENOTCONN);
	assert_int_equal(client.mem[0] & client.mem[64], 1);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, NULL, 0));
}

static void test_bounds(void **state)
{
	(void)state;
	assert_int_equal(read_status(64, PAIR_MEM_BYTES - 64, client.remote.rkey), IBV_WC_SUCCESS);
	assert_int_equal(read_status(65, PAIR_MEM_BYTES - 64, client.remote.rkey),
			 IBV_WC_REM_ACCESS_ERR);
}

static void test_key_of_nothing(void **state)
{
	struct device_async_event event;
	struct ibv_wc wc;

	(void)state;
	/* The server does not poll: the client itself knows what it may read. */
	assert_int_equal(read_status(64, 0, client.remote.rkey ^ 0x1000), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
	assert_int_equal(server.id->qp->state, IBV_QPS_ERR);
	assert_int_equal(OPS->get_async_event(server.dev, &event), 0);
	assert_int_equal(event.type, IBV_EVENT_QP_ACCESS_ERR);
}

/* A wrong key is not reported of a queue pair that is gone. */
static void test_key_of_nothing_and_the_end(void **state)
{
	struct device_async_event event;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(read_status(64, 0, client.remote.rkey ^ 0x1000), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
	OPS->destroy_qp(server.id);
	assert_int_equal(OPS->get_async_event(server.dev, &event), -EAGAIN);
}

static void test_right_taken_back(void **state)
{
	struct ibv_qp_attr attr = { .qp_access_flags = 0 };

	(void)state;
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
	assert_int_equal(OPS->modify_qp(server.id->qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_REM_ACCESS_ERR);
}

/* Memory of another protection domain is neither passed to the peer nor served. */
static void test_memory_of_another_domain(void **state)
{
	const struct device_mem mem = { .addr = server.mem, .length = 4096, .fd = server.fd };
	const struct sn_qp *qp = to_sn_qp(server.id->qp);
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(OPS->alloc_pd(server.dev, &pd), 0);
	assert_int_equal(OPS->reg_mr(pd, &mem, REG_ACCESS, &mr), 0);
	sn_grants_update(to_sn_qp(server.id->qp));
	for (unsigned int slot = 0; slot < LINK_GRANTS_MAX; slot++)
		assert_int_not_equal(qp->granted[slot], mr->rkey);
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 64, client.remote.addr, mr->rkey),
			 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	OPS->dereg_mr(mr);
	OPS->dealloc_pd(pd);
}

/* More files are granted and revoked, one after the other, than there are slots. */
static void test_many_registrations(void **state)
{
	struct device_mem mem = { .addr = server.mem, .length = 4096, .fd = server.fd };
	unsigned int i;

	(void)state;
	for (i = 0; i < 5 * LINK_GRANTS_MAX; i++) {
		struct ibv_mr *mr;

		server.mem[0] = (uint8_t)i;
		assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mr), 0);
		assert_int_equal(read_status(64, 0, mr->rkey), IBV_WC_SUCCESS);
		assert_int_equal(client.mem[0], (uint8_t)i);
		OPS->dereg_mr(mr);
	}
	/* One in a place of a slot that is used again is let go. */
	assert_true(mapping_users() <= LINK_GRANTS_MAX);
}

/* READs that the peer has to serve: no more are outstanding than it allows. */
static void test_reads_outstanding(void **state)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	unsigned int i, count = 2 * READS_MAX;
	struct ibv_wc wc;

	(void)state;
	qp->reads_max = READS_MAX; /* as of a peer that takes no more */
	served_memory(&server);
	for (i = 0; i < count; i++)
		assert_int_equal(end_post_read(&client, client.id->qp, 0, 64, (uintptr_t)served,
					       served_mr->rkey),
				 0);
	assert_int_equal(qp->sq.reads, READS_MAX);
	for (i = 0; i < count; i++) {
		assert_true(qp->sq.reads <= READS_MAX);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	OPS->dereg_mr(served_mr);
}

/* A SEND with a fence waits for the READs before it; one without goes at once. */
static void test_fence(void **state)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	const uint32_t sends = qp->sq.sends;
	struct ibv_wc wc;

	(void)state;
	served_memory(&server);
	for (unsigned int i = 0; i < 2; i++) {
		unsigned int fence = i ? IBV_SEND_FENCE : 0;

		assert_int_equal(end_post_read(&client, client.id->qp, 0, 64, (uintptr_t)served,
					       served_mr->rkey),
				 0);
		assert_int_equal(qp->sq.reads, 1);
		assert_int_equal(
			end_post_send(&client, client.id->qp, 0, 64, IBV_SEND_SIGNALED | fence), 0);
		assert_int_equal(qp->sq.sends, sends + 1);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.opcode, IBV_WC_SEND);
		assert_int_equal(qp->sq.sends, sends + i + 1);
	}
	OPS->dereg_mr(served_mr);
}

/* A READ sees what the peer did before it took the SEND ahead of the READ. */
static void behind_a_send(struct end *from, struct end *to, uint64_t addr, uint32_t rkey)
{
	struct ibv_wc wc;

	to->mem[0] = 1;
	assert_int_equal(end_post_send(from, from->id->qp, 64, 64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_post_read(from, from->id->qp, 0, 64, addr, rkey), 0);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(ibv_poll_cq(from->cq, 1, &wc), 0);
	to->mem[0] = 2;
	assert_int_equal(end_wait(from, to, &wc), 0);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(end_wait(from, to, &wc), 0);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(from->mem[0], 2);
	assert_int_equal(end_wait(to, from, &wc), 0);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
}

static void test_behind_a_send(void **state)
{
	(void)state;
	/* What the client has mapped, and what the server reads from a file. */
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
	behind_a_send(&client, &server, client.remote.addr, client.remote.rkey);
	behind_a_send(&server, &client, (uintptr_t)client.mem, client.mr->rkey);
}

/* Files without a slot are read too: their owner serves the READs. */
static void test_more_files_than_places(void **state)
{
	struct device_mem mem = { .addr = server.mem, .length = 4096, .fd = server.fd };
	struct ibv_mr *mrs[LINK_GRANTS_MAX + 4];
	unsigned int i;

	(void)state;
	for (i = 0; i < LINK_GRANTS_MAX + 4; i++)
		assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mrs[i]), 0);
	for (i = 0; i < LINK_GRANTS_MAX + 4; i++) {
		struct ibv_wc wc;

		assert_int_equal(end_post_read(&client, client.id->qp, 0, 64, client.remote.addr,
					       mrs[i]->rkey),
				 0);
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	for (i = 0; i < LINK_GRANTS_MAX + 4; i++)
		OPS->dereg_mr(mrs[i]);
}

/* From the second READ on, the client has the grant, and copies while it posts. */
static void warm_up(void)
{
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
}

/* A signaled READ of the start of the server's memory. */
static struct ibv_send_wr read_of(struct ibv_sge *sges, int count)
{
	return (struct ibv_send_wr){
		.sg_list = sges,
		.num_sge = count,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { client.remote.addr, client.remote.rkey },
	};
}

/* The second of two READs that are posted together has these pieces. */
static enum ibv_wc_status second_status(struct ibv_sge *sges, int count)
{
	struct ibv_sge good = { (uintptr_t)client.mem, 64, client.mr->lkey };
	struct ibv_send_wr second = read_of(sges, count), first = read_of(&good, 1), *bad;
	struct ibv_wc wc;

	warm_up();
	first.next = &second;
	assert_int_equal(ibv_post_send(client.id->qp, &first, &bad), 0);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	return wc.status;
}

/* Each READ of a chain writes only to memory that its own pieces may. */
static void test_local_memory_of_a_chain(void **state)
{
	static uint8_t fixed[64];
	const struct device_mem mem = { .addr = fixed, .length = sizeof(fixed), .fd = -1 };
	struct ibv_sge sges[2];
	struct ibv_mr *mr;

	for (unsigned int i = 0; i < 5; i++) {
		if (i)
			assert_int_equal(setup(state), 0);
		memset(server.mem, 1, 128);
		assert_int_equal(OPS->reg_mr(client.pd, &mem, IBV_ACCESS_REMOTE_READ, &mr), 0);
		sges[0] = (struct ibv_sge){ (uintptr_t)client.mem + 64, 64, client.mr->lkey };
		sges[1] = (struct ibv_sge){ (uintptr_t)fixed, 64, mr->lkey };
		if (i == 0)
			assert_int_equal(second_status(sges, 1), IBV_WC_SUCCESS);
		if (i == 1)
			sges[0].lkey ^= 0x1000;
		if (i == 2)
			sges[0].addr += PAIR_MEM_BYTES - 127;
		if (i == 3)
			sges[0] = sges[1];
		if (i)
			assert_int_equal(second_status(sges, i == 4 ? 2 : 1), IBV_WC_LOC_PROT_ERR);
		assert_int_equal(fixed[0], 0);
		OPS->dereg_mr(mr);
		if (i < 4)
			teardown(state);
	}
}

/* A SEND between READs is sent, whatever its other fields say; each completes as what it is. */
static void test_chain_of_all_kinds(void **state)
{
	struct ibv_sge sges[3];
	struct ibv_send_wr wrs[3], *bad;
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	warm_up();
	memset(server.mem, 9, 300);
	memset(client.mem, 5, 300);
	for (i = 0; i < 3; i++) {
		sges[i] = (struct ibv_sge){ (uintptr_t)client.mem + 100 * i, 60 + i,
					    client.mr->lkey };
		wrs[i] = read_of(&sges[i], 1);
		wrs[i].wr_id = i;
		wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
	}
	wrs[1].opcode = IBV_WR_SEND;
	assert_int_equal(ibv_post_send(client.id->qp, wrs, &bad), 0);
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_equal(wc.byte_len, 61);
	assert_int_equal(*end_recv_slot(&server, (unsigned int)wc.wr_id), 5);
	for (i = 0; i < 3; i++) {
		assert_int_equal(end_wait(&client, &server, &wc), 0);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, i == 1 ? IBV_WC_SEND : IBV_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, 60 + i);
		assert_int_equal(client.mem[100 * i], i == 1 ? 5 : 9);
	}
}

/* What is refused of any READ is refused of one of shared memory, too. */
static void test_reads_refused(void **state)
{
	struct ibv_sge sges[3];
	struct ibv_send_wr wr, *bad;

	(void)state;
	warm_up();
	for (unsigned int i = 0; i < 3; i++)
		sges[i] = (struct ibv_sge){ (uintptr_t)client.mem, 8, client.mr->lkey };
	wr = read_of(sges, 3);
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	wr = read_of(sges, 1);
	wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), EINVAL);
}

/* One of no bytes asks the peer whether it is there. */
static void test_read_of_nothing(void **state)
{
	struct ibv_wc wc;

	(void)state;
	warm_up();
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 0, client.remote.addr,
				       client.remote.rkey),
			 0);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_int_equal(end_wait(&client, &server, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* More READs than the queue has places, each reported, as the queue pair says. */
static void test_places_of_reads(void **state)
{
	struct ibv_sge sge = { (uintptr_t)client.mem, 64, client.mr->lkey };
	struct ibv_send_wr wr = read_of(&sge, 1), *bad;
	struct ibv_wc wc;

	(void)state;
	for (unsigned int i = 0; i < 3 * PAIR_SEND_WR; i++)
		assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
	assert_int_equal(to_sn_qp(client.id->qp)->sq.freed, to_sn_qp(client.id->qp)->sq.posted);
	wr.send_flags = 0;
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	to_sn_qp(client.id->qp)->signal_all = true; /* as if it had been created so */
	assert_int_equal(ibv_post_send(client.id->qp, &wr, &bad), 0);
	assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 1);
}

/* SOFTNIC-6: what a peer that has ended left in its memory is not read. */
static void test_peer_in_error(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	(void)state;
	warm_up();
	assert_int_equal(OPS->modify_qp(server.id->qp, &attr, IBV_QP_STATE), 0);
	server.mem[0] = 1;
	client.mem[0] = 0;
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(client.mem[0], 0);
}

static void test_peer_that_disconnected(void **state)
{
	(void)state;
	warm_up();
	assert_int_equal(OPS->disconnect(server.id), 0);
	server.mem[0] = 1;
	client.mem[0] = 0;
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(client.mem[0], 0);
}

/* An offset in the file that is not a multiple of a page. */
static void test_part_of_a_file(void **state)
{
	struct device_mem mem = {
		.addr = server.mem + 5000,
		.length = 10000,
		.fd = server.fd,
		.fd_offset = 5000,
	};
	struct ibv_mr *mr;

	(void)state;
	memset(server.mem + 5000, 0x33, 10000);
	server.mem[4999] = server.mem[15000] = 0;
	assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mr), 0);
	assert_int_equal(read_status(10000, 5000, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(client.mem, server.mem + 5000, 10000);
	assert_int_equal(read_status(10001, 5000, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	OPS->dereg_mr(mr);
}

/* The client has mapped the start of a file when it is passed more of it. */
static void test_more_of_a_file(void **state)
{
	const uint64_t end = PAIR_MEM_BYTES - 64;
	struct device_mem mem = { .length = 4096 };
	struct ibv_mr *begin, *whole;

	(void)state;
	mem.fd = memfd_create("more", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(mem.fd, PAIR_MEM_BYTES), 0);
	mem.addr = mmap(NULL, PAIR_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem.fd, 0);
	assert_ptr_not_equal(mem.addr, MAP_FAILED);
	memset((uint8_t *)mem.addr + end, 0x77, 64);
	client.remote.addr = (uintptr_t)mem.addr;
	assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &begin), 0);
	assert_int_equal(read_status(64, 0, begin->rkey), IBV_WC_SUCCESS);
	mem.length = PAIR_MEM_BYTES;
	assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &whole), 0);
	assert_int_equal(read_status(64, end, whole->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(client.mem, (uint8_t *)mem.addr + end, 64);
	OPS->dereg_mr(whole);
	OPS->dereg_mr(begin);
	munmap(mem.addr, PAIR_MEM_BYTES);
	close(mem.fd);
}

static void test_files_refused(void **state)
{
	struct device_mem mem = { .addr = server.mem, .length = PAIR_MEM_BYTES };
	struct ibv_mr *mr;

	(void)state;
	mem.fd = open("/dev/zero", O_RDWR | O_CLOEXEC); /* can't be sealed */
	assert_true(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mr) < 0);
	close(mem.fd);
	mem.fd = memfd_create("never sealed", MFD_CLOEXEC);
	assert_int_equal(ftruncate(mem.fd, PAIR_MEM_BYTES), 0);
	assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mr), -EPERM);
	close(mem.fd);
	mem.fd = memfd_create("too short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(mem.fd, PAIR_MEM_BYTES - 1), 0);
	assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mr), -EINVAL);
	close(mem.fd);
	mem.fd = server.fd;
	mem.fd_offset = UINT64_MAX - 4096;
	assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mr), -EINVAL);
}

/* A client checks the files that a server passes: one that could shrink could crash it. */
static void test_client_checks_files(void **state)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	struct link_message grant = {
		.magic = LINK_MAGIC,
		.type = LINK_MESSAGE_GRANT,
		.grant_slot = 1,
		.grant_rkey = 5,
		.grant_addr = 4096,
		.grant_length = 4096,
	};
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(ftruncate(fd, 4096), 0);
	sn_lock(&qp->lock);
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	grant.grant_slot = LINK_GRANTS_MAX;
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	grant.grant_slot = 1;
	grant.grant_length = 4097;
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	grant.grant_length = 4096;
	grant.grant_offset = 1;
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	grant.grant_offset = UINT64_MAX - 1;
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	grant.grant_offset = 0;
	grant.grant_addr = UINT64_MAX - 100;
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	grant.grant_addr = 4096;
	grant.reserved = 1;
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), -EPROTO);
	grant.reserved = 0;
	assert_int_equal(do_sn_grant_take(qp, &grant, fd), 0);
	sn_unlock(&qp->lock);
	close(fd);
}

/* A READ of a hole gives zeros and leaves it one: the page would be on the client's account. */
static void test_file_with_holes(void **state)
{
	struct device_mem mem = { .length = PAIR_MEM_BYTES };
	struct ibv_mr *mr;
	struct stat st;

	(void)state;
	mem.fd = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(mem.fd, PAIR_MEM_BYTES), 0);
	mem.addr = mmap(NULL, PAIR_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem.fd, 0);
	assert_ptr_not_equal(mem.addr, MAP_FAILED);
	memset(mem.addr, 0x77, 4096);
	client.remote.addr = (uintptr_t)mem.addr;
	assert_int_equal(OPS->reg_mr(server.pd, &mem, REG_ACCESS, &mr), 0);
	memset(client.mem, 1, 8192);
	assert_int_equal(read_status(8192, 0, mr->rkey), IBV_WC_SUCCESS);
	for (unsigned int i = 0; i < 8192; i++)
		assert_int_equal(client.mem[i], i < 4096 ? 0x77 : 0);
	assert_int_equal(fstat(mem.fd, &st), 0);
	assert_int_equal(st.st_blocks, 4096 / 512);
	assert_null(sn_read_source(client.id->qp, mr->rkey, (uintptr_t)mem.addr, 64));
	OPS->dereg_mr(mr);
	munmap(mem.addr, PAIR_MEM_BYTES);
	close(mem.fd);
}

/* A CQ that nobody polls overflows: there is an event, and the connection goes to error. */
static void test_overrun(void **state)
{
	struct device_async_event event;
	struct ibv_wc wc[64];
	unsigned int i, max = (unsigned int)client.cq->cqe;
	int got, total = 0;

	(void)state;
	/*
	 * The send queue is shorter than the CQ, so the test has to shorten the CQ to overflow it.
	 */
	for (i = 0; i < PAIR_SEND_WR; i++)
		assert_int_equal(end_post_read(&client, client.id->qp, 0, 8, client.remote.addr,
					       client.remote.rkey),
				 0);
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 8, client.remote.addr,
				       client.remote.rkey),
			 -ENOMEM);
	to_sn_cq(client.cq)->verbs.cqe = PAIR_SEND_WR; /* so that it is full now */
	atomic_store(&to_sn_qp(client.id->qp)->sq.freed, PAIR_SEND_WR);
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 8, client.remote.addr,
				       client.remote.rkey),
			 0);
	assert_int_equal(client.id->qp->state, IBV_QPS_ERR);
	do
		assert_int_equal(OPS->get_async_event(client.dev, &event), 0);
	while (event.type != IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.cq, client.cq);
	while ((got = ibv_poll_cq(client.cq, 64, wc)) > 0)
		total += got;
	assert_int_equal(total, PAIR_SEND_WR);
	assert_int_equal(got, -EIO);
	assert_true(max > PAIR_SEND_WR);
}

/*
 * A peer in error that did not disconnect: nobody who has nothing outstanding notices that. What
 * is posted then fails, also when its bell was seen before.
 */
static void test_send_to_peer_in_error(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(OPS->modify_qp(server.id->qp, &attr, IBV_QP_STATE), 0);
	while (sn_qp_has_work(qp))
		assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
	assert_int_equal(qp->verbs.state, IBV_QPS_RTS);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
}

/* A server in a process of its own, for one client. */
struct killable {
	char path[64];
	pid_t pid;
	int ready_fd, hold_fd;
	struct end client;
};

enum killable_kind {
	KILLABLE_PLAIN,
	/* Once it has its client, another process holds its files open, the sockets too. */
	KILLABLE_HELD,
	/* The list of robust mutexes is lost, as when the OOM reaper is faster than the exit. */
	KILLABLE_REAPED,
};

static void robust_list_lose(void)
{
	static struct robust_list_head empty;

	empty.list.next = &empty.list;
	syscall(SYS_set_robust_list, &empty, sizeof(empty));
}

/* @hold_fd: at its end the other process ends. */
static _Noreturn void killable_serve(const char *at, int ready_fd, int hold_fd,
				     enum killable_kind kind)
{
	struct end end;
	char byte;

	if (end_init(&end, DEVICE_LISTEN, at, &END_DEFAULTS) || write(ready_fd, "x", 1) != 1)
		_exit(1);
	if (kind == KILLABLE_REAPED)
		robust_list_lose();
	while (!end.connected)
		end_serve_cm(&end, &END_DEFAULTS);
	if (kind == KILLABLE_HELD && !fork()) {
		while (read(hold_fd, &byte, 1) > 0)
			;
		_exit(0);
	}
	if (write(ready_fd, "x", 1) != 1)
		_exit(1);
	for (;;)
		end_serve_cm(&end, &END_DEFAULTS);
}

static enum ibv_wc_status killable_read(struct killable *k)
{
	struct ibv_wc wc;

	assert_int_equal(end_post_read(&k->client, k->client.id->qp, 0, 64, k->client.remote.addr,
				       k->client.remote.rkey),
			 0);
	assert_int_equal(end_wait(&k->client, NULL, &wc), 0);
	return wc.status;
}

static void killable_start(struct killable *k, enum killable_kind kind)
{
	int ready[2], hold[2];
	char byte;

	snprintf(k->path, sizeof(k->path), "%s", pair_path());
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	k->pid = fork();
	if (!k->pid) {
		close(hold[1]);
		killable_serve(k->path, ready[1], hold[0], kind);
	}
	close(ready[1]);
	close(hold[0]);
	k->ready_fd = ready[0];
	k->hold_fd = hold[1];
	assert_int_equal(read(k->ready_fd, &byte, 1), 1);
	assert_int_equal(end_init(&k->client, DEVICE_CONNECT, k->path, &END_DEFAULTS), 0);
	assert_int_equal(end_connect(&k->client, &k->client.id, &END_DEFAULTS), 0);
	while (!k->client.connected)
		end_serve_cm(&k->client, &END_DEFAULTS);
	assert_int_equal(read(k->ready_fd, &byte, 1), 1);
}

static void killable_reads(struct killable *k, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(killable_read(k), IBV_WC_SUCCESS);
}

static void killable_kill(struct killable *k)
{
	kill(k->pid, SIGKILL);
	waitpid(k->pid, NULL, 0);
}

static void killable_release(struct killable *k)
{
	close(k->hold_fd);
	close(k->ready_fd);
	while (!k->client.disconnected)
		end_serve_cm(&k->client, &END_DEFAULTS);
	end_release(&k->client);
	unlink(k->path);
}

/*
 * After a server was killed its memory is still mapped, but READs of it fail, from the first one
 * on: another server may answer by then (guarantees B and F).
 */
static void test_killed_server(void **state)
{
	struct killable k = { 0 };

	(void)state;
	killable_start(&k, KILLABLE_PLAIN);
	killable_reads(&k, 1000);
	assert_non_null(to_sn_qp(k.client.id->qp)->life);
	killable_kill(&k);
	assert_int_equal(killable_read(&k), IBV_WC_WR_FLUSH_ERR);
	killable_release(&k);
}

/* So they do when the sockets of the dead stay open, as a process that it started may hold them. */
static void test_killed_server_held(void **state)
{
	struct killable k = { 0 };

	(void)state;
	killable_start(&k, KILLABLE_HELD);
	killable_reads(&k, 1000);
	killable_kill(&k);
	assert_int_equal(killable_read(&k), IBV_WC_WR_FLUSH_ERR);
	killable_release(&k);
}

/* With its first READ the client learns of the memory, and that the server is dead. */
static void test_killed_before_first_read(void **state)
{
	struct killable k = { 0 };

	(void)state;
	killable_start(&k, KILLABLE_HELD);
	killable_kill(&k);
	assert_int_equal(killable_read(&k), IBV_WC_WR_FLUSH_ERR);
	killable_release(&k);
}

static void killable_reads_fail_soon(struct killable *k)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	enum ibv_wc_status status;

	do {
		status = killable_read(k);
		assert_true(pair_now_ms() < deadline);
	} while (status == IBV_WC_SUCCESS);
	assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
}

/* A server that has no word for its life: the socket tells, a tick of the clock later. */
static void test_killed_server_without_word(void **state)
{
	struct killable k = { 0 };

	(void)state;
	killable_start(&k, KILLABLE_PLAIN);
	killable_reads(&k, 1000);
	do_sn_life_release(to_sn_qp(k.client.id->qp));
	killable_reads(&k, 1);
	killable_kill(&k);
	killable_reads_fail_soon(&k);
	killable_release(&k);
}

/* The kernel does not always change the word. Nothing but READs looks at the socket here. */
static void test_killed_server_reaped(void **state)
{
	struct killable k = { 0 };
	struct sn_qp *qp;
	unsigned int count;

	(void)state;
	killable_start(&k, KILLABLE_REAPED);
	killable_reads(&k, 1000);
	qp = to_sn_qp(k.client.id->qp);
	killable_kill(&k);
	assert_false(do_sn_life_ended(qp));
	qp->tick = 0;
	for (count = 0; killable_read(&k) == IBV_WC_SUCCESS; count++)
		assert_true(count < SN_LIFE_READS);
	killable_release(&k);
}

/* The word ends with the device, too; and files that are no life words are refused. */
static void test_life_word(void **state)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	struct sn_life life = SN_LIFE_NONE;
	int fd;

	(void)state;
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
	assert_non_null(qp->life);
	assert_false(do_sn_life_ended(qp));
	sn_life_begin(&life);
	assert_non_null(life.page);
	assert_int_equal(do_sn_life_take(qp, life.fd), 0);
	assert_false(do_sn_life_ended(qp));
	/* The server can't shorten the file, nor a client write to it. */
	assert_int_equal(ftruncate(life.fd, 0), -1);
	assert_ptr_equal(mmap(NULL, LINK_LIFE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, life.fd,
			      0),
			 MAP_FAILED);
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
	sn_life_end(&life);
	assert_true(do_sn_life_ended(qp));
	assert_int_equal(life.fd, -1);

	fd = memfd_create("not-sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, LINK_LIFE_BYTES), 0);
	assert_int_equal(do_sn_life_take(qp, fd), -EPROTO);
	assert_int_equal(ftruncate(fd, LINK_LIFE_BYTES / 2), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE), 0);
	assert_int_equal(do_sn_life_take(qp, fd), -EPROTO);
	close(fd);
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_WR_FLUSH_ERR);
}

static unsigned int maps_count(void)
{
	const struct sn_map *map;
	unsigned int count = 0;

	TAILQ_FOREACH(map, &dev_to_sn_context(client.dev)->maps, in_context)
		count++;
	return count;
}

/* A further word takes the place of the one before, whose mapping ends. */
static void test_life_word_passed_again(void **state)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);
	unsigned int count, i;

	(void)state;
	assert_int_equal(read_status(64, 0, client.remote.rkey), IBV_WC_SUCCESS);
	count = maps_count();
	for (i = 0; i < 10; i++) {
		struct sn_life life = SN_LIFE_NONE;

		sn_life_begin(&life);
		assert_int_equal(do_sn_life_take(qp, life.fd), 0);
		assert_int_equal(maps_count(), count);
		sn_life_end(&life);
		assert_true(do_sn_life_ended(qp));
	}
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

int main(void)
{
#define READ_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		READ_TEST(test_nobody_serves),
		READ_TEST(test_mapping_is_read_only),
		READ_TEST(test_torn),
		READ_TEST(test_now),
		READ_TEST(test_not_now),
		READ_TEST(test_bounds),
		READ_TEST(test_key_of_nothing),
		READ_TEST(test_key_of_nothing_and_the_end),
		READ_TEST(test_right_taken_back),
		READ_TEST(test_memory_of_another_domain),
		READ_TEST(test_many_registrations),
		READ_TEST(test_reads_outstanding),
		READ_TEST(test_fence),
		READ_TEST(test_behind_a_send),
		READ_TEST(test_more_files_than_places),
		READ_TEST(test_local_memory_of_a_chain),
		READ_TEST(test_chain_of_all_kinds),
		READ_TEST(test_reads_refused),
		READ_TEST(test_read_of_nothing),
		READ_TEST(test_places_of_reads),
		READ_TEST(test_peer_in_error),
		READ_TEST(test_peer_that_disconnected),
		READ_TEST(test_part_of_a_file),
		READ_TEST(test_more_of_a_file),
		READ_TEST(test_files_refused),
		READ_TEST(test_file_with_holes),
		READ_TEST(test_client_checks_files),
		READ_TEST(test_overrun),
		READ_TEST(test_send_to_peer_in_error),
		READ_TEST(test_killed_server),
		READ_TEST(test_killed_server_held),
		READ_TEST(test_killed_before_first_read),
		READ_TEST(test_killed_server_without_word),
		READ_TEST(test_killed_server_reaped),
		READ_TEST(test_life_word),
		READ_TEST(test_life_word_passed_again),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
