/* SPDX-License-Identifier: MIT */
/*
 * Each call of libkvd that takes a handle and returns a status, for tests that expect one result of
 * many calls: on a lost connection, in a child process, of a server that refuses. One thread at a
 * time.
 */
#ifndef KVD_TESTS_SUPPORT_CALLS_H
#define KVD_TESTS_SUPPORT_CALLS_H

#include "tests/support/fake_server.h"

/* Bytes of the value of key 1; the values of 2 and 3 have 20. There is no key 0. */
#define CALLS_LARGE_BYTES 200000u

enum call_kind {
	CALL_LOOKUP,  /* by READs */
	CALL_REQUEST, /* a request that changes nothing */
	CALL_CHANGE,  /* a request that changes keys */
	CALL_KILL,
	CALL_LOCAL, /* it does not wait for the server */
};

struct call {
	const char *name;
	enum call_kind kind;
	enum kvd_status (*run)(struct kvd *kvd);
};

extern const struct call calls[];
extern const unsigned int call_count;

/*
 * A server with the keys that the calls ask for, which answers as calls_respond() does, and a
 * handle that is connected to it.
 */
struct fake_server *calls_open(void);

/* A test's teardown: closes the handle of the last calls_open(). */
int calls_close(void **state);

/* Within a test: ends its handle and runs @setup again, so that each call has a new one. */
void calls_anew(void **state, int (*setup)(void **state));

/*
 * Whether none of the calls since calls_reset() has written a result to its caller: neither a
 * length, an item, a version nor a number. What counts keys was set to 0.
 */
bool calls_untouched(void);
void calls_reset(void);

/* The statuses of the keys of a call that asks for many, each of which is not @status. */
unsigned int calls_others(enum kvd_status status);

/* What a server that does all it is asked for answers. */
void calls_respond(struct fake_server *server, const struct request *request,
		   struct wire_response *response, uint8_t *value);

#endif /* KVD_TESTS_SUPPORT_CALLS_H */
