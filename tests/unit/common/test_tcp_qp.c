/* SPDX-License-Identifier: MIT */
/*
 * Tests of how a queue pair that is set up over TCP is brought up (common/rdma/tcp/qp.c): what each
 * transition is told, and what fails there. The file is compiled here, with functions of the test
 * in place of libibverbs.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/tcp/tcp.h"

static int test_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
static int test_destroy_qp(struct ibv_qp *qp);
static int test_query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr);
static ssize_t test_getrandom(void *buf, size_t len, unsigned int flags);
static int test_qp_create(struct device *dev, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			  struct ibv_qp **qp);
static void test_qp_destroy(struct device *dev, struct ibv_qp *qp);
static int test_gid_choose(const struct verbs_port *port, const struct sockaddr_storage *local,
			   const struct tcp_end *peer, struct ibv_gid_entry *entry);

#undef ibv_query_port
#define ibv_modify_qp test_modify_qp
#define ibv_destroy_qp test_destroy_qp
#define ibv_query_port test_query_port
#define getrandom test_getrandom
#define verbs_qp_create test_qp_create
#define verbs_qp_destroy test_qp_destroy
#define tcp_gid_choose test_gid_choose
#include "common/rdma/tcp/qp.c"
#undef ibv_modify_qp
#undef ibv_destroy_qp
#undef ibv_query_port
#undef getrandom
#undef verbs_qp_create
#undef verbs_qp_destroy
#undef tcp_gid_choose

#define PORT 2
#define QPN 0x4711u
#define READ IBV_ACCESS_REMOTE_READ

/* What the transitions of a reliable connection require, no less and no more. */
#define MASK_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define MASK_RTR                                                                                   \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |            \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define MASK_RTS                                                                                   \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static struct ibv_context context;
static struct ibv_pd pd;
static struct ibv_qp qp;
static struct tcp_device od;
static struct tcp_channel oc;
static struct tcp_id oid;

/* What the queue pair was told. */
static struct ibv_qp_attr told[4];
static int masks[4];
static unsigned int steps;

static unsigned int modify_fails_at, created, destroyed;
static int create_err, port_errno, gid_err;
static ssize_t random_bytes;
static uint32_t random_value;
static struct ibv_port_attr port_attr;
static struct ibv_gid_entry entry;
static const struct sockaddr_storage *asked_local;
static const struct tcp_end *asked_peer;

static int test_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	assert_ptr_equal(of, &qp);
	assert_true(steps < sizeof(told) / sizeof(told[0]));
	told[steps] = *attr;
	masks[steps] = mask;
	return ++steps == modify_fails_at ? ENOMEM : 0;
}

static int test_destroy_qp(struct ibv_qp *of)
{
	assert_ptr_equal(of, &qp);
	destroyed++;
	return 0;
}

static int test_qp_create(struct device *dev, struct ibv_pd *of, struct ibv_qp_init_attr *attr,
			  struct ibv_qp **made)
{
	assert_ptr_equal(dev, &od.port.dev);
	assert_ptr_equal(of, &pd);
	assert_non_null(attr);
	if (create_err)
		return create_err;
	created++;
	*made = &qp;
	return 0;
}

static void test_qp_destroy(struct device *dev, struct ibv_qp *of)
{
	assert_ptr_equal(dev, &od.port.dev);
	if (of)
		(void)test_destroy_qp(of);
}

static int test_query_port(struct ibv_context *of, uint8_t number, struct ibv_port_attr *attr)
{
	assert_ptr_equal(of, &context);
	assert_int_equal(number, PORT);
	*attr = port_attr;
	return port_errno;
}

static ssize_t test_getrandom(void *buf, size_t len, unsigned int flags)
{
	assert_int_equal(len, sizeof(random_value));
	assert_int_equal(flags, 0);
	memcpy(buf, &random_value, len);
	return random_bytes;
}

static int test_gid_choose(const struct verbs_port *port, const struct sockaddr_storage *local,
			   const struct tcp_end *peer, struct ibv_gid_entry *chosen)
{
	assert_ptr_equal(port, &od.port);
	asked_local = local;
	asked_peer = peer;
	*chosen = entry;
	return gid_err;
}

/* GIDs of the same subnet; the last byte is the port's. */
static union ibv_gid gid(uint8_t last)
{
	return (union ibv_gid){ .raw = { 0xfe, 0x80, [7] = 1, [15] = last } };
}

static int setup(void **state)
{
	(void)state;
	od = (struct tcp_device){
		.port = { .dev = { .name = "fake0", .verbs = &context, .port_number = PORT },
			  .link_layer = IBV_LINK_LAYER_ETHERNET },
	};
	qp = (struct ibv_qp){ .qp_num = QPN };
	memset(&oc, 0, sizeof(oc));
	pthread_mutex_init(&oc.lock, NULL);
	oid = (struct tcp_id){
		.id = { .dev = &od.port.dev, .channel = &oc.channel, .qp = &qp },
		.mine = { .psn = 0x123456,
			  .gid = gid(1),
			  .mtu = IBV_MTU_4096,
			  .responder_resources = 7,
			  .initiator_depth = 8,
			  .lid = 21 },
		.got.end = { .qp_num = 0xabcdef,
			     .psn = 0xfedcba,
			     .gid = gid(2),
			     .lid = 22,
			     .mtu = IBV_MTU_4096,
			     .responder_resources = 9,
			     .initiator_depth = 10 },
		.gid_index = 5,
		.param = { .retry_count = 4, .rnr_retry_count = 6, .min_rnr_timer = 12 },
	};
	memset(told, 0xee, sizeof(told));
	steps = modify_fails_at = created = destroyed = 0;
	create_err = port_errno = gid_err = 0;
	random_bytes = sizeof(random_value);
	random_value = 0;
	return 0;
}

static int create(int access)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	return tcp_create_qp(&oid.id, &pd, &attr, access);
}

/* A queue pair has the rights that are asked for from its first state on, which is INIT. */
static void init(void **state)
{
	(void)state;
	oid.id.qp = NULL;
	assert_int_equal(create(READ | IBV_ACCESS_LOCAL_WRITE), 0);
	assert_ptr_equal(oid.id.qp, &qp);
	assert_int_equal(steps, 1);
	assert_int_equal(masks[0], MASK_INIT);
	assert_int_equal(told[0].qp_state, IBV_QPS_INIT);
	assert_int_equal(told[0].pkey_index, 0);
	assert_int_equal(told[0].port_num, PORT);
	assert_int_equal(told[0].qp_access_flags, READ | IBV_ACCESS_LOCAL_WRITE);
	/* There is one already. */
	assert_int_equal(create(READ), -EBUSY);
	assert_int_equal(created, 1);
	tcp_destroy_qp(&oid.id);
	assert_null(oid.id.qp);
	assert_int_equal(destroyed, 1);
	tcp_destroy_qp(&oid.id);
	tcp_destroy_qp(NULL);
	assert_int_equal(destroyed, 1);
	assert_int_equal(create(0), 0);
	assert_int_equal(told[1].qp_access_flags, 0);
}

/* Peers may only read. */
static void init_refuses_writes(void **state)
{
	(void)state;
	oid.id.qp = NULL;
	assert_int_equal(create(READ | IBV_ACCESS_REMOTE_WRITE), -EINVAL);
	assert_int_equal(create(IBV_ACCESS_REMOTE_ATOMIC), -EINVAL);
	assert_int_equal(created, 0);
	assert_null(oid.id.qp);
}

static void init_fails(void **state)
{
	(void)state;
	oid.id.qp = NULL;
	create_err = -EMFILE;
	assert_int_equal(create(READ), -EMFILE);
	assert_int_equal(steps + destroyed, 0);
	create_err = 0;
	modify_fails_at = 1;
	assert_int_equal(create(READ), -ENOMEM);
	assert_int_equal(destroyed, 1);
	assert_null(oid.id.qp);
}

static void connects(void **state)
{
	(void)state;
	oid.got.end.mtu = IBV_MTU_1024;
	assert_int_equal(tcp_qp_connect(&oid), 0);
	assert_int_equal(steps, 2);
	assert_int_equal(masks[0], MASK_RTR);
	assert_int_equal(told[0].qp_state, IBV_QPS_RTR);
	assert_int_equal(told[0].path_mtu, IBV_MTU_1024);
	assert_int_equal(told[0].dest_qp_num, 0xabcdef);
	assert_int_equal(told[0].rq_psn, 0xfedcba);
	assert_int_equal(told[0].max_dest_rd_atomic, 7);
	assert_int_equal(told[0].min_rnr_timer, 12);
	assert_int_equal(masks[1], MASK_RTS);
	assert_int_equal(told[1].qp_state, IBV_QPS_RTS);
	assert_int_equal(told[1].timeout, 18);
	assert_int_equal(told[1].retry_cnt, 4);
	assert_int_equal(told[1].rnr_retry, 6);
	assert_int_equal(told[1].sq_psn, 0x123456);
	assert_int_equal(told[1].max_rd_atomic, 8);
	/* The smaller MTU, whose ever it is. */
	oid.mine.mtu = IBV_MTU_512;
	steps = 0;
	assert_int_equal(tcp_qp_connect(&oid), 0);
	assert_int_equal(told[0].path_mtu, IBV_MTU_512);
}

/* Packets go by GIDs alone. */
static void path_of_ethernet(void **state)
{
	const struct ibv_ah_attr *path_told = &told[0].ah_attr;

	(void)state;
	assert_int_equal(tcp_qp_connect(&oid), 0);
	assert_int_equal(path_told->port_num, PORT);
	assert_int_equal(path_told->is_global, 1);
	assert_int_equal(path_told->dlid, 0);
	assert_int_equal(path_told->sl, 0);
	assert_memory_equal(&path_told->grh.dgid, &oid.got.end.gid, sizeof(union ibv_gid));
	assert_int_equal(path_told->grh.sgid_index, 5);
	assert_int_equal(path_told->grh.hop_limit, 64);
	assert_int_equal(path_told->grh.traffic_class, 0);
}

/* Packets go by LIDs, and have a GRH only between subnets. */
static void path_of_infiniband(void **state)
{
	const struct ibv_ah_attr *path_told = &told[0].ah_attr;

	(void)state;
	od.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(tcp_qp_connect(&oid), 0);
	assert_int_equal(path_told->is_global, 0);
	assert_int_equal(path_told->dlid, 22);
	assert_int_equal(path_told->port_num, PORT);
	/* The last byte of the prefix is another one. */
	oid.got.end.gid.raw[7] ^= 1;
	steps = 0;
	assert_int_equal(tcp_qp_connect(&oid), 0);
	assert_int_equal(path_told->is_global, 1);
	assert_int_equal(path_told->dlid, 22);
	assert_memory_equal(&path_told->grh.dgid, &oid.got.end.gid, sizeof(union ibv_gid));
	assert_int_equal(path_told->grh.sgid_index, 5);
	assert_int_equal(path_told->grh.hop_limit, 64);
}

static void as_the_user_sets(void **state)
{
	(void)state;
	link_set(&od.port.link, LINK_PKEY_INDEX, 3);
	link_set(&od.port.link, LINK_TRAFFIC_CLASS, 106);
	link_set(&od.port.link, LINK_SERVICE_LEVEL, 4);
	link_set(&od.port.link, LINK_ACK_TIMEOUT, 17);
	oid.id.qp = NULL;
	assert_int_equal(create(READ), 0);
	assert_int_equal(told[0].pkey_index, 3);
	assert_int_equal(tcp_qp_connect(&oid), 0);
	assert_int_equal(told[1].ah_attr.grh.traffic_class, 106);
	assert_int_equal(told[1].ah_attr.sl, 4);
	assert_int_equal(told[2].timeout, 17);
}

static void connect_fails(void **state)
{
	(void)state;
	for (modify_fails_at = 1; modify_fails_at <= 2; modify_fails_at++) {
		steps = 0;
		assert_int_equal(tcp_qp_connect(&oid), -ENOMEM);
		assert_int_equal(steps, modify_fails_at);
	}
	/* The queue pair is its owner's. */
	assert_int_equal(destroyed, 0);
	steps = 0;
	oid.id.qp = NULL;
	assert_int_equal(tcp_qp_connect(&oid), -EINVAL);
	assert_int_equal(steps, 0);
}

static void error_state(void **state)
{
	(void)state;
	assert_int_equal(tcp_qp_error(&oid), 0);
	assert_int_equal(steps, 1);
	assert_int_equal(masks[0], IBV_QP_STATE);
	assert_int_equal(told[0].qp_state, IBV_QPS_ERR);
	modify_fails_at = 2;
	assert_int_equal(tcp_qp_error(&oid), -ENOMEM);
	oid.id.qp = NULL;
	assert_int_equal(tcp_qp_error(&oid), 0);
	assert_int_equal(steps, 2);
}

/* What the peer is told; READs are the caller's. */
static void describes(void **state)
{
	const struct sockaddr_storage local = { .ss_family = AF_INET };
	const struct tcp_end peer = { 0 };

	(void)state;
	port_attr = (struct ibv_port_attr){ .lid = 33,
					    .active_mtu = IBV_MTU_2048,
					    .max_mtu = IBV_MTU_4096 };
	entry = (struct ibv_gid_entry){ .gid = gid(3),
					.gid_index = 6,
					.gid_type = IBV_GID_TYPE_ROCE_V2 };
	random_value = 0xa5fedcbau;
	assert_int_equal(tcp_end_describe(&oid, &local, &peer), 0);
	assert_ptr_equal(asked_local, &local);
	assert_ptr_equal(asked_peer, &peer);
	assert_int_equal(oid.gid_index, 6);
	assert_int_equal(oid.mine.qp_num, QPN);
	assert_int_equal(oid.mine.psn, 0xfedcba); /* of 24 bits */
	assert_memory_equal(&oid.mine.gid, &entry.gid, sizeof(union ibv_gid));
	assert_int_equal(oid.mine.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(oid.mine.lid, 33);
	assert_int_equal(oid.mine.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(oid.mine.mtu, IBV_MTU_2048);
	assert_int_equal(oid.mine.responder_resources, 7);
	assert_int_equal(oid.mine.initiator_depth, 8);
	assert_int_equal(tcp_end_describe(&oid, &local, NULL), 0);
	assert_null(asked_peer);
}

static void describe_fails(void **state)
{
	const struct sockaddr_storage local = { .ss_family = AF_INET };
	const struct tcp_end before = oid.mine;

	(void)state;
	port_errno = ENODEV;
	assert_int_equal(tcp_end_describe(&oid, &local, NULL), -ENODEV);
	port_errno = 0;
	gid_err = -EADDRNOTAVAIL;
	assert_int_equal(tcp_end_describe(&oid, &local, NULL), -EADDRNOTAVAIL);
	gid_err = 0;
	random_bytes = -1;
	assert_int_equal(tcp_end_describe(&oid, &local, NULL), -EIO);
	random_bytes = 3;
	assert_int_equal(tcp_end_describe(&oid, &local, NULL), -EIO);
	assert_memory_equal(&oid.mine, &before, sizeof(before));
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(init),
		CASE(init_refuses_writes),
		CASE(init_fails),
		CASE(connects),
		CASE(path_of_ethernet),
		CASE(path_of_infiniband),
		CASE(as_the_user_sets),
		CASE(connect_fails),
		CASE(error_state),
		CASE(describes),
		CASE(describe_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
