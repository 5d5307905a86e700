/* SPDX-License-Identifier: MIT */
/*
 * The map of a fleet: which of its servers, the members, owns each shard of the keys. Members send
 * it to clients as it is here; common/PROTOCOL.md says the same in prose.
 *
 *	+------+-------------------------------+-------------------+
 *	| head | members, one after another -> | a row per shard   |
 *	+------+-------------------------------+-------------------+
 *
 * All integers are little-endian, and all parts are aligned to 8 bytes.
 */
#ifndef KVD_COMMON_FLEET_MAP_H
#define KVD_COMMON_FLEET_MAP_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

#define FLEET_MAP_MAGIC 0x3170616d7465656cull /* "leetmap1" */

/*
 * Shards: fixed, so that a key's never changes. 16,384 leave each of 1,000 members 16, enough to
 * balance their load to some percent, and a map of 128 KiB; Valkey Cluster has that number, too.
 */
#define FLEET_SHARD_BITS 14u
#define FLEET_SHARDS (1u << FLEET_SHARD_BITS)
/* The bits of the hash that are the shard: above those of the index, below the tag. */
#define FLEET_SHARD_SHIFT 34u
#define FLEET_MEMBERS_MAX 4096u
#define FLEET_LEASE_NS_MAX 60000000000ull
#define FLEET_NAME_MAX WIRE_TENANT_MAX /* of a fleet and of a member; wire_tenant_length() */
#define FLEET_URLS_MAX 512u	       /* bytes of a member's URLs */

static_assert(REGION_BYTES_MAX / BUCKET_BYTES <= 1ull << FLEET_SHARD_SHIFT, "no bits are shared");
static_assert(FLEET_SHARD_SHIFT + FLEET_SHARD_BITS <= 48, "no bits are shared with the tag");

static inline uint32_t fleet_shard(uint64_t hash)
{
	return (uint32_t)(hash >> FLEET_SHARD_SHIFT) & (FLEET_SHARDS - 1);
}

/*
 * A row: the number of the owner; whether the shard is open to READs; whether it was given, that is
 * no earlier owner serves it any more; and `since`, the epoch in which the row was changed last.
 *
 *	63      48  47    46    45            0
 *	+---------+------+-------+-------------+
 *	|  owner  | open | given |    since    |
 *	+---------+------+-------+-------------+
 */
#define FLEET_OWNER_SHIFT 48u
#define FLEET_OPEN (1ull << 47)
#define FLEET_GIVEN (1ull << 46)
#define FLEET_EPOCH_MAX (FLEET_GIVEN - 1)
/* The owner of a shard that has none yet: its row is closed. */
#define FLEET_NO_OWNER UINT16_MAX
static_assert(FLEET_MEMBERS_MAX < FLEET_NO_OWNER, "no member is none");

static inline uint64_t fleet_row(uint32_t owner, bool open, uint64_t since)
{
	return (uint64_t)owner << FLEET_OWNER_SHIFT | (open ? FLEET_OPEN : 0) | since;
}

static inline uint32_t fleet_row_owner(uint64_t row)
{
	return (uint32_t)(row >> FLEET_OWNER_SHIFT);
}

static inline uint64_t fleet_row_since(uint64_t row)
{
	return row & FLEET_EPOCH_MAX;
}

struct fleet_head {
	uint64_t magic;
	uint64_t generation; /* of the map's history; never 0. Epochs of two are not comparable */
	uint64_t epoch;	     /* grows with each change of a row; never 0 */
	uint64_t hash_seed;  /* of each member's keys */
	char name[FLEET_NAME_MAX]; /* as wire_tenant_length() has it */
	uint32_t members;	   /* FLEET_MEMBERS_MAX at most; 0: none has registered yet */
	uint32_t member_bytes;	   /* of all members */
	uint64_t lease_ns;	   /* W, the same for all members, ever; 0 in a map of a file */
	uint64_t sum;		   /* XXH3-64 of all of the map, this field being 0 */
};
static_assert(sizeof(struct fleet_head) == 80, "ABI");
static_assert(offsetof(struct fleet_head, name) == 32, "ABI");
static_assert(offsetof(struct fleet_head, members) == 56, "ABI");
static_assert(offsetof(struct fleet_head, lease_ns) == 64, "ABI");
static_assert(offsetof(struct fleet_head, sum) == 72, "ABI");

/* The controller saw that it is absent; ends when it registers. It gets no shard. */
#define FLEET_MEMBER_AWAY 1u
/* The member gets no shard, and gives those that it has to others; ends with its process. */
#define FLEET_MEMBER_DRAINED 2u
/* While any member has it, each gives the shards that it has beyond its share to others. */
#define FLEET_MEMBER_BALANCES 4u
#define FLEET_MEMBER_FLAGS 7u

struct fleet_member {
	char id[FLEET_NAME_MAX]; /* as wire_tenant_length() has it */
	uint64_t lost_s;	 /* when its shards were given to others, since 1970; 0: never */
	uint32_t session;	 /* how often it has registered; 0 in a map of a file */
	uint32_t flags;		 /* FLEET_MEMBER_...; 0 in a map of a file */
	uint32_t weight;	 /* its share of the shards, relative to others'; 0: none */
	uint32_t urls_len;	 /* 1 to FLEET_URLS_MAX */
	char urls[];		 /* with commas between them; zeros to a multiple of 8 bytes */
};
static_assert(sizeof(struct fleet_member) == 48, "ABI");
static_assert(offsetof(struct fleet_member, lost_s) == 24, "ABI");
static_assert(offsetof(struct fleet_member, weight) == 40, "ABI");
static_assert(offsetof(struct fleet_member, urls) == 48, "ABI");

#define FLEET_MAP_BYTES_MAX                                                                        \
	(sizeof(struct fleet_head) +                                                               \
	 FLEET_MEMBERS_MAX * (sizeof(struct fleet_member) + FLEET_URLS_MAX) +                      \
	 FLEET_SHARDS * sizeof(uint64_t))

/* A checked map, one block of memory, which does not change. */
struct fleet_map {
	struct fleet_head *head; /* the `bytes` bytes of the map */
	const uint64_t *rows;
	size_t bytes;
	const struct fleet_member *members[];
};

/*
 * Makes a map of the @bytes bytes at @from, which are copied and need no alignment. Returns NULL,
 * and *@map is the caller's, to be freed by fleet_map_free(); or a static string that says what is
 * wrong. "out of memory" is one of them.
 */
const char *fleet_map_make(struct fleet_map **map, const void *from, size_t bytes);
/* May be NULL. */
void fleet_map_free(struct fleet_map *map);

/* The bytes that @member takes in a map. */
static inline size_t fleet_member_bytes(const struct fleet_member *member)
{
	return sizeof(*member) + ((size_t)member->urls_len + 7) / 8 * 8;
}

/* The sum of a map of @bytes bytes. */
uint64_t fleet_map_sum(const struct fleet_head *head, size_t bytes);

/* The number of the member with this @id, FLEET_NAME_MAX bytes; head->members: there is none. */
uint32_t fleet_map_find(const struct fleet_map *map, const char id[FLEET_NAME_MAX]);

#endif /* KVD_COMMON_FLEET_MAP_H */
