/* SPDX-License-Identifier: MIT */
/*
 * GETs keys whose values a scan did not deliver because they fit no message: many under way at
 * once, in memory that does not grow with the number of keys; long values one after another.
 */
#ifndef KVD_CLIENT_KVCTL_FETCH_H
#define KVD_CLIENT_KVCTL_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"

#define FETCH_KEYS 64u	       /* under way */
#define FETCH_BYTES (8u << 20) /* of their values; longer ones are alone */

struct fetch_key {
	size_t at; /* in `bytes` */
	uint32_t key_len;
	size_t value_len; /* as the scan said */
};

struct fetch {
	struct kvd *db;
	uint32_t timeout_ms; /* of a short value; longer ones get more */
	struct fetch_key *keys;
	size_t count, room;
	uint8_t *bytes; /* of the keys */
	size_t used, bytes_room;
	uint64_t value_bytes; /* of all queued values */
	uint8_t *values;
	size_t values_size;
};

void fetch_init(struct fetch *fetch, struct kvd *db, uint32_t timeout_ms);
void fetch_release(struct fetch *fetch);

/* Queues a key, which is copied. False: no memory. */
bool fetch_add(struct fetch *fetch, const void *key, size_t key_len, size_t value_len);
/* Whether enough is queued for fetch_run(). */
bool fetch_is_full(const struct fetch *fetch);

/*
 * Called with the result of a GET: KVD_OK, and entry->value is valid until the function returns;
 * KVD_NOT_FOUND; or an error, after retries where they may help. Without memory for any value it is
 * called once, with an empty key and KVD_ERR_NO_MEMORY. Returns 0, or anything else to stop.
 */
typedef int (*fetch_fn)(void *arg, const struct kvd_entry *entry, enum kvd_status status);

/* Gets all queued keys and empties the queue. Returns what @each returned last. */
int fetch_run(struct fetch *fetch, fetch_fn each, void *arg);

#endif /* KVD_CLIENT_KVCTL_FETCH_H */
