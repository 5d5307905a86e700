/* SPDX-License-Identifier: MIT */
/*
 * Judges leaks of a server for the system tests (tests/support/held.h):
 *
 *	sys_held URL note FILE		notes in FILE what the server holds now
 *	sys_held URL wait FILE N	waits until it holds no more than that, and has N
 *					connections, this one included; prints what does not come
 *					back, and fails then
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/held.h"

#define DEADLINE_NS 300000000000ull
#define TIMEOUT_MS 300000

int main(int argc, char **argv)
{
	struct kvd_options options;
	struct held held;
	struct kvd *db;
	bool good;

	if (argc < 4 || argc != (strcmp(argv[2], "note") ? 5 : 4)) {
		fputs("usage: sys_held URL note FILE | wait FILE CONNECTIONS\n", stderr);
		return 64;
	}
	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = TIMEOUT_MS;
	if (kvd_open(&db, argv[1], &options)) {
		printf("%s\n", kvd_error(NULL));
		return EXIT_FAILURE;
	}
	if (argc == 4) {
		good = held_note(db, &held);
		held_save(&held, argv[3]);
	} else {
		held_load(&held, argv[3]);
		held_set(&held, "connections", strtoull(argv[4], NULL, 10));
		good = held_wait(db, &held, DEADLINE_NS);
	}
	kvd_close(db);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
