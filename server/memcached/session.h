/* SPDX-License-Identifier: MIT */
/*
 * A session: one client of memcached's protocol on one socket, which one worker serves from the
 * first byte to the last; and what a worker has for all of its sessions.
 *
 *	accept(2)	control thread: admits the client, and sends NOTE_SESSION; with TLS, once
 *			the thread of handshakes is done (server/control/handshake.h)
 *	commands	worker: answers go out in the order of the commands
 *	the end		worker: the client has closed or broken the protocol, or control has shut the
 *			socket down; it sends NOTE_SESSION_ENDED, and control closes the socket
 *
 *   SESSION-1. A session is ended in one place, when its worker finds the socket at its end: all
 *	 others shut the socket down. So no note meets a session that is gone.
 *   SESSION-2. One session at a time uses the worker's buffers. Between two turns a session keeps
 *	 only a command that is incomplete, and output that its socket did not take: an idle one
 *	 has no buffer.
 *   SESSION-3. A session with output that its socket did not take is not read from, and executes
 *	 nothing: so its output is bounded by what one turn makes, or by one large value.
 *   SESSION-4. Large values that go out are within the worker's part of memcached.output. While a
 *	 session waits for some of that, others that take nothing for server.pull_stall, or are not
 *	 done after server.pull_timeout, are ended.
 */
#ifndef KVD_SERVER_MEMCACHED_SESSION_H
#define KVD_SERVER_MEMCACHED_SESSION_H

#include <assert.h>
#include <stdlib.h>
#include <sys/queue.h>

#include <urcu/compiler.h>

#include "server/memcached/ahead.h"
#include "server/memcached/forwarder.h"
#include "server/memcached/parser.h"
#include "server/worker/execution.h"
#include "server/worker/worker.h"

/*
 * The worker's buffers, bytes. A command whose data block fits the first one, with its line, is
 * executed from there; a value that fits the second one is answered from there.
 */
#define SESSION_INPUT_BYTES (16u << 10)
#define SESSION_OUTPUT_BYTES (64u << 10)
/* The longest answer without a value: a line with all flags of a meta command. */
#define SESSION_ANSWER_MAX 4096u
/* The longest data block that arrives as a whole before its command is executed. */
#define SESSION_BLOCK_MAX (SESSION_INPUT_BYTES - MC_BUFFER_MIN)

struct login;
struct login_source;

/* What the control thread is asked for, unless it is a login: the text of `stats`. */
struct session_query {
	char *text; /* the answer, of malloc(); NULL: no memory */
	size_t len;
	char name[16]; /* the argument, cut; "": none */
};

/* The input of a turn: in the worker's buffer, or in the session's own. */
struct session_input {
	uint8_t *bytes;
	uint32_t at, len;
};

enum session_list_of { SESSION_IN_NONE, SESSION_IN_READY, SESSION_IN_FLUSHING };
enum session_ask { SESSION_ASKS_NOTHING, SESSION_ASKED, SESSION_ANSWERED };

/*
 * A change that takes more than a turn. Its steps keep the key, which may have been decoded; its
 * value stays in session->input.
 */
struct session_work {
	struct execution execution;
	uint8_t key[KEY_MAX];
};

/* What a session has asked other members for: server/memcached/forward.h. */
struct session_forwards {
	LIST_HEAD(forwards, forward) list;
	unsigned int asked;	    /* of which have not come back */
	unsigned int paid;	    /* stages of `command` which were admitted, and wait */
	uint64_t command;	    /* the number of the current command */
	bool waits;		    /* the session is in sockets->forward_waits */
	TAILQ_ENTRY(session) entry; /* there */
	uint32_t lane;		    /* that it waits for */
};

struct session {
	/* Fixed when it is made. */
	struct client client;
	struct tls *tls;	 /* over the socket; NULL: none */
	struct sockets *sockets; /* its worker's */
	int fd;

	/* The control thread's. */
	_Atomic bool is_cut; /* its socket was shut down; its worker reads it, too */
	bool in_locked;	     /* it has an entry in net->sessions_locked */
	/* The worker's and the control thread's in turn. */
	bool locked; /* its client has to authenticate before anything else: LOGIN-1 */

	/* The worker's. */
	uint32_t events;   /* of epoll(7), that it waits for */
	uint8_t in;	   /* enum session_list_of: which has its ready_entry */
	uint8_t ask;	   /* enum session_ask */
	bool clogged;	   /* the socket did not take all output */
	bool shut;	   /* nothing more is read: it ends when its output is sent */
	bool broken;	   /* nothing can be sent */
	bool unread;	   /* TLS has input that the socket does not show: epoll(7) is silent */
	bool ends;	   /* nothing more is executed */
	bool hung_up;	   /* the peer is gone, while answers of other threads are awaited */
	bool waits;	   /* for client.wake() */
	bool wipes;	   /* its input may hold a password: LOGIN-3 */
	bool output_waits; /* it is in sockets->output_waits */
	bool output_next;  /* it has waited: it is the next one that gets some */
	TAILQ_ENTRY(session) ready_entry; /* in the list that is next */
	TAILQ_ENTRY(session) idle_entry;  /* in sockets->sessions */
	uint64_t flush_ticket;		  /* of the flush that it waits for; 0: none */
	struct mc_parser parser;
	uint64_t skip;	     /* bytes of input to drop: the data block of a refused command */
	uint8_t *input;	     /* SESSION_INPUT_BYTES of malloc(), NULL: none is kept */
	uint32_t input_at;   /* what comes before it has been executed */
	uint32_t input_len;  /* up to here bytes have arrived */
	uint8_t *output;     /* of malloc(): what the socket did not take; NULL: nothing */
	uint32_t output_at;  /* what comes before it has been sent */
	uint32_t output_len; /* of `output` */
	TAILQ_ENTRY(session) output_entry; /* in sockets->outputs, or ->output_waits */
	uint64_t output_bytes; /* counted for it in sockets->output_bytes; 0: it is in no list */
	uint64_t output_since_ns, output_progress_ns; /* by clock_ns(): kept; taken from last */
	struct session_work *work;		      /* NULL: none */
	struct large_get *get;			      /* a large value that goes out; NULL: none */
	struct large_put *put;			      /* a large value that comes in; NULL: none */
	struct session_forwards *forwards;	      /* NULL: the server is in no fleet */

	/* The control thread's. */
	LIST_ENTRY(session) entry;	   /* in net->sessions */
	TAILQ_ENTRY(session) locked_entry; /* in the order of client.connected_ns */
	struct login_source *source;	   /* in which its login waits; NULL: none does */

	/* The worker's and the control thread's in turn. */
	struct session_query *query; /* NULL: the control thread is asked for none */
	struct login *login;	     /* server/memcached/login.h; NULL: none is asked about */
	struct note note;	     /* that they send to each other */
};

/* One of the allocator's sizes, of which the next is 640: most sessions are idle. */
static_assert(sizeof(struct session) <= 512, "a session is small");

TAILQ_HEAD(session_list, session);

static inline struct session *session_of(struct client *client)
{
	return caa_container_of(client, struct session, client);
}

/* Bytes of the longest value of the session's tenant. */
static inline uint64_t session_value_max(const struct session *session)
{
	return session->client.part->thread.table->region->geometry.value_max;
}

/* Whether another thread still has something to answer, by a note. */
static inline bool session_awaits(const struct session *session)
{
	return session->ask == SESSION_ASKED || (session->forwards && session->forwards->asked);
}

/* The number of the current command. */
static inline uint64_t session_command(const struct session *session)
{
	return session->forwards ? session->forwards->command : 0;
}

static inline struct mc_counters *session_counters(const struct session *session)
{
	return &session->client.part->commands;
}

/* Sends the session's note, which has been taken, or never been sent. */
static inline void session_note_send(struct session *session, struct mailbox *mailbox,
				     enum note_kind kind)
{
	session->note.kind = kind;
	mailbox_send(mailbox, &session->note);
}

static inline void session_query_name(struct session_query *query, const uint8_t *name,
				      uint32_t len)
{
	uint32_t kept = name && len < sizeof(query->name) ? len : 0;

	/* A longer one is the name of nothing. */
	if (name && !kept)
		query->name[kept++] = '?';
	else if (kept)
		memcpy(query->name, name, kept);
	query->name[kept] = '\0';
}

static inline void session_query_free(struct session *session)
{
	if (session->query)
		free(session->query->text);
	free(session->query);
	session->query = NULL;
}

/* What a worker has for its sessions. */
struct sockets {
	struct worker *worker;
	int epoll_fd; /* all its sockets, and its mailbox */
	/* Sessions with something to do, in the order of their turns. */
	struct session_list ready;
	/* All, the one that has sent nothing for the longest time first. */
	struct session_list sessions;
	unsigned int count;
	/* Sessions with kept output, of output_bytes together, and sessions that wait for it. */
	struct session_list outputs, output_waits;
	uint64_t output_bytes;
	uint64_t outputs_at_ns; /* when to look at them again, by clock_ns() */
	/* Large values that arrive: server/memcached/large_put.h. */
	TAILQ_HEAD(large_puts, large_put) puts;
	uint64_t puts_at_ns; /* when to look at them again, by clock_ns() */
	/* Requests to other members under way, for each lane too; sessions that wait for room. */
	unsigned int forwards, forward_lanes[FORWARDER_LANES];
	struct session_list forward_waits;
	/* Sessions that wait for the end of a flush. */
	struct session_list flushing;
	uint64_t flushing_at_ns;    /* when to look again, by clock_ns() */
	unsigned int turns_unasked; /* turns since the sockets were asked */
	uint64_t idle_at_ns; /* when to look for idle sessions again, by the server's clock */

	/* The session whose turn it is. */
	struct session *session;
	uint8_t *output; /* SESSION_OUTPUT_BYTES */
	uint32_t output_at, output_len;
	uint32_t line_at; /* where the answers to the keys of the current line begin */
	bool sent;	  /* since its turn began, or its commands looked at the clock */
	uint8_t *input;	  /* SESSION_INPUT_BYTES */
	struct ahead ahead;
};

#endif /* KVD_SERVER_MEMCACHED_SESSION_H */
