/* SPDX-License-Identifier: MIT */
/*
 * The messages between client and server, byte for byte, and their parsers; common/PROTOCOL.md says
 * the same in prose.
 *
 *	connect request	 struct wire_connect in the private data of rdma_cm
 *	reject		 struct wire_reject in the private data
 *	request		 struct wire_request, key, value, GETs by READ, access records
 *							client -> server, one SEND
 *	response	 struct wire_response, value			server -> client, one SEND
 *
 * The first request is HELLO. The server disconnects a client that sends another request first, or
 * anything that wire_request_parse() refuses. All integers are little-endian.
 */
#ifndef KVD_COMMON_WIRE_H
#define KVD_COMMON_WIRE_H

#include "common/layout.h"

#define WIRE_ABI 13
#define WIRE_MAGIC 0x31306b7376646b00ull

#define WIRE_TENANT_MAX 24u
struct wire_connect {
	uint64_t magic;
	uint32_t abi;
	uint32_t reserved;
	/* The name of the tenant, see wire_tenant_length(); zeros: the user's. */
	char tenant[WIRE_TENANT_MAX];
};
static_assert(sizeof(struct wire_connect) == 40, "ABI");
static_assert(offsetof(struct wire_connect, tenant) == 16, "ABI");

/*
 * A client that has posted nothing for this long may post the next request only if none is
 * outstanding, whatever a later response says: the server counts on it (server/worker/window.h).
 */
#define WIRE_WINDOW_LAPSE_MS 1000u
#define WIRE_WINDOW_LAPSED 1u

/*
 * The length of a tenant's name, 1 to WIRE_TENANT_MAX: letters, digits, '-', '_' and '.', followed
 * by zeros. 0: it is not a name.
 */
uint32_t wire_tenant_length(const char name[WIRE_TENANT_MAX]);

enum wire_reject_reason {
	WIRE_REJECT_VERSION = 1, /* not kvd, or another ABI */
	WIRE_REJECT_FULL = 2,	 /* max_connections reached, or no receive left for one more */
	WIRE_REJECT_STOPPING = 3,
	WIRE_REJECT_ERROR = 4,	/* the server could not set the connection up */
	WIRE_REJECT_USER = 5,	/* this client, or its address, may not connect */
	WIRE_REJECT_LIMIT = 6,	/* its user is at its limit of connections */
	WIRE_REJECT_TENANT = 7, /* it does not exist, or not now, or not on this device */
};

#define WIRE_REJECT_TEXT_BYTES 96u

struct wire_reject {
	uint64_t magic;
	uint32_t abi; /* the server's */
	uint32_t reason;
	char text[WIRE_REJECT_TEXT_BYTES]; /* zero-terminated */
};
static_assert(sizeof(struct wire_reject) == 112, "ABI");

enum wire_op {
	WIRE_HELLO = 1,
	WIRE_PING = 2,
	WIRE_GET = 3,
	WIRE_PUT = 4,
	WIRE_DELETE = 5,
	WIRE_STATS = 6,
	WIRE_ARITH = 7,	    /* increment or decrement a decimal number */
	WIRE_TOUCH = 8,	    /* set the expiry time */
	WIRE_SCAN = 9,	    /* some keys, by cursor */
	WIRE_FLUSH = 10,    /* remove all items: enum wire_flush */
	WIRE_ACCESS = 11,   /* reports of GETs alone */
	WIRE_CLIENTS = 12,  /* the server's connections as text, by cursor */
	WIRE_KILL = 13,	    /* close a connection */
	WIRE_BATCH = 14,    /* several requests, answered in one response */
	WIRE_REVOKE = 15,   /* close all connections of a client, at once */
	WIRE_TENANT = 16,   /* list, create, resize or drop tenants */
	WIRE_SHUTDOWN = 17, /* stop the server, as by SIGTERM */
	WIRE_WHOAMI = 18,   /* the user, rights and tenant of the connection as text */
	WIRE_MAP = 19,	    /* a part of the fleet's map: common/fleet/map.h */
	WIRE_MOVE = 20,	    /* between members of a fleet: a move of shards, enum wire_move */
	WIRE_FLEET = 21,    /* a change of the fleet: enum wire_fleet */
	WIRE_REPORT = 22,   /* what administrators look for: enum wire_report */
	WIRE_CONFIG = 23,   /* the server's options: enum wire_config */
	WIRE_EXTENTS = 24,  /* the extents that the client may READ now: struct wire_extents */
	WIRE_OP_MAX = WIRE_EXTENTS,
};

/*
 * What a MOVE does; FLEET-8 in common/fleet/DESIGN.md. The member that has the shards sends it, on
 * a connection for each tenant, to the one that gets them. INVALID: arg64 is out of range, or the
 * map is a file's.
 */
enum wire_move {
	/* OK: it would take shards now. BUSY: not now. It looks at etcd at once. */
	WIRE_MOVE_ASK = 0,
	/*
	 * The shards whose rows were closed in `epoch` of the map's `generation` will be copied on
	 * this connection, and none of an earlier BEGIN. OK: it has none of their items. BUSY: ask
	 * again. AWAY: it takes none, ever.
	 */
	WIRE_MOVE_BEGIN = 1,
	/* Removes the items of these shards in `segment` (KEY_SEGMENTS). OK, AWAY. */
	WIRE_MOVE_CLEAR = 2,
	/*
	 * All is copied. New versions will be above `counter`. OK: `result` is the create_revision
	 * of its key in etcd, which the transaction that gives it the shards compares. AWAY,
	 * also if the server has flushed since BEGIN.
	 */
	WIRE_MOVE_END = 3,
	WIRE_MOVE_MAX = WIRE_MOVE_END,
};

/*
 * What a FLEET changes. The key is a member's ID. OK: it is so. BUSY: ask again, and say in
 * `epoch`, which is 0 at first, what the first answer has there: no map says that the members were
 * told to balance, and are done.
 */
enum wire_fleet {
	WIRE_FLEET_DRAIN = 0,	  /* the member gives all its shards to others, and gets none */
	WIRE_FLEET_UNDRAIN = 1,	  /* ends that */
	WIRE_FLEET_REBALANCE = 2, /* no key: all members get their share */
	WIRE_FLEET_MAX = WIRE_FLEET_REBALANCE,
};

/* What a FLUSH does. */
enum wire_flush {
	WIRE_FLUSH_START = 0,	   /* without a ticket; with one it asks whether it is done */
	WIRE_FLUSH_CANCEL = 1,	   /* flushes of the client's principal, or that of the ticket */
	WIRE_FLUSH_CANCEL_ANY = 2, /* flushes of any principal */
};

/* What a TENANT does. */
enum wire_tenant {
	WIRE_TENANT_LIST = 0, /* as text, by cursor */
	WIRE_TENANT_CREATE = 1,
	WIRE_TENANT_RESIZE = 2,
	WIRE_TENANT_DROP = 3,
};

/* What a REPORT asks for; as text, by cursor. */
enum wire_report {
	WIRE_REPORT_SLOW = 0,	 /* the slow log, the oldest operation first */
	WIRE_REPORT_RESET = 1,	 /* nothing: empties the slow log */
	WIRE_REPORT_SAMPLE = 2,	 /* operations from `cursor` on; 0: from now on */
	WIRE_REPORT_LOG = 3,	 /* the last lines of the server's log */
	WIRE_REPORT_PROCESS = 4, /* the kernel, and what the process has mapped */
	WIRE_REPORT_MAX = WIRE_REPORT_PROCESS,
};

/*
 * What a CONFIG does. Every response but OK and BUSY has a text that says why. NOT_ALLOWED: the
 * client is no administrator.
 */
enum wire_config {
	/*
	 * All options as text, lines "section.key = value", by cursor. BUSY: one was changed since
	 * the page before.
	 */
	WIRE_CONFIG_GET = 0,
	/* The key has "section.key=value", several with '\n' between them: all are set, or none. */
	WIRE_CONFIG_SET = 1,
	/* Writes what was set into the file of the configuration. OK has a text, too. */
	WIRE_CONFIG_REWRITE = 2,
	WIRE_CONFIG_MAX = WIRE_CONFIG_REWRITE,
};

/* What a PUT does; the numbers are those of enum kvd_put_mode. */
enum wire_put {
	WIRE_SET = 0,
	WIRE_ADD = 1,	  /* if absent, else EXISTS */
	WIRE_REPLACE = 2, /* if present, else NOT_FOUND */
	WIRE_CAS = 3,	  /* if the item has this version, else EXISTS or NOT_FOUND */
	WIRE_APPEND = 4,  /* to the end of the item's value; its flags and expiry time stay */
	WIRE_PREPEND = 5,
	/*
	 * Between members of a fleet (WIRE_MOVE_BEGIN): the item gets exactly this version, unless
	 * the key has a higher one, which is EXISTS, and the use and pin that `change` says. Not in
	 * a BATCH.
	 */
	WIRE_COPY = 6,
	WIRE_PUT_MAX = WIRE_COPY,
};

enum wire_arith { WIRE_INCR = 0, WIRE_DECR = 1 };

/* The numbers are those of the same names in client/kvd.h. */
enum wire_status {
	WIRE_OK = 0,
	WIRE_NOT_FOUND = 1,
	WIRE_INVALID = 2, /* put: a pin for longer than the server allows */
	WIRE_TOO_LARGE = 3,
	WIRE_NO_SPACE = 5,
	WIRE_PROTOCOL = 12,
	WIRE_BUSY = 13,
	WIRE_EXISTS = 14,	/* add: the key is there; cas: with another version */
	WIRE_NOT_A_NUMBER = 15, /* arith: the value is not a 64-bit decimal number */
	WIRE_UNKNOWN = 17,	/* a change that was sent before; its answer was forgotten */
	WIRE_NOT_ALLOWED = 19,	/* the user lacks the right, or a prefix of the key */
	WIRE_LIMIT = 20,	/* beyond a limit of the user: nothing was done */
	WIRE_MOVED = 22,	/* another member of the fleet has the key; nothing was done */
	/* The key's shard has no owner, or this member must not serve it now; nothing was done. */
	WIRE_AWAY = 23,
	WIRE_STATUS_MAX = WIRE_AWAY,
};

#define WIRE_F_PULL 0x01u	/* PUT: the server READs the value from pull_addr with pull_rkey */
#define WIRE_F_IF_VERSION 0x02u /* DELETE: only if the item has this version */
#define WIRE_F_VALUE 0x04u	/* TOUCH alone: returns the value, too, like a GET from offset 0 */
#define WIRE_F_CREATE 0x08u	/* ARITH: an absent key is created with the number `initial` */
#define WIRE_F_VALUES 0x10u	/* SCAN: values as well as keys */
#define WIRE_F_PIN 0x20u	/* PUT set, add, replace: the item is pinned for `pin` seconds */
#define WIRE_F_LOW 0x40u	/* PUT but append and prepend: the item has low priority */
#define WIRE_F_NO_VALUE 0x80u	/* GET: `result` has the value's length, and no value follows */
#define WIRE_F_USES 0x100u	/* SCAN, if the server evicts: how the items were used */
#define WIRE_F_GETS 0x200u	/* all but HELLO: a struct wire_gets follows the value */
#define WIRE_F_RESUME 0x400u	/* with a number, not in a BATCH: all earlier ones are answered */

struct wire_request {
	uint8_t op;
	/*
	 * PUT: enum wire_put; ARITH: wire_arith; FLUSH, TENANT, MOVE, FLEET, REPORT, CONFIG
	 * likewise; else 0
	 */
	uint8_t mode;
	/*
	 * SCAN: of the prefix, may be 0; TENANT but list: of the name; REVOKE: of its argument;
	 * FLEET but rebalance: of a member's ID; CONFIG set: of the options
	 */
	uint16_t key_len;
	uint32_t value_len; /* bytes of value; it follows the key unless WIRE_F_PULL */
	uint32_t id;	    /* comes back in the response */
	/*
	 * The operation decides which member of a union is meant; arg32, arg64 and arg_addr stand
	 * for any of them.
	 */
	union {
		uint32_t item_flags; /* PUT, ARITH with CREATE: stored with the value */
		uint32_t first_line; /* STATS: the first line wanted */
		uint32_t length;     /* GET alone: most bytes to return, 0: as many as fit */
		uint32_t keys_max;   /* SCAN: most keys wanted, 0: as many as fit */
		uint32_t count;	     /* BATCH: requests in it, 1 to WIRE_BATCH_MAX */
		uint32_t every;	     /* REPORT sample: one operation in this many, not 0 */
		uint32_t arg32;
	};
	union {
		uint64_t version; /* PUT cas and copy, DELETE with IF_VERSION: the item's */
		uint64_t epoch;	  /* MOVE begin; FLEET */
		uint64_t pin;	  /* PUT with PIN: seconds, 1 to WIRE_TTL_MAX */
		uint64_t delta;	  /* ARITH */
		uint64_t cursor;  /* SCAN, CLIENTS, REPORT but reset, CONFIG get: 0 to start */
		uint64_t ticket;  /* FLUSH: 0 to start a flush, or to cancel all */
		uint64_t client;  /* KILL: the id of a connection, as CLIENTS has it */
		uint64_t offset;  /* GET alone, MAP: the first byte to return */
		uint64_t bytes;	  /* TENANT create and resize: its memory */
		uint64_t segment; /* MOVE clear */
		uint64_t counter; /* MOVE end: the highest of the sender's versions, shifted */
		uint64_t arg64;
	};
	union {
		uint64_t pull_addr;  /* PUT with PULL: the value, in the client's memory */
		uint64_t initial;    /* ARITH with CREATE: the number that is stored */
		uint64_t generation; /* MOVE begin */
		uint64_t arg_addr;
	};
	uint32_t pull_rkey;
	uint32_t ttl; /* seconds to live, 0: forever (PUT but append and prepend, TOUCH, ARITH
			 with CREATE); FLUSH: its delay in seconds */
	uint16_t flags;
	uint16_t access_count; /* access records after all else: struct wire_access */
	union {
		uint32_t change; /* low 32 bits of its number, or 0: see wire_change_next() */
		uint32_t use;	 /* PUT copy: wire_use_pack() */
	};
};
static_assert(sizeof(struct wire_request) == 48, "ABI");
static_assert(offsetof(struct wire_request, value_len) == 4, "ABI");
static_assert(offsetof(struct wire_request, arg32) == 12, "ABI");
static_assert(offsetof(struct wire_request, arg64) == 16, "ABI");
static_assert(offsetof(struct wire_request, arg_addr) == 24, "ABI");
static_assert(offsetof(struct wire_request, ttl) == 36, "ABI");
static_assert(offsetof(struct wire_request, flags) == 40, "ABI");
static_assert(offsetof(struct wire_request, change) == 44, "ABI");

/*
 * A client that has an identity numbers its changes in the order of submission, from 1. Numbers
 * whose low 32 bits are 0 are left out, since 0 says that a request has none. A number near by
 * tells which one is meant: wire_change_near().
 */
static inline uint64_t wire_change_next(uint64_t number)
{
	number++;
	return (uint32_t)number ? number : number + 1;
}

/* The number with the low bits @change closest to @number; 0 or more than @number if below 1. */
static inline uint64_t wire_change_near(uint64_t number, uint32_t change)
{
	return number + (uint64_t)(int64_t)(int32_t)(change - (uint32_t)number);
}

/* The low bits of the @n-th number after the one with the low bits @change; @n is small. */
static inline uint32_t wire_change_of(uint32_t change, uint32_t n)
{
	return change + n < change ? change + n + 1 : change + n;
}

/* GETs that the client did by READ since its last report, for the statistics. */
struct wire_gets {
	uint32_t hits;
	uint32_t misses;
};
static_assert(sizeof(struct wire_gets) == 8, "ABI");

/* An access record: the item of this hash was used, or was not there. */
struct wire_access {
	uint32_t hash; /* its low 32 bits: enough for the number of any bucket */
	uint16_t hits; /* GETs that the record stands for; 0: one that missed */
	uint16_t tag;
};
static_assert(sizeof(struct wire_access) == 8, "ABI");
static_assert(offsetof(struct wire_access, hits) == 4, "ABI");
static_assert(offsetof(struct wire_access, tag) == 6, "ABI");
static_assert(REGION_BYTES_MAX / BUCKET_BYTES <= 1ull << 32, "ABI");

static inline struct wire_access wire_access_make(uint64_t hash, uint32_t hits)
{
	return (struct wire_access){ .hash = (uint32_t)hash,
				     .hits = (uint16_t)(hits < UINT16_MAX ? hits : UINT16_MAX),
				     .tag = hash_tag(hash) };
}

/* The hash without its middle bits, which choose no bucket. */
static inline uint64_t wire_access_hash(struct wire_access record)
{
	return (uint64_t)record.tag << 48 | record.hash;
}

#define WIRE_ACCESS_BYTES sizeof(struct wire_access)

/*
 * The sample, in the upper bits of wire_response.tick. 0: none; n: the client reports each GET by
 * READ, hit or miss, of keys whose hash has n - 1 low bits of 0.
 */
#define WIRE_SAMPLE_SHIFT 11

/* The bits that are 0 in the hashes of sampled keys; all bits, if there is no sample. */
static inline uint64_t wire_sample_mask(uint16_t tick)
{
	uint16_t sample = tick >> WIRE_SAMPLE_SHIFT;

	return sample ? (1ull << (sample - 1)) - 1 : UINT64_MAX;
}

#define WIRE_ACCESS_MAX 96u /* records in a message */
/* A welcome asks for at least one hit in this many; fewer would not show what is in use. */
#define WIRE_ACCESS_RATE_MAX 1024u

/* Flushes with a delay that may wait for their time, of all clients and of one. */
#define WIRE_FLUSHES_LATER_MAX 56
#define WIRE_FLUSHES_OWNER_MAX 8

/* Bytes of GETs and access records in a request with @flags and @access_count records. */
static inline uint32_t wire_report_bytes(uint32_t flags, uint32_t access_count)
{
	return (flags & WIRE_F_GETS ? (uint32_t)sizeof(struct wire_gets) : 0) +
	       access_count * (uint32_t)WIRE_ACCESS_BYTES;
}

/*
 * A request of a BATCH. It is followed by arg64 and arg_addr, 8 bytes each, where the operation
 * uses them, its key and its value, without padding; then the next request. Allowed are PING, GET
 * without flags, PUT without PULL, DELETE, ARITH and TOUCH without VALUE.
 */
struct wire_batched {
	uint8_t op;
	uint8_t mode;
	uint16_t key_len;
	uint16_t value_len;
	uint16_t flags;
	uint32_t arg32;
	uint32_t ttl;
};
static_assert(sizeof(struct wire_batched) == 16, "ABI");
static_assert(offsetof(struct wire_batched, value_len) == 4, "ABI");
static_assert(offsetof(struct wire_batched, arg32) == 8, "ABI");

/* Requests in a BATCH: their results fit any client's receive buffer. */
#define WIRE_BATCH_MAX 32u

/* The longest time to live and delay: 34 years, so that expiry times fit in 32 bits. */
#define WIRE_TTL_MAX (1u << 30)

/*
 * The change was executed when it was first sent: this is its answer from that time, without the
 * value of a TOUCH with VALUE.
 */
#define WIRE_R_REPEATED 0x01u
/* BUSY because no more may be pinned now: PUT with PIN, or a change of a pinned item. */
#define WIRE_R_PINS 0x02u

struct wire_response {
	uint8_t op; /* the request's */
	uint8_t status;
	uint16_t flags;
	uint32_t id;	    /* the request's */
	uint32_t value_len; /* bytes that follow */
	/* As in the request, the operation decides which member is meant. */
	union {
		uint32_t item_flags; /* GET, TOUCH with VALUE: the item's */
		uint32_t next_line;  /* STATS: the next line's number, 0: none */
		uint32_t entries;    /* SCAN: entries that follow; BATCH: results */
		uint32_t arg32;
	};
	union {
		uint64_t version; /* GET, PUT, ARITH, TOUCH: the item's */
		uint64_t epoch;	  /* MAP, MOVE, FLEET; MOVED, AWAY: the server's map */
		uint64_t ticket;  /* FLUSH */
	};
	union {
		uint64_t slot;	    /* PUT, ARITH: the item's slot now */
		uint64_t value_sum; /* GET, TOUCH with VALUE: the item's, if the client may READ */
	};
	union {
		/*
		 * ARITH; GET, TOUCH with VALUE: the whole value's length; MAP: the whole map's;
		 * REVOKE: connections; FLUSH that cancels: flushes; MOVE end: a create_revision
		 */
		uint64_t result;
		uint64_t cursor; /* SCAN, CLIENTS: of the next part, 0: none */
		uint64_t arg64;
	};
	uint64_t clock_ns; /* the server's clock, since 1970, when the request was executed */
	uint32_t expires;  /* GET, PUT, ARITH, TOUCH: the item's */
	uint16_t window;   /* requests that the client may have outstanding; HELLO: 0 */
	uint16_t tick;	   /* ACCESS_TIME bits: the time in the access fields of items; sample */
};
static_assert(sizeof(struct wire_response) == 56, "ABI");
static_assert(offsetof(struct wire_response, window) == 52, "ABI");
static_assert(offsetof(struct wire_response, tick) == 54, "ABI");
static_assert(offsetof(struct wire_response, version) == 16, "ABI");
static_assert(offsetof(struct wire_response, slot) == 24, "ABI");
static_assert(offsetof(struct wire_response, arg64) == 32, "ABI");
static_assert(offsetof(struct wire_response, clock_ns) == 40, "ABI");

/* How the server notes the use of an entry's item. */
enum wire_use {
	WIRE_USE_NONE = 0,   /* not asked for: the other fields are 0 */
	WIRE_USE_NORMAL = 1, /* @uses and @age */
	WIRE_USE_LOW = 2,    /* low priority: @age, since it was stored */
	WIRE_USE_PINNED = 3, /* neither */
	WIRE_USE_MAX = WIRE_USE_PINNED,
};
#define WIRE_USES_MAX 0x7fffu
#define WIRE_AGE_MAX 0x3fffu
#define WIRE_AGE_MEMORY ACCESS_TICKS /* the age at which the whole memory was added once */

/*
 * How an item that is copied to another member was used: `use` in the two upper bits, then `uses`,
 * then `age`, as in struct wire_entry. Of a pinned item `age` is the time that its pin has left, in
 * units of WIRE_PIN_UNIT_S, and `uses` is 1 if it has low priority after that.
 */
static inline uint32_t wire_use_pack(enum wire_use use, uint32_t uses, uint32_t age)
{
	return (uint32_t)use << 30 | (uses & WIRE_USES_MAX) << 14 | (age & WIRE_AGE_MAX);
}
#define WIRE_PIN_UNIT_S 2u

/* SCAN's response: entries one after another without padding: this struct, key, value. */
struct wire_entry {
	uint64_t version;
	uint32_t value_len;  /* of the item's value */
	uint32_t value_sent; /* bytes of it that follow: all or, if they do not fit, none */
	uint32_t item_flags;
	uint32_t expires;
	uint16_t key_len;
	uint16_t use;  /* enum wire_use; not 0 with WIRE_F_USES, else 0 */
	uint16_t uses; /* approximate; WIRE_USES_MAX at most */
	uint16_t age;  /* since the last use, in memory added; WIRE_AGE_MAX at most */
};
static_assert(sizeof(struct wire_entry) == 32, "ABI");
static_assert(offsetof(struct wire_entry, use) == 26, "ABI");
static_assert(offsetof(struct wire_entry, uses) == 28, "ABI");
static_assert(offsetof(struct wire_entry, age) == 30, "ABI");

/*
 * BATCH's response: a result for each request, in their order, followed by the value for a GET. A
 * GET whose value does not fit the response has the status TOO_LARGE.
 */
struct wire_result {
	uint8_t op; /* the request's */
	uint8_t status;
	uint16_t flags;	  /* WIRE_R_REPEATED, WIRE_R_PINS */
	uint32_t expires; /* GET, PUT, ARITH, TOUCH: the item's */
	uint64_t version; /* likewise */
	union {
		uint64_t slot;	    /* PUT, ARITH: the item's slot now */
		uint64_t value_sum; /* GET: as in struct wire_response */
	};
	union {
		uint64_t result; /* ARITH */
		struct {
			uint32_t item_flags; /* GET */
			uint32_t value_len;  /* GET: bytes that follow */
		};
	};
};
static_assert(sizeof(struct wire_result) == 32, "ABI");
static_assert(offsetof(struct wire_result, expires) == 4, "ABI");
static_assert(offsetof(struct wire_result, slot) == 16, "ABI");
static_assert(offsetof(struct wire_result, value_len) == 28, "ABI");

/* HELLO's value in the request. */
#define WIRE_IDENTITY_BYTES 16
struct wire_hello {
	uint64_t magic;
	uint32_t abi;
	uint32_t response_bytes; /* of the client's receive buffers, WIRE_RESPONSE_MIN or more */
	uint8_t identity[WIRE_IDENTITY_BYTES]; /* random, the client's secret; all 0: none */
	uint64_t change_next;		       /* the first change never sent; 0: no identity */
};
static_assert(sizeof(struct wire_hello) == 40, "ABI");
static_assert(offsetof(struct wire_hello, identity) == 16, "ABI");
static_assert(offsetof(struct wire_hello, change_next) == 32, "ABI");

/* HELLO's value in the response, if the status is WIRE_OK; else no value follows. */
struct wire_welcome {
	uint64_t magic;
	uint32_t abi;
	uint32_t window;	/* requests that the client may have outstanding at first */
	uint32_t request_bytes; /* longest message the server takes */
	uint32_t extents;	/* that the client may READ: the first ones */
	uint64_t region_addr;
	/*
	 * 1: the client may not READ: extents, region_addr, sum_key, extent_bytes and rkeys are 0,
	 * and GETs are requests.
	 */
	uint32_t by_request;
	uint32_t reserved;
	uint32_t access_rate;	  /* report one hit of this many at most; 0: none (no eviction) */
	uint32_t access_delay_ms; /* report no later than this, once the client calls again */
	/* For the identity in HELLO; all 0: none, or there is no room for it. */
	uint64_t change_last;	 /* the last change whose answer was recorded */
	uint32_t answers;	 /* the most unanswered changes of the client */
	uint32_t identity_known; /* 1: from an older connection, 0: new */
	/* The server's word, and who it is in the fleet; all 0: it is in none. */
	uint64_t fleet_generation;
	uint64_t fleet_epoch;
	uint64_t fleet_end_ns; /* struct fleet_word */
	char fleet_member[WIRE_TENANT_MAX];
	struct geometry geometry;
	struct sum_key sum_key; /* secret: for clients that may READ the region */
	uint64_t extent_bytes;	/* of each extent */
	uint32_t rkeys[EXTENTS_MAX];
};
static_assert(sizeof(struct wire_welcome) == 688, "ABI");
static_assert(offsetof(struct wire_welcome, region_addr) == 24, "ABI");
static_assert(offsetof(struct wire_welcome, access_rate) == 40, "ABI");
static_assert(offsetof(struct wire_welcome, change_last) == 48, "ABI");
static_assert(offsetof(struct wire_welcome, fleet_generation) == 64, "ABI");
static_assert(offsetof(struct wire_welcome, geometry) == 112, "ABI");
static_assert(offsetof(struct wire_welcome, sum_key) == 424, "ABI");
static_assert(offsetof(struct wire_welcome, extent_bytes) == 616, "ABI");

/* The value of a response to EXTENTS, whose `result` is the number of keys. */
struct wire_extents {
	uint32_t rkeys[EXTENTS_MAX];
};
static_assert(sizeof(struct wire_extents) == 64, "ABI");

/* Room for HELLO's response, and for one entry of a scan with the longest key. */
#define WIRE_RESPONSE_MIN (sizeof(struct wire_response) + sizeof(struct wire_entry) + KEY_MAX)
static_assert(sizeof(struct wire_welcome) <= sizeof(struct wire_entry) + KEY_MAX, "fits");
static_assert(sizeof(struct wire_response) + WIRE_BATCH_MAX * sizeof(struct wire_result) <=
		      WIRE_RESPONSE_MIN,
	      "fits");
#define WIRE_RESPONSE_MAX (64u << 10) /* the largest buffer that either side may have */
#define WIRE_REQUEST_MIN                                                                           \
	(sizeof(struct wire_request) + KEY_MAX + sizeof(struct wire_gets) +                        \
	 WIRE_ACCESS_MAX * WIRE_ACCESS_BYTES)
#define WIRE_WINDOW_MAX 256u

/* A request as the server uses it: checked. Its pointers point into the message. */
struct request {
	enum wire_op op;
	uint32_t id;
	const uint8_t *key; /* NULL if there is none; SCAN: the prefix */
	uint32_t key_len;
	const uint8_t *value; /* NULL with pull, or if there is none */
	uint32_t value_len;
	uint32_t flags; /* WIRE_F_* */
	uint8_t mode;
	/* As in struct wire_request. */
	union {
		uint32_t item_flags, first_line, length, keys_max, count, every, arg32;
	};
	union {
		uint64_t version, epoch, pin, delta, cursor, ticket, client, offset, bytes, segment,
			counter, arg64;
	};
	union {
		uint64_t pull_addr, initial, generation, arg_addr;
	};
	uint32_t pull_rkey;
	uint32_t ttl;
	uint32_t use; /* PUT copy: wire_use_pack() */
	struct wire_gets gets;
	const uint8_t *access; /* records, not aligned */
	uint32_t access_count;
	bool no_use;	   /* GET: no use of the item; not from the wire */
	bool expects;	   /* PUT append and prepend, ARITH: only if the item has the */
	uint64_t expected; /* version `expected`, else EXISTS; not from the wire */
	uint32_t change;   /* 0: not numbered */
	uint32_t numbered; /* BATCH: requests in it that have a number if it has one */
};

static inline struct wire_access request_access(const struct request *request, uint32_t i)
{
	struct wire_access record;

	__builtin_memcpy(&record, request->access + (size_t)i * sizeof(record), sizeof(record));
	return record;
}

/* Whether the request reports GETs. */
static inline bool request_reports(const struct request *request)
{
	return request->access_count || request->gets.hits || request->gets.misses;
}

/* Bytes after the value in the request's message. */
static inline uint32_t request_report_bytes(const struct request *request)
{
	return wire_report_bytes(request->flags, request->access_count);
}

/*
 * Checks the message of @len bytes at @msg and decodes it to @out. Returns NULL; or a static string
 * that says what is wrong, and leaves @out undefined.
 */
const char *wire_request_parse(struct request *out, const void *msg, size_t len);

/*
 * Decodes the request at *@at of the @len bytes at @requests, which are the value of a BATCH, and
 * moves *@at to its end. Returns NULL or what is wrong with it. wire_request_parse() has checked
 * all of a BATCH that it accepted.
 */
const char *wire_batched_parse(struct request *out, const void *requests, size_t len, size_t *at);

/* Whether a request has a number in a BATCH that is numbered (with its first request's number). */
static inline bool wire_batched_numbered(enum wire_op op)
{
	return op != WIRE_GET;
}

/*
 * Writes @request, which may be in a BATCH, to @to, where it takes wire_batched_bytes(). Its key
 * and value are copied.
 */
void wire_batched_write(const struct request *request, void *to);
size_t wire_batched_bytes(const struct request *request);

/* A response as the client uses it. */
struct response {
	enum wire_op op;
	enum wire_status status;
	uint32_t id;
	uint32_t flags;
	/* As in struct wire_response. */
	union {
		uint32_t item_flags, next_line, entries, arg32;
	};
	union {
		uint64_t version, epoch, ticket;
	};
	union {
		uint64_t slot, value_sum;
	};
	union {
		uint64_t result, cursor, arg64;
	};
	uint64_t clock_ns;
	uint32_t expires;
	uint32_t window; /* WIRE_WINDOW_MAX at most */
	uint16_t tick;
	const uint8_t *value;
	uint32_t value_len; /* bytes at value */
};

const char *wire_response_parse(struct response *out, const void *msg, size_t len);

/*
 * Decodes the result at *@at of the @len bytes at @results, which are the value of the response to
 * a BATCH, and moves *@at to its end. Returns NULL or what is wrong with it.
 */
const char *wire_result_parse(struct response *out, const void *results, size_t len, size_t *at);

/* An entry of a SCAN's response. */
struct scan_entry {
	const uint8_t *key;
	uint32_t key_len;
	const uint8_t *value; /* NULL: did not fit, or was not asked for, and is not empty */
	uint32_t value_len;   /* of the item's value */
	uint32_t item_flags;
	uint32_t expires;
	uint64_t version;
	enum wire_use use;
	uint32_t uses;
	uint32_t age;
};

/*
 * Decodes the entry at *@at of the @len bytes at @entries and moves *@at to its end. Returns NULL
 * or what is wrong with it.
 */
const char *wire_entry_parse(struct scan_entry *out, const void *entries, size_t len, size_t *at);

/*
 * Checks a geometry that a server sent, so that no offset computed from it is outside the region.
 * Returns NULL or what is wrong with it.
 */
const char *geometry_check(const struct geometry *g);

const char *wire_op_name(enum wire_op op);
/* As common/PROTOCOL.md names them, in capitals: "NOT_FOUND"; "unknown" if there is none. */
const char *wire_status_name(enum wire_status status);

/* The message for different ABIs: says both, and which side to update. */
void wire_abi_text(char text[WIRE_REJECT_TEXT_BYTES], uint32_t client_abi, uint32_t server_abi);

#endif /* KVD_COMMON_WIRE_H */
