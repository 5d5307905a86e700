/* SPDX-License-Identifier: MIT */
/*
 * What is recorded of a handle's operations while kvd_observe() or kvd_trace() is on: counts and
 * times by operation and path, and calls of the program's function. Internal to libkvd.
 *
 * Threads: only the handle's thread writes its observer, each word by one relaxed store
 * (common/util/stat.h), and any thread reads it: each word it sees was true at some instant. A cell
 * is published, zeroed, by a release store, and stays until the observer is freed, under the lock
 * of the process that readers of all observers hold.
 */
#ifndef KVD_CLIENT_LIBKVD_OBSERVE_H
#define KVD_CLIENT_LIBKVD_OBSERVE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "client/libkvd/handle.h"
#include "common/util/hist.h"

#define OBSERVE_OPS (KVD_OP_GET_RANGE + 1)
#define OBSERVE_PATHS (KVD_PATH_DIRECT + 1)
/* More than there are; a status beyond it is not counted. */
#define OBSERVE_STATUSES 32

/* Figures of one operation on one path. */
struct cell {
	struct hist queue;   /* start to first post, or to the end if nothing was posted */
	struct hist service; /* first post to end, of those that posted something */
	uint64_t statuses[OBSERVE_STATUSES];
};

/* struct kvd_stats has nothing but counters. */
#define STATS_WORDS (sizeof(struct kvd_stats) / sizeof(uint64_t))

struct observer {
	TAILQ_ENTRY(observer) entry;
	bool listed; /* in the process's list: kvd_observe() has been on */
	bool times;  /* kvd_observe() is on */
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

/* What follows is called only while handle->observing is not NULL. */

/* Prepares the operation's flight, before any post. */
static inline void observe_flight(struct flight *f)
{
	f->posted_ns = 0;
	f->messages = 0;
}

void observe_start(struct kvd *handle, const struct observed *what);
/* @f may be NULL: it had none. */
void observe_end(struct kvd *handle, const struct observed *what, const struct flight *f,
		 enum kvd_status status, uint64_t end_ns);
/* After observe_end(), once the handle's stats count the operation. */
void observe_counted(struct kvd *handle);
/* observe_end() and observe_counted() for a call that is one request, posted at its start. */
void observe_call(struct kvd *handle, const struct observed *what, enum kvd_status status,
		  uint64_t end_ns);
/* The READs of the chain, or the flight's request, are being posted. */
void observe_chain(struct kvd *handle);
void observe_request(struct flight *f);

/* The handle is being closed. @inherited: by fork(2). The process's sums keep what was recorded. */
void observe_close(struct kvd *handle, bool inherited);

/*
 * Adds the figures of operation @op on @path to @into: those of @handle, or, if it is NULL, of all
 * handles of the process. False: there are none.
 */
bool observe_cell(const struct kvd *handle, enum kvd_opcode op, enum kvd_path path,
		  struct cell *into);

/* Makes @cell empty. */
void cell_init(struct cell *cell);
/* All operations, and those with a status other than KVD_OK and KVD_NOT_FOUND. */
uint64_t cell_count(const struct cell *cell);
uint64_t cell_errors(const struct cell *cell);

#endif /* KVD_CLIENT_LIBKVD_OBSERVE_H */
