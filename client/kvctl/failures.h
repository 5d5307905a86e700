/* SPDX-License-Identifier: MIT */
/*
 * For commands on many keys: counts keys that fail, and paces the retries of refused calls.
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

/* Counts a key that failed. The first ones are printed, with the reason. */
void failures_note(struct failures *failures, const void *key, size_t key_len,
		   enum kvd_status status);

/* Whether the status concerns the connection, so that all other keys would fail, too. */
bool failure_is_of_all(enum kvd_status status);
/* Whether the call may succeed later: the server is busy, or a limit is reached. */
bool failure_passes(enum kvd_status status);

/* The pause before the next attempt. Zero it before the first one and after each success. */
struct retry {
	uint64_t since_ns;
	unsigned int tries;
};

/* Sleeps, longer each time. False: nothing has succeeded for too long; give up. */
bool retry_pause(struct retry *retry);
/* After a call with @status: sleeps if it may be retried. True: it was done, or retry it now. */
bool retry_goes_on(struct retry *retry, enum kvd_status status);

/*
 * Sets *@clock_ns to the server's clock, and *@incarnation, unless it is 0, is compared with the
 * server's, else set to it. KVD_OK, or why the server could not be asked. *@same: it has not
 * restarted.
 */
enum kvd_status server_now(struct kvd *db, uint64_t *clock_ns, uint64_t *incarnation, bool *same);

/* The number of the statistic of this name; 0 if the server has none. */
uint64_t server_stat(struct kvd *db, const char *name);

#endif /* KVD_CLIENT_KVCTL_FAILURES_H */
