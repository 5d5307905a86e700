/* SPDX-License-Identifier: MIT */
/*
 * Tests of how a queue pair on verbs is connected (common/rdma/verbs/qp.c): what the connection
 * manager proposes, but with the access flags, the negotiated READs, and the retries and the timer
 * that the program asked for. The file is compiled here, with functions of the test in place of
 * libibverbs and librdmacm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/verbs/verbs.h"

static int test_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
static int test_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);

#define ibv_modify_qp test_modify_qp
#define rdma_init_qp_attr test_init_qp_attr
#include "common/rdma/verbs/qp.c"
#undef ibv_modify_qp
#undef rdma_init_qp_attr

#define STEPS_MAX 4
#define MTU IBV_MTU_2048
#define PROPOSED_TIMEOUT 19
#define PROPOSED_LEVEL 1
#define PROPOSED_CLASS 32

static struct rdma_cm_id rdma;
static struct ibv_qp qp;
static struct verbs_device vd;
static struct verbs_id vid;

/* What the queue pair was told. */
static struct ibv_qp_attr told[STEPS_MAX];
static int masks[STEPS_MAX];
static unsigned int steps;

static int propose_errno; /* of the next proposal, 0: none */
static unsigned int modify_fails_at;

static int test_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	assert_ptr_equal(of, &qp);
	assert_true(steps < STEPS_MAX);
	told[steps] = *attr;
	masks[steps] = mask;
	return ++steps == modify_fails_at ? ENOMEM : 0;
}

/* As the kernel: for the state that is asked for, with flags and retries of its own. */
static int test_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;

	assert_ptr_equal(id, &rdma);
	if (propose_errno) {
		errno = propose_errno;
		return -1;
	}
	*attr = (struct ibv_qp_attr){
		.qp_state = state,
		.path_mtu = MTU,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.max_dest_rd_atomic = 99,
		.max_rd_atomic = 98,
		.retry_cnt = 1,
		.rnr_retry = 2,
		.timeout = PROPOSED_TIMEOUT,
		.ah_attr = { .sl = PROPOSED_LEVEL, .grh.traffic_class = PROPOSED_CLASS },
	};
	*mask = IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_ACCESS_FLAGS | ATTR_MASK_ETHERNET_ONLY;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	vd = (struct verbs_device){
		.port = { .dev = { .name = "fake0" }, .link_layer = IBV_LINK_LAYER_ETHERNET },
	};
	vid = (struct verbs_id){
		.id = { .dev = &vd.port.dev, .qp = &qp },
		.rdma = &rdma,
		.state = VERBS_ID_CONNECTING,
		.param = { .retry_count = 5, .rnr_retry_count = 6, .min_rnr_timer = 12 },
		.responder_resources = 7,
		.initiator_depth = 8,
	};
	steps = modify_fails_at = 0;
	propose_errno = 0;
	return 0;
}

static void assert_mask(int mask, int has)
{
	assert_int_equal(mask & has, has);
	assert_int_equal(mask & IBV_QP_ACCESS_FLAGS, 0);
}

static void as_the_program_asks(void **state)
{
	(void)state;
	assert_int_equal(verbs_qp_connect(&vid), 0);
	assert_int_equal(steps, 2);
	assert_mask(masks[0], IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(told[0].qp_state, IBV_QPS_RTR);
	assert_int_equal(told[0].path_mtu, MTU);
	assert_int_equal(told[0].max_dest_rd_atomic, 7);
	assert_int_equal(told[0].min_rnr_timer, 12);
	assert_mask(masks[1],
		    IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	assert_int_equal(told[1].qp_state, IBV_QPS_RTS);
	assert_int_equal(told[1].max_rd_atomic, 8);
	assert_int_equal(told[1].retry_cnt, 5);
	assert_int_equal(told[1].rnr_retry, 6);
}

/* What the user sets goes before what the kernel proposes. */
static void as_the_user_sets(void **state)
{
	(void)state;
	link_set(&vd.port.link, LINK_TRAFFIC_CLASS, 106);
	link_set(&vd.port.link, LINK_SERVICE_LEVEL, 3);
	link_set(&vd.port.link, LINK_ACK_TIMEOUT, 17);
	assert_int_equal(verbs_qp_connect(&vid), 0);
	assert_int_equal(told[0].ah_attr.grh.traffic_class, 106);
	assert_int_equal(told[0].ah_attr.sl, 3);
	assert_int_equal(told[1].timeout, 17);
	vd.port.link.set = 0;
	steps = 0;
	assert_int_equal(verbs_qp_connect(&vid), 0);
	assert_int_equal(told[0].ah_attr.grh.traffic_class, PROPOSED_CLASS);
	assert_int_equal(told[0].ah_attr.sl, PROPOSED_LEVEL);
	assert_int_equal(told[1].timeout, PROPOSED_TIMEOUT);
}

/* The program's retries are used where the user sets none; the rest is left. */
static void retries(void **state)
{
	struct cm_param param = { .private_data = told,
				  .initiator_depth = 9,
				  .retry_count = 5,
				  .rnr_retry_count = 6,
				  .min_rnr_timer = 12 };
	struct cm_param copy = verbs_param_copy(&vd.port, &param);

	(void)state;
	assert_int_equal(copy.retry_count, 5);
	assert_int_equal(copy.rnr_retry_count, 6);
	assert_int_equal(copy.min_rnr_timer, 12);
	assert_int_equal(copy.initiator_depth, 9);
	assert_null(copy.private_data);
	link_set(&vd.port.link, LINK_RETRY_COUNT, 0);
	link_set(&vd.port.link, LINK_RNR_RETRY, 7);
	copy = verbs_param_copy(&vd.port, &param);
	assert_int_equal(copy.retry_count, 0);
	assert_int_equal(copy.rnr_retry_count, 7);
}

/* InfiniBand's drivers refuse what old kernels return for Ethernet. */
static void link_layers(void **state)
{
	(void)state;
	assert_int_equal(verbs_qp_connect(&vid), 0);
	assert_mask(masks[0], ATTR_MASK_ETHERNET_ONLY);
	steps = 0;
	vd.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_int_equal(verbs_qp_connect(&vid), 0);
	assert_int_equal(masks[0] & ATTR_MASK_ETHERNET_ONLY, 0);
	/* The kernel does it itself. */
	steps = 0;
	vd.port.iwarp = true;
	assert_int_equal(verbs_qp_connect(&vid), 0);
	assert_int_equal(steps, 0);
}

static void fails(void **state)
{
	(void)state;
	/* The peer has gone. */
	propose_errno = EINVAL;
	assert_int_equal(verbs_qp_connect(&vid), -ECONNABORTED);
	propose_errno = ENOMEM;
	assert_int_equal(verbs_qp_connect(&vid), -ENOMEM);
	assert_int_equal(steps, 0);
	propose_errno = 0;
	for (modify_fails_at = 1; modify_fails_at <= 2; modify_fails_at++) {
		steps = 0;
		assert_int_equal(verbs_qp_connect(&vid), -ENOMEM);
		assert_int_equal(steps, modify_fails_at);
	}
	steps = 0;
	vid.id.qp = NULL;
	assert_int_equal(verbs_qp_connect(&vid), -EINVAL);
	assert_int_equal(steps, 0);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(as_the_program_asks),
		CASE(as_the_user_sets),
		CASE(retries),
		CASE(link_layers),
		CASE(fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
