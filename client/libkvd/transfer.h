/* SPDX-License-Identifier: MIT */
/*
 * Transfers: items whose value is READ in pieces. The first READ has header and key, which are
 * verified before the rest is used; each piece of the value is hashed when it has arrived, while it
 * is in the CPU's cache, and the hash is compared with that in the header.
 *
 * If the caller registered the buffer, the pieces go there, and header and key to the ring. Else
 * the pieces go to the ring, and are copied and hashed in one pass. READs to the caller's memory
 * must have ended when the operation does: transfer_touches().
 *
 * On softnic, where the server's memory is mapped, this thread copies in any case: it does so by
 * read_now() of the device, to any memory of the caller, and hashes in the same pass. A short READ
 * comes before each TRANSFER_NOW_BYTES of that, so that other operations have their turn and
 * deadlines are noticed.
 *
 * Of a range only whole pieces are READ, since they have sums. What they have beside the range goes
 * to the ring, or is copied and forgotten. The piece sums are verified before the value is used.
 */
#ifndef KVD_CLIENT_LIBKVD_TRANSFER_H
#define KVD_CLIENT_LIBKVD_TRANSFER_H

#include "client/libkvd/handle.h"
#include "client/libkvd/lookup.h"
#include "common/sum.h"

/* READs of one transfer in flight. */
#define TRANSFER_READS_MAX 8u
/* Copied at once after a READ: some 60 us. */
#define TRANSFER_NOW_BYTES (1u << 20)
/* Values from this size on go to registered memory; shorter ones are READ to the ring. */
#define TRANSFER_DIRECT_MIN 4096u

enum transfer_outcome {
	TRANSFER_GOING,
	TRANSFER_FOUND, /* the value is there; or it is longer than the buffer */
	TRANSFER_OTHER, /* the item has another key */
	TRANSFER_STALE, /* it does not verify */
	TRANSFER_ENDED, /* by transfer_stop() */
};

struct transfer {
	struct list link;	     /* in the list of free transfers */
	uint64_t offset;	     /* of the item, in the region */
	uint8_t *value;		     /* the caller's buffer, unless it has pieces */
	const struct kvd_op *pieces; /* not NULL: it has the caller's pieces */
	uint64_t size;		     /* bytes of the buffer, or of all pieces */
	/*
	 * What is READ, one after another: header and key; of a range that does not need all of the
	 * value, the piece sums; the value from `from` on. `limit`, `posted` and `arrived` count
	 * its bytes. Of a whole value they are the item's.
	 */
	uint64_t limit; /* until the header is known, a guess; of a range, the header and key */
	uint64_t posted, arrived;
	uint64_t from;		   /* byte of the value: the first of a piece */
	uint32_t head_bytes;	   /* what is in front of the value */
	uint32_t sums_bytes;	   /* of the piece sums, if they are needed */
	uint8_t *sums;		   /* NULL: they are not */
	struct value_range wanted; /* what goes to the caller */
	uint64_t value_sum;	   /* of what is READ of the value */
	uint32_t piece;		   /* bytes of one READ; 0: not chosen yet */
	uint32_t ring_piece;	   /* of one to the ring */
	uint32_t reads_max;
	uint32_t reads; /* in flight */
	uint32_t first; /* the oldest of these in ring_at */
	uint32_t ring_at[TRANSFER_READS_MAX];
	bool head_known;
	bool direct;
	bool now; /* what follows the first READ is copied by read_now() */
	enum transfer_outcome outcome;
	enum kvd_status stopped; /* TRANSFER_ENDED */
	bool expired;		 /* the deadline has passed; READs in flight may still complete */
	struct value_sum sum;
	union item_front front;
};

/*
 * READs the item at flight->large_offset: at most large_bytes of it, or, if that is 0, as many as
 * its header says. The flight is in PHASE_LARGE. It may have to wait: then its `ready` is called.
 * KVD_ERR_NO_MEMORY.
 */
enum kvd_status transfer_begin(struct kvd *handle, struct flight *flight);
/* Posts further READs while there is room. */
void transfer_post(struct kvd *handle, struct flight *flight);
/* Takes a piece that has arrived. True: the outcome is known, and no READ is in flight. */
bool transfer_piece(struct kvd *handle, struct flight *flight);
/* Gives the flight's transfer back. */
void transfer_release(struct kvd *handle, struct flight *flight);
/* Whether READs to the caller's memory are in flight. */
bool transfer_touches(const struct flight *flight);
/*
 * Lets the transfer end with @status when the READs in flight have completed. KVD_ERR_CANCELED wins
 * over a passed deadline: kvd_cancel() has promised it to its caller.
 */
void transfer_stop(struct flight *flight, enum kvd_status status);
/* Frees all transfers. Nothing is in flight. */
void transfers_release(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_TRANSFER_H */
