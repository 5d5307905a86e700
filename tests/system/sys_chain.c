/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of keys that were made up for one bucket: an attacker that knows the
 * hash seed fills the chain of a victim's keys with keys of the same tag, while the victim goes on.
 * Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 *
 *	sys_chain URL evicts	the server evicts
 *	sys_chain URL none	it does not
 *	sys_chain URL pins	it evicts, and the attacker pins its items
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "client/kvd.h"
#include "tests/support/checks.h"
#include "tests/support/chosen_keys.h"
#include "tests/support/raw_peer.h"

#define ROUNDS 40u
#define KEYS_EACH 100u /* that the attacker PUTs in a round */
/* READs of a GET without a place: the chain's 17 buckets, and items of 5 keys. */
#define READS_MAX (17u + 5u)
/* Number of a key that the victim stores in a round: no key of the attacker's has it. */
#define LATE(round) (65535u - (round))
/* Number of one more key, which the attacker stores in a round. */
#define FURTHER(round) (ROUNDS * KEYS_EACH + (round))

static struct kvd *victim, *attacker;
static const char old_key[] = "victim";
static uint64_t seed;
static bool pins;
static uint64_t worst; /* READs of a GET of the victim's */

/* The hash seed is in the welcome, which every client that may READ gets. */
static void seed_learn(void)
{
	struct raw_peer p;

	raw_greet(&p);
	seed = p.welcome.geometry.hash_seed;
	raw_close(&p);
}

static uint64_t key_of(uint32_t n)
{
	return chosen_key(chosen_hash(key_hash(old_key, strlen(old_key), seed), n, true), seed);
}

/* KEYS_EACH more. Returns how many the server took. */
static unsigned int attack(uint32_t round)
{
	const struct kvd_put_args args = { .pin_s = pins ? 60 : 0 };
	unsigned int taken = 0;

	for (uint32_t i = 0; i < KEYS_EACH; i++) {
		uint64_t key = key_of(round * KEYS_EACH + i);

		taken += !kvd_put(attacker, &key, sizeof(key), "made up", 7, &args, NULL);
	}
	return taken;
}

static uint64_t reads(void)
{
	struct kvd_stats stats;

	kvd_stats(victim, &stats);
	return stats.reads;
}

static bool has(const void *key, size_t key_len, const char *want)
{
	uint64_t before = reads();
	struct kvd_item item;
	char value[16];
	bool found;

	found = !kvd_get(victim, key, key_len, value, sizeof(value), &item) &&
		item.value_len == strlen(want) && !memcmp(value, want, item.value_len);
	if (reads() - before > worst)
		worst = reads() - before;
	return found;
}

static struct {
	unsigned int taken, old, late, refused, survived;
} counts;

static void round_run(uint32_t round)
{
	uint64_t late = key_of(LATE(round)), more = key_of(FURTHER(round));
	enum kvd_status status;

	counts.taken += attack(round);
	counts.old += has(old_key, strlen(old_key), "old");
	status = kvd_put(victim, &late, sizeof(late), "late", 4, NULL, NULL);
	counts.refused += status == KVD_ERR_NO_SPACE;
	if (status)
		return;
	counts.late += has(&late, sizeof(late), "late");
	/* One more PUT of the attacker's: seldom is it that key that goes. */
	kvd_put(attacker, &more, sizeof(more), "more", 4, NULL, NULL);
	counts.survived += has(&late, sizeof(late), "late");
}

static void open_both(void)
{
	struct kvd_options options;

	/* Without a cache: each GET is one that has no place. */
	kvd_options_init(&options);
	options.cache_bytes = 0;
	options.timeout_ms = SYS_TIMEOUT_MS;
	if (kvd_open(&victim, raw_url, &options))
		die("the victim", "can't connect");
	attacker = must_open(raw_url);
	seed_learn();
}

int main(int argc, char **argv)
{
	bool evicts;

	if (argc != 3)
		die("usage", "sys_chain URL evicts|none|pins");
	raw_url = argv[1];
	evicts = strcmp(argv[2], "none") != 0;
	pins = !strcmp(argv[2], "pins");
	open_both();
	if (kvd_put(victim, old_key, strlen(old_key), "old", 3, NULL, NULL))
		die("the victim's PUT", kvd_error(victim));
	for (uint32_t round = 0; round < ROUNDS; round++)
		round_run(round);
	check(counts.old == ROUNDS, "a key that was there before stays: %u times", counts.old);
	check(worst > 5 && worst <= READS_MAX, "a GET takes %u READs at most: %u", READS_MAX,
	      (unsigned int)worst);
	if (evicts) {
		check(counts.taken == ROUNDS * KEYS_EACH, "the attacker's PUTs succeed: %u",
		      counts.taken);
		check(counts.late == ROUNDS, "so do the victim's, which finds them: %u",
		      counts.late);
		check(counts.survived >= ROUNDS * 3 / 4, "and they stay for a while: %u",
		      counts.survived);
	} else {
		check(counts.taken < 300, "the chain takes no more than it has room for: %u",
		      counts.taken);
		check(counts.refused >= ROUNDS - 4, "further keys of it find no space: %u",
		      counts.refused);
	}
	check(!kvd_put(victim, old_key, strlen(old_key), "new", 3, NULL, NULL) &&
		      has(old_key, strlen(old_key), "new"),
	      "the key that was there before can be changed");
	kvd_close(attacker);
	kvd_close(victim);
	return check_status();
}
