/* SPDX-License-Identifier: MIT */
/*
 * Holds: a reader in the server that sends a large value over several grace periods holds it. A
 * held value delays nobody: if its item is replaced, removed or moved meanwhile, the thread that
 * frees the item copies the value first.
 *
 *   HOLD-1. A value is held in the grace period in which its item was found, and used in one grace
 *	 period at a time: hold_bytes() says where it is now.
 *   HOLD-2. A thread that frees large items waits for a grace period, so it finds the hold of each
 *	 reader that has found one of them; it copies what is held, and waits for another grace
 *	 period, after which no reader uses the item (server/store/limbo.c).
 *
 *   HOLD-3. A value of more than HOLD_COPY_MAX bytes, whose copy would take a thread too long, or
 *	 for which there is no memory, is lost.
 *
 * Large items are not rewritten in place (LOOKUP-3). Any thread; the lock is a mem_lock(), held
 * briefly.
 */
#ifndef KVD_SERVER_STORE_HOLD_H
#define KVD_SERVER_STORE_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Copied in some ms. */
#define HOLD_COPY_MAX (32u << 20)

/* All zero before it is begun. */
struct hold {
	LIST_ENTRY(hold) entry;
	const void *_Atomic bytes; /* NULL: it is lost */
	bool copying;		   /* by holds_copy(), without the lock */
	size_t len;
	void *copy; /* of malloc(); NULL: the value is in its item */
};

struct holds {
	uint32_t lock; /* guards the list */
	LIST_HEAD(hold_list, hold) list;
	_Atomic unsigned int count;
};

/* @bytes: the value of a large item that the caller has found in this grace period. */
void hold_begin(struct holds *holds, struct hold *hold, const void *bytes, size_t len);
/* Where the value is in this grace period; NULL: it is lost (HOLD-3). */
static inline const void *hold_bytes(const struct hold *hold)
{
	return atomic_load_explicit(&hold->bytes, memory_order_acquire);
}
/* Waits until a copy that is being made is done. */
void hold_end(struct holds *holds, struct hold *hold);

/*
 * Copies the values that are held in the @bytes at @memory, after a grace period in which no item
 * there was found. True: there were some, and another grace period must pass before that is freed.
 */
bool holds_copy(struct holds *holds, const void *memory, size_t bytes);

#endif /* KVD_SERVER_STORE_HOLD_H */
