/* SPDX-License-Identifier: MIT */
/*
 * read-bench: measures READs over softnic beside memcpy() of as many bytes, in one run.
 *
 *	read-bench [-r ROUNDS]
 *
 * Two ends in this process, each with 64 MiB of memory; values of each size lie one behind the
 * other in it and are used in turn, so that none is in the cache. The loops take turns:
 *
 *	memcpy	one call for the value
 *	file	the accepting end READs memory of the connecting end that has a file, as a server
 *		does for a PUT with pull: READs of 64 KiB, 4 at a time. The other end does nothing
 *	ring	the same of memory without a file: another thread polls, and serves them
 *	map	the connecting end READs the other's memory, as a client does for a GET
 *
 * Prints for each size and loop the median of the rounds: microseconds for one value, and the ratio
 * of memcpy's to it.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/rdma/device.h"
#include "common/util/clock.h"

#define OPS (&softnic_ops)
#define ARENA_BYTES (64u << 20)
#define ROUNDS_MAX 1000u
#define ROUND_BYTES (32u << 20) /* that each loop copies in a round */
#define PIECE_BYTES 65536u	/* PULL_PIECE_BYTES of server/worker/pull.h */
#define DEPTH 4u		/* PULL_DEPTH */
#define SENDS 16
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

enum loop { MEMCPY, FILE_READ, RING_READ, MAP_READ, LOOPS };

static const char *const names[LOOPS] = { "memcpy", "file", "ring", "map" };

struct end {
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct cm_channel *cm;
	struct cm_id *id;
	struct device_mem mem;
	struct ibv_mr *mr;
	struct ibv_mr *plain; /* the same memory, as if it had no file */
};

static struct end server, client;
static struct cm_id *listener;
static _Atomic bool serving, stopping;

static void check(int ret, const char *what)
{
	if (ret)
		errx(1, "%s: %s", what, strerror(ret < 0 ? -ret : ret));
}

static void end_open(struct end *end, enum device_role role, const struct device_addr *addr)
{
	struct device_mem plain;

	check(device_open(&end->dev, addr, role, 1000), "open");
	check(OPS->alloc_pd(end->dev, &end->pd), "alloc_pd");
	check(OPS->create_cq(end->dev, 1024, NULL, NULL, &end->cq), "create_cq");
	check(OPS->create_cm_channel(end->dev, &end->cm), "create_cm_channel");
	check(OPS->alloc_mem(end->dev, ARENA_BYTES, &end->mem), "alloc_mem");
	memset(end->mem.addr, role, ARENA_BYTES);
	plain = end->mem;
	plain.fd = -1;
	check(OPS->reg_mr(end->pd, &end->mem, ACCESS, &end->mr), "reg_mr");
	check(OPS->reg_mr(end->pd, &plain, ACCESS, &end->plain), "reg_mr");
}

static void end_close(struct end *end)
{
	OPS->destroy_id(end->id);
	OPS->destroy_cm_channel(end->cm);
	OPS->destroy_cq(end->cq);
	OPS->dereg_mr(end->plain);
	OPS->dereg_mr(end->mr);
	OPS->free_mem(end->dev, &end->mem);
	OPS->dealloc_pd(end->pd);
	device_close(end->dev);
}

static void end_create_qp(struct end *end, struct cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SENDS, .max_send_sge = 1, .max_recv_wr = 1 },
	};

	check(OPS->create_qp(id, end->pd, &attr, IBV_ACCESS_REMOTE_READ), "create_qp");
	end->id = id;
}

/* True if the event was that the connection is established. */
static bool end_serve_cm(struct end *end)
{
	const struct cm_param param = { .rnr_retry_count = 7, .min_rnr_timer = 12 };
	struct cm_event event;

	if (OPS->cm_get_event(end->cm, &event))
		return false;
	if (event.type == CM_CONNECT_REQUEST) {
		end_create_qp(end, event.id);
		check(OPS->accept(event.id, &param), "accept");
	}
	return event.type == CM_ESTABLISHED;
}

static void ends_connect(void)
{
	const struct cm_param param = { .rnr_retry_count = 7, .min_rnr_timer = 12 };
	struct cm_id *id;
	unsigned int established = 0;

	check(OPS->listen(server.cm, 1, &listener), "listen");
	check(OPS->create_id(client.cm, &id), "create_id");
	end_create_qp(&client, id);
	check(OPS->connect(id, &param), "connect");
	while (established < 2) {
		established += end_serve_cm(&server);
		established += end_serve_cm(&client);
	}
}

static void *serve(void *arg)
{
	struct ibv_wc wc;

	while (!atomic_load(&stopping))
		if (atomic_load(&serving))
			ibv_poll_cq(client.cq, 0, &wc);
		else
			usleep(100);
	return arg;
}

static void post_piece(const struct end *end, uint8_t *to, uint64_t from, uint32_t rkey,
		       uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)to, bytes, end->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = from, .rkey = rkey },
	};

	check(ibv_post_send(end->id->qp, &wr, &bad), "ibv_post_send");
}

/* In pieces, as the server's pulls. */
static void read_value(const struct end *end, uint8_t *to, uint64_t from, uint32_t rkey,
		       uint32_t bytes)
{
	uint32_t posted = 0, done = 0, count = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
	struct ibv_wc wc[DEPTH];

	while (done < count) {
		int got, i;

		for (; posted < count && posted - done < DEPTH; posted++) {
			uint32_t at = posted * PIECE_BYTES;

			post_piece(end, to + at, from + at, rkey,
				   bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
		}
		got = ibv_poll_cq(end->cq, DEPTH, wc);
		for (i = 0; i < got; i++)
			if (wc[i].status)
				errx(1, "a READ failed: %s", ibv_wc_status_str(wc[i].status));
		done += (uint32_t)(got > 0 ? got : 0);
	}
}

static void copy_value(enum loop loop, uint32_t from, uint32_t to, uint32_t bytes)
{
	uint8_t *theirs = client.mem.addr, *ours = server.mem.addr;

	switch (loop) {
	case MEMCPY:
		memcpy(ours + to, theirs + from, bytes);
		break;
	case FILE_READ:
		read_value(&server, ours + to, (uintptr_t)theirs + from, client.mr->rkey, bytes);
		break;
	case RING_READ:
		read_value(&server, ours + to, (uintptr_t)theirs + from, client.plain->rkey, bytes);
		break;
	default:
		read_value(&client, theirs + to, (uintptr_t)ours + from, server.mr->rkey, bytes);
	}
}

/* Microseconds for one value. */
static double run(enum loop loop, uint32_t bytes, unsigned int round)
{
	uint32_t values = ROUND_BYTES / bytes, places = ARENA_BYTES / bytes, i;
	uint64_t start;

	atomic_store(&serving, loop == RING_READ);
	start = clock_ns();
	for (i = 0; i < values; i++)
		copy_value(loop, (i + round * values) % places * bytes,
			   (i + (round * LOOPS + loop) * values) % places * bytes, bytes);
	start = clock_ns() - start;
	atomic_store(&serving, false);
	return (double)start / 1000 / values;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(uint32_t bytes, unsigned int rounds)
{
	static double times[LOOPS][ROUNDS_MAX], ratios[LOOPS][ROUNDS_MAX];
	unsigned int round, loop;

	for (round = 0; round < rounds; round++) {
		for (loop = 0; loop < LOOPS; loop++)
			times[loop][round] = run(loop, bytes, round);
		for (loop = 0; loop < LOOPS; loop++)
			ratios[loop][round] = times[MEMCPY][round] / times[loop][round];
	}
	for (loop = 0; loop < LOOPS; loop++) {
		qsort(times[loop], rounds, sizeof(double), compare);
		qsort(ratios[loop], rounds, sizeof(double), compare);
		printf("%10" PRIu32 " %-8s %10.1f us %6.2f\n", bytes, names[loop],
		       times[loop][rounds / 2], ratios[loop][rounds / 2]);
	}
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = { 65536, 1u << 20, 16u << 20 };
	struct device_addr addr = { .kind = DEVICE_SOFTNIC, .mode = 0600 };
	unsigned int rounds = 9, i;
	pthread_t thread;
	int option;

	while ((option = getopt(argc, argv, "r:")) != -1) {
		if (option != 'r')
			errx(1, "usage: read-bench [-r ROUNDS]");
		rounds = (unsigned int)strtoul(optarg, NULL, 10);
	}
	if (!rounds || rounds > ROUNDS_MAX)
		errx(1, "ROUNDS is 1 to %u", ROUNDS_MAX);
	snprintf(addr.path, sizeof(addr.path), "/tmp/kvd-read-bench.%d", getpid());
	end_open(&server, DEVICE_LISTEN, &addr);
	end_open(&client, DEVICE_CONNECT, &addr);
	ends_connect();
	check(pthread_create(&thread, NULL, serve, NULL), "pthread_create");
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		measure(sizes[i], rounds);
	atomic_store(&stopping, true);
	pthread_join(thread, NULL);
	OPS->disconnect(client.id);
	OPS->destroy_id(listener);
	end_close(&client);
	end_close(&server);
	return 0;
}
