/* SPDX-License-Identifier: MIT */
/*
 * A device that dies under handles, with a real server over softnic: each handle connects again
 * with another device, which they share, and memory that was registered with the dead one is
 * copied until it is registered anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/handle.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "tests/support/local_server.h"

#define VALUE_BYTES 300000u

static char url[256];

/* As a dead device, it makes nothing new, which is so while there is a plan that kills. */
static void device_kill(struct kvd *kvd)
{
	const struct fault_plan plan = { .kill_at = UINT64_MAX };

	fault_set(&plan);
	sn_context_kill(
		(struct sn_context *)(void *)((char *)kvd->dev - offsetof(struct sn_context, dev)));
}

static uint64_t direct_bytes(const struct kvd *kvd)
{
	struct kvd_stats stats;

	kvd_stats(kvd, &stats);
	return stats.direct_bytes;
}

static void store_and_read(struct kvd *kvd, uint8_t *memory, uint8_t seed)
{
	struct kvd_item item;

	memset(memory, seed, VALUE_BYTES);
	memset(memory + VALUE_BYTES, 0, VALUE_BYTES);
	assert_int_equal(kvd_put(kvd, "key", 3, memory, VALUE_BYTES, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_get(kvd, "key", 3, memory + VALUE_BYTES, VALUE_BYTES, &item), KVD_OK);
	assert_int_equal(item.value_len, VALUE_BYTES);
	assert_memory_equal(memory, memory + VALUE_BYTES, VALUE_BYTES);
}

static struct device_ops closing_ops;
static const struct device_ops *real_ops;
static unsigned int closed;

static void closing_close(struct device *dev)
{
	closed++;
	dev->ops = real_ops;
	real_ops->close(dev);
}

static void count_close(struct device *dev)
{
	closed = 0;
	real_ops = dev->ops;
	closing_ops = *real_ops;
	closing_ops.close = closing_close;
	dev->ops = &closing_ops;
}

static void a_device_dies(void **state)
{
	struct kvd *a = local_server_open(url, NULL), *b = local_server_open(url, NULL);
	const struct shared_device *dead = a->shared_device;
	struct kvd_mem *mem, *again;
	uint64_t direct;
	void *memory;

	(void)state;
	assert_ptr_equal(b->shared_device, dead);
	assert_int_equal(kvd_alloc(a, 2 * (size_t)VALUE_BYTES, &memory, &mem), KVD_OK);
	store_and_read(a, memory, 1);
	count_close(a->dev);
	direct = direct_bytes(a);
	assert_true(direct >= 2 * (uint64_t)VALUE_BYTES);
	device_kill(a);
	assert_int_equal(kvd_ping(a), KVD_OK);
	store_and_read(a, memory, 2);
	assert_ptr_not_equal(a->shared_device, dead);
	assert_int_equal(direct_bytes(a), direct);
	store_and_read(b, memory, 3);
	assert_ptr_equal(b->shared_device, a->shared_device);
	/* A PUT that was sent to the dead device may have counted. */
	direct = direct_bytes(b);
	fault_reset();
	/* With the new device GETs are direct again; the old registration ends as ever. */
	assert_int_equal(kvd_register(a, memory, 2 * (size_t)VALUE_BYTES, &again), KVD_OK);
	store_and_read(b, memory, 4);
	assert_int_equal(direct_bytes(b) - direct, (uint64_t)VALUE_BYTES);
	assert_int_equal(kvd_deregister(again), KVD_OK);
	/* The memory was the last that used the dead one. */
	assert_int_equal(closed, 0);
	assert_int_equal(kvd_free(mem), KVD_OK);
	assert_int_equal(closed, 1);
	kvd_close(a);
	store_and_read(b, (uint8_t[2 * VALUE_BYTES]){ 0 }, 5);
	kvd_close(b);
}

/* What was submitted waits: values on their way from and to the dead device's memory, too. */
static void a_device_dies_under_operations(void **state)
{
	struct kvd *kvd = local_server_open(url, NULL);
	struct kvd_op ops[8], *list[8], *done[8];
	struct kvd_mem *mem;
	uint8_t *memory;
	void *addr;
	size_t i;

	(void)state;
	assert_int_equal(kvd_alloc(kvd, 8 * (size_t)VALUE_BYTES, &addr, &mem), KVD_OK);
	memory = addr;
	memset(memory, 7, 8 * (size_t)VALUE_BYTES);
	for (i = 0; i < 8; i++) {
		list[i] = &ops[i];
		if (i % 2)
			kvd_prep_get(&ops[i], "key", 3, memory + i * VALUE_BYTES, VALUE_BYTES);
		else
			kvd_prep_put(&ops[i], "other", 5, memory + i * VALUE_BYTES, VALUE_BYTES,
				     NULL);
	}
	assert_int_equal(kvd_put(kvd, "key", 3, memory, VALUE_BYTES, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_submit(kvd, list, 8), KVD_OK);
	device_kill(kvd);
	while (kvd_outstanding(kvd))
		kvd_wait(kvd, done, 8, 1, UINT32_MAX);
	fault_reset();
	for (i = 0; i < 8; i++) {
		assert_int_equal(ops[i].status, KVD_OK);
		assert_int_equal(memory[i * VALUE_BYTES], 7);
	}
	assert_int_equal(kvd_free(mem), KVD_OK);
	kvd_close(kvd);
}

int main(void)
{
	static const char *const options[] = { "memory.size=64m", "limits.max_value=1m", NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_dies),
		cmocka_unit_test(a_device_dies_under_operations),
	};
	int failed;

	local_server_init();
	snprintf(url, sizeof(url), "%s", local_server_begin(options));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return local_server_end() ? failed : 1;
}
