/* SPDX-License-Identifier: MIT */
/*
 * What commands on many keys share: keys that fail are counted, and what is refused is tried again.
 */
#ifndef KVD_CLIENT_KVCTL_FAILURES_H
#define KVD_CLIENT_KVCTL_FAILURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"

#define FAILURES_SHOWN 5u

struct failures {
	uint64_t count;
	enum kvd_status first;
};

/* Counts a key, and prints the first ones with what was wrong. */
void failures_note(struct failures *failures, const void *key, size_t key_len,
		   enum kvd_status status);

/* Whether the status is of the connection, so that all other keys would fail, too. */
bool failure_is_of_all(enum kvd_status status);
/* Whether the same may succeed later: the server is busy, or a limit is reached. */
bool failure_passes(enum kvd_status status);

/* A pause before the next try; zero it before the first one, and when one has succeeded. */
struct retry {
	uint64_t since_ns;
	unsigned int tries;
};

/* Sleeps, longer each time. False: nothing has succeeded for so long that it is time to give up. */
bool retry_pause(struct retry *retry);
/* What follows a call that ended with @status: true if it was done, or may be tried again now. */
bool retry_goes_on(struct retry *retry, enum kvd_status status);

/*
 * Sets *@clock_ns to the server's clock, and *@incarnation, unless it is 0, is compared with the
 * server's, else set to it. KVD_OK, or why the server could not be asked. *@same: it has not
 * restarted.
 */
enum kvd_status server_now(struct kvd *db, uint64_t *clock_ns, uint64_t *incarnation, bool *same);

/* The statistic of this name, a number; 0 if the server does not say. */
uint64_t server_stat(struct kvd *db, const char *name);

#endif /* KVD_CLIENT_KVCTL_FAILURES_H */
