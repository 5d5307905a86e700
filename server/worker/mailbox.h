/* SPDX-License-Identifier: MIT */
/*
 * Mailboxes: queues of notes about connections, between the control thread and a worker. Not on the
 * data path: a worker checks one flag per loop, and takes the lock only when there is a note.
 *
 * Every connection has one note of each kind, sent once; PROBE, QUERY and ANSWER again after they
 * were taken. Every session, every poller, every part of a tenant and every job has a note of its
 * own. So sending never allocates and can't fail.
 */
#ifndef KVD_SERVER_WORKER_MAILBOX_H
#define KVD_SERVER_WORKER_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct conn;
struct session;
struct poller;
struct tenant_part;

/* The end of a connection, in the order of the notes: server/worker/conn.h has all of its life. */
enum note_kind {
	NOTE_FAILED,   /* worker -> control: the client broke the rules, or its queue pair failed */
	NOTE_QUIESCE,  /* control -> worker: the queue pair is in error; post nothing more */
	NOTE_QUIESCED, /* worker -> control: the queue pair may be destroyed */
	NOTE_RELEASE,  /* control -> worker: it was destroyed; release what the connection holds */
	NOTE_RELEASED, /* worker -> control: done, the connection may be freed */
	NOTE_PROBE,    /* control -> worker, before the others: post a keepalive probe */
	NOTE_QUERY,    /* worker -> control: server/worker/query.h */
	NOTE_ANSWER,   /* control -> worker, before NOTE_QUIESCE: its answer */
	NOTE_KINDS,

	/* Notes of a poller whose device failed or works again: server/control/recovery.h. */
	NOTE_DETACH = NOTE_KINDS, /* control -> worker: it has no connection; poll it no more */
	NOTE_DETACHED,		  /* worker -> control: done, the poller may be released */
	NOTE_ATTACH,		  /* control -> worker: poll it */

	/*
	 * Notes of a worker's part of a tenant without connections:
	 * server/control/tenant_manager.h.
	 */
	NOTE_TENANT_DETACH,   /* control -> worker: it is about to go */
	NOTE_TENANT_DETACHED, /* worker -> control: done, the worker does not know it any more */
	/* Notes of a session of memcached's protocol: server/memcached/session.h. */
	NOTE_SESSION,	     /* control -> worker: serve it */
	NOTE_SESSION_ASKS,   /* worker -> control: for its query */
	NOTE_SESSION_ANSWER, /* control -> worker: its answer */
	NOTE_SESSION_ENDED,  /* worker -> control: done, it may be freed */
	NOTE_FORWARDED,	     /* forwarder -> worker: server/memcached/forwarder.h */
	/* Note of the thread of TLS handshakes -> control: some have ended. */
	NOTE_HANDSHAKES,
	/* Note of a job. */
	NOTE_TENANT_DONE,   /* thread of the jobs -> control: server/control/tenant_job.h */
	NOTE_PASSWORD_DONE, /* thread of passwords -> control: server/control/password_job.h */
};

struct note {
	struct note *next;
	union {
		struct conn *conn;	  /* of kinds before NOTE_KINDS */
		struct poller *poller;	  /* of NOTE_DETACH, DETACHED and ATTACH */
		struct tenant_part *part; /* of NOTE_TENANT_DETACH and DETACHED */
		struct session *session;  /* of NOTE_SESSION and its like, and NOTE_FORWARDED */
	};
	enum note_kind kind;
};

struct mailbox {
	pthread_mutex_t lock; /* guards first and last */
	struct note *first, **last;
	_Atomic bool pending;	/* a note or a wake-up was sent since the last mailbox_take() */
	_Atomic uint64_t taken; /* calls of mailbox_take(): signs of the owner's life */
	int event_fd;		/* readable while pending, so that the owner can sleep in poll(2) */
};

/* 0 or a negative errno after logging. */
int mailbox_init(struct mailbox *mailbox);
void mailbox_release(struct mailbox *mailbox);

/* Sends the note and wakes the owner. Any thread. */
void mailbox_send(struct mailbox *mailbox, struct note *note);
/* Wakes the owner without a note. Any thread. */
void mailbox_wake(struct mailbox *mailbox);

/* The owner takes all notes: oldest first, linked by next; NULL if there are none. */
struct note *mailbox_take(struct mailbox *mailbox);

/* Whether the owner should call mailbox_take(). */
static inline bool mailbox_pending(const struct mailbox *mailbox)
{
	return atomic_load_explicit(&mailbox->pending, memory_order_relaxed);
}

#endif /* KVD_SERVER_WORKER_MAILBOX_H */
