/* SPDX-License-Identifier: MIT */
/*
 * Connections that a server has accepted and that are being set up: a bounded number, each for a
 * bounded time. Peers that connect and stay silent, or send a byte, take no more than this, and
 * others get through.
 *
 * Threads: the caller's lock, or one thread.
 */
#ifndef KVD_COMMON_UTIL_SETUPS_H
#define KVD_COMMON_UTIL_SETUPS_H

#include <sys/queue.h>

#include "common/util/network.h"

/* The most set-ups under way. */
#define SETUPS_MAX 256

struct setup {
	/* The caller sets these: the socket, the peer's ip_address_to_host(), and what follows. */
	int fd;
	struct ip_address host;
	bool heard; /* something has arrived */
	/* Set by setups_add(). */
	uint64_t since_ns, deadline_ns;
	TAILQ_ENTRY(setup) entry;
};

struct setups {
	TAILQ_HEAD(setup_list, setup) list; /* oldest first */
	unsigned int count;
};

void setups_init(struct setups *setups);
/* Adds one that began at @now_ns (clock_ns()). The time-out is the same for all. */
void setups_add(struct setups *setups, struct setup *setup, uint64_t now_ns, uint64_t timeout_ns);
void setups_remove(struct setups *setups, struct setup *setup);
/* The first deadline; 0: there is no set-up. */
uint64_t setups_deadline(const struct setups *setups);
/* The oldest, if its deadline has passed; else NULL. */
struct setup *setups_expired(const struct setups *setups, uint64_t now_ns);
/*
 * Chooses, among SETUPS_MAX set-ups, which one another replaces: among those of the host that has
 * more than half, if there is one, the oldest that was silent for a second, or else the oldest.
 */
struct setup *setups_to_drop(const struct setups *setups, uint64_t now_ns);

#endif /* KVD_COMMON_UTIL_SETUPS_H */
