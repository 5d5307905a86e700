/* SPDX-License-Identifier: MIT */
/*
 * Pieces: several threads that take one piece of the region after another, to allocate it or to
 * recover what is in it, and a line in the log every few seconds.
 */
#ifndef KVD_SERVER_STORE_PIECES_H
#define KVD_SERVER_STORE_PIECES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PIECES_THREADS_MAX 16u

struct pieces {
	uint64_t bytes, piece_bytes; /* of all pieces, and of each but the last */
	uint32_t threads;	     /* 0: one for each CPU, PIECES_THREADS_MAX at most */
	/* Set by any thread: pieces_run() returns -ECANCELED soon. NULL: never. */
	const _Atomic bool *cancel;
	const char *done; /* "allocated": what has been done to a piece, for the log */
	/*
	 * Works on the @bytes from @at on, in thread number @thread, of pieces_threads(). An error,
	 * a negative errno, ends the others after their pieces.
	 */
	int (*run)(void *context, uint32_t thread, uint64_t at, uint64_t bytes);
	void *context;
};

/* The number of threads, 1 at least. */
uint32_t pieces_threads(const struct pieces *pieces);
/* Runs all pieces. Returns 0, -ECANCELED or the first error. Any thread. */
int pieces_run(const struct pieces *pieces);

#endif /* KVD_SERVER_STORE_PIECES_H */
