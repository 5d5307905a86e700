/* SPDX-License-Identifier: MIT */
/*
 * READs of a member of a fleet (MEMBER-1, WORD-1): which count by the map and the member's word, by
 * a clock that is read after the completion; what is READ or requested where none does. Member `a`
 * is a fake server, `b` can't be reached.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/libkvd/fleet.h"
#include "client/libkvd/fleet_links.h"
#include "client/libkvd/read.h"
#include "client/libkvd/transfer.h"
#include "client/libkvd/word.h"
#include "common/sum.h"
#include "tests/support/fake_server.h"

#define S 1000000000ull
#define MS 1000000ull
#define US 1000ull
#define NO_END UINT64_MAX
#define GENERATION 77u
#define W (2 * S)

/* How far each clock of this host is set ahead. */
static struct {
	uint64_t mono_ns, raw_ns, boot_ns;
} ahead;
static uint64_t readings, boot_readings;

int clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t ns = 1000 * S + readings++ * 20;

	boot_readings += id == CLOCK_BOOTTIME;
	ns += id == CLOCK_MONOTONIC	? ahead.mono_ns :
	      id == CLOCK_MONOTONIC_RAW ? ahead.raw_ns :
	      id == CLOCK_BOOTTIME	? ahead.boot_ns :
					  0;
	now->tv_sec = (time_t)(ns / S);
	now->tv_nsec = (long)(ns % S);
	return 0;
}

static struct fake_server *server;
static struct kvd *kvd, *home;
static uint8_t found[4096];
static uint64_t key = 7;
static unsigned int word_reads, item_reads;
/* Called once, after the next READ of an item, or of the word. */
static void (*after_item)(void), (*after_word)(void);
static unsigned int members; /* of maps */
static const char *url_of_a;
static uint32_t flags_of_a;
static uint64_t lease_ns; /* of maps */
static unsigned int tear; /* this number of READs of the word find it torn */

static void pass(uint64_t ns)
{
	ahead.mono_ns += ns;
	ahead.raw_ns += ns;
	ahead.boot_ns += ns;
	server->clock_ns += ns;
}

/* Nothing arrives while the handle sleeps. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	(void)fds, (void)count;
	pass((uint64_t)timeout_ms * MS);
	return 0;
}

static struct fleet_word *word_of(void)
{
	return &((struct superblock *)(void *)server->region)->word;
}

static void word_write(uint64_t generation, uint64_t epoch, uint64_t end_ns)
{
	struct fleet_word *word = word_of();

	*word = (struct fleet_word){ generation, epoch, end_ns, 0 };
	word->sum = fleet_word_sum(word, server->geometry.incarnation);
}

static void extend(void)
{
	word_write(GENERATION, word_of()->epoch, server->clock_ns + W);
}

static void call_once(void (**what)(void))
{
	void (*one)(void) = *what;

	*what = NULL;
	if (one)
		one();
}

static void after_read(struct fake_server *s, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)s, (void)bytes;
	if (offset == offsetof(struct superblock, word)) {
		word_reads++;
		if (tear) {
			tear--;
			to[9] ^= 1;
		}
		call_once(&after_word);
	} else if (offset >= FAKE_SERVER_REGION_BYTES / 4) {
		item_reads++;
		call_once(&after_item);
	}
}

/* The server's clock is known to half a microsecond. */
static void know(void)
{
	kvd->clock = (struct server_clock){
		.low_ns = server->clock_ns - 500,
		.high_ns = server->clock_ns,
		.at_ns = clock_raw_ns(),
		.slept_ns = clock_slept_ns(),
		.known = true,
	};
}

/* A map in which all shards have this row; a's number is 0. */
static struct fleet_map *map_make(uint64_t generation, uint64_t epoch, uint64_t row)
{
	static const char *const ids[] = { "a", "b" };
	size_t each = sizeof(struct fleet_member) + 8;
	size_t bytes = sizeof(struct fleet_head) + members * each + FLEET_SHARDS * 8;
	struct fleet_member *member;
	struct fleet_head *head;
	struct fleet_map *map;
	uint64_t *rows;
	uint8_t *at;

	head = calloc(1, bytes);
	assert_non_null(head);
	head->magic = FLEET_MAP_MAGIC;
	head->generation = generation;
	head->epoch = epoch;
	head->hash_seed = server->geometry.hash_seed;
	memcpy(head->name, "test", 4);
	head->members = members;
	head->lease_ns = lease_ns;
	head->member_bytes = (uint32_t)(members * each);
	at = (uint8_t *)(head + 1);
	for (unsigned int i = 0; i < members; i++, at += each) {
		member = (struct fleet_member *)(void *)at;
		memcpy(member->id, ids[i], 1);
		member->weight = 100 + i;
		member->flags = i ? 0 : flags_of_a;
		member->urls_len = 8;
		memcpy(member->urls, i ? "rdma://b" : url_of_a, 8);
	}
	rows = (uint64_t *)(void *)at;
	for (unsigned int i = 0; i < FLEET_SHARDS; i++)
		rows[i] = row;
	head->sum = fleet_map_sum(head, bytes);
	assert_null(fleet_map_make(&map, head, bytes));
	free(head);
	return map;
}

static void adopt(uint64_t generation, uint64_t epoch, uint64_t row)
{
	assert_int_equal(fleet_adopt(home, map_make(generation, epoch, row), NULL), KVD_OK);
}

static uint64_t row_of(uint32_t owner, uint64_t since)
{
	return fleet_row(owner, true, since);
}

static void welcome(uint64_t generation, uint64_t epoch, uint64_t end_ns)
{
	struct wire_welcome message = {
		.fleet_generation = generation,
		.fleet_epoch = epoch,
		.fleet_end_ns = end_ns,
		.fleet_member = "a",
	};

	word_write(generation, epoch, end_ns);
	assert_int_equal(home->fleet_ops->welcome(kvd, &message), KVD_OK);
}

static struct fleet_map *served; /* the member's map; NULL: an older one than the handle's */
static unsigned int flushes;
static bool flushes_move; /* the map changes during each */

static void serve(struct fleet_map *map)
{
	fleet_map_free(served);
	served = map;
}

static void respond_map(const struct request *request, struct wire_response *response,
			uint8_t *value)
{
	size_t left;

	response->epoch = served ? served->head->epoch : 1;
	response->result = served ? served->bytes : sizeof(struct fleet_head);
	if (!served || request->offset >= served->bytes)
		return;
	left = served->bytes - request->offset;
	response->value_len = left < 1024 ? (uint32_t)left : 1024;
	memcpy(value, (const uint8_t *)served->head + request->offset, response->value_len);
}

static void respond(struct fake_server *s, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	(void)s;
	if (request->op == WIRE_MAP)
		respond_map(request, response, value);
	if (request->op != WIRE_FLUSH || request->ticket)
		return;
	response->ticket = ++flushes;
	if (flushes_move || flushes == 1)
		serve(map_make(GENERATION, served->head->epoch + 1, row_of(0, 3)));
}

/* With map and word of epoch 5, rows since 3; no clock ends the word. */
static int setup(void **state)
{
	(void)state;
	memset(&ahead, 0, sizeof(ahead));
	members = 2;
	url_of_a = "rdma://a";
	flags_of_a = 0;
	lease_ns = 0;
	flushes = 0;
	flushes_move = false;
	server = fake_server_open(2, 1, 0, 0, NULL);
	kvd = &server->kvd;
	server->after_read = after_read;
	server->respond = respond;
	home = calloc(1, sizeof(*home));
	assert_non_null(home);
	handle_init(home, NULL);
	home->options.timeout_ms = FAKE_TIMEOUT_MS;
	assert_int_equal(fleet_connect(home, "fleet+softnic:///nowhere/test", clock_ns() + S),
			 KVD_ERR_UNREACHABLE);
	kvd->member.home = home;
	kvd->member.shards = home->fleet->shards;
	kvd->member.mine = SHARD_NONE;
	know();
	welcome(GENERATION, 5, NO_END);
	assert_int_equal(fleet_adopt(home, map_make(GENERATION, 5, row_of(0, 3)), kvd), KVD_OK);
	home->fleet->refresh.wanted = home->fleet->busy = false;
	fake_server_put(server, key, 20, 0);
	word_reads = item_reads = tear = 0;
	after_item = after_word = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(home);
	serve(NULL);
	return 0;
}

/* The GET has this status, and took this number of READs of items and of the word. */
static void assert_get(enum kvd_status status, unsigned int items, unsigned int words)
{
	struct kvd_item item;

	item_reads = word_reads = server->gets = 0;
	memset(found, 0xee, sizeof(found));
	assert_int_equal(kvd_get(home, &key, 8, found, sizeof(found), &item), status);
	assert_int_equal(item_reads, items);
	assert_int_equal(word_reads, words);
}

static void assert_found(uint64_t len, unsigned int items, unsigned int words)
{
	assert_get(KVD_OK, items, words);
	assert_int_equal(server->gets, 0);
	assert_int_equal(found[0], 7);
	assert_int_equal(found[len - 1], 7);
	assert_int_equal(found[len], 0xee);
}

/* The server does the GET, and nothing is READ. */
static void assert_requested(void)
{
	uint64_t reads = kvd->stats.reads;

	assert_get(KVD_OK, 0, 0);
	assert_int_equal(server->gets, 1);
	assert_int_equal(kvd->stats.reads, reads);
}

static bool wants_map(void)
{
	return home->fleet->refresh.wanted;
}

static void a_word_without_an_end_needs_no_clock(void **state)
{
	uint64_t before = boot_readings;

	(void)state;
	assert_found(20, 1, 0);
	pass(1000 * S);
	assert_found(20, 1, 0);
	assert_int_equal(boot_readings, before);
}

/* Half of it is fresh; then the word is READ, meanwhile READs count. */
static void a_word_counts_until_its_end(void **state)
{
	uint64_t until;

	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	until = kvd->member.until_ns - clock_boot_ns();
	assert_in_range(until, W / 100 * 88, W / 100 * 89);
	assert_found(20, 1, 0);
	pass(800 * MS);
	assert_found(20, 1, 0);
	extend();
	pass(200 * MS);
	assert_found(20, 1, 1);
	assert_found(20, 1, 0);
	pass(700 * MS);
	assert_found(20, 1, 0);
	assert_false(wants_map());
}

/* By the lowest rate that clock_boot_ns() can have, and the highest of the server's clock. */
static void it_ends_before_the_server_says(void **state)
{
	uint64_t left, raw;

	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	left = kvd->member.until_ns - clock_boot_ns();
	raw = left * 1000 / 899;
	assert_true(raw + raw * DRIFT_PPM / 1000000 < W);
	/* And later, as the bounds of the clock diverge. */
	kvd->clock.high_ns += 100 * MS;
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_true(kvd->member.until_ns - clock_boot_ns() < left - 88 * MS);
	/* What is left may be sleep that is too short to be noticed. */
	know();
	welcome(GENERATION, 5, server->clock_ns + 900 * US);
	assert_true(word_has_ended(kvd));
}

static void late_and_changed(void)
{
	pass(3 * S);
	extend();
	fake_server_put(server, key, 30, 0);
}

/* The time counts that is read after the completion, and then another READ. */
static void what_completes_after_the_end_is_read_again(void **state)
{
	(void)state;
	assert_found(20, 1, 0);
	welcome(GENERATION, 5, server->clock_ns + W);
	after_item = late_and_changed;
	assert_found(30, 3, 1); /* the cached slot leads to the old item */
}

static void late(void)
{
	pass(3 * S);
}

static void assert_away(enum kvd_status status)
{
	assert_int_equal(status, KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(home), "its lease has ended; nothing was done"));
	assert_true(wants_map());
	assert_int_equal(server->gets, 0);
	home->fleet->refresh.wanted = home->fleet->busy = false;
	home->fleet->refresh.state = REFRESH_IDLE;
}

/* Neither hit nor miss. */
static void a_word_that_has_ended_is_away(void **state)
{
	struct kvd_get_request requests[] = {
		{ .key = &key, .key_len = 8, .value = found, .value_size = sizeof(found) },
		{ .key = "missing1", .key_len = 8 },
	};
	const struct kvd_key keys[] = { { &key, 8 }, { "missing1", 8 } };
	struct kvd_exists exists[2];
	size_t present;

	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_found(20, 1, 0);
	after_item = late;
	item_reads = word_reads = 0;
	assert_away(kvd_get(home, &key, 8, found, sizeof(found), NULL));
	assert_int_equal(item_reads, 1);
	assert_int_equal(word_reads, 1);
	assert_away(kvd_get(home, "missing1", 8, found, sizeof(found), NULL));
	assert_int_equal(kvd_get_many(home, requests, 2), KVD_OK);
	assert_away(requests[0].status);
	assert_int_equal(requests[1].status, KVD_ERR_AWAY);
	assert_int_equal(kvd_exists_many(home, keys, 2, exists, &present), KVD_OK);
	assert_away(exists[0].status);
	assert_int_equal(exists[1].status, KVD_ERR_AWAY);
	assert_int_equal(present, 0);
	assert_int_equal(kvd->stats.away, 6);
	/* Until there is another one. */
	extend();
	assert_found(20, 2, 1);
}

/* An item that is READ in pieces, and one that was deleted. */
static void large_values_and_misses_are_judged(void **state)
{
	(void)state;
	fake_server_put(server, key, 3000, 0);
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_found(3000, 1, 0);
	kvd->conn.ring_stuck = true;
	after_item = late;
	assert_get(KVD_ERR_AWAY, 1, 1);
	fake_server_delete(server, key);
	assert_get(KVD_ERR_AWAY, 1, 1); /* the stale slot */
	extend();
	assert_get(KVD_NOT_FOUND, 0, 1);
}

static void a_torn_word_is_read_again(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_found(20, 1, 0);
	pass(3 * S);
	extend();
	tear = 3;
	assert_found(20, 2, 4);
	/* Or the server is asked. */
	pass(3 * S);
	extend();
	tear = 4;
	assert_get(KVD_OK, 1, 4);
	assert_int_equal(server->gets, 1);
}

/* CLOCK_MONOTONIC_RAW stood still, so nothing is known of the server's clock. */
static void a_suspended_client_asks_for_the_clock(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_found(20, 1, 0);
	ahead.boot_ns += 3 * S;
	server->clock_ns += 3 * S;
	assert_get(KVD_ERR_AWAY, 1, 1);
	assert_int_equal(server->pings, 1);
	extend();
	assert_found(20, 2, 1);
	assert_int_equal(server->pings, 1);
	/* Asleep for less than the word, after it was READ: only the clock tells. */
	ahead.boot_ns += 1900 * MS;
	server->clock_ns += 1900 * MS;
	assert_get(KVD_OK, 2, 1);
	assert_int_equal(server->pings, 2);
}

static void a_clock_that_is_not_known_well_is_asked_for(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	kvd->clock.low_ns -= W / 10;
	pass(3 * S);
	extend();
	assert_found(20, 2, 1);
	assert_int_equal(server->pings, 0);
	kvd->clock.low_ns -= W / 20;
	pass(3 * S);
	extend();
	assert_found(20, 2, 1);
	assert_int_equal(server->pings, 1);
	/* Unless the end has passed in any case, or another handle knows it. */
	pass(3 * S);
	kvd->clock.low_ns -= W / 4;
	assert_get(KVD_ERR_AWAY, 1, 1);
	assert_int_equal(server->pings, 1);
}

/* What the word waits for may be lost with the connection. */
static void a_welcome_begins_anew(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_found(20, 1, 0);
	kvd->member.word_clock = true;
	welcome(GENERATION, 5, server->clock_ns + W);
	pass(3 * S);
	extend();
	assert_found(20, 2, 1);
}

/* A server that is silent does not say what time it is. */
static void a_silent_member_is_away(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_found(20, 1, 0);
	pass(3 * S);
	extend();
	kvd->clock.low_ns -= W;
	kvd->conn.silent_ns = clock_raw_ns();
	kvd->conn.outstanding++;
	assert_get(KVD_ERR_AWAY, 1, 1);
	kvd->conn.outstanding--;
	assert_non_null(strstr(kvd_error(home), "has not answered"));
	assert_int_equal(server->pings, 0);
}

static void closed_rows_are_requests(void **state)
{
	(void)state;
	adopt(GENERATION, 6, fleet_row(0, false, 3));
	assert_requested();
	/* Rows that are newer than the word. */
	adopt(GENERATION, 7, row_of(0, 6));
	assert_requested();
	welcome(GENERATION, 6, NO_END);
	assert_found(20, 1, 0);
	assert_false(wants_map());
}

/* So the client learns that they are open. */
static void words_are_read_between_requests(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	adopt(GENERATION, 6, row_of(0, 6));
	assert_requested();
	pass(S);
	word_write(GENERATION, 6, server->clock_ns + W);
	assert_get(KVD_OK, 0, 1);
	assert_int_equal(server->gets, 1);
	assert_found(20, 1, 0);
}

/* Nor is it READ by a client that may not. */
static void a_client_by_request_reads_no_word(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	kvd->conn.by_request = true;
	adopt(GENERATION, 6, row_of(0, 6));
	pass(3 * S);
	assert_requested();
}

static void words_of_other_maps_do_not_count(void **state)
{
	(void)state;
	welcome(GENERATION, 6, NO_END);
	assert_true(wants_map());
	home->fleet->refresh.wanted = home->fleet->busy = false;
	assert_requested();
	adopt(GENERATION, 6, row_of(0, 3));
	assert_found(20, 1, 0);
	welcome(GENERATION + 1, 6, NO_END);
	assert_true(wants_map());
	home->fleet->refresh.wanted = home->fleet->busy = false;
	assert_requested();
	/* That map replaces the other, since its epoch is larger. */
	adopt(GENERATION + 1, 7, row_of(0, 3));
	assert_found(20, 1, 0);
}

static void new_epoch(void)
{
	fake_server_put(server, key, 30, 0);
	adopt(GENERATION, 6, row_of(0, 6));
	welcome(GENERATION, 6, NO_END);
}

/* What was READ before is judged by the row and the word of then: it does not count. */
static void a_read_is_not_judged_by_a_later_map(void **state)
{
	(void)state;
	assert_found(20, 1, 0);
	after_item = new_epoch;
	assert_found(30, 3, 0);
}

static void new_word(void)
{
	struct fleet_word word = { GENERATION, 4, NO_END, 0 };

	fake_server_put(server, key, 30, 0);
	word_take(kvd, &word);
}

static void nor_by_a_later_word_of_another_epoch(void **state)
{
	(void)state;
	assert_found(20, 1, 0);
	after_item = new_word;
	assert_found(30, 3, 0);
}

static void later_word(void)
{
	extend();
	word_take(kvd, word_of());
}

/* WORD-1 */
static void a_later_end_is_the_same_word(void **state)
{
	(void)state;
	welcome(GENERATION, 5, server->clock_ns + W);
	assert_found(20, 1, 0);
	after_item = later_word;
	assert_found(20, 1, 0);
}

static void new_map(void)
{
	adopt(GENERATION, home->fleet->map->head->epoch + 1, row_of(0, 3));
	after_item = new_map;
}

/* If maps come and go, the server is asked. */
static void a_lookup_does_not_start_again_for_ever(void **state)
{
	(void)state;
	after_item = new_map;
	assert_get(KVD_OK, kvd->options.get_tries, 0);
	assert_int_equal(server->gets, 1);
}

/* With none of b's URLs for this client there is no handle of it, either. */
static void shards_without_an_owner_are_away(void **state)
{
	struct kvd_get_request request = { .key = &key, .key_len = 8 };
	struct kvd_op op, *const ops[] = { &op }, *ended;

	(void)state;
	adopt(GENERATION, 6, fleet_row(FLEET_NO_OWNER, false, 6));
	assert_get(KVD_ERR_AWAY, 0, 0);
	assert_non_null(strstr(kvd_error(home), "no member of the fleet test has the key's shard"));
	assert_true(wants_map());
	assert_int_equal(kvd_put(home, &key, 8, "v", 1, NULL, NULL), KVD_ERR_AWAY);
	assert_int_equal(kvd_get_many(home, &request, 1), KVD_OK);
	assert_int_equal(request.status, KVD_ERR_AWAY);
	kvd_prep_delete(&op, &key, 8);
	assert_int_equal(kvd_submit(home, ops, 1), KVD_OK);
	assert_int_equal(kvd_wait(home, &ended, 1, 1, 1000), 1);
	assert_int_equal(op.status, KVD_ERR_AWAY);
	assert_int_equal(home->stats.away, 4);
	assert_int_equal(server->gets, 0);
}

static char text[64u << 10];

static void assert_text(enum kvd_stats_format format, const char *lines)
{
	assert_int_equal(kvd_stats_text(home, format, text, sizeof(text), NULL), KVD_OK);
	if (!strstr(text, lines))
		fail_msg("no lines\n%s in\n%s", lines, text);
}

/* What Prometheus gets of a fleet, which is also what its members have done. */
static void statistics_say_what_the_handle_knows(void **state)
{
	(void)state;
	assert_get(KVD_OK, 1, 0);
	assert_text(KVD_STATS_LINES, "\nreads 2\n");
	assert_text(KVD_STATS_LINES, "\nmoved 0\nmaps 1\nfleet_epoch 5\nfleet_shards_open 16384\n"
				     "fleet_shards_closed 0\nfleet_shards_unowned 0\n"
				     "fleet_members_up 1\nfleet_members_waiting 0\n"
				     "fleet_members_connecting 0\nfleet_members_away 0\n"
				     "fleet_members_closed 0\nfleet_members_unused 1\n");
	adopt(GENERATION, 6, fleet_row(0, false, 6));
	assert_text(KVD_STATS_LINES, "\nmaps 2\nfleet_epoch 6\nfleet_shards_open 0\n"
				     "fleet_shards_closed 16384\nfleet_shards_unowned 0\n");
	adopt(GENERATION, 7, fleet_row(FLEET_NO_OWNER, false, 7));
	assert_text(KVD_STATS_PROMETHEUS,
		    "# HELP kvd_client_fleet_epoch epoch of the handle's map.\n"
		    "# TYPE kvd_client_fleet_epoch gauge\n"
		    "kvd_client_fleet_epoch 7\n"
		    "# HELP kvd_client_fleet_shards shards by their state in the map.\n"
		    "# TYPE kvd_client_fleet_shards gauge\n"
		    "kvd_client_fleet_shards{state=\"open\"} 0\n"
		    "kvd_client_fleet_shards{state=\"closed\"} 0\n"
		    "kvd_client_fleet_shards{state=\"unowned\"} 16384\n"
		    "# HELP kvd_client_fleet_members members by the state of the handle's "
		    "connection to them.\n"
		    "# TYPE kvd_client_fleet_members gauge\n"
		    "kvd_client_fleet_members{state=\"up\"} 1\n");
	assert_text(KVD_STATS_PROMETHEUS, "\nkvd_client_maps_total 3\n");
	/* The process's figures, and those of one server, have no fleet. */
	assert_int_equal(kvd_stats_text(NULL, KVD_STATS_PROMETHEUS, text, sizeof(text), NULL),
			 KVD_OK);
	assert_null(strstr(text, "fleet_"));
	assert_non_null(strstr(text, "\nkvd_client_maps_total "));
}

static void refuse_away(struct fake_server *s, const struct request *request,
			struct wire_response *response, uint8_t *value)
{
	respond(s, request, response, value);
	if (request->op == WIRE_MAP)
		return;
	response->status = WIRE_AWAY;
	response->epoch = 9;
}

/* The change is not sent again, wherever the map leads. */
static void a_member_that_may_not_serve_is_away(void **state)
{
	(void)state;
	server->respond = refuse_away;
	assert_int_equal(kvd_put(home, &key, 8, "v", 1, NULL, NULL), KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(home), "may not serve the key now"));
	assert_int_equal(kvd->member.refused_epoch, 9);
	assert_true(wants_map());
	assert_int_equal(kvd->stats.away, 1);
	assert_found(20, 1, 0);
}

static uint32_t put_numbers[8];
static uint8_t put_values[8];
static unsigned int put_count;

/* The first one is refused. */
static void refuse_first(struct fake_server *s, const struct request *request,
			 struct wire_response *response, uint8_t *value)
{
	respond(s, request, response, value);
	if (request->op != WIRE_PUT)
		return;
	put_numbers[put_count] = request->change;
	put_values[put_count] = *(const uint8_t *)request->value;
	if (!put_count++) {
		response->status = WIRE_MOVED;
		response->epoch = 5;
	}
}

/* Changes that wait to be sent do not overtake one that is refused; the map stays. */
static void refuse_and_wait(bool held)
{
	struct kvd_op ops[3], *list[3], *ended[3];
	uint64_t first = kvd->sent.next;

	put_count = 0;
	server->respond = refuse_first;
	server->hold_all = true;
	kvd->sent.limit = 16;
	for (unsigned int i = 0; i < 3; i++) {
		list[i] = &ops[i];
		kvd_prep_put(&ops[i], &key, 8, &"abc"[i], 1, NULL);
		assert_int_equal(kvd_submit(home, &list[i], 1), KVD_OK);
	}
	/* The window is 1. */
	assert_int_equal(put_count, 1);
	if (held) {
		fleet_hold(home->fleet, fleet_shard(fake_server_hash(server, key)));
		kvd->attention = true;
		kvd_poll(home, ended, 3);
	}
	server->hold_all = false;
	fake_server_answer(server, 1);
	while (kvd_outstanding(home)) {
		kvd_poll(home, ended, 3);
		pass(MS);
	}
	assert_int_equal(put_count, 4);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(put_numbers[i], first + i);
		assert_int_equal(put_values[i], i ? 'a' + i - 1 : 'a');
	}
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(ops[i].status, KVD_OK);
	assert_false(kvd->sent.moved);
	assert_int_equal(kvd->sent.resumed, first + 1);
	assert_int_equal(home->stats.moved, 3);
}

static void a_refused_change_stays_the_first(void **state)
{
	(void)state;
	refuse_and_wait(false);
}

/* The shard is held for another reason: changes that were sent may still be refused. */
static void changes_of_held_shards_keep_their_order(void **state)
{
	(void)state;
	refuse_and_wait(true);
}

/* Nor does a member that has not registered yet send a map that leads nowhere. */
static void a_map_without_members_is_not_taken(void **state)
{
	(void)state;
	members = 0;
	serve(map_make(GENERATION, 9, fleet_row(FLEET_NO_OWNER, false, 9)));
	home->fleet_ops->want(home);
	while (!home->fleet->refresh.failures)
		assert_found(20, 1, 0);
	assert_int_equal(home->fleet->refresh.status, KVD_ERR_AWAY);
	assert_non_null(strstr(home->error, "the fleet test has no member yet"));
	assert_int_equal(fleet_members(home), 2);
}

static void a_newer_map_is_taken(void **state)
{
	(void)state;
	serve(map_make(GENERATION + 1, 9, row_of(0, 9)));
	home->fleet_ops->want(home);
	while (fleet_epoch(home) == 5)
		assert_get(KVD_OK, 1, 0);
	assert_requested();
}

/* The old connection leads to what is not that member any more. */
static void a_member_with_another_url_gets_another_handle(void **state)
{
	struct kvd_fleet_member member;

	(void)state;
	assert_found(20, 1, 0);
	url_of_a = "rdma://z";
	serve(map_make(GENERATION, 6, row_of(0, 3)));
	home->fleet_ops->want(home);
	while (fleet_epoch(home) == 5)
		(void)kvd_get(home, &key, 8, found, sizeof(found), NULL);
	assert_int_equal(kvd_fleet_member(home, 0, &member, sizeof(member)), KVD_OK);
	assert_string_equal(member.urls, "rdma://z");
	assert_string_not_equal(member.connection, "up");
	assert_int_equal(kvd_get(home, &key, 8, found, sizeof(found), NULL), KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(home), "has no URL like softnic://"));
}

/* From begin to end at the epoch of the handle's map, or again. */
static void a_flush_is_of_one_epoch(void **state)
{
	(void)state;
	members = 1;
	adopt(GENERATION, 6, row_of(0, 3));
	serve(map_make(GENERATION, 7, row_of(0, 3)));
	assert_int_equal(kvd_flush_all(home), KVD_OK);
	assert_int_equal(flushes, 2);
	assert_int_equal(fleet_epoch(home), 8);
	home->options.timeout_ms = 1;
	flushes_move = true;
	assert_int_equal(kvd_flush_all(home), KVD_ERR_TIMEOUT);
	assert_non_null(strstr(kvd_error(home), "kept changing"));
	/* A member with an older map does not flush: it may not know yet what it has lost. */
	adopt(GENERATION, served->head->epoch + 1, row_of(0, 3));
	flushes = 0;
	assert_int_equal(kvd_flush_all(home), KVD_ERR_TIMEOUT);
	assert_int_equal(flushes, 0);
}

static void a_flush_needs_each_member(void **state)
{
	(void)state;
	serve(map_make(GENERATION, 5, row_of(0, 3)));
	flushes = 1;
	assert_int_equal(kvd_flush_all(home), KVD_ERR_AWAY);
	assert_non_null(strstr(kvd_error(home), "the member b of the fleet test has no URL"));
	assert_int_equal(flushes, 2);
}

static void a_fleet_is_listed(void **state)
{
	struct kvd_fleet_member member;
	struct kvd_fleet_info info;
	struct {
		struct kvd_fleet_info info;
		uint64_t more;
	} later = { .more = 1 };

	(void)state;
	assert_int_equal(kvd_fleet_info(home, &info, sizeof(info)), KVD_OK);
	assert_string_equal(info.name, "test");
	assert_int_equal(info.epoch, 5);
	assert_int_equal(info.generation, GENERATION);
	assert_int_equal(info.shards, FLEET_SHARDS);
	assert_int_equal(info.unowned, 0);
	assert_int_equal(info.members, 2);
	assert_int_equal(kvd_fleet_member(home, 0, &member, sizeof(member)), KVD_OK);
	assert_string_equal(member.id, "a");
	assert_string_equal(member.urls, "rdma://a");
	assert_string_equal(member.connection, "up");
	assert_int_equal(member.weight, 100);
	assert_int_equal(member.shards, FLEET_SHARDS);
	assert_int_equal(member.open, FLEET_SHARDS);
	assert_int_equal(kvd_fleet_member(home, 1, &member, sizeof(member)), KVD_OK);
	assert_string_equal(member.id, "b");
	assert_string_equal(member.connection, "unused");
	assert_int_equal(member.weight, 101);
	assert_int_equal(member.shards, 0);
	assert_int_equal(kvd_fleet_member(home, 2, &member, sizeof(member)), KVD_NOT_FOUND);
	adopt(GENERATION, 6, fleet_row(1, false, 6));
	assert_get(KVD_ERR_AWAY, 0, 0);
	assert_int_equal(kvd_fleet_member(home, 1, &member, sizeof(member)), KVD_OK);
	assert_string_equal(member.connection, "away");
	assert_int_equal(member.shards, FLEET_SHARDS);
	assert_int_equal(member.open, 0);
	adopt(GENERATION, 7, fleet_row(FLEET_NO_OWNER, false, 7));
	/* A program that was made for a later library, and one for an earlier one. */
	assert_int_equal(kvd_fleet_info(home, &later.info, sizeof(later)), KVD_OK);
	assert_int_equal(later.info.unowned, FLEET_SHARDS);
	assert_int_equal(later.more, 0);
	info.epoch = 1;
	assert_int_equal(kvd_fleet_info(home, &info, sizeof(info.name)), KVD_OK);
	assert_int_equal(info.epoch, 1);
	assert_int_equal(kvd_fleet_info(home, NULL, 8), KVD_ERR_INVALID);
	assert_int_equal(kvd_fleet_member(kvd, 0, &member, sizeof(member)), KVD_ERR_INVALID);
}

static struct request changed;	    /* the last FLEET */
static enum wire_status changes[4]; /* of the next ones */
static unsigned int change_count;

static void respond_change(struct fake_server *s, const struct request *request,
			   struct wire_response *response, uint8_t *value)
{
	respond(s, request, response, value);
	pass(request->op == WIRE_FLEET ? MS : 0);
	if (request->op != WIRE_FLEET)
		return;
	changed = *request;
	response->epoch = 5 + change_count;
	response->status = (uint8_t)changes[change_count++ % 4];
}

static void answer_changes(enum wire_status first, enum wire_status later)
{
	change_count = 0;
	for (unsigned int i = 0; i < 4; i++)
		changes[i] = i ? later : first;
}

/* A member is asked until it is so, and then for the map. */
static void a_fleet_is_changed(void **state)
{
	struct kvd_fleet_member member;

	(void)state;
	server->respond = respond_change;
	flags_of_a = FLEET_MEMBER_DRAINED | FLEET_MEMBER_BALANCES;
	serve(map_make(GENERATION, 6, row_of(0, 3)));
	answer_changes(WIRE_BUSY, WIRE_OK);
	assert_int_equal(kvd_fleet_drain(home, "a"), KVD_OK);
	assert_int_equal(change_count, 2);
	assert_int_equal(changed.mode, WIRE_FLEET_DRAIN);
	assert_int_equal(changed.key_len, 1);
	assert_memory_equal(changed.key, "a", 1);
	assert_int_equal(fleet_epoch(home), 6);
	assert_int_equal(kvd_fleet_member(home, 0, &member, sizeof(member)), KVD_OK);
	assert_int_equal(member.flags, KVD_FLEET_MEMBER_DRAINED | KVD_FLEET_MEMBER_BALANCES);
	assert_int_equal(kvd_fleet_undrain(home, "b"), KVD_OK);
	assert_int_equal(changed.mode, WIRE_FLEET_UNDRAIN);
	assert_int_equal(kvd_fleet_rebalance(home), KVD_OK);
	assert_int_equal(changed.mode, WIRE_FLEET_REBALANCE);
	assert_int_equal(changed.key_len, 0);
	assert_true(!changed.epoch);
	/* A member that is asked again learns when it was asked first. */
	answer_changes(WIRE_BUSY, WIRE_BUSY);
	changes[3] = WIRE_OK;
	assert_int_equal(kvd_fleet_rebalance(home), KVD_OK);
	assert_int_equal(change_count, 4);
	assert_true(changed.epoch == 5);
}

static void why_a_fleet_is_not_changed(void **state)
{
	(void)state;
	server->respond = respond_change;
	answer_changes(WIRE_NOT_FOUND, WIRE_OK);
	assert_int_equal(kvd_fleet_drain(home, "z"), KVD_NOT_FOUND);
	assert_string_equal(kvd_error(home), "the fleet has no member z");
	answer_changes(WIRE_INVALID, WIRE_OK);
	assert_int_equal(kvd_fleet_rebalance(home), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(home), "are in a file (fleet.file)"));
	answer_changes(WIRE_NOT_ALLOWED, WIRE_OK);
	assert_int_equal(kvd_fleet_undrain(home, "a"), KVD_ERR_NOT_ALLOWED);
	home->options.timeout_ms = 1;
	answer_changes(WIRE_BUSY, WIRE_BUSY);
	assert_int_equal(kvd_fleet_drain(home, "a"), KVD_ERR_BUSY);
	assert_non_null(strstr(kvd_error(home), "do its members reach etcd"));
	answer_changes(WIRE_AWAY, WIRE_AWAY);
	assert_int_equal(kvd_fleet_drain(home, "a"), KVD_ERR_AWAY);
	assert_int_equal(kvd_fleet_drain(home, ""), KVD_ERR_INVALID);
	assert_int_equal(kvd_fleet_drain(home, "a-name-of-more-than-24-bytes"), KVD_ERR_INVALID);
	assert_int_equal(kvd_fleet_rebalance(kvd), KVD_ERR_INVALID);
}

static void serve_opened(void)
{
	serve(map_make(GENERATION, 7, row_of(0, 7)));
}

/* Rows that were closed for a move are READ again once it was given up: the word says so. */
static void closed_rows_are_noticed_to_open(void **state)
{
	(void)state;
	welcome(GENERATION, 6, server->clock_ns + W);
	adopt(GENERATION, 6, fleet_row(0, false, 6));
	home->fleet->refresh.wanted = home->fleet->busy = false;
	assert_requested();
	pass(S);
	word_write(GENERATION, 7, server->clock_ns + W);
	serve_opened();
	assert_get(KVD_OK, 0, 1);
	assert_int_equal(server->gets, 1);
	assert_true(wants_map());
	while (fleet_epoch(home) == 6)
		(void)kvd_get(home, &key, 8, found, sizeof(found), NULL);
	assert_found(20, 1, 0);
}

static struct {
	uint64_t until_ns; /* of clock_ns() */
	bool refusing;	   /* a change was refused (FLEET-11) */
	unsigned int refused, other_done;
} frozen;

/* The shard of `key` is frozen, and the map stays. */
static void respond_frozen(struct fake_server *s, const struct request *request,
			   struct wire_response *response, uint8_t *value)
{
	bool first;

	respond(s, request, response, value);
	if (request->op != WIRE_PUT)
		return;
	first = !memcmp(request->key, &key, 8);
	frozen.refusing &= request->change != kvd->sent.resumed;
	if (!frozen.refusing && (!first || clock_ns() >= frozen.until_ns)) {
		frozen.other_done += !first;
		return;
	}
	frozen.refusing = true;
	frozen.refused += first;
	response->status = WIRE_MOVED;
	response->epoch = 5;
}

static void freeze(uint64_t ns)
{
	memset(&frozen, 0, sizeof(frozen));
	frozen.until_ns = clock_ns() + ns;
	server->respond = respond_frozen;
	kvd->sent.limit = 16;
	server->welcome.window = 8;
	kvd->conn.window = 8;
	serve(map_make(GENERATION, 5, row_of(0, 3)));
}

/* A call waits as long as its shard is frozen, and little longer, whatever failed before. */
static void a_frozen_shard_holds_up_a_call(void **state)
{
	(void)state;
	home->options.timeout_ms = 1000;
	home->fleet->refresh.failures = 20;
	freeze(200 * MS);
	assert_int_equal(kvd_put(home, &key, 8, "v", 1, NULL, NULL), KVD_OK);
	assert_true(clock_ns() < frozen.until_ns + 60 * MS);
	assert_in_range(frozen.refused, 4, 40);
	/* Until its timeout: the answers come at once. */
	freeze(20 * S);
	assert_int_equal(kvd_put(home, &key, 8, "v", 1, NULL, NULL), KVD_ERR_MOVED);
	assert_true(clock_ns() < frozen.until_ns - 15 * S);
}

/* A GET that was submitted after a change follows it, also if the change was refused. */
static void a_get_follows_a_refused_change(void **state)
{
	struct kvd_op put, get, *list[2] = { &put, &get }, *ended[2];

	(void)state;
	freeze(20 * MS);
	kvd_prep_put(&put, &key, 8, "v", 1, NULL);
	kvd_prep_get(&get, &key, 8, found, sizeof(found));
	assert_int_equal(kvd_submit(home, list, 2), KVD_OK);
	while (!kvd_poll(home, ended, 1))
		pass(MS);
	assert_true(frozen.refused);
	assert_ptr_equal(ended[0], &put);
	assert_int_equal(put.status, KVD_OK);
	while (!kvd_poll(home, ended, 1))
		pass(MS);
	assert_int_equal(get.status, KVD_OK);
}

/* A GET follows all of them, also those that were not sent yet. */
static void a_get_follows_several(void **state)
{
	struct kvd_op ops[5], *list[5], *ended[5];

	(void)state;
	freeze(20 * MS);
	kvd->conn.window = 2;
	server->welcome.window = 2;
	for (unsigned int i = 0; i < 5; i++) {
		list[i] = &ops[i];
		if (i < 4)
			kvd_prep_put(&ops[i], &key, 8, &"abcd"[i], 1, NULL);
	}
	kvd_prep_get(&ops[4], &key, 8, found, sizeof(found));
	assert_int_equal(kvd_submit(home, list, 5), KVD_OK);
	for (unsigned int i = 0; i < 5;) {
		if (kvd_poll(home, ended, 1))
			assert_ptr_equal(ended[0], &ops[i++]);
		else
			pass(MS);
	}
	assert_true(frozen.refused);
}

/* A pause that began for another reason ends earlier. */
static void a_pause_is_shorter_for_a_frozen_shard(void **state)
{
	(void)state;
	freeze(10 * MS);
	home->fleet_ops->want(home);
	while (home->fleet->refresh.state != REFRESH_PAUSE)
		(void)kvd_get(home, &key, 8, found, sizeof(found), NULL);
	home->fleet->refresh.next_ns = clock_ns() + 100 * S;
	assert_int_equal(kvd_put(home, &key, 8, "v", 1, NULL, NULL), KVD_OK);
	assert_true(clock_ns() < frozen.until_ns + 60 * MS);
}

/* Changes of other shards are refused with it once, and then go on. */
static void other_shards_go_on(void **state)
{
	static const uint64_t other = 8;
	struct kvd_op ops[4], *list[4], *ended[4];

	(void)state;
	freeze(20 * S);
	assert_int_not_equal(fleet_shard(fake_server_hash(server, key)),
			     fleet_shard(fake_server_hash(server, other)));
	for (unsigned int i = 0; i < 4; i++) {
		list[i] = &ops[i];
		kvd_prep_put(&ops[i], i ? &other : &key, 8, &"abcd"[i], 1, NULL);
	}
	assert_int_equal(kvd_submit(home, list, 4), KVD_OK);
	while (frozen.refused < 20) {
		kvd_poll(home, ended, 4);
		pass(MS);
	}
	assert_int_equal(frozen.other_done, 3);
	assert_int_equal(kvd_outstanding(home), 1);
	frozen.until_ns = 0;
	while (kvd_outstanding(home)) {
		kvd_poll(home, ended, 4);
		pass(MS);
	}
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(ops[i].status, KVD_OK);
}

static struct {
	unsigned int scans;	/* that began at the server */
	unsigned int hidden;	/* the first ones of them do not find `key` */
	unsigned int changed;	/* during the first ones the rows change */
	unsigned int delivered; /* `key` was */
} scanned;

static uint32_t entry_write(uint8_t *value, uint64_t of)
{
	const struct wire_entry entry = { .version = 1, .key_len = 8 };

	memcpy(value, &entry, sizeof(entry));
	memcpy(value + sizeof(entry), &of, 8);
	return (uint32_t)sizeof(entry) + 8;
}

/* Two pages, the first without a key. */
static void respond_scan(struct fake_server *s, const struct request *request,
			 struct wire_response *response, uint8_t *value)
{
	uint64_t epoch;

	respond(s, request, response, value);
	if (request->op != WIRE_SCAN)
		return;
	if (!request->cursor) {
		response->cursor = 1ull << 62;
		scanned.scans++;
		return;
	}
	epoch = served->head->epoch;
	if (scanned.scans <= scanned.changed)
		serve(map_make(GENERATION, epoch + 2, row_of(0, epoch + 2)));
	response->entries = scanned.scans > scanned.hidden;
	if (response->entries)
		response->value_len = entry_write(value, key);
}

static int take(void *arg, const struct kvd_entry *entry)
{
	(void)arg;
	assert_memory_equal(entry->key, &key, 8);
	scanned.delivered++;
	return 0;
}

static void scan_begin(unsigned int hidden, unsigned int change)
{
	memset(&scanned, 0, sizeof(scanned));
	scanned.hidden = hidden;
	scanned.changed = change;
	server->respond = respond_scan;
	serve(map_make(GENERATION, fleet_epoch(home), row_of(0, 3)));
}

static void scan_one(uint64_t *cursor)
{
	assert_int_equal(kvd_scan(home, cursor, NULL, take, NULL), KVD_OK);
}

static void scan_all(uint64_t cursor)
{
	do
		scan_one(&cursor);
	while (cursor);
}

/* A key whose shard was elsewhere, or may have been, is found when the shard stays. */
static void shards_that_move_are_scanned_again(void **state)
{
	(void)state;
	scan_begin(0, 0);
	scan_all(0);
	assert_int_equal(scanned.scans, 1);
	assert_int_equal(scanned.delivered, 1);
	scan_begin(1, 1);
	scan_all(0);
	assert_int_equal(scanned.scans, 2);
	assert_int_equal(scanned.delivered, 1);
	assert_int_equal(fleet_epoch(home), 7);
	scan_begin(3, 3);
	scan_all(0);
	assert_int_equal(scanned.scans, 4);
	assert_int_equal(scanned.delivered, 1);
}

/* Each has what it found, also that which begins while another one is under way. */
static void scans_at_a_time(void **state)
{
	uint64_t first = 0, second = 0;

	(void)state;
	scan_begin(1, 1);
	scan_one(&first);
	scan_one(&first); /* the end of the member: the rows have changed */
	assert_int_equal(fleet_epoch(home), 7);
	scan_one(&second);
	assert_int_equal(scanned.delivered, 0);
	scan_all(first);
	assert_int_equal(scanned.delivered, 1);
	assert_int_not_equal(second, 0);
	scan_all(second);
	assert_int_equal(scanned.delivered, 2);
	assert_int_equal(scanned.scans, 3);
}

/* What others may have delivered is delivered again. */
static void a_cursor_of_a_scan_that_was_forgotten(void **state)
{
	uint64_t cursor = 0, other;

	(void)state;
	scan_begin(0, 0);
	scan_one(&cursor);
	for (unsigned int i = 0; i < SCANS_MAX; i++) {
		other = 0;
		scan_one(&other);
	}
	scanned.scans = 1;
	scan_all(cursor);
	assert_int_equal(scanned.scans, 1); /* the map of a file does not change */
	assert_int_equal(scanned.delivered, 1);
	lease_ns = W;
	adopt(GENERATION, 6, row_of(0, 3));
	scan_begin(0, 0);
	scanned.scans = 1;
	scan_all(cursor);
	assert_int_equal(scanned.scans, 2);
	assert_int_equal(scanned.delivered, 2);
}

/* The call that stops, or fails, is made again. */
static int stop(void *arg, const struct kvd_entry *entry)
{
	(void)arg, (void)entry;
	return 1;
}

static void a_scan_stops_and_goes_on(void **state)
{
	uint64_t cursor = 0, before;

	(void)state;
	scan_begin(0, 0);
	scan_one(&cursor);
	before = cursor;
	assert_int_equal(kvd_scan(home, &cursor, NULL, stop, NULL), KVD_OK);
	assert_true(cursor == before);
	scan_all(cursor);
	assert_int_equal(scanned.delivered, 1);
	assert_int_equal(scanned.scans, 1);
	/* The member has a newer map, and does not send it. */
	scan_begin(0, 0);
	home->options.timeout_ms = 20;
	cursor = 0;
	scan_one(&cursor);
	before = cursor;
	served->head->epoch = 9;
	assert_int_equal(kvd_scan(home, &cursor, NULL, take, NULL), KVD_ERR_TIMEOUT);
	assert_true(cursor == before);
	/* No member has a shard. */
	adopt(GENERATION, 20, fleet_row(FLEET_NO_OWNER, false, 20));
	scan_begin(0, 0);
	scan_all(0);
	assert_int_equal(scanned.scans, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest cases[] = {
		CASE(a_word_without_an_end_needs_no_clock),
		CASE(a_word_counts_until_its_end),
		CASE(it_ends_before_the_server_says),
		CASE(what_completes_after_the_end_is_read_again),
		CASE(a_word_that_has_ended_is_away),
		CASE(large_values_and_misses_are_judged),
		CASE(a_torn_word_is_read_again),
		CASE(a_suspended_client_asks_for_the_clock),
		CASE(a_clock_that_is_not_known_well_is_asked_for),
		CASE(a_welcome_begins_anew),
		CASE(a_silent_member_is_away),
		CASE(closed_rows_are_requests),
		CASE(words_are_read_between_requests),
		CASE(a_client_by_request_reads_no_word),
		CASE(words_of_other_maps_do_not_count),
		CASE(a_read_is_not_judged_by_a_later_map),
		CASE(nor_by_a_later_word_of_another_epoch),
		CASE(a_later_end_is_the_same_word),
		CASE(a_lookup_does_not_start_again_for_ever),
		CASE(shards_without_an_owner_are_away),
		CASE(statistics_say_what_the_handle_knows),
		CASE(a_member_that_may_not_serve_is_away),
		CASE(a_refused_change_stays_the_first),
		CASE(changes_of_held_shards_keep_their_order),
		CASE(a_map_without_members_is_not_taken),
		CASE(a_newer_map_is_taken),
		CASE(a_member_with_another_url_gets_another_handle),
		CASE(a_flush_is_of_one_epoch),
		CASE(a_flush_needs_each_member),
		CASE(a_fleet_is_listed),
		CASE(a_fleet_is_changed),
		CASE(why_a_fleet_is_not_changed),
		CASE(closed_rows_are_noticed_to_open),
		CASE(a_frozen_shard_holds_up_a_call),
		CASE(a_get_follows_a_refused_change),
		CASE(a_get_follows_several),
		CASE(a_pause_is_shorter_for_a_frozen_shard),
		CASE(other_shards_go_on),
		CASE(shards_that_move_are_scanned_again),
		CASE(scans_at_a_time),
		CASE(a_cursor_of_a_scan_that_was_forgotten),
		CASE(a_scan_stops_and_goes_on),
	};

	return cmocka_run_group_tests(cases, NULL, NULL);
}
