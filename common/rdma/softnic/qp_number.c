/* SPDX-License-Identifier: MIT */
/*
 * Numbers of queue pairs. They have 24 bits and are used in turn, so that a number is reused late;
 * after a wrap some are still in use. A hash table holds those in use and grows with them, so that
 * finding a free one costs the same for any number of connections.
 */
#include "common/rdma/softnic/queue_pair.h"

#include <errno.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/util/heap.h"

#define QP_NUMBER_MASK 0xffffffu
#define QP_NUMBER_MIN 2u /* 0 and 1 are special on InfiniBand */
#define BUCKETS_MIN 16u

static struct sn_qp_bucket *do_bucket(const struct sn_qp_numbers *numbers, uint32_t number)
{
	return &numbers->buckets[number & (numbers->bucket_count - 1)];
}

static bool do_number_used(const struct sn_qp_numbers *numbers, uint32_t number)
{
	const struct sn_qp *qp;

	LIST_FOREACH(qp, do_bucket(numbers, number), in_numbers)
		if (qp->verbs.qp_num == number)
			return true;
	return number < QP_NUMBER_MIN;
}

/* If there is no memory for more buckets, their lists get longer. */
static int do_numbers_grow(struct sn_qp_numbers *numbers)
{
	struct sn_qp_numbers grown = *numbers;
	struct sn_qp *qp;
	uint32_t i;

	if (numbers->count < numbers->bucket_count)
		return 0;
	grown.bucket_count = numbers->bucket_count ? 2 * numbers->bucket_count : BUCKETS_MIN;
	grown.buckets = heap_calloc(grown.bucket_count, sizeof(*grown.buckets));
	if (!grown.buckets)
		return numbers->bucket_count ? 0 : -ENOMEM;
	for (i = 0; i < numbers->bucket_count; i++) {
		while ((qp = LIST_FIRST(&numbers->buckets[i]))) {
			LIST_REMOVE(qp, in_numbers);
			LIST_INSERT_HEAD(do_bucket(&grown, qp->verbs.qp_num), qp, in_numbers);
		}
	}
	heap_free(numbers->buckets);
	*numbers = grown;
	return 0;
}

int do_sn_qp_number_take(struct sn_qp_numbers *numbers, struct sn_qp *qp)
{
	uint32_t number;

	if (do_numbers_grow(numbers))
		return -ENOMEM;
	if (fault_on() && fault_reuses()) {
		for (number = QP_NUMBER_MIN; do_number_used(numbers, number); number++)
			;
	} else {
		do
			number = numbers->next++ & QP_NUMBER_MASK;
		while (do_number_used(numbers, number));
	}
	qp->verbs.qp_num = number;
	LIST_INSERT_HEAD(do_bucket(numbers, number), qp, in_numbers);
	numbers->count++;
	return 0;
}

void do_sn_qp_number_put(struct sn_qp_numbers *numbers, struct sn_qp *qp)
{
	LIST_REMOVE(qp, in_numbers);
	numbers->count--;
}

void sn_qp_numbers_release(struct sn_qp_numbers *numbers)
{
	heap_free(numbers->buckets);
}
