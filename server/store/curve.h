/* SPDX-License-Identifier: MIT */
/*
 * The miss-ratio curve: an estimate of how many GETs would hit with less memory, and with more.
 *
 * By SHARDS (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015): a hash
 * chooses keys, and of these all GETs and changes are taken. They are kept in the order of their
 * last use, also after they were evicted; a GET would have hit in any memory with room for all that
 * was used since the one before. So it is the curve of exact LRU, which kvd comes near to or beats.
 *
 * The sample is of at most CURVE_KEYS keys. It begins with all keys, and is halved whenever there
 * are more; nothing makes it larger again but a flush. The keys that are used most are seldom among
 * few: the GETs that the sample lacks, as their number says, count as hits (SHARDS-adj).
 *
 * GETs alone add no key: what clients report may be invented.
 *
 * Clients report each of their GETs by READ of such a key, since responses say which they are
 * (common/PROTOCOL.md, access records).
 *
 * Threads: any. All take the curve's lock, but for curve_samples(); those for a GET or a change
 * don't wait for it: where it is held, they take nothing. It is held for 20 us at most.
 */
#ifndef KVD_SERVER_STORE_CURVE_H
#define KVD_SERVER_STORE_CURVE_H

#include "server/store/table.h"

/* The curve's points, in percent of the memory. X(percent) */
#define CURVE_POINTS(X) X(25) X(50) X(75) X(100) X(150) X(200) X(300) X(400)

#define CURVE_KEYS_LOG2 12
#define CURVE_KEYS (1u << CURVE_KEYS_LOG2)

struct curve;

/* Of the table, which outlives it; its memory is known. NULL: no memory. */
struct curve *curve_create(const struct table *table);
/* NULL: does nothing. */
void curve_destroy(struct curve *curve);

/*
 * Which keys are in the sample, as responses say it: 0: none, n: those of whose hashes the low n -
 * 1 bits are 0.
 */
uint32_t curve_sample(const struct curve *curve);

/* Whether the key with this hash is in the sample. */
bool curve_samples(const struct curve *curve, uint64_t hash);

/* The same, of a table that may have no curve, where it costs next to nothing. */
static inline bool table_samples(const struct table *table, uint64_t hash)
{
	return __builtin_expect(table->curve != NULL, 0) && curve_samples(table->curve, hash);
}

/* A GET of a key of the sample found it; or did not, by @now_ns of the server's clock. */
void curve_hit(struct curve *curve, uint64_t hash);
void curve_miss(struct curve *curve, uint64_t hash, uint64_t now_ns);
/* Of so many GETs of keys of the sample nothing is known. */
void curve_lose(struct curve *curve, uint32_t gets);
/* It was stored, and takes so many bytes. */
void curve_put(struct curve *curve, uint64_t hash, uint64_t bytes, uint32_t expires);
/* It was removed, and not in order to make room. */
void curve_remove(struct curve *curve, uint64_t hash);
/* All were. Begins anew, with all keys. */
void curve_clear(struct curve *curve);

struct curve_stats {
	uint64_t keys;			    /* in the sample, evicted ones, too */
	uint64_t one_in;		    /* of so many keys one is */
	uint64_t gets;			    /* of the sample; the older, the less they count */
#define X(percent) uint64_t hits_##percent; /* of these, with so much memory */
	CURVE_POINTS(X)
#undef X
};

void curve_stats(struct curve *curve, struct curve_stats *stats);

#endif /* KVD_SERVER_STORE_CURVE_H */
