/* SPDX-License-Identifier: MIT */
/*
 * Values in registered memory: where their bytes go, which are verified, what other statuses leave
 * there, several registrations, failures, and memory that is ended while it is in use.
 */
#include "tests/support/get_test.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/libkvd/memory.h"
#include "client/libkvd/transfer.h"
#include "tests/support/test_clock.h"

#define ARENA_BYTES (4u << 20)

static uint8_t *arena;
static struct kvd_mem *mem;

static int setup_arena(void **state)
{
	setup(state);
	arena = aligned_alloc(4096, ARENA_BYTES);
	assert_non_null(arena);
	memset(arena, 0xee, ARENA_BYTES);
	assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_OK);
	return 0;
}

/* What follows the first READ of a value is copied at once. */
static int setup_now(void **state)
{
	setup_arena(state);
	loopback->now_bytes = UINT64_MAX;
	return 0;
}

static int teardown_arena(void **state)
{
	int failed = mem && kvd_deregister(mem);

	free(arena);
	return teardown(state) || failed;
}

/* All of [@from, @to) of the arena is as it was. */
static void assert_untouched(size_t from, size_t to)
{
	for (; from < to; from++)
		if (arena[from] != 0xee)
			fail_msg("byte %zu was overwritten", from);
}

/* A GET to @at of the arena, of a buffer of @size bytes. */
static enum kvd_status get_at(size_t at, size_t size, struct kvd_item *item)
{
	memset(arena, 0xee, ARENA_BYTES);
	return kvd_get(kvd, "key", 3, arena + at, size, item);
}

static void assert_got(size_t at, size_t size, const uint8_t *want, size_t len)
{
	struct kvd_item item;

	assert_int_equal(get_at(at, size, &item), KVD_OK);
	assert_int_equal(item.value_len, len);
	assert_int_equal(item.flags, len ^ 0xf1a95);
	assert_memory_equal(arena + at, want, len);
	assert_untouched(0, at);
	assert_untouched(at + size, ARENA_BYTES);
}

/* Around the lengths where the way of a value changes; exact buffers and longer ones. */
static void values_go_where_they_belong(void **state)
{
	static const uint32_t lens[] = { 1,	 3900,	 4096,	 4200,	  60000,  65491,
					 65492,	 65493,	 65536,	 100001,  131072, 262000,
					 262037, 262038, 300001, 1 << 20, 3500000 };
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value + i, lens[i]);
		reset_stats();
		assert_got(8191, lens[i], value + i, lens[i]);
		assert_got(8191, lens[i] + 1, value + i, lens[i]);
		assert_got(8192, lens[i] + 100000, value + i, lens[i]);
		assert_got(ARENA_BYTES - lens[i], lens[i], value + i, lens[i]);
		assert_got(0, lens[i], value + i, lens[i]);
		assert_true(lens[i] < 4096 ? !kvd->stats.direct_bytes :
					     kvd->stats.direct_bytes >= 5 * (uint64_t)lens[i]);
		assert_int_equal(kvd->stats.retries + kvd->stats.fallbacks, 0);
	}
	/* A buffer of which one byte is not registered. */
	reset_stats();
	assert_get("key", value + i - 1, lens[i - 1]);
	assert_int_equal(kvd->stats.direct_bytes, 0);
}

static void a_buffer_too_small(void **state)
{
	static const uint32_t lens[] = { 5000, 100000, 400000 };
	struct kvd_item item;
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value, lens[i]);
		assert_int_equal(get_at(4096, lens[i] - 1, &item), KVD_ERR_BUFFER);
		assert_int_equal(item.value_len, lens[i]);
		assert_untouched(0, 4096);
		assert_untouched(4096 + lens[i] - 1, ARENA_BYTES);
		assert_int_equal(get_at(4096, 10, &item), KVD_ERR_BUFFER);
		assert_untouched(4106, ARENA_BYTES);
	}
	other_delete("key");
	assert_int_equal(get_at(0, 400000, &item), KVD_NOT_FOUND);
}

/* A child can neither register with the parent's handle nor end the parent's registrations. */
static void a_child_is_refused(void **state)
{
	struct kvd_mem *own;
	int wait_status;
	void *addr;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(kvd_register(kvd, value, 4096, &own) != KVD_ERR_DISCONNECTED ||
		      kvd_alloc(kvd, 4096, &addr, &own) != KVD_ERR_DISCONNECTED ||
		      kvd_deregister(mem) != KVD_ERR_DISCONNECTED);
	assert_int_equal(waitpid(pid, &wait_status, 0), pid);
	assert_int_equal(wait_status, 0);
	other_put("key", value, 70000);
	assert_got(0, 70000, value, 70000);
}

static uint64_t gets_on(enum kvd_path path)
{
	struct kvd_op_stats stats;

	assert_int_equal(kvd_op_stats(kvd, KVD_OP_GET, path, &stats, sizeof(stats)), KVD_OK);
	return stats.count;
}

/* The statistics tell values that were READ to where they belong from others. */
static void a_path_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	other_put("key", value, 70000);
	assert_got(0, 70000, value, 70000);
	assert_got(0, 80000, value, 70000);
	assert_get("key", value, 70000);
	other_put("key", value, 100);
	assert_got(0, 100, value, 100);
	assert_int_equal(gets_on(KVD_PATH_DIRECT), 2);
	assert_int_equal(gets_on(KVD_PATH_WARM) + gets_on(KVD_PATH_COLD), 2);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OFF), KVD_OK);
}

/* The value is put directly, too, and the server READs it at its place. */
static void puts_are_not_copied(void **state)
{
	(void)state;
	memcpy(arena + 777, value, 400000);
	reset_stats();
	assert_int_equal(kvd_put(kvd, "key", 3, arena + 777, 400000, NULL, NULL), KVD_OK);
	assert_int_equal(kvd->stats.direct_bytes, 400000);
	assert_int_equal(bounce_pool_bytes(&kvd->shared_device->bounces), 0);
	assert_memory_equal(item_value(item_of("key")), value, 400000);
	/* What fits a message goes with it. */
	assert_int_equal(kvd_put(kvd, "key", 3, arena + 777, 100, NULL, NULL), KVD_OK);
	assert_int_equal(kvd->stats.direct_bytes, 400000);
}

/* Changes a byte of the value in the region, but no sum, at READ @damage_at of the item. */
static unsigned int damage_at;

static void damage_value(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (!in_index(offset) && ++reads == damage_at)
		item_value(item_of("key"))[399999] ^= 1;
}

static void repair_value(struct loopback *d, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)d, (void)to, (void)bytes;
	if (!in_index(offset) && reads == damage_at + 6)
		item_value(item_of("key"))[399999] ^= 1;
}

/* One wrong byte, in the last piece: READ again until it is right. */
static void wrong_bytes_are_not_delivered(void **state)
{
	struct kvd_item item;

	(void)state;
	other_put("key", value, 400000);
	loopback->before_read = damage_value;
	loopback->after_read = repair_value;
	damage_at = 3;
	assert_got(0, 400000, value, 400000);
	assert_true(kvd->stats.retries > 0);
	/* Never right: the server is asked, whose answer is verified, too. */
	loopback->after_read = NULL;
	reset_stats();
	assert_int_equal(get_at(0, 400000, &item), KVD_ERR_BUSY);
	assert_int_equal(kvd->stats.fallbacks, 1);
	item_value(item_of("key"))[399999] ^= 1;
}

/* Likewise in what is copied at once, to registered and to other memory. */
static void wrong_bytes_that_are_copied_at_once(void **state)
{
	struct kvd_item item;

	(void)state;
	other_put("key", value, 400000);
	loopback->before_read = damage_value;
	loopback->after_read = repair_value;
	for (unsigned int i = 0; i < 2; i++) {
		reset_stats();
		damage_at = 2;
		if (i)
			assert_got(0, 400000, value, 400000);
		else
			assert_get("key", value, 400000);
		assert_true(kvd->stats.retries > 0);
		assert_true(reads >= damage_at + 2);
	}
	loopback->after_read = NULL;
	reset_stats();
	assert_int_equal(get_at(0, 400000, &item), KVD_ERR_BUSY);
	item_value(item_of("key"))[399999] ^= 1;
}

/* READs by work requests and at once, in turn. */
static unsigned int reads_of(uint32_t left)
{
	unsigned int count = 0;
	uint32_t most, part;

	for (; left; left -= part) {
		most = count++ % 2 ? TRANSFER_NOW_BYTES : 4096;
		part = left < most ? left : most;
	}
	return count;
}

/* One READ of header and key, with the first bytes, before each MiB; also to other memory. */
static void values_are_copied_at_once(void **state)
{
	static const uint32_t lens[] = { 70000, 300001, 1 << 20, (1 << 20) + 4200, 3500000 };

	(void)state;
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		other_put("key", value, lens[i]);
		assert_get("key", value, lens[i]);
		reset_stats();
		assert_get("key", value, lens[i]);
		assert_int_equal(kvd->stats.reads, reads_of(lens[i]));
		assert_int_equal(kvd->stats.direct_bytes, 0);
		reset_stats();
		assert_got(1, lens[i], value, lens[i]);
		assert_int_equal(kvd->stats.reads, reads_of(lens[i]));
		assert_int_equal(kvd->stats.direct_bytes, lens[i]);
	}
	assert_int_equal(kvd->stats.retries + kvd->stats.fallbacks, 0);
	/* The ring did not have to be made longer. */
	assert_true(kvd->conn.ring.bytes < 256 << 10);
}

/* Copying may end after any number of bytes: READs follow. */
static void copying_at_once_ends(void **state)
{
	static const uint32_t ends[] = { 1, 100, 4096, 65536, 295999, 300000 };

	(void)state;
	other_put("key", value, 300001);
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		reset_stats();
		loopback->now_bytes = ends[i];
		assert_got(77, 300001, value, 300001);
		loopback->now_bytes = ends[i];
		assert_get("key", value, 300001);
		/* These READs are as long as others: 64 KiB and 32 KiB. */
		assert_in_range(kvd->stats.reads, 4, 3 + 6 + 3 + 11);
	}
	assert_int_equal(kvd->stats.retries + kvd->stats.fallbacks, 0);
}

/* Another client replaces it again and again, its memory is used again: whole or not at all. */
static void rewrite_each_read(struct loopback *d, uint64_t offset, uint32_t bytes)
{
	(void)d, (void)bytes;
	if (in_index(offset) || ++reads > 200)
		return;
	other_put("key", value + reads, 100000 + reads % 3 * 90000);
	other_put("other", value + 1000 + reads, 100000 + (reads + 1) % 3 * 90000);
}

static void values_that_change_while_they_are_read(void **state)
{
	struct kvd_item item;
	unsigned int i;

	(void)state;
	other_put("key", value, 100000);
	loopback->before_read = rewrite_each_read;
	for (i = 0; i < 30; i++) {
		reads %= 150;
		if (get_at(64, 400000, &item) == KVD_OK) {
			const uint8_t *at = memmem(value, 2000, arena + 64, 16);

			assert_non_null(at);
			assert_memory_equal(arena + 64, at, item.value_len);
		}
		assert_untouched(400064, ARENA_BYTES);
	}
}

/* Parts of a value that the server sends go there as well. */
static void values_by_request(void **state)
{
	struct kvd_item item;

	(void)state;
	other_put("key", value, 500000);
	memset(arena, 0xee, ARENA_BYTES);
	assert_int_equal(kvd_get_by_request(kvd, "key", 3, arena + 100, 500000, &item), KVD_OK);
	assert_memory_equal(arena + 100, value, 500000);
	assert_untouched(0, 100);
	assert_untouched(500100, ARENA_BYTES);
}

/* Registrations as long as the device takes: a value across their borders is READ, and stored. */
static void several_registrations(void **state)
{
	struct kvd_mem_info info;

	(void)state;
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	loopback->fake.mr_max = 300000;
	assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_OK);
	kvd_mem_info(mem, &info);
	assert_ptr_equal(info.addr, arena);
	assert_int_equal(info.bytes, ARENA_BYTES);
	assert_int_equal(info.registrations, (ARENA_BYTES - 1) / (300000 & ~4095) + 1);
	other_put("key", value, 3000000);
	reset_stats();
	assert_got(12345, 3000000, value, 3000000);
	assert_got(300000 & ~4095, 3000000, value, 3000000);
	assert_true(kvd->stats.direct_bytes >= 6000000);
	/* Inside one of them, and across a border: that is copied. */
	memcpy(arena, value, ARENA_BYTES);
	reset_stats();
	assert_int_equal(kvd_put(kvd, "a", 1, arena + 1, 290000, NULL, NULL), KVD_OK);
	assert_int_equal(kvd->stats.direct_bytes, 290000);
	assert_int_equal(kvd_put(kvd, "b", 1, arena + 20000, 290000, NULL, NULL), KVD_OK);
	assert_int_equal(kvd->stats.direct_bytes, 290000);
	assert_memory_equal(item_value(item_of("a")), value + 1, 290000);
	assert_memory_equal(item_value(item_of("b")), value + 20000, 290000);
}

static void assert_too_long(enum kvd_status status, size_t bytes)
{
	char want[64];

	snprintf(want, sizeof(want), "a value of %zu bytes: device ", bytes);
	assert_int_equal(status, KVD_ERR_TOO_LARGE);
	assert_non_null(strstr(kvd_error(kvd), want));
	assert_non_null(strstr(kvd_error(kvd), "registers at most 200704 at once (max_mr_size)"));
	assert_non_null(strstr(kvd_error(kvd), "store shorter values"));
}

/* The device registers less at once than the value has: plain, of pieces, registered. */
static void values_longer_than_a_registration(void **state)
{
	const struct iovec iov[] = { { value, 100000 }, { value + 100000, 100705 } };
	struct kvd_op op, *ops[1] = { &op };

	(void)state;
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	loopback->fake.mr_max = kvd->shared_device->bounces.mr_max = 200704;
	assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_OK);
	memcpy(arena, value, 200705);
	assert_int_equal(kvd_put(kvd, "key", 3, value, 200704, NULL, NULL), KVD_OK);
	assert_too_long(kvd_put(kvd, "key", 3, value, 200705, NULL, NULL), 200705);
	assert_too_long(kvd_putv(kvd, "key", 3, iov, 2, NULL, NULL), 200705);
	assert_too_long(kvd_put(kvd, "key", 3, arena, 200705, NULL, NULL), 200705);
	kvd_prep_put(&op, "key", 3, value, 200705, NULL);
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
	assert_int_equal(kvd_wait(kvd, ops, 1, 1, FAKE_TIMEOUT_MS), 1);
	assert_too_long(op.status, 200705);
	/* The handle goes on, and the value is as it was. */
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_memory_equal(item_value(item_of("key")), value, 200704);
	assert_int_equal(kvd_put(kvd, "key", 3, value + 1, 200704, NULL, NULL), KVD_OK);
	assert_memory_equal(item_value(item_of("key")), value + 1, 200704);
}

static struct device_ops failing_ops;
static unsigned int calls_left, registered;

static int failing_reg_mr(struct ibv_pd *pd, const struct device_mem *memory, int access,
			  struct ibv_mr **mr)
{
	int err = calls_left ? 0 : -ENOMEM;

	if (!err) {
		calls_left--;
		registered++;
		*mr = calloc(1, sizeof(**mr));
	}
	(void)pd, (void)access, (void)memory;
	return err;
}

static void failing_dereg_mr(struct ibv_mr *mr)
{
	registered--;
	free(mr);
}

/* Nothing stays registered, and the place in the table is free again. */
static void the_nth_registration_fails(void **state)
{
	const struct device_ops *real = kvd->dev->ops;
	unsigned int n, i;
	void *addr;

	(void)state;
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	loopback->fake.mr_max = 1 << 20;
	failing_ops = *real;
	failing_ops.reg_mr = failing_reg_mr;
	failing_ops.dereg_mr = failing_dereg_mr;
	kvd->dev->ops = &failing_ops;
	for (i = 0; i < 2 * MEMORIES_MAX; i++) {
		n = calls_left = i % 4;
		assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_ERR_NO_MEMORY);
		assert_null(mem);
		calls_left = n;
		assert_int_equal(kvd_alloc(kvd, ARENA_BYTES, &addr, &mem), KVD_ERR_NO_MEMORY);
		assert_int_equal(registered, 0);
	}
	calls_left = 4;
	assert_int_equal(kvd_register(kvd, arena, ARENA_BYTES, &mem), KVD_OK);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	assert_int_equal(registered, 0);
	mem = NULL;
	kvd->dev->ops = real;
}

static void what_is_refused(void **state)
{
	struct kvd_mem *other, *many[MEMORIES_MAX];
	unsigned int i;
	void *addr;

	(void)state;
	assert_int_equal(kvd_register(kvd, arena + 4096, 10, &other), KVD_ERR_INVALID);
	assert_int_equal(kvd_register(kvd, arena + ARENA_BYTES - 1, 2, &other), KVD_ERR_INVALID);
	assert_int_equal(kvd_register(kvd, arena + 1, SIZE_MAX, &other), KVD_ERR_INVALID);
	assert_int_equal(kvd_free(mem), KVD_ERR_INVALID);
	assert_int_equal(kvd_alloc(kvd, 4096, &addr, &other), KVD_OK);
	assert_int_equal(kvd_deregister(other), KVD_ERR_INVALID);
	assert_int_equal(kvd_free(other), KVD_OK);
	for (i = 0; i < MEMORIES_MAX - 1; i++)
		assert_int_equal(kvd_register(kvd, value + i * 4096, 4096, &many[i]), KVD_OK);
	assert_int_equal(kvd_register(kvd, value + i * 4096, 4096, &other), KVD_ERR_NO_MEMORY);
	/* Between two others, too. */
	assert_int_equal(kvd_deregister(many[1]), KVD_OK);
	assert_int_equal(kvd_register(kvd, value + 4096, 4096, &many[1]), KVD_OK);
	while (i--)
		assert_int_equal(kvd_deregister(many[i]), KVD_OK);
}

static const struct device_ops *freeing_ops;
static unsigned int frees;

/* As another thread that is given the addresses as soon as they are free. */
static void registering_free_mem(struct device *dev, struct device_mem *memory)
{
	struct kvd_mem *again;

	frees++;
	assert_int_equal(kvd_register(kvd, memory->addr, 8192, &again), KVD_OK);
	assert_int_equal(kvd_deregister(again), KVD_OK);
	freeing_ops->free_mem(dev, memory);
}

static void addresses_are_free_at_once(void **state)
{
	struct kvd_mem *other;
	void *addr;

	(void)state;
	freeing_ops = kvd->dev->ops;
	failing_ops = *freeing_ops;
	failing_ops.free_mem = registering_free_mem;
	kvd->dev->ops = &failing_ops;
	frees = 0;
	for (unsigned int i = 1; i <= 3; i++) {
		assert_int_equal(kvd_alloc(kvd, 8192, &addr, &other), KVD_OK);
		assert_int_equal(kvd_free(other), KVD_OK);
		assert_int_equal(frees, i);
	}
	kvd->dev->ops = freeing_ops;
}

/* READs are held back: the operation is under way. */
static void memory_in_use(void **state)
{
	struct kvd_op op, *ops[] = { &op }, *done[1];

	(void)state;
	other_put("key", value, 400000);
	assert_int_equal(get_at(0, 400000, NULL), KVD_OK);
	loopback->fake.hold_reads = true;
	kvd_prep_get(&op, "key", 3, arena, 400000);
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
	assert_int_equal(kvd_deregister(mem), KVD_ERR_BUSY);
	/* Canceled, it is not handed back before the READ has completed. */
	assert_int_equal(kvd_cancel(kvd, &op), KVD_OK);
	assert_int_equal(kvd_cancel(kvd, &op), KVD_OK);
	assert_int_equal(kvd_poll(kvd, done, 1), 0);
	assert_int_equal(kvd_deregister(mem), KVD_ERR_BUSY);
	loopback->fake.hold_reads = false;
	fake_device_release(&loopback->fake);
	assert_int_equal(kvd_poll(kvd, done, 1), 1);
	assert_int_equal(op.status, KVD_ERR_CANCELED);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	mem = NULL;
	assert_got(0, 400000, value, 400000);
}

/*
 * What kvd_cancel() returned stands, whether the deadline passes before it or after it, and the
 * READ in flight has its time to complete.
 */
static void canceled_beside_a_deadline(void **state)
{
	struct kvd_op op, *ops[] = { &op }, *done[1];

	(void)state;
	other_put("key", value, 400000);
	assert_int_equal(get_at(0, 400000, NULL), KVD_OK);
	test_clock_stop();
	for (unsigned int canceled_first = 0; canceled_first < 2; canceled_first++) {
		loopback->fake.hold_reads = true;
		kvd_prep_get(&op, "key", 3, arena, 400000);
		op.timeout_ms = 1;
		assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
		if (canceled_first)
			assert_int_equal(kvd_cancel(kvd, &op), KVD_OK);
		assert_int_equal(kvd_poll(kvd, done, 1), 0);
		test_clock_pass(1000000);
		assert_int_equal(kvd_poll(kvd, done, 1), 0);
		assert_int_equal(kvd_poll(kvd, done, 1), 0);
		if (!canceled_first) {
			assert_non_null(strstr(kvd_error(kvd), "no response"));
			assert_int_equal(kvd_cancel(kvd, &op), KVD_OK);
		}
		loopback->fake.hold_reads = false;
		fake_device_release(&loopback->fake);
		assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
		assert_int_equal(op.status, KVD_ERR_CANCELED);
		assert_int_equal(kvd_ping(kvd), KVD_OK);
	}
	test_clock_start();
}

/* A READ that does not complete in that time does not change the result of kvd_cancel() either. */
static void a_canceled_read_that_does_not_complete(void **state)
{
	struct kvd_op op, *ops[] = { &op }, *done[1];

	(void)state;
	other_put("key", value, 400000);
	assert_int_equal(get_at(0, 400000, NULL), KVD_OK);
	loopback->fake.hold_reads = true;
	kvd_prep_get(&op, "key", 3, arena, 400000);
	op.timeout_ms = 1;
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
	assert_int_equal(kvd_cancel(kvd, &op), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(op.status, KVD_ERR_CANCELED);
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
}

static unsigned int destroyed;

static void counting_destroy_qp(struct cm_id *id)
{
	(void)id;
	destroyed++;
}

/* A READ that does not complete: the queue pair is destroyed before the operation ends. */
static void a_read_that_does_not_complete(void **state)
{
	const struct device_ops *real = kvd->dev->ops;
	struct kvd_op op, *ops[] = { &op }, *done[1];

	(void)state;
	other_put("key", value, 400000);
	assert_int_equal(get_at(0, 400000, NULL), KVD_OK);
	failing_ops = *real;
	failing_ops.destroy_qp = counting_destroy_qp;
	kvd->dev->ops = &failing_ops;
	destroyed = 0;
	loopback->fake.hold_reads = true;
	kvd_prep_get(&op, "key", 3, arena, 400000);
	op.timeout_ms = 1;
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
	assert_int_equal(kvd_wait(kvd, done, 1, 1, FAKE_TIMEOUT_MS), 1);
	assert_int_equal(op.status, KVD_ERR_TIMEOUT);
	assert_int_equal(destroyed, 1);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
	mem = NULL;
	assert_int_equal(kvd_ping(kvd), KVD_ERR_DISCONNECTED);
	kvd->dev->ops = real;
}

/* The connection breaks under it. */
static void a_loss_under_a_read(void **state)
{
	const struct device_ops *real = kvd->dev->ops;
	struct kvd_op op, *ops[] = { &op }, *done[1];

	(void)state;
	other_put("key", value, 400000);
	assert_int_equal(get_at(0, 400000, NULL), KVD_OK);
	failing_ops = *real;
	failing_ops.destroy_qp = counting_destroy_qp;
	kvd->dev->ops = &failing_ops;
	destroyed = 0;
	loopback->fake.hold_reads = true;
	kvd_prep_get(&op, "key", 3, arena, 400000);
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_OK);
	handle_fail(kvd, KVD_ERR_DISCONNECTED, "lost");
	assert_int_equal(kvd_poll(kvd, done, 1), 1);
	assert_int_equal(op.status, KVD_ERR_DISCONNECTED);
	assert_int_equal(destroyed, 1);
	kvd->dev->ops = real;
}

#define ARENA_CASE(f) cmocka_unit_test_setup_teardown(f, setup_arena, teardown_arena)
#define NOW_CASE(f) cmocka_unit_test_setup_teardown(f, setup_now, teardown_arena)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ARENA_CASE(values_go_where_they_belong),
		ARENA_CASE(a_buffer_too_small),
		ARENA_CASE(values_longer_than_a_registration),
		ARENA_CASE(a_child_is_refused),
		ARENA_CASE(a_path_of_its_own),
		ARENA_CASE(puts_are_not_copied),
		ARENA_CASE(wrong_bytes_are_not_delivered),
		ARENA_CASE(values_that_change_while_they_are_read),
		ARENA_CASE(values_by_request),
		ARENA_CASE(several_registrations),
		ARENA_CASE(the_nth_registration_fails),
		ARENA_CASE(addresses_are_free_at_once),
		NOW_CASE(values_go_where_they_belong),
		NOW_CASE(a_buffer_too_small),
		NOW_CASE(wrong_bytes_that_are_copied_at_once),
		NOW_CASE(values_are_copied_at_once),
		NOW_CASE(copying_at_once_ends),
		NOW_CASE(values_that_change_while_they_are_read),
		NOW_CASE(values_by_request),
		NOW_CASE(several_registrations),
		ARENA_CASE(what_is_refused),
		ARENA_CASE(memory_in_use),
		ARENA_CASE(canceled_beside_a_deadline),
		ARENA_CASE(a_canceled_read_that_does_not_complete),
		ARENA_CASE(a_read_that_does_not_complete),
		ARENA_CASE(a_loss_under_a_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
