/* SPDX-License-Identifier: MIT */
/*
 * Scans: reading all keys, bucket by bucket, in an order that splits do not disturb.
 */
#ifndef KVD_SERVER_STORE_SCAN_H
#define KVD_SERVER_STORE_SCAN_H

#include "server/store/lookup.h"

/*
 * Writes entries (struct wire_entry) of keys at and behind *@cursor to @buffer, at most @most (0: no
 * limit), with values or without, and sets *@cursor to where to go on, 0: done. Keys in the order of their
 * hashes' bits reversed: a bucket of any level has a range of that order for itself, so a scan that
 * goes through the order once has met every key that was there all the time, however often buckets
 * were split meanwhile. Bounded: SCAN_BUCKETS_MAX. WIRE_OK or WIRE_BUSY.
 */
#define SCAN_BUCKETS_MAX 256u

struct scan {
	const uint8_t *prefix;
	uint32_t prefix_len;
	uint32_t most;
	bool values;
	uint64_t cursor;
	uint8_t *buffer;
	uint32_t size;
	/* out */
	uint32_t used;
	uint32_t entries;
};

enum wire_status table_scan(struct store_thread *thread, struct scan *scan);

#endif /* KVD_SERVER_STORE_SCAN_H */
