/* SPDX-License-Identifier: MIT */
/*
 * Tests of lookups (LOOKUP-1 to LOOKUP-4 of server/store/lookup.h) beside changes, step by step, so
 * that they do not depend on luck: after every ordered store of a change, all kinds of lookups are
 * made; and at every step of a lookup, the whole change is made. A lookup must return a value that
 * the key had meanwhile, or a miss only if the key was missing. Keys that are not changed must
 * always be found.
 */
#include "tests/support/form.h"
#include "tests/support/store_test.h"

#include "tests/support/store_hooks.h"

/*
 * Each call advances the clock, so that a lookup that is never successful does not take a second.
 */
static uint64_t fast_clock_ns(void)
{
	static uint64_t now;

	return now += LOOKUP_NS_MAX / 4;
}

static void reader_step(void);

static uint8_t *wrong; /* not NULL: a byte that is wrong during copy `wrong_at` */
static unsigned int wrong_at, copies;

static void hooked_racy_copy(void *to, const void *from, size_t bytes)
{
	bool is_wrong = wrong && ++copies == wrong_at;

	if (is_wrong)
		*wrong ^= 1;
	racy_copy(to, from, bytes / 2);
	reader_step();
	racy_copy((uint8_t *)to + bytes / 2, (const uint8_t *)from + bytes / 2, bytes - bytes / 2);
	if (is_wrong)
		*wrong ^= 1;
}

#define STEPPED(call) (reader_step(), call)

/* Inside of a macro, its own name is the function. */
#define clock_ns fast_clock_ns
#define racy_copy hooked_racy_copy
#define slot_follow(slot) STEPPED(slot_follow(slot))
#define item_sum_first(item) STEPPED(item_sum_first(item))
#define item_sum_again(item) STEPPED(item_sum_again(item))
#define chain_epoch_first(home) STEPPED(chain_epoch_first(home))
#define chain_epoch_again(home) STEPPED(chain_epoch_again(home))
#define bucket_level_load(bucket) STEPPED(bucket_level_load(bucket))
#define bucket_next(table, bucket) STEPPED(bucket_next(table, bucket))
#define index_home(table, hash) STEPPED(index_home(table, hash))
#include "server/store/lookup.c"
#include "server/store/scan.c"
#undef clock_ns
#undef racy_copy
#undef slot_follow
#undef item_sum_first
#undef item_sum_again
#undef chain_epoch_first
#undef chain_epoch_again
#undef bucket_level_load
#undef bucket_next
#undef index_home

#define REGION_BYTES (8u << 20)
#define LEN_MAX 50000u
#define OTHERS_MAX 100
#define OTHER_LEN 50u
#define PART_BYTES 5u

/* The key that is watched, and the values it may have, in their order. */
#define WATCHED 4711u
static uint32_t lens[4];
static uint64_t salts[4];
static uint64_t versions[4]; /* with which each was seen; 0: not yet */
static unsigned int len_count;
static bool may_miss;
/* Keys that are not changed. */
static uint64_t others[OTHERS_MAX];
static unsigned int other_count;

static struct store_thread *changer, *reader;
static uint8_t value[LEN_MAX], buffer[LEN_MAX], expected[LEN_MAX], batch[LEN_MAX];

static unsigned int last_seen, busy, found_times;
static bool verified; /* parts are got by lookup_get_verified() */

struct scenario {
	const char *name;
	void (*prepare)(void);
	void (*change)(void);
};

static const struct scenario *scenario;

static void put_key(uint64_t key, uint32_t len, uint64_t salt)
{
	value_make(value, len, key, salt);
	assert_int_equal(test_store_put(&store, &key, 8, value, len, NULL), WIRE_OK);
}

static void delete_key(uint64_t key)
{
	assert_int_equal(test_store_delete(&store, &key, 8), WIRE_OK);
}

/* What was seen of the value until now had the version that it has. */
static void put_watched(unsigned int n)
{
	const uint64_t key = WATCHED;
	struct item_ref ref;

	put_key(WATCHED, lens[n], salts[n]);
	assert_int_equal(lookup_find(changer, hash_of(&key, 8), &key, 8, &ref), LOOKUP_FOUND);
	if (versions[n] && versions[n] != ref.front.item.version)
		fail_msg("%s: value %u was seen with the version of another one", scenario->name,
			 n);
	versions[n] = ref.front.item.version;
}

static void values_are(unsigned int count, const uint32_t *of)
{
	memcpy(lens, of, count * sizeof(*of));
	memset(versions, 0, sizeof(versions));
	for (unsigned int n = 0; n < count; n++)
		salts[n] = n;
	len_count = count;
	may_miss = false;
}

#define VALUES_ARE(...)                                                                            \
	values_are(sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t),                         \
		   (uint32_t[]){ __VA_ARGS__ })

static bool is_value(const uint8_t *v, uint32_t len, uint64_t key, uint64_t salt)
{
	value_make(expected, len, key, salt);
	return !memcmp(v, expected, len);
}

/* The value must be one that the key may have, and not older than one that was seen before. */
static void watched_seen(const uint8_t *v, uint32_t len, uint64_t version)
{
	unsigned int n;

	for (n = 0; n < len_count; n++)
		if (lens[n] == len && is_value(v, len, WATCHED, salts[n]))
			break;
	if (n == len_count)
		fail_msg("%s: a wrong value of %u bytes", scenario->name, len);
	if (n < last_seen)
		fail_msg("%s: value %u after value %u", scenario->name, n, last_seen);
	if (versions[n] && versions[n] != version)
		fail_msg("%s: value %u with the version of another one", scenario->name, n);
	versions[n] = version;
	last_seen = n;
	found_times++;
}

static void get_watched(void)
{
	const uint64_t key = WATCHED;
	struct item_ref ref;
	enum wire_status status = lookup_get(reader, hash_of(&key, 8), &key, 8, buffer,
					     sizeof(buffer), &ref);

	busy += status == WIRE_BUSY;
	if (status == WIRE_OK)
		watched_seen(buffer, item_value_len(&ref.front.item), ref.front.item.version);
	else if (status == WIRE_NOT_FOUND && !may_miss)
		fail_msg("%s: a false miss", scenario->name);
}

/* WIRE_EXISTS: the part is of another version than the first one. */
static enum wire_status get_part(uint64_t offset, size_t size, uint64_t *version,
				 uint32_t *value_len)
{
	const uint64_t key = WATCHED;
	struct item_ref ref;
	uint32_t len, left;
	enum wire_status status = (verified ? lookup_get_verified : lookup_get_part)(
		reader, hash_of(&key, 8), &key, 8, offset, buffer + offset, size, &ref, &len);

	busy += status == WIRE_BUSY;
	if (status == WIRE_NOT_FOUND && !may_miss)
		fail_msg("%s: a false miss of a part", scenario->name);
	if (status)
		return status;
	left = item_value_len(&ref.front.item) > offset ?
		       item_value_len(&ref.front.item) - (uint32_t)offset :
		       0;
	assert_int_equal(len, left < size ? left : size);
	if (offset && ref.front.item.version != *version)
		return WIRE_EXISTS;
	*version = ref.front.item.version;
	*value_len = item_value_len(&ref.front.item);
	return WIRE_OK;
}

/* In two parts; both are of one value if they have one version. */
static void get_watched_in_parts(void)
{
	enum wire_status status;
	uint32_t value_len;
	uint64_t version;

	do {
		status = get_part(0, PART_BYTES, &version, &value_len);
		if (!status)
			status = get_part(PART_BYTES, sizeof(buffer) - PART_BYTES, &version,
					  &value_len);
	} while (status == WIRE_EXISTS);
	if (!status)
		watched_seen(buffer, value_len, version);
}

static void get_others(void)
{
	struct item_ref ref;

	for (unsigned int i = 0; i < other_count; i++) {
		enum wire_status status = lookup_get(reader, hash_of(&others[i], 8), &others[i], 8,
						     buffer, sizeof(buffer), &ref);

		busy += status == WIRE_BUSY;
		if (status == WIRE_BUSY)
			continue;
		if (status || item_value_len(&ref.front.item) != OTHER_LEN ||
		    !is_value(buffer, OTHER_LEN, others[i], 0))
			fail_msg("%s: another key is not what it is", scenario->name);
	}
}

/*
 * Checks the watched key's value among the entries of one batch; returns the number of other keys.
 */
static unsigned int entries_seen(const struct scan *scan)
{
	unsigned int n = 0, i;
	struct scan_entry entry;
	uint64_t key;
	size_t at = 0;

	while (at < scan->used) {
		assert_null(wire_entry_parse(&entry, batch, scan->used, &at));
		assert_int_equal(entry.key_len, 8);
		memcpy(&key, entry.key, 8);
		if (key == WATCHED && entry.value)
			watched_seen(entry.value, entry.value_len, entry.version);
		else if (key == WATCHED)
			found_times++;
		for (i = 0; i < other_count && others[i] != key; i++)
			;
		if (i == other_count)
			continue;
		n++;
		if (!is_value(entry.value, OTHER_LEN, key, 0))
			fail_msg("%s: another key is not what it is in a scan", scenario->name);
	}
	return n;
}

static void scan_all(void)
{
	struct scan scan = {
		.values = true,
		.buffer = batch,
		.size = 1000,
		.until_ns = UINT64_MAX,
	};
	unsigned int seen = 0;

	found_times = 0;
	do {
		if (table_scan(reader, &scan)) {
			busy++;
			return;
		}
		seen += entries_seen(&scan);
	} while (scan.cursor);
	if (seen != other_count)
		fail_msg("%s: a scan met %u of %u keys", scenario->name, seen, other_count);
	if (found_times > 1 || (!found_times && !may_miss))
		fail_msg("%s: a scan met the key %u times", scenario->name, found_times);
}

/* Puts other keys into the chain of the watched one. */
static void put_others(unsigned int count)
{
	uint64_t from = 1000000;

	for (other_count = 0; other_count < count; other_count++) {
		others[other_count] = test_store_collide(&store, WATCHED, false, &from);
		put_key(others[other_count], OTHER_LEN, 0);
	}
}

/* Takes the @n-th key off the others: the change will use it. */
static uint64_t remove_other(unsigned int n)
{
	uint64_t key = others[n];

	others[n] = others[--other_count];
	return key;
}

/* Scenarios */

static uint64_t victim, victims[OTHERS_MAX];

static void no_value(void)
{
	VALUES_ARE(100);
	may_miss = true;
	put_others(5);
}

static void insert(void)
{
	put_watched(0);
}

static void full_bucket(void)
{
	VALUES_ARE(100);
	may_miss = true;
	put_others(BUCKET_SLOTS);
}

static void prepare_replace(void)
{
	put_others(5);
	put_watched(0);
}

static void small_same(void)
{
	VALUES_ARE(100, 99);
	prepare_replace();
}

static void small_longer(void)
{
	VALUES_ARE(1049, 1050);
	prepare_replace();
}

static void small_to_other_class(void)
{
	VALUES_ARE(100, 1000);
	prepare_replace();
}

static void small_to_large(void)
{
	VALUES_ARE(100, 40000);
	prepare_replace();
}

static void large_to_small(void)
{
	VALUES_ARE(40000, 100);
	prepare_replace();
}

static void large_to_large(void)
{
	VALUES_ARE(40000, 40001);
	prepare_replace();
}

static void large_at_the_border(void)
{
	VALUES_ARE(LIMBO_ITEM_BYTES - 40, LIMBO_ITEM_BYTES - 41);
	prepare_replace();
}

static void replace(void)
{
	put_watched(1);
}

static void to_and_fro(void)
{
	VALUES_ARE(100, 1000, 100, 1000);
	prepare_replace();
}

static void replace_thrice(void)
{
	put_watched(1);
	put_watched(2);
	put_watched(3);
}

/*
 * The old item's memory becomes another key's at once: a reader with the old slot finds a valid
 * item. @ttl: which expired some seconds ago, unless it is 0.
 */
static void replace_and_reuse_by(uint32_t ttl)
{
	const uint64_t key = WATCHED, hash = hash_of(&key, 8);
	struct bucket *home = index_lock_home(&store.table, hash);
	struct table_change out = {
		.key = &victim, .key_len = 8, .value = value, .value_len = lens[0], .ttl = ttl
	};
	struct chain_pos place;

	do_chain_find(changer, &place, home, hash, &key, 8);
	bucket_unlock(home);
	put_watched(1);
	victim = 31;
	value_make(value, lens[0], victim, 7);
	changer->now_ns -= ttl * 10 * SECOND_NS;
	assert_int_equal(table_put(changer, hash_of(&victim, 8), &out), WIRE_OK);
	changer->now_ns += ttl * 10 * SECOND_NS;
	assert_ptr_equal(region_at(&store.region, slot_offset(out.slot)), place.item);
}

static void replace_and_reuse(void)
{
	replace_and_reuse_by(0);
}

static void replace_and_reuse_expired(void)
{
	replace_and_reuse_by(1);
}

static void one_value(void)
{
	VALUES_ARE(300);
	prepare_replace();
}

static void one_value_to_remove(void)
{
	one_value();
	may_miss = true;
}

static void delete_watched(void)
{
	delete_key(WATCHED);
}

/*
 * The key is deleted and put again, in another slot; its first slot and memory are another key's.
 */
static void delete_and_insert(void)
{
	delete_key(WATCHED);
	put_key(victim, 300, 7);
	put_watched(1);
}

static void two_values_to_remove(void)
{
	VALUES_ARE(300, 300);
	may_miss = true;
	put_others(6);
	victim = remove_other(3);
	delete_key(victim);
	put_watched(0);
}

static void touch(void)
{
	const uint64_t key = WATCHED;
	struct table_change change = { .key = &key, .key_len = 8, .ttl = 99 };

	assert_int_equal(table_touch(changer, hash_of(&key, 8), &change), WIRE_OK);
}

/* As one_value(), with an expiry time: the item is made invalid before the clock is read. */
static void one_expiring_value(void)
{
	one_value();
	touch();
}

static void fail_to_change(void)
{
	const uint64_t key = WATCHED, hash = hash_of(&key, 8);
	struct table_change change = { .key = &key, .key_len = 8, .mode = WIRE_ADD };

	assert_int_equal(table_put(changer, hash, &change), WIRE_EXISTS);
	change.mode = WIRE_CAS;
	change.version = 1;
	assert_int_equal(table_put(changer, hash, &change), WIRE_EXISTS);
	change.if_version = true;
	assert_int_equal(table_delete(changer, hash, &change), WIRE_EXISTS);
	assert_int_equal(table_arith(changer, hash, &change), WIRE_NOT_A_NUMBER);
}

static void two_expiring_values(void)
{
	small_to_other_class();
	touch();
}

static void append(void)
{
	const uint64_t key = WATCHED;
	struct table_change change = { .key = &key, .key_len = 8, .mode = WIRE_APPEND };

	change.value = value;
	change.value_len = lens[1] - lens[0];
	value_make(value, change.value_len, key, 0);
	assert_int_equal(table_put(changer, hash_of(&key, 8), &change), WIRE_OK);
}

/* The values have one salt, so that the longer one begins with the shorter one. */
static void to_append(void)
{
	VALUES_ARE(304, 312);
	salts[1] = salts[0];
	prepare_replace();
}

static void move(void)
{
	const uint64_t key = WATCHED, hash = hash_of(&key, 8);
	struct chain_pos place;
	struct bucket *home = index_lock_home(&store.table, hash);

	do_chain_find(changer, &place, home, hash, &key, 8);
	bucket_unlock(home);
	assert_int_equal(table_move_block(changer, hash, place.item), WIRE_OK);
}

/*
 * The chain has a bucket too many as soon as the victim is deleted; the watched key is in the last.
 */
static void chain_to_shorten(void)
{
	unsigned int n = 0;

	VALUES_ARE(300);
	put_others(3 * BUCKET_SLOTS);
	put_watched(0);
	for (; 2 * BUCKET_SLOTS - SPARE_SLOTS - 1 < other_count; n++)
		victims[n] = remove_other(n);
	victim = victims[--n];
	while (n)
		delete_key(victims[--n]);
}

static void delete_victim(void)
{
	uint64_t before = changer->stats.chains_shortened;

	delete_key(victim);
	assert_int_equal(changer->stats.chains_shortened, before + 1);
}

/* The chain is shortened and gets as long as before: readers must not come to the freed buckets. */
static void delete_and_put_many(void)
{
	uint64_t from = 9000000;

	delete_victim();
	for (unsigned int i = 0; i < 2 * BUCKET_SLOTS; i++)
		put_key(test_store_collide(&store, WATCHED, false, &from), OTHER_LEN, 1);
}

static void chain_of_three(void)
{
	VALUES_ARE(300);
	put_others(20);
	put_watched(0);
	for (uint64_t from = 5000000; other_count < 40; other_count++) {
		others[other_count] = test_store_collide(&store, WATCHED, false, &from);
		put_key(others[other_count], OTHER_LEN, 0);
	}
}

static void replace_bucket(void)
{
	const uint64_t key = WATCHED, hash = hash_of(&key, 8);
	struct bucket *spare = mem_alloc_bucket(&changer->cache, 0);
	struct bucket *home = index_lock_home(&store.table, hash);
	struct retired retired = { .count = 0 };

	assert_true(
		do_chain_shorten(changer, home, bucket_next(&store.table, home), spare, &retired));
	bucket_unlock(home);
	retired_free(changer, &retired);
}

static void split_all(void)
{
	uint64_t buckets = index_buckets(&store.table);
	int64_t items = atomic_load(&store.table.items);

	store.table.fill = 1;
	atomic_store(&store.table.items, 1 << 20);
	do
		index_grow(changer);
	while (index_buckets(&store.table) < 2 * buckets);
	store.table.fill = STORE_NO_GROWTH;
	atomic_store(&store.table.items, items);
}

static void split_twice(void)
{
	split_all();
	split_all();
}

static void evict(void)
{
	const uint64_t key = WATCHED, hash = hash_of(&key, 8);
	struct chain_pos place;
	struct bucket *home = index_lock_home(&store.table, hash);

	do_chain_find(changer, &place, home, hash, &key, 8);
	bucket_unlock(home);
	assert_true(table_remove_block(changer, hash, place.item, REMOVAL_EVICTED));
}

static const struct scenario scenarios[] = {
	{ "insert", no_value, insert },
	{ "insert with an overflow bucket", full_bucket, insert },
	{ "replace in place", small_same, replace },
	{ "replace in place, longer", small_longer, replace },
	{ "replace elsewhere", small_to_other_class, replace },
	{ "small to large", small_to_large, replace },
	{ "large to small", large_to_small, replace },
	{ "large to large", large_to_large, replace },
	{ "large to hardly large", large_at_the_border, replace },
	{ "replace and reuse", small_to_other_class, replace_and_reuse },
	{ "replace and reuse, expired", small_to_other_class, replace_and_reuse_expired },
	{ "replace to and fro", to_and_fro, replace_thrice },
	{ "delete", one_value_to_remove, delete_watched },
	{ "evict", one_value_to_remove, evict },
	{ "delete and insert", two_values_to_remove, delete_and_insert },
	{ "touch", one_value, touch },
	{ "touch, large", large_to_small, touch },
	{ "touch again", one_expiring_value, touch },
	{ "fail to change", one_expiring_value, fail_to_change },
	{ "replace what expires", two_expiring_values, replace },
	{ "append", to_append, append },
	{ "move", one_value, move },
	{ "move, large", large_to_small, move },
	{ "shorten", chain_to_shorten, delete_victim },
	{ "shorten and extend", chain_to_shorten, delete_and_put_many },
	{ "replace a bucket", chain_of_three, replace_bucket },
	{ "split", chain_of_three, split_all },
	{ "split twice", chain_of_three, split_twice },
	{ "split, short chain", one_value, split_all },
};

#define SCENARIOS (sizeof(scenarios) / sizeof(*scenarios))

static const struct scenario *find_scenario(const char *name)
{
	const struct scenario *s = scenarios;

	while (strcmp(s->name, name) != 0)
		s++;
	return s;
}

static void begin(const struct scenario *s)
{
	const struct store_options options = { .fill = STORE_NO_GROWTH };

	test_store_create_with(&store, REGION_BYTES, 1, 2, &options);
	set_now(ENGINE_NOW_NS);
	changer = &test_threads[0];
	reader = &test_threads[1];
	last_seen = busy = 0;
	scenario = s;
	s->prepare();
}

/* After the change, all lookups succeed at the first try. */
static void end(void)
{
	uint64_t retries;

	assert_store(NULL);
	retries = reader->stats.lookup_retries;
	busy = 0;
	get_watched();
	get_others();
	scan_all();
	assert_int_equal(busy, 0);
	assert_int_equal(reader->stats.lookup_retries, retries);
	test_store_destroy(&store);
}

/* Lookups in the middle of a change */

static bool observing;
static unsigned int steps_made, steps_blind;

void store_hook(const char *after)
{
	unsigned int before = busy;

	(void)after;
	if (!observing)
		return;
	observing = false;
	get_watched();
	get_watched_in_parts();
	steps_made++;
	steps_blind += busy > before;
	get_others();
	scan_all();
	observing = true;
}

static void lookups_between_stores(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < SCENARIOS; i++) {
		begin(&scenarios[i]);
		steps_made = steps_blind = 0;
		observing = true;
		scenarios[i].change();
		observing = false;
		assert_true(steps_made > 0);
		/* At some step a lookup was successful. */
		assert_true(steps_blind < steps_made);
		end();
	}
}

/* The whole change, in the middle of a lookup: at its step number @change_at */

static unsigned int reader_steps, change_at;
static bool changed;

static void reader_step(void)
{
	if (!change_at || ++reader_steps != change_at)
		return;
	changed = true;
	change_at = 0;
	scenario->change();
}

/* Each of the first @all steps, then some of them: scans and many GETs repeat themselves. */
static unsigned int interrupted_each(const struct scenario *s, void (*lookup)(void),
				     unsigned int all)
{
	unsigned int n;

	for (n = 1;; n += 1 + n / all) {
		begin(s);
		reader_steps = 0;
		changed = false;
		change_at = n;
		lookup();
		change_at = 0;
		/* A lookup does not give up because of one change. */
		assert_int_equal(busy, 0);
		if (!changed)
			break;
		end();
	}
	test_store_destroy(&store);
	return n;
}

static unsigned int interrupted(const struct scenario *s, void (*lookup)(void))
{
	return interrupted_each(s, lookup, long_form() ? 24 : 16);
}

static void gets_met_by_changes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < SCENARIOS; i++)
		assert_true(interrupted(&scenarios[i], get_watched) > 5);
}

static void parts_met_by_changes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < SCENARIOS; i++)
		assert_true(interrupted(&scenarios[i], get_watched_in_parts) > 5);
	verified = true;
	for (unsigned int i = 0; i < SCENARIOS; i++)
		assert_true(interrupted(&scenarios[i], get_watched_in_parts) > 5);
	verified = false;
}

/* What is sent was verified itself: also where memory is wrong for an instant. */
static void wrong_for_an_instant(void **state)
{
	const uint64_t key = WATCHED;
	enum wire_status status;
	struct item_ref ref;
	uint32_t len;

	(void)state;
	begin(&scenarios[2]);
	put_key(WATCHED, LEN_MAX, 9);
	assert_int_equal(lookup_find(changer, hash_of(&key, 8), &key, 8, &ref), LOOKUP_FOUND);
	wrong = item_value(ref.item) + 20;
	for (wrong_at = 1; wrong_at < 10; wrong_at++) {
		copies = 0;
		status = lookup_get_verified(reader, hash_of(&key, 8), &key, 8, 10, buffer, 100,
					     &ref, &len);
		if (status == WIRE_OK)
			assert_memory_equal(buffer, value + 10, 100);
		else
			assert_int_equal(status, WIRE_BUSY);
	}
	wrong = NULL;
	test_store_destroy(&store);
}

static void gets_of_others_met_by_changes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < SCENARIOS; i++)
		interrupted(&scenarios[i], get_others);
}

static void scans_met_by_changes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < SCENARIOS; i++)
		assert_true(interrupted(&scenarios[i], scan_all) > 50);
}

/*
 * Wherever a scan is when the key gets another place, and another key the one it had: it is met
 * there, and the scan does not go on from where the other key is.
 */
static void scans_met_by_a_reuse(void **state)
{
	(void)state;
	interrupted_each(find_scenario("replace and reuse"), scan_all, UINT32_MAX);
	interrupted_each(find_scenario("replace and reuse, expired"), scan_all, UINT32_MAX);
	interrupted_each(find_scenario("delete and insert"), scan_all, UINT32_MAX);
}

/*
 * A bucket is split when a scan that goes on has found it by its cursor, but not looked at it yet:
 * the keys from there on may be in the other half now.
 */
static void scans_met_by_a_split_at_their_cursor(void **state)
{
	struct scan scan = {
		.values = true,
		.buffer = batch,
		.size = sizeof(batch),
		.until_ns = UINT64_MAX,
	};
	uint64_t order, last;
	unsigned int n, i;

	(void)state;
	for (n = 1; n < 6; n++) {
		begin(find_scenario("split"));
		for (last = 0, i = 0; i < other_count; i++) {
			order = hash_order(hash_of(&others[i], 8));
			last = order > last ? order : last;
		}
		scan.cursor = last;
		scan.keys_max = 1;
		reader_steps = 0;
		changed = false;
		change_at = n;
		assert_int_equal(table_scan(reader, &scan), WIRE_OK);
		assert_true(changed);
		assert_int_equal(entries_seen(&scan), 1);
		end();
	}
}

/* A lookup in a chain that keeps changing gives up after a bounded time. */
static void busy_after_a_bounded_time(void **state)
{
	const uint64_t key = WATCHED;
	struct scan scan = { .buffer = batch, .size = 1000, .until_ns = UINT64_MAX };
	struct item_ref ref;
	struct bucket *home;

	(void)state;
	begin(&scenarios[2]);
	home = test_store_home(&store, &key, 8);
	chain_move_begin(home);
	assert_int_equal(lookup_get(reader, hash_of(&key, 8), &key, 8, NULL, 0, &ref), WIRE_BUSY);
	assert_int_equal(table_scan(reader, &scan), WIRE_BUSY);
	chain_move_end(home);
	do_chain_seal(&store.table, home, home);
	assert_int_equal(lookup_get(reader, hash_of(&key, 8), &key, 8, NULL, 0, &ref), WIRE_OK);
	end();
}

/* No lookup finds an expired item. */
static void expired(void **state)
{
	const uint64_t key = WATCHED;
	struct scan scan = { .buffer = batch, .size = 1000, .until_ns = UINT64_MAX };
	struct item_ref ref;
	uint32_t len;

	(void)state;
	begin(&scenarios[2]);
	touch();
	assert_int_equal(lookup_get(reader, hash_of(&key, 8), &key, 8, NULL, 0, &ref), WIRE_OK);
	assert_int_equal(table_scan(reader, &scan), WIRE_OK);
	assert_int_equal(scan.entries, 6);
	reader->now_ns = ref.front.item.expires * SECOND_NS;
	assert_int_equal(lookup_get(reader, hash_of(&key, 8), &key, 8, NULL, 0, &ref),
			 WIRE_NOT_FOUND);
	assert_int_equal(lookup_get_part(reader, hash_of(&key, 8), &key, 8, 0, buffer,
					 sizeof(buffer), &ref, &len),
			 WIRE_NOT_FOUND);
	scan.cursor = 0;
	assert_int_equal(table_scan(reader, &scan), WIRE_OK);
	assert_int_equal(scan.entries, 5);
	test_store_destroy(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookups_between_stores),
		cmocka_unit_test(gets_met_by_changes),
		cmocka_unit_test(parts_met_by_changes),
		cmocka_unit_test(wrong_for_an_instant),
		cmocka_unit_test(gets_of_others_met_by_changes),
		cmocka_unit_test(scans_met_by_changes),
		cmocka_unit_test(scans_met_by_a_reuse),
		cmocka_unit_test(scans_met_by_a_split_at_their_cursor),
		cmocka_unit_test(busy_after_a_bounded_time),
		cmocka_unit_test(expired),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
