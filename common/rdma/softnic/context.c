/* SPDX-License-Identifier: MIT */
/*
 * softnic: an RDMA device in software, for processes on one host.
 *
 * It implements struct device_ops and the five verbs of the data path like a device with reliable
 * connections: a program that follows the manual pages of libibverbs and librdmacm sees one
 * difference. There is no NIC and no thread: the device works inside the calls made to it. Posting,
 * polling and taking an event of a channel move the connections concerned forward (progress.c). A
 * peer that makes none of these calls does not receive messages, and does not serve READs of memory
 * that it did not share; SENDs to it stay incomplete. READs of shared memory need no help of the
 * peer's.
 *
 * The parts of a connection:
 *
 *	socket		SOCK_SEQPACKET: carries the handshake (handshake.c), then wake-ups of one
 *			byte, and files for the peer to read. When it ends, the connection ends.
 *	memfd		created by the side that accepts, sealed against shrinking: for each
 *			side, the words that it publishes and two rings, of requests and of
 *			responses (link.h).
 *	region		the memfd of memory registered for remote reading, sealed and passed to
 *			the peer, which copies from it: the side that connects maps it read-only,
 *			the side that accepts reads it (read.c, file.c, grant.c).
 *
 * A wake-up is a byte on the socket and not an eventfd. An eventfd's flags, such as O_NONBLOCK,
 * belong to both sides, so a peer could make our write to it block; a socket has an end for each
 * side, and MSG_DONTWAIT. It also takes one descriptor per connection instead of three.
 *
 * Guarantees, which tests cite:
 *
 *   SOFTNIC-1. Order. Requests of a queue pair start and complete in the order in which they were
 *	 posted; a READ sees what the SENDs before it did to the peer's memory.
 *   SOFTNIC-2. Once. A posted request completes once, or silently if it is unsignaled and succeeds;
 *	 in the error state every request that is not complete is flushed.
 *   SOFTNIC-3. No wake-up is lost. A completion that can be polled after ibv_req_notify_cq()
 *	 returned was either there before, so that the poll after it finds it, or it makes the
 *	 channel's fd readable. (The fd may be readable without a completion.)
 *   SOFTNIC-4. The peer is not trusted. Whatever it writes to the shared memory or the socket, at
 *	 any time, can only put its own connection in error: no crash, no endless loop, no blocking
 *	 call, no access outside the rings and the registrations that it may read. One thing is
 *	 left to a server: the file of memory.file can't be sealed, so the server's user could
 *	 shrink it under the mappings of clients (link_file_owned()).
 *   SOFTNIC-5. No remote write. No code here writes a peer's memory; peers can't map the files for
 *	 writing (a server's: F_SEAL_FUTURE_WRITE, or a descriptor for reading of a file that its
 *	 user alone may write to; a client's: a descriptor for reading). Access
 *	 flags that allow writing are refused, not ignored.
 *   SOFTNIC-6. No stale memory. A READ fails once the peer has disconnected, is in error or has
 *	 revoked the right; after a SIGKILL, at the latest one tick of the coarse clock later.
 *   SOFTNIC-7. Bounded. Every queue has a maximum, in the header of its object; every step of
 *	 connecting has a deadline; and one call does a bounded amount of work. The data path
 *	 allocates nothing but the memory for inline data, when the first such request of a queue
 *	 pair has to wait, and entries of a pair's queues, when more are outstanding than ever
 *	 before. It makes system calls only to wake a peer that sleeps; to READ a client's file, 64
 *	 KiB at a time; to take wake-ups and files off the socket before it sleeps and when a READ's
 *	 memory is not there; once per clock tick that a wait lasts through, to find out which peers
 *	 are gone; and in every 128th poll without work, to find out which cold connections woke us.
 *   SOFTNIC-8. Idle connections cost a poll next to nothing (scan.c).
 */
#include "common/rdma/softnic/device_context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/rdma/mem.h"
#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/completion_channel.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/life_word.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/receive_queue.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/util/heap.h"
#include "common/util/log.h"

/* clang-format off */
static const struct {
	const char *name;
	int max;
} objects[SN_OBJECT_COUNT] = {
	[SN_OBJECT_PD]		 = { "protection domains", SN_PD_MAX },
	[SN_OBJECT_MR]		 = { "memory registrations", SN_MR_MAX },
	[SN_OBJECT_MW]		 = { "memory windows", SN_MW_MAX },
	[SN_OBJECT_COMP_CHANNEL] = { "completion channels", SN_CHANNEL_MAX },
	[SN_OBJECT_CQ]		 = { "completion queues", SN_CQ_MAX },
	[SN_OBJECT_SRQ]		 = { "shared receive queues", SN_SRQ_MAX },
	[SN_OBJECT_QP]		 = { "queue pairs", SN_QP_MAX },
	[SN_OBJECT_CM_CHANNEL]	 = { "connection channels", SN_CHANNEL_MAX },
	[SN_OBJECT_ID]		 = { "connections", SN_ID_MAX },
};
/* clang-format on */

int sn_object_add(struct sn_context *ctx, enum sn_object object)
{
	if (atomic_fetch_add(&ctx->objects[object], 1) < objects[object].max)
		return 0;
	atomic_fetch_sub(&ctx->objects[object], 1);
	log_ratelimited(LOG_ERROR, 1, "softnic: the limit of %d %s per device is reached",
			objects[object].max, objects[object].name);
	return -ENOMEM;
}

void sn_object_remove(struct sn_context *ctx, enum sn_object object)
{
	atomic_fetch_sub(&ctx->objects[object], 1);
}

/* Whether objects of the context are left, which would use it after it was freed. */
static bool context_used(struct sn_context *ctx)
{
	bool used = false;
	unsigned int i;

	for (i = 0; i < SN_OBJECT_COUNT; i++) {
		int count = atomic_load(&ctx->objects[i]);

		if (!count)
			continue;
		log_error("softnic: %s was closed before %d %s were destroyed: their memory is "
			  "leaked until this process ends",
			  ctx->dev.address, count, objects[i].name);
		used = true;
	}
	return used;
}

static void context_init_verbs(struct sn_context *ctx)
{
	struct ibv_context *verbs = &ctx->verbs;

	snprintf(ctx->device.name, sizeof(ctx->device.name), "softnic");
	snprintf(ctx->device.dev_name, sizeof(ctx->device.dev_name), "softnic");
	ctx->device.node_type = IBV_NODE_UNSPECIFIED;
	ctx->device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
	verbs->device = &ctx->device;
	verbs->cmd_fd = -1;
	verbs->num_comp_vectors = 1;
	verbs->ops.poll_cq = sn_poll_cq;
	verbs->ops.req_notify_cq = sn_req_notify_cq;
	verbs->ops.post_srq_recv = sn_post_srq_recv;
	verbs->ops.post_send = sn_post_send;
	verbs->ops.post_recv = sn_post_recv;
	pthread_mutex_init(&verbs->mutex, NULL);
}

static void context_init(struct sn_context *ctx, const struct device_addr *addr,
			 enum device_role role)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)getpid();
	ctx->dev.kind = DEVICE_SOFTNIC;
	ctx->dev.ops = &softnic_ops;
	ctx->dev.verbs = &ctx->verbs;
	ctx->dev.serves_plain = true;
	snprintf(ctx->dev.name, sizeof(ctx->dev.name), "softnic");
	snprintf(ctx->dev.address, sizeof(ctx->dev.address), "%s", addr->path);
	ctx->addr = *addr;
	ctx->role = role;
	ctx->listen_fd = -1;
	ctx->life = SN_LIFE_NONE;
	ctx->qp_numbers.next = (random & 0x7fffff) | 0x100;
	ctx->mr_tag = random >> 13;
	ctx->mr_next = random % SN_MR_MAX;
	ctx->mw_next = random % SN_MW_MAX;
	TAILQ_INIT(&ctx->qps);
	TAILQ_INIT(&ctx->cm_channels);
	TAILQ_INIT(&ctx->channels);
	TAILQ_INIT(&ctx->async);
	LIST_INIT(&ctx->files);
	ctx->fatal.event.type = IBV_EVENT_DEVICE_FATAL;
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_mutex_init(&ctx->mr_lock, NULL);
	pthread_mutex_init(&ctx->map_lock, NULL);
	TAILQ_INIT(&ctx->maps);
	pthread_mutex_init(&ctx->file_lock, NULL);
	pthread_mutex_init(&ctx->async_lock, NULL);
	context_init_verbs(ctx);
}

static void context_free(struct sn_context *ctx)
{
	sn_life_end(&ctx->life);
	sn_address_release(ctx);
	sn_qp_numbers_release(&ctx->qp_numbers);
	heap_free(ctx->mw_slots);
	if (ctx->verbs.async_fd >= 0)
		close(ctx->verbs.async_fd);
	pthread_mutex_destroy(&ctx->verbs.mutex);
	pthread_mutex_destroy(&ctx->async_lock);
	pthread_mutex_destroy(&ctx->file_lock);
	pthread_mutex_destroy(&ctx->map_lock);
	pthread_mutex_destroy(&ctx->mr_lock);
	pthread_mutex_destroy(&ctx->lock);
	heap_free(ctx);
}

static int sn_open(struct device **dev, const struct device_addr *addr, enum device_role role,
		   int timeout_ms)
{
	struct sn_context *ctx;
	int ret;

	(void)timeout_ms; /* nothing here waits */
	ret = fault_init();
	if (!ret)
		ret = fault_check(FAULT_open, NULL);
	if (ret)
		return ret;
	if (addr->kind != DEVICE_SOFTNIC || !addr->path[0] ||
	    !memchr(addr->path, 0, sizeof(addr->path)))
		return -EINVAL;
	ctx = heap_calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	context_init(ctx, addr, role);
	ctx->verbs.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->verbs.async_fd < 0) {
		ret = -errno;
		log_error("softnic: can't open the device: eventfd: %m");
		goto free_ctx;
	}
	ret = role == DEVICE_LISTEN ? sn_address_bind(ctx) : sn_address_find(addr);
	if (ret)
		goto free_ctx;
	if (role == DEVICE_LISTEN)
		sn_life_begin(&ctx->life);
	*dev = &ctx->dev;
	return 0;

free_ctx:
	context_free(ctx);
	return ret;
}

static void sn_close(struct device *dev)
{
	struct sn_context *ctx = dev ? dev_to_sn_context(dev) : NULL;

	if (!ctx)
		return;
	if (context_used(ctx))
		sn_address_release(ctx);
	else
		context_free(ctx);
}

static int sn_query(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port)
{
	int ret = fault_check(FAULT_query, dev_to_sn_context(dev));

	if (ret)
		return ret;
	*attr = (struct ibv_device_attr){
		.fw_ver = "softnic 1",
		.max_mr_size = fault_mr_max(),
		.page_size_cap = 4096,
		.max_qp = SN_QP_MAX,
		.max_qp_wr = SN_WR_MAX,
		.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_sge = SN_SGE_MAX,
		.max_sge_rd = SN_SGE_MAX,
		.max_cq = SN_CQ_MAX,
		.max_cqe = SN_CQE_MAX,
		.max_mr = SN_MR_MAX,
		.max_mw = SN_MW_MAX,
		.max_pd = SN_PD_MAX,
		.max_qp_rd_atom = SN_READS_MAX,
		.max_res_rd_atom = SN_READS_MAX * SN_QP_MAX,
		.max_qp_init_rd_atom = SN_READS_MAX,
		.atomic_cap = IBV_ATOMIC_NONE,
		.max_srq = SN_SRQ_MAX,
		.max_srq_wr = SN_SRQ_WR_MAX,
		.max_srq_sge = SN_SGE_MAX,
		.phys_port_cnt = 1,
	};
	*port = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.max_msg_sz = SN_MESSAGE_MAX,
		.phys_state = 5, /* LinkUp */
	};
	return 0;
}

#ifdef SN_LOCK_CHECK
void sn_lock_broken(void)
{
	log_error("softnic: two threads at once use a connection that was declared for one thread");
	abort();
}
#endif

bool sn_context_is_dead(const struct sn_context *ctx)
{
	return atomic_load(&ctx->dead);
}

void sn_context_kill(struct sn_context *ctx)
{
	struct sn_cm_channel *cm;
	struct sn_channel *channel;
	struct sn_qp *qp;

	if (atomic_exchange(&ctx->dead, true))
		return;
	sn_async_push(ctx, &ctx->fatal);
	pthread_mutex_lock(&ctx->lock);
	TAILQ_FOREACH(qp, &ctx->qps, in_context) {
		/*
		 * Another thread owns it: its next scan, or its timer, finds that the device is
		 * dead.
		 */
		if (qp->lock.single)
			continue;
		sn_lock(&qp->lock);
		/* A queue pair that is not in its CQs' lists yet is served when it enters them. */
		if (qp->attached && qp->verbs.state == IBV_QPS_RTS)
			do_sn_qp_attend(qp, true);
		sn_unlock(&qp->lock);
	}
	TAILQ_FOREACH(channel, &ctx->channels, in_context)
		sn_channel_timer(channel, 1);
	TAILQ_FOREACH(cm, &ctx->cm_channels, in_context)
		sn_cm_channel_kick(cm);
	pthread_mutex_unlock(&ctx->lock);
}

static int sn_alloc_pd(struct device *dev, struct ibv_pd **pd)
{
	struct sn_context *ctx = dev_to_sn_context(dev);
	int ret = fault_check(FAULT_alloc_pd, ctx);

	if (ret)
		return ret;
	ret = sn_object_add(ctx, SN_OBJECT_PD);
	if (ret)
		return ret;
	*pd = heap_calloc(1, sizeof(**pd));
	if (!*pd) {
		sn_object_remove(ctx, SN_OBJECT_PD);
		return -ENOMEM;
	}
	(*pd)->context = &ctx->verbs;
	return 0;
}

static void sn_dealloc_pd(struct ibv_pd *pd)
{
	if (!pd)
		return;
	sn_object_remove(to_sn_context(pd->context), SN_OBJECT_PD);
	heap_free(pd);
}

static int sn_alloc_mem(struct device *dev, size_t bytes, struct device_mem *mem)
{
	int ret = fault_check(FAULT_alloc_mem, dev_to_sn_context(dev));

	return ret ? ret : mem_map(mem, bytes, true);
}

static void sn_free_mem(struct device *dev, struct device_mem *mem)
{
	(void)dev;
	mem_unmap(mem);
}

const struct device_ops softnic_ops = {
	.name = "softnic",
	.open = sn_open,
	.close = sn_close,
	.query = sn_query,
	.conn_bytes = sn_conn_bytes,
	.get_async_event = sn_get_async_event,
	.alloc_mem = sn_alloc_mem,
	.free_mem = sn_free_mem,
	.alloc_pd = sn_alloc_pd,
	.dealloc_pd = sn_dealloc_pd,
	.reg_mr = sn_reg_mr,
	.dereg_mr = sn_dereg_mr,
	.alloc_mw = sn_alloc_mw,
	.dealloc_mw = sn_dealloc_mw,
	.create_comp_channel = sn_create_comp_channel,
	.create_channel_pair = sn_create_channel_pair,
	.destroy_comp_channel = sn_destroy_comp_channel,
	.create_cq = sn_create_cq,
	.destroy_cq = sn_destroy_cq,
	.get_cq_event = sn_get_cq_event,
	.sleep = sn_sleep,
	.create_srq = sn_create_srq,
	.modify_srq = sn_modify_srq,
	.destroy_srq = sn_destroy_srq,
	.create_qp = sn_create_qp,
	.modify_qp = sn_modify_qp,
	.query_qp = sn_query_qp,
	.read_source = sn_read_source,
	.read_now = sn_read_now,
	.fill = sn_fill,
	.destroy_qp = sn_destroy_qp,
	.create_cm_channel = sn_create_cm_channel,
	.destroy_cm_channel = sn_destroy_cm_channel,
	.cm_get_event = sn_cm_get_event,
	.listen = sn_listen,
	.create_id = sn_create_id,
	.connect = sn_connect,
	.accept = sn_accept,
	.reject = sn_reject,
	.query_peer = sn_query_peer,
	.disconnect = sn_disconnect,
	.destroy_id = sn_destroy_id,
};
