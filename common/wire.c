/* SPDX-License-Identifier: MIT */
/*
 * The parsers of messages: the one place that checks what a peer sent. A message that they accept
 * is complete, in bounds, of a known operation, and uses no field that its operation does not have.
 * They read every byte of a message at most once.
 */
#include "common/wire.h"

#include <stdio.h>

#include "common/sum.h"

enum key_use { KEY_NONE, KEY_MUST, KEY_MAY };

static const struct {
	const char *name;
	enum key_use key;
	bool value;	/* may have a value */
	uint16_t flags; /* all that it may have */
	uint8_t modes;	/* its largest mode */
	bool batched;	/* may be in a BATCH */
} ops[WIRE_OP_MAX + 1] = {
	[WIRE_HELLO] = { .name = "HELLO", .value = true },
	[WIRE_PING] = { .name = "PING", .batched = true },
	[WIRE_GET] = { .name = "GET", .key = KEY_MUST, .flags = WIRE_F_NO_VALUE, .batched = true },
	[WIRE_PUT] = { .name = "PUT",
		       .key = KEY_MUST,
		       .value = true,
		       .flags = WIRE_F_PULL | WIRE_F_PIN | WIRE_F_LOW,
		       .modes = WIRE_PUT_MAX,
		       .batched = true },
	[WIRE_DELETE] = { .name = "DELETE",
			  .key = KEY_MUST,
			  .flags = WIRE_F_IF_VERSION,
			  .batched = true },
	[WIRE_STATS] = { .name = "STATS" },
	[WIRE_ARITH] = { .name = "ARITH",
			 .key = KEY_MUST,
			 .flags = WIRE_F_CREATE,
			 .modes = WIRE_DECR,
			 .batched = true },
	[WIRE_TOUCH] = { .name = "TOUCH", .key = KEY_MUST, .flags = WIRE_F_VALUE, .batched = true },
	[WIRE_SCAN] = { .name = "SCAN", .key = KEY_MAY, .flags = WIRE_F_VALUES | WIRE_F_USES },
	[WIRE_FLUSH] = { .name = "FLUSH", .modes = WIRE_FLUSH_CANCEL_ANY },
	[WIRE_ACCESS] = { .name = "ACCESS" },
	[WIRE_CLIENTS] = { .name = "CLIENTS" },
	[WIRE_KILL] = { .name = "KILL" },
	[WIRE_REVOKE] = { .name = "REVOKE", .key = KEY_MUST },
	[WIRE_BATCH] = { .name = "BATCH", .value = true },
	[WIRE_SHUTDOWN] = { .name = "SHUTDOWN" },
	[WIRE_WHOAMI] = { .name = "WHOAMI" },
	[WIRE_MAP] = { .name = "MAP" },
	[WIRE_MOVE] = { .name = "MOVE", .modes = WIRE_MOVE_MAX },
	[WIRE_FLEET] = { .name = "FLEET", .key = KEY_MAY, .modes = WIRE_FLEET_MAX },
	[WIRE_REPORT] = { .name = "REPORT", .modes = WIRE_REPORT_MAX },
	[WIRE_TENANT] = { .name = "TENANT", .key = KEY_MAY, .modes = WIRE_TENANT_DROP },
	[WIRE_CONFIG] = { .name = "CONFIG", .key = KEY_MAY, .modes = WIRE_CONFIG_MAX },
	[WIRE_EXTENTS] = { .name = "EXTENTS" },
};

const char *wire_op_name(enum wire_op op)
{
	return op >= 1 && op <= WIRE_OP_MAX && ops[op].name ? ops[op].name : "unknown";
}

static const char *const status_names[] = {
	[WIRE_OK] = "OK",
	[WIRE_NOT_FOUND] = "NOT_FOUND",
	[WIRE_INVALID] = "INVALID",
	[WIRE_TOO_LARGE] = "TOO_LARGE",
	[WIRE_NO_SPACE] = "NO_SPACE",
	[WIRE_PROTOCOL] = "PROTOCOL",
	[WIRE_BUSY] = "BUSY",
	[WIRE_EXISTS] = "EXISTS",
	[WIRE_NOT_A_NUMBER] = "NOT_A_NUMBER",
	[WIRE_UNKNOWN] = "UNKNOWN",
	[WIRE_NOT_ALLOWED] = "NOT_ALLOWED",
	[WIRE_LIMIT] = "LIMIT",
	[WIRE_MOVED] = "MOVED",
	[WIRE_AWAY] = "AWAY",
};

static bool status_known(uint8_t status)
{
	return status < sizeof(status_names) / sizeof(status_names[0]) && status_names[status];
}

const char *wire_status_name(enum wire_status status)
{
	return status_known((uint8_t)status) ? status_names[status] : "unknown";
}

uint32_t wire_tenant_length(const char name[WIRE_TENANT_MAX])
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789-_.";
	uint32_t length = 0, i;

	while (length < WIRE_TENANT_MAX && name[length])
		if (!strchr(allowed, name[length++]))
			return 0;
	for (i = length; i < WIRE_TENANT_MAX; i++)
		if (name[i])
			return 0;
	return length;
}

void wire_abi_text(char text[WIRE_REJECT_TEXT_BYTES], uint32_t client_abi, uint32_t server_abi)
{
	snprintf(text, WIRE_REJECT_TEXT_BYTES,
		 "the client has protocol version %u and the server %u: update the %s", client_abi,
		 server_abi, client_abi < server_abi ? "client" : "server");
}

/* Whether the request may create an item, and so has item flags and a time to live. */
static bool makes_item(const struct wire_request *r)
{
	if (r->op == WIRE_PUT)
		return r->mode != WIRE_APPEND && r->mode != WIRE_PREPEND;
	return r->op == WIRE_ARITH && r->flags & WIRE_F_CREATE;
}

static bool has_arg64(const struct wire_request *r)
{
	switch ((enum wire_op)r->op) {
	case WIRE_GET:
		return !(r->flags & WIRE_F_NO_VALUE);
	case WIRE_PUT:
		return r->mode == WIRE_CAS || r->mode == WIRE_COPY || r->flags & WIRE_F_PIN;
	case WIRE_DELETE:
		return r->flags & WIRE_F_IF_VERSION;
	case WIRE_ARITH:
	case WIRE_SCAN:
	case WIRE_FLUSH:
	case WIRE_CLIENTS:
	case WIRE_KILL:
	case WIRE_MAP:
	case WIRE_FLEET:
		return true;
	case WIRE_MOVE:
		return r->mode != WIRE_MOVE_ASK;
	case WIRE_TENANT:
		return r->mode != WIRE_TENANT_DROP;
	case WIRE_REPORT:
		return r->mode != WIRE_REPORT_RESET;
	case WIRE_CONFIG:
		return r->mode == WIRE_CONFIG_GET;
	default:
		return false;
	}
}

static bool starts_flush(const struct wire_request *r)
{
	return r->op == WIRE_FLUSH && r->mode == WIRE_FLUSH_START && !r->ticket;
}

static bool has_ttl(const struct wire_request *r)
{
	return makes_item(r) || r->op == WIRE_TOUCH || starts_flush(r);
}

static bool begins_move(const struct wire_request *r)
{
	return r->op == WIRE_MOVE && r->mode == WIRE_MOVE_BEGIN;
}

static bool is_copy(const struct wire_request *r)
{
	return r->op == WIRE_PUT && r->mode == WIRE_COPY;
}

/* The number of a change; 0: none. */
static uint32_t number_of(const struct wire_request *r)
{
	return is_copy(r) ? 0 : r->change;
}

/* Operations that change the store; and PING, which replaces a change that its client gave up. */
static bool may_be_numbered(const struct wire_request *r)
{
	switch ((enum wire_op)r->op) {
	case WIRE_PUT:
	case WIRE_DELETE:
	case WIRE_ARITH:
	case WIRE_TOUCH:
	case WIRE_PING:
	case WIRE_BATCH:
		return true;
	case WIRE_FLUSH:
		return starts_flush(r);
	default:
		return false;
	}
}

static uint16_t common_flags(const struct wire_request *r)
{
	if (r->op == WIRE_HELLO)
		return 0;
	return number_of(r) ? WIRE_F_GETS | WIRE_F_RESUME : WIRE_F_GETS;
}

static const char *check_kind(const struct wire_request *r)
{
	if (r->op < 1 || r->op > WIRE_OP_MAX || !ops[r->op].name)
		return "unknown operation";
	if (r->flags & ~(ops[r->op].flags | common_flags(r)))
		return "unknown flag";
	if (r->mode > ops[r->op].modes)
		return "mode out of range";
	return NULL;
}

/* As wire_use_pack() makes it of an item that is there. */
static bool use_is_good(uint32_t use)
{
	uint32_t uses = use >> 14 & WIRE_USES_MAX, age = use & WIRE_AGE_MAX;

	switch ((enum wire_use)(use >> 30)) {
	case WIRE_USE_NONE:
		return !use;
	case WIRE_USE_NORMAL:
		return use == wire_use_pack(WIRE_USE_NORMAL, uses, age);
	case WIRE_USE_LOW:
		return use == wire_use_pack(WIRE_USE_LOW, 0, age);
	case WIRE_USE_PINNED:
		return uses <= 1 && use == wire_use_pack(WIRE_USE_PINNED, uses, age);
	}
	return false;
}

static const char *check_copy(const struct wire_request *r)
{
	if (r->flags & (WIRE_F_PIN | WIRE_F_LOW))
		return "a pin, or low priority, beside the use of a copy";
	if (!r->version)
		return "a copy without a version";
	return use_is_good(r->use) ? NULL : "the use of a copy out of range";
}

static const char *check_priority(const struct wire_request *r)
{
	if (is_copy(r))
		return check_copy(r);
	if (r->flags & WIRE_F_LOW && !makes_item(r))
		return "low priority in a mode that keeps that of the item";
	if (!(r->flags & WIRE_F_PIN))
		return NULL;
	if (r->mode != WIRE_SET && r->mode != WIRE_ADD && r->mode != WIRE_REPLACE)
		return "pin in a mode that has none";
	if (r->pin < 1 || r->pin > WIRE_TTL_MAX)
		return "time of a pin out of range";
	return NULL;
}

static bool samples(const struct wire_request *r)
{
	return r->op == WIRE_REPORT && r->mode == WIRE_REPORT_SAMPLE;
}

static bool has_length(const struct wire_request *r)
{
	return r->op == WIRE_GET && !(r->flags & WIRE_F_NO_VALUE);
}

static const char *check_fields(const struct wire_request *r)
{
	if (samples(r) && !r->every)
		return "a sample of no operation";
	if (r->arg64 && !has_arg64(r))
		return "arg64 in an operation that does not use it";
	if (r->pull_rkey && !(r->flags & WIRE_F_PULL))
		return "pull_rkey in an operation that does not use it";
	if (r->arg_addr && !(r->flags & (WIRE_F_PULL | WIRE_F_CREATE)) && !begins_move(r))
		return "arg_addr in an operation that does not use it";
	if (r->ttl && !has_ttl(r))
		return "ttl in an operation that does not use it";
	if (r->ttl > WIRE_TTL_MAX)
		return "time to live out of range";
	if (number_of(r) && !may_be_numbered(r))
		return "a number in an operation that changes nothing";
	if (r->arg32 && !makes_item(r) && r->op != WIRE_STATS && r->op != WIRE_SCAN &&
	    r->op != WIRE_BATCH && !samples(r) && !has_length(r))
		return "arg32 in an operation that does not use it";
	return NULL;
}

static const char *check_lengths(const struct wire_request *r)
{
	enum key_use key = ops[r->op].key;

	if (key == KEY_NONE ? r->key_len : r->key_len > KEY_MAX || (key == KEY_MUST && !r->key_len))
		return "key length out of range";
	if (r->op == WIRE_TENANT &&
	    (r->key_len > WIRE_TENANT_MAX || !r->key_len != (r->mode == WIRE_TENANT_LIST)))
		return "key length out of range";
	if (r->op == WIRE_FLEET &&
	    (r->key_len > WIRE_TENANT_MAX || !r->key_len != (r->mode == WIRE_FLEET_REBALANCE)))
		return "key length out of range";
	if (r->op == WIRE_CONFIG && !r->key_len != (r->mode != WIRE_CONFIG_SET))
		return "key length out of range";
	if (r->value_len && !ops[r->op].value)
		return "value in an operation that does not use it";
	if (r->op == WIRE_HELLO && r->value_len != sizeof(struct wire_hello))
		return "HELLO of the wrong length";
	if (r->flags & WIRE_F_PULL && !r->value_len)
		return "pull of an empty value";
	if (r->access_count > (r->op == WIRE_HELLO ? 0 : WIRE_ACCESS_MAX))
		return "too many access records";
	if (r->op == WIRE_ACCESS && !r->access_count && !(r->flags & WIRE_F_GETS))
		return "nothing reported";
	return NULL;
}

/* Bytes of the value that follow. */
static uint32_t sent_len(const struct wire_request *r)
{
	return r->flags & WIRE_F_PULL ? 0 : r->value_len;
}

/* @body: key, value, GETs, access records. */
static void request_set(struct request *out, const struct wire_request *r, const uint8_t *body)
{
	uint32_t value_len = sent_len(r);
	const uint8_t *report = body + r->key_len + value_len;

	*out = (struct request){
		.op = r->op,
		.id = r->id,
		.key = r->key_len ? body : NULL,
		.key_len = r->key_len,
		.value = value_len ? body + r->key_len : NULL,
		.value_len = r->value_len,
		.arg32 = r->arg32,
		.flags = r->flags,
		.mode = r->mode,
		.arg64 = r->arg64,
		.arg_addr = r->arg_addr,
		.pull_rkey = r->pull_rkey,
		.ttl = r->ttl,
		.access_count = r->access_count,
		.change = number_of(r),
		.use = is_copy(r) ? r->use : 0,
	};
	if (r->flags & WIRE_F_GETS) {
		memcpy(&out->gets, report, sizeof(out->gets));
		report += sizeof(out->gets);
	}
	out->access = r->access_count ? report : NULL;
}

/* A GET in a batch begins with the value's first byte. */
static bool batched_has_arg64(const struct wire_request *r)
{
	return r->op != WIRE_GET && has_arg64(r);
}

static bool has_arg_addr(const struct wire_request *r)
{
	return r->flags & WIRE_F_CREATE && r->op == WIRE_ARITH;
}

static const char *check_request(const struct wire_request *r)
{
	const char *error = check_kind(r);

	if (!error)
		error = check_fields(r);
	if (!error && r->op == WIRE_PUT)
		error = check_priority(r);
	return error ? error : check_lengths(r);
}

/* Reads 8 bytes at *@at, if there are that many. */
static bool word_read(uint64_t *out, const uint8_t *bytes, size_t len, size_t *at)
{
	if (len - *at < sizeof(*out))
		return false;
	memcpy(out, bytes + *at, sizeof(*out));
	*at += sizeof(*out);
	return true;
}

/* Checks the header of the next request. Key and value start at *@at. */
static const char *batched_read(struct wire_request *r, const uint8_t *bytes, size_t len,
				size_t *at)
{
	struct wire_batched b;
	const char *error;

	if (*at > len || len - *at < sizeof(b))
		return "batched request shorter than its header";
	memcpy(&b, bytes + *at, sizeof(b));
	*at += sizeof(b);
	*r = (struct wire_request){
		.op = b.op,
		.mode = b.mode,
		.key_len = b.key_len,
		.value_len = b.value_len,
		.arg32 = b.arg32,
		.ttl = b.ttl,
		.flags = b.flags,
	};
	if (b.op > WIRE_OP_MAX || !ops[b.op].batched || b.flags & WIRE_F_GETS ||
	    ((b.op == WIRE_GET || b.op == WIRE_TOUCH) && b.flags) ||
	    (b.op == WIRE_GET && b.arg32) ||
	    (b.op == WIRE_PUT && (b.flags & WIRE_F_PULL || b.mode == WIRE_COPY)))
		return "operation that may not be in a batch";
	if ((batched_has_arg64(r) && !word_read(&r->arg64, bytes, len, at)) ||
	    (has_arg_addr(r) && !word_read(&r->arg_addr, bytes, len, at)))
		return "batched request longer than the message";
	error = check_request(r);
	if (!error && len - *at < (size_t)r->key_len + r->value_len)
		error = "batched request longer than the message";
	return error;
}

const char *wire_batched_parse(struct request *out, const void *requests, size_t len, size_t *at)
{
	struct wire_request r;
	const char *error = batched_read(&r, requests, len, at);

	if (error)
		return error;
	request_set(out, &r, (const uint8_t *)requests + *at);
	*at += (size_t)r.key_len + r.value_len;
	return NULL;
}

static struct wire_request batched_head(const struct request *request)
{
	return (struct wire_request){
		.op = (uint8_t)request->op,
		.mode = request->mode,
		.flags = (uint16_t)request->flags,
	};
}

size_t wire_batched_bytes(const struct request *request)
{
	const struct wire_request r = batched_head(request);

	return sizeof(struct wire_batched) + (batched_has_arg64(&r) ? sizeof(request->arg64) : 0) +
	       (has_arg_addr(&r) ? sizeof(request->arg_addr) : 0) + request->key_len +
	       request->value_len;
}

static uint8_t *bytes_add(uint8_t *to, const void *bytes, size_t len)
{
	if (len)
		memcpy(to, bytes, len);
	return to + len;
}

void wire_batched_write(const struct request *request, void *to)
{
	const struct wire_request r = batched_head(request);
	const struct wire_batched head = {
		.op = r.op,
		.mode = r.mode,
		.key_len = (uint16_t)request->key_len,
		.value_len = (uint16_t)request->value_len,
		.flags = r.flags,
		.arg32 = request->arg32,
		.ttl = request->ttl,
	};
	uint8_t *end = bytes_add(to, &head, sizeof(head));

	if (batched_has_arg64(&r))
		end = bytes_add(end, &request->arg64, sizeof(request->arg64));
	if (has_arg_addr(&r))
		end = bytes_add(end, &request->arg_addr, sizeof(request->arg_addr));
	end = bytes_add(end, request->key, request->key_len);
	bytes_add(end, request->value, request->value_len);
}

/* A message is refused before any of it is executed. */
static const char *check_batch(struct request *batch)
{
	struct wire_request r;
	const char *error;
	size_t at = 0;
	uint32_t i;

	if (!batch->count || batch->count > WIRE_BATCH_MAX)
		return "number of requests in a batch out of range";
	for (i = 0; i < batch->count; i++) {
		error = batched_read(&r, batch->value, batch->value_len, &at);
		if (error)
			return error;
		at += (size_t)r.key_len + r.value_len;
		batch->numbered += wire_batched_numbered((enum wire_op)r.op);
	}
	if (at != batch->value_len)
		return "batch longer than its requests";
	if (batch->change && !batch->numbered)
		return "a number in an operation that changes nothing";
	return NULL;
}

const char *wire_request_parse(struct request *out, const void *msg, size_t len)
{
	struct wire_request r;
	const char *error;

	if (len < sizeof(r))
		return "message shorter than its header";
	memcpy(&r, msg, sizeof(r));
	error = check_request(&r);
	if (error)
		return error;
	if (len - sizeof(r) !=
	    (uint64_t)r.key_len + sent_len(&r) + wire_report_bytes(r.flags, r.access_count))
		return "message length is not the sum of its parts";
	request_set(out, &r, (const uint8_t *)msg + sizeof(r));
	return r.op == WIRE_BATCH ? check_batch(out) : NULL;
}

const char *wire_response_parse(struct response *out, const void *msg, size_t len)
{
	struct wire_response r;

	if (len < sizeof(r))
		return "response shorter than its header";
	memcpy(&r, msg, sizeof(r));
	if (r.op < 1 || r.op > WIRE_OP_MAX || !status_known(r.status))
		return "response with an unknown operation or status";
	if (r.flags & ~(WIRE_R_REPEATED | WIRE_R_PINS) ||
	    (r.flags & WIRE_R_PINS && r.status != WIRE_BUSY))
		return "response with unknown flags";
	if (r.window > WIRE_WINDOW_MAX)
		return "response with a window out of range";
	if (len - sizeof(r) != r.value_len)
		return "response length does not match its value";
	*out = (struct response){
		.op = r.op,
		.status = r.status,
		.id = r.id,
		.flags = r.flags,
		.arg32 = r.arg32,
		.version = r.version,
		.slot = r.slot,
		.arg64 = r.arg64,
		.clock_ns = r.clock_ns,
		.expires = r.expires,
		.window = r.window,
		.tick = r.tick,
		.value = (const uint8_t *)msg + sizeof(r),
		.value_len = r.value_len,
	};
	return NULL;
}

const char *wire_result_parse(struct response *out, const void *results, size_t len, size_t *at)
{
	const uint8_t *bytes = results;
	struct wire_result r;
	uint32_t value_len;

	if (*at > len || len - *at < sizeof(r))
		return "result shorter than its header";
	memcpy(&r, bytes + *at, sizeof(r));
	*at += sizeof(r);
	if (r.op > WIRE_OP_MAX || !ops[r.op].batched || !status_known(r.status) ||
	    r.flags & ~(WIRE_R_REPEATED | WIRE_R_PINS))
		return "result with an unknown operation, status or flag";
	value_len = r.op == WIRE_GET && !r.status ? r.value_len : 0;
	if (len - *at < value_len)
		return "result longer than the message";
	*out = (struct response){
		.op = r.op,
		.status = r.status,
		.flags = r.flags,
		.version = r.version,
		.slot = r.slot,
		.expires = r.expires,
		.value = bytes + *at,
		.value_len = value_len,
	};
	if (r.op == WIRE_GET)
		out->item_flags = r.item_flags;
	out->result = r.op == WIRE_GET ? value_len : r.result;
	*at += value_len;
	return NULL;
}

const char *wire_entry_parse(struct scan_entry *out, const void *entries, size_t len, size_t *at)
{
	const uint8_t *body;
	struct wire_entry e;

	if (*at > len || len - *at < sizeof(e))
		return "entry shorter than its header";
	memcpy(&e, (const uint8_t *)entries + *at, sizeof(e));
	if (e.use > WIRE_USE_MAX || e.uses > (e.use == WIRE_USE_NORMAL ? WIRE_USES_MAX : 0) ||
	    e.age > (e.use == WIRE_USE_NORMAL || e.use == WIRE_USE_LOW ? WIRE_AGE_MAX : 0))
		return "entry whose use is out of range";
	if (e.key_len < 1 || e.key_len > KEY_MAX)
		return "entry whose key length is out of range";
	if (e.value_len > VALUE_MAX || (e.value_sent && e.value_sent != e.value_len))
		return "entry whose value length is out of range";
	if (len - *at - sizeof(e) < (uint64_t)e.key_len + e.value_sent)
		return "entry longer than the message";
	body = (const uint8_t *)entries + *at + sizeof(e);
	*out = (struct scan_entry){
		.key = body,
		.key_len = e.key_len,
		.value = e.value_sent == e.value_len ? body + e.key_len : NULL,
		.value_len = e.value_len,
		.item_flags = e.item_flags,
		.expires = e.expires,
		.version = e.version,
		.use = (enum wire_use)e.use,
		.uses = e.uses,
		.age = e.age,
	};
	*at += sizeof(e) + e.key_len + e.value_sent;
	return NULL;
}

static const char *geometry_check_segments(const struct geometry *g)
{
	uint64_t last = geometry_buckets(g) - 1, n;
	uint32_t segments = 1, i;

	for (n = last; n >> g->level_base; n >>= 1)
		segments++;
	if (segments > SEGMENTS_MAX)
		return "more index segments than SEGMENTS_MAX";
	for (i = 0; i < segments; i++) {
		uint64_t buckets = 1ull << (i ? g->level_base + i - 1 : g->level_base);

		if (g->segments[i] < sizeof(struct superblock) || g->segments[i] % BUCKET_BYTES)
			return "index segment misaligned or in the superblock";
		if (g->segments[i] > g->region_bytes ||
		    buckets > (g->region_bytes - g->segments[i]) / BUCKET_BYTES)
			return "index segment leaves the region";
	}
	return NULL;
}

const char *geometry_check(const struct geometry *g)
{
	if (geometry_sum(g) != g->sum)
		return "geometry's sum is wrong";
	if (g->region_bytes > REGION_BYTES_MAX ||
	    g->region_bytes < sizeof(struct superblock) + REGION_PAD)
		return "region size out of range";
	if (g->level > 32 || g->level_base > g->level || g->split >> g->level)
		return "index level out of range";
	if (g->value_max > VALUE_MAX)
		return "max_value out of range";
	return geometry_check_segments(g);
}
