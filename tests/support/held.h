/* SPDX-License-Identifier: MIT */
/*
 * Judges leaks of a server: everything that a client can make it hold, by its statistics and /proc.
 * A test notes it, lets clients do their worst, and then waits until all of it is back.
 *
 * What works meanwhile (the call for the statistics itself, a neighbour that the test keeps busy)
 * holds something now and then. So the least of several looks is noted, and each number has to be
 * seen as low again once, not all at the same time: what has leaked never comes back.
 */
#ifndef KVD_TESTS_SUPPORT_HELD_H
#define KVD_TESTS_SUPPORT_HELD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/kvd.h"

#define HELD_MAX 64
#define HELD_NAME_MAX 40

struct held {
	unsigned int count;
	struct {
		char name[HELD_NAME_MAX];
		uint64_t value;
	} list[HELD_MAX];
};

/*
 * Looks several times and keeps the least of each. @connection: to the server, of the caller's own
 * host and user. False, with a line on standard output: a call failed.
 */
bool held_note(struct kvd *connection, struct held *noted);
/*
 * Waits until each number was seen as low as in @noted, for @deadline_ns at most. False, with a
 * line for each that was not.
 */
bool held_wait(struct kvd *connection, const struct held *noted, uint64_t deadline_ns);
/* Sets the number of that name. */
void held_set(struct held *held, const char *name, uint64_t value);

/* Write to a file and read it; end the process on failure. */
void held_save(const struct held *held, const char *path);
void held_load(struct held *held, const char *path);

#endif /* KVD_TESTS_SUPPORT_HELD_H */
