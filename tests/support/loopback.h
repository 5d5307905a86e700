/* SPDX-License-Identifier: MIT */
/*
 * A client handle on a store in this very process, without a server or a device between them: the
 * whole of libkvd's one-sided and two-sided code runs over verbs that are done here when they are
 * posted. A READ copies from a second, read-only mapping of the region's file; a SEND is parsed and
 * executed on the table at once, as server/net/request.c and server/net/pull.c would.
 *
 * Hooks stand at the points where another client's change would matter, so that a test can put it
 * exactly there. With `odd` set, READs copy in odd pieces in any order and yield the CPU between
 * them, since the order in which a device reads memory is not defined.
 */
#ifndef KVD_TESTS_SUPPORT_LOOPBACK_H
#define KVD_TESTS_SUPPORT_LOOPBACK_H

#include "tests/support/fake_device.h"
#include "tests/support/store_fixture.h"

/* What the server would grant by default; request and response buffers are of one size. */
#define LOOPBACK_BUFFER_BYTES 2048u

struct loopback {
	struct kvd kvd; /* first: kvd_close() frees it */
	struct fake_device fake;
	struct store *store;
	struct store_thread *thread;
	const uint8_t *region; /* PROT_READ */
	struct item *copy;     /* of the last GET that needed one */
	uint64_t copy_seed;
	uint64_t random;
	bool odd;

	/* Any may be NULL. @to is what was read; @response what is to be sent. */
	void (*before_read)(struct loopback *loopback, uint64_t offset, uint32_t bytes);
	void (*after_read)(struct loopback *loopback, uint64_t offset, uint8_t *to, uint32_t bytes);
	void (*before_request)(struct loopback *loopback, const struct request *request);
	void (*before_response)(struct loopback *loopback, struct wire_response *response);
	void *arg; /* the hooks' own */
};

/*
 * Makes a handle whose requests are done by thread @thread of @store, which nobody else may use. To
 * be given to kvd_close() before the store goes. @options may be NULL. Ends the process if it can't.
 */
struct loopback *loopback_open(struct store *store, unsigned int thread,
			       const struct kvd_options *options);

#endif /* KVD_TESTS_SUPPORT_LOOPBACK_H */
