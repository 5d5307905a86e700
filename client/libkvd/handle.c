/* SPDX-License-Identifier: MIT */
/* The handle: how calls begin, check their arguments and fail; its statistics. */
#include "client/libkvd/handle.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/heap.h"
#include "common/util/log.h"

#define STRING(x) #x
#define VERSION_TEXT(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

const char *kvd_version(void)
{
	return VERSION_TEXT(KVD_VERSION_MAJOR, KVD_VERSION_MINOR, KVD_VERSION_PATCH);
}

const char *kvd_status_text(enum kvd_status status)
{
	switch (status) {
#define X(name, number, text)                                                                      \
	case KVD_##name:                                                                           \
		return text;
		KVD_STATUS_MAP(X)
#undef X
	}
	return "unknown status";
}

/* The text of the last failure of this thread without a handle: of kvd_open(), mostly. */
static _Thread_local char thread_error[ERROR_BYTES];

const char *kvd_error(const struct kvd *handle)
{
	return handle ? handle->error : thread_error;
}

#define PAGE_BYTES 4096

/*
 * A page of the process that a child after fork(2), but not vfork(2), finds zeroed: checking it
 * costs a call one load. All handles share it, or a thread that uses many in turn would miss the
 * cache and the TLB on each. NULL if the kernel can't do that: then misuse is noticed only when a
 * call fails.
 */
static _Atomic uint32_t *owner_page(void)
{
	static _Atomic uint32_t *_Atomic page;
	_Atomic uint32_t *created, *other = NULL;

	if (atomic_load(&page))
		return atomic_load(&page);
	created = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (created == MAP_FAILED)
		return NULL;
	if (!madvise(created, PAGE_BYTES, MADV_WIPEONFORK) &&
	    atomic_compare_exchange_strong(&page, &other, created))
		return created;
	munmap(created, PAGE_BYTES);
	return other;
}

/*
 * The number of this process in the page, which differs from those of the processes that it was
 * forked from.
 */
static uint32_t owner_number(_Atomic uint32_t *page)
{
	static _Atomic uint32_t last;
	uint32_t number = 0;

	if (atomic_load(page))
		return atomic_load(page);
	if (atomic_compare_exchange_strong(page, &number, atomic_fetch_add(&last, 1) + 1))
		return atomic_load(page);
	return number;
}

/* Rate 0 until the welcome says otherwise: no access records. */
void handle_init(struct kvd *handle, const struct kvd_options *options)
{
	struct list *lists[] = { &handle->ready,	 &handle->requests,
				 &handle->paused,	 &handle->blocked,
				 &handle->clock_waiters, &handle->geometry_waiters,
				 &handle->large_waiters, &handle->waiting,
				 &handle->done,		 &handle->called_back,
				 &handle->slots,	 &handle->transfers,
				 &handle->resends,	 &handle->word_waiters };
	unsigned int i;

	if (options)
		handle->options = *options;
	else
		kvd_options_init(&handle->options);
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		list_init(lists[i]);
	handle->epoll_fd = handle->timer_fd = -1;
	connection_init(&handle->conn);
	access_init(&handle->access, 0, 0, 0);
	handle->reconnect.random = (clock_ns() ^ (uintptr_t)handle ^ (uint64_t)getpid() << 40) | 1;
	server_clock_forget(&handle->clock, clock_slept_ns());
	handle->process = getpid();
	handle->owner_page = owner_page();
	if (handle->owner_page)
		handle->owner = owner_number(handle->owner_page);
}

/* Statuses after which the state of the connection is unknown. */
static bool status_breaks(enum kvd_status status)
{
	return status == KVD_ERR_DISCONNECTED || status == KVD_ERR_DEVICE ||
	       status == KVD_ERR_PROTOCOL;
}

void handle_why_keep(struct kvd *handle)
{
	/* What is cut off a longer text is its remedy. */
	snprintf(handle->reconnect.why, sizeof(handle->reconnect.why), "%.*s",
		 (int)sizeof(handle->reconnect.why) - 1, handle->error);
}

/* The first failure closes the connection; later ones only set their text. */
enum kvd_status handle_fail(struct kvd *handle, enum kvd_status status, const char *format, ...)
{
	bool breaks = status_breaks(status);
	va_list args;

	va_start(args, format);
	if (breaks && handle->process != getpid())
		snprintf(handle->error, sizeof(handle->error),
			 "this handle was used in a child process after fork(2); only the process "
			 "that opened it may use it; the connection is closed");
	else
		vsnprintf(handle->error, sizeof(handle->error), format, args);
	va_end(args);
	if (breaks && !handle->conn.broken) {
		/* client/libkvd/reconnect.c and kvd_open() log tries to connect. */
		if (handle->up)
			log_warn("%s", handle->error);
		handle_why_keep(handle);
		handle->conn.broken = true;
		handle->conn.lost = status;
		handle->attention = true;
		if (handle->conn.id)
			handle->dev->ops->disconnect(handle->conn.id);
	}
	return status;
}

/* Two users of a handle corrupt softnic's rings: then, too, the server closes the connection. */
void connection_lost(struct kvd *handle, const char *how)
{
	handle_fail(
		handle, KVD_ERR_DISCONNECTED,
		"the connection to %s is lost (%s): the server closed it, stopped or crashed, or "
		"a second process used this handle",
		handle->dev->address, how);
}

void events_poll(struct kvd *handle)
{
	struct cm_event event;

	while (!handle->conn.broken &&
	       !handle->dev->ops->cm_get_event(handle->conn.cm_channel, &event)) {
		if (event.type == CM_DISCONNECTED)
			connection_lost(handle, "disconnected");
		if (event.type == CM_DEVICE_REMOVED)
			connection_lost(handle, "the RDMA device was removed");
	}
}

enum kvd_status handle_error_set(struct kvd *handle, enum kvd_status status, const char *format,
				 ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(handle ? handle->error : thread_error, ERROR_BYTES, format, args);
	va_end(args);
	return status;
}

enum kvd_status handle_closed(struct kvd *handle)
{
	return handle_error_set(handle, KVD_ERR_DISCONNECTED,
				"this handle does not connect again (kvd_options.reconnect): %s",
				handle->reconnect.why);
}

/* The last user of the pool frees it. */
void handle_bounce_age(struct kvd *handle)
{
	if (!handle->bounce_user || handle->bounces || ++handle->bounce_calls < BOUNCE_CALLS)
		return;
	handle->bounce_user = false;
	bounce_pool_leave(&handle->shared_device->bounces);
}

/* Sets the thread's text: that of the handle belongs to the thread that uses it. */
static enum kvd_status call_refuse(const char *why)
{
	return handle_error_set(NULL, KVD_ERR_INVALID, "%s", why);
}

/* @user: the thread whose call is under way; 0: none, the handle is inherited. */
static enum kvd_status call_denied(struct kvd *handle, bool *nested, uintptr_t user)
{
	if (!handle)
		return call_refuse("the handle is NULL");
	if (!user)
		return handle_error_set(handle, KVD_ERR_DISCONNECTED,
					"this handle was opened before fork(2), by the parent: the "
					"child must open its own");
	if (user != (uintptr_t)pthread_self())
		return call_refuse("another thread's call on this handle is under way: a handle "
				   "belongs to one thread at a time");
	if (nested && handle->in_callback) {
		*nested = true;
		return KVD_OK;
	}
	return call_refuse("a callback may only submit and cancel operations of its handle");
}

/* The exchange stops a second thread; it is uncontended otherwise. */
inline enum kvd_status call_enter(struct kvd *handle, bool *nested)
{
	uintptr_t user = 0;

	if (handle && !handle_is_inherited(handle) &&
	    atomic_compare_exchange_strong_explicit(&handle->user, &user, (uintptr_t)pthread_self(),
						    memory_order_acquire, memory_order_relaxed))
		return KVD_OK;
	return call_denied(handle, nested, user);
}

/* The deadline is set when the call first has to wait: see engine_wait(). */
enum kvd_status call_begin(struct kvd *handle)
{
	enum kvd_status status = call_enter(handle, NULL);

	if (status)
		return status;
	handle->deadline_ns = 0;
	/* The last call may have noticed the loss after its own operation had ended. */
	if (handle->closed || (handle->conn.broken && !handle->options.reconnect))
		return call_end(handle, handle_closed(handle));
	handle_bounce_age(handle);
	return KVD_OK;
}

enum kvd_status call_begin_server(struct kvd *handle)
{
	enum kvd_status status = call_begin(handle);

	if (!status && handle->fleet)
		status = call_end(handle, handle_error_set(handle, KVD_ERR_INVALID,
							   "this call is about one server: open a "
							   "member of the fleet by its own URL"));
	return status;
}

enum kvd_status key_refuse(struct kvd *handle, const void *key, size_t key_len)
{
	if (!key && key_len)
		return handle_fail(handle, KVD_ERR_INVALID, "the key is NULL");
	return handle_fail(handle, KVD_ERR_INVALID, "a key of %zu bytes: 1 to %d are allowed",
			   key_len, KVD_KEY_MAX);
}

enum kvd_status buffer_refuse(struct kvd *handle, size_t value_size)
{
	return handle_fail(handle, KVD_ERR_INVALID,
			   "the buffer for the value is NULL, but has %zu bytes", value_size);
}

enum kvd_status ttl_check(struct kvd *handle, uint32_t ttl_s)
{
	static_assert(KVD_TTL_MAX == WIRE_TTL_MAX, "the API's limit is the protocol's");

	if (ttl_s <= KVD_TTL_MAX)
		return KVD_OK;
	return handle_fail(handle, KVD_ERR_INVALID, "%u seconds: at most %u are allowed", ttl_s,
			   KVD_TTL_MAX);
}

static enum kvd_status buffer_failed(struct kvd *handle, size_t bytes, int err)
{
	char why[MEMLOCK_WHY_BYTES];

	if (err == -EIO || err == -ENODEV)
		return handle_fail(handle, KVD_ERR_DEVICE,
				   "device %s: can't register %zu bytes: %s", handle->dev->name,
				   bytes, strerror(-err));
	return handle_fail(handle, KVD_ERR_NO_MEMORY,
			   "can't allocate and register %zu bytes for RDMA: %s%s", bytes,
			   strerror(-err), mr_failed_why(handle->dev, err, why));
}

enum kvd_status handle_buf_resize(struct kvd *handle, struct reg_buf *buf, size_t bytes, int access)
{
	int err;

	if (bytes <= buf->bytes)
		return KVD_OK;
	err = reg_buf_resize(buf, handle->dev, handle->pd,
			     bytes > 2 * buf->bytes ? bytes : 2 * buf->bytes, access);
	return err ? buffer_failed(handle, bytes, err) : KVD_OK;
}

enum kvd_status handle_bounce_failed(struct kvd *handle, size_t bytes, int err)
{
	size_t mr_max = handle->shared_device->bounces.mr_max;

	if (bytes > mr_max)
		return handle_fail(handle, KVD_ERR_TOO_LARGE,
				   "a value of %zu bytes: device %s of this host registers at most "
				   "%zu at once (max_mr_size), and the server READs a value from "
				   "one registration: store shorter values, or use another device",
				   bytes, handle->dev->name, mr_max);
	return buffer_failed(handle, bytes, err);
}

/* Checks sleep twice: this thread may have been preempted between two clocks. */
void handle_clock_check(struct kvd *handle)
{
	uint64_t slept;

	if (!server_clock_slept(&handle->clock, clock_slept_ns()))
		return;
	slept = clock_slept_ns();
	if (!server_clock_slept(&handle->clock, slept))
		return;
	server_clock_forget(&handle->clock, slept);
	handle->stats.clock_jumps++;
}

/* Records nothing if there is no memory for it. */
void handle_latency(struct kvd *handle, enum kvd_opcode op, uint64_t ns)
{
	struct hist_sparse **sparse = &handle->latency[op];

	if (!*sparse)
		*sparse = heap_calloc(1, sizeof(**sparse));
	if (*sparse)
		hist_sparse_record(*sparse, ns);
}

void kvd_stats(const struct kvd *handle, struct kvd_stats *stats)
{
	if (!handle || !stats)
		return;
	*stats = handle->stats;
	if (handle->fleet)
		handle->fleet_ops->stats_add(handle, stats);
}

uint64_t kvd_latency_ns(const struct kvd *handle, enum kvd_opcode op, double quantile)
{
	struct hist hist;

	if (!handle || (unsigned int)op >= LATENCIES || !handle->latency[op])
		return 0;
	hist_sparse_expand(handle->latency[op], &hist);
	return hist_quantile(&hist, quantile);
}

const char *connection_text(const struct kvd *handle)
{
	if (handle->up)
		return connection_is_silent(&handle->conn) ? "away" : "up";
	if (handle->closed)
		return "closed";
	if (handle->reconnect.away)
		return "away";
	return handle->reconnect.state == RECONNECT_PAUSE ? "waiting" : "connecting";
}

void kvd_info(const struct kvd *handle, struct kvd_info *info)
{
	uint64_t incarnation = 0;

	if (handle && handle->fleet)
		handle = handle->fleet_ops->any(handle, &incarnation);
	else if (handle)
		incarnation = handle->geometry.incarnation;
	if (!handle || !info)
		return;
	*info = (struct kvd_info){
		.device_kind = device_kind_name(handle->dev->kind),
		.device_name = handle->dev->name,
		.device_why = handle->shared_device->why,
		.device_link = handle->conn.link,
		.incarnation = incarnation,
		.region_bytes = handle->geometry.region_bytes,
		.value_max = handle->geometry.value_max,
		.window = connection_window(&handle->conn, clock_raw_ns()),
		.request_bytes = handle->conn.request_bytes,
		.cache_bytes = bcache_bytes(&handle->cache),
		.buckets = geometry_buckets(&handle->geometry),
		.clock_error_ns = server_clock_width(&handle->clock, clock_raw_ns()),
		.access_rate = (uint32_t)handle->access.rate,
		.connection = connection_text(handle),
		.reconnects = handle->stats.reconnects,
		.tenant = handle->tenant,
	};
}

uint64_t kvd_clock_ns(const struct kvd *handle)
{
	uint64_t now_ns = clock_raw_ns(), incarnation = 0;

	if (handle && handle->fleet)
		handle = handle->fleet_ops->any(handle, &incarnation);
	if (!handle || !handle->clock.known || server_clock_slept(&handle->clock, clock_slept_ns()))
		return 0;
	return server_clock_low(&handle->clock, now_ns) +
	       server_clock_width(&handle->clock, now_ns) / 2;
}
