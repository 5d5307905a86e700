/* SPDX-License-Identifier: MIT */
/*
 * What is recorded of a handle's operations while kvd_observe() or kvd_trace() is on: counts and
 * times by operation and path, and calls of the program's function. Internal to libkvd.
 *
 * Threads: a handle's observer is written by the handle's thread alone, each word by one relaxed
 * store (common/util/stat.h), and read by any: what a reader sees of each is true at some instant.
 * A cell is published, zeroed, by a release store and stays until the observer is freed, which
 * takes the lock of the process that readers of all observers hold.
 */
#ifndef KVD_CLIENT_LIBKVD_OBSERVE_H
#define KVD_CLIENT_LIBKVD_OBSERVE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "client/libkvd/handle.h"
#include "common/util/hist.h"

#define OBSERVE_OPS (KVD_OP_EXISTS + 1)
#define OBSERVE_PATHS (KVD_PATH_DIRECT + 1)
/* More than there are; a status beyond it is not counted. */
#define OBSERVE_STATUSES 32

/* Operations of one kind that took one path. */
struct cell {
	struct hist queue;   /* start to first post; of those that posted nothing, to the end */
	struct hist service; /* first post to end, of those that posted something */
	uint64_t statuses[OBSERVE_STATUSES];
};

/* The fields of struct kvd_stats are counters, and nothing else is in it. */
#define STATS_WORDS (sizeof(struct kvd_stats) / sizeof(uint64_t))

struct observer {
	TAILQ_ENTRY(observer) entry;
	bool listed; /* in the process's list: kvd_observe() has been on */
	bool times;  /* it is on */
	kvd_trace_fn trace;
	void *trace_user;
	uint64_t stats[STATS_WORDS]; /* the handle's, when its last operation ended */
	/* NULL: none was recorded yet. */
	struct cell *_Atomic cells[OBSERVE_OPS][OBSERVE_PATHS];
};

/* An operation that is observed. */
struct observed {
	enum kvd_opcode op;
	const struct kvd_get_request *about; /* or the operation, which begins like one; or NULL */
	const struct kvd_op *submitted;	     /* NULL: a synchronous call's */
	uint64_t start_ns;		     /* clock_ns() */
};

/* These are called while handle->observing is not NULL only. */

/* Its flight: no READ or request of it has been posted. */
static inline void observe_flight(struct flight *f)
{
	f->posted_ns = 0;
	f->messages = 0;
}

void observe_start(struct kvd *handle, const struct observed *what);
/* @f may be NULL: it had none. */
void observe_end(struct kvd *handle, const struct observed *what, const struct flight *f,
		 enum kvd_status status, uint64_t end_ns);
/* After that: the handle's stats count those that have ended. */
void observe_counted(struct kvd *handle);
/* As observe_end(), of a call that is one request, posted when it starts. */
void observe_call(struct kvd *handle, const struct observed *what, enum kvd_status status,
		  uint64_t end_ns);
/* The READs of the chain are being posted; the flight's request is. */
void observe_chain(struct kvd *handle);
void observe_request(struct flight *f);

/* The handle is being closed. @inherited: by fork(2). What was recorded counts on. */
void observe_close(struct kvd *handle, bool inherited);

/*
 * Adds what was recorded of operations @op on @path to @into: by @handle, or by all handles of the
 * process if it is NULL. False if that is nothing.
 */
bool observe_cell(const struct kvd *handle, enum kvd_opcode op, enum kvd_path path,
		  struct cell *into);

/* Makes @cell empty. */
void cell_init(struct cell *cell);
/* Operations in it, and those that ended with another status than KVD_OK and KVD_NOT_FOUND. */
uint64_t cell_count(const struct cell *cell);
uint64_t cell_errors(const struct cell *cell);

#endif /* KVD_CLIENT_LIBKVD_OBSERVE_H */
