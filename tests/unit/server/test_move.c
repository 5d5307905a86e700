/* SPDX-License-Identifier: MIT */
/*
 * Tests of moves of large items (server/store/table_maintain.h): the item is copied and summed
 * before the bucket is locked, in pieces, between which grace periods end and others may change the
 * bucket and the item; whatever they do, the key has one whole value.
 */
#include "server/store/table_maintain.h"

#include <urcu-qsbr.h>

/* Between two pieces of a move. */
static void pause_hook(void);
#undef rcu_quiescent_state
#define rcu_quiescent_state pause_hook
#include "tests/support/store_hooks.h"
#undef rcu_quiescent_state

#include "tests/support/store_test.h"

#define REGION_BYTES (64u << 20)
#define VALUE_BYTES (8u << 20)
#define PIECES_MIN 16
#define TTL 100

static const uint64_t key = 1;
static uint64_t neighbour; /* another key of its bucket */
static uint8_t *value;
static struct item *from;	  /* what is moved */
static unsigned int pauses;	  /* passed */
static void (*meanwhile)(void);	  /* in the second one */
static bool watched;		  /* the stores of the move are looked at */
static bool invalidated, pointed; /* they came */

static uint64_t hash(void)
{
	return hash_of(&key, 8);
}

static struct item *item_of_key(void)
{
	struct item_ref ref;

	assert_int_equal(lookup_find(&test_threads[0], hash(), &key, 8, &ref), LOOKUP_FOUND);
	return ref.item;
}

/* Where the key's slot leads to, valid or not. */
static struct item *slot_leads_to(void)
{
	const struct bucket *home = test_store_home(&store, &key, 8);

	for (unsigned int i = 0; i < BUCKET_SLOTS; i++)
		if (home->slots[i] && slot_tag(home->slots[i]) == hash_tag(hash()))
			return slot_item(&store.table, home->slots[i]);
	return NULL;
}

static void assert_copied(const struct item *to)
{
	assert_memory_equal(item_key(to), &key, 8);
	assert_memory_equal(item_value(to), value, VALUE_BYTES);
}

/*
 * In the stores under the lock the copy is whole, and what is wrong in it by then does not get into
 * its sum.
 */
void store_hook(const char *after)
{
	struct item *to;

	if (!watched)
		return;
	if (!strcmp(after, "item_invalidate")) {
		assert_false(invalidated);
		invalidated = true;
	}
	if (!strcmp(after, "slot_store")) {
		assert_true(invalidated);
		to = slot_leads_to();
		assert_ptr_not_equal(to, from);
		assert_copied(to);
		item_value(to)[VALUE_BYTES / 2] ^= 1;
		pointed = true;
	}
	if (!strcmp(after, "item_publish")) {
		assert_true(pointed);
		item_value(slot_leads_to())[VALUE_BYTES / 2] ^= 1;
		watched = false;
	}
}

static void pause_hook(void)
{
	struct table_change change = {
		.key = &neighbour, .key_len = 8, .value = "n", .value_len = 1
	};

	bool watches = watched;

	watched = false;
	assert_int_equal(test_store_home(&store, &key, 8)->lock, 0);
	assert_int_equal(table_put(&test_threads[1], hash_of(&neighbour, 8), &change), WIRE_OK);
	watched = watches;
	if (++pauses == 2 && meanwhile)
		meanwhile();
	urcu_qsbr_quiescent_state();
}

static int setup(void **state)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH };

	(void)state;
	rcu_register_thread();
	test_store_create_with(&store, REGION_BYTES, 4, 2, &options);
	set_now(ENGINE_NOW_NS);
	neighbour = 0;
	test_store_collide(&store, key, false, &neighbour);
	value = malloc(VALUE_BYTES);
	assert_non_null(value);
	value_make(value, VALUE_BYTES, 1, 2);
	pauses = 0;
	meanwhile = NULL;
	watched = invalidated = pointed = false;
	assert_int_equal(test_store_put(&store, &key, 8, value, VALUE_BYTES, NULL), WIRE_OK);
	from = item_of_key();
	return 0;
}

/* assert_store() also finds what was allocated and not freed. */
static int teardown(void **state)
{
	(void)state;
	free(value);
	assert_store(NULL);
	test_store_destroy(&store);
	rcu_unregister_thread();
	return 0;
}

static enum wire_status move(void)
{
	return table_move_block(&test_threads[0], hash(), from);
}

static void assert_value(uint32_t len)
{
	struct store_value out;
	uint8_t *buffer = malloc(len);

	assert_non_null(buffer);
	assert_int_equal(test_store_get(&store, &key, 8, buffer, len, &out), WIRE_OK);
	assert_int_equal(out.value_len, len);
	assert_memory_equal(buffer, value, len);
	free(buffer);
}

static void in_pieces_without_the_lock(void **state)
{
	uint64_t version = from->version, sum;
	struct item *to;

	(void)state;
	watched = true;
	assert_int_equal(move(), WIRE_OK);
	assert_true(invalidated && pointed && !watched);
	assert_true(pauses >= PIECES_MIN);
	to = item_of_key();
	assert_ptr_not_equal(to, from);
	sum = item_sum(to, &store.region.sum_key, store.region.geometry.incarnation,
		       region_offset(&store.region, to));
	assert_int_equal(to->sum, sum);
	assert_true(item_value_verifies(to, &store.region.sum_key));
	assert_int_equal(to->version, version);
	assert_value(VALUE_BYTES);
}

static void replace(void)
{
	struct table_change change = {
		.key = &key, .key_len = 8, .value = value, .value_len = VALUE_BYTES / 2
	};

	assert_int_equal(table_put(&test_threads[1], hash(), &change), WIRE_OK);
}

static void delete (void)
{
	const struct table_change change = { .key = &key, .key_len = 8 };

	assert_int_equal(table_delete(&test_threads[1], hash(), &change), WIRE_OK);
}

static void touch(void)
{
	struct table_change change = { .key = &key, .key_len = 8, .ttl = TTL };

	assert_int_equal(table_touch(&test_threads[1], hash(), &change), WIRE_OK);
}

static void move_by_another(void)
{
	meanwhile = NULL;
	assert_int_equal(table_move_block(&test_threads[1], hash(), from), WIRE_OK);
}

/* Another value of the key in the very memory that is being copied. */
static void reuse(void)
{
	struct table_change change = {
		.key = &key, .key_len = 8, .value = value, .value_len = VALUE_BYTES
	};

	delete ();
	limbo_empty(&test_threads[1].limbo, &test_threads[1].cache);
	value[0] ^= 1;
	assert_int_equal(table_put(&test_threads[1], hash(), &change), WIRE_OK);
	assert_ptr_equal(item_of_key(), from);
}

static void replaced_meanwhile(void **state)
{
	(void)state;
	meanwhile = replace;
	assert_int_equal(move(), WIRE_NOT_FOUND);
	assert_value(VALUE_BYTES / 2);
}

static void deleted_meanwhile(void **state)
{
	struct store_value out;

	(void)state;
	meanwhile = delete;
	assert_int_equal(move(), WIRE_NOT_FOUND);
	assert_int_equal(test_store_get(&store, &key, 8, NULL, 0, &out), WIRE_NOT_FOUND);
}

static void reused_meanwhile(void **state)
{
	(void)state;
	meanwhile = reuse;
	assert_int_equal(move(), WIRE_NOT_FOUND);
	assert_value(VALUE_BYTES);
}

static void touched_meanwhile(void **state)
{
	(void)state;
	meanwhile = touch;
	assert_int_equal(move(), WIRE_OK);
	assert_int_equal(item_of_key()->expires, ENGINE_NOW_NS / SECOND_NS + 1 + TTL);
	assert_value(VALUE_BYTES);
}

static void moved_meanwhile(void **state)
{
	(void)state;
	meanwhile = move_by_another;
	assert_int_equal(move(), WIRE_NOT_FOUND);
	assert_value(VALUE_BYTES);
}

/* Where there is no memory for a copy the item stays where it is. */
static void no_memory(void **state)
{
	struct mem_cache *cache = &test_threads[0].cache;
	const uint64_t other = 1000;
	size_t bytes = item_bytes_for(8, 100, 0);
	static void *blocks[2000];
	static size_t sizes[2000];
	unsigned int n = 0;
	struct table_change out;
	const void *small;

	(void)state;
	assert_int_equal(test_store_put(&store, &other, 8, value, 100, &out), WIRE_OK);
	small = region_at(&store.region, slot_offset(out.slot));
	for (size_t next = VALUE_BYTES; next > LARGE_BYTES; next /= 2)
		while ((blocks[n] = mem_alloc(cache, next)))
			sizes[n++] = next;
	while ((blocks[n] = mem_alloc(cache, bytes)))
		sizes[n++] = bytes;
	assert_int_equal(move(), WIRE_NO_SPACE);
	assert_int_equal(table_move_block(&test_threads[0], hash_of(&other, 8), small),
			 WIRE_NO_SPACE);
	assert_ptr_equal(item_of_key(), from);
	assert_value(VALUE_BYTES);
	assert_int_equal(STAT(moves), 0);
	while (n--)
		mem_free(cache, blocks[n], sizes[n]);
	assert_int_equal(move(), WIRE_OK);
	assert_int_equal(table_move_block(&test_threads[0], hash_of(&other, 8), small), WIRE_OK);
	assert_int_equal(STAT(moves), 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(in_pieces_without_the_lock),
		CASE(replaced_meanwhile),
		CASE(deleted_meanwhile),
		CASE(reused_meanwhile),
		CASE(touched_meanwhile),
		CASE(moved_meanwhile),
		CASE(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
