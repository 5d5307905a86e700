/* SPDX-License-Identifier: MIT */
/*
 * A client handle on a fake server: the test makes the region and the responses as it needs them.
 * For what a real server does only rarely: splits that are half published, epochs that change,
 * clocks at the edge of an expiry time, responses that do not come.
 *
 * The store is a list of keys of 8 bytes; fake_server_lay_out() makes the index from it. The
 * handle's calls run on verbs that are done here when they are posted, in this thread.
 */
#ifndef KVD_TESTS_SUPPORT_FAKE_SERVER_H
#define KVD_TESTS_SUPPORT_FAKE_SERVER_H

#include "tests/support/fake_device.h"

#define FAKE_SERVER_REGION_BYTES (1u << 20)
#define FAKE_SERVER_KEYS_MAX 512u
#define FAKE_SERVER_BUFFER_BYTES 2048u
/* The server's clock when the handle is made, in seconds. */
#define FAKE_SERVER_CLOCK_S 1000000u

struct fake_server_key {
	uint64_t key;
	uint64_t offset; /* of its item */
};

struct fake_server {
	struct kvd kvd; /* first: kvd_close() frees it */
	struct fake_device fake;

	uint8_t *region;
	struct geometry geometry; /* of the index; the superblock has what was published */
	struct fake_server_key keys[FAKE_SERVER_KEYS_MAX];
	unsigned int key_count;
	uint64_t items_end;    /* items grow up from the middle of the region */
	uint64_t overflow_end; /* overflow buckets down from its end */
	uint16_t epoch;	       /* of all buckets */
	uint64_t clock_ns;     /* the server's; the test sets it */

	unsigned int requests, pings, gets; /* seen */
	unsigned int access_messages, access_records;
	unsigned int outstanding_max; /* most requests without a response at a time */
	uint64_t last_access;	      /* the last record */
	bool hold_access;	      /* no response to ACCESS before fake_server_release() */
	struct wire_response held;
	bool holding;

	/* Any may be NULL. */
	void (*before_read)(struct fake_server *server, uint64_t offset, uint32_t bytes);
	void (*after_read)(struct fake_server *server, uint64_t offset, uint8_t *to,
			   uint32_t bytes);
	void (*before_response)(struct fake_server *server, struct wire_response *response);
	/* For requests other than PING, GET and ACCESS: fills in the response and its value. */
	void (*respond)(struct fake_server *server, const struct request *request,
			struct wire_response *response, uint8_t *value);
};

/* An empty store of 2^@level buckets. The caller ends it with kvd_close(). */
struct fake_server *fake_server_open(uint32_t level, uint32_t window, uint32_t access_rate,
				     uint32_t access_delay_ms, const struct kvd_options *options);

/* Stores a value of @len bytes, each the key's low byte, and lays the index out. */
void fake_server_put(struct fake_server *server, uint64_t key, uint32_t len, uint32_t expires);
void fake_server_delete(struct fake_server *server, uint64_t key);
/* The item of a key that exists. */
struct item *fake_server_item(const struct fake_server *server, uint64_t key);
/* Makes its sum right again. */
void fake_server_seal(struct fake_server *server, uint64_t key);

/* Splits @count buckets, which raises the level where it must. The superblock is unchanged. */
void fake_server_split(struct fake_server *server, unsigned int count);
void fake_server_publish(struct fake_server *server);
void fake_server_lay_out(struct fake_server *server);

/* Sends the response to ACCESS that was held back. */
void fake_server_release(struct fake_server *server);

/* The hash of a key. */
uint64_t fake_server_hash(const struct fake_server *server, uint64_t key);

#endif /* KVD_TESTS_SUPPORT_FAKE_SERVER_H */
