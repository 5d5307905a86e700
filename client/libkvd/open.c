/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing a handle, and what a program sets before: the log, the heap, options, and the
 * server that it connects to if its user names none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/device.h"
#include "client/libkvd/engine.h"
#include "client/libkvd/fleet.h"
#include "client/libkvd/observe.h"
#include "client/libkvd/op.h"
#include "client/libkvd/reconnect.h"
#include "client/libkvd/transfer.h"
#include "common/rdma/default_socket.h"
#include "common/util/clock.h"
#include "common/util/heap.h"
#include "common/util/log.h"

/* How long kvd_close() waits for the responses to the last reports. */
#define CLOSE_WAIT_MS 50
#define SCHEME "softnic://"

static_assert((int)KVD_LOG_OFF == LOG_OFF && (int)KVD_LOG_ERROR == LOG_ERROR &&
		      (int)KVD_LOG_WARN == LOG_WARN && (int)KVD_LOG_NOTICE == LOG_NOTICE &&
		      (int)KVD_LOG_INFO == LOG_INFO && (int)KVD_LOG_DEBUG == LOG_DEBUG,
	      "levels are the log's");

static kvd_log_fn program_log;

static void log_pass(void *user, enum log_level level, const char *text)
{
	program_log(user, (enum kvd_log_level)level, text);
}

enum kvd_status kvd_set_log(enum kvd_log_level level, kvd_log_fn log, void *user)
{
	if ((unsigned int)level > KVD_LOG_DEBUG || (level && !log))
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"no such level, or no function for the lines");
	log_set_level(LOG_OFF);
	program_log = log;
	log_set_hook(level ? log_pass : NULL, user);
	log_set_level((enum log_level)level);
	return KVD_OK;
}

enum kvd_status kvd_set_allocator(const struct kvd_allocator *allocator)
{
	struct heap_functions functions = { 0 };

	if (allocator && (!allocator->alloc || !allocator->realloc || !allocator->free))
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"alloc, realloc and free are all needed");
	if (allocator)
		functions = (struct heap_functions){
			.alloc = allocator->alloc,
			.realloc = allocator->realloc,
			.free = allocator->free,
			.user = allocator->user,
		};
	if (heap_set(&functions))
		return handle_error_set(NULL, KVD_ERR_BUSY,
					"memory has been allocated already: set the allocator "
					"before the first kvd_open()");
	return KVD_OK;
}

const char *kvd_default_url(char buffer[KVD_URL_MAX])
{
	const char *url = getenv("KVD_URL");
	char path[DEVICE_PATH_MAX];

	static_assert(sizeof(SCHEME) + DEVICE_PATH_MAX <= KVD_URL_MAX, "every path fits");
	if (url && *url)
		return url;
	if (!buffer)
		return SCHEME DEFAULT_SOCKET_SYSTEM;
	default_socket_find(path);
	snprintf(buffer, KVD_URL_MAX, SCHEME "%s", path);
	return buffer;
}

void kvd_options_init(struct kvd_options *options)
{
	if (!options)
		return;
	*options = (struct kvd_options){
		.timeout_ms = 2000,
		.connect_timeout_ms = 5000,
		.cache_bytes = 32u << 20,
		.spin_us = 200,
		.get_tries = 16,
		.depth = 64,
		.reconnect = 1,
	};
}

static enum kvd_status options_check(struct kvd *handle)
{
	const struct kvd_options *o = &handle->options;

	if (o->timeout_ms < 1 || o->timeout_ms > 3600000)
		return handle_fail(handle, KVD_ERR_INVALID, "timeout_ms is %u: 1 to 3600000",
				   o->timeout_ms);
	if (o->connect_timeout_ms < 1 || o->connect_timeout_ms > 3600000)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "connect_timeout_ms is %u: 1 to 3600000", o->connect_timeout_ms);
	if (o->spin_us > 1000000)
		return handle_fail(handle, KVD_ERR_INVALID, "spin_us is %u: at most 1000000",
				   o->spin_us);
	if (o->get_tries < 1 || o->get_tries > 1000)
		return handle_fail(handle, KVD_ERR_INVALID, "get_tries is %u: 1 to 1000",
				   o->get_tries);
	if (o->depth < 1 || o->depth > 1024)
		return handle_fail(handle, KVD_ERR_INVALID, "depth is %u: 1 to 1024", o->depth);
	if (o->reconnect > 1)
		return handle_fail(handle, KVD_ERR_INVALID, "reconnect is %u: 0 or 1",
				   o->reconnect);
	return KVD_OK;
}

/* Copies the name: options->tenant, or $KVD_TENANT. */
static enum kvd_status tenant_take(struct kvd *handle)
{
	const char *name = handle->options.tenant;
	char padded[WIRE_TENANT_MAX] = "";
	size_t length;

	if (!name)
		name = getenv("KVD_TENANT");
	if (!name || !*name)
		return KVD_OK;
	length = strlen(name);
	if (length <= sizeof(padded))
		memcpy(padded, name, length);
	if (!wire_tenant_length(padded))
		return handle_fail(handle, KVD_ERR_INVALID,
				   "the tenant '%.40s': a name has 1 to %u letters, digits, '-', "
				   "'_' and '.'",
				   name, WIRE_TENANT_MAX);
	memcpy(handle->tenant, padded, length);
	return KVD_OK;
}

static bool open_ended(struct kvd *handle, const void *arg)
{
	(void)arg;
	return handle->up || handle->closed;
}

static enum kvd_status open_all(struct kvd *handle, const char *url)
{
	uint64_t deadline_ns = UINT64_MAX; /* the try has its own */
	uint64_t begin_ns = clock_ns();
	enum kvd_status status = options_check(handle);

	if (!status)
		status = tenant_take(handle);
	if (!status && credentials_take(&handle->credentials, &handle->options))
		status = handle_fail(handle, KVD_ERR_NO_MEMORY, "out of memory");
	if (!status && fleet_is_url(url))
		return fleet_connect(handle, url,
				     begin_ns + handle->options.connect_timeout_ms * 1000000ull);
	if (!status)
		status = device_get(handle, url);
	if (status)
		return status;
	reconnect_open(handle, begin_ns);
	if (!open_ended(handle, NULL))
		engine_wait(handle, open_ended, NULL, &deadline_ns);
	return handle->up ? KVD_OK : handle->conn.lost;
}

/*
 * The name may lead elsewhere now, or the device may be back: later handles get another device.
 * Returns whether this one was other handles' already.
 */
static bool open_condemns(struct kvd *handle, enum kvd_status status)
{
	if (!handle->shared_device)
		return false;
	if (status != KVD_ERR_DEVICE && status != KVD_ERR_UNREACHABLE && status != KVD_ERR_TIMEOUT)
		return false;
	return shared_device_condemn(handle->shared_device);
}

/* *@stale: it failed on the device of other handles, and may succeed on a new one. */
static enum kvd_status open_once(struct kvd **out, const char *url,
				 const struct kvd_options *options, bool *stale)
{
	enum kvd_status status;
	struct kvd *handle;

	*stale = false;
	handle = heap_calloc(1, sizeof(*handle));
	if (!handle)
		return handle_error_set(NULL, KVD_ERR_NO_MEMORY, "out of memory");
	handle_init(handle, options);
	status = open_all(handle, url);
	if (status) {
		handle_error_set(NULL, status, "%s", handle->error);
		*stale = open_condemns(handle, status) && status == KVD_ERR_DEVICE;
		kvd_close(handle);
		return status;
	}
	/* HELLO does not count. */
	memset(&handle->stats, 0, sizeof(handle->stats));
	*out = handle;
	return KVD_OK;
}

static void open_log(const struct kvd *handle, const char *url, uint64_t start_ns)
{
	if (handle && handle->fleet)
		log_info("opened the fleet %s in %llu us", url,
			 (unsigned long long)(clock_ns() - start_ns) / 1000);
	else if (handle)
		log_info("connected to %s in %llu us: %s device %s", handle->dev->address,
			 (unsigned long long)(clock_ns() - start_ns) / 1000,
			 device_kind_name(handle->dev->kind), handle->dev->name);
	else
		log_warn("%s", kvd_error(NULL));
}

enum kvd_status kvd_open(struct kvd **out, const char *url, const struct kvd_options *options)
{
	uint64_t start_ns = clock_ns();
	enum kvd_status status;
	bool stale;

	if (!out)
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"the pointer to the handle to open is NULL");
	*out = NULL;
	handle_error_set(NULL, KVD_OK, "%s", "");
	status = open_once(out, url, options, &stale);
	if (stale)
		status = open_once(out, url, options, &stale);
	open_log(*out, url, start_ns);
	return status;
}

void kvd_close(struct kvd *handle)
{
	unsigned int i;
	bool inherited;

	if (!handle)
		return;
	/* The process is compared in case there is no owner page (client/libkvd/handle.c). */
	inherited = handle_is_inherited(handle) || handle->process != getpid();
	if (!inherited && call_enter(handle, NULL)) {
		log_warn("kvd_close() does nothing: %s", kvd_error(NULL));
		return;
	}
	if (!inherited)
		access_report_all(handle, CLOSE_WAIT_MS);
	observe_close(handle, inherited);
	fleet_release(handle);
	if (handle->server && !inherited)
		log_info("the connection to %s is closed", handle->dev->address);
	for (i = 0; i < LATENCIES; i++) {
		if (handle->latency[i])
			hist_sparse_release(handle->latency[i]);
		heap_free(handle->latency[i]);
	}
	/* In a child the device, and all that handles share, are the parent's. */
	if (handle->dev && !inherited) {
		connection_drop(handle);
		device_buffers_release(handle);
	}
	/* Releases the caller's memory. */
	submitted_release(handle);
	transfers_release(handle);
	if (!inherited) {
		shared_device_put(handle->shared_device);
		shared_server_put(handle->server);
	}
	credentials_release(&handle->credentials);
	explicit_bzero(&handle->sum_key, sizeof(handle->sum_key));
	heap_free(handle);
}
