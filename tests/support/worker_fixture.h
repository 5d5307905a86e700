/* SPDX-License-Identifier: MIT */
/*
 * A worker without a thread, for tests: with a store, one poller and some connections. The device
 * is a table of functions that keep what was posted; the test decides when it completes.
 */
#ifndef KVD_TESTS_SUPPORT_WORKER_FIXTURE_H
#define KVD_TESTS_SUPPORT_WORKER_FIXTURE_H

#include "server/worker/response.h"
#include "server/worker/tenant.h"
#include "server/worker/worker.h"

#define TEST_RECVS 16
#define TEST_CONNS 3
#define TEST_WINDOW 4
#define TEST_BUFFER_BYTES 4096u
#define TEST_POSTED_MAX 64

struct test_conn {
	struct conn conn;
	struct principal principal;
	struct ibv_qp qp;
	struct ibv_send_wr reads[TEST_POSTED_MAX]; /* posted and not completed, oldest first */
	struct ibv_sge sges[TEST_POSTED_MAX];
	unsigned int read_count;
	struct ibv_send_wr bind;       /* of its memory window; wr_id 0: none was posted */
	uint64_t probe;		       /* the wr_id of a READ of no bytes, 0: none was posted */
	uint32_t ids[TEST_POSTED_MAX]; /* of all responses */
	unsigned int id_count;
	unsigned int responses; /* posted; the last one: */
	struct wire_response response;
	uint8_t value[TEST_BUFFER_BYTES];
	uint32_t value_len;
	uint64_t completes; /* wr_id of the last response that was signaled; 0: none */
};

extern struct store test_store;
extern struct worker test_worker;
extern struct tenant test_tenant;
extern struct late_principals test_late_principals;
/* The region of the tenant that all connections are in. */
extern struct ibv_mr test_tenant_mr; /* of the first extent */
extern struct ibv_mr *test_tenant_mrs[EXTENTS_MAX];
extern struct poller *const test_poller;
extern struct test_conn test_conns[TEST_CONNS];
extern uint64_t test_now_bytes;	       /* that the device can still READ without the client */
extern unsigned int test_now_refusals; /* so often it can't, before */
extern const struct test_conn *test_now_busy; /* its client is filling its memory */
extern bool test_now_busy_till_probe;	      /* and is done just when it is probed */
extern unsigned int test_recvs[TEST_RECVS];   /* times that each receive was posted again */
extern unsigned int test_recvs_left;	      /* that the device takes until it refuses them */

/*
 * Sets all up, in a region of @region_bytes; the thread is registered with RCU. Connections have
 * said HELLO, and served a READ. 0.
 */
int test_worker_create(uint64_t region_bytes, uint64_t value_max);
/*
 * Nothing is left of any connection, or the test fails: requests, receives, buffers, places of
 * work requests, windows, budgets, memory.
 */
void test_worker_destroy(void);

/* A new connection in place of this one. */
void test_conn_setup(struct test_conn *c);
/* The device is done with all responses. */
void test_conn_complete(struct test_conn *c);
/* Makes a connection that was just set up the only one of the principal @name. */
void test_conn_principal(struct test_conn *c, const char *name);
/* The connection fails, and its queue pair is destroyed. */
void test_conn_end(struct test_conn *c);

/* The memory of receive @buffer. */
uint8_t *test_recv(uint32_t buffer);
/*
 * The message of @len bytes in receive @buffer arrives, alone in a batch of completions. True: it
 * was executed at once.
 */
bool test_receive(struct test_conn *c, uint32_t buffer, size_t len);

/* One turn of the worker, but for its batch. False: there was nothing to do. */
bool test_turn(void);
/* So many turns that there is nothing more to do; returns their number. */
unsigned int test_turns(void);

#endif /* KVD_TESTS_SUPPORT_WORKER_FIXTURE_H */
