/* SPDX-License-Identifier: MIT */
/*
 * READs large values from clients, piece by piece; sums what has arrived and commits the values to
 * the table, in pieces of the worker's turns.
 */
#include "server/net/pull.h"

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/net/deferred.h"
#include "server/net/execute.h"
#include "server/net/build.h"
#include "server/net/keepalive.h"
#include "server/net/worker.h"

static void pull_list_add(struct worker *worker, struct conn *conn)
{
	conn->pull_since_ns = conn->progress_ns = clock_ns();
	TAILQ_INSERT_TAIL(&worker->pulls, conn, pull_entry);
	TAILQ_INSERT_TAIL(&worker->pulls_by_progress, conn, progress_entry);
}

static void pull_list_remove(struct worker *worker, struct conn *conn)
{
	if (!conn->pull_since_ns)
		return;
	TAILQ_REMOVE(&worker->pulls, conn, pull_entry);
	TAILQ_REMOVE(&worker->pulls_by_progress, conn, progress_entry);
	conn->pull_since_ns = 0;
}

/* A READ has completed, or it is the worker that is late. */
static void pull_list_progress(struct worker *worker, struct conn *conn, uint64_t now_ns)
{
	if (!conn->pull_since_ns)
		return;
	conn->progress_ns = now_ns;
	TAILQ_REMOVE(&worker->pulls_by_progress, conn, progress_entry);
	TAILQ_INSERT_TAIL(&worker->pulls_by_progress, conn, progress_entry);
}

static void pull_begin(struct worker *worker, struct conn *conn)
{
	conn->pull.active = true;
	stat_add(&worker->pulls_count, 1);
	pull_list_add(worker, conn);
}

static void pull_end(struct worker *worker, struct conn *conn)
{
	conn->pull.active = false;
	stat_sub(&worker->pulls_count, 1);
}

static uint32_t piece_bytes(const struct poller *poller, uint32_t left)
{
	uint32_t bytes_max = PULL_PIECE_BYTES;

	if (poller->nic->port.max_msg_sz < bytes_max)
		bytes_max = poller->nic->port.max_msg_sz;
	return left < bytes_max ? left : bytes_max;
}

/* Bytes that have arrived and are not summed. */
static uint64_t pull_backlog(const struct pull *pull)
{
	return pull->arrived - pull->steps.value_done;
}

/* Whether another READ is due: no more is READ ahead of the sum than PULL_DEPTH pieces. */
static bool pull_wants_read(const struct poller *poller, const struct pull *pull)
{
	uint64_t ahead_max = (uint64_t)PULL_DEPTH * piece_bytes(poller, UINT32_MAX), ahead;

	if (!pull->left || pull->reads_posted == PULL_DEPTH)
		return false;
	ahead = pull->value_len - pull->left - pull->steps.value_done;
	return ahead + piece_bytes(poller, pull->left) <= ahead_max;
}

static bool pull_post(struct poller *poller, struct conn *conn)
{
	struct pull *pull = &conn->pull;
	uint32_t bytes = piece_bytes(poller, pull->left);
	struct ibv_sge sge = {
		.addr = (uintptr_t)pull->to,
		.length = bytes,
		.lkey = poller->nic->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id_make(WR_PULL, conn->sq_unsignaled + 1, conn->serial, BUFFER_NONE),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = pull->addr, .rkey = pull->rkey },
	};

	if (ibv_post_send(conn->qp, &wr, &bad)) {
		conn_fail(conn, "ibv_post_send of the READ of a large value failed");
		return false;
	}
	sq_take(conn);
	conn->sq_unsignaled = 0;
	pull->reads_posted++;
	pull->addr += bytes;
	pull->to += bytes;
	pull->left -= bytes;
	return true;
}

static void pull_fill_queue(struct poller *poller, struct conn *conn)
{
	while (pull_wants_read(poller, &conn->pull) && sq_room(conn))
		if (!pull_post(poller, conn))
			return;
}

/*
 * B5: whether the connection has served a READ. If not, it is probed, and the pull waits for the
 * answer as long as for a part of its value.
 */
static bool pull_is_served(struct worker *worker, struct conn *conn)
{
	if (conn->pull_hold.class == BUDGET_PROVEN || conn->probes_answered)
		return true;
	if (!conn->pull_since_ns) {
		pull_list_add(worker, conn);
		stat_add(&worker->stats.pulls_probed, 1);
	}
	keepalive_post(conn);
	return false;
}

void pull_probed(struct conn *conn)
{
	if (!conn->pull.active)
		pull_list_remove(conn->poller->worker, conn);
}

/* B6. The class may have changed while the pull waited. */
static void pull_classify(struct worker *worker, struct conn *conn)
{
	struct budget_hold *hold = &conn->pull_hold;
	enum budget_class class = hold->class == BUDGET_LATE ? BUDGET_UNPROVEN : hold->class;

	if (pull_peers_has(&worker->pull_peers, &conn->peer, clock_ns())) {
		stat_add(&worker->stats.pulls_late, hold->class != BUDGET_LATE);
		class = BUDGET_LATE;
	}
	budget_class_set(&worker->pull_budget, hold, class);
}

/*
 * Checks the value's length and that no other pull is active, and asks for the memory. True: the
 * pull waits for that, or for the answer to a probe.
 */
static bool pull_admit(struct poller *poller, struct conn *conn, const struct request *request,
		       enum wire_status *status)
{
	struct worker *worker = poller->worker;
	bool waited = conn->pull_hold.wanted;
	enum budget_admission admission;

	*status = WIRE_OK;
	if (request->value_len > worker->store_thread.table->region->geometry.value_max)
		*status = WIRE_TOO_LARGE;
	else if (conn->pull.active)
		*status = WIRE_BUSY;
	if (*status)
		return false;
	if (!pull_is_served(worker, conn))
		return true;
	pull_classify(worker, conn);
	admission = budget_take(&worker->pull_budget, &conn->pull_hold,
				mem_class_bytes(item_bytes(request->key_len, request->value_len)));
	if (admission == BUDGET_REFUSED) {
		stat_add(&worker->stats.pulls_refused, 1);
		*status = WIRE_BUSY;
	}
	stat_add(&worker->stats.pulls_waited, admission == BUDGET_WAITS && !waited);
	return admission == BUDGET_WAITS;
}

/* The item is in the table, or nothing was changed. */
static void pull_finish(struct response_list *responses, struct conn *conn)
{
	struct worker *worker = responses->poller->worker;
	const struct large *steps = &conn->pull.steps;
	struct response_wr *response;

	response_unreserve(conn);
	response = response_start(responses, conn, WIRE_PUT, conn->pull.id);
	response_set_change(&steps->change, steps->status, &response->head);
	conn_record(conn, conn->pull.change, &response->head);
	stat_add(&worker->stats.put_no_space, steps->status == WIRE_NO_SPACE);
	stat_add(&worker->stats.put_too_large, steps->status == WIRE_TOO_LARGE);
	build_end(conn, &conn->pull.build);
	pull_end(worker, conn);
	budget_give(&worker->pull_budget, &conn->pull_hold, true);
}

/*
 * Sums what has arrived, and READs on; with the last of it, the item enters the table, and in front
 * of or behind the key's value, if it is an append.
 */
static enum deferred_next pull_work_step(struct conn *conn, struct response_list *responses,
					 uint64_t until_ns)
{
	struct pull *pull = &conn->pull;
	enum large_next next;

	do {
		if (!build_admit(conn, &pull->build, &pull->steps))
			return DEFERRED_WAIT;
		next = large_step(&pull->steps, DEFERRED_STEP_BYTES);
	} while (next == LARGE_AGAIN && clock_ns() < until_ns);
	if (next == LARGE_DONE) {
		pull_finish(responses, conn);
		return DEFERRED_DONE;
	}
	pull_fill_queue(conn->poller, conn);
	if (next == LARGE_RETRY)
		return DEFERRED_IDLE;
	return next == LARGE_WAIT ? DEFERRED_WAIT : DEFERRED_AGAIN;
}

/*
 * The connection has failed or ends. As long as READs are posted the device may write to the item,
 * until the queue pair is destroyed; nothing else is held then. After that it may be what rooms
 * have closed, and memory to build in, and nobody has to wait for the queue pair.
 */
static void pull_work_cancel(struct conn *conn)
{
	struct pull *pull = &conn->pull;

	if (pull->arrived < pull->value_len)
		return;
	large_cancel(&pull->steps);
	build_end(conn, &pull->build);
	budget_give(&conn->poller->worker->pull_budget, &conn->pull_hold, true);
}

static const struct deferred_work pull_work = {
	.step = pull_work_step,
	.cancel = pull_work_cancel,
};

bool pull_start(struct response_list *responses, struct conn *conn, const struct request *request,
		uint64_t hash, struct room *room)
{
	struct poller *poller = responses->poller;
	struct worker *worker = poller->worker;
	enum wire_status status = WIRE_OK;
	struct response_wr *response;
	struct table_change change;
	struct item *item = NULL;

	/* With room for it, it was admitted before. */
	if (!room->bytes && pull_admit(poller, conn, request, &status))
		return false;
	put_change_init(request, &change);
	if (!status && !room->bytes)
		status = table_may_pin(&worker->store_thread, &change);
	if (!status) {
		item = table_reserve_begin(&worker->store_thread, &change, room);
		if (!item && room_pending(room))
			return false;
		status = item ? WIRE_OK : WIRE_NO_SPACE;
	}
	stat_add(&worker->stats.puts, 1);
	if (status) {
		stat_add(&worker->stats.put_no_space, status == WIRE_NO_SPACE);
		stat_add(&worker->stats.put_too_large, status == WIRE_TOO_LARGE);
		if (!conn->pull.active)
			budget_give(&worker->pull_budget, &conn->pull_hold,
				    conn->pull_hold.class == BUDGET_PROVEN);
		response = response_start(responses, conn, WIRE_PUT, request->id);
		response_set_change(&change, status, &response->head);
		conn_record(conn, request->change, &response->head);
		return true;
	}
	conn->pull = (struct pull){
		.addr = request->pull_addr,
		.to = table_reserved_value(item),
		.value_len = request->value_len,
		.left = request->value_len,
		.rkey = request->pull_rkey,
		.id = request->id,
		.change = request->change,
	};
	large_commit(&conn->pull.steps, &worker->store_thread, hash, item, &change);
	deferred_work_start(conn, &pull_work);
	pull_begin(worker, conn);
	stat_add(&worker->stats.pulls, 1);
	stat_add(&worker->stats.pull_bytes, request->value_len);
	conn_limit_charge(&conn->limit, request->value_len);
	pull_fill_queue(poller, conn);
	return true;
}

void pull_done(struct conn *conn, uint64_t wr_id)
{
	struct poller *poller = conn->poller;
	struct pull *pull = &conn->pull;

	sq_put(conn, wr_id_covers(wr_id));
	pull->reads_posted--;
	if (conn->stopped)
		return;
	/* READs complete in the order in which they were posted. */
	pull->arrived += piece_bytes(poller, pull->value_len - pull->arrived);
	pull->steps.arrived = pull->arrived;
	if (pull->arrived < pull->value_len) {
		pull_list_progress(poller->worker, conn, clock_ns());
		pull_fill_queue(poller, conn);
	} else {
		/* The client has done its part. */
		pull_list_remove(poller->worker, conn);
		response_reserve(conn);
	}
}

/* One that has ended for another reason stays in the lists until it is released. */
static void expire(struct worker *worker, struct conn *conn, const char *why)
{
	pull_list_remove(worker, conn);
	stat_add(&worker->stats.pulls_stalled, !conn->stopped);
	conn_fail(conn, why);
}

/* When a peer is late no more, its connections wait as others do. Until then, for a pause: B6. */
static void late_wake(struct worker *worker, uint64_t now_ns)
{
	struct budget_hold *hold = TAILQ_FIRST(&worker->pull_budget.waiting[BUDGET_LATE]);

	if (hold && (!pull_peers_has(&worker->pull_peers, &hold->conn->peer, now_ns) ||
		     budget_fits(&worker->pull_budget, hold)))
		deferred_wake(hold->conn);
}

void pull_expire(struct worker *worker)
{
	struct conn *conn;
	uint64_t now_ns;

	if (!pull_expires(worker))
		return;
	now_ns = clock_ns();
	late_wake(worker, now_ns);
	while ((conn = TAILQ_FIRST(&worker->pulls)) &&
	       now_ns - conn->pull_since_ns > worker->limits.pull_ns)
		expire(worker, conn,
		       "a large value was not read from the client within server.pull_timeout");
	while ((conn = TAILQ_FIRST(&worker->pulls_by_progress)) &&
	       now_ns - conn->progress_ns > worker->limits.pull_stall_ns) {
		if (conn->pull.active && pull_backlog(&conn->pull)) {
			pull_list_progress(worker, conn, now_ns);
			continue;
		}
		expire(worker, conn,
		       conn->pull.active ? "no part of a large value was read from the client "
					   "within server.pull_stall" :
					   "it did not serve a READ of no bytes, before its first "
					   "large value, within server.pull_stall");
	}
}

void pull_wait_cancel(struct conn *conn)
{
	budget_leave(&conn->poller->worker->pull_budget, &conn->pull_hold);
}

void pull_continue(struct poller *poller, struct conn *conn)
{
	if (conn->pull.active && !conn->stopped)
		pull_fill_queue(poller, conn);
}

void pull_release(struct poller *poller, struct conn *conn)
{
	struct worker *worker = poller->worker;

	pull_list_remove(worker, conn);
	/* Also while room was made for the value. */
	if (conn->pull_hold.bytes &&
	    !(conn->pull.active && conn->pull.arrived == conn->pull.value_len))
		pull_peers_add(&worker->pull_peers, &conn->peer,
			       clock_ns() + worker->limits.pull_ns);
	budget_leave(&worker->pull_budget, &conn->pull_hold);
	budget_give(&worker->pull_budget, &conn->pull_hold, false);
	if (!conn->pull.active)
		return;
	large_cancel(&conn->pull.steps);
	build_end(conn, &conn->pull.build);
	pull_end(worker, conn);
}
