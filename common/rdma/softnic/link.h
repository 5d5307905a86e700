/* SPDX-License-Identifier: MIT */
/*
 * What the two ends of a softnic connection share: a memfd with a header page and four rings, and
 * the messages on their socket. The ends may come from different builds, so the layout has a
 * version, which is checked when they connect.
 *
 * Each end writes its own struct link_side and reads the other's; each end produces a ring of
 * requests (SENDs and READ requests) and a ring of responses (the bytes of its peer's READs).
 * Responses have their own ring because a request may have to wait for a receive, and the response
 * to a READ must not wait for that.
 *
 * THE PEER IS NOT TRUSTED. It can write all of this memory at any time, also our side. So we keep
 * the words that we own privately and store only copies here, we read each of the peer's words once
 * and then check it, and a lost or forged word can harm only the two ends of this connection.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_LINK_H
#define KVD_COMMON_RDMA_SOFTNIC_LINK_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/rdma/softnic/ring.h"

struct stat;

#define LINK_MAGIC 0x6b76646eu /* "kvdn" */
#define LINK_VERSION 4

#define LINK_GRANTS_MAX 16 /* files that a side can pass over one connection */

/* Why a side failed; it applies to the peer's oldest work request that is not acknowledged. */
enum link_error {
	LINK_ERROR_NONE,
	LINK_ERROR_GONE,      /* the queue pair is in error or destroyed: it does not respond */
	LINK_ERROR_TOO_LONG,  /* your SEND was longer than its receive */
	LINK_ERROR_OPERATION, /* your SEND's receive could not be written */
	LINK_ERROR_ACCESS,    /* I tried to READ memory that you don't let me read */
};

/* The events for which the owner of a side wants to be woken, with a byte on the socket. */
enum link_wake {
	LINK_WAKE_EVENT = 1 << 0, /* a request, a response, an error */
	LINK_WAKE_ACK = 1 << 1,	  /* a SEND of mine was acknowledged */
	LINK_WAKE_ROOM = 1 << 2,  /* a ring of mine has more room */
};

/*
 * One end's words. Every change in the first cache line is followed by a change of @bell, so that
 * the peer only has to watch that word. Only the end itself writes its words, except @wake, which
 * the peer sets to 0 when it wakes us.
 */
struct link_side {
	_Atomic uint32_t bell;
	_Atomic uint32_t request_head;	/* of the requests I produce */
	_Atomic uint32_t request_tail;	/* of the requests you produce */
	_Atomic uint32_t response_head; /* of the responses I produce */
	_Atomic uint32_t response_tail; /* of the responses you produce */
	_Atomic uint32_t acked;		/* your SENDs that were written to a receive */
	_Atomic uint32_t rnr_count;	/* how often the SEND numbered rnr_send found no receive */
	_Atomic uint32_t rnr_send;	/* that SEND's number: the value of acked when it waited */
	_Atomic uint32_t error;		/* enum link_error */
	_Atomic uint32_t closed;	/* 1: disconnected */
	_Atomic uint32_t serves;	/* 1: I have memory you may read that is not in granted[] */
	_Atomic uint32_t follows;	/* 1: of your files I read nothing that `fill` excepts */
	uint32_t pad0[4];

	_Atomic uint32_t wake; /* enum link_wake */
	uint32_t pad1;
	_Atomic uint64_t fill; /* the part of my files that I am filling: side_fill_there() */
	uint32_t pad2[12];

	_Atomic uint32_t granted[LINK_GRANTS_MAX]; /* rkeys of the files that I pass; 0 = revoked */
};

_Static_assert(offsetof(struct link_side, wake) == 64, "a line of its own");
_Static_assert(offsetof(struct link_side, fill) == 72, "layout is shared");
_Static_assert(offsetof(struct link_side, granted) == 128, "a line of its own");
_Static_assert(sizeof(struct link_side) == 192, "layout is shared");

#define LINK_PASSIVE 0 /* the side that accepts */
#define LINK_ACTIVE 1  /* the side that connects */

/*
 * The sides begin at a line of the header page that the accepting end chooses, differently for each
 * connection, and sends in ACCEPT. At the same place in all pages, the bells of all connections
 * would fall into one set of the processor's caches, and a poll of many would miss on each.
 */
#define LINK_HEADER 4096
#define LINK_LINE 64
#define LINK_LINES ((LINK_HEADER - 2 * sizeof(struct link_side)) / LINK_LINE + 1)

struct link_shared {
	uint8_t header[LINK_HEADER];
	uint8_t request[2][RING_BYTES];
	uint8_t response[2][RING_BYTES];
};

#define LINK_BYTES sizeof(struct link_shared)

_Static_assert(offsetof(struct link_shared, request) == 4096, "layout is shared");
_Static_assert(LINK_LINES == 59, "the number is shared");
_Static_assert(sizeof(struct link_shared) == 4096 + 4 * RING_BYTES, "layout is shared");

/* A record of a request ring. */
enum link_opcode {
	LINK_SEND = 1, /* a piece of a SEND */
	LINK_SEND_SOLICITED,
	LINK_READ, /* followed by struct link_read */
};

struct link_request {
	uint8_t opcode;
	uint8_t reserved[3];
	uint32_t length; /* bytes that follow in this record */
	uint32_t total;	 /* SEND: bytes of the whole message */
	uint32_t reserved2;
};

struct link_read {
	uint64_t addr;
	uint32_t rkey;
	uint32_t length;
};

/* A record of a response ring: the next piece of the oldest READ that is not complete. */
struct link_response {
	uint32_t status; /* 0; or 1: access refused */
	uint32_t length; /* bytes that follow */
	uint32_t reserved[2];
};

_Static_assert(sizeof(struct link_request) == 16, "layout is shared");
_Static_assert(sizeof(struct link_read) == 16, "layout is shared");
_Static_assert(sizeof(struct link_response) == 16, "layout is shared");

#define LINK_PIECE_MAX (4096u - 16u) /* bytes of a message in one record: two records fill a ring */
#define LINK_PIECE_MIN 1024u /* a message that does not fit waits for at least this much room */

/* A message on the socket; one byte alone is a wake-up. */
enum link_message_type {
	LINK_MESSAGE_CONNECT = 1,
	LINK_MESSAGE_ACCEPT, /* carries the memfd */
	LINK_MESSAGE_REJECT,
	LINK_MESSAGE_READY, /* the connecting side mapped the memfd */
	LINK_MESSAGE_GRANT, /* carries a file that the other side may read */
	LINK_MESSAGE_LIFE,  /* carries the file with the accepting side's life word */
};

/*
 * A file of this length; its first 4 bytes, an aligned word, have bits of LINK_LIFE_MASK as long as
 * the process that passed it lives.
 */
#define LINK_LIFE_BYTES 4096
#define LINK_LIFE_MASK 0x3fffffffu /* FUTEX_TID_MASK */

#define LINK_PRIVATE_MAX 196
#define LINK_FDS_MAX 253     /* SCM_MAX_FD of Linux: what one packet can carry */
#define LINK_PACKETS_TAKEN 4 /* by one call; a peer may have two wake-ups on their way */

struct link_message {
	uint32_t magic;
	uint16_t version;
	uint8_t type;
	uint8_t private_len;
	uint32_t qp_num;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t grant_slot;
	uint8_t line;
	uint32_t grant_rkey;
	uint32_t reserved;
	uint64_t grant_addr;
	uint64_t grant_length;
	uint64_t grant_offset;
	uint8_t private_data[LINK_PRIVATE_MAX];
	uint8_t pad[4];
};

_Static_assert(sizeof(struct link_message) == 248, "layout is shared");

/* @line is less than LINK_LINES: check what a peer says. @which: LINK_PASSIVE or LINK_ACTIVE. */
static inline struct link_side *link_side(struct link_shared *shared, unsigned int line,
					  unsigned int which)
{
	uint8_t *first = shared->header + line * LINK_LINE;

	return (struct link_side *)(void *)first + which;
}

/* Creates the memory of a connection; the caller passes @fd to the peer and closes it. */
int link_create(struct link_shared **shared, int *fd);

/* Maps the memory that the peer passed, after checking that it can't shrink. */
int link_map(struct link_shared **shared, int fd);

void link_unmap(struct link_shared *shared);

#define LINK_SEALS_FIXED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/*
 * Whether a server's file that can't be sealed, of a mounted tmpfs or hugetlbfs, may be mapped: it
 * is open for reading alone, and belongs to @uid or root, whom alone it lets write. So no other
 * user can shrink it under a mapping. @st: of @fd, for which link_file_is_memory() is true.
 */
bool link_file_owned(int fd, const struct stat *st, uid_t uid);

/* Whether a peer may read a file with these seals (F_GET_SEALS, or -1): its length stays. */
bool link_file_fixed(int seals);

/* Whether a peer may map such a file, if it is full: no one can write to it or punch a hole. */
bool link_file_safe(int seals);

/* Whether @fd is a file in memory: of a memfd or a tmpfs. Waits for no other process. */
bool link_file_is_memory(int fd);

/*
 * Whether two descriptors are of one open file. An inode number proves nothing if the peer is not
 * trusted: those of hugetlbfs have 32 bits, which wrap. Also false if this kernel can't tell:
 * before Linux 6.10, where kcmp(2) is not built in or not allowed, as in a container.
 */
bool link_file_same(int a, int b);

/* Bytes of memory that a file has: fewer than its length, if it has holes. */
uint64_t link_file_bytes(const struct stat *st);

/* Whether the file has no holes: an access to one would allocate memory, or fail with SIGBUS. */
bool link_file_full(const struct stat *st);

/*
 * drop.c: closes a descriptor that a peer passed, or a socket whose queue may hold some, without
 * waiting for the kind of file that the peer chose. @serves: this thread serves other peers, too,
 * so it does not free much memory either.
 */
void link_drop_file(int fd, bool serves);
void link_drop_socket(int sock, bool serves);

/* Sends one message, with the file @fd if that is not -1. Never blocks. */
int link_send(int sock, const struct link_message *message, int fd);

/*
 * Takes the next message. Returns its length, 0 at the end of the connection, or a negative errno
 * (-EAGAIN: no message; -EPROTO: it came with more files than it may). *@fd is the file that came
 * with it, or -1; with @fd NULL none may.
 */
int link_receive(int sock, struct link_message *message, int *fd);

struct link_packet {
	int length; /* of the whole packet; one that is longer than a message was cut off */
	int fd;	    /* the file that came with it, or -1 */
	bool stray; /* other files came, too */
	struct link_message message;
};

/*
 * Takes all packets, but at most LINK_PACKETS_TAKEN, and returns their number. The caller owns
 * their files.
 */
int link_take(int sock, struct link_packet packets[LINK_PACKETS_TAKEN]);

/* Wakes the peer, which waits at its end of the socket, or ends the connection. Never blocks. */
void link_wake(int sock);

/* Bytes of memory that packets on their way to the peer take. */
int link_queued(int sock);

/* True once the peer has closed its end or died. */
bool link_hung_up(int sock);

/*
 * Publishing and watching. Two pairs of accesses must not be reordered: we store bell, then load
 * the peer's wake; the peer stores wake, then loads our bell. All four are sequentially consistent,
 * so either we see that the peer wants to be woken, or it sees what we published.
 */
static inline void side_publish(struct link_side *mine, uint32_t bell)
{
	atomic_store_explicit(&mine->bell, bell, memory_order_seq_cst);
}

/*
 * Whether the peer wants to be woken for any of @events; true only once for each side_arm(). The
 * caller then sends one byte, and publishes nothing more before it has. A peer that meanwhile arms
 * anew, for other events only, stays armed.
 */
static inline bool side_take_wake(struct link_side *theirs, uint32_t events)
{
	uint32_t wake = atomic_load_explicit(&theirs->wake, memory_order_seq_cst);

	while (wake & events)
		if (atomic_compare_exchange_weak_explicit(
			    &theirs->wake, &wake, 0, memory_order_seq_cst, memory_order_seq_cst))
			return true;
	return false;
}

/* Asks for a wake-up; true if an earlier one that was asked for was or is being sent. */
static inline bool side_arm(struct link_side *mine, uint32_t events)
{
	return atomic_exchange_explicit(&mine->wake, events, memory_order_seq_cst) == 0;
}

/* Stops wake-ups; true if one was already sent or is being sent. */
static inline bool side_disarm(struct link_side *mine)
{
	return atomic_exchange_explicit(&mine->wake, 0, memory_order_seq_cst) == 0;
}

static inline uint32_t side_bell(const struct link_side *theirs)
{
	return atomic_load_explicit(&theirs->bell, memory_order_seq_cst);
}

/* Loads a word of the first line, and sees all that was written before it. */
static inline uint32_t side_load(const _Atomic uint32_t *word)
{
	return atomic_load_explicit(word, memory_order_acquire);
}

static inline void side_store(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store_explicit(word, value, memory_order_release);
}

/* Bytes being filled that are worth a READ, if they are not the last ones. */
#define LINK_FILL_MIN 8192u

/*
 * Filling: the owner of a file writes to it from the first byte of a range to the last, and the
 * other side READs what is there already. The word has the low half of the first address that is
 * not there yet, and in its own low half the bytes from there on that are not; 0: all is there.
 */
static inline void side_fill(struct link_side *mine, uint64_t addr, uint32_t left)
{
	uint64_t fill = left ? addr << 32 | left : 0;

	atomic_store_explicit(&mine->fill, fill, memory_order_release);
}

/* How many of the first of @bytes from @addr on are there, and so may be READ. */
static inline uint32_t side_fill_there(const struct link_side *theirs, uint64_t addr,
				       uint32_t bytes)
{
	uint64_t fill = atomic_load_explicit(&theirs->fill, memory_order_acquire);
	uint32_t left = (uint32_t)fill, first = (uint32_t)(fill >> 32);

	if (!left)
		return bytes;
	if ((uint32_t)addr - first < left)
		return 0;
	return first - (uint32_t)addr < bytes ? first - (uint32_t)addr : bytes;
}

#endif /* KVD_COMMON_RDMA_SOFTNIC_LINK_H */
