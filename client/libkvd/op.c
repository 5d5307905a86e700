/* SPDX-License-Identifier: MIT */
/* Operations: checks arguments, makes requests, and takes results from the responses. */
#include "client/libkvd/op.h"

#include "client/libkvd/engine.h"
#include "client/libkvd/fleet_links.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/get.h"
#include "client/libkvd/observe.h"
#include "client/libkvd/pieces.h"
#include "client/libkvd/rpc.h"
#include "common/sum.h"
#include "common/util/clock.h"
#include "common/util/parse.h"

static_assert((int)WIRE_SET == KVD_PUT_SET && (int)WIRE_ADD == KVD_PUT_IF_ABSENT &&
		      (int)WIRE_REPLACE == KVD_PUT_IF_PRESENT &&
		      (int)WIRE_CAS == KVD_PUT_IF_VERSION && (int)WIRE_APPEND == KVD_PUT_APPEND &&
		      (int)WIRE_PREPEND == KVD_PUT_PREPEND,
	      "wire modes are those of the API");

/* Programs in other languages lay struct kvd_op out themselves. */
static_assert(
	sizeof(void *) != 8 ||
		(sizeof(struct kvd_op) == 256 && offsetof(struct kvd_op, status) == 32 &&
		 offsetof(struct kvd_op, item) == 40 && offsetof(struct kvd_op, number) == 64 &&
		 offsetof(struct kvd_op, op) == 72 && offsetof(struct kvd_op, flags) == 80 &&
		 offsetof(struct kvd_op, pin_s) == 96 &&
		 offsetof(struct kvd_op, if_version) == 104 &&
		 offsetof(struct kvd_op, initial) == 120 && offsetof(struct kvd_op, done) == 128 &&
		 offsetof(struct kvd_op, user) == 136 && offsetof(struct kvd_op, iov) == 144 &&
		 offsetof(struct kvd_op, iov_count) == 152 &&
		 offsetof(struct kvd_op, offset) == 160),
	"ABI");

/* So a lookup works on an operation as on a request of kvd_get_many(). */
#define SAME_FIELD(field)                                                                          \
	static_assert(offsetof(struct kvd_op, field) == offsetof(struct kvd_get_request, field) && \
			      sizeof(((struct kvd_op *)0)->field) ==                               \
				      sizeof(((struct kvd_get_request *)0)->field),                \
		      "an operation begins like a request of kvd_get_many()")
SAME_FIELD(key);
SAME_FIELD(key_len);
SAME_FIELD(value);
SAME_FIELD(status);
SAME_FIELD(item);
static_assert(offsetof(struct kvd_op, value_len) == offsetof(struct kvd_get_request, value_size),
	      "value_len is where value_size is");

static struct kvd_get_request *get_of(struct kvd_op *op)
{
	return (struct kvd_get_request *)(void *)op;
}

static enum kvd_status put_check_value(struct kvd *handle, const struct kvd_op *op)
{
	char most[PARSE_FORMAT_MAX];

	if (op->value_len && !op->value && !op->iov_count)
		return handle_fail(handle, KVD_ERR_INVALID, "the value is NULL but not empty");
	if (op->value_len > handle->geometry.value_max)
		return handle_fail(handle, KVD_ERR_TOO_LARGE,
				   "a value of %zu bytes: the server takes at most %s "
				   "(limits.max_value)",
				   op->value_len, show_size(handle->geometry.value_max, most));
	return KVD_OK;
}

static enum kvd_status put_check_priority(struct kvd *handle, const struct kvd_op *op)
{
	bool extends = op->mode == KVD_PUT_APPEND || op->mode == KVD_PUT_PREPEND;

	if ((unsigned int)op->priority > KVD_PRIORITY_LOW)
		return handle_fail(handle, KVD_ERR_INVALID, "%u is not a priority",
				   (unsigned int)op->priority);
	if (op->priority && extends)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "priority must be 0: append and prepend keep that of the value");
	if (op->pin_s && (extends || op->mode == KVD_PUT_IF_VERSION))
		return handle_fail(handle, KVD_ERR_INVALID,
				   "pin_s is not for KVD_PUT_IF_VERSION, append and prepend");
	if (op->pin_s > KVD_TTL_MAX)
		return handle_fail(handle, KVD_ERR_INVALID, "pin_s is at most %u", KVD_TTL_MAX);
	return KVD_OK;
}

/* The server checks again; here the text names the argument. */
static enum kvd_status put_check(struct kvd *handle, const struct kvd_op *op)
{
	enum kvd_status status = put_check_value(handle, op);

	if (status)
		return status;
	if ((unsigned int)op->mode > KVD_PUT_PREPEND)
		return handle_fail(handle, KVD_ERR_INVALID, "%u is not a mode of PUT",
				   (unsigned int)op->mode);
	if (op->if_version && op->mode != KVD_PUT_IF_VERSION)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "if_version is for KVD_PUT_IF_VERSION only");
	if ((op->mode == KVD_PUT_APPEND || op->mode == KVD_PUT_PREPEND) && (op->flags || op->ttl_s))
		return handle_fail(
			handle, KVD_ERR_INVALID,
			"flags and ttl_s must be 0: append and prepend keep those of the "
			"value");
	status = ttl_check(handle, op->ttl_s);
	return status ? status : put_check_priority(handle, op);
}

/* initial, ttl_s and flags are for a key that create makes. */
static enum kvd_status arith_check(struct kvd *handle, const struct kvd_op *op)
{
	if (!op->create && (op->initial || op->ttl_s || op->flags))
		return handle_fail(handle, KVD_ERR_INVALID, "initial, ttl_s and flags need create");
	return ttl_check(handle, op->ttl_s);
}

static enum kvd_status delete_check(struct kvd *handle, const struct kvd_op *op)
{
	if (op->mode != KVD_PUT_SET && op->mode != KVD_PUT_IF_VERSION)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "mode of a DELETE must be 0 or KVD_PUT_IF_VERSION");
	if (op->if_version && op->mode != KVD_PUT_IF_VERSION)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "if_version is for KVD_PUT_IF_VERSION only");
	return KVD_OK;
}

/* @code: op->op. Here and below it is a constant in calls that do one operation only. */
static ALWAYS_INLINE enum kvd_status do_op_check(struct kvd *handle, const struct kvd_op *op,
						 enum kvd_opcode code)
{
	enum kvd_status status = KVD_OK;

	if (code != KVD_OP_PING)
		status = key_check(handle, op->key, op->key_len);
	if (!status && op->iov_count)
		status = pieces_check(handle, op);
	if (status)
		return status;
	switch (code) {
	case KVD_OP_GET:
	case KVD_OP_GET_BY_REQUEST:
	case KVD_OP_GET_RANGE:
		return buffer_check(handle, op->value, op->value_len);
	case KVD_OP_GET_AND_TOUCH:
		status = buffer_check(handle, op->value, op->value_len);
		return status ? status : ttl_check(handle, op->ttl_s);
	case KVD_OP_PUT:
		return put_check(handle, op);
	case KVD_OP_DELETE:
		return delete_check(handle, op);
	case KVD_OP_INCR:
	case KVD_OP_DECR:
		return arith_check(handle, op);
	case KVD_OP_TOUCH:
		return ttl_check(handle, op->ttl_s);
	case KVD_OP_PING:
	case KVD_OP_EXISTS:
		return KVD_OK;
	case KVD_OP_SCAN:
		break;
	}
	return handle_fail(handle, KVD_ERR_INVALID, "%u is not an operation that can be submitted",
			   (unsigned int)op->op);
}

enum kvd_status op_check(struct kvd *handle, const struct kvd_op *op)
{
	return do_op_check(handle, op, op->op);
}

/* The request of an operation that is one request. */
static ALWAYS_INLINE void op_rpc(struct rpc *rpc, const struct kvd_op *op, enum kvd_opcode code)
{
	struct wire_request *head = &rpc->head;

	*head = (struct wire_request){ 0 };
	rpc->on_loss = LOSS_UNKNOWN;
	rpc->change = 0;
	rpc->version = 0;
	rpc->key = op->key;
	rpc->key_len = op->key_len;
	rpc->value = NULL;
	rpc->pieces = NULL;
	switch (code) {
	case KVD_OP_PUT:
		head->op = WIRE_PUT;
		head->mode = (uint8_t)op->mode;
		head->value_len = (uint32_t)op->value_len;
		head->item_flags = op->flags;
		head->ttl = op->ttl_s;
		head->version = op->if_version;
		if (op->priority == KVD_PRIORITY_LOW)
			head->flags |= WIRE_F_LOW;
		if (op->pin_s) {
			head->flags |= WIRE_F_PIN;
			head->pin = op->pin_s;
		}
		rpc->value = op->value;
		rpc->pieces = op->iov_count ? op : NULL;
		break;
	case KVD_OP_DELETE:
		head->op = WIRE_DELETE;
		head->flags = op->mode == KVD_PUT_IF_VERSION ? WIRE_F_IF_VERSION : 0;
		head->version = op->if_version;
		break;
	case KVD_OP_INCR:
	case KVD_OP_DECR:
		head->op = WIRE_ARITH;
		head->mode = code == KVD_OP_INCR ? WIRE_INCR : WIRE_DECR;
		head->delta = op->delta;
		head->flags = op->create ? WIRE_F_CREATE : 0;
		head->initial = op->initial;
		head->ttl = op->ttl_s;
		head->item_flags = op->flags;
		break;
	case KVD_OP_TOUCH:
		head->op = WIRE_TOUCH;
		head->ttl = op->ttl_s;
		break;
	default:
		rpc->key_len = 0;
		rpc->on_loss = LOSS_REPEATS;
		head->op = WIRE_PING;
	}
}

/* Says which condition of a change does not hold, and what the key has instead. */
static void condition_explain(struct kvd *handle, const struct kvd_op *op,
			      const struct response *response)
{
	const unsigned long long now = response->version, wanted = op->if_version;

	if (op->op == KVD_OP_DELETE)
		handle_error_set(handle, KVD_ERR_EXISTS,
				 "the key does not have version %llu; nothing was changed", wanted);
	else if (op->mode == KVD_PUT_IF_VERSION)
		handle_error_set(handle, KVD_ERR_EXISTS,
				 "the key has version %llu, not %llu; nothing was changed", now,
				 wanted);
	else
		handle_error_set(handle, KVD_ERR_EXISTS,
				 "the key exists, with version %llu; nothing was changed", now);
}

static void change_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	struct kvd_op *op = f->op;

	f->answered_ns = handle->conn.response_ns;
	op->status = response_status(handle, response);
	if (op->status == KVD_ERR_EXISTS)
		condition_explain(handle, op, response);
	if (!op->status && op->op != KVD_OP_PING) {
		op->item.version = response->version;
		op->item.expires_s = response->expires;
		if (response->op == WIRE_ARITH)
			op->number = response->result;
		/* The next GET of the key takes one READ. */
		if (response->op == WIRE_PUT || response->op == WIRE_ARITH)
			bcache_learn(&handle->cache, f->lookup.hash, response->slot);
	}
	flight_end(handle, f);
}

static void change_fail(struct flight *f, enum kvd_status status)
{
	f->op->status = status;
}

static const struct flight_ops change_ops = { .response = change_response, .fail = change_fail };

static ALWAYS_INLINE void do_op_flight(struct flight *f, struct kvd_op *op, enum kvd_opcode code,
				       unsigned int *left, uint64_t start_ns)
{
	flight_init_lookup(f, left, get_of(op));
	f->lookup.pieces = op->iov_count;
	f->ops = &get_ops;
	f->op = op;
	f->start_ns = start_ns;
	f->answered_ns = 0;
	observe_flight(f);
	switch (code) {
	case KVD_OP_GET:
		break;
	case KVD_OP_EXISTS:
		f->lookup.part = PART_NONE;
		break;
	case KVD_OP_GET_RANGE:
		f->lookup.part = PART_RANGE;
		f->lookup.range_at = op->offset;
		break;
	case KVD_OP_GET_BY_REQUEST:
	case KVD_OP_GET_AND_TOUCH:
		f->kind = FLIGHT_GET;
		break;
	default:
		f->kind = FLIGHT_CHANGE;
		f->ops = &change_ops;
		op_rpc(&f->rpc, op, code);
	}
}

void op_flight(struct flight *f, struct kvd_op *op, unsigned int *left, uint64_t start_ns)
{
	do_op_flight(f, op, op->op, left, start_ns);
}

static ALWAYS_INLINE void do_op_prepare(struct kvd *handle, struct flight *f, enum kvd_opcode code)
{
	if (code != KVD_OP_PING)
		lookup_prepare(handle, &f->lookup);
}

void op_prepare(struct kvd *handle, struct flight *f)
{
	do_op_prepare(handle, f, f->op->op);
}

/* GETs of the key that begin from now on wait for the change. */
static inline void change_begin(struct kvd *handle, struct flight *f, enum kvd_opcode code)
{
	if (code == KVD_OP_PING)
		return;
	f->counted = true;
	handle->changes++;
	handle->change_filter[f->lookup.hash % (1 << CHANGE_FILTER_BITS)]++;
}

void op_begin(struct kvd *handle, struct flight *f)
{
	if (f->kind == FLIGHT_LOOKUP) {
		lookup_begin(handle, f);
	} else if (f->kind == FLIGHT_GET) {
		if (f->op->op == KVD_OP_GET_AND_TOUCH) {
			change_begin(handle, f, f->op->op);
			touch_request(handle, f);
		} else {
			get_request(handle, f);
		}
	} else {
		change_begin(handle, f, f->op->op);
		request_add(handle, f);
	}
}

struct observed op_observed(struct kvd_op *op, uint64_t start_ns)
{
	return (struct observed){
		.op = op->op,
		.about = get_of(op),
		.start_ns = start_ns,
	};
}

static __attribute__((noinline)) void op_observe_end(struct kvd *handle, const struct flight *f,
						     uint64_t end_ns)
{
	struct observed observed = op_observed(f->op, f->start_ns);

	if (!f->left)
		observed.submitted = f->op;
	observe_end(handle, &observed, f, f->op->status, end_ns);
	observe_counted(handle);
}

/* The time, by the clock of f->start_ns, which a change has read when its response came. */
static inline uint64_t op_end_ns(const struct kvd *handle, const struct flight *f)
{
	if (handle->observing || !f->left)
		return clock_ns();
	return f->answered_ns ? f->answered_ns : clock_raw_ns();
}

static inline void op_timed(struct kvd *handle, const struct flight *f, enum kvd_opcode counted)
{
	uint64_t end_ns = op_end_ns(handle, f);

	if (counted < LATENCIES)
		handle_latency(handle, counted, end_ns - f->start_ns);
	if (handle->observing)
		op_observe_end(handle, f, end_ns);
}

/* In the statistics every change except DELETE is a PUT, and a PING is nothing. */
static ALWAYS_INLINE void do_op_count(struct kvd *handle, const struct flight *f,
				      enum kvd_opcode code)
{
	enum kvd_opcode counted = KVD_OP_PUT;

	switch (code) {
	case KVD_OP_PING:
		counted = KVD_OP_PING;
		break;
	case KVD_OP_EXISTS:
		exists_count(handle, f->op->status);
		counted = KVD_OP_EXISTS;
		break;
	case KVD_OP_GET:
	case KVD_OP_GET_BY_REQUEST:
	case KVD_OP_GET_AND_TOUCH:
	case KVD_OP_GET_RANGE:
		get_count(handle, f->op->status);
		counted = KVD_OP_GET;
		break;
	case KVD_OP_DELETE:
		handle->stats.deletes++;
		counted = KVD_OP_DELETE;
		break;
	default:
		handle->stats.puts++;
	}
	if (f->start_ns)
		op_timed(handle, f, counted);
}

void op_count(struct kvd *handle, const struct flight *f)
{
	do_op_count(handle, f, f->op->op);
}

static ALWAYS_INLINE bool do_op_is_timed(struct kvd *handle, enum kvd_opcode code)
{
	if (handle->observing)
		return true;
	if (code == KVD_OP_GET || code == KVD_OP_GET_BY_REQUEST || code == KVD_OP_GET_AND_TOUCH ||
	    code == KVD_OP_GET_RANGE)
		return handle->timed_gets++ % TIMED_EVERY == 0;
	return code != KVD_OP_PING && code != KVD_OP_EXISTS;
}

bool op_is_timed(struct kvd *handle, const struct kvd_op *op)
{
	return do_op_is_timed(handle, op->op);
}

/* Reports the start to the observer, and waits until the call is next. */
static __attribute__((noinline)) enum kvd_status op_turn(struct kvd *handle, struct flight *f)
{
	struct observed observed;

	if (handle->observing) {
		f->start_ns = clock_ns();
		observed = op_observed(f->op, f->start_ns);
		observe_start(handle, &observed);
	}
	return engine_turn(handle);
}

/* Begins a change whose member is ready. */
static ALWAYS_INLINE void fleet_change(struct kvd *handle, struct flight *f, enum kvd_opcode code,
				       uint64_t now_ns)
{
	struct kvd *member = fleet_ready(handle, f);

	if (!member)
		return;
	change_begin(member, f, code);
	request_begin(member, f, now_ns);
	engine_step(member);
}

/* Reads the clock once for the latency and the request, unless something takes time between. */
static ALWAYS_INLINE enum kvd_status do_op_call(struct kvd *handle, struct kvd_op *op,
						enum kvd_opcode code)
{
	enum kvd_status status = call_begin(handle);
	unsigned int left = 1;
	uint64_t now_ns;
	struct flight f;

	if (status)
		return status;
	status = do_op_check(handle, op, code);
	if (status)
		return call_end(handle, status);
	now_ns = clock_raw_ns();
	do_op_flight(&f, op, code, &left, do_op_is_timed(handle, code) ? now_ns : 0);
	if (handle->observing || !list_empty(&handle->waiting)) {
		status = op_turn(handle, &f);
		now_ns = clock_raw_ns();
	}
	if (status) {
		op->status = status;
	} else {
		do_op_prepare(handle, &f, code);
		if (handle->fleet) {
			if (f.kind == FLIGHT_CHANGE && code != KVD_OP_PING)
				fleet_change(handle, &f, code, now_ns);
			handle->fleet_ops->call(handle, &f, 1, &left);
		} else {
			if (f.kind == FLIGHT_CHANGE) {
				change_begin(handle, &f, code);
				request_begin(handle, &f, now_ns);
			} else {
				op_begin(handle, &f);
			}
			engine_run(handle, &f, 1, &left);
		}
	}
	do_op_count(handle, &f, code);
	return call_end(handle, op->status);
}

enum kvd_status op_call(struct kvd *handle, struct kvd_op *op)
{
	return do_op_call(handle, op, op->op);
}

enum kvd_status op_call_put(struct kvd *handle, struct kvd_op *op)
{
	return do_op_call(handle, op, KVD_OP_PUT);
}
