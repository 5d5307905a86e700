/* SPDX-License-Identifier: MIT */
/*
 * A fake server with one client handle, for states that a real server is in only rarely: splits
 * that are half published, epochs that change, a clock at the edge of an expiry time, responses
 * that do not come. The test lays out the region and decides about the responses.
 *
 * The store is a list of keys of 8 bytes; fake_server_lay_out() builds the index from it. The
 * handle's work requests are carried out in the caller's thread when they are posted
 * (tests/support/fake_device.h).
 */
#ifndef KVD_TESTS_SUPPORT_FAKE_SERVER_H
#define KVD_TESTS_SUPPORT_FAKE_SERVER_H

#include "tests/support/fake_device.h"

#define FAKE_SERVER_REGION_BYTES (1u << 20)
#define FAKE_SERVER_KEYS_MAX 512u
#define FAKE_SERVER_BUFFER_BYTES 2048u
#define FAKE_SERVER_QUEUE_MAX 64u
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
	struct sum_key sum_key;
	struct geometry geometry; /* of the index; the superblock has the published one */
	struct fake_server_key keys[FAKE_SERVER_KEYS_MAX];
	unsigned int key_count;
	uint64_t items_end;    /* items grow up from the middle of the region */
	uint64_t overflow_end; /* overflow buckets down from its end */
	uint16_t epoch;	       /* of all buckets */
	uint64_t clock_ns;     /* the server's; the test sets it */
	struct wire_welcome welcome;
	unsigned int hellos; /* received so far */

	unsigned int requests, pings, gets; /* received so far */
	unsigned int access_messages, access_records;
	unsigned int get_hits, get_misses; /* that the client reported */
	unsigned int outstanding_max;	   /* requests without a response at the same time */
	uint64_t last_access;		   /* the last record */
	unsigned int last_hits;		   /* its hits */
	uint16_t tick;			   /* of responses */
	bool hold_access; /* hold the response to ACCESS back until fake_server_release() */
	struct wire_response held;
	uint64_t late_ns; /* not 0: responses come so long after their requests */
	uint64_t due_ns;
	bool holding;	  /* @held is valid */
	bool hold_all;	  /* hold all responses back until fake_server_answer() */
	bool answer_idle; /* which is done for one when the handle polls and finds nothing */
	struct fake_server_response {
		struct wire_response head;
		uint8_t value[FAKE_SERVER_BUFFER_BYTES];
	} queue[FAKE_SERVER_QUEUE_MAX];
	unsigned int queued;
	uint32_t batch_value_max; /* longer ones do not fit a batch's response */
	unsigned int batches;	  /* received so far */

	/* Hooks; each may be NULL. */
	void (*before_read)(struct fake_server *server, uint64_t offset, uint32_t bytes);
	void (*after_read)(struct fake_server *server, uint64_t offset, uint8_t *to,
			   uint32_t bytes);
	void (*before_response)(struct fake_server *server, struct wire_response *response);
	/* May change what HELLO is answered. */
	void (*greet)(struct fake_server *server, struct wire_welcome *welcome);
	/* For requests other than PING, GET and ACCESS: fills in the response and its value. */
	void (*respond)(struct fake_server *server, const struct request *request,
			struct wire_response *response, uint8_t *value);
};

/*
 * Creates an empty store of 2^@level buckets, and a handle that is connected to it and does not
 * connect again, unless the test sets options.reconnect afterwards;
 * kvd_close() of the handle frees it.
 */
struct fake_server *fake_server_open(uint32_t level, uint32_t window, uint32_t access_rate,
				     uint32_t access_delay_ms, const struct kvd_options *options);

/* Stores a value of @len bytes, each equal to the key's low byte, and lays out the index. */
void fake_server_put(struct fake_server *server, uint64_t key, uint32_t len, uint32_t expires);
void fake_server_delete(struct fake_server *server, uint64_t key);
/* Returns the item of @key, which must exist. */
struct item *fake_server_item(const struct fake_server *server, uint64_t key);
/* Computes the sum of the key's item again, after the test has changed the item. */
void fake_server_seal(struct fake_server *server, uint64_t key);

/*
 * Splits @count buckets, raises the level when all of one are split, and lays out the index. The
 * superblock keeps the geometry that was published last.
 */
void fake_server_split(struct fake_server *server, unsigned int count);
void fake_server_publish(struct fake_server *server);
void fake_server_lay_out(struct fake_server *server);

/* Sends the oldest @count responses that were held back by hold_all. */
void fake_server_answer(struct fake_server *server, unsigned int count);

/* Sends the response to ACCESS that was held back, if there is one. */
void fake_server_release(struct fake_server *server);

/*
 * Stops and starts again: an empty store with another incarnation and hash seed. The handle is
 * told nothing.
 */
void fake_server_restart(struct fake_server *server);

uint64_t fake_server_hash(const struct fake_server *server, uint64_t key);

#endif /* KVD_TESTS_SUPPORT_FAKE_SERVER_H */
