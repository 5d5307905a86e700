/* SPDX-License-Identifier: MIT */
/*
 * The miss-ratio curve: an estimate of how many GETs would hit with less memory, and with more.
 *
 * By SHARDS (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015): a hash
 * chooses keys, and all GETs and changes of these are recorded. The keys stay in the order of their
 * last use, also after they were evicted; a GET would have hit in any memory with room for all keys
 * used since the previous GET. So it is the curve of exact LRU, which kvd comes near to or beats.
 *
 * The sample has at most CURVE_KEYS keys. It begins with all keys, and is halved whenever there are
 * more; only a flush makes it larger again. A small sample seldom has the keys that are used most:
 * the GETs that it lacks, compared with the GETs of all keys, count as hits (SHARDS-adj).
 *
 * GETs alone add no key: a client may invent what it reports.
 *
 * Clients report each of their GETs by READ of such a key, since responses tell them which
 * keys are in the sample (common/PROTOCOL.md, access records).
 *
 * Threads: any. All functions except curve_samples() take the curve's lock. Those for a GET or a
 * change don't wait for it: if it is held, they record nothing. It is held for 20 us at most.
 */
#ifndef KVD_SERVER_STORE_CURVE_H
#define KVD_SERVER_STORE_CURVE_H

#include "server/store/table.h"

/* The curve's points, in percent of the memory. X(percent) */
#define CURVE_POINTS(X) X(25) X(50) X(75) X(100) X(150) X(200) X(300) X(400)

#define CURVE_KEYS_LOG2 12
#define CURVE_KEYS (1u << CURVE_KEYS_LOG2)

struct curve;

/* For @table, which has its memory and outlives the curve. NULL: no memory. */
struct curve *curve_create(const struct table *table);
/* NULL: does nothing. */
void curve_destroy(struct curve *curve);

/* The keys in the sample, as in responses: 0: none; n: those whose hashes' low n - 1 bits are 0. */
uint32_t curve_sample(const struct curve *curve);

/* Whether the key with this hash is in the sample. */
bool curve_samples(const struct curve *curve, uint64_t hash);

/* Whether the table has a curve and the key with this hash is in its sample. Cheap if not. */
static inline bool table_samples(const struct table *table, uint64_t hash)
{
	return __builtin_expect(table->curve != NULL, 0) && curve_samples(table->curve, hash);
}

/* A GET of a key in the sample hit, or missed by @now_ns of the server's clock. */
void curve_hit(struct curve *curve, uint64_t hash);
void curve_miss(struct curve *curve, uint64_t hash, uint64_t now_ns);
/* @gets GETs of keys in the sample were not recorded. */
void curve_lose(struct curve *curve, uint32_t gets);
/* A key in the sample was stored, and takes @bytes. */
void curve_put(struct curve *curve, uint64_t hash, uint64_t bytes, uint32_t expires);
/* A key in the sample was removed, but not evicted. */
void curve_remove(struct curve *curve, uint64_t hash);
/* All keys were removed. Begins anew, with all keys in the sample. */
void curve_clear(struct curve *curve);

struct curve_stats {
	uint64_t keys;			    /* in the sample, evicted ones included */
	uint64_t one_in;		    /* one of this many keys is in the sample */
	uint64_t gets;			    /* of keys in the sample; older ones count less */
#define X(percent) uint64_t hits_##percent; /* with that percentage of the memory */
	CURVE_POINTS(X)
#undef X
};

void curve_stats(struct curve *curve, struct curve_stats *stats);

#endif /* KVD_SERVER_STORE_CURVE_H */
