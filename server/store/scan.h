/* SPDX-License-Identifier: MIT */
/*
 * Scans: read all keys, bucket by bucket, in an order that splits of buckets do not disturb.
 */
#ifndef KVD_SERVER_STORE_SCAN_H
#define KVD_SERVER_STORE_SCAN_H

#include "server/store/lookup.h"

/* Home buckets that one call of table_scan() goes through at most. */
#define SCAN_BUCKETS_MAX 256u

/* One part of a scan. Prefix and buffer are the caller's. */
struct scan {
	const uint8_t *prefix; /* only keys that begin with it; NULL if prefix_len is 0 */
	uint32_t prefix_len;
	uint32_t keys_max;     /* entries wanted at most; 0: as many as fit */
	bool values;	       /* with values */
	bool uses;	       /* with the items' use; only if items are evicted */
	bool copies;	       /* with their use as access_time_tell_copy() tells it, always */
	const uint64_t *parts; /* only keys in these, KEY_PARTS_WORDS; NULL: all */
	uint64_t cursor;   /* in: where to begin, 0: at the start; out: where to go on, 0: done */
	uint64_t end;	   /* of its range of cursors, where it is done; 0: of the table */
	uint8_t *buffer;   /* out: the entries, each a struct wire_entry, key and value */
	uint32_t size;	   /* bytes of the buffer */
	uint64_t until_ns; /* clock_ns() when to end */
	uint32_t used;	   /* out: bytes written */
	uint32_t entries;  /* out */
};

/*
 * Writes the entries of the keys from the cursor on to the buffer, until it is full, the time is up
 * or SCAN_BUCKETS_MAX buckets were read; at least one bucket is tried. WIRE_OK, or WIRE_BUSY if the
 * cursor's chain kept changing all that time, LOOKUP_NS_MAX at most. Takes no lock. Does not count
 * as a use of the items.
 *
 * Keys come in the order of hash_order(). In that order the keys of a bucket of any level are one
 * range, so a scan from 0 to the end meets every key that is in the table all the time, however
 * often buckets are split meanwhile.
 */
enum wire_status table_scan(struct store_thread *thread, struct scan *scan);

/*
 * Decodes the entry at *@at of a scan for copies, and moves *@at to its end. Clients' function,
 * wire_entry_parse(), refuses what it says of pins. Returns its key, which its value follows, if
 * that was sent; NULL: there are no more.
 */
const uint8_t *scan_copy_next(const struct scan *scan, uint32_t *at, struct wire_entry *entry);

#endif /* KVD_SERVER_STORE_SCAN_H */
