/* SPDX-License-Identifier: MIT */
/*
 * READs of files that the peer granted us: a check of key, range and right, and a copy. GETs take
 * this path, so the only system call on it is a check of the peer's socket once per tick of the
 * coarse clock (the memory of a peer that was killed remains, and without the check READs would
 * return its stale bytes).
 *
 * Only the side that connects maps files, those without holes: a client could make a server fault
 * on a file that the server mapped. The side that accepts reads them: file.c. The peer revokes a
 * grant by clearing its word in granted[], which every READ checks.
 */
#include "common/rdma/softnic/file_grant.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/barrier.h"
#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/scatter_gather.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/softnic.h"
#include "common/sum.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/unix_socket.h"

/* The copy that one READ of a chain makes. */
struct read_step {
	const uint8_t *from;
	uint32_t length;
};

/* Copies a few whole lines, as in small items; for more, a call of memcpy() pays. */
static void copy_lines(uint8_t *to, const uint8_t *from, size_t length)
{
	size_t at;

	for (at = 0; at < length; at += SN_LINE)
		memcpy(to + at, from + at, SN_LINE);
}

inline void sn_read_copy(void *to, const uint8_t *from, size_t length)
{
	if (fault_on())
		fault_copy(to, from, length);
	else if (length <= SN_COPY_LINES * SN_LINE && length % SN_LINE == 0)
		copy_lines(to, from, length);
	else
		memcpy(to, from, length);
}

static void do_grant_release(struct sn_qp *qp, struct sn_grant *grant)
{
	if (grant->map)
		sn_map_put(qp->ctx, grant->map);
	if (grant->file) {
		sn_file_put(qp->ctx, grant->file);
		qp->grants_open--;
	}
	*grant = (struct sn_grant){ .rkey = 0 };
}

void do_sn_grants_release(struct sn_qp *qp)
{
	uint32_t i;

	for (i = 0; i < LINK_GRANTS_MAX; i++)
		do_grant_release(qp, &qp->grants[i]);
}

/* Otherwise memory that a client has freed would stay allocated. */
void do_sn_grants_review(struct sn_qp *qp)
{
	const struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);
	uint32_t i;

	for (i = 0; qp->grants_open && i < LINK_GRANTS_MAX; i++)
		if (qp->grants[i].file && side_load(&theirs->granted[i]) != qp->grants[i].rkey)
			do_grant_release(qp, &qp->grants[i]);
}

/* Whether what a GRANT says can be true of a file of @bytes. */
static bool grant_fits(const struct link_message *message, uint64_t bytes)
{
	return message->grant_slot < LINK_GRANTS_MAX && message->grant_rkey && !message->reserved &&
	       message->grant_length && message->grant_offset <= bytes &&
	       message->grant_length <= bytes - message->grant_offset &&
	       message->grant_addr + message->grant_length >= message->grant_addr;
}

/* Checks that a granted file is safe to map; its st_blksize is its page size. */
static int grant_check(const struct link_message *message, int sock, int fd, struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct ucred peer;

	/* Of other files even fstat() may wait for a process. */
	if (seals < 0 || fstat(fd, st))
		return -EPROTO;
	if (!link_file_safe(seals) &&
	    (unix_socket_peer(sock, &peer) || !link_file_owned(fd, st, peer.uid)))
		return -EPROTO;
	if (!grant_fits(message, (uint64_t)st->st_size))
		return -EPROTO;
	if (st->st_blksize < 4096 || (st->st_blksize & (st->st_blksize - 1)))
		return -EPROTO;
	return 0;
}

/*
 * Whether the memory of a GRANT is allocated: a READ of a hole would allocate it for this process,
 * or end it. Of a file that may still change, memory.file's, the first part is.
 */
static bool grant_is_full(const struct link_message *message, int fd, const struct stat *st)
{
	return link_file_safe(fcntl(fd, F_GET_SEALS)) ?
		       link_file_full(st) :
		       link_file_bytes(st) >= message->grant_offset + message->grant_length;
}

/* Maps all memory of a GRANT. */
static int do_grant_map(struct sn_qp *qp, const struct link_message *message, int fd,
			const struct stat *st, struct sn_grant *grant)
{
	uint64_t unit = (uint64_t)st->st_blksize;
	uint64_t start = message->grant_offset & ~(unit - 1);
	uint64_t into = message->grant_offset - start;
	size_t length = (size_t)((into + message->grant_length + unit - 1) & ~(unit - 1));
	char size[PARSE_FORMAT_MAX];
	int ret;

	if (!grant_is_full(message, fd, st))
		return -ENXIO;
	ret = sn_map_get(qp->ctx, fd, st, start, length, &grant->map);
	if (ret) {
		log_ratelimited(LOG_WARN, 1,
				"softnic: can't map %s of the server's memory: %s; READs of it are "
				"slower; raise the limit of address space (ulimit -v)",
				show_size(length, size), strerrordesc_np(-ret));
		return ret;
	}
	grant->memory = (const uint8_t *)grant->map->base + into;
	return 0;
}

int do_sn_grant_take(struct sn_qp *qp, const struct link_message *message, int fd)
{
	struct sn_grant grant = {
		.rkey = message->grant_rkey,
		.addr = message->grant_addr,
		.length = message->grant_length,
		.file_offset = message->grant_offset,
	};
	struct stat st;
	int ret;

	if (message->magic != LINK_MAGIC || message->type != LINK_MESSAGE_GRANT ||
	    grant_check(message, qp->sock, fd, &st)) {
		log_ratelimited(
			LOG_ERROR, 1,
			"softnic: queue pair %#x: refused to map a file of the server: its seals, "
			"owner or range are wrong; READs of it fail",
			qp->verbs.qp_num);
		return -EPROTO;
	}
	ret = do_grant_map(qp, message, fd, &st, &grant);
	if (ret)
		ret = sn_file_get(qp->ctx, fd, !qp->grants_open, &grant.file);
	if (ret) {
		log_error("softnic: can't READ the server's memory: %s%s", strerrordesc_np(-ret),
			  ret == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
		return ret;
	}
	do_grant_release(qp, &qp->grants[message->grant_slot]);
	qp->grants_open += grant.file ? 1 : 0;
	qp->grants[message->grant_slot] = grant;
	return 0;
}

/*
 * If we refuse the file, or have too many, its owner serves READs of it, like those of memory
 * without a file.
 */
static int do_grant_open_file(struct sn_qp *qp, const struct link_message *message, int fd,
			      struct sn_file **file)
{
	int ret = fd < 0 ? -ENOENT : sn_file_get(qp->ctx, fd, !qp->grants_open, file);

	if (ret == -EBADF)
		sn_file_bar(qp->ctx, qp->sock);
	if (!ret && !grant_fits(message, sn_file_bytes(*file))) {
		sn_file_put(qp->ctx, *file);
		ret = -ERANGE;
	}
	if (ret)
		log_ratelimited(
			LOG_WARN, 10,
			"softnic: queue pair %#x: can't use the memory that the peer passed: %s; "
			"READs of it cost the peer CPU time%s",
			qp->verbs.qp_num, strerrordesc_np(-ret),
			ret == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
	return ret;
}

int do_sn_grant_open(struct sn_qp *qp, const struct link_message *message, int fd)
{
	struct sn_grant *grant;
	struct sn_file *file;

	if (message->magic != LINK_MAGIC || message->type != LINK_MESSAGE_GRANT ||
	    !grant_fits(message, UINT64_MAX) || !do_sn_grant_allowed(qp))
		return -EPROTO;
	qp->grants_count++;
	grant = &qp->grants[message->grant_slot];
	do_grant_release(qp, grant);
	if (do_grant_open_file(qp, message, fd, &file))
		return 0;
	*grant = (struct sn_grant){
		.rkey = message->grant_rkey,
		.addr = message->grant_addr,
		.length = message->grant_length,
		.file = file,
		.file_offset = message->grant_offset,
	};
	qp->grants_open++;
	return 0;
}

/* The grant with this key, if it still holds. */
static struct sn_grant *do_grant_find(struct sn_qp *qp, const struct link_side *theirs,
				      uint32_t rkey)
{
	uint32_t slot = qp->grant_last;

	if (!rkey)
		return NULL;
	if (qp->grants[slot].rkey != rkey)
		for (slot = 0; slot < LINK_GRANTS_MAX && qp->grants[slot].rkey != rkey; slot++)
			;
	if (slot == LINK_GRANTS_MAX || side_load(&theirs->granted[slot]) != rkey)
		return NULL;
	qp->grant_last = slot;
	return &qp->grants[slot];
}

/* The offset of an address before the grant wraps around, and is too large. */
static bool grant_covers(const struct sn_grant *grant, uint64_t addr, uint64_t length)
{
	uint64_t offset = addr - grant->addr;

	return offset <= grant->length && length <= grant->length - offset;
}

/* NULL: not all of it is in the grant, or the grant is not mapped. */
static const uint8_t *grant_at(const struct sn_grant *grant, uint64_t addr, uint64_t length)
{
	if (!grant->memory || !grant_covers(grant, addr, length))
		return NULL;
	return grant->memory + (addr - grant->addr);
}

static bool side_gone(const struct link_side *theirs)
{
	return side_load(&theirs->closed) || side_load(&theirs->error);
}

/* Whether the peer has hung up: checks its socket once per tick. */
static bool do_read_peer_hung_up(struct sn_qp *qp)
{
	uint64_t tick = sn_now_ns(CLOCK_MONOTONIC_COARSE);

	if (tick == qp->tick)
		return false;
	qp->tick = tick;
	return link_hung_up(qp->sock);
}

/*
 * Whether the peer is alive. A READ that begins before the peer's death returns the memory of that
 * time; a later one fails. The word may stay if the kernel's OOM reaper has taken the dying
 * process's memory, with its list of mutexes: then the socket tells, later.
 */
static inline bool do_read_peer_alive(struct sn_qp *qp, const struct link_side *theirs)
{
	if (side_gone(theirs))
		return false;
	if (!do_sn_life_ended(qp) &&
	    ((qp->life && ++qp->life_reads % SN_LIFE_READS) || !do_read_peer_hung_up(qp)))
		return true;
	do_sn_qp_lost(qp);
	return false;
}

/* Whether the peer has passed a file with this key that we have not taken yet. */
static bool side_has_granted(const struct link_side *theirs, uint32_t rkey)
{
	uint32_t slot;

	for (slot = 0; slot < LINK_GRANTS_MAX; slot++)
		if (side_load(&theirs->granted[slot]) == rkey)
			return true;
	return false;
}

/* Takes files that the peer passed. NULL: none has that key, or the queue pair is in error. */
static struct sn_grant *do_grant_await(struct sn_qp *qp, const struct link_side *theirs,
				       uint32_t rkey)
{
	if (!qp->is_active && (!rkey || !side_has_granted(theirs, rkey)))
		return NULL;
	do_sn_qp_drain(qp, true);
	qp->rearm = true;
	if (qp->verbs.state != IBV_QPS_RTS)
		return NULL;
	return do_grant_find(qp, theirs, rkey);
}

enum sn_read_path do_sn_read_resolve(struct sn_qp *qp, uint32_t rkey, uint64_t addr,
				     uint32_t length, struct sn_source *source)
{
	const struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);
	struct sn_grant *grant;
	bool serves;

	/* A zero-length READ is a probe: the peer has to serve it. */
	if (!length || side_gone(theirs))
		return SN_READ_SERVED;
	/* Load this first: if it is 0, the peer has already passed all its files. */
	serves = side_load(&theirs->serves);
	grant = do_grant_find(qp, theirs, rkey);
	if (!grant)
		grant = do_grant_await(qp, theirs, rkey);
	if (qp->verbs.state != IBV_QPS_RTS)
		return SN_READ_LOST;
	/* The peer's life word came with the grant. */
	if (do_sn_life_ended(qp)) {
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
		return SN_READ_LOST;
	}
	if (!grant)
		return serves ? SN_READ_SERVED : SN_READ_REFUSED;
	if (!grant_covers(grant, addr, length))
		return SN_READ_REFUSED;
	/* The peer serves READs when it has filled its memory. */
	if (grant->file && side_fill_there(theirs, addr, length) < length)
		return SN_READ_SERVED;
	*source = (struct sn_source){
		.memory = grant_at(grant, addr, length),
		.file = grant->file,
		.offset = grant->file_offset + (addr - grant->addr),
	};
	return source->memory ? SN_READ_MAPPED : SN_READ_FILE;
}

bool do_sn_read_stands(struct sn_qp *qp, uint32_t rkey)
{
	const struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);

	load_barrier();
	return do_grant_find(qp, theirs, rkey) && !side_gone(theirs);
}

/* The keys of the chain's last READ: the next READ usually has the same. */
struct read_keys {
	const struct sn_grant *grant;
	const struct sn_mr *mr;
};

/* Whether the READ may write to its local memory. */
static bool do_read_local_valid(struct sn_qp *qp, const struct ibv_send_wr *wr,
				struct read_keys *keys)
{
	const struct ibv_sge *sge = wr->sg_list;

	if (wr->num_sge != 1)
		return sn_sges_valid(qp, sge, (uint32_t)wr->num_sge, IBV_ACCESS_LOCAL_WRITE);
	if (keys->mr && keys->mr->verbs.lkey == sge->lkey)
		return sn_mr_covers(keys->mr, sge->addr, sge->length);
	keys->mr = sn_mr_find(qp->ctx, qp->verbs.pd, sge->lkey, sge->addr, sge->length,
			      IBV_ACCESS_LOCAL_WRITE);
	return keys->mr;
}

/* Whether a READ only needs copying; then fills in @step. */
static bool do_read_simple(struct sn_qp *qp, const struct link_side *theirs,
			   const struct ibv_send_wr *wr, struct read_keys *keys,
			   struct read_step *step)
{
	uint64_t length;

	/* 0 is too large, too: it wraps around. So does a length of 0. */
	if (wr->opcode != IBV_WR_RDMA_READ || (uint32_t)wr->num_sge - 1 >= qp->cap.max_send_sge ||
	    (wr->send_flags & ~(unsigned int)(IBV_SEND_SIGNALED | IBV_SEND_FENCE)))
		return false;
	if (wr->num_sge == 1)
		length = wr->sg_list[0].length;
	else
		length = sn_sges_length(wr->sg_list, (uint32_t)wr->num_sge);
	if (length - 1 >= SN_MESSAGE_MAX)
		return false;
	if (!keys->grant || keys->grant->rkey != wr->wr.rdma.rkey)
		keys->grant = do_grant_find(qp, theirs, wr->wr.rdma.rkey);
	if (!keys->grant)
		return false;
	step->from = grant_at(keys->grant, wr->wr.rdma.remote_addr, length);
	step->length = (uint32_t)length;
	return step->from && do_read_local_valid(qp, wr, keys);
}

/* Executes one READ; false if the CQ is full and so is dead. */
static bool do_read_step(struct sn_qp *qp, const struct ibv_send_wr *wr,
			 const struct read_step *step)
{
	struct sn_cqe cqe;

	if (wr->num_sge == 1)
		sn_read_copy((void *)(uintptr_t)wr->sg_list[0].addr, step->from, step->length);
	else
		sn_sges_read(wr->sg_list, (uint32_t)wr->num_sge, step->from, step->length);
	qp->sq.posted++;
	if (!qp->signal_all && !(wr->send_flags & IBV_SEND_SIGNALED))
		return true;
	cqe = (struct sn_cqe){
		.qp = qp,
		.sq_end = qp->sq.posted,
		.is_send = true,
		.wc = {
			.wr_id = wr->wr_id,
			.status = IBV_WC_SUCCESS,
			.opcode = IBV_WC_RDMA_READ,
			.byte_len = step->length,
			.qp_num = qp->verbs.qp_num,
		},
	};
	return sn_cq_push(qp->send_cq, &cqe);
}

unsigned int do_sn_read_chain(struct sn_qp *qp, struct ibv_send_wr **wr)
{
	const struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);
	uint32_t used = qp->sq.posted - atomic_load_explicit(&qp->sq.freed, memory_order_acquire);
	uint32_t room = qp->cap.max_send_wr - used;
	struct read_keys keys = { NULL, NULL };
	struct ibv_send_wr *at = *wr;
	struct read_step step;
	bool alive = true;
	unsigned int count;

	if (at->opcode != IBV_WR_RDMA_READ || !do_read_peer_alive(qp, theirs))
		return 0;
	for (count = 0; at && count < room && alive; count++) {
		if (!do_read_simple(qp, theirs, at, &keys, &step))
			break;
		alive = do_read_step(qp, at, &step);
		at = at->next;
	}
	*wr = at;
	if (!count)
		return 0;
	qp->sq.pushed = qp->sq.done = qp->sq.posted;
	if (!alive)
		do_sn_qp_error(qp, IBV_WC_WR_FLUSH_ERR, LINK_ERROR_GONE);
	return count;
}

const uint8_t *sn_read_source(struct ibv_qp *verbs, uint32_t rkey, uint64_t addr, uint64_t length)
{
	struct sn_qp *qp = to_sn_qp(verbs);
	const struct link_side *theirs;
	const struct sn_grant *grant;
	const uint8_t *source = NULL;

	sn_lock(&qp->lock);
	theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);
	grant = theirs ? do_grant_find(qp, theirs, rkey) : NULL;
	if (grant)
		source = grant_at(grant, addr, length);
	sn_unlock(&qp->lock);
	return source;
}

/* READs from a mapping, whose content may change meanwhile. */
static int64_t read_now_mapped(const uint8_t *from, void *to, uint32_t bytes, struct value_sum *sum)
{
	if (fault_on()) {
		fault_copy(to, from, bytes);
		value_sum_add(sum, to, bytes);
	} else {
		value_sum_copy(sum, to, from, bytes);
	}
	return bytes;
}

/*
 * READs a file through a buffer. Copying twice takes less time than letting preadv(2) write to
 * memory that is in no cache: for 1 MiB, copied and summed, 85 us instead of 136 us.
 */
static int64_t do_read_now_file(struct sn_qp *qp, const struct sn_grant *grant, uint64_t offset,
				uint8_t *to, uint32_t bytes, struct value_sum *sum)
{
	const uint32_t rkey = grant->rkey;
	uint8_t buffer[SN_NOW_BYTES];
	uint32_t done = 0, part;
	int64_t got;

	while (done < bytes) {
		part = bytes - done < SN_NOW_BYTES ? bytes - done : SN_NOW_BYTES;
		if (fault_on())
			part = fault_part(part);
		got = sn_file_read(qp->ctx, grant->file, offset + done,
				   &(struct iovec){ buffer, part }, 1);
		/* The part counts only if the memory was still registered after the copy. */
		if (got > 0 && !do_sn_read_stands(qp, rkey))
			got = -ESTALE;
		if (got < 0)
			return done ? done : got;
		value_sum_move(sum, to + done, buffer, (size_t)got);
		done += (uint32_t)got;
	}
	return done;
}

/* READs the part of a file that is filled already, if it is worth a system call. */
static int64_t do_read_now_there(struct sn_qp *qp, const struct link_side *theirs,
				 const struct sn_grant *grant, uint64_t addr, uint8_t *to,
				 uint32_t bytes, struct value_sum *sum)
{
	uint32_t there = side_fill_there(theirs, addr, bytes);

	if (there < bytes && there < LINK_FILL_MIN) {
		/* We may just have posted a READ: see do_fill_end(). */
		store_load_barrier();
		there = side_fill_there(theirs, addr, bytes);
	}
	if (there < bytes && there < LINK_FILL_MIN)
		return -EBUSY;
	return do_read_now_file(qp, grant, grant->file_offset + (addr - grant->addr), to, there,
				sum);
}

static int64_t do_read_now(struct sn_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
			   struct value_sum *sum)
{
	const struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_relaxed);
	const struct sn_grant *grant;

	if (qp->verbs.state != IBV_QPS_RTS || !theirs || !do_read_peer_alive(qp, theirs))
		return -ENOTCONN;
	grant = do_grant_find(qp, theirs, rkey);
	if (!grant || (!grant->memory && !grant->file))
		return -EAGAIN;
	if (!grant_covers(grant, addr, bytes))
		return -EACCES;
	if (!bytes)
		return 0;
	if (grant->memory)
		return read_now_mapped(grant->memory + (addr - grant->addr), to, bytes, sum);
	return do_read_now_there(qp, theirs, grant, addr, to, bytes, sum);
}

/*
 * All is there: serves the READ of a peer that waited meanwhile, since the owner may not poll for
 * long. Either we see the READ here, or the peer, which looks once more after posting it, sees that
 * all is there: both store, and then load, with a fence in between.
 */
static void do_fill_end(struct sn_qp *qp)
{
	qp->filling = false;
	side_fill(qp->mine, 0, 0);
	store_load_barrier();
	if (sn_qp_has_work(qp))
		do_sn_qp_progress(qp);
}

/* Only the thread that posts work requests calls this. */
bool sn_fill(struct ibv_qp *verbs, uint64_t addr, uint32_t left)
{
	struct sn_qp *qp = to_sn_qp(verbs);
	const struct link_side *theirs = atomic_load_explicit(&qp->theirs, memory_order_acquire);

	if (!theirs || (!qp->filling && !side_load(&theirs->follows)))
		return false;
	if (qp->filling && left) {
		side_fill(qp->mine, addr, left);
		return true;
	}
	sn_lock(&qp->lock);
	qp->filling = left;
	if (left)
		side_fill(qp->mine, addr, left);
	else
		do_fill_end(qp);
	sn_unlock(&qp->lock);
	return true;
}

int64_t sn_read_now(struct ibv_qp *verbs, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
		    struct value_sum *sum)
{
	struct sn_qp *qp = to_sn_qp(verbs);
	int64_t got;

	sn_lock(&qp->lock);
	got = do_read_now(qp, rkey, addr, to, bytes, sum);
	sn_unlock(&qp->lock);
	return got;
}
