/* SPDX-License-Identifier: MIT */
/*
 * Tests of the thread that copies items to another member (server/fleet/mover.h), with a real
 * store: what is copied, and when; what it reports; and that it rests when there is nothing to do.
 * The target is this test, in place of the client's calls (client/libkvd/copy.h).
 */
#include "server/fleet/mover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/libkvd/copy.h"
#include "tests/support/store_fixture.h"

#define REGION_BYTES (8u << 20)
#define KEYS 64u
#define OWN 77
#define NS_PER_MS 1000000ull
#define LEASE_NS (2000 * NS_PER_MS)
#define DEADLINE_S 300
#define REST_MS 50

static struct store store;
static struct fleet_stores stores;
static struct fleet_tls tls;
static struct mover mover;
static uint64_t moves; /* made so far */

/* The target. Its lock guards all of it. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t woken;
	bool reported;
	enum kvd_status asked, put; /* its answers */
	unsigned int asks, begins, ends, closes;
	uint64_t epoch, generation;
	unsigned int copies[KEYS], clears;
	char values[KEYS]; /* as copied last; 0: not, or cleared since */
} target = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct shard_set odd, even;

static uint64_t hash_of(uint32_t key)
{
	return table_hash(&store.table, &key, sizeof(key));
}

static bool is_of(const struct shard_set *set, uint32_t key)
{
	return shard_set_has(set, fleet_shard(hash_of(key)));
}

enum kvd_status __wrap_kvd_open(struct kvd **kvd, const char *url,
				const struct kvd_options *options);
enum kvd_status __wrap_kvd_open(struct kvd **kvd, const char *url,
				const struct kvd_options *options)
{
	assert_string_equal(options->tenant, "default");
	*kvd = strcmp(url, "softnic://b") ? NULL : (struct kvd *)&target;
	return *kvd ? KVD_OK : KVD_ERR_UNREACHABLE;
}

void __wrap_kvd_close(struct kvd *kvd);
void __wrap_kvd_close(struct kvd *kvd)
{
	pthread_mutex_lock(&target.lock);
	target.closes += kvd != NULL;
	pthread_mutex_unlock(&target.lock);
}

const char *__wrap_kvd_error(const struct kvd *kvd);
const char *__wrap_kvd_error(const struct kvd *kvd)
{
	return kvd ? "a call failed" : "can't connect";
}

enum kvd_status __wrap_copy_put(struct kvd *kvd, const struct copy_item *item);
enum kvd_status __wrap_copy_put(struct kvd *kvd, const struct copy_item *item)
{
	enum kvd_status status;
	uint32_t key;

	(void)kvd;
	assert_int_equal(item->key_len, sizeof(key));
	memcpy(&key, item->key, sizeof(key));
	assert_in_range(key, 0, KEYS - 1);
	assert_int_equal(item->value_len, 1);
	pthread_mutex_lock(&target.lock);
	target.copies[key]++;
	target.values[key] = *(const char *)item->value;
	status = target.put;
	pthread_mutex_unlock(&target.lock);
	return status;
}

enum kvd_status __wrap_copy_clear(struct kvd *kvd, uint32_t segment);
enum kvd_status __wrap_copy_clear(struct kvd *kvd, uint32_t segment)
{
	(void)kvd;
	pthread_mutex_lock(&target.lock);
	target.clears++;
	for (uint32_t key = 0; key < KEYS; key++)
		if (segment_of(hash_of(key)) == segment)
			target.values[key] = 0;
	pthread_mutex_unlock(&target.lock);
	return KVD_OK;
}

enum kvd_status __wrap_copy_settle(struct kvd *kvd);
enum kvd_status __wrap_copy_settle(struct kvd *kvd)
{
	(void)kvd;
	return KVD_OK;
}

enum kvd_status __wrap_copy_move(struct kvd *kvd, enum wire_move mode, uint64_t arg,
				 uint64_t generation, uint64_t *result);
enum kvd_status __wrap_copy_move(struct kvd *kvd, enum wire_move mode, uint64_t arg,
				 uint64_t generation, uint64_t *result)
{
	enum kvd_status status = KVD_OK;

	(void)kvd;
	pthread_mutex_lock(&target.lock);
	switch (mode) {
	case WIRE_MOVE_ASK:
		target.asks++;
		status = target.asked;
		break;
	case WIRE_MOVE_BEGIN:
		target.begins++;
		target.epoch = arg;
		target.generation = generation;
		break;
	case WIRE_MOVE_END:
		target.ends++;
		*result = OWN;
		break;
	default:
		fail_msg("MOVE %d", mode);
	}
	pthread_mutex_unlock(&target.lock);
	return status;
}

static void wake(void *thread)
{
	assert_ptr_equal(thread, &target);
	pthread_mutex_lock(&target.lock);
	target.reported = true;
	pthread_cond_signal(&target.woken);
	pthread_mutex_unlock(&target.lock);
}

static void put(uint32_t key, const char *value)
{
	struct table_change out;

	assert_int_equal(test_store_put(&store, &key, sizeof(key), value, 1, &out), WIRE_OK);
}

static int setup(void **state)
{
	(void)state;
	test_store_create(&store, REGION_BYTES, INDEX_LEVEL_MIN, 1);
	fleet_stores_init(&stores);
	fleet_stores_add(&stores, &store, "default");
	pthread_cond_init(&target.woken, NULL);
	memset(&odd, 0xaa, sizeof(odd));
	memset(&even, 0x55, sizeof(even));
	for (uint32_t key = 0; key < KEYS; key++)
		put(key, "v");
	fleet_tls_init(&tls);
	mover = (struct mover){ .tls = &tls,
				.stores = &stores,
				.lease_ns = LEASE_NS,
				.wake = wake,
				.fleet_thread = &target };
	assert_int_equal(mover_start(&mover), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mover_stop(&mover);
	fleet_stores_remove(&stores, &store);
	fleet_stores_release(&stores);
	test_store_destroy(&store);
	pthread_cond_destroy(&target.woken);
	memset(&target, 0, sizeof(target));
	return 0;
}

/* Goes on with move `moves`; each state that is no move's end has its set of shards. */
static void order(enum move_state move_state, const struct shard_set *shards)
{
	const struct membership_move move = {
		.state = move_state,
		.id = moves,
		.generation = 3,
		.epoch = move_state > MOVE_CLOSE ? 9 : 0,
		.target = "b",
		.urls = "softnic://gone,softnic://b",
		.shards = shards,
	};

	mover_order(&mover, &move);
}

/* Waits for a report, which has to be that one of the present move. Returns its reason. */
static const char *assert_report(enum mover_news news)
{
	static struct mover_report report;
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += DEADLINE_S;
	pthread_mutex_lock(&target.lock);
	while (!target.reported)
		assert_int_equal(pthread_cond_timedwait(&target.woken, &target.lock, &deadline), 0);
	target.reported = false;
	pthread_mutex_unlock(&target.lock);
	assert_true(mover_report(&mover, &report));
	assert_int_equal(report.news, news);
	assert_int_equal(report.id, moves);
	assert_int_equal(report.own, news == MOVER_CONFIRMED ? OWN : 0);
	return report.why;
}

static void begin(const struct shard_set *asked, const struct shard_set *closed)
{
	moves++;
	order(MOVE_ASK, asked);
	assert_report(MOVER_ASKED);
	order(MOVE_CLOSE, asked);
	order(MOVE_COPY, closed);
	assert_report(MOVER_COPIED);
	assert_int_equal(target.begins, 1);
	assert_int_equal(target.epoch, 9);
	assert_int_equal(target.generation, 3);
}

static void finish(const struct shard_set *closed)
{
	order(MOVE_FROZEN, closed);
	assert_report(MOVER_CONFIRMED);
	assert_int_equal(target.ends, 1);
	order(MOVE_GIVE, closed);
}

/* The map may have changed since the target was asked: which shards are closed is what counts. */
static void what_was_closed_is_copied(void **state)
{
	(void)state;
	begin(&even, &odd);
	finish(&odd);
	for (uint32_t key = 0; key < KEYS; key++)
		assert_int_equal(target.copies[key], is_of(&odd, key));
}

/* Changes after the first pass, of items that move. */
static void changes_follow(void **state)
{
	uint32_t changed = 0, removed;

	(void)state;
	begin(&odd, &odd);
	while (!is_of(&odd, changed))
		changed++;
	put(changed, "w");
	for (removed = changed + 1; !is_of(&odd, removed); removed++)
		;
	assert_int_equal(test_store_delete(&store, &removed, sizeof(removed)), WIRE_OK);
	for (uint32_t key = 0; key < KEYS; key++)
		if (is_of(&even, key))
			put(key, "x");
	finish(&odd);
	assert_int_equal(target.clears, 2);
	for (uint32_t key = 0; key < KEYS; key++)
		assert_int_equal(target.values[key], !is_of(&odd, key) || key == removed ? 0 :
						     key == changed			 ? 'w' :
											   'v');
}

/* The next move begins anew. */
static void one_after_another(void **state)
{
	(void)state;
	begin(&odd, &odd);
	finish(&odd);
	order(MOVE_NONE, NULL);
	target.begins = target.ends = 0;
	begin(&even, &even);
	/* If there was time, the first target has heard that the shards were given. */
	assert_in_range(target.asks, 2, 3);
	assert_int_equal(target.closes, 1);
	finish(&even);
	for (uint32_t key = 0; key < KEYS; key++)
		assert_int_equal(target.values[key], 'v');
}

static void the_target_is_busy(void **state)
{
	(void)state;
	target.asked = KVD_ERR_BUSY;
	moves++;
	order(MOVE_ASK, &odd);
	for (bool again = false; !again;) {
		pthread_mutex_lock(&target.lock);
		again = target.asks > 2;
		if (again)
			target.asked = KVD_OK;
		pthread_mutex_unlock(&target.lock);
	}
	assert_report(MOVER_ASKED);
}

/* Each move that fails says why, and the next one begins anew. */
static void failures_have_reasons(void **state)
{
	(void)state;
	target.asked = KVD_ERR_AWAY;
	moves++;
	order(MOVE_ASK, &odd);
	assert_string_equal(assert_report(MOVER_FAILED), "b: a call failed");
	order(MOVE_NONE, NULL);
	target.asked = KVD_OK;
	target.put = KVD_ERR_AWAY;
	moves++;
	order(MOVE_ASK, &odd);
	assert_report(MOVER_ASKED);
	order(MOVE_COPY, &odd);
	assert_string_equal(assert_report(MOVER_FAILED), "b: a call failed");
	order(MOVE_NONE, NULL);
	moves++;
	order(MOVE_COPY, &odd);
	assert_string_equal(assert_report(MOVER_FAILED), "the move was begun by another thread");
	target.put = KVD_OK;
	target.begins = 0;
	begin(&odd, &odd);
	fleet_stores_remove(&stores, &store);
	order(MOVE_FROZEN, &odd);
	assert_string_equal(assert_report(MOVER_FAILED),
			    "a tenant was made, resized or dropped meanwhile");
}

static uint64_t cpu_ns(void)
{
	struct timespec used;
	clockid_t clock;

	assert_int_equal(pthread_getcpuclockid(mover.thread, &clock), 0);
	assert_int_equal(clock_gettime(clock, &used), 0);
	return (uint64_t)used.tv_sec * 1000 * NS_PER_MS + (uint64_t)used.tv_nsec;
}

/* The thread's time on processors, which is not longer if these are busy. */
static void assert_rests(void)
{
	const struct timespec rest = { .tv_nsec = REST_MS * NS_PER_MS };
	uint64_t before = cpu_ns();

	nanosleep(&rest, NULL);
	assert_in_range(cpu_ns() - before, 0, REST_MS * NS_PER_MS / 4);
}

/* Before the first move, while it waits for the membership, and between moves. */
static void it_rests(void **state)
{
	(void)state;
	assert_rests();
	order(MOVE_NONE, NULL);
	assert_rests();
	moves++;
	order(MOVE_ASK, &odd);
	assert_report(MOVER_ASKED);
	assert_rests();
	order(MOVE_COPY, &odd);
	assert_report(MOVER_COPIED);
	finish(&odd);
	assert_rests();
	order(MOVE_NONE, NULL);
	assert_rests();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_was_closed_is_copied), CASE(changes_follow),
		CASE(one_after_another),	 CASE(the_target_is_busy),
		CASE(failures_have_reasons),	 CASE(it_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
