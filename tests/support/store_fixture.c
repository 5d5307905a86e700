/* SPDX-License-Identifier: MIT */
/*
 * The store fixture for tests: creates a store without a server, calls the table, and walks all
 * buckets and items to check the invariants.
 */
#include "tests/support/store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/stat.h"
#include "server/store/slab.h"

/* A range of the item memory, by offset. No two may overlap. */
struct block_range {
	uint64_t at, bytes;
};

struct walk {
	const struct store *store;
	struct store_census census;
	struct block_range *extents;
	uint64_t *versions;
	uint64_t extent_count, extent_size;
	struct pins_stats pins;
	uint64_t unit;		       /* pins until it have ended */
	uint64_t live_bytes, expiring; /* as the statistics count them */
};

static void *must(void *p, const char *what)
{
	if (!p) {
		fprintf(stderr, "store fixture: no %s\n", what);
		exit(EXIT_FAILURE);
	}
	return p;
}

struct store_thread test_threads[TEST_THREADS_MAX];
unsigned int test_thread_count;
uint64_t test_store_taken;

void test_store_create_with(struct store *store, uint64_t bytes, uint32_t level,
			    unsigned int threads, const struct store_options *options)
{
	struct store_options all = *options;
	bool ok;

	all.bytes = bytes;
	all.hugepages = HUGEPAGES_OFF;
	all.level = level;
	all.value_max = VALUE_MAX;
	test_thread_count = threads;
	test_store_taken = 0;
	ok = threads <= TEST_THREADS_MAX && !store_create(store, &all);
	for (unsigned int i = 0; ok && i < threads; i++)
		ok = !store_thread_init(&test_threads[i], &store->table, (uint8_t)i);
	must(ok ? store : NULL, "region, memory or thread");
}

void test_store_create(struct store *store, uint64_t bytes, uint32_t level, unsigned int threads)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH };

	test_store_create_with(store, bytes, level, threads, &options);
}

void test_store_destroy(struct store *store)
{
	const char *error = test_store_check(store, NULL);

	if (error) {
		fprintf(stderr, "store fixture: at the end of the test: %s\n", error);
		exit(EXIT_FAILURE);
	}
	for (unsigned int i = 0; i < test_thread_count; i++)
		store_thread_release(&test_threads[i]);
	store_destroy(store);
}

/* Bytes of the block of an item of @bytes: with eviction off it may be of a larger class. */
static uint64_t block_bytes(const struct store *store, uint64_t at, uint64_t bytes)
{
	if (mem_class(bytes) == MEM_CLASS_LARGE)
		return mem_class_bytes(bytes);
	return size_class_bytes[slab_of(store->memory, region_at(&store->region, at))->class_id];
}

static void walk_note(struct walk *walk, uint64_t at, uint64_t bytes, uint64_t version)
{
	if (walk->extent_count == walk->extent_size) {
		walk->extent_size = walk->extent_size ? 2 * walk->extent_size : 1024;
		walk->extents = must(realloc(walk->extents,
					     walk->extent_size * sizeof(*walk->extents)),
				     "memory");
		walk->versions = must(realloc(walk->versions,
					      walk->extent_size * sizeof(*walk->versions)),
				      "memory");
	}
	walk->extents[walk->extent_count] = (struct block_range){ at, bytes };
	walk->versions[walk->extent_count++] = version;
	walk->census.class_bytes += version ? block_bytes(walk->store, at, bytes) : BUCKET_BYTES;
}

static void walk_pin(struct walk *walk, const struct item *item)
{
	if (!access_is_pin(item->access))
		return;
	walk->pins.fields++;
	if (pins_until(walk->store->pins, item->access) <= walk->unit)
		return;
	walk->pins.items++;
	walk->pins.bytes += mem_class_bytes(item_bytes(item));
}

/* A sum, so that the order in which items are visited does not matter. */
static void walk_digest(struct walk *walk, const void *p, size_t bytes, uint64_t offset)
{
	walk->census.digest += XXH3_64bits_withSeed(p, bytes, offset);
}

/* After the buckets of the index as it is now, and before the pad. */
static bool in_heap(const struct store *store, uint64_t offset, uint64_t bytes)
{
	const struct region *r = &store->region;
	uint64_t heap = sizeof(struct superblock) + index_buckets(&store->table) * BUCKET_BYTES;

	return offset >= heap && bytes <= r->bytes - REGION_PAD - heap &&
	       offset <= r->bytes - REGION_PAD - bytes;
}

static uint64_t extent_of(const struct store *store, uint64_t offset)
{
	return offset / store->region.extent_bytes;
}

static const char *check_item(struct walk *walk, uint64_t slot, uint64_t home)
{
	const struct geometry *g = &walk->store->region.geometry;
	const struct sum_key *key = &walk->store->region.sum_key;
	uint64_t offset = slot_offset(slot), bytes, hash;
	const struct item *item = region_at(&walk->store->region, offset);

	if (!in_heap(walk->store, offset, sizeof(*item)))
		return "a slot points outside the heap";
	bytes = item_bytes(item);
	if (item_key_len(item) < 1 || item_key_len(item) > KEY_MAX ||
	    !in_heap(walk->store, offset, bytes))
		return "an item ends outside the heap";
	if (item->sum == ITEM_SUM_INVALID ||
	    item->sum != item_sum(item, key, g->incarnation, offset) ||
	    !item_value_verifies(item, key))
		return "a slot points to an item that does not verify";
	hash = key_hash(item_key(item), item_key_len(item), g->hash_seed);
	if (geometry_home(g, hash) != home)
		return "a key is in another key's chain";
	if (slot != slot_make(hash_tag(hash), offset, bytes))
		return "a slot has another tag or length than its item";
	if (offset + slot_bytes(slot) > walk->store->region.bytes)
		return "a READ of a slot's item would end outside the region";
	if (extent_of(walk->store, offset) !=
		    extent_of(walk->store, offset + slot_bytes(slot) - 1) ||
	    extent_of(walk->store, offset) != extent_of(walk->store, offset + bytes - 1))
		return "an item, or a READ of it, crosses from an extent to the next";
	walk_note(walk, offset, bytes, item->version);
	walk_digest(walk, item, bytes, offset);
	walk_pin(walk, item);
	walk->live_bytes += bytes;
	walk->expiring += item->expires != 0;
	walk->census.items++;
	return NULL;
}

/* Whether the items of slots @a and @b have the same key. */
static bool same_key(const struct store *store, uint64_t a, uint64_t b)
{
	const struct item *x = region_at(&store->region, slot_offset(a));
	const struct item *y = region_at(&store->region, slot_offset(b));

	return item_key_len(x) == item_key_len(y) &&
	       !memcmp(item_key(x), item_key(y), item_key_len(x));
}

static const char *check_bucket(struct walk *walk, const struct bucket *bucket, uint64_t offset,
				uint64_t home)
{
	const struct geometry *g = &walk->store->region.geometry;
	const struct bucket *first = index_bucket(&walk->store->table, home);
	bool split = home < g->split || home >= 1ull << g->level;
	struct bucket copy = *bucket;

	if (bucket->sum != bucket_sum(bucket, &walk->store->region.sum_key, g->incarnation, offset,
				      geometry_bucket_offset(g, home)))
		return "a bucket does not verify";
	if (bucket->level != g->level + split)
		return "a bucket has a level other than the index gives it";
	if (bucket->epoch != first->epoch || bucket->epoch & 1)
		return "a bucket has another epoch than its chain, or an odd one";
	if (bucket->lock)
		return "a bucket is locked";
	copy.lock = 0;
	walk_digest(walk, &copy, sizeof(copy), offset);
	return NULL;
}

/* Checks all slots of a chain, and that no key is in it twice. */
static const char *check_chain(struct walk *walk, uint64_t home)
{
	const struct region *region = &walk->store->region;
	uint64_t offset = geometry_bucket_offset(&region->geometry, home);
	uint64_t slots[(CHAIN_MAX + 1) * BUCKET_SLOTS];
	unsigned int i, j, count = 0, hops;
	const struct bucket *bucket;
	const char *error;

	for (hops = 0; hops <= CHAIN_MAX; hops++) {
		bucket = region_at(region, offset);
		error = check_bucket(walk, bucket, offset, home);
		for (i = 0; !error && i < BUCKET_SLOTS; i++) {
			if (!bucket->slots[i])
				continue;
			error = check_item(walk, bucket->slots[i], home);
			walk->census.overflow_items += hops > 0;
			for (j = 0; !error && j < count; j++)
				if (same_key(walk->store, slots[j], bucket->slots[i]))
					error = "a chain has a key twice";
			slots[count++] = bucket->slots[i];
		}
		if (error || !bucket->overflow)
			break;
		offset = (uint64_t)bucket->overflow * BUCKET_BYTES;
		if (!in_heap(walk->store, offset, BUCKET_BYTES))
			return "an overflow bucket lies outside the heap";
		if (walk->store->memory->homes[bucket->overflow] != home)
			return "an overflow bucket is noted for another chain";
		walk_note(walk, offset, BUCKET_BYTES, 0);
		walk->census.overflow_buckets++;
	}
	if (!error && hops > CHAIN_MAX)
		return "a chain is longer than CHAIN_MAX";
	if (hops > walk->census.chain_max)
		walk->census.chain_max = hops;
	return error;
}

static int compare_extents(const void *a, const void *b)
{
	const struct block_range *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static int compare_versions(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static const char *check_apart(struct walk *walk)
{
	uint64_t i, n = walk->extent_count;

	if (!n)
		return NULL;
	qsort(walk->extents, n, sizeof(*walk->extents), compare_extents);
	qsort(walk->versions, n, sizeof(*walk->versions), compare_versions);
	for (i = 1; i < n; i++) {
		if (walk->extents[i - 1].at + walk->extents[i - 1].bytes > walk->extents[i].at)
			return "two items or overflow buckets overlap";
		/* 0 stands for an overflow bucket. */
		if (walk->versions[i] && walk->versions[i - 1] == walk->versions[i])
			return "two items have the same version";
	}
	return NULL;
}

/* Copies for large GETs and reserved items are in no bucket: the caller abandons them before. */
static const char *check_counts(const struct walk *walk)
{
	const struct table *table = &walk->store->table;
	uint64_t items = table->items_kept, overflow = table->stats_kept.overflow_buckets;
	uint64_t bytes = 0;
	int64_t keys = atomic_load(&table->items);

	/* If there is a maintenance thread, its store thread is one of these. */
	for (unsigned int i = 0; i < walk->store->table.thread_count; i++) {
		const struct store_thread *w = walk->store->table.threads[i];

		keys += w->items_unreported;
		items += stat_read(&w->stats.inserts) - stat_read(&w->stats.removes);
		overflow += stat_read(&w->stats.overflow_buckets);
		bytes += stat_read(&w->cache.allocated_bytes) - stat_read(&w->cache.freed_bytes);
	}
	if (items != walk->census.items)
		return "inserts minus removes is not the number of items";
	if (keys != (int64_t)walk->census.items)
		return "the number of keys that the index grows by is not that of the items";
	if (overflow != walk->census.overflow_buckets)
		return "overflow buckets are miscounted";
	/* Of a store that was kept, an earlier process has allocated a part. */
	if (walk->store->region.keep.found == KEEP_FOUND_NONE &&
	    bytes != walk->census.class_bytes + test_store_taken)
		return "memory in use is not that of all items and overflow buckets";
	return NULL;
}

static uint64_t stat_of(const struct walk *walk, size_t offset)
{
	return table_sum(&walk->store->table, offsetof(struct store_thread, stats) + offset);
}

#define WALK_STAT(walk, name) stat_of(walk, offsetof(struct table_stats, name))

/* Checks what operators read about the items, and that no key is removed for two reasons. */
static const char *check_stats(const struct walk *walk)
{
	if (WALK_STAT(walk, live_bytes) != walk->live_bytes)
		return "live bytes are not those of all items";
	if (WALK_STAT(walk, expiring) != walk->expiring)
		return "items that have an expiry time are miscounted";
	if (WALK_STAT(walk, expired) + WALK_STAT(walk, evictions) + WALK_STAT(walk, flushed) +
		    WALK_STAT(walk, dropped) >
	    WALK_STAT(walk, removes))
		return "a key was counted as removed for two reasons, or for one and not removed";
	if (WALK_STAT(walk, evictions_low) > WALK_STAT(walk, evictions))
		return "more items of low priority were evicted than items";
	return NULL;
}

/* What is not free is in use: a block that was lost on its way back is neither. */
static const char *check_memory(const struct walk *walk)
{
	struct memory_stats stats;
	uint64_t used;

	memory_stats(walk->store->memory, &stats);
	if (sizeof(struct superblock) + stats.index + stats.free + stats.item_slabs +
		    stats.bucket_slabs + stats.large + REGION_PAD !=
	    walk->store->region.bytes)
		return "the parts of the region are not all of it";
	used = stats.item_slabs + stats.bucket_slabs + stats.large - stats.item_slabs_free -
	       stats.bucket_slabs_free - stats.slab_ends;
	return used == walk->census.class_bytes + test_store_taken ?
		       NULL :
		       "memory is neither free nor in use";
}

/* Pins end now, as far as any thread's clock has come. */
static uint64_t pins_now(const struct store *store)
{
	uint64_t now_ns = 0;

	for (unsigned int i = 0; i < store->table.thread_count; i++)
		if (store->table.threads[i]->now_ns > now_ns)
			now_ns = store->table.threads[i]->now_ns;
	pins_advance(store->pins, now_ns, atomic_load(&store->table.tick));
	return now_ns / PIN_UNIT_NS;
}

static const char *check_pins(const struct walk *walk)
{
	struct pins_stats stats;

	pins_stats(walk->store->pins, &stats);
	if (stats.fields != walk->pins.fields)
		return "the items' pins are miscounted";
	if (stats.items != walk->pins.items || stats.bytes != walk->pins.bytes)
		return "the items that are pinned, or their bytes, are miscounted";
	return NULL;
}

static const char *check_geometry(const struct store *store)
{
	const struct geometry *published = &region_superblock(&store->region)->geometry;
	struct geometry now;

	index_geometry(&store->table, &now);
	if (memcmp(published, &now, sizeof(now)))
		return "the superblock's geometry is not that of the index";
	return geometry_check(published);
}

const char *test_store_check(struct store *store, struct store_census *census)
{
	uint64_t i, n = geometry_buckets(&store->region.geometry);
	struct walk walk = { .store = store, .unit = pins_now(store) };
	const char *error = check_geometry(store);

	for (i = 0; i < test_thread_count; i++)
		store_thread_idle(&test_threads[i]);
	for (i = 0; !error && i < n; i++)
		error = check_chain(&walk, i);
	if (!error)
		error = check_apart(&walk);
	if (!error)
		error = check_counts(&walk);
	if (!error)
		error = check_stats(&walk);
	if (!error)
		error = check_memory(&walk);
	if (!error)
		error = check_pins(&walk);
	if (census)
		*census = walk.census;
	free(walk.extents);
	free(walk.versions);
	return error;
}

struct bucket *test_store_home(const struct store *store, const void *key, uint32_t key_len)
{
	const struct geometry *g = &store->region.geometry;
	uint64_t hash = table_hash(&store->table, key, key_len);

	return region_at(&store->region, geometry_bucket_offset(g, geometry_home(g, hash)));
}

enum wire_status test_store_put(struct store *store, const void *key, uint32_t key_len,
				const void *value, uint32_t value_len, struct table_change *out)
{
	struct table_change put = {
		.key = key,
		.key_len = key_len,
		.value = value,
		.value_len = value_len,
		.flags = value_len ^ 0xf1a95,
	};
	enum wire_status status;

	status = table_put(&test_threads[0], table_hash(&store->table, key, key_len), &put);
	if (out)
		*out = put;
	return status;
}

enum wire_status test_store_delete(struct store *store, const void *key, uint32_t key_len)
{
	const struct table_change change = { .key = key, .key_len = key_len };

	return table_delete(&test_threads[0], table_hash(&store->table, key, key_len), &change);
}

enum wire_status test_store_get(struct store *store, const void *key, uint32_t key_len,
				void *buffer, size_t size, struct store_value *value)
{
	struct item_ref ref;
	enum wire_status status;

	status = lookup_get(&test_threads[0], table_hash(&store->table, key, key_len), key, key_len,
			    buffer, size, &ref);
	if (status)
		return status;
	*value = (struct store_value){
		.version = ref.front.item.version,
		.value_len = item_value_len(&ref.front.item),
		.flags = item_flags(&ref.front.item),
		.expires = ref.front.item.expires,
	};
	return WIRE_OK;
}

uint64_t test_store_collide(const struct store *store, uint64_t key, bool tag, uint64_t *from)
{
	const struct geometry *g = &store->region.geometry;
	uint64_t hash = key_hash(&key, sizeof(key), g->hash_seed), other, candidate;

	for (candidate = *from + 1;; candidate++) {
		other = key_hash(&candidate, sizeof(candidate), g->hash_seed);
		if (candidate != key && geometry_home(g, other) == geometry_home(g, hash) &&
		    (!tag || hash_tag(other) == hash_tag(hash)))
			break;
	}
	*from = candidate;
	return candidate;
}
