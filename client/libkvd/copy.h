/* SPDX-License-Identifier: MIT */
/*
 * What a member of a fleet sends to another one to which it gives shards (FLEET-8): for kvd alone,
 * which links the library's objects. The handle is one server's, from kvd_open(), with `reconnect`
 * 0: after a loss every call fails, and the move begins again.
 */
#ifndef KVD_CLIENT_LIBKVD_COPY_H
#define KVD_CLIENT_LIBKVD_COPY_H

#include "client/kvd.h"
#include "common/wire.h"

/* An item. Key and value are the caller's, and stay until copy_settle(). */
struct copy_item {
	const void *key;
	uint32_t key_len;
	const void *value;
	uint32_t value_len;
	uint32_t flags;
	uint64_t version;
	uint32_t ttl; /* seconds left, rounded up; 0: it never expires */
	uint32_t use; /* wire_use_pack() */
};

/*
 * Submits a PUT with WIRE_COPY; if `depth` of the handle's operations are under way, waits for one.
 * Status: of an earlier one that failed, but EXISTS is none; then nothing was submitted.
 * KVD_ERR_AWAY: the server does not accept the shard.
 */
enum kvd_status copy_put(struct kvd *handle, const struct copy_item *item);
/* Likewise submits a MOVE that clears a segment: what is copied to it follows copy_settle(). */
enum kvd_status copy_clear(struct kvd *handle, uint32_t segment);
/* Waits until all that were submitted are answered. As copy_put(). */
enum kvd_status copy_settle(struct kvd *handle);
/*
 * Another MOVE, with @arg in arg64 and @generation in arg_addr (BEGIN; else 0), after all that was
 * submitted is answered. *@result: of END; may be NULL. KVD_ERR_BUSY, KVD_ERR_AWAY: as enum
 * wire_move says.
 */
enum kvd_status copy_move(struct kvd *handle, enum wire_move mode, uint64_t arg,
			  uint64_t generation, uint64_t *result);

#endif /* KVD_CLIENT_LIBKVD_COPY_H */
