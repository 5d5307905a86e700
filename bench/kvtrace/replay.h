/* SPDX-License-Identifier: MIT */
/*
 * Plays a trace against a server as an application with a cache beside its database does: GET;
 * after a miss, PUT of what the database holds, a value of the trace's size.
 *
 * With a batch size above 1 that many GETs are sent together and then the PUTs, as by many clients
 * of one cache. A batch never has a key twice, so an access finds what earlier accesses of its key
 * stored. A cache holds many more items than a batch, so batches do not change its decisions.
 *
 * A key has REPLAY_KEY_BYTES bytes. The bytes of its value follow from the key, so every hit is
 * checked.
 */
#ifndef KVD_BENCH_KVTRACE_REPLAY_H
#define KVD_BENCH_KVTRACE_REPLAY_H

#include "bench/db.h"
#include "bench/kvtrace/trace.h"

#define REPLAY_KEY_BYTES 16u
#define REPLAY_BATCH_MAX 32u

struct replay_options {
	struct db_target target;
	uint32_t timeout_ms;  /* of a connection or call; 0: as kvd_options_init() sets it */
	uint64_t cache_bytes; /* of libkvd's bucket cache; only for kvd */
	unsigned int batch;   /* 1 to REPLAY_BATCH_MAX */
	uint64_t warmup;      /* accesses that are not counted */
	uint64_t rate;	      /* accesses a second at most; 0: no limit */
};

struct replay_result {
	uint64_t accesses; /* after the warm-up */
	uint64_t hits;
	uint64_t not_stored; /* PUTs refused: no space, or too large */
	uint64_t resized;    /* hits of another size than the trace now has */
	uint64_t wrong;	     /* hits with bytes that were never PUT for their key */
	uint64_t elapsed_ns; /* all accesses */
};

/* Returns 0, or a negative errno after it has printed the reason. */
int replay_run(struct trace *trace, const struct replay_options *options,
	       struct replay_result *result);

#endif /* KVD_BENCH_KVTRACE_REPLAY_H */
