/* SPDX-License-Identifier: MIT */
#include "common/util/setups.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

/* Time that a peer has for its first byte, before it counts as silent. */
#define SILENT_NS 1000000000u

void setups_init(struct setups *setups)
{
	TAILQ_INIT(&setups->list);
	setups->count = 0;
}

void setups_add(struct setups *setups, struct setup *setup, uint64_t now_ns, uint64_t timeout_ns)
{
	setup->since_ns = now_ns;
	setup->deadline_ns = now_ns + timeout_ns;
	TAILQ_INSERT_TAIL(&setups->list, setup, entry);
	setups->count++;
}

void setups_remove(struct setups *setups, struct setup *setup)
{
	TAILQ_REMOVE(&setups->list, setup, entry);
	setups->count--;
}

uint64_t setups_deadline(const struct setups *setups)
{
	return setups->count ? TAILQ_FIRST(&setups->list)->deadline_ns : 0;
}

struct setup *setups_expired(const struct setups *setups, uint64_t now_ns)
{
	struct setup *setup = TAILQ_FIRST(&setups->list);

	return setup && setup->deadline_ns <= now_ns ? setup : NULL;
}

static bool is_same_host(const struct setup *a, const struct setup *b)
{
	return !memcmp(&a->host, &b->host, sizeof(a->host));
}

/*
 * A set-up of the host that has more than half of all, or NULL: Boyer and Moore's majority vote
 * (1981).
 */
static const struct setup *majority(const struct setups *setups)
{
	const struct setup *setup, *candidate = NULL;
	unsigned int votes = 0;

	TAILQ_FOREACH(setup, &setups->list, entry)
		if (!votes) {
			candidate = setup;
			votes = 1;
		} else if (is_same_host(setup, candidate)) {
			votes++;
		} else {
			votes--;
		}
	votes = 0;
	TAILQ_FOREACH(setup, &setups->list, entry)
		votes += candidate && is_same_host(setup, candidate);
	return votes > setups->count / 2 ? candidate : NULL;
}

/* Whether nothing has arrived from the peer, handled or not, though it had time for that. */
static bool is_silent(struct setup *setup, uint64_t now_ns)
{
	uint8_t byte;

	if (setup->heard || now_ns - setup->since_ns < SILENT_NS)
		return false;
	setup->heard = recv(setup->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
	return !setup->heard;
}

struct setup *setups_to_drop(const struct setups *setups, uint64_t now_ns)
{
	const struct setup *many = majority(setups);
	struct setup *setup, *oldest = NULL;

	TAILQ_FOREACH(setup, &setups->list, entry) {
		if (many && !is_same_host(setup, many))
			continue;
		if (is_silent(setup, now_ns))
			return setup;
		if (!oldest)
			oldest = setup;
	}
	return oldest;
}
