/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of restarts: changes keys in all ways and keeps their versions in a
 * file; after a restart of the server it makes the same changes again, and checks that no earlier
 * version matches. Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"
#include "tests/support/checks.h"

#define KEYS 32
#define LARGE_BYTES 200000u /* the server READs it from the client */

/* Versions of a key: after each of these changes. */
enum { BY_PUT, BY_LARGE_PUT, BY_CAS, BY_APPEND, BY_INCR, CHANGES };

struct versions {
	uint64_t of[KEYS][CHANGES];
};

static void must(enum kvd_status status, struct kvd *db, const char *what)
{
	if (!status)
		return;
	die(what, kvd_error(db));
}

static size_t key_of(char key[16], unsigned int n)
{
	return (size_t)snprintf(key, 16, "lock%u", n);
}

/* The last change leaves a number: the key exists, with the last of the versions. */
static void key_change(struct kvd *db, unsigned int n, uint64_t versions[CHANGES])
{
	static uint8_t large[LARGE_BYTES];
	struct kvd_put_args cas = { .mode = KVD_PUT_IF_VERSION };
	const struct kvd_put_args append = { .mode = KVD_PUT_APPEND };
	char key[16];
	size_t len = key_of(key, n);

	must(kvd_put(db, key, len, "1", 1, NULL, &versions[BY_PUT]), db, "put");
	must(kvd_put(db, key, len, large, sizeof(large), NULL, &versions[BY_LARGE_PUT]), db,
	     "put, large");
	cas.if_version = versions[BY_LARGE_PUT];
	must(kvd_put(db, key, len, "2", 1, &cas, &versions[BY_CAS]), db, "cas");
	must(kvd_put(db, key, len, "3", 1, &append, &versions[BY_APPEND]), db, "append");
	must(kvd_incr(db, key, len, 1, NULL, NULL, &versions[BY_INCR]), db, "incr");
}

static void keys_change(struct kvd *db, struct versions *versions)
{
	unsigned int n;

	for (n = 0; n < KEYS; n++)
		key_change(db, n, versions->of[n]);
}

static bool all_above(const struct versions *now, const struct versions *before)
{
	uint64_t lowest = UINT64_MAX, highest = 0;
	unsigned int n, i;

	for (n = 0; n < KEYS; n++)
		for (i = 0; i < CHANGES; i++) {
			if (now->of[n][i] < lowest)
				lowest = now->of[n][i];
			if (before->of[n][i] > highest)
				highest = before->of[n][i];
		}
	printf("versions before: at most %" PRIu64 "; now: at least %" PRIu64 "\n", highest,
	       lowest);
	return lowest > highest;
}

/* Whether cas and kvd_delete_if() with each version in @before leave the key as it is. */
static bool none_matches(struct kvd *db, const struct versions *before)
{
	struct kvd_put_args cas = { .mode = KVD_PUT_IF_VERSION };
	unsigned int n, i;
	char key[16];

	for (n = 0; n < KEYS; n++)
		for (i = 0; i < CHANGES; i++) {
			size_t len = key_of(key, n);

			cas.if_version = before->of[n][i];
			if (kvd_put(db, key, len, "mine", 4, &cas, NULL) != KVD_ERR_EXISTS ||
			    kvd_delete_if(db, key, len, before->of[n][i]) != KVD_ERR_EXISTS)
				return false;
		}
	return true;
}

/* At each state of the key: a holder may come back when it has had any number of changes. */
static bool none_matches_at_any_time(struct kvd *db, const struct versions *before)
{
	struct versions now;

	for (unsigned int n = 0; n < KEYS; n++) {
		char key[16];
		size_t len = key_of(key, n);

		must(kvd_put(db, key, len, "1", 1, NULL, &now.of[n][0]), db, "put");
	}
	for (unsigned int i = 0; i < CHANGES; i++) {
		if (!none_matches(db, before))
			return false;
		for (unsigned int n = 0; n < KEYS; n++) {
			char key[16];
			size_t len = key_of(key, n);

			must(kvd_incr(db, key, len, 1, NULL, NULL, &now.of[n][i]), db, "incr");
		}
	}
	return none_matches(db, before);
}

static void file_transfer(struct versions *versions, const char *path, bool write)
{
	FILE *file = fopen(path, write ? "wb" : "rb");
	size_t n = 0;

	if (file)
		n = write ? fwrite(versions, sizeof(*versions), 1, file) :
			    fread(versions, sizeof(*versions), 1, file);
	if (!file || n != 1 || fclose(file)) {
		printf("FAIL  %s: %m\n", path);
		exit(EXIT_FAILURE);
	}
}

int main(int argc, char **argv)
{
	struct versions before, now;
	struct kvd *db;

	if (argc != 4 || (strcmp(argv[1], "take") && strcmp(argv[1], "return"))) {
		fputs("usage: sys_restart take|return URL FILE\n", stderr);
		return 64;
	}
	db = must_open(argv[2]);
	if (!strcmp(argv[1], "take")) {
		keys_change(db, &now);
		check(true, "keys are changed in every way");
		file_transfer(&now, argv[3], true);
	} else {
		file_transfer(&before, argv[3], false);
		check(none_matches_at_any_time(db, &before), "no earlier version matches");
		keys_change(db, &now);
		check(all_above(&now, &before), "all versions are above the earlier ones");
		check(none_matches(db, &before), "nor after the same changes");
		file_transfer(&now, argv[3], true);
	}
	kvd_close(db);
	return check_status();
}
