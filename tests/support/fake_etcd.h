/* SPDX-License-Identifier: MIT */
/*
 * A peer on loopback that does to each HTTP request what the test has planned for it: a stand-in
 * for an etcd, and for what is none. It serves one connection at a time, in a thread of its own.
 *
 * Threads: the test's one thread makes all calls, except fake_etcd_await().
 */
#ifndef KVD_TESTS_SUPPORT_FAKE_ETCD_H
#define KVD_TESTS_SUPPORT_FAKE_ETCD_H

#include <stddef.h>

struct fake_etcd;

/* A step for the next request for which none is planned yet. */
struct fake_step {
	enum {
		FAKE_ANSWER, /* HTTP/1.1, @status, with @text; the connection is kept */
		FAKE_RAW,    /* these bytes, then the end of the connection */
		FAKE_CUT,    /* the end of the connection */
		FAKE_HOLD,   /* nothing, until the peer ends the connection */
		FAKE_FLOOD,  /* @text again and again, until the peer ends the connection */
		FAKE_DEAF,   /* the body is not read, and nothing is sent */
	} kind;
	int status;
	const char *text; /* stays the caller's, and valid */
	size_t length;	  /* 0: up to its zero byte */
};

struct fake_etcd *fake_etcd_start(void);
void fake_etcd_stop(struct fake_etcd *fake);
/* "http://127.0.0.1:PORT" */
const char *fake_etcd_url(const struct fake_etcd *fake);
void fake_etcd_plan(struct fake_etcd *fake, const struct fake_step *step);
/* FAKE_ANSWER */
void fake_etcd_answer(struct fake_etcd *fake, int status, const char *text);
/* How many requests have come, whole ones and the heads of those for FAKE_DEAF. */
unsigned int fake_etcd_count(struct fake_etcd *fake);
/* Waits for that many requests. */
void fake_etcd_await(struct fake_etcd *fake, unsigned int count);
/* The text of a request, head and body, cut at 64 KiB. */
const char *fake_etcd_request(struct fake_etcd *fake, unsigned int number);
/* Fails the test if steps are left over. */
void fake_etcd_assert_done(struct fake_etcd *fake);

/* The URL of a port at which nobody listens until fake_etcd_nobody_end(). */
const char *fake_etcd_nobody(void);
void fake_etcd_nobody_end(void);

#endif /* KVD_TESTS_SUPPORT_FAKE_ETCD_H */
