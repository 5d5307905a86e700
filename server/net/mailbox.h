/* SPDX-License-Identifier: MIT */
/*
 * Notes about connections, passed between the control thread and a worker. Not on the data path: a
 * worker looks at one flag per loop, and takes the lock only when a note is there.
 *
 * A note of each type exists once in every connection and is sent at most once in its life, so
 * sending never allocates and can't fail.
 */
#ifndef KVD_SERVER_NET_MAILBOX_H
#define KVD_SERVER_NET_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct conn;

/* The end of a connection, in the order of the notes. See server/net/conn.h for the whole life. */
enum note_type {
	NOTE_FAILED,   /* worker -> control: the client broke the rules, or its queue pair failed */
	NOTE_QUIESCE,  /* control -> worker: queue pair is in error; post nothing any more */
	NOTE_QUIESCED, /* worker -> control: the queue pair may be destroyed */
	NOTE_RELEASE,  /* control -> worker: it is; release what the connection holds */
	NOTE_RELEASED, /* worker -> control: done, free it */
	NOTE_TYPES,
};

struct note {
	struct note *next;
	struct conn *conn;
	enum note_type type;
};

struct mailbox {
	pthread_mutex_t lock; /* guards first and last */
	struct note *first, **last;
	_Atomic bool pending;
	int event_fd; /* readable while there are notes, for who sleeps */
};

int mailbox_init(struct mailbox *mailbox);
void mailbox_release(struct mailbox *mailbox);

/* Any thread. */
void mailbox_send(struct mailbox *mailbox, struct note *note);
/* Wakes the owner without a note. Any thread. */
void mailbox_wake(struct mailbox *mailbox);

/* The owner: takes all notes, oldest first, linked by next; NULL if there are none. */
struct note *mailbox_take(struct mailbox *mailbox);

static inline bool mailbox_pending(const struct mailbox *mailbox)
{
	return atomic_load_explicit(&mailbox->pending, memory_order_relaxed);
}

#endif /* KVD_SERVER_NET_MAILBOX_H */
