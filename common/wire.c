/* SPDX-License-Identifier: MIT */
/*
 * The parsers of messages: the one place where what a peer sent is checked. What they accept is
 * complete, in bounds, of a known operation, and uses no field that its operation does not have.
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
	uint16_t flags; /* all it may have */
	uint8_t modes;	/* its largest mode */
} ops[WIRE_OP_MAX + 1] = {
	[WIRE_HELLO] = { .name = "HELLO", .value = true },
	[WIRE_PING] = { .name = "PING" },
	[WIRE_GET] = { .name = "GET", .key = KEY_MUST, .flags = WIRE_F_TOUCH },
	[WIRE_PUT] = { .name = "PUT",
		       .key = KEY_MUST,
		       .value = true,
		       .flags = WIRE_F_PULL | WIRE_F_PIN | WIRE_F_LOW,
		       .modes = WIRE_PUT_MAX },
	[WIRE_DELETE] = { .name = "DELETE", .key = KEY_MUST, .flags = WIRE_F_IF_VERSION },
	[WIRE_STATS] = { .name = "STATS" },
	[WIRE_ARITH] = { .name = "ARITH",
			 .key = KEY_MUST,
			 .flags = WIRE_F_CREATE,
			 .modes = WIRE_DECR },
	[WIRE_TOUCH] = { .name = "TOUCH", .key = KEY_MUST },
	[WIRE_SCAN] = { .name = "SCAN", .key = KEY_MAY, .flags = WIRE_F_VALUES },
	[WIRE_FLUSH] = { .name = "FLUSH" },
	[WIRE_ACCESS] = { .name = "ACCESS" },
	[WIRE_CLIENTS] = { .name = "CLIENTS" },
	[WIRE_KILL] = { .name = "KILL" },
};

const char *wire_op_name(enum wire_op op)
{
	return op >= 1 && op <= WIRE_OP_MAX ? ops[op].name : "unknown";
}

void wire_abi_text(char text[WIRE_REJECT_TEXT_BYTES], uint32_t client_abi, uint32_t server_abi)
{
	snprintf(text, WIRE_REJECT_TEXT_BYTES,
		 "the client has protocol version %u and the server %u: update the %s", client_abi,
		 server_abi, client_abi < server_abi ? "client" : "server");
}

/* Whether it may create an item, and so has item flags and a time to live. */
static bool makes_item(const struct wire_request *r)
{
	if (r->op == WIRE_PUT)
		return r->mode != WIRE_APPEND && r->mode != WIRE_PREPEND;
	return r->op == WIRE_ARITH && r->flags & WIRE_F_CREATE;
}

static bool has_arg64(const struct wire_request *r)
{
	switch ((enum wire_op)r->op) {
	case WIRE_PUT:
		return r->mode == WIRE_CAS || r->flags & WIRE_F_PIN;
	case WIRE_DELETE:
		return r->flags & WIRE_F_IF_VERSION;
	case WIRE_ARITH:
	case WIRE_SCAN:
	case WIRE_FLUSH:
	case WIRE_CLIENTS:
	case WIRE_KILL:
		return true;
	default:
		return false;
	}
}

static bool has_ttl(const struct wire_request *r)
{
	return makes_item(r) || r->op == WIRE_TOUCH || (r->op == WIRE_GET && r->flags) ||
	       (r->op == WIRE_FLUSH && !r->ticket);
}

/* What changes the store; and PING, in place of a change that its client gave up. */
static bool may_be_numbered(const struct wire_request *r)
{
	switch ((enum wire_op)r->op) {
	case WIRE_PUT:
	case WIRE_DELETE:
	case WIRE_ARITH:
	case WIRE_TOUCH:
	case WIRE_PING:
		return true;
	case WIRE_GET:
		return r->flags & WIRE_F_TOUCH;
	case WIRE_FLUSH:
		return !r->ticket;
	default:
		return false;
	}
}

static const char *check_kind(const struct wire_request *r)
{
	if (r->op < 1 || r->op > WIRE_OP_MAX)
		return "unknown operation";
	if (r->flags & ~ops[r->op].flags)
		return "unknown flag";
	if (r->mode > ops[r->op].modes)
		return "mode out of range";
	return NULL;
}

static const char *check_priority(const struct wire_request *r)
{
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

static const char *check_fields(const struct wire_request *r)
{
	if (r->arg64 && !has_arg64(r))
		return "arg64 in an operation that does not use it";
	if (r->pull_rkey && !(r->flags & WIRE_F_PULL))
		return "pull_rkey in an operation that does not use it";
	if (r->arg_addr && !(r->flags & (WIRE_F_PULL | WIRE_F_CREATE)))
		return "arg_addr in an operation that does not use it";
	if (r->ttl && !has_ttl(r))
		return "ttl in an operation that does not use it";
	if (r->ttl > WIRE_TTL_MAX)
		return "time to live out of range";
	if (r->change && !may_be_numbered(r))
		return "a number in an operation that changes nothing";
	if (r->arg32 && !makes_item(r) && r->op != WIRE_STATS && r->op != WIRE_SCAN)
		return "arg32 in an operation that does not use it";
	return NULL;
}

static const char *check_lengths(const struct wire_request *r)
{
	enum key_use key = ops[r->op].key;

	if (key == KEY_NONE ? r->key_len : r->key_len > KEY_MAX || (key == KEY_MUST && !r->key_len))
		return "key length out of range";
	if (r->value_len && !ops[r->op].value)
		return "value in an operation that does not use it";
	if (r->op == WIRE_HELLO && r->value_len != sizeof(struct wire_hello))
		return "HELLO of the wrong length";
	if (r->flags & WIRE_F_PULL && !r->value_len)
		return "pull of an empty value";
	if (r->access_count > (r->op == WIRE_HELLO ? 0 : WIRE_ACCESS_MAX))
		return "too many access records";
	if (r->op == WIRE_ACCESS && !r->access_count)
		return "no access records";
	return NULL;
}

const char *wire_request_parse(struct request *out, const void *msg, size_t len)
{
	const uint8_t *body = (const uint8_t *)msg + sizeof(struct wire_request);
	struct wire_request r;
	uint32_t sent_len;
	const char *error;

	if (len < sizeof(r))
		return "message shorter than its header";
	memcpy(&r, msg, sizeof(r));
	error = check_kind(&r);
	if (!error)
		error = check_fields(&r);
	if (!error && r.op == WIRE_PUT)
		error = check_priority(&r);
	if (!error)
		error = check_lengths(&r);
	if (error)
		return error;
	sent_len = r.flags & WIRE_F_PULL ? 0 : r.value_len;
	if (len - sizeof(r) !=
	    (uint64_t)r.key_len + sent_len + (uint64_t)r.access_count * WIRE_ACCESS_BYTES)
		return "message length is not the sum of its parts";
	*out = (struct request){
		.op = r.op,
		.id = r.id,
		.key = r.key_len ? body : NULL,
		.key_len = r.key_len,
		.value = sent_len ? body + r.key_len : NULL,
		.value_len = r.value_len,
		.arg32 = r.arg32,
		.flags = r.flags,
		.mode = r.mode,
		.arg64 = r.arg64,
		.arg_addr = r.arg_addr,
		.pull_rkey = r.pull_rkey,
		.ttl = r.ttl,
		.access = r.access_count ? body + r.key_len + sent_len : NULL,
		.access_count = r.access_count,
		.change = r.change,
	};
	return NULL;
}

static bool status_known(uint8_t status)
{
	switch (status) {
	case WIRE_OK:
	case WIRE_NOT_FOUND:
	case WIRE_INVALID:
	case WIRE_TOO_LARGE:
	case WIRE_NO_SPACE:
	case WIRE_PROTOCOL:
	case WIRE_BUSY:
	case WIRE_EXISTS:
	case WIRE_NOT_A_NUMBER:
	case WIRE_UNKNOWN:
		return true;
	}
	return false;
}

const char *wire_response_parse(struct response *out, const void *msg, size_t len)
{
	struct wire_response r;
	bool copy;

	if (len < sizeof(r))
		return "response shorter than its header";
	memcpy(&r, msg, sizeof(r));
	if (r.op < 1 || r.op > WIRE_OP_MAX || !status_known(r.status))
		return "response with an unknown operation or status";
	copy = r.flags & WIRE_R_COPY;
	if (r.flags & ~(WIRE_R_COPY | WIRE_R_REPEATED | WIRE_R_PINS) ||
	    (copy && r.op != WIRE_GET) || (r.flags & WIRE_R_PINS && r.status != WIRE_BUSY) ||
	    r.reserved)
		return "response with unknown flags";
	if (copy && r.flags & WIRE_R_REPEATED)
		return "response of an answer that was recorded, with a copy";
	if (r.window > WIRE_WINDOW_MAX)
		return "response with a window out of range";
	if (r.value_len > VALUE_MAX || len - sizeof(r) != (copy ? 0 : r.value_len))
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
		.value = (const uint8_t *)msg + sizeof(r),
		.value_len = r.value_len,
	};
	return NULL;
}

const char *wire_entry_parse(struct scan_entry *out, const void *entries, size_t len, size_t *at)
{
	const uint8_t *body;
	struct wire_entry e;

	if (*at > len || len - *at < sizeof(e))
		return "entry shorter than its header";
	memcpy(&e, (const uint8_t *)entries + *at, sizeof(e));
	if (e.reserved || e.reserved2)
		return "entry with a reserved field that is not 0";
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
