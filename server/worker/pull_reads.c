/* SPDX-License-Identifier: MIT */
/* READs large values from clients, piece by piece, and ends connections that do not serve them. */
#include "server/worker/pull_reads.h"

#include <errno.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/worker/budget.h"
#include "server/worker/grant.h"
#include "server/worker/keepalive.h"
#include "server/worker/response.h"

#define STALLED "no part of a large value was read from the client within server.pull_stall"

static void clock_start(struct conn *conn, uint64_t now_ns)
{
	struct worker *worker = conn->poller->worker;

	conn->pull_since_ns = conn->progress_ns = now_ns;
	TAILQ_INSERT_TAIL(&worker->pulls, conn, pull_entry);
	TAILQ_INSERT_TAIL(&worker->pulls_by_progress, conn, progress_entry);
}

void pull_clock_start(struct conn *conn)
{
	if (!conn->pull_since_ns)
		clock_start(conn, clock_ns());
}

void pull_clock_stop(struct conn *conn)
{
	struct worker *worker = conn->poller->worker;

	if (!conn->pull_since_ns)
		return;
	TAILQ_REMOVE(&worker->pulls, conn, pull_entry);
	TAILQ_REMOVE(&worker->pulls_by_progress, conn, progress_entry);
	conn->pull_since_ns = 0;
}

/* The time of the next value, if there is one, starts at @now_ns. */
static void clock_next(struct conn *conn, uint64_t now_ns)
{
	pull_clock_stop(conn);
	if (conn->pulls_reading)
		clock_start(conn, now_ns);
}

void pull_clock_next(struct conn *conn)
{
	clock_next(conn, clock_ns());
}

/* A READ has completed, or the worker itself is late. */
static void clock_progress(struct conn *conn, uint64_t now_ns)
{
	struct worker *worker = conn->poller->worker;

	conn->progress_ns = now_ns;
	TAILQ_REMOVE(&worker->pulls_by_progress, conn, progress_entry);
	TAILQ_INSERT_TAIL(&worker->pulls_by_progress, conn, progress_entry);
}

/* The most bytes of the connection's next READ. */
static uint32_t piece_bytes_max(const struct conn *conn)
{
	const struct nic *nic = conn->poller->nic;
	bool is_long = device_kind_is_rdma(nic->dev->kind) && conn->pulls > 1;
	uint32_t bytes = is_long ? PULL_PIECE_BYTES_LONG : PULL_PIECE_BYTES;

	return nic->port.max_msg_sz < bytes ? nic->port.max_msg_sz : bytes;
}

static uint32_t piece_bytes(const struct conn *conn)
{
	uint32_t left = conn->pull_next->pull.left, bytes_max = piece_bytes_max(conn);

	return left < bytes_max ? left : bytes_max;
}

/* Whether another READ is due: at most PULL_DEPTH pieces are READ ahead of the sum. */
static bool wants_read(const struct conn *conn)
{
	uint64_t ahead_max;

	if (!conn->pull_next || conn->reads_posted == PULL_DEPTH)
		return false;
	ahead_max = (uint64_t)PULL_DEPTH * piece_bytes_max(conn);
	return conn->pull_ahead + piece_bytes(conn) <= ahead_max;
}

/* All READs of @deferred are posted. */
static void next_pull(struct conn *conn, struct deferred *deferred)
{
	struct deferred *next = TAILQ_NEXT(deferred, entry);

	conn->pull_next = next && next->pulls ? next : NULL;
}

static bool read_post(struct conn *conn)
{
	struct deferred *deferred = conn->pull_next;
	struct pull *pull = &deferred->pull;
	uint32_t bytes = piece_bytes(conn);
	struct ibv_sge sge = {
		.addr = (uintptr_t)pull->to,
		.length = bytes,
		.lkey = grant_mr(conn, pull->to)->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_PULL, conn->sq_unsignaled + 1, conn->serial,
				    deferred->buffer),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = pull->addr, .rkey = deferred->request.pull_rkey },
	};

	if (ibv_post_send(conn->qp, &wr, &bad)) {
		conn_fail(conn, "ibv_post_send of the READ of a large value failed");
		return false;
	}
	sq_take(conn);
	conn->sq_unsignaled = 0;
	conn->read_bytes[(conn->read_first + conn->reads_posted++) % PULL_DEPTH] = bytes;
	conn->reads_bytes += bytes;
	conn->pull_ahead += bytes;
	pull->addr += bytes;
	pull->to += bytes;
	pull->left -= bytes;
	if (!pull->left)
		next_pull(conn, deferred);
	return true;
}

void pull_reads_fill(struct conn *conn)
{
	while (wants_read(conn) && sq_room(conn))
		if (!read_post(conn))
			return;
}

static void pull_count(struct deferred *deferred)
{
	deferred->pulls = true;
	deferred->conn->pulls++;
	stat_add(&deferred->conn->poller->worker->pulls_count, 1);
}

/* READs the rest of the value with the client's help. */
static void reads_start(struct deferred *deferred)
{
	struct conn *conn = deferred->conn;

	conn->pulls_reading++;
	pull_clock_start(conn);
	if (!conn->pull_next)
		conn->pull_next = deferred;
	pull_reads_fill(conn);
}

void pull_reads_begin(struct deferred *deferred)
{
	pull_count(deferred);
	reads_start(deferred);
}

void pull_now_begin(struct deferred *deferred)
{
	pull_count(deferred);
	deferred->pull.now = true;
	response_reserve(deferred->conn);
	deferred->reserved = true;
}

/* A connection that ended for another reason stays in the lists until it is released. */
static void expire(struct conn *conn, const char *why)
{
	pull_clock_stop(conn);
	stat_add(&conn->poller->worker->stats.pulls_stalled, !conn->stopped);
	conn_fail(conn, why);
}

/* Stops READing without the client; the rest is READ with its help. */
static void now_end(struct deferred *deferred)
{
	deferred->pull.now = deferred->pull.awaits = false;
	response_unreserve(deferred->conn);
	deferred->reserved = false;
	reads_start(deferred);
}

/* The client makes progress. */
static void now_progress(struct deferred *deferred)
{
	struct pull *pull = &deferred->pull;

	pull->late_ns = 0;
	if (pull->awaits)
		pull_clock_stop(deferred->conn);
	pull->awaits = pull->looks = false;
}

/* True: the client is late for the first time since its last progress. */
static bool now_await(struct deferred *deferred)
{
	struct pull *pull = &deferred->pull;

	if (pull->awaits)
		return false;
	pull->awaits = true;
	pull->waits++;
	pull->probes = deferred->conn->probes_answered;
	pull_clock_start(deferred->conn);
	return true;
}

enum piece_next pull_now_wait(struct deferred *deferred)
{
	struct conn *conn = deferred->conn;
	struct pull *pull = &deferred->pull;
	uint64_t now_ns = clock_ns();
	bool first;

	if (!pull->late_ns)
		pull->late_ns = now_ns + PULL_FILL_NS;
	if (now_ns < pull->late_ns)
		return PIECE_IDLE;
	if (pull->looks) {
		expire(conn, STALLED);
		return PIECE_WAIT;
	}
	if (pull->awaits ? conn->probes_answered != pull->probes : pull->waits == PULL_FILL_WAITS) {
		now_end(deferred);
		return PIECE_WAIT;
	}
	first = now_await(deferred);
	keepalive_post(conn);
	/* The client may have finished just before it could see the probe: look once more. */
	return first ? PIECE_IDLE : PIECE_WAIT;
}

bool pull_now_step(struct deferred *deferred, uint32_t bytes_max)
{
	struct conn *conn = deferred->conn;
	struct pull *pull = &deferred->pull;
	uint32_t bytes = pull->left < bytes_max ? pull->left : bytes_max;
	int64_t got = conn->poller->nic->dev->ops->read_now(conn->qp, deferred->request.pull_rkey,
							    pull->addr, pull->to, bytes,
							    &pull->steps.sum);

	if (got == -EBUSY)
		return false;
	if (got <= 0) {
		now_end(deferred);
		return true;
	}
	if (pull->late_ns)
		now_progress(deferred);
	pull->addr += (uint32_t)got;
	pull->to += got;
	pull->left -= (uint32_t)got;
	pull->arrived += (uint32_t)got;
	pull->steps.arrived = pull->summed = pull->arrived;
	large_summed(&pull->steps, (uint64_t)got);
	return true;
}

void pull_reads_summed(struct deferred *deferred, uint64_t bytes)
{
	deferred->conn->pull_ahead -= bytes - deferred->pull.summed;
	deferred->pull.summed = bytes;
}

void pull_done(struct conn *conn, uint64_t wr_id)
{
	struct deferred *deferred = &conn->poller->deferred[wr_id_buffer(wr_id)];
	struct pull *pull = &deferred->pull;
	uint32_t bytes;

	sq_put(conn, wr_id_covers(wr_id));
	conn->reads_posted--;
	if (conn->stopped)
		return;
	/* READs complete in the order in which they were posted. */
	bytes = conn->read_bytes[conn->read_first];
	conn->read_first = (conn->read_first + 1) % PULL_DEPTH;
	conn->reads_bytes -= bytes;
	pull->arrived += bytes;
	pull->steps.arrived = pull->arrived;
	if (pull->arrived < deferred->request.value_len) {
		clock_progress(conn, clock_ns());
	} else {
		/* The client has done its part. */
		conn->pulls_reading--;
		pull_clock_next(conn);
		response_reserve(conn);
		deferred->reserved = true;
	}
	pull_reads_fill(conn);
}

/* Whether the first value has arrived and only the worker is late with it; later ones wait. */
static bool first_has_arrived(const struct conn *conn)
{
	const struct deferred *first = TAILQ_FIRST(&conn->deferred);

	return conn->pulls && first->reserved && !first->pull.awaits;
}

static void expire_old(struct worker *worker, uint64_t now_ns)
{
	struct conn *conn;

	while ((conn = TAILQ_FIRST(&worker->pulls)) &&
	       now_ns - conn->pull_since_ns > stat_read(&worker->limits.pull_ns)) {
		if (first_has_arrived(conn) && !conn->stopped)
			clock_next(conn, now_ns);
		else
			expire(conn, "a large value was not read from the client within "
				     "server.pull_timeout");
	}
}

/* PULL-6: whether the client may have filled more unseen: then the pull looks once more. */
static bool now_looks(struct conn *conn)
{
	struct deferred *first = TAILQ_FIRST(&conn->deferred);

	if (conn->stopped || !conn->pulls || !first->pull.awaits || first->pull.looks)
		return false;
	first->pull.looks = true;
	deferred_wake(conn);
	return true;
}

static void expire_stalled(struct worker *worker, uint64_t now_ns)
{
	struct conn *conn;

	while ((conn = TAILQ_FIRST(&worker->pulls_by_progress)) &&
	       now_ns - conn->progress_ns > stat_read(&worker->limits.pull_stall_ns)) {
		/* The worker has not yet summed what has arrived. */
		if (conn->pull_ahead > conn->reads_bytes || now_looks(conn))
			clock_progress(conn, now_ns);
		else
			expire(conn,
			       conn->pulls ?
				       STALLED :
				       "the client served no READ of no bytes, before its first "
				       "large value, within server.pull_stall");
	}
}

void pull_expire(struct worker *worker)
{
	uint64_t now_ns;

	if (!pull_expires(worker))
		return;
	now_ns = clock_ns();
	expire_old(worker, now_ns);
	expire_stalled(worker, now_ns);
}
