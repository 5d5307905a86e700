/* SPDX-License-Identifier: MIT */
/* Pieces: the part of a turn in which a worker goes on with what does not fit one turn. */
#ifndef KVD_SERVER_WORKER_PIECE_H
#define KVD_SERVER_WORKER_PIECE_H

#include "server/store/store.h"

/*
 * How long a piece should take: as long as some 40 PUTs, so that a worker that has deferred
 * requests still spends about half of its time on the other requests of a full batch.
 */
#define PIECE_NS 20000u

/*
 * Bytes of a large item that are copied or summed between two looks at the clock: they take less
 * than PIECE_NS.
 */
#define PIECE_STEP_BYTES (64u << 10)

/* What is next after a piece. */
enum piece_next {
	PIECE_DONE,  /* nothing: it has ended */
	PIECE_AGAIN, /* another piece */
	PIECE_IDLE,  /* another piece, but it got nowhere: it needs what others hold */
	PIECE_WAIT,  /* nothing before its client is woken */
};

/* Runs steps of a room until the time is up. PIECE_DONE: it has ended. */
enum piece_next piece_room(struct room *room, uint64_t until_ns);

#endif /* KVD_SERVER_WORKER_PIECE_H */
