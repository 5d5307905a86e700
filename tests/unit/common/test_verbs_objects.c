/* SPDX-License-Identifier: MIT */
/*
 * Tests of what both devices with RDMA hardware refuse before libibverbs sees it, and of the READs
 * of a connection (common/rdma/verbs/objects.c). The file is compiled here, with a function of the
 * test in place of libibverbs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/verbs/objects.h"

static int test_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

#define ibv_modify_qp test_modify_qp
#include "common/rdma/verbs/objects.c"
#undef ibv_modify_qp

static unsigned int modified;
static int modify_errno;

static int test_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp, (void)attr, (void)mask;
	modified++;
	return modify_errno;
}

static int modify(enum ibv_qp_state state, int access, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state, .qp_access_flags = (unsigned int)access };
	struct ibv_qp qp = { 0 };

	return verbs_modify_qp(&qp, &attr, mask);
}

/* A queue pair's peer may get the right to read, and no other one. */
static void rights(void **state)
{
	static const int refused[] = { IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC,
				       IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_WRITE,
				       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

	(void)state;
	modified = 0;
	for (unsigned int i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(modify(IBV_QPS_RTS, refused[i], IBV_QP_ACCESS_FLAGS), -EINVAL);
	assert_int_equal(modify(IBV_QPS_RTS, 0, IBV_QP_STATE), -EINVAL);
	assert_int_equal(modify(IBV_QPS_ERR, 0, IBV_QP_STATE | IBV_QP_PORT), -EINVAL);
	assert_int_equal(modified, 0);
	assert_int_equal(modify(IBV_QPS_RTS, IBV_ACCESS_REMOTE_READ, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(modify(IBV_QPS_ERR, 0, IBV_QP_STATE), 0);
	assert_int_equal(modified, 2);
	modify_errno = EIO;
	assert_int_equal(modify(IBV_QPS_ERR, 0, IBV_QP_STATE), -EIO);
	modify_errno = 0;
}

static struct ibv_mw the_mw;
static int alloc_errno, dealloc_errno;
static enum ibv_mw_type allocated;
static unsigned int deallocated;

static struct ibv_mw *test_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	(void)pd;
	allocated = type;
	errno = alloc_errno;
	return alloc_errno ? NULL : &the_mw;
}

static int test_dealloc_mw(struct ibv_mw *mw)
{
	assert_ptr_equal(mw, &the_mw);
	deallocated++;
	return dealloc_errno;
}

/* Windows are of the kind that one queue pair alone may use. */
static void memory_windows(void **state)
{
	struct ibv_device device = { .name = "mlx9" };
	struct ibv_context context = {
		.device = &device,
		.ops = { .alloc_mw = test_alloc_mw, .dealloc_mw = test_dealloc_mw },
	};
	struct ibv_pd pd = { .context = &context };
	struct ibv_mw *mw;

	(void)state;
	the_mw = (struct ibv_mw){ .context = &context, .pd = &pd };
	assert_int_equal(verbs_alloc_mw(&pd, &mw), 0);
	assert_ptr_equal(mw, &the_mw);
	assert_int_equal(allocated, IBV_MW_TYPE_2);
	verbs_dealloc_mw(mw);
	dealloc_errno = EBUSY;
	verbs_dealloc_mw(mw); /* logged */
	verbs_dealloc_mw(NULL);
	assert_int_equal(deallocated, 2);
	alloc_errno = ENOMEM;
	assert_int_equal(verbs_alloc_mw(&pd, &mw), -ENOMEM);
}

/* Numbers that fit the bits of a queue pair's attributes. */
static void params(void **state)
{
	struct cm_param param = {
		.private_len = 56, .retry_count = 7, .rnr_retry_count = 7, .min_rnr_timer = 31
	};

	(void)state;
	assert_true(verbs_param_valid(&param, 56));
	assert_false(verbs_param_valid(&param, 55));
	param.retry_count = 8;
	assert_false(verbs_param_valid(&param, 56));
	param.retry_count = 0;
	param.rnr_retry_count = 8;
	assert_false(verbs_param_valid(&param, 56));
	param.rnr_retry_count = 0;
	param.min_rnr_timer = 32;
	assert_false(verbs_param_valid(&param, 56));
	param.min_rnr_timer = 0; /* 655 ms */
	assert_false(verbs_param_valid(&param, 56));
	param.min_rnr_timer = 1;
	assert_true(verbs_param_valid(&param, 56));
}

/* 0 wants the most. */
static void reads(void **state)
{
	(void)state;
	assert_int_equal(verbs_reads_limit(0, 16), 16);
	assert_int_equal(verbs_reads_limit(1, 16), 1);
	assert_int_equal(verbs_reads_limit(17, 16), 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights),
		cmocka_unit_test(memory_windows),
		cmocka_unit_test(params),
		cmocka_unit_test(reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
