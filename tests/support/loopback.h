/* SPDX-License-Identifier: MIT */
/*
 * Loopback client: a client handle on a store in the same process, without a server or a device
 * between them, for tests of libkvd against the storage engine. All of libkvd's one-sided and
 * two-sided code runs; its work requests are carried out when they are posted
 * (tests/support/fake_device.h). A READ copies from a second, read-only mapping of the region's
 * file; a SEND is parsed and executed on the table at once, as by server/worker/request.c and
 * server/worker/pull.c.
 *
 * The hooks are called where another client's change matters, so that a test can make one exactly
 * there. With `scatter` set, READs copy pieces of random lengths in random order and sometimes
 * yield the CPU between two, since the order in which a device reads memory is undefined.
 */
#ifndef KVD_TESTS_SUPPORT_LOOPBACK_H
#define KVD_TESTS_SUPPORT_LOOPBACK_H

#include "tests/support/fake_device.h"
#include "tests/support/store_fixture.h"

/* The size of request and response buffers; a server grants it by default. */
#define LOOPBACK_BUFFER_BYTES 2048u

struct loopback {
	struct kvd kvd; /* first: kvd_close() frees it */
	struct fake_device fake;
	struct store *store;
	struct store_thread *thread;
	const uint8_t *region; /* PROT_READ */
	uint64_t random;
	bool scatter;
	/* Bytes that the handle can still READ by the call itself; 0: none. */
	uint64_t now_bytes;

	/*
	 * Each may be NULL. @to holds the bytes that were READ, to the first memory that they go
	 * to; @response is not yet sent.
	 */
	void (*before_read)(struct loopback *loopback, uint64_t offset, uint32_t bytes);
	void (*after_read)(struct loopback *loopback, uint64_t offset, uint8_t *to, uint32_t bytes);
	void (*before_request)(struct loopback *loopback, const struct request *request);
	void (*before_response)(struct loopback *loopback, struct wire_response *response);
	void *arg; /* for the hooks */
};

/*
 * Creates a handle whose requests are executed as store thread number @thread, which the caller may
 * not use otherwise. Call kvd_close() on it before the store is destroyed. @options may be NULL.
 * Exits the process on failure.
 */
struct loopback *loopback_open(struct store *store, unsigned int thread,
			       const struct kvd_options *options);

#endif /* KVD_TESTS_SUPPORT_LOOPBACK_H */
