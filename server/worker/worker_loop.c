/* SPDX-License-Identifier: MIT */
/* Runs a worker: poll, execute, respond; read the mailbox; spin for a while; sleep. */
#include "server/worker/worker_loop.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/spin.h"
#include "common/util/stat.h"
#include "common/util/thread.h"
#include "server/worker/budget.h"
#include "server/worker/conn.h"
#include "server/worker/deferred.h"
#include "server/worker/keepalive.h"
#include "server/worker/permit.h"
#include "server/worker/pull.h"
#include "server/worker/pull_reads.h"
#include "server/worker/query.h"
#include "server/worker/request.h"
#include "server/worker/teardown.h"
#include "server/worker/window.h"

/*
 * How often a sleeping worker that has pulls or active connections wakes up to look for pulls that
 * are too old and connections that are idle.
 */
#define EXPIRE_MS 1000

/* Batches, of up to a few us, between clock readings of a worker that always finds work. */
#define SHARE_CHECK_EVERY 8

/*
 * Notes that a worker handles in a turn. When many connections end together, requests of others do
 * not wait for all of them: one note takes up to some microseconds, the write(2) of its answer
 * included.
 */
#define NOTES_AT_ONCE 8

/*
 * A client exceeds its window if one batch has more of its requests than that, so a batch must hold
 * more than the largest window (server/config/option_table.h).
 */
static_assert(BATCH_MAX > 31, "request.window");
/* See window_set(). */
static_assert(1 + SENDS_BESIDE_WINDOW >= RESPONSE_SIGNAL_EVERY, "window_set()");

struct batch_request {
	struct conn *conn;
	struct request request;
	uint64_t hash;	 /* of the key, if there is one */
	uint32_t buffer; /* the receive buffer that it is in */
};

/* The work from the completions of one ibv_poll_cq(). */
struct batch {
	struct batch_request requests[BATCH_MAX];
	unsigned int request_count;
	uint32_t recvs[BATCH_MAX]; /* receive buffers to post again: all but deferred ones */
	unsigned int recv_count;
	bool client_waits; /* for the response to a request or pull in this batch */
	struct response_list responses;
};

static struct conn *completion_conn(struct poller *poller, const struct ibv_wc *wc)
{
	struct conn *conn = conn_lookup(poller, wc->qp_num);

	return conn && (conn->serial & WR_SERIAL_MASK) == wr_id_serial(wc->wr_id) ? conn : NULL;
}

/* Reports why a queue pair failed. Flush errors only follow a failure or a disconnect. */
static void completion_failed(struct conn *conn, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		conn_fail(conn, ibv_wc_status_str(wc->status));
}

/* Checks a message that arrived, and prefetches the bucket of its key. False: it is dropped. */
static bool batch_add(struct batch *batch, struct poller *poller, const struct ibv_wc *wc)
{
	struct worker *worker = poller->worker;
	struct batch_request *entry = &batch->requests[batch->request_count];
	struct conn *conn = conn_lookup(poller, wc->qp_num);
	const char *error;

	if (!conn || conn->stopped)
		return false;
	if (wc->status) {
		completion_failed(conn, wc);
		return false;
	}
	stat_add(&conn->client.requests, 1);
	stat_add(&conn->client.received_bytes, wc->byte_len);
	stat_add(&worker->stats.request_bytes, wc->byte_len);
	stat_set(&conn->client.active_ns, worker->part.thread.now_ns);
	window_request(conn);
	entry->buffer = wr_id_buffer(wc->wr_id);
	error = wire_request_parse(&entry->request, poller_buffer(poller, entry->buffer),
				   wc->byte_len);
	if (!error && ++conn->batch_requests + conn->deferred_count > conn->window)
		error = "the client has more requests outstanding than its window allows";
	if (error) {
		stat_add(&worker->stats.protocol_errors, 1);
		conn_fail(conn, error);
		return false;
	}
	permit_access(conn, &entry->request);
	entry->conn = conn;
	batch->client_waits |= entry->request.op != WIRE_ACCESS;
	if (entry->request.key && entry->request.op != WIRE_SCAN) {
		entry->hash = table_hash(conn->client.part->thread.table, entry->request.key,
					 entry->request.key_len);
		table_prefetch_bucket(conn->client.part->thread.table, entry->hash);
	}
	batch->request_count++;
	return true;
}

static void batch_complete(struct batch *batch, struct poller *poller, const struct ibv_wc *wc)
{
	struct conn *conn;

	if (wr_id_kind(wc->wr_id) == WR_RECV) {
		poller->posted--;
		if (!batch_add(batch, poller, wc))
			batch->recvs[batch->recv_count++] = wr_id_buffer(wc->wr_id);
		return;
	}
	conn = completion_conn(poller, wc);
	if (!conn)
		return;
	if (wr_id_kind(wc->wr_id) == WR_MARKER) {
		teardown_drained(conn);
		return;
	}
	if (wc->status) {
		completion_failed(conn, wc);
		return;
	}
	/* A bind is done like a response without a buffer. */
	switch (wr_id_kind(wc->wr_id)) {
	case WR_PULL:
		batch->client_waits = true;
		pull_done(conn, wc->wr_id);
		break;
	case WR_PROBE:
		keepalive_answered(conn, wc->wr_id);
		pull_probed(conn);
		break;
	case WR_RECV:
	case WR_MARKER:
	case WR_BIND:
	case WR_RESPONSE:
		response_done(poller, conn, wc->wr_id);
		break;
	}
	/* This connection has room again to post what waits. */
	pull_more(conn);
	deferred_wake(conn);
}

static void batch_execute(struct batch *batch, struct poller *poller)
{
	struct worker *worker = poller->worker;
	struct batch_request *entry;
	unsigned int i;

	for (i = 0; i < batch->request_count; i++) {
		entry = &batch->requests[i];
		if (entry->request.key && entry->request.op != WIRE_SCAN)
			table_prefetch_item(entry->conn->client.part->thread.table, entry->hash);
	}
	for (i = 0; i < batch->request_count; i++) {
		entry = &batch->requests[i];
		entry->conn->batch_requests = 0;
		if (entry->conn->stopped ||
		    request_execute(&batch->responses, entry->conn, &entry->request, entry->hash,
				    entry->buffer))
			batch->recvs[batch->recv_count++] = entry->buffer;
	}
	stat_add(&worker->stats.requests, batch->request_count);
	stat_add(&worker->stats.batches, 1);
}

static void worker_turn_begin(struct worker *worker)
{
	store_thread_clock(&worker->part.thread);
	turn_begin(&worker->turn, worker->part.thread.now_ns);
}

static void worker_turn_end(struct worker *worker)
{
	store_thread_clock(&worker->part.thread);
	turn_end(&worker->turn, &worker->turns, worker->part.thread.now_ns);
	trace_turn_end(&worker->trace, worker->part.thread.now_ns);
	if (++worker->held_turns % HELD_TURNS == 0)
		held_show(worker);
}

/*
 * Takes up to BATCH_MAX completions, executes the requests in them and responds (WORKER-2,
 * WORKER-4).
 */
static enum activity poller_poll(struct poller *poller)
{
	struct ibv_wc wcs[BATCH_MAX];
	struct batch batch;
	int i, n;

	if (poller->unposted_count)
		poller_post_refused(poller);
	n = ibv_poll_cq(poller->cq, BATCH_MAX, wcs);
	poller->all_taken = n < BATCH_MAX;
	if (n <= 0) {
		teardown_count(poller, 0);
		return poller->unposted_count ? ACTIVITY_UNAWAITED : ACTIVITY_NONE;
	}
	/*
	 * The clock is read after the requests arrived and before any is executed:
	 * client/libkvd/clock.c relies on it.
	 */
	worker_turn_begin(poller->worker);
	poller->worker->turn.completions += (uint64_t)n;
	batch.request_count = 0;
	batch.recv_count = 0;
	batch.client_waits = false;
	batch.responses.poller = poller;
	batch.responses.count = 0;
	rcu_read_lock();
	for (i = 0; i < n; i++)
		batch_complete(&batch, poller, &wcs[i]);
	batch_execute(&batch, poller);
	poller_post_recvs(poller, batch.recvs, batch.recv_count);
	responses_send(&batch.responses);
	teardown_count(poller, (unsigned int)n);
	rcu_read_unlock();
	return batch.client_waits ? ACTIVITY_AWAITED : ACTIVITY_UNAWAITED;
}

/* Iterates over the pollers of working devices, with *@i 0 at first; NULL at the end. */
static struct poller *next_poller(struct worker *worker, unsigned int *i)
{
	while (*i < worker->poller_count)
		if (worker->attached[(*i)++])
			return &worker->pollers[*i - 1];
	return NULL;
}

/* Polls each device once; returns the greatest activity. */
static enum activity worker_poll(struct worker *worker)
{
	enum activity activity = ACTIVITY_NONE, of_poller;
	struct poller *poller;
	unsigned int i = 0;

	while ((poller = next_poller(worker, &i))) {
		of_poller = poller_poll(poller);
		activity = of_poller > activity ? of_poller : activity;
	}
	return activity;
}

/* The device has failed, and no connection of it is left. */
static void poller_detach(struct poller *poller)
{
	struct worker *worker = poller->worker;

	worker->attached[poller - worker->pollers] = false;
	held_show(worker);
	poller->note.kind = NOTE_DETACHED;
	mailbox_send(worker->env->control, &poller->note);
}

/* No connection of the tenant is left. Destroying the store frees what its limbo holds. */
static void part_detach(struct worker *worker, struct tenant_part *part)
{
	if (part->attached)
		LIST_REMOVE(part, entry);
	part->attached = false;
	held_show(worker);
	part->note.kind = NOTE_TENANT_DETACHED;
	mailbox_send(worker->env->control, &part->note);
}

/* True: there was mail. Handles at most NOTES_AT_ONCE notes; the others wait. */
static bool worker_read_mail(struct worker *worker)
{
	struct note *note;
	unsigned int i;

	if (!worker->mail && mailbox_pending(&worker->mailbox))
		worker->mail = mailbox_take(&worker->mailbox);
	if (!worker->mail)
		return false;
	worker_turn_begin(worker);
	for (i = 0; i < NOTES_AT_ONCE && (note = worker->mail); i++) {
		/*
		 * Unlink the note first: once it is handled, the control thread may send it again.
		 */
		worker->mail = note->next;
		switch (note->kind) {
		case NOTE_PROBE:
			keepalive_probe(note->conn);
			break;
		case NOTE_ANSWER:
			query_answered(note->conn);
			break;
		case NOTE_QUIESCE:
			teardown_begin(note->conn);
			break;
		case NOTE_RELEASE:
			teardown_release(note->conn);
			break;
		case NOTE_ATTACH:
			worker->attached[note->poller - worker->pollers] = true;
			break;
		case NOTE_DETACH:
			poller_detach(note->poller);
			break;
		case NOTE_TENANT_DETACH:
			part_detach(worker, note->part);
			break;
		case NOTE_SESSION:
		case NOTE_SESSION_ANSWER:
		case NOTE_FORWARDED:
			worker->env->front->note(worker, note);
			break;
		case NOTE_SESSION_ASKS:
		case NOTE_SESSION_ENDED:
		case NOTE_QUERY:
		case NOTE_FAILED:
		case NOTE_QUIESCED:
		case NOTE_RELEASED:
		case NOTE_DETACHED:
		case NOTE_TENANT_DETACHED:
		case NOTE_TENANT_DONE:
		case NOTE_HANDSHAKES:
		case NOTE_PASSWORD_DONE:
			break;
		}
	}
	return true;
}

/* Looks if another worker has seen that a connection of this one may have its turn (BUDGET-6). */
static bool worker_look(struct worker *worker)
{
	struct tenant_part *part = NULL;

	if (!atomic_load_explicit(&worker->budgets_look, memory_order_relaxed))
		return false;
	/* Clear it before the look: a later change sets it again. */
	atomic_exchange_explicit(&worker->budgets_look, false, memory_order_acq_rel);
	while ((part = worker_part_next(worker, part))) {
		budget_look(&part->tenant->pull_budget, worker);
		budget_look(&part->tenant->build_budget, worker);
	}
	return true;
}

/* Called after a poll that began at @now_ns or later. */
static void windows_expire(struct worker *worker, uint64_t now_ns)
{
	struct poller *poller;
	unsigned int i = 0;

	while ((poller = next_poller(worker, &i))) {
		if (poller->all_taken)
			window_expire(poller, now_ns);
		if (window_reserves(poller))
			window_reserve(poller);
	}
}

/* Whether windows_expire() left something to do. */
static bool windows_due(struct worker *worker)
{
	struct poller *poller;
	unsigned int i = 0;

	while ((poller = next_poller(worker, &i)))
		if (window_due(poller, worker->part.thread.now_ns))
			return true;
	return false;
}

static bool windows_any_active(struct worker *worker)
{
	struct poller *poller;
	unsigned int i = 0;

	while ((poller = next_poller(worker, &i)))
		if (window_any_active(poller))
			return true;
	return false;
}

static int poller_sleep(struct poller *poller, int fd, int timeout_ms)
{
	return poller->nic->dev->ops->sleep(poller->comp_channel, fd, timeout_ms);
}

/* Readable if the worker has mail, or its front has something to do. */
static int worker_fd(const struct worker *worker)
{
	return worker->env->front ? worker->env->front->fd(worker) : worker->mailbox.event_fd;
}

/* For how long it may sleep; -1: for ever. */
static int worker_wait_ms(struct worker *worker)
{
	int ms = pull_expires(worker) || windows_any_active(worker) ? EXPIRE_MS : -1;
	int front_ms = worker->env->front ? worker->env->front->wait_ms(worker) : -1;

	return front_ms >= 0 && (ms < 0 || front_ms < ms) ? front_ms : ms;
}

/* With several devices: waits for all of them, then lets those that have work do it. */
static int pollers_sleep(struct worker *worker, int timeout_ms)
{
	struct pollfd fds[NIC_MAX + 1];
	int fd = worker_fd(worker), ret = 0;
	unsigned int i;

	for (i = 0; i < worker->poller_count; i++)
		fds[i] = worker->attached[i] ?
				 (struct pollfd){ worker->pollers[i].comp_channel->fd, POLLIN, 0 } :
				 (struct pollfd){ -1, 0, 0 };
	fds[i] = (struct pollfd){ fd, POLLIN, 0 };
	if (poll(fds, worker->poller_count + 1, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	for (i = 0; i < worker->poller_count && ret >= 0; i++)
		if (fds[i].revents)
			ret = poller_sleep(&worker->pollers[i], -1, 0);
	return ret;
}

/* With one device, going to sleep takes one system call, and waking up another. */
static void worker_wait(struct worker *worker)
{
	int timeout_ms = worker_wait_ms(worker);
	int ret;

	stat_add(&worker->stats.sleeps, 1);
	rcu_thread_offline();
	if (worker->poller_count == 1 && worker->attached[0])
		ret = poller_sleep(&worker->pollers[0], worker_fd(worker), timeout_ms);
	else
		ret = pollers_sleep(worker, timeout_ms);
	rcu_thread_online();
	if (ret < 0)
		log_ratelimited(LOG_ERROR, 1, "worker %u: can't sleep: %s", worker->number,
				strerror(-ret));
}

static bool worker_stops(const struct worker *worker)
{
	return atomic_load_explicit(&worker->stop, memory_order_acquire);
}

/*
 * WORKER-3: arms every completion queue, polls once more, and only then sleeps. Returns what it
 * found.
 */
static enum activity worker_sleep(struct worker *worker)
{
	enum activity found;
	struct poller *poller;
	unsigned int i = 0;

	while ((poller = next_poller(worker, &i)))
		if (ibv_req_notify_cq(poller->cq, 0))
			return ACTIVITY_NONE;
	found = worker_poll(worker);
	/*
	 * The note that asked to stop may have been taken since the loop looked, and wakes no more.
	 */
	if (!found && !mailbox_pending(&worker->mailbox) && !worker_stops(worker))
		worker_wait(worker);
	return found;
}

/*
 * After server.spin_time without requests: gives back what others may need, then sleeps. Returns
 * what it found instead.
 */
static enum activity worker_rest(struct worker *worker)
{
	struct tenant_part *part = NULL;

	/* The reading also serves windows_expire() after the next poll. */
	store_thread_clock(&worker->part.thread);
	while ((part = worker_part_next(worker, part)))
		store_thread_idle(&part->thread);
	held_show(worker);
	return !worker->limits.busy && !windows_due(worker) ? worker_sleep(worker) : ACTIVITY_NONE;
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
		log_warn(
			"worker %u: can't be pinned to CPU %d (server.pin): %s; it runs on any CPU",
			worker->number, worker->cpu, strerror(err));
}

/*
 * Polls for spin_ns after the last awaited activity, or less if polling finds little, then rests.
 * Returns what worker_rest() found.
 */
static enum activity worker_idle(struct worker *worker, enum activity activity, enum pace *pace)
{
	struct spin *spin = &worker->spin;
	uint64_t now = clock_ns();

	if (pace_rests(*pace, activity))
		return worker_rest(worker);
	if (*pace != PACE_WAITING)
		spin_begin(spin, stat_read(&worker->limits.spin_ns), now);
	*pace = PACE_WAITING;
	if (worker->limits.busy) {
		store_thread_clock(&worker->part.thread);
		cpu_relax();
	} else if (!spin_wait(spin, now)) {
		spin_end(spin, true);
		*pace = PACE_WOKEN;
		return worker_rest(worker);
	}
	return ACTIVITY_NONE;
}

/* A turn that found work. Even a worker that always does yields the CPU now and then. */
static void worker_active(struct worker *worker, enum pace *pace)
{
	if (*pace == PACE_WAITING)
		spin_end(&worker->spin, false);
	else if (!worker->limits.busy &&
		 (worker->stats.batches + worker->stats.deferred_pieces) % SHARE_CHECK_EVERY == 0)
		spin_share(&worker->spin, clock_ns());
	*pace = PACE_ACTIVE;
}

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec cpu;

	if (clock_gettime(clock, &cpu))
		return 0;
	return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

/* A turn has one poll: its own, or the one just before a sleep that was called off. */
static void *worker_run(void *arg)
{
	struct worker *worker = arg;
	enum activity activity = ACTIVITY_NONE;
	enum pace pace = PACE_ACTIVE;
	uint64_t polled_ns = 0; /* not later than the poll */

	worker_pin(worker);
	rcu_register_thread();
	while (!worker_stops(worker)) {
		if (!activity) {
			polled_ns = worker->part.thread.now_ns;
			activity = worker_poll(worker);
		}
		windows_expire(worker, polled_ns);
		if (worker_read_mail(worker))
			activity = ACTIVITY_AWAITED;
		/* After the mail: its reading may have consumed this flag's wake-up. */
		if (worker_look(worker))
			activity = ACTIVITY_AWAITED;
		pull_expire(worker);
		if (deferred_run(worker))
			activity = ACTIVITY_AWAITED;
		if (worker->env->front && worker->env->front->run(worker))
			activity = ACTIVITY_AWAITED;
		rcu_quiescent_state();
		if (worker->turn.began_ns)
			worker_turn_end(worker);
		polled_ns = worker->part.thread.now_ns;
		if (activity == ACTIVITY_AWAITED) {
			worker_active(worker, &pace);
			activity = ACTIVITY_NONE;
		} else {
			activity = worker_idle(worker, activity, &pace);
		}
	}
	/* Of the poll before a sleep that was called off. */
	if (worker->turn.began_ns)
		worker_turn_end(worker);
	held_show(worker);
	rcu_unregister_thread();
	stat_add(&worker->cpu_ended_ns, cpu_ns(CLOCK_THREAD_CPUTIME_ID));
	return NULL;
}

uint32_t conns_share(const struct config *config, unsigned int workers)
{
	return (config->server.max_connections + workers - 1) / workers;
}

int worker_init_poller(struct worker *worker, const struct worker_env *env, unsigned int nic)
{
	const struct config *config = env->config;
	struct poller *poller = &worker->pollers[nic];
	const struct poller_limits limits = {
		.srq_depth = config->request.srq_depth,
		.buffer_bytes = (uint32_t)config->request.buffer,
		.signal_every = RESPONSE_SIGNAL_EVERY,
		.window = config->request.window,
		.conns_max = conns_share(config, env->workers),
		.conns_all = config->server.max_connections,
		.admins_max = env->nics[nic].dev->kind == DEVICE_SOFTNIC ? ADMIN_CONNECTIONS : 0,
		.dump = config->memory.dump,
	};
	int err;

	err = poller_init(poller, worker, worker->number, &limits, &env->nics[nic]);
	if (err)
		return err;
	window_pool_init(poller);
	err = deferred_init(poller);
	if (err) {
		log_error("worker %u: no memory for %u requests: lower request.srq_depth",
			  worker->number, limits.srq_depth);
		poller_release(poller);
	}
	return err;
}

void worker_release_poller(struct worker *worker, unsigned int nic)
{
	deferred_release(&worker->pollers[nic]);
	poller_release(&worker->pollers[nic]);
}

static void worker_release_pollers(struct worker *worker)
{
	while (worker->poller_count)
		worker_release_poller(worker, --worker->poller_count);
}

int part_init(struct tenant_part *part, struct store *store, unsigned int number)
{
	part->store = store;
	return store_thread_init(&part->thread, &store->table, (uint8_t)number);
}

/* Not on a device that is away: recovery.c makes those pollers. */
static int worker_init_pollers(struct worker *worker, const struct worker_env *env)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < env->nic_count && !err; i++) {
		worker->attached[i] = env->nics[i].dev;
		if (worker->attached[i])
			err = worker_init_poller(worker, env, i);
		worker->poller_count += !err;
	}
	return err;
}

int worker_init(struct worker *worker, const struct worker_env *env, unsigned int number, int cpu)
{
	const bool first = !worker->env;
	int err;

	TAILQ_INIT(&worker->pulls);
	TAILQ_INIT(&worker->pulls_by_progress);
	TAILQ_INIT(&worker->deferred_conns);
	LIST_INIT(&worker->parts);
	worker->number = number;
	worker->cpu = cpu;
	worker->limits = (struct worker_limits){
		.spin_ns = env->config->server.spin_time,
		.pull_ns = env->config->server.pull_timeout,
		.pull_stall_ns = env->config->server.pull_stall,
		.busy = env->config->server.poll == POLL_BUSY,
		.workers = env->workers,
	};
	err = trace_init(&worker->trace, env->config->log.slow);
	if (err) {
		log_error("worker %u: no memory for what it has executed: lower server.workers",
			  number);
		return err;
	}
	err = first ? mailbox_init(&worker->mailbox) : 0;
	if (err)
		goto release_trace;
	err = worker_init_pollers(worker, env);
	if (err)
		goto release_pollers;
	worker->env = env;
	err = env->front ? env->front->init(worker) : 0;
	if (err)
		goto release_pollers;
	return 0; /* from now on worker_release() has something to release */

release_pollers:
	worker_release_pollers(worker);
	if (first) {
		worker->env = NULL;
		mailbox_release(&worker->mailbox);
	}
release_trace:
	trace_release(&worker->trace);
	return err;
}

void worker_retire(struct worker *worker)
{
	if (worker->env->front)
		worker->env->front->release(worker);
	worker_release_pollers(worker);
	trace_release(&worker->trace);
	/* Wake-ups that came late, and notes of devices. */
	(void)mailbox_take(&worker->mailbox);
	worker->mail = NULL;
}

void worker_release(struct worker *worker)
{
	if (!worker->env)
		return;
	worker_retire(worker);
	mailbox_release(&worker->mailbox);
	worker->env = NULL;
}

int worker_start(struct worker *worker)
{
	char name[THREAD_NAME_BYTES];
	int err;

	snprintf(name, sizeof(name), "worker-%u", worker->number);
	atomic_store_explicit(&worker->stop, false, memory_order_relaxed);
	err = thread_start(&worker->thread, name, worker_run, worker);
	if (err)
		log_error("worker %u: can't start its thread: %s: " ADVICE_THREADS " or lower "
			  "server.workers",
			  worker->number, strerror(-err));
	worker->started = !err;
	return err;
}

uint64_t worker_cpu_ns(const struct worker *worker)
{
	uint64_t ended_ns = stat_read(&worker->cpu_ended_ns);
	clockid_t clock;

	if (!worker->started || pthread_getcpuclockid(worker->thread, &clock))
		return ended_ns;
	return ended_ns + cpu_ns(clock);
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
