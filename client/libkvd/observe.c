/* SPDX-License-Identifier: MIT */
/* Records what operations do, and keeps the observers of the process's handles: see observe.h. */
#include "client/libkvd/observe.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/heap.h"
#include "common/util/stat.h"

TAILQ_HEAD(observer_list, observer);

/* All under the lock. `closed` has the sums of handles that were closed. */
static struct {
	pthread_mutex_t lock;
	struct observer_list observers;
	struct observer closed;
	bool inherited; /* `closed` is the parent's */
} process = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.observers = TAILQ_HEAD_INITIALIZER(process.observers),
};

/* In a child, which starts with nothing. Memory can't be freed here. */
static void process_forked(void)
{
	pthread_mutex_init(&process.lock, NULL);
	TAILQ_INIT(&process.observers);
	process.inherited = true;
}

static void process_init(void)
{
	pthread_atfork(NULL, NULL, process_forked);
}

static void cells_free(struct observer *observer)
{
	unsigned int op, path;

	for (op = 0; op < OBSERVE_OPS; op++)
		for (path = 0; path < OBSERVE_PATHS; path++)
			heap_free(atomic_load(&observer->cells[op][path]));
}

static void do_closed_forget(void)
{
	cells_free(&process.closed);
	memset(&process.closed, 0, sizeof(process.closed));
	process.inherited = false;
}

static void process_lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, process_init);
	pthread_mutex_lock(&process.lock);
	if (process.inherited)
		do_closed_forget();
}

static void process_unlock(void)
{
	pthread_mutex_unlock(&process.lock);
}

void cell_init(struct cell *cell)
{
	memset(cell, 0, sizeof(*cell));
	hist_init(&cell->queue);
	hist_init(&cell->service);
}

uint64_t cell_count(const struct cell *cell)
{
	uint64_t count = 0;
	unsigned int i;

	for (i = 0; i < OBSERVE_STATUSES; i++)
		count += cell->statuses[i];
	return count;
}

uint64_t cell_errors(const struct cell *cell)
{
	return cell_count(cell) - cell->statuses[KVD_OK] - cell->statuses[KVD_NOT_FOUND];
}

static void cell_merge(struct cell *into, const struct cell *from)
{
	unsigned int i;

	hist_merge(&into->queue, &from->queue);
	hist_merge(&into->service, &from->service);
	for (i = 0; i < OBSERVE_STATUSES; i++)
		into->statuses[i] += stat_read(&from->statuses[i]);
}

/* The cell to record to; NULL: there is no memory for it. */
static struct cell *cell_of(struct observer *observer, enum kvd_opcode op, enum kvd_path path)
{
	struct cell *cell = atomic_load_explicit(&observer->cells[op][path], memory_order_relaxed);

	if (cell)
		return cell;
	cell = heap_alloc(sizeof(*cell));
	if (!cell)
		return NULL;
	cell_init(cell);
	atomic_store_explicit(&observer->cells[op][path], cell, memory_order_release);
	return cell;
}

/* Meanwhile all calls on the handle are refused, kvd_submit() too. */
static void trace_call(struct kvd *handle, const struct kvd_trace_event *event)
{
	bool in_callback = handle->in_callback;

	handle->in_callback = false;
	handle->observing->trace(handle->observing->trace_user, event);
	handle->in_callback = in_callback;
}

static struct kvd_trace_event event_of(const struct observed *what)
{
	struct kvd_trace_event event = {
		.op = what->op,
		.submitted = what->submitted,
		.start_ns = what->start_ns,
	};

	if (what->about) {
		event.key = what->about->key;
		event.key_len = what->about->key_len;
	}
	return event;
}

void observe_start(struct kvd *handle, const struct observed *what)
{
	struct kvd_trace_event event;

	if (!handle->observing->trace)
		return;
	event = event_of(what);
	trace_call(handle, &event);
}

/* A GET that did READs and then a request took the path of the request. */
static enum kvd_path path_of(const struct flight *f)
{
	if (!f || !f->posted_ns)
		return KVD_PATH_NONE;
	if (f->messages && !(f->rpc.head.flags & WIRE_F_PULL))
		return KVD_PATH_REQUEST;
	if (f->direct)
		return KVD_PATH_DIRECT;
	if (f->messages)
		return KVD_PATH_PULL;
	return f->lookup.cached ? KVD_PATH_WARM : KVD_PATH_COLD;
}

static void cell_record(struct observer *observer, const struct observed *what, enum kvd_path path,
			const struct flight *f, enum kvd_status status, uint64_t end_ns)
{
	struct cell *cell = cell_of(observer, what->op, path);
	uint64_t posted_ns = path == KVD_PATH_NONE ? end_ns : f->posted_ns;

	if (!cell)
		return;
	if ((unsigned int)status < OBSERVE_STATUSES)
		stat_add(&cell->statuses[status], 1);
	hist_record(&cell->queue, posted_ns - what->start_ns);
	if (path != KVD_PATH_NONE)
		hist_record(&cell->service, end_ns - posted_ns);
}

/* For readers of all observers, which may not read the handle's own stats. */
static void stats_publish(struct observer *observer, const struct kvd *handle)
{
	const uint64_t *words = (const uint64_t *)&handle->stats;
	struct kvd_stats sum;
	unsigned int i;

	if (handle->member.home)
		handle = handle->member.home;
	if (handle->fleet) {
		kvd_stats(handle, &sum);
		words = (const uint64_t *)&sum;
	}
	for (i = 0; i < STATS_WORDS; i++)
		stat_set(&observer->stats[i], words[i]);
}

void observe_end(struct kvd *handle, const struct observed *what, const struct flight *f,
		 enum kvd_status status, uint64_t end_ns)
{
	struct observer *observer = handle->observing;
	enum kvd_path path = path_of(f);
	struct kvd_trace_event event;

	if (observer->times)
		cell_record(observer, what, path, f, status, end_ns);
	if (!observer->trace)
		return;
	event = event_of(what);
	event.ended = 1;
	event.status = status;
	event.path = path;
	event.end_ns = end_ns;
	if (path != KVD_PATH_NONE) {
		event.posted_ns = f->posted_ns;
		event.reads = f->reads;
		event.messages = f->messages;
	}
	trace_call(handle, &event);
}

void observe_counted(struct kvd *handle)
{
	if (handle->observing->times)
		stats_publish(handle->observing, handle);
}

void observe_call(struct kvd *handle, const struct observed *what, enum kvd_status status,
		  uint64_t end_ns)
{
	const struct flight f = { .posted_ns = what->start_ns, .messages = 1 };

	observe_end(handle, what, &f, status, end_ns);
	observe_counted(handle);
}

void observe_chain(struct kvd *handle)
{
	struct connection *conn = &handle->conn;
	uint64_t now_ns = clock_ns();
	struct flight *f;
	uint32_t at;

	for (at = conn->read_posted; at != conn->read_head; at++) {
		f = conn->reads[at % READS_IN_FLIGHT_MAX].flight;
		if (f && !f->posted_ns)
			f->posted_ns = now_ns;
	}
}

void observe_request(struct flight *f)
{
	f->messages++;
	if (!f->posted_ns)
		f->posted_ns = clock_ns();
}

static bool observer_make(struct kvd *handle)
{
	if (!handle->observer)
		handle->observer = heap_calloc(1, sizeof(*handle->observer));
	return handle->observer;
}

/* From now on the process's sums include the handle, with all it has done. */
static void observer_list(struct kvd *handle)
{
	struct observer *observer = handle->observer;

	stats_publish(observer, handle);
	if (observer->listed)
		return;
	observer->listed = true;
	process_lock();
	TAILQ_INSERT_TAIL(&process.observers, observer, entry);
	process_unlock();
}

/* The members of a fleet post READs and requests for its operations. @observer may be NULL. */
static void observing_be(struct kvd *handle, struct observer *observer)
{
	struct kvd *member;
	uint32_t at = 0;

	handle->observing = observer;
	while (handle->fleet && (member = handle->fleet_ops->next(handle, &at)))
		member->observing = observer;
}

static void observing_set(struct kvd *handle)
{
	struct observer *observer = handle->observer;

	observing_be(handle, observer->times || observer->trace ? observer : NULL);
}

/* Adds the cells and counts of a closed handle to those of the process. */
static void do_observer_retire(struct observer *observer)
{
	struct cell *cell, *sum;
	unsigned int i, op, path;

	for (i = 0; i < STATS_WORDS; i++)
		process.closed.stats[i] += observer->stats[i];
	for (op = 0; op < OBSERVE_OPS; op++)
		for (path = 0; path < OBSERVE_PATHS; path++) {
			cell = atomic_load(&observer->cells[op][path]);
			sum = atomic_load(&process.closed.cells[op][path]);
			if (cell && !sum) {
				atomic_store(&process.closed.cells[op][path], cell);
				atomic_store(&observer->cells[op][path], NULL);
			} else if (cell) {
				cell_merge(sum, cell);
			}
		}
}

void observe_close(struct kvd *handle, bool inherited)
{
	struct observer *observer = handle->observer;

	if (!observer)
		return;
	if (!inherited && observer->listed) {
		stats_publish(observer, handle);
		process_lock();
		TAILQ_REMOVE(&process.observers, observer, entry);
		do_observer_retire(observer);
		process_unlock();
	}
	/* A fleet's members are still to be closed, and operations may end then. */
	observing_be(handle, NULL);
	cells_free(observer);
	heap_free(observer);
}

static bool cell_add(const struct observer *observer, enum kvd_opcode op, enum kvd_path path,
		     struct cell *into)
{
	const struct cell *cell = atomic_load_explicit(&observer->cells[op][path],
						       memory_order_acquire);

	if (cell)
		cell_merge(into, cell);
	return cell;
}

bool observe_cell(const struct kvd *handle, enum kvd_opcode op, enum kvd_path path,
		  struct cell *into)
{
	const struct observer *observer;
	bool any;

	if (handle)
		return handle->observer && cell_add(handle->observer, op, path, into);
	process_lock();
	any = cell_add(&process.closed, op, path, into);
	TAILQ_FOREACH(observer, &process.observers, entry)
		any |= cell_add(observer, op, path, into);
	process_unlock();
	return any;
}

size_t kvd_process_stats(struct kvd_stats *stats, size_t size)
{
	uint64_t sum[STATS_WORDS] = { 0 };
	const struct observer *observer;
	size_t handles = 0;
	unsigned int i;

	process_lock();
	for (i = 0; i < STATS_WORDS; i++)
		sum[i] = process.closed.stats[i];
	TAILQ_FOREACH(observer, &process.observers, entry) {
		handles++;
		for (i = 0; i < STATS_WORDS; i++)
			sum[i] += stat_read(&observer->stats[i]);
	}
	process_unlock();
	if (stats)
		memcpy(stats, sum, size < sizeof(sum) ? size : sizeof(sum));
	return handles;
}

/* An operation is observed from its start, so none may be outstanding. */
static enum kvd_status change_check(struct kvd *handle)
{
	if (handle->outstanding)
		return handle_fail(handle, KVD_ERR_BUSY,
				   "operations are outstanding: take them with kvd_wait() first");
	if (!observer_make(handle))
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "no memory to observe operations");
	return KVD_OK;
}

static enum kvd_status observe_set(struct kvd *handle, uint32_t flags)
{
	enum kvd_status status = change_check(handle);

	if (status)
		return status;
	if (flags & ~(uint32_t)KVD_OBSERVE_OPS)
		return handle_fail(handle, KVD_ERR_INVALID, "%#x: unknown flags of kvd_observe()",
				   flags);
	handle->observer->times = flags & KVD_OBSERVE_OPS;
	if (handle->observer->times)
		observer_list(handle);
	observing_set(handle);
	return KVD_OK;
}

static enum kvd_status trace_set(struct kvd *handle, kvd_trace_fn trace, void *user)
{
	enum kvd_status status = change_check(handle);

	if (status)
		return status;
	handle->observer->trace = trace;
	handle->observer->trace_user = user;
	observing_set(handle);
	return KVD_OK;
}

enum kvd_status kvd_observe(struct kvd *handle, uint32_t flags)
{
	enum kvd_status status;

	if (!handle && !flags) {
		process_lock();
		do_closed_forget();
		process_unlock();
		return KVD_OK;
	}
	status = call_enter(handle, NULL);
	if (status)
		return status;
	return call_end(handle, observe_set(handle, flags));
}

enum kvd_status kvd_trace(struct kvd *handle, kvd_trace_fn trace, void *user)
{
	enum kvd_status status = call_enter(handle, NULL);

	if (status)
		return status;
	return call_end(handle, trace_set(handle, trace, user));
}
