/* SPDX-License-Identifier: MIT */
/*
 * The messages between client and server; common/PROTOCOL.md says the same in prose.
 *
 *	connect request	 struct wire_connect in the private data of rdma_cm
 *	reject		 struct wire_reject in the private data
 *	request		 struct wire_request, key, value		client -> server, one SEND
 *	response	 struct wire_response, value			server -> client, one SEND
 *
 * The first request is HELLO. Any other before it, and anything that wire_request_parse() refuses,
 * costs the client its connection. All integers are little-endian.
 */
#ifndef KVD_COMMON_WIRE_H
#define KVD_COMMON_WIRE_H

#include "common/layout.h"

#define WIRE_ABI 1
#define WIRE_MAGIC 0x31306b7376646b00ull

struct wire_connect {
	uint64_t magic;
	uint32_t abi;
	uint32_t bytes; /* of this struct: private data arrives padded */
};
static_assert(sizeof(struct wire_connect) == 16, "ABI");

enum wire_reject_reason {
	WIRE_REJECT_VERSION = 1, /* not kvd, or another ABI */
	WIRE_REJECT_FULL = 2,	 /* max_connections, or no window left to grant */
	WIRE_REJECT_STOPPING = 3,
	WIRE_REJECT_ERROR = 4, /* the server could not set the connection up */
};

struct wire_reject {
	uint64_t magic;
	uint32_t abi; /* the server's */
	uint32_t reason;
	char text[96]; /* zero-terminated */
};
static_assert(sizeof(struct wire_reject) == 112, "ABI");

enum wire_op {
	WIRE_HELLO = 1,
	WIRE_PING = 2,
	WIRE_GET = 3,
	WIRE_PUT = 4,
	WIRE_DELETE = 5,
	WIRE_STATS = 6,
	WIRE_OP_MAX = WIRE_STATS,
};

/* The numbers are those of the same names in client/kvd.h. */
enum wire_status {
	WIRE_OK = 0,
	WIRE_NOT_FOUND = 1,
	WIRE_TOO_LARGE = 3,
	WIRE_NO_SPACE = 5,
	WIRE_PROTOCOL = 12,
	WIRE_BUSY = 13,
};

/* PUT: the value is not in the message; the server READs it from pull_addr with pull_rkey. */
#define WIRE_F_PULL 0x01u
#define WIRE_F_ALL WIRE_F_PULL

struct wire_request {
	uint8_t op;
	uint8_t flags;
	uint16_t key_len;
	uint32_t value_len;  /* bytes of value; behind the key unless WIRE_F_PULL */
	uint32_t id;	     /* comes back in the response */
	uint32_t item_flags; /* PUT: stored with the value; STATS: number of the first line wanted */
	uint64_t pull_addr;
	uint32_t pull_rkey;
	uint32_t reserved; /* 0 */
};
static_assert(sizeof(struct wire_request) == 32, "ABI");
static_assert(offsetof(struct wire_request, value_len) == 4, "ABI");
static_assert(offsetof(struct wire_request, pull_addr) == 16, "ABI");

/*
 * GET whose value does not fit in a response: the item was copied, and the copy is at `slot`, to be
 * READ; its sum is made with `seed` for an incarnation. It stands until the next request.
 */
#define WIRE_R_COPY 0x01u

struct wire_response {
	uint8_t op; /* the request's */
	uint8_t status;
	uint16_t flags;
	uint32_t id;	     /* the request's */
	uint32_t value_len;  /* GET: of the value, even if it does not follow; else what follows */
	uint32_t item_flags; /* GET: the item's; STATS: the next line's number, 0 = that was all */
	uint64_t version;    /* GET, PUT: the item's */
	uint64_t slot; /* PUT: what now leads to the item; GET with WIRE_R_COPY: to the copy */
	uint64_t seed; /* GET with WIRE_R_COPY */
};
static_assert(sizeof(struct wire_response) == 40, "ABI");
static_assert(offsetof(struct wire_response, version) == 16, "ABI");
static_assert(offsetof(struct wire_response, slot) == 24, "ABI");

/* HELLO's value in the request. */
struct wire_hello {
	uint64_t magic;
	uint32_t abi;
	uint32_t response_bytes; /* size of the client's receive buffers, WIRE_RESPONSE_MIN or more */
	uint64_t features;	 /* none is defined: 0 */
};
static_assert(sizeof(struct wire_hello) == 24, "ABI");

/* HELLO's value in the response, if the status is WIRE_OK; else nothing follows. */
struct wire_welcome {
	uint64_t magic;
	uint32_t abi;
	uint32_t window;	/* requests the client may have outstanding */
	uint32_t request_bytes; /* longest message the server takes */
	uint32_t rkey;
	uint64_t region_addr;
	uint64_t features;
	struct geometry geometry;
};
static_assert(sizeof(struct wire_welcome) == 352, "ABI");
static_assert(offsetof(struct wire_welcome, region_addr) == 24, "ABI");
static_assert(offsetof(struct wire_welcome, geometry) == 40, "ABI");

#define WIRE_RESPONSE_MIN (sizeof(struct wire_response) + sizeof(struct wire_welcome))
#define WIRE_RESPONSE_MAX (64u << 10) /* what either side may configure for a buffer */
#define WIRE_REQUEST_MIN (sizeof(struct wire_request) + KEY_MAX)
#define WIRE_WINDOW_MAX 256u

/* A request as the server uses it: checked, and pointing into the message. */
struct request {
	enum wire_op op;
	uint32_t id;
	const uint8_t *key; /* NULL if the op has none */
	uint32_t key_len;
	const uint8_t *value; /* NULL with pull, or if there is none */
	uint32_t value_len;
	uint32_t item_flags;
	bool pull;
	uint64_t pull_addr;
	uint32_t pull_rkey;
};

/*
 * Checks the message of @len bytes at @msg and decodes it to @out. Returns NULL, or what is wrong
 * with it (a static string) and leaves @out undefined.
 */
const char *wire_request_parse(struct request *out, const void *msg, size_t len);

/* A response as the client uses it. */
struct response {
	enum wire_op op;
	enum wire_status status;
	uint32_t id;
	uint32_t flags;
	uint32_t item_flags;
	uint64_t version;
	uint64_t slot;
	uint64_t seed;
	const uint8_t *value;
	uint32_t value_len; /* bytes at value; with WIRE_R_COPY of the value in the copy */
};

const char *wire_response_parse(struct response *out, const void *msg, size_t len);

/*
 * Checks what a server says of its geometry, so that nothing computed from it leaves the region.
 * Returns NULL or what is wrong with it.
 */
const char *geometry_check(const struct geometry *g);

const char *wire_op_name(enum wire_op op);

#endif /* KVD_COMMON_WIRE_H */
