/* SPDX-License-Identifier: MIT */
/*
 * Sessions of memcached's protocol on a worker without a thread, for tests: over the worker fixture
 * stands the front of server/memcached/sockets.h. Each session has one end of a socketpair(2), the
 * test the other one. The test takes the turns, and decides when the control thread answers and
 * when the maintenance thread flushes.
 */
#ifndef KVD_TESTS_SUPPORT_SESSION_FIXTURE_H
#define KVD_TESTS_SUPPORT_SESSION_FIXTURE_H

#include "server/memcached/session.h"

#define TEST_SESSIONS 2

struct test_session {
	struct session *session; /* NULL: it has ended, and was freed */
	int fd;			 /* the client's end, which does not block; -1: closed */
	bool asked;		 /* the control thread has to answer */
};

extern struct test_session test_sessions[TEST_SESSIONS];

/* @pull_share and @output_share: bytes of large values that come in, and that go out. */
void test_sessions_create(uint64_t region_bytes, uint64_t value_max, uint64_t pull_share,
			  uint64_t output_share);
/* All sessions have ended. Nothing is left of them, or the test fails. */
void test_sessions_destroy(void);

/*
 * Starts session @i. Its client may have to authenticate first, with any user and the password
 * "right". @send_bytes: of the session's socket; 0: the kernel's choice.
 */
void test_session_open(unsigned int i, uint32_t key_max, bool locked, int send_bytes);
/* The client closes its end. */
void test_session_close(unsigned int i);
/* The control thread ends it. */
void test_session_cut(unsigned int i);

/* One turn of the worker, its mail included. False: there was nothing to do. */
bool test_sessions_turn(void);
/* Turns until there is nothing to do; fails if that takes more than @turns_max. */
void test_sessions_rest(unsigned int turns_max);
/* The control thread answers all sessions that ask. */
void test_sessions_answer(void);
/* Whether a session waits for a flush. */
bool test_sessions_flushing(void);
/* Runs the maintenance thread until the flushes that sessions wait for are done. */
void test_sessions_flush(void);

#endif /* KVD_TESTS_SUPPORT_SESSION_FIXTURE_H */
