/* SPDX-License-Identifier: MIT */
/*
 * Conformance cases for memory windows of type 2B: who may READ by the key of a window, what of,
 * and until when; and which binds are refused.
 */
#include "tests/conformance/conformance.h"

#include <stdio.h>
#include <string.h>

#define MW_SERVER_ACCESS (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)
#define MW_MEM_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define BIND_ID 77
#define MANY_WINDOWS 40 /* more than softnic passes files for */

/* Two clients of one server, whose memory nobody may read without a window. */
struct clients {
	struct pair pair;
	struct side second;
	struct cm_id *ids[2]; /* the server's, of the first and the second */
};

static struct pair_options mw_options(bool server_fd)
{
	struct pair_options options = PAIR_DEFAULTS;

	options.server_access = MW_SERVER_ACCESS;
	options.mem_access = MW_MEM_ACCESS;
	options.server_fd = server_fd;
	return options;
}

static void clients_open(struct clients *clients, bool server_fd)
{
	struct pair_options options = mw_options(server_fd);
	struct side *server = &clients->pair.server;
	struct device_addr addr;

	pair_open(&clients->pair, &options);
	clients->ids[0] = server->id;
	addr = suite_connect_addr(server->dev);
	side_open(&clients->second, "second", &addr, DEVICE_CONNECT, &options);
	clients->second.other = server;
	server->other = &clients->second;
	side_connect(&clients->second, &options);
	side_accept(server, &options);
	clients->ids[1] = server->id;
	side_event(&clients->second, CM_ESTABLISHED);
	side_event(server, CM_ESTABLISHED);
	server->id = clients->ids[0];
	server->other = &clients->pair.client;
	clients->second.remote = clients->pair.client.remote;
}

static void clients_close(struct clients *clients)
{
	struct side *server = &clients->pair.server;

	server->other = NULL;
	side_close(&clients->second);
	if (clients->ids[1])
		suite.ops->destroy_id(clients->ids[1]);
	server->id = clients->ids[0];
	pair_close(&clients->pair);
}

/* Posts a bind on the server's queue pair @id. */
static int bind_post(struct cm_id *id, struct ibv_mw *mw, uint32_t rkey,
		     const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = BIND_ID,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = rkey, .bind_info = *info },
	};

	return ibv_post_send(id->qp, &wr, &bad);
}

static struct ibv_mw_bind_info bind_info(const struct side *server, size_t offset, size_t bytes)
{
	return (struct ibv_mw_bind_info){
		.mr = server->mr,
		.addr = (uintptr_t)server->mem + offset,
		.length = bytes,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};
}

/* A window of @bytes of the server's memory from @offset on, for the peer of its queue pair. */
static struct ibv_mw *window_open(struct side *server, size_t offset, size_t bytes, uint32_t *rkey)
{
	struct ibv_mw_bind_info info = bind_info(server, offset, bytes);
	struct ibv_mw *mw;

	CHECK_OK(suite.ops->alloc_mw(server->pd, &mw));
	*rkey = ibv_inc_rkey(mw->rkey);
	CHECK_OK(bind_post(server->id, mw, *rkey, &info));
	CHECK_INT(side_wc_is(server, BIND_ID, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	return mw;
}

static void read_works(struct side *client, const struct side *server, size_t offset,
		       uint32_t bytes, uint32_t rkey)
{
	memset(client->mem, 0, bytes);
	CHECK_OK(read_post_raw(client, 1, 0, bytes, (uintptr_t)server->mem + offset, rkey));
	side_wc_is(client, 1, IBV_WC_SUCCESS);
	CHECK(!memcmp(client->mem, server->mem + offset, bytes));
}

/* The READ fails, and so does its queue pair; the reader's memory stays. */
static void read_fails(struct side *client, const struct side *server, size_t offset,
		       uint32_t bytes, uint32_t rkey)
{
	mem_fill(client, 0, 8192, 11);
	CHECK_OK(read_post_raw(client, 1, 0, bytes, (uintptr_t)server->mem + offset, rkey));
	side_wc_is(client, 1, IBV_WC_REM_ACCESS_ERR);
	side_qp_in_error(client);
	mem_check(client, 0, 8192, 11);
}

static void device_has_windows(void)
{
	struct pair_options options = mw_options(true);
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct pair pair;

	pair_open(&pair, &options);
	CHECK_OK(suite.ops->query(pair.server.dev, &attr, &port));
	CHECK(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CHECK(attr.max_mw > 0);
	pair_close(&pair);
}

static void window_read_run(bool server_fd)
{
	struct pair_options options = mw_options(server_fd);
	struct ibv_mw *mw;
	struct pair pair;
	uint32_t rkey;

	pair_open(&pair, &options);
	mem_fill(&pair.server, 0, SIDE_MEM_BYTES, 3);
	mw = window_open(&pair.server, 0, SIDE_MEM_BYTES, &rkey);
	read_works(&pair.client, &pair.server, 0, 4096, rkey);
	read_works(&pair.client, &pair.server, SIDE_MEM_BYTES - 64, 64, rkey);
	pair_ping(&pair);
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

static void window_read(void)
{
	window_read_run(true);
	window_read_run(false);
}

/* A bind is done before what is posted after it: a peer may READ once it has the message. */
static void window_before_send(void)
{
	struct pair_options options = mw_options(true);
	struct ibv_mw_bind_info info;
	struct ibv_mw *mw;
	struct pair pair;
	uint32_t rkey;

	pair_open(&pair, &options);
	mem_fill(&pair.server, 0, 4096, 4);
	CHECK_OK(suite.ops->alloc_mw(pair.server.pd, &mw));
	rkey = ibv_inc_rkey(mw->rkey);
	info = bind_info(&pair.server, 0, SIDE_MEM_BYTES);
	CHECK_OK(recv_post(&pair.client, 5, 8192, 64));
	CHECK_OK(bind_post(pair.server.id, mw, rkey, &info));
	CHECK_OK(send_post(&pair.server, 6, 0, 16, IBV_SEND_SIGNALED));
	side_wc_is(&pair.client, 5, IBV_WC_SUCCESS);
	read_works(&pair.client, &pair.server, 0, 4096, rkey);
	side_wc_is(&pair.server, BIND_ID, IBV_WC_SUCCESS);
	side_wc_is(&pair.server, 6, IBV_WC_SUCCESS);
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

/*
 * Only what is inside of the window, and not all of the registration. Not on rxe (Linux 6.1), which
 * checks the range of the registration alone: so kvd's windows are as long as those.
 */
static void window_bounds_run(int64_t offset, uint32_t bytes, bool server_fd)
{
	struct pair_options options = mw_options(server_fd);
	struct ibv_mw *mw;
	struct pair pair;
	uint32_t rkey;

	pair_open(&pair, &options);
	mw = window_open(&pair.server, 8192, 4096, &rkey);
	read_works(&pair.client, &pair.server, 8192, 4096, rkey);
	read_fails(&pair.client, &pair.server, (size_t)offset, bytes, rkey);
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

static void window_bounds(void)
{
	for (int fd = 0; fd < 2; fd++) {
		window_bounds_run(8191, 1, fd);
		window_bounds_run(8192 + 4096, 1, fd);
		window_bounds_run(8192 + 4090, 16, fd);
		window_bounds_run(0, 64, fd);
	}
}

static void window_beyond_region(void)
{
	struct pair_options options = mw_options(true);
	struct ibv_mw *mw;
	struct pair pair;
	uint32_t rkey;

	pair_open(&pair, &options);
	mw = window_open(&pair.server, 0, SIDE_MEM_BYTES, &rkey);
	read_works(&pair.client, &pair.server, SIDE_MEM_BYTES - 16, 16, rkey);
	read_fails(&pair.client, &pair.server, SIDE_MEM_BYTES - 8, 16, rkey);
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

/* The true key and address, by another queue pair of the same protection domain. */
static void window_other_qp_run(bool server_fd)
{
	struct clients clients;
	struct ibv_mw *mw;
	uint32_t rkey;

	clients_open(&clients, server_fd);
	mem_fill(&clients.pair.server, 0, 4096, 5);
	mw = window_open(&clients.pair.server, 0, SIDE_MEM_BYTES, &rkey);
	clients.pair.server.other = &clients.second;
	read_fails(&clients.second, &clients.pair.server, 0, 64, rkey);
	/* The one that it is of goes on. */
	clients.pair.server.other = &clients.pair.client;
	read_works(&clients.pair.client, &clients.pair.server, 0, 64, rkey);
	pair_ping(&clients.pair);
	suite.ops->dealloc_mw(mw);
	clients_close(&clients);
}

static void window_other_qp(void)
{
	window_other_qp_run(true);
	window_other_qp_run(false);
}

/* Each has its own: neither key is the other's. The owner serves both, or has passed its file. */
static void window_each_run(bool server_fd)
{
	struct clients clients;
	struct side *server = &clients.pair.server;
	struct ibv_mw *mw[2];
	uint32_t rkey[2];

	clients_open(&clients, server_fd);
	mem_fill(server, 0, 4096, 6);
	mw[0] = window_open(server, 0, SIDE_MEM_BYTES, &rkey[0]);
	server->id = clients.ids[1];
	server->other = &clients.second;
	mw[1] = window_open(server, 0, SIDE_MEM_BYTES, &rkey[1]);
	CHECK(rkey[0] != rkey[1]);
	read_works(&clients.second, server, 0, 64, rkey[1]);
	server->other = &clients.pair.client;
	read_works(&clients.pair.client, server, 0, 64, rkey[0]);
	read_fails(&clients.pair.client, server, 0, 64, rkey[1]);
	suite.ops->dealloc_mw(mw[0]);
	suite.ops->dealloc_mw(mw[1]);
	clients_close(&clients);
}

static void window_each(void)
{
	window_each_run(true);
	window_each_run(false);
}

/* After its connection is gone the key is worthless, to the next connection, too. */
static void window_after_connection(void)
{
	struct clients clients;
	struct side *server = &clients.pair.server;
	struct ibv_mw *mw;
	uint32_t rkey;

	clients_open(&clients, true);
	server->id = clients.ids[1];
	server->other = &clients.second;
	mw = window_open(server, 0, SIDE_MEM_BYTES, &rkey);
	read_works(&clients.second, server, 0, 64, rkey);
	suite.ops->dealloc_mw(mw);
	suite.ops->destroy_id(clients.ids[1]);
	clients.ids[1] = NULL;
	server->id = clients.ids[0];
	server->other = &clients.pair.client;
	read_fails(&clients.pair.client, server, 0, 64, rkey);
	clients_close(&clients);
}

/* A pair whose client READs by a window of the server. */
static struct ibv_mw *window_pair_open(struct pair *pair, bool server_fd, uint32_t *rkey)
{
	struct pair_options options = mw_options(server_fd);
	struct ibv_mw *mw;

	pair_open(pair, &options);
	mw = window_open(&pair->server, 0, SIDE_MEM_BYTES, rkey);
	read_works(&pair->client, &pair->server, 0, 64, *rkey);
	return mw;
}

static void window_freed_run(bool server_fd)
{
	struct ibv_mw *mw;
	struct pair pair;
	uint32_t rkey;

	mw = window_pair_open(&pair, server_fd, &rkey);
	suite.ops->dealloc_mw(mw);
	read_fails(&pair.client, &pair.server, 0, 64, rkey);
	pair_close(&pair);
}

static void window_freed(void)
{
	window_freed_run(true);
	window_freed_run(false);
}

/* The registration's own key gives nothing: it has no REMOTE_READ. */
static void window_raw_key_run(bool server_fd)
{
	struct ibv_mw *mw;
	struct pair pair;
	uint32_t rkey;

	mw = window_pair_open(&pair, server_fd, &rkey);
	read_fails(&pair.client, &pair.server, 0, 64, pair.server.mr->rkey);
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

static void window_raw_key(void)
{
	window_raw_key_run(true);
	window_raw_key_run(false);
}

/* A window does not replace the queue pair's right to be read by. */
static void window_qp_without_right(void)
{
	struct pair_options options = mw_options(true);
	struct ibv_mw *mw;
	struct pair pair;
	struct ibv_wc wc;
	uint32_t rkey;

	options.server_access = IBV_ACCESS_MW_BIND;
	pair_open(&pair, &options);
	mw = window_open(&pair.server, 0, SIDE_MEM_BYTES, &rkey);
	mem_fill(&pair.client, 0, 64, 7);
	CHECK_OK(read_post_raw(&pair.client, 1, 0, 64, (uintptr_t)pair.server.mem, rkey));
	wc = side_wc(&pair.client);
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR);
	mem_check(&pair.client, 0, 64, 7);
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

/* A key that was not given, and a window that was allocated and not bound. */
static void window_not_bound(void)
{
	struct pair_options options = mw_options(true);
	struct ibv_mw *mw;
	struct pair pair;

	pair_open(&pair, &options);
	CHECK_OK(suite.ops->alloc_mw(pair.server.pd, &mw));
	read_fails(&pair.client, &pair.server, 0, 64, ibv_inc_rkey(mw->rkey));
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

/* What a bind must not be: each ends its queue pair, and nothing can be READ by its key. */
enum bad_bind { BIND_NO_RIGHT, BIND_TOO_LONG, BIND_SAME_KEY, BIND_TWICE, BIND_KINDS };

static void bad_bind_run(enum bad_bind what)
{
	struct pair_options options = mw_options(true);
	struct ibv_mw_bind_info info;
	struct ibv_mw *mw;
	struct pair pair;
	struct ibv_wc wc;
	uint32_t rkey;
	int err;

	fprintf(stderr, "bind of kind %d\n", what);
	if (what == BIND_NO_RIGHT)
		options.mem_access = IBV_ACCESS_LOCAL_WRITE;
	pair_open(&pair, &options);
	if (what == BIND_TWICE) {
		mw = window_open(&pair.server, 0, 4096, &rkey);
	} else {
		CHECK_OK(suite.ops->alloc_mw(pair.server.pd, &mw));
		rkey = mw->rkey;
	}
	if (what != BIND_SAME_KEY)
		rkey = ibv_inc_rkey(rkey);
	info = bind_info(&pair.server, 0, SIDE_MEM_BYTES + (what == BIND_TOO_LONG));
	/* Some providers refuse to post it. */
	err = bind_post(pair.server.id, mw, rkey, &info);
	if (!err) {
		side_wc_is(&pair.server, BIND_ID, IBV_WC_MW_BIND_ERR);
		side_qp_in_error(&pair.server);
	}
	CHECK_OK(read_post_raw(&pair.client, 1, 0, 64, (uintptr_t)pair.server.mem, rkey));
	/* The READ fails when its retries are used up: on rxe never. */
	CHECK(!side_wc_within(&pair.client, &wc, SUITE_QUIET_MS) || wc.status != IBV_WC_SUCCESS);
	suite.ops->dealloc_mw(mw);
	pair_close(&pair);
}

static void window_bad_binds(void)
{
	for (int what = 0; what < BIND_KINDS; what++)
		/* The specification wants another key; rxe (Linux 6.1) does not look. */
		if (what != BIND_SAME_KEY || suite.kind == DEVICE_SOFTNIC)
			bad_bind_run((enum bad_bind)what);
}

/* After messages that wait for their receiver, and with more windows than files can be passed. */
static void window_many(void)
{
	struct pair_options options = mw_options(true);
	struct ibv_mw *mw[MANY_WINDOWS];
	uint32_t rkey[MANY_WINDOWS];
	struct pair pair;

	pair_open(&pair, &options);
	mem_fill(&pair.server, 0, SIDE_MEM_BYTES, 8);
	for (int i = 0; i < MANY_WINDOWS; i++)
		mw[i] = window_open(&pair.server, (size_t)i * 1024, 1024, &rkey[i]);
	for (int i = 0; i < MANY_WINDOWS; i++)
		read_works(&pair.client, &pair.server, (size_t)i * 1024, 1024, rkey[i]);
	for (int i = 0; i < MANY_WINDOWS; i++)
		suite.ops->dealloc_mw(mw[i]);
	read_fails(&pair.client, &pair.server, 0, 64, rkey[0]);
	pair_close(&pair);
}

const struct suite_case mw_cases[] = {
	{ "device_has_windows", device_has_windows, ALL_DEVICES },
	{ "window_read", window_read, ALL_DEVICES },
	{ "window_before_send", window_before_send, ALL_DEVICES },
	{ "window_bounds", window_bounds, DEVICE_SOFTNIC },
	{ "window_beyond_region", window_beyond_region, ALL_DEVICES },
	{ "window_other_qp", window_other_qp, ALL_DEVICES },
	{ "window_each", window_each, ALL_DEVICES },
	{ "window_after_connection", window_after_connection, ALL_DEVICES },
	{ "window_freed", window_freed, ALL_DEVICES },
	{ "window_raw_key", window_raw_key, ALL_DEVICES },
	{ "window_qp_without_right", window_qp_without_right, ALL_DEVICES },
	{ "window_not_bound", window_not_bound, ALL_DEVICES },
	{ "window_bad_binds", window_bad_binds, ALL_DEVICES },
	{ "window_many", window_many, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
