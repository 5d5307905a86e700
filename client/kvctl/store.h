/* SPDX-License-Identifier: MIT */
/*
 * Stores the records of verified blocks of a dump: all records of a block at once, and with two
 * blocks, so that one is read while the other is stored.
 */
#ifndef KVD_CLIENT_KVCTL_STORE_H
#define KVD_CLIENT_KVCTL_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "client/kvctl/dump_reader.h"
#include "client/kvctl/failures.h"

/* Results, in numbers of records. */
struct store_counts {
	uint64_t stored, existed, expired, failed;
};

/* How records are stored. */
struct store {
	struct kvd *db;
	uint32_t timeout_ms; /* of a short value; longer ones get more */
	bool skip_existing;  /* a key that exists stays as it is */
	/* Nanoseconds since the dump began: subtracted from times to live. 0: they start again. */
	uint64_t age_ns;
	uint64_t dump_ns; /* the server's clock when the dump began */
	struct failures failures;
	enum kvd_status broken; /* not KVD_OK: the connection failed; nothing can be stored now */
};

/* A block and its operations. Zero it first. */
struct store_block {
	struct dump_body body;
	struct kvd_op *ops;
	size_t room, count;
	size_t under_way;
	size_t again; /* operations to retry */
	struct store_counts counts;
};

void store_block_release(struct store_block *block);

/* Starts to store the records of the body. False: no memory, and nothing was started. */
bool store_block_begin(struct store *store, struct store_block *block);
/* Waits until all records are stored or have failed. Call it for blocks in their order. */
void store_block_end(struct store *store, struct store_block *block);

/* The time to live for a record, in seconds; 0: it never expires. False: it has expired. */
bool store_ttl(const struct store *store, const struct dump_block *block, uint32_t expires_s,
	       uint32_t *ttl_s);

#endif /* KVD_CLIENT_KVCTL_STORE_H */
