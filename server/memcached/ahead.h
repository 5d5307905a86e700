/* SPDX-License-Identifier: MIT */
/*
 * Looks ahead in a session's input for the keys of gets: their buckets and items are prefetched
 * together, so that a line of many keys, or many gets in one packet, wait for memory once and not
 * for each key (as OPERATION-2 in server/worker/operation.h).
 */
#ifndef KVD_SERVER_MEMCACHED_AHEAD_H
#define KVD_SERVER_MEMCACHED_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table;

/* Keys looked at together: their lines of buckets and items fit the first-level cache. */
#define AHEAD_MAX 32u

struct ahead {
	struct {
		const uint8_t *key;
		uint32_t len;
		uint64_t hash;
	} keys[AHEAD_MAX];
	unsigned int count, next;
};

/* The input has moved, or is another one. */
static inline void ahead_reset(struct ahead *ahead)
{
	ahead->count = ahead->next = 0;
}

/*
 * A get has been decoded, whose key is not known: looks at the @len bytes at @text, which follow
 * it: @more, keys of the same line, or other lines that begin with "get ".
 */
void ahead_look(struct ahead *ahead, const struct table *table, const uint8_t *text, size_t len,
		bool more);

/* True: the key of @len bytes at @key is the next one that was looked at, and *@hash its hash. */
static inline bool ahead_take(struct ahead *ahead, const uint8_t *key, uint32_t len, uint64_t *hash)
{
	if (ahead->next == ahead->count || ahead->keys[ahead->next].key != key ||
	    ahead->keys[ahead->next].len != len)
		return false;
	*hash = ahead->keys[ahead->next++].hash;
	return true;
}

#endif /* KVD_SERVER_MEMCACHED_AHEAD_H */
