/* SPDX-License-Identifier: MIT */
/*
 * Sets pollers up and posts receives. There are as many buffers for responses as for receives, and
 * a quarter more: the sum of the windows granted never exceeds srq_depth, and a connection holds at
 * most its window of responses beside that quarter, so neither kind runs out (guarantees F and G).
 * The places of the completion queue are shared out in the same way.
 */
#include "server/worker/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/wire.h"

/* Buckets of the table of connections: fixed, so that liburcu needs no resizing thread. */
#define CONNS_HASH_BUCKETS 1024

static uint32_t buffer_count(const struct poller *poller)
{
	return 2 * poller->limits.srq_depth + poller->limits.srq_depth / 4;
}

static int poller_init_buffers(struct poller *poller)
{
	uint32_t i, count = buffer_count(poller);

	poller->buffers = calloc(count, sizeof(*poller->buffers));
	poller->free = calloc(count, sizeof(*poller->free));
	if (!poller->buffers || !poller->free)
		return -ENOMEM;
	poller->memory_bytes = (size_t)count * poller->limits.buffer_bytes;
	poller->memory = mmap(NULL, poller->memory_bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (poller->memory == MAP_FAILED) {
		poller->memory = NULL;
		return -errno;
	}
	/* A fork, of a library say, must not take pages from the device: libkvd(3), fork. */
	if (madvise(poller->memory, poller->memory_bytes, MADV_DONTFORK))
		return -errno;
	if (!poller->limits.dump && madvise(poller->memory, poller->memory_bytes, MADV_DONTDUMP))
		return -errno;
	/* The first srq_depth buffers are posted as receives. */
	for (i = count; i > poller->limits.srq_depth; i--)
		buffer_put(poller, i - 1);
	poller->free_max = poller->free_count;
	poller->spare_buffers = poller->spare_buffers_max = poller->limits.srq_depth / 4;
	return 0;
}

static int poller_register_buffers(struct poller *poller)
{
	const struct device_mem mem = { poller->memory, poller->memory_bytes, -1, 0 };

	return poller->nic->dev->ops->reg_mr(poller->nic->pd, &mem, IBV_ACCESS_LOCAL_WRITE,
					     &poller->mr);
}

/*
 * Entries that the completion queue must have, whatever the clients do: one for each receive, one
 * for a response to each request of all windows together, and those that each connection may have
 * outstanding beside them, its marker included.
 */
static uint32_t cqes_needed(const struct poller_limits *limits, uint32_t conns)
{
	return 2 * limits->srq_depth +
	       (conns + limits->admins_max) * (SENDS_BESIDE_WINDOW + MARKERS);
}

/*
 * Connections for which there are places: the share of this worker, and more for the time when
 * there are fewer workers, as far as the spare places stay.
 */
static uint32_t conns_fit_later(const struct poller *poller, uint32_t conns_fit)
{
	const struct poller_limits *limits = &poller->limits;
	uint32_t receives = limits->srq_depth - limits->admins_max, most = limits->conns_all;
	uint32_t spare = 2 * limits->srq_depth / (SENDS_BESIDE_WINDOW + MARKERS);

	conns_fit = conns_fit > spare ? conns_fit - spare : 0;
	most = most < receives ? most : receives;
	most = most < conns_fit ? most : conns_fit;
	return most > limits->conns_max ? most : limits->conns_max;
}

/*
 * Sizes the completion queue; lowers limits.conns_max to what fits the device. A queue pair in
 * error completes all that it holds at once, unsignaled work requests too, so each posted one has
 * its place. Entries beyond the needed places are spare: for connections whose completions come
 * late, and for more READs of a pull at a time.
 */
static int poller_cq_size(struct poller *poller)
{
	struct poller_limits *limits = &poller->limits;
	uint32_t cqes_max = (uint32_t)poller->nic->attr.max_cqe;
	uint32_t conns_fit;

	if (cqes_max < cqes_needed(limits, 1)) {
		log_error("worker %u on device %s: a completion queue of the device has at most %u "
			  "entries, and %u receives with one connection need %u: lower "
			  "request.srq_depth",
			  poller->worker_number, poller->nic->dev->name, cqes_max,
			  limits->srq_depth, cqes_needed(limits, 1));
		return -EINVAL;
	}
	conns_fit = (cqes_max - cqes_needed(limits, 0)) / (SENDS_BESIDE_WINDOW + MARKERS);
	if (conns_fit < limits->conns_max) {
		log_notice("worker %u on device %s: takes at most %u connections instead of %u, "
			   "since a completion queue of the device has at most %u entries; lower "
			   "request.srq_depth for more",
			   poller->worker_number, poller->nic->dev->name, conns_fit,
			   limits->conns_max, cqes_max);
		limits->conns_max = conns_fit;
	}
	poller->conns_fit = conns_fit_later(poller, conns_fit);
	poller->spare_sends = 2 * limits->srq_depth;
	if (poller->spare_sends > cqes_max - cqes_needed(limits, poller->conns_fit))
		poller->spare_sends = cqes_max - cqes_needed(limits, poller->conns_fit);
	poller->spare_sends_max = poller->spare_sends;
	return (int)(cqes_needed(limits, poller->conns_fit) + poller->spare_sends);
}

static int poller_create_cq(struct poller *poller, int cqes)
{
	return poller->nic->dev->ops->create_cq(poller->nic->dev, cqes, poller,
						poller->comp_channel, &poller->cq);
}

static int poller_create_srq(struct poller *poller)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = poller->limits.srq_depth, .max_sge = 1 },
	};

	return poller->nic->dev->ops->create_srq(poller->nic->pd, &attr, &poller->srq);
}

/* Posts receives in one chain; *@posted is how many the device took. 0 or a negative errno. */
static int recvs_post(struct poller *poller, const uint32_t *buffers, unsigned int count,
		      unsigned int *posted)
{
	struct ibv_recv_wr wrs[BATCH_MAX], *bad = wrs;
	struct ibv_sge sges[BATCH_MAX];
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)poller_buffer(poller, buffers[i]),
			.length = poller->limits.buffer_bytes,
			.lkey = poller->mr->lkey,
		};
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = wr_id_make(WR_RECV, 0, 0, buffers[i]),
			.next = i + 1 < count ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	err = count ? ibv_post_srq_recv(poller->srq, wrs, &bad) : 0;
	*posted = err ? (unsigned int)(bad - wrs) : count;
	poller->posted += *posted;
	return -err;
}

static int poller_fill_srq(struct poller *poller)
{
	uint32_t i, j, buffers[BATCH_MAX];
	unsigned int posted;
	int err = 0;

	for (i = 0; i < poller->limits.srq_depth && !err; i += j) {
		for (j = 0; j < BATCH_MAX && i + j < poller->limits.srq_depth; j++)
			buffers[j] = i + j;
		err = recvs_post(poller, buffers, j, &posted);
	}
	return err;
}

/* Windows keep the SRQ from running empty; its limit event shows it if they fail to. */
int poller_arm_srq_limit(struct poller *poller)
{
	struct ibv_srq_attr attr = { .srq_limit = poller->limits.srq_depth / 8 };

	return poller->nic->dev->ops->modify_srq(poller->srq, &attr, IBV_SRQ_LIMIT);
}

/* What helps against the error, other than lower options. */
static const char *poller_advice(const struct poller *poller, int err)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return ", or " ADVICE_OPEN_FILES;
	case -ENOMEM:
		return device_kind_is_rdma(poller->nic->dev->kind) ?
			       ", or " ADVICE_LOCKED_MEMORY :
			       ", or allow the process more memory";
	default:
		return "";
	}
}

/* Logs that a step of the setup failed and which @options to lower; returns @err. */
static int poller_error(const struct poller *poller, int err, const char *step, const char *options)
{
	const struct poller_limits *limits = &poller->limits;
	const struct ibv_device_attr *attr = &poller->nic->attr;
	char size[PARSE_FORMAT_MAX];

	log_error("worker %u on device %s: can't %s: %s (%u receives, %u buffers of %s, %u "
		  "connections; the device has at most %d receives and %d completions in a queue): "
		  "lower %s%s",
		  poller->worker_number, poller->nic->dev->name, step, strerror(-err),
		  limits->srq_depth, buffer_count(poller), show_size(limits->buffer_bytes, size),
		  limits->conns_max, attr->max_srq_wr, attr->max_cqe, options,
		  poller_advice(poller, err));
	return err;
}

/* The steps of the setup, in order. */
static int poller_init_all(struct poller *poller, int cqes)
{
	const struct device_ops *ops = poller->nic->dev->ops;
	int err;

	poller->conns = cds_lfht_new(CONNS_HASH_BUCKETS, CONNS_HASH_BUCKETS, CONNS_HASH_BUCKETS, 0,
				     NULL);
	err = poller->conns ? poller_init_buffers(poller) : -ENOMEM;
	if (err)
		return poller_error(poller, err, "allocate its message buffers",
				    "request.srq_depth, request.buffer or server.workers");
	err = poller_register_buffers(poller);
	if (err)
		return poller_error(poller, err, "register its message buffers",
				    "request.srq_depth, request.buffer or server.workers");
	err = ops->create_comp_channel(poller->nic->dev, &poller->comp_channel);
	if (err)
		return poller_error(poller, err, "create its completion channel", "server.workers");
	err = poller_create_cq(poller, cqes);
	if (err)
		return poller_error(poller, err, "create its completion queue",
				    "server.max_connections, request.srq_depth or server.workers");
	err = poller_create_srq(poller);
	if (err)
		return poller_error(poller, err, "create its shared receive queue",
				    "request.srq_depth or server.workers");
	err = poller_fill_srq(poller);
	if (err)
		return poller_error(poller, err, "post receives", "request.srq_depth");
	err = poller_arm_srq_limit(poller);
	if (err)
		return poller_error(poller, err, "set the limit of its shared receive queue",
				    "request.srq_depth");
	return 0;
}

int poller_init(struct poller *poller, struct worker *worker, unsigned int number,
		const struct poller_limits *limits, struct nic *nic)
{
	uint32_t conns_fit;
	int cqes, err;

	*poller = (struct poller){
		.worker = worker,
		.worker_number = number,
		.nic = nic,
		.limits = *limits,
		.inline_max = INLINE_WANTED,
	};
	TAILQ_INIT(&poller->marked);
	TAILQ_INIT(&poller->unmarked);
	conns_fit = limits->srq_depth - limits->admins_max;
	if (conns_fit < limits->conns_max) {
		log_notice(
			"worker %u on device %s: takes at most %u connections instead of %u, one "
			"for each receive; raise request.srq_depth for more",
			number, nic->dev->name, conns_fit, limits->conns_max);
		poller->limits.conns_max = conns_fit;
	}
	cqes = poller_cq_size(poller);
	if (cqes < 0)
		return cqes;
	atomic_store(&poller->conns_wanted, poller->limits.conns_max);
	atomic_store(&poller->conns_reserved, poller->limits.conns_max);
	err = poller_init_all(poller, cqes);
	if (err)
		poller_release(poller);
	return err;
}

void poller_release(struct poller *poller)
{
	const struct device_ops *ops;

	if (!poller->nic)
		return;
	ops = poller->nic->dev->ops;
	ops->destroy_srq(poller->srq);
	ops->destroy_cq(poller->cq);
	ops->destroy_comp_channel(poller->comp_channel);
	ops->dereg_mr(poller->mr);
	if (poller->memory)
		munmap(poller->memory, poller->memory_bytes);
	free(poller->buffers);
	free(poller->free);
	if (poller->conns)
		cds_lfht_destroy(poller->conns, NULL);
	*poller = (struct poller){ 0 };
}

void poller_post_recvs(struct poller *poller, const uint32_t *buffers, unsigned int count)
{
	unsigned int posted, i;
	int err = recvs_post(poller, buffers, count, &posted);

	if (!err)
		return;
	for (i = posted; i < count; i++) {
		poller->buffers[buffers[i]].next = poller->unposted;
		poller->unposted = buffers[i];
		poller->unposted_count++;
	}
	/* The SRQ has room for exactly all the buffers, so the device is at fault. */
	log_ratelimited(LOG_ERROR, 1,
			"device %s: ibv_post_srq_recv: %s: %u of %u receives are missing: "
			"requests may have to wait; trying again",
			poller->nic->dev->name, strerror(-err), poller->unposted_count,
			poller->limits.srq_depth);
}

void poller_post_refused(struct poller *poller)
{
	uint32_t buffers[BATCH_MAX];
	unsigned int count = 0;

	while (poller->unposted_count && count < BATCH_MAX) {
		buffers[count++] = poller->unposted;
		poller->unposted = poller->buffers[poller->unposted].next;
		poller->unposted_count--;
	}
	poller_post_recvs(poller, buffers, count);
}
