/* SPDX-License-Identifier: MIT */
/*
 * Tests of softnic with peers that break every rule. The attacker uses the socket and the shared
 * memory directly; beside it a good client works on the same CQ, SRQ and listener, and must not be
 * disturbed (SOFTNIC-4).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/queue_pair.h"
#include "tests/support/send_files.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define ATTACKS 400
#define STROKES 60 /* writes of one attack */
#define SILENT_PEERS 300
#define SILENT_BATCH 50
#define NOISE_PEERS 100
#define FILES_MAX 3  /* of one message */
#define SERVES_MAX 8 /* until the server has done what a peer waits for */

static struct end server, client;
static const char *path;
static uint32_t seed;

static uint32_t next_random(void)
{
	seed = seed * 1664525u + 1013904223u;
	return seed >> 8;
}

/* The attacker's end. */
struct raw {
	int sock;
	struct link_shared *shared;
	struct link_side *side;
	struct link_side *theirs;
	struct link_message response;
};

static int raw_socket(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(sock >= 0);
	strncpy(un.sun_path, path, sizeof(un.sun_path) - 1);
	if (connect(sock, (struct sockaddr *)&un, sizeof(un)))
		fail_msg("connect: %s", strerror(errno));
	return sock;
}

static struct link_message raw_message(void)
{
	return (struct link_message){
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_CONNECT,
	};
}

/* Does what the server's threads would do meanwhile. */
static void serve(void)
{
	struct ibv_wc wc[16];
	struct device_async_event event;
	struct ibv_cq *cq;
	int count, i;

	end_serve_cm(&server, &END_DEFAULTS);
	OPS->get_cq_event(server.comp, &cq);
	OPS->get_async_event(server.dev, &event);
	count = ibv_poll_cq(server.cq, 16, wc);
	assert_true(count >= 0);
	for (i = 0; i < count; i++)
		if (wc[i].opcode == IBV_WC_RECV && wc[i].wr_id < PAIR_RECVS)
			end_post_recv(&server, (unsigned int)wc[i].wr_id);
}

static void raw_find_sides(struct raw *raw)
{
	assert_true(raw->response.line < LINK_LINES);
	raw->side = link_side(raw->shared, raw->response.line, LINK_ACTIVE);
	raw->theirs = link_side(raw->shared, raw->response.line, LINK_PASSIVE);
}

static void raw_connect(struct raw *raw)
{
	const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct link_message hello = raw_message();
	int fd = -1;

	raw->sock = raw_socket();
	assert_int_equal(link_send(raw->sock, &hello, -1), 0);
	do {
		serve();
		assert_true(pair_now_ms() < deadline);
	} while (link_receive(raw->sock, &raw->response, &fd) == -EAGAIN);
	assert_true(fd >= 0);
	assert_int_equal(link_map(&raw->shared, fd), 0);
	close(fd);
	raw_find_sides(raw);
	hello.type = LINK_MESSAGE_READY;
	assert_int_equal(link_send(raw->sock, &hello, -1), 0);
	serve();
}

static void raw_close(struct raw *raw)
{
	link_unmap(raw->shared);
	close(raw->sock);
}

/* The good client: its message arrives whole, its READs are right, its wake-ups come. */
static void check_good(void)
{
	static uint32_t count;
	struct ibv_wc wc;
	uint32_t length = 1 + next_random() % end_recv_bytes();
	unsigned int slot;
	bool sent = false, received = false;
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;

	memset(client.mem, (int)(++count & 0xff), length);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, length, IBV_SEND_SIGNALED), 0);
	while (!sent || !received) {
		assert_true(pair_now_ms() < deadline);
		if (ibv_poll_cq(client.cq, 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			sent = true;
		}
		if (ibv_poll_cq(server.cq, 1, &wc) != 1 || wc.opcode != IBV_WC_RECV)
			continue;
		slot = (unsigned int)wc.wr_id;
		if (wc.status == IBV_WC_SUCCESS && wc.qp_num == server.id->qp->qp_num) {
			assert_int_equal(wc.byte_len, length);
			assert_memory_equal(end_recv_slot(&server, slot), client.mem, length);
			received = true;
		}
		if (slot < PAIR_RECVS)
			end_post_recv(&server, slot);
	}
	server.mem[64] = (uint8_t)count;
	assert_int_equal(end_post_read(&client, client.id->qp, 0, 128, client.remote.addr,
				       client.remote.rkey),
			 0);
	assert_int_equal(end_wait(&client, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(client.mem[64], (uint8_t)count);
}

static void test_noise_at_the_door(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < NOISE_PEERS; i++) {
		struct link_message message = raw_message();
		int sock = raw_socket();

		switch (i % 7) {
		case 0: /* sends nothing and leaves */
			break;
		case 1:
			message.magic ^= 1;
			break;
		case 2:
			message.version++;
			break;
		case 3:
			message.type = (uint8_t)(LINK_MESSAGE_ACCEPT + i % 4);
			break;
		case 4:
			message.private_len = CM_PRIVATE_MAX_CONNECT + 1;
			break;
		case 5:
			message.private_len = 255;
			break;
		default:
			send(sock, &message, next_random() % sizeof(message), 0);
		}
		if (i % 7)
			link_send(sock, &message, i % 2 ? sock : -1);
		serve();
		if (i % 3)
			shutdown(sock, SHUT_RDWR);
		serve();
		close(sock);
	}
	check_good();
}

/* Peers that connect and send nothing do not keep others from connecting. */
static void test_silent_peers(void **state)
{
	int socks[SILENT_PEERS];
	struct raw raw;
	unsigned int i, gone = 0;

	(void)state;
	for (i = 0; i < SILENT_PEERS; i++) {
		socks[i] = raw_socket();
		serve();
	}
	raw_connect(&raw);
	raw_close(&raw);
	check_good();
	for (i = 0; i < 20; i++) {
		usleep(1000);
		serve();
	}
	for (i = 0; i < SILENT_PEERS; i++)
		gone += link_hung_up(socks[i]);
	assert_true(gone >= SILENT_PEERS - SN_HALF_OPEN_MAX);
	for (i = 0; i < SILENT_PEERS; i++)
		close(socks[i]);
	serve();
}

static int ids_of_server(void)
{
	return atomic_load(&dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID]);
}

/*
 * Peers that say nothing and go take no place for ever: after more of them than may be unreported
 * at a time, another one can still connect.
 */
static void test_silent_peers_that_go(void **state)
{
	const int before = ids_of_server();
	int socks[SILENT_BATCH];
	uint64_t deadline;
	struct raw raw;
	unsigned int i, done;

	(void)state;
	for (done = 0; done <= SN_UNREPORTED_MAX; done += SILENT_BATCH) {
		for (i = 0; i < SILENT_BATCH; i++) {
			socks[i] = raw_socket();
			serve();
		}
		for (i = 0; i < SILENT_BATCH; i++)
			close(socks[i]);
		deadline = pair_now_ms() + PAIR_WAIT_MS;
		do {
			serve();
			assert_true(pair_now_ms() < deadline);
		} while (ids_of_server() > before);
	}
	raw_connect(&raw);
	raw_close(&raw);
	check_good();
}

/* A malformed content of a request ring, and how much of it is published. */
struct malformed {
	const char *what;
	struct link_request first, second; /* the second starts where the first ends */
	uint32_t published;
};

static const struct malformed malformed[] = {
	{ "no opcode", { .opcode = 0 }, { .opcode = 0 }, 64 },
	{ "unknown opcode", { .opcode = 9 }, { .opcode = 0 }, 64 },
	{ "more than is published",
	  { .opcode = LINK_SEND, .length = 200, .total = 200 },
	  { 0 },
	  64 },
	{ "too long a piece", { .opcode = LINK_SEND, .length = 5000, .total = 5000 }, { 0 }, 8192 },
	{ "a length that wraps",
	  { .opcode = LINK_SEND, .length = ~0u - 7, .total = ~0u },
	  { 0 },
	  64 },
	{ "more than the message", { .opcode = LINK_SEND, .length = 20, .total = 10 }, { 0 }, 64 },
	{ "too large a message",
	  { .opcode = LINK_SEND, .length = 8, .total = 1u << 31 },
	  { 0 },
	  64 },
	{ "a piece of nothing", { .opcode = LINK_SEND, .total = 10 }, { 0 }, 64 },
	{ "a second piece of nothing",
	  { .opcode = LINK_SEND, .length = 8, .total = 16 },
	  { .opcode = LINK_SEND },
	  128 },
	{ "a second piece too long",
	  { .opcode = LINK_SEND, .length = 8, .total = 16 },
	  { .opcode = LINK_SEND, .length = 9 },
	  128 },
	{ "a READ inside a SEND",
	  { .opcode = LINK_SEND, .length = 8, .total = 16 },
	  { .opcode = LINK_READ, .length = sizeof(struct link_read) },
	  128 },
	{ "a READ without its range", { .opcode = LINK_READ, .length = 8 }, { 0 }, 64 },
	{ "half a unit", { .opcode = LINK_SEND, .length = 8, .total = 8 }, { 0 }, 32 },
	{ "more than a ring", { .opcode = LINK_SEND, .length = 8, .total = 8 }, { 0 }, 8256 },
};

static void test_malformed(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		const struct malformed *m = &malformed[i];
		struct raw raw;

		raw_connect(&raw);
		memcpy(raw.shared->request[LINK_ACTIVE], &m->first, sizeof(m->first));
		memcpy(raw.shared->request[LINK_ACTIVE] + RING_UNIT, &m->second, sizeof(m->second));
		atomic_store(&raw.side->request_head, m->published);
		atomic_store(&raw.side->bell, 1);
		serve();
		if (!atomic_load(&raw.theirs->closed))
			fail_msg("%s was taken", m->what);
		raw_close(&raw);
		check_good();
	}
}

/* Responses to READs that were not requested, and acknowledgements of SENDs that were not sent. */
static void test_forged_responses(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		struct raw raw;

		raw_connect(&raw);
		if (i == 0)
			atomic_store(&raw.side->response_head, RING_UNIT);
		if (i == 1)
			atomic_store(&raw.side->acked, 1);
		if (i == 2)
			atomic_store(&raw.side->request_tail, RING_UNIT);
		if (i == 3)
			atomic_store(&raw.side->response_tail, ~0u);
		if (i == 4)
			atomic_store(&raw.side->acked, ~0u);
		atomic_store(&raw.side->bell, 1);
		serve();
		assert_int_equal(atomic_load(&raw.theirs->closed), 1);
		raw_close(&raw);
		check_good();
	}
}

static _Atomic uint32_t *raw_word(struct raw *raw)
{
	uint32_t index = next_random() % (2 * sizeof(struct link_side) / sizeof(uint32_t));

	return (_Atomic uint32_t *)(void *)raw->shared + index;
}

static uint32_t raw_value(uint32_t old)
{
	switch (next_random() % 5) {
	case 0:
		return next_random() << 8 ^ next_random();
	case 1:
		return old + RING_UNIT * (next_random() % 140);
	case 2:
		return old - RING_UNIT;
	case 3:
		return 0;
	default:
		return old + 1;
	}
}

/* A request of which most fields are valid. */
static void raw_request(struct raw *raw, uint32_t *head)
{
	struct link_request request = {
		.opcode = (uint8_t)(next_random() % 5),
		.length = next_random() % 3 ? next_random() % 200 : next_random(),
		.total = next_random() % 3 ? next_random() % 400 : next_random() << 8,
	};
	struct link_read read = {
		.addr = (uintptr_t)server.mem + next_random() % (2 * PAIR_MEM_BYTES),
		.rkey = next_random() % 2 ? server.mr->rkey : next_random(),
		.length = next_random() % 100000,
	};
	uint8_t *at = raw->shared->request[LINK_ACTIVE] + *head % RING_BYTES;

	if (request.opcode == LINK_READ && next_random() % 2)
		request.length = sizeof(read);
	memcpy(at, &request, sizeof(request));
	memcpy(at + sizeof(request), &read, sizeof(read));
	*head += ring_span((uint32_t)sizeof(request) + request.length % 4096);
	atomic_store(&raw->side->request_head, *head);
	atomic_fetch_add(&raw->side->bell, 1);
}

static void raw_stroke(struct raw *raw, uint32_t *head)
{
	char bytes[64] = { 1 };
	_Atomic uint32_t *word;

	switch (next_random() % 6) {
	case 0:
	case 1:
		raw_request(raw, head);
		break;
	case 2:
		word = raw_word(raw);
		atomic_store(word, raw_value(atomic_load(word)));
		atomic_fetch_add(&raw->side->bell, 1);
		break;
	case 3:
		raw->shared->request[LINK_ACTIVE][next_random() % RING_BYTES] ^= 0xff;
		raw->shared->response[LINK_ACTIVE][next_random() % RING_BYTES] ^= 0xff;
		break;
	case 4:
		send(raw->sock, bytes, next_random() % sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	default:
		atomic_store(&raw->side->response_tail, atomic_load(&raw->theirs->response_head));
		atomic_fetch_add(&raw->side->bell, 1);
	}
}

/* The server posts work on the attacked connection, so that there are responses to forge. */
static void server_works(void)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	struct ibv_qp *qp = &TAILQ_LAST(&ctx->qps, sn_qp_list)->verbs;

	if (qp == server.id->qp)
		return;
	end_post_send(&server, qp, 0, 1 + next_random() % 9000, 0);
	end_post_read(&server, qp, 0, 1 + next_random() % 9000, next_random(), next_random());
}

static void test_scribbler(void **state)
{
	unsigned int attack, stroke;

	(void)state;
	for (attack = 0; attack < ATTACKS; attack++) {
		struct raw raw;
		uint32_t head = 0;

		seed = attack;
		raw_connect(&raw);
		for (stroke = 0; stroke < STROKES; stroke++) {
			raw_stroke(&raw, &head);
			if (next_random() % 8 == 0)
				server_works();
			if (next_random() % 8 == 0)
				ibv_req_notify_cq(server.cq, 0);
			serve();
		}
		check_good();
		raw_close(&raw);
		serve();
	}
	check_good();
}

/* The memory of a connection can't be shortened under the server. */
static void test_memory_is_sealed(void **state)
{
	struct link_message hello = raw_message();
	struct raw raw = { 0 };
	int fd = -1;

	(void)state;
	raw.sock = raw_socket();
	assert_int_equal(link_send(raw.sock, &hello, -1), 0);
	do
		serve();
	while (link_receive(raw.sock, &raw.response, &fd) == -EAGAIN);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	/*
	 * The client can punch holes in it: the server then reads zeros, which are no valid
	 * request.
	 */
	assert_int_equal(link_map(&raw.shared, fd), 0);
	raw_find_sides(&raw);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LINK_BYTES),
			 0);
	atomic_store(&raw.side->request_head, RING_UNIT);
	atomic_store(&raw.side->bell, 77);
	serve();
	assert_int_equal(atomic_load(&raw.theirs->closed), 1);
	close(fd);
	raw_close(&raw);
	check_good();
}

/* The next message that is no wake-up. */
static uint8_t raw_next_type(const struct raw *raw)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct link_message message = { 0 };
	int length, fd = -1;

	do {
		serve();
		length = link_receive(raw->sock, &message, &fd);
		assert_true(pair_now_ms() < deadline);
	} while (length == -EAGAIN || length == 1);
	assert_int_equal(length, sizeof(message));
	assert_true(fd >= 0);
	close(fd);
	return message.type;
}

static void test_life_word_comes_first(void **state)
{
	struct raw raw;

	(void)state;
	raw_connect(&raw);
	assert_int_equal(raw_next_type(&raw), LINK_MESSAGE_LIFE);
	assert_int_equal(raw_next_type(&raw), LINK_MESSAGE_GRANT);
	raw_close(&raw);
	check_good();
}

static bool raw_is_closed(const struct raw *raw)
{
	return atomic_load(&raw->theirs->closed);
}

static void raw_send_bytes(const struct raw *raw, size_t count)
{
	static const char bytes[2];

	send(raw->sock, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A peer that leaves wake-ups on its socket. */
static void test_wake_flood_taken(void **state)
{
	struct raw raw;
	unsigned int i;

	(void)state;
	raw_connect(&raw);
	for (i = 0; i < 2000; i++) {
		atomic_store(&raw.side->wake, ~0u);
		server_works();
		serve();
	}
	check_good();
	raw_close(&raw);
	serve();
}

/* Lets the server arm, and takes the wake-up that it asks for. */
static void raw_take_wake(struct raw *raw)
{
	unsigned int serves;

	ibv_req_notify_cq(server.cq, 0);
	for (serves = 0; serves < SERVES_MAX; serves++) {
		if (side_take_wake(raw->theirs, LINK_WAKE_EVENT))
			return;
		serve();
		ibv_req_notify_cq(server.cq, 0);
	}
	fail_msg("the server does not arm");
}

/* One wake-up for each arming is right, also if it comes late, and whoever empties the socket. */
static void test_wakes_as_asked(void **state)
{
	struct raw raw;
	unsigned int i;

	(void)state;
	raw_connect(&raw);
	for (i = 0; i < 1000; i++) {
		raw_take_wake(&raw);
		if (i % 2) {
			atomic_fetch_add(&raw.side->bell, 1); /* nothing new, but it is served */
			serve();
		}
		if (i % 4 == 0)
			ibv_req_notify_cq(server.cq, 0);
		raw_send_bytes(&raw, 1);
		serve();
		if (i % 3)
			check_good();
		assert_false(raw_is_closed(&raw));
	}
	raw_close(&raw);
	serve();
	check_good();
}

/* What a flood of the socket consists of, and whether the server had asked for one wake-up. */
struct flood {
	const char *what;
	size_t bytes; /* of each packet */
	unsigned int packets;
	bool asked;
};

static const struct flood floods[] = {
	{ "two for one arming", 1, 2, false },	 { "two after one was taken", 1, 2, true },
	{ "as many as fit", 1, 100000, true },	 { "an empty packet", 0, 1, false },
	{ "a packet of two bytes", 2, 1, true },
};

/*
 * More than one wake-up for each arming ends the connection, and at once: else each would cost the
 * server two system calls, and all others the time for them.
 */
static void test_wake_flood(void **state)
{
	unsigned int i, packet, serves;

	(void)state;
	for (i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
		struct raw raw;

		raw_connect(&raw);
		check_good();
		if (floods[i].asked)
			raw_take_wake(&raw);
		for (packet = 0; packet < floods[i].packets; packet++)
			raw_send_bytes(&raw, floods[i].bytes);
		for (serves = 0; serves < SERVES_MAX && !raw_is_closed(&raw); serves++)
			serve();
		if (!raw_is_closed(&raw))
			fail_msg("%s: the connection is still there", floods[i].what);
		check_good();
		raw_close(&raw);
		serve();
	}
}

/* The server maps no file that a client passes. */
static void test_files_from_clients(void **state)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	struct link_message grant = raw_message();
	struct raw raw;
	unsigned int i;

	(void)state;
	raw_connect(&raw);
	grant.type = LINK_MESSAGE_GRANT;
	grant.grant_rkey = 1;
	grant.grant_length = 4096;
	for (i = 0; i < 100; i++)
		link_send(raw.sock, &grant, client.fd);
	ibv_req_notify_cq(server.cq, 0);
	serve();
	server_works();
	for (i = 0; i < LINK_GRANTS_MAX; i++)
		assert_null(TAILQ_LAST(&ctx->qps, sn_qp_list)->grants[i].map);
	raw_close(&raw);
	serve();
	check_good();
}

/* Sends @length bytes with a pipe's end, @count times. Returns the other end. */
static int raw_send_pipe(const struct raw *raw, const struct link_message *message, size_t length,
			 unsigned int count)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(send_files(raw->sock, message, length, fds[1], count), length);
	close(fds[1]);
	return fds[0];
}

/* Whatever files a peer passes, with whatever packet, the server keeps none of them open. */
static void test_files_are_closed(void **state)
{
	static const struct {
		size_t length; /* of the packet */
		uint8_t type;
	} packets[] = {
		{ sizeof(struct link_message), LINK_MESSAGE_GRANT },
		{ sizeof(struct link_message), LINK_MESSAGE_ACCEPT },
		{ 1, LINK_MESSAGE_GRANT },
		{ 0, LINK_MESSAGE_GRANT },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		for (unsigned int files = 1; files <= FILES_MAX; files++) {
			struct sn_context *ctx = dev_to_sn_context(server.dev);
			struct link_message message = raw_message();
			struct pollfd fd = { .events = POLLIN };
			unsigned int serves;
			struct raw raw;

			ctx->barred_count = 0;
			raw_connect(&raw);
			message.type = packets[i].type;
			message.grant_rkey = 1;
			message.grant_length = 4096;
			fd.fd = raw_send_pipe(&raw, &message, packets[i].length, files);
			for (serves = 0; serves < SERVES_MAX; serves++) {
				ibv_req_notify_cq(server.cq, 0);
				serve();
			}
			/* Another thread closes them. */
			if (poll(&fd, 1, PAIR_WAIT_MS) != 1 || !(fd.revents & POLLHUP))
				fail_msg("packet %u: one of %u files is open", i, files);
			assert_int_equal(ctx->barred_count, files > 1 || !i);
			close(fd.fd);
			raw_close(&raw);
			serve();
		}
	}
	check_good();
}

/* Since Linux 6.16: no file before the connection is accepted, nor one of who passed a pipe. */
static void test_users_whose_files_are_refused(void **state)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	struct link_message message = raw_message();
	bool refuses, allowed;
	struct raw raw;
	int sock;

	(void)state;
	sock = raw_socket();
	refuses = link_send(sock, &message, sock) == -EPERM;
	close(sock);
	serve();
	for (unsigned int round = 0; round < 3; round++) {
		ctx->barred_count = 0;
		memset(ctx->barred, 0xff, sizeof(ctx->barred));
		if (round == 1)
			ctx->barred[ctx->barred_count++] = getuid();
		if (round == 2)
			ctx->barred_count = SN_BARRED_MAX + 5; /* of others */
		allowed = round != 1;
		raw_connect(&raw);
		assert_int_equal(sn_file_allowed(ctx, raw.sock), allowed);
		if (refuses)
			assert_int_equal(link_send(raw.sock, &message, client.fd),
					 allowed ? 0 : -EPERM);
		raw_close(&raw);
		serve();
	}
	/* One more takes the place of the oldest, once. */
	for (unsigned int i = 0; i < 2; i++)
		sn_file_bar(ctx, to_sn_qp(client.id->qp)->sock);
	assert_int_equal(ctx->barred_count, SN_BARRED_MAX + 6);
	assert_int_equal(ctx->barred[5], getuid());
	assert_false(sn_file_allowed(ctx, to_sn_qp(client.id->qp)->sock));
	/* However many there were, the last ones stay. */
	memset(ctx->barred, 0xff, sizeof(ctx->barred));
	ctx->barred_count = UINT32_MAX;
	sn_file_bar(ctx, to_sn_qp(client.id->qp)->sock);
	assert_false(sn_file_allowed(ctx, to_sn_qp(client.id->qp)->sock));
	memset(ctx->barred, 0xff, sizeof(ctx->barred));
	ctx->barred_count = 0;
	check_good();
}

static int group_setup(void **state)
{
	(void)state;
	path = strdup(pair_path());
	if (end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS))
		return -1;
	if (end_init(&client, DEVICE_CONNECT, path, &END_DEFAULTS))
		return -1;
	return ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS);
}

static int group_teardown(void **state)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct sn_context *ctx = dev_to_sn_context(server.dev);

	(void)state;
	end_release(&client);
	/* All connections of the attackers are destroyed. */
	while (atomic_load(&ctx->objects[SN_OBJECT_QP]) ||
	       atomic_load(&ctx->objects[SN_OBJECT_ID]) > 1) {
		serve();
		if (pair_now_ms() > deadline)
			return -1;
	}
	end_release(&server);
	pair_path_release();
	free((void *)(uintptr_t)path);
	return 0;
}

/* What comes with an answer: memory that the server can shorten is wrong. */
enum hostile_memory { MEMORY_NONE, MEMORY_GOOD, MEMORY_NOT_SEALED };

/* A server that breaks the rules: answers one connect request with @response. */
static void hostile_respond(int listener, const struct link_message *response,
			    enum hostile_memory memory)
{
	struct link_shared *shared = NULL;
	struct link_message connect;
	int sock, fd = -1;

	sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(sock >= 0);
	while (link_receive(sock, &connect, NULL) == -EAGAIN)
		;
	if (memory == MEMORY_GOOD)
		assert_int_equal(link_create(&shared, &fd), 0);
	if (memory == MEMORY_NOT_SEALED) {
		fd = memfd_create("hostile", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, LINK_BYTES), 0);
	}
	assert_int_equal(link_send(sock, response, fd), 0);
	if (fd >= 0)
		close(fd);
	link_unmap(shared);
	close(sock);
}

static void test_servers_of_another_kind(void **state)
{
	static const struct {
		struct link_message response;
		enum hostile_memory memory;
		int status;
	} servers[] = {
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_ACCEPT, .line = LINK_LINES },
		  MEMORY_GOOD,
		  -EPROTO },
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_ACCEPT, .line = 255 },
		  MEMORY_GOOD,
		  -EPROTO },
		{ { LINK_MAGIC, LINK_VERSION - 1, LINK_MESSAGE_REJECT, .line = 0 },
		  MEMORY_NONE,
		  -EPROTONOSUPPORT },
		{ { LINK_MAGIC, LINK_VERSION - 1, LINK_MESSAGE_ACCEPT, .line = 0 },
		  MEMORY_GOOD,
		  -EPROTONOSUPPORT },
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_ACCEPT, .line = 0 },
		  MEMORY_NOT_SEALED,
		  -EPROTO },
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_ACCEPT, .line = 0 },
		  MEMORY_NONE,
		  -EPROTO },
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_READY, .line = 0 },
		  MEMORY_GOOD,
		  -EPROTO },
		{ { LINK_MAGIC + 1, LINK_VERSION, LINK_MESSAGE_ACCEPT, .line = 0 },
		  MEMORY_GOOD,
		  -EPROTO },
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_ACCEPT,
		    .private_len = LINK_PRIVATE_MAX + 1 },
		  MEMORY_GOOD,
		  -EPROTO },
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_ACCEPT, .reserved = 1 },
		  MEMORY_GOOD,
		  -EPROTO },
		{ { LINK_MAGIC, LINK_VERSION, LINK_MESSAGE_REJECT, .reserved = 1u << 31 },
		  MEMORY_NONE,
		  -EPROTO },
	};
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct end other;
	unsigned int i;
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)state;
	strncpy(un.sun_path, pair_path(), sizeof(un.sun_path) - 1);
	assert_int_equal(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(end_init(&other, DEVICE_CONNECT, un.sun_path, &END_DEFAULTS), 0);
	for (i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
		struct cm_event event;
		struct cm_id *id;
		int ret;

		assert_int_equal(end_connect(&other, &id, &END_DEFAULTS), 0);
		hostile_respond(listener, &servers[i].response, servers[i].memory);
		while ((ret = OPS->cm_get_event(other.cm, &event)) == -EAGAIN)
			;
		assert_int_equal(ret, 0);
		assert_int_equal(event.type, CM_UNREACHABLE);
		assert_int_equal(event.status, servers[i].status);
		OPS->destroy_id(id);
	}
	end_release(&other);
	close(listener);
	check_good();
}

/* A client that breaks the rules is told nothing but, of another version, that it is refused. */
static void test_requests_that_are_refused(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 6; i++) {
		const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
		struct link_message message = raw_message(), got;
		int sock = raw_socket(), length;

		message.magic += i == 0;
		message.type = i == 1 ? LINK_MESSAGE_READY : LINK_MESSAGE_CONNECT;
		message.private_len = i == 2 ? CM_PRIVATE_MAX_CONNECT + 1 : 0;
		message.version += i == 4;
		message.reserved = i == 5;
		if (i == 3)
			assert_int_equal(send(sock, &message, sizeof(message) - 1, 0),
					 sizeof(message) - 1);
		else
			assert_int_equal(link_send(sock, &message, -1), 0);
		while ((length = link_receive(sock, &got, NULL)) == -EAGAIN) {
			serve();
			assert_true(pair_now_ms() < deadline);
		}
		assert_int_equal(length, i == 4 ? sizeof(got) : 0);
		if (i == 4)
			assert_int_equal(got.type, LINK_MESSAGE_REJECT);
		close(sock);
	}
	check_good();
}

/* Begins to connect to a server whose queue is full. */
static struct sn_id *connect_in_vain(struct end *other)
{
	struct cm_id *id;

	assert_int_equal(end_connect(other, &id, &END_DEFAULTS), 0);
	assert_int_equal(to_sn_id(id)->state, SN_ID_RETRYING);
	assert_int_not_equal(to_sn_id(id)->deadline.when_ns, 0);
	return to_sn_id(id);
}

/*
 * A server that accepts nobody, and whose queue is full: a client tries again until there is room,
 * or its time is over.
 */
static void test_server_that_accepts_nobody(void **state)
{
	const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const int first = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct cm_event event;
	struct end other;
	struct sn_id *id;
	int ret;

	(void)state;
	strncpy(un.sun_path, pair_path(), sizeof(un.sun_path) - 1);
	assert_int_equal(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(connect(first, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(end_init(&other, DEVICE_CONNECT, un.sun_path, &END_DEFAULTS), 0);
	id = connect_in_vain(&other);
	id->deadline.when_ns = 1; /* long ago */
	do
		ret = OPS->cm_get_event(other.cm, &event);
	while (ret == -EAGAIN && id->deadline.when_ns);
	assert_int_equal(ret, 0);
	assert_ptr_equal(event.id, &id->cm);
	assert_int_equal(event.type, CM_UNREACHABLE);
	assert_int_equal(event.status, -ETIMEDOUT);
	OPS->destroy_id(&id->cm);
	id = connect_in_vain(&other);
	close(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	do
		ret = OPS->cm_get_event(other.cm, &event);
	while (ret == -EAGAIN && id->state == SN_ID_RETRYING);
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(id->state, SN_ID_WAITING);
	OPS->destroy_id(&id->cm);
	end_release(&other);
	close(first);
	close(listener);
}

/* The bells of connections that are made one after the other are at different places. */
static void test_bells_are_spread(void **state)
{
	bool used[LINK_LINES] = { false };
	struct raw raw;
	unsigned int i;

	(void)state;
	for (i = 0; i < LINK_LINES; i++) {
		raw_connect(&raw);
		assert_false(used[raw.response.line]);
		used[raw.response.line] = true;
		raw_close(&raw);
		serve();
	}
	check_good();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_noise_at_the_door),
		cmocka_unit_test(test_silent_peers),
		cmocka_unit_test(test_silent_peers_that_go),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_forged_responses),
		cmocka_unit_test(test_scribbler),
		cmocka_unit_test(test_memory_is_sealed),
		cmocka_unit_test(test_life_word_comes_first),
		cmocka_unit_test(test_wake_flood_taken),
		cmocka_unit_test(test_wakes_as_asked),
		cmocka_unit_test(test_wake_flood),
		cmocka_unit_test(test_files_from_clients),
		cmocka_unit_test(test_files_are_closed),
		cmocka_unit_test(test_users_whose_files_are_refused),
		cmocka_unit_test(test_servers_of_another_kind),
		cmocka_unit_test(test_requests_that_are_refused),
		cmocka_unit_test(test_server_that_accepts_nobody),
		cmocka_unit_test(test_bells_are_spread),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
