/* SPDX-License-Identifier: MIT */
/*
 * The format of a dump, a file that holds keys, values, flags and expiry times: encoding and
 * checks, no input or output. DUMP.md describes it in prose.
 *
 *	header | prefix | pattern | block ... | end block
 *	block:	struct dump_block, then its body: records, or struct dump_end
 *	record:	struct dump_record, key, value
 *
 * Integers are little-endian, and nothing is padded. All sums are XXH3-64 without a seed. A block's
 * header has the sum of the header before it, so each vouches for all before it, and the end for
 * the whole file. The sums detect damage; they do not protect against forgery.
 */
#ifndef KVD_CLIENT_KVCTL_DUMP_FILE_H
#define KVD_CLIENT_KVCTL_DUMP_FILE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvd.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "dumps are little-endian; a big-endian port has to swap their integers"
#endif

#define DUMP_MAGIC "kvd dump"
#define DUMP_VERSION 1u

struct dump_header {
	uint8_t magic[8]; /* DUMP_MAGIC */
	uint32_t version;
	uint32_t header_bytes; /* with prefix and pattern */
	uint64_t incarnation;  /* of the server, kvd_info.incarnation */
	uint64_t clock_ns;     /* the server's clock when the dump began, since 1970 */
	uint64_t wall_ns;      /* the time of day of the host of kvctl at the same moment */
	uint16_t prefix_len;   /* only keys that begin with the prefix */
	uint16_t match_len; /* ... and match the pattern (client/kvctl/glob.h); 0: there is none */
	uint32_t reserved;  /* 0 */
	uint64_t sum;	    /* of all before it, and of prefix and pattern */
};
static_assert(sizeof(struct dump_header) == 56, "file format");
static_assert(offsetof(struct dump_header, sum) == 48, "file format");

#define DUMP_FILTER_MAX KVD_KEY_MAX /* bytes of the prefix, and of the pattern */
#define DUMP_HEADER_MAX (sizeof(struct dump_header) + 2 * DUMP_FILTER_MAX)

#define DUMP_BLOCK_MAGIC 0x6264766bu /* "kvdb" */

enum dump_kind {
	DUMP_RECORDS = 1,
	DUMP_END = 2,
};

struct dump_block {
	uint32_t magic;
	uint16_t kind;
	uint16_t reserved; /* 0 */
	uint32_t bytes;	   /* of the body */
	uint32_t records;  /* in the body; in the end block: 0 */
	uint64_t offset;   /* of this header in the file */
	uint64_t before;   /* sum of the previous block; in the first block: of the file's header */
	/*
	 * For kvd_scan(): a scan from here delivers all keys that are neither in this block nor in
	 * earlier ones, if they were in the store since the dump began.
	 */
	uint64_t cursor;
	uint64_t clock_ns; /* the server's clock, no later than the records were read */
	uint64_t body_sum;
	uint64_t sum; /* of all before it */
};
static_assert(sizeof(struct dump_block) == 64, "file format");
static_assert(offsetof(struct dump_block, sum) == 56, "file format");

struct dump_record {
	uint64_t sum; /* of the rest of the record, with key and value */
	uint32_t value_len;
	uint32_t flags;
	uint32_t expires_s; /* second of the server's clock, 0: never */
	uint16_t key_len;
	uint16_t reserved; /* 0 */
};
static_assert(sizeof(struct dump_record) == 24, "file format");

/* The body of the end block: what the whole file must contain, and what is missing. */
struct dump_end {
	uint64_t blocks; /* without the end */
	uint64_t records;
	uint64_t key_bytes;
	uint64_t value_bytes;
	uint64_t missing; /* keys that could not be read: the dump is not complete */
};
static_assert(sizeof(struct dump_end) == 40, "file format");

/* The most bytes of a block with several records. A longer record has a block of its own. */
#define DUMP_BODY_MAX (1u << 20)
#define DUMP_RECORD_MAX (sizeof(struct dump_record) + KVD_KEY_MAX + KVD_VALUE_MAX)
#define DUMP_RECORD_MIN (sizeof(struct dump_record) + 1)
static_assert(DUMP_RECORD_MAX <= UINT32_MAX, "a record fits a block");

/* A decoded record; the pointers point into the body. */
struct dump_entry {
	const uint8_t *key;
	const uint8_t *value;
	uint32_t key_len;
	uint32_t value_len;
	uint32_t flags;
	uint32_t expires_s;
};

/* Fills in the lengths and the sum. @filter: the prefix, followed by the pattern. */
void dump_header_seal(struct dump_header *header, const uint8_t *filter);
void dump_block_seal(struct dump_block *block);
/* Writes header and key of the record with this value to @to; returns the number of bytes. */
size_t dump_record_put(uint8_t *to, const struct dump_entry *entry);
/* The sum of a body whose first @head_len bytes are at @head and the rest at @value. */
uint64_t dump_body_sum(const void *head, size_t head_len, const void *value, size_t value_len);

/*
 * The checks return NULL, or what is wrong. The first one needs only the fixed part of the header,
 * so that a reader learns how much follows.
 */
const char *dump_header_check_lengths(const struct dump_header *header);
const char *dump_header_check_sum(const struct dump_header *header, const uint8_t *filter);
/* Checks the header of the block at @offset; @before is the sum of the previous one. */
const char *dump_block_check(const struct dump_block *block, uint64_t offset, uint64_t before);
/*
 * Checks the body of a block that passed dump_block_check(), with every record. On failure *@at is
 * where in the body the damage is or begins; on success its records are added to @counts.
 */
const char *dump_body_check(const struct dump_block *block, const uint8_t *body,
			    struct dump_end *counts, size_t *at);
/* Checks the end block; @counts are those of the blocks before it. */
const char *dump_end_check(const uint8_t *body, const struct dump_end *counts);

/* Decodes the record at *@at of a body that passed dump_body_check(), and moves *@at to its end. */
void dump_record_get(struct dump_entry *entry, const uint8_t *body, size_t *at);

#endif /* KVD_CLIENT_KVCTL_DUMP_FILE_H */
