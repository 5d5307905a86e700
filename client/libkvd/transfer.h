/* SPDX-License-Identifier: MIT */
/*
 * Transfers: items whose value is READ in pieces. The first READ has header and key, which are
 * verified before the rest is used; each piece of the value is hashed when it has arrived, while it
 * is in the CPU's cache, and the hash is compared with that in the header.
 *
 * Where the caller registered the buffer, the pieces go there, and header and key to the ring. Else
 * the pieces go to the ring, and are copied and hashed in one pass. READs to the caller's memory
 * must have ended when the operation does: transfer_touches().
 *
 * On softnic, where the server's memory is mapped, this thread copies in any case: so it does that
 * by read_now() of the device, to any memory of the caller's, and hashes in the same pass. A short
 * READ comes before each TRANSFER_NOW_BYTES of that: others have their turn then, and the operation
 * its end where its deadline has passed.
 */
#ifndef KVD_CLIENT_LIBKVD_TRANSFER_H
#define KVD_CLIENT_LIBKVD_TRANSFER_H

#include "client/libkvd/handle.h"
#include "common/sum.h"

/* READs of one transfer in flight. */
#define TRANSFER_READS_MAX 8u
/* Copied at once behind a READ: some 60 us. */
#define TRANSFER_NOW_BYTES (1u << 20)
/* Values from here on go to registered memory; shorter ones are READ to the ring with others. */
#define TRANSFER_DIRECT_MIN 4096u

enum transfer_outcome {
	TRANSFER_GOING,
	TRANSFER_FOUND, /* the value is there; or it is longer than the buffer */
	TRANSFER_OTHER, /* the item has another key */
	TRANSFER_STALE, /* it does not verify */
	TRANSFER_ENDED, /* by transfer_stop() */
};

struct transfer {
	struct list link;	     /* of those that are free */
	uint64_t offset;	     /* of the item, in the region */
	uint8_t *value;		     /* the caller's buffer, */
	const struct kvd_op *pieces; /* or, if this is not NULL, its pieces */
	uint64_t size;		     /* bytes of them */
	uint64_t limit; /* bytes of the item to READ; until the header is known, a guess */
	uint64_t posted, arrived;
	uint32_t head_bytes; /* what is in front of the value */
	uint32_t piece;
	uint32_t reads_max;
	uint32_t reads; /* in flight */
	uint32_t first; /* the oldest of them in ring_at */
	uint32_t ring_at[TRANSFER_READS_MAX];
	bool head_known;
	bool direct;
	bool now; /* what follows the first READ is copied where that can be done */
	enum transfer_outcome outcome;
	enum kvd_status stopped; /* TRANSFER_ENDED */
	bool expired;		 /* its deadline has passed, what is in flight may complete */
	struct value_sum sum;
	union item_front front;
};

/*
 * READs the item at flight->large_offset: large_bytes of it at most, or, if that is 0, as many as
 * its header says. The flight is in PHASE_LARGE. It may have to wait, and then is ready.
 * KVD_ERR_NO_MEMORY.
 */
enum kvd_status transfer_begin(struct kvd *handle, struct flight *flight);
/* READs on, as far as there is room. */
void transfer_post(struct kvd *handle, struct flight *flight);
/* A piece has arrived. True: the transfer has its outcome, and no READ is in flight. */
bool transfer_piece(struct kvd *handle, struct flight *flight);
/* The flight uses it no more; READs in flight to the ring complete for nobody. */
void transfer_release(struct kvd *handle, struct flight *flight);
/* Whether READs to the caller's memory are in flight. */
bool transfer_touches(const struct flight *flight);
/*
 * Ends with @status when the READs in flight have completed. KVD_ERR_CANCELED stands: kvd_cancel()
 * has promised it to its caller, before the deadline or after it.
 */
void transfer_stop(struct flight *flight, enum kvd_status status);
/* Frees all, when nothing is in flight. */
void transfers_release(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_TRANSFER_H */
