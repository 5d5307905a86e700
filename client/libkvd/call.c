/* SPDX-License-Identifier: MIT */
/* Synchronous requests, and reports of GETs. */
#include "client/libkvd/call.h"

#include "client/libkvd/engine.h"
#include "client/libkvd/landing.h"
#include "common/util/clock.h"

/* The caller may use the last response until now. */
static void held_release(struct connection *conn)
{
	if (!conn->held)
		return;
	conn->held = false;
	conn->recv_free[conn->recv_free_count++] = (uint8_t)conn->held_index;
}

static void raw_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	struct connection *conn = &handle->conn;

	conn->held = true;
	conn->held_index = conn->response_index;
	f->response = *response;
	f->status = KVD_OK;
	flight_end(handle, f);
}

static void raw_fail(struct flight *f, enum kvd_status status)
{
	f->status = status;
}

static const struct flight_ops raw_ops = { .response = raw_response, .fail = raw_fail };

enum kvd_status rpc_call(struct kvd *handle, struct rpc *rpc, struct response *response)
{
	enum kvd_status status = engine_turn(handle);
	struct flight f;
	unsigned int left = 1;

	if (status)
		return status;
	held_release(&handle->conn);
	if (rpc->on_loss == LOSS_FAILS && !handle->up)
		return handle_error_set(handle, KVD_ERR_DISCONNECTED,
					"the connection to %s was lost, and another one does not "
					"have what the call is about; nothing was done",
					handle->dev->address);
	flight_init_lookup(&f, &left, NULL);
	f.kind = FLIGHT_RAW;
	f.ops = &raw_ops;
	f.rpc = *rpc;
	request_add(handle, &f);
	engine_run(handle, &f, 1, &left);
	if (f.status)
		return f.status;
	*response = f.response;
	return response_status(handle, response);
}

static bool access_posted(struct kvd *handle, const void *arg)
{
	(void)arg;
	return !handle->access.due || !handle->up;
}

void access_settle(struct kvd *handle)
{
	handle->attention = true;
	engine_post(handle);
	if (!access_posted(handle, NULL))
		engine_wait(handle, access_posted, NULL, &handle->deadline_ns);
}

static bool access_reported(struct kvd *handle, const void *arg)
{
	(void)arg;
	return !handle->up || (access_is_empty(&handle->access) && !handle->conn.accesses);
}

/* What is not due yet is made so, in turns, as a message has room for some of them only. */
static bool access_all(struct kvd *handle, const void *arg)
{
	if (!access_is_empty(&handle->access) && !handle->conn.accesses) {
		handle->access.due = true;
		handle->attention = true;
	}
	return access_reported(handle, arg);
}

/* Failures are ignored: the handle is being closed, and a lost record costs a hint only. */
void access_report_all(struct kvd *handle, unsigned int wait_ms)
{
	uint64_t until_ns = clock_ns() + wait_ms * 1000000ull;

	if (!access_all(handle, NULL))
		engine_wait(handle, access_all, NULL, &until_ns);
}
