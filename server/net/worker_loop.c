/* SPDX-License-Identifier: MIT */
#include "server/net/worker_loop.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/spin.h"
#include "common/util/stat.h"
#include "server/net/copy.h"
#include "server/net/pull.h"
#include "server/net/request.h"

/* While there are copies a sleeping worker looks so often whether one is too old. */
#define COPIES_CHECK_MS 1000

/* server/config/option_table.h: a window that a batch can't hold could not be seen to be exceeded. */
static_assert(BATCH_MAX > 31, "request.window");

/* A request of the batch being worked on. */
struct work {
	struct conn *conn;
	struct request request;
	uint64_t hash;
};

struct batch {
	struct work works[BATCH_MAX];
	unsigned int count;
	uint32_t recvs[BATCH_MAX]; /* buffers whose requests are done with */
	unsigned int recv_count;
	bool work; /* something that somebody waits for */
	struct response_list responses;
};

/* What a look at the completion queues found. */
enum found {
	FOUND_NOTHING,
	FOUND_RECORDS, /* access records, and what is left of responses: nobody waits for them */
	FOUND_WORK,
};

static struct conn *completion_conn(struct poller *poller, const struct ibv_wc *wc)
{
	struct conn *conn = conn_lookup(poller, wc->qp_num);

	return conn && (conn->serial & WR_SERIAL_MASK) == wr_id_serial(wc->wr_id) ? conn : NULL;
}

/* Tells why a queue pair broke. Flushes only follow what did, or a disconnect. */
static void completion_failed(struct conn *conn, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		conn_fail(conn, ibv_wc_status_str(wc->status));
}

/* A message came in: checks it and starts to fetch the bucket of its key. */
static void batch_add(struct batch *batch, struct poller *poller, const struct ibv_wc *wc)
{
	struct worker *worker = poller->worker;
	struct work *work = &batch->works[batch->count];
	uint32_t buffer = wr_id_buffer(wc->wr_id);
	struct conn *conn = conn_lookup(poller, wc->qp_num);
	const char *error;

	batch->recvs[batch->recv_count++] = buffer;
	if (!conn || conn->stopped)
		return;
	if (wc->status) {
		completion_failed(conn, wc);
		return;
	}
	error = wire_request_parse(&work->request, poller_buffer(poller, buffer), wc->byte_len);
	if (!error && ++conn->batch_requests > conn->window)
		error = "more requests than the window allows";
	if (error) {
		stat_add(&worker->stats.protocol_errors, 1);
		conn_fail(conn, error);
		return;
	}
	work->conn = conn;
	batch->work |= work->request.op != WIRE_ACCESS;
	if (work->request.key && work->request.op != WIRE_SCAN) {
		work->hash = table_hash(worker->store_thread.table, work->request.key,
					work->request.key_len);
		table_prefetch_bucket(worker->store_thread.table, work->hash);
	}
	batch->count++;
}

static void batch_complete(struct batch *batch, struct poller *poller, const struct ibv_wc *wc)
{
	struct conn *conn;

	if (wr_id_kind(wc->wr_id) == WR_RECV) {
		batch_add(batch, poller, wc);
		return;
	}
	conn = completion_conn(poller, wc);
	if (!conn)
		return;
	if (wc->status) {
		completion_failed(conn, wc);
		return;
	}
	if (wr_id_kind(wc->wr_id) == WR_PULL) {
		batch->work = true;
		pull_done(&batch->responses, conn, wc->wr_id);
	} else {
		response_done(poller, conn, wc->wr_id);
	}
}

static void batch_execute(struct batch *batch, struct poller *poller)
{
	struct worker *worker = poller->worker;
	struct work *work;
	unsigned int i;

	for (i = 0; i < batch->count; i++)
		if (batch->works[i].request.key && batch->works[i].request.op != WIRE_SCAN)
			table_prefetch_item(worker->store_thread.table, batch->works[i].hash);
	for (i = 0; i < batch->count; i++) {
		work = &batch->works[i];
		work->conn->batch_requests = 0;
		if (!work->conn->stopped)
			request_execute(&batch->responses, work->conn, &work->request, work->hash);
	}
	stat_add(&worker->stats.requests, batch->count);
	stat_add(&worker->stats.batches, 1);
}

/* Takes what has completed, up to BATCH_MAX. */
static enum found poller_poll(struct poller *poller)
{
	struct ibv_wc wcs[BATCH_MAX];
	struct batch batch;
	int i, n;

	n = ibv_poll_cq(poller->cq, BATCH_MAX, wcs);
	if (n <= 0)
		return FOUND_NOTHING;
	/* After the requests have come, before any is executed: client/clock.c relies on it. */
	store_thread_clock(&poller->worker->store_thread);
	batch.count = 0;
	batch.recv_count = 0;
	batch.work = false;
	batch.responses.poller = poller;
	batch.responses.count = 0;
	rcu_read_lock();
	for (i = 0; i < n; i++)
		batch_complete(&batch, poller, &wcs[i]);
	batch_execute(&batch, poller);
	poller_post_recvs(poller, batch.recvs, batch.recv_count);
	responses_send(&batch.responses);
	rcu_read_unlock();
	return batch.work ? FOUND_WORK : FOUND_RECORDS;
}

static enum found worker_poll(struct worker *worker)
{
	enum found found = FOUND_NOTHING, here;
	unsigned int i;

	for (i = 0; i < worker->poller_count; i++) {
		here = poller_poll(&worker->pollers[i]);
		found = here > found ? here : found;
	}
	return found;
}

/*
 * Everything this connection completed is taken off the queue before its queue pair goes, so that no
 * receive buffer is lost with it. Bounded: a CQ holds no more than its size.
 */
static void poller_drain(struct poller *poller)
{
	int left = poller->cq->cqe + BATCH_MAX;

	while (poller_poll(poller) && left > 0)
		left -= BATCH_MAX;
}

static void conn_release(struct conn *conn)
{
	struct poller *poller = conn->poller;
	struct worker *worker = poller->worker;

	pull_release(poller, conn);
	copy_drop(worker, conn);
	response_release_all(poller, conn);
	rcu_read_lock();
	conn_remove(conn);
	rcu_read_unlock();
	mailbox_send(worker->env->control, &conn->notes[NOTE_RELEASED]);
}

static void worker_read_mail(struct worker *worker)
{
	struct note *note, *next;

	for (note = mailbox_take(&worker->mailbox); note; note = next) {
		next = note->next;
		if (note->type == NOTE_QUIESCE) {
			note->conn->stopped = true;
			poller_drain(note->conn->poller);
			mailbox_send(worker->env->control, &note->conn->notes[NOTE_QUIESCED]);
		} else if (note->type == NOTE_RELEASE) {
			conn_release(note->conn);
		}
	}
}

static void worker_wait(struct worker *worker)
{
	bool copies = !TAILQ_EMPTY(&worker->copies);
	struct pollfd fds[NIC_MAX + 1];
	struct ibv_cq *cq;
	unsigned int i;

	for (i = 0; i < worker->poller_count; i++)
		fds[i] = (struct pollfd){ worker->pollers[i].comp_channel->fd, POLLIN, 0 };
	fds[i] = (struct pollfd){ worker->mailbox.event_fd, POLLIN, 0 };
	stat_add(&worker->stats.sleeps, 1);
	rcu_thread_offline();
	if (poll(fds, worker->poller_count + 1, copies ? COPIES_CHECK_MS : -1) < 0 &&
	    errno != EINTR)
		log_error("worker %u: poll: %m", worker->number);
	rcu_thread_online();
	for (i = 0; i < worker->poller_count; i++)
		while (!worker->pollers[i].nic->dev->ops->get_cq_event(
			worker->pollers[i].comp_channel, &cq))
			;
}

/* W3: arm everything first, look once more, and only then sleep. */
static void worker_sleep(struct worker *worker)
{
	unsigned int i;

	for (i = 0; i < worker->poller_count; i++)
		if (ibv_req_notify_cq(worker->pollers[i].cq, 0))
			return;
	if (worker_poll(worker) || mailbox_pending(&worker->mailbox))
		return;
	worker_wait(worker);
}

/* There was nothing to do for a while. What others wait for must not lie here meanwhile. */
static void worker_rest(struct worker *worker)
{
	copy_expire(worker);
	store_thread_idle(&worker->store_thread);
	if (!worker->limits.busy)
		worker_sleep(worker);
}

static void worker_pin(const struct worker *worker)
{
	cpu_set_t set;
	int err;

	if (worker->cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(worker->cpu, &set);
	err = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (err)
		log_warn("worker %u: can't be pinned to CPU %d: %s", worker->number, worker->cpu,
			 strerror(err));
}

/* After access records alone there is no more to expect soon than before them. */
static void worker_idle(struct worker *worker, enum found found, uint64_t *idle_since)
{
	uint64_t now = clock_ns();

	if (!*idle_since)
		*idle_since = found == FOUND_RECORDS ? now - worker->limits.spin_ns : now;
	if (now - *idle_since >= worker->limits.spin_ns) {
		worker_rest(worker);
		*idle_since = 0;
	} else {
		spin_pause(worker->limits.busy ? 0 : now - *idle_since);
	}
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;
	uint64_t idle_since = 0;
	enum found found;

	worker_pin(worker);
	rcu_register_thread();
	while (!atomic_load_explicit(&worker->stop, memory_order_acquire)) {
		found = worker_poll(worker);
		if (mailbox_pending(&worker->mailbox)) {
			worker_read_mail(worker);
			found = FOUND_WORK;
		}
		rcu_quiescent_state();
		if (found == FOUND_WORK)
			idle_since = 0;
		else
			worker_idle(worker, found, &idle_since);
	}
	rcu_unregister_thread();
	return NULL;
}

static void worker_limits_init(struct worker_limits *limits, const struct worker_env *env)
{
	const struct config *config = env->config;

	*limits = (struct worker_limits){
		.spin_ns = config->server.spin_time,
		.busy = config->server.poll == POLL_BUSY,
		.srq_depth = config->request.srq_depth,
		.buffer_bytes = (uint32_t)config->request.buffer,
		.signal_every = config->request.signal_every,
		.window = config->request.window,
		.conns_max = (config->server.max_connections + env->workers - 1) / env->workers,
		.workers = env->workers,
	};
}

int worker_init(struct worker *worker, const struct worker_env *env, unsigned int number, int cpu)
{
	int err;

	TAILQ_INIT(&worker->copies);
	worker->number = number;
	worker->cpu = cpu;
	worker_limits_init(&worker->limits, env);
	if (getrandom(&worker->copy_seed, sizeof(worker->copy_seed), 0) !=
	    sizeof(worker->copy_seed)) {
		log_error("worker %u: getrandom: %m", number);
		return -EIO;
	}
	err = mailbox_init(&worker->mailbox);
	if (err)
		return err;
	err = store_thread_init(&worker->store_thread, &env->store->table, (uint8_t)number);
	if (err)
		goto release_mailbox;
	while (worker->poller_count < env->nic_count) {
		unsigned int i = worker->poller_count;

		err = poller_init(&worker->pollers[i], worker, &env->nics[i]);
		if (err)
			goto release_pollers;
		worker->poller_count++;
	}
	worker->env = env; /* and now there is something to release */
	return 0;

release_pollers:
	while (worker->poller_count)
		poller_release(&worker->pollers[--worker->poller_count]);
	store_thread_release(&worker->store_thread);
release_mailbox:
	mailbox_release(&worker->mailbox);
	return err;
}

void worker_release(struct worker *worker)
{
	if (!worker->env)
		return;
	while (worker->poller_count)
		poller_release(&worker->pollers[--worker->poller_count]);
	store_thread_release(&worker->store_thread);
	mailbox_release(&worker->mailbox);
	worker->env = NULL;
}

int worker_start(struct worker *worker)
{
	int err = -pthread_create(&worker->thread, NULL, worker_run, worker);

	if (err)
		log_error("worker %u: can't start a thread: %s", worker->number, strerror(-err));
	worker->started = !err;
	return err;
}

void worker_stop(struct worker *worker)
{
	if (!worker->started)
		return;
	atomic_store_explicit(&worker->stop, true, memory_order_release);
	mailbox_wake(&worker->mailbox);
	pthread_join(worker->thread, NULL);
	worker->started = false;
}
