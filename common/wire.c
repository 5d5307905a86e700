/* SPDX-License-Identifier: MIT */
/*
 * Messages are checked here, at the edge, and nowhere else: what these functions let through is
 * complete, in bounds and of a known kind. They read every byte of the message at most once.
 */
#include "common/wire.h"

#include "common/sum.h"

static const struct {
	const char *name;
	bool key;   /* has one, and must */
	bool value; /* may have one */
	bool line;  /* item_flags is used */
} ops[WIRE_OP_MAX + 1] = {
	[WIRE_HELLO] = { .name = "HELLO", .value = true },
	[WIRE_PING] = { .name = "PING" },
	[WIRE_GET] = { .name = "GET", .key = true },
	[WIRE_PUT] = { .name = "PUT", .key = true, .value = true, .line = true },
	[WIRE_DELETE] = { .name = "DELETE", .key = true },
	[WIRE_STATS] = { .name = "STATS", .line = true },
};

const char *wire_op_name(enum wire_op op)
{
	return op >= 1 && op <= WIRE_OP_MAX ? ops[op].name : "unknown";
}

static const char *request_check_kind(const struct wire_request *r)
{
	if (r->op < 1 || r->op > WIRE_OP_MAX)
		return "unknown operation";
	if (r->flags & ~WIRE_F_ALL || r->reserved)
		return "unknown flag or reserved field in use";
	if (r->flags & WIRE_F_PULL && r->op != WIRE_PUT)
		return "pull flag on something other than PUT";
	if (!(r->flags & WIRE_F_PULL) && (r->pull_addr || r->pull_rkey))
		return "pull address without pull flag";
	if (ops[r->op].key ? r->key_len < 1 || r->key_len > KEY_MAX : r->key_len)
		return "key length out of range";
	if (r->value_len && !ops[r->op].value)
		return "value where none belongs";
	if (r->flags & WIRE_F_PULL && !r->value_len)
		return "pull of an empty value";
	if (r->item_flags && !ops[r->op].line)
		return "flags where none belong";
	return NULL;
}

const char *wire_request_parse(struct request *out, const void *msg, size_t len)
{
	const uint8_t *body = (const uint8_t *)msg + sizeof(struct wire_request);
	struct wire_request r;
	const char *error;
	bool pull;

	if (len < sizeof(r))
		return "message shorter than its header";
	memcpy(&r, msg, sizeof(r));
	error = request_check_kind(&r);
	if (error)
		return error;
	pull = r.flags & WIRE_F_PULL;
	if (len - sizeof(r) != (uint64_t)r.key_len + (pull ? 0 : r.value_len))
		return "message length does not fit key and value";
	if (r.op == WIRE_HELLO && r.value_len != sizeof(struct wire_hello))
		return "HELLO of another length";
	*out = (struct request){
		.op = r.op,
		.id = r.id,
		.key = r.key_len ? body : NULL,
		.key_len = r.key_len,
		.value = pull || !r.value_len ? NULL : body + r.key_len,
		.value_len = r.value_len,
		.item_flags = r.item_flags,
		.pull = pull,
		.pull_addr = r.pull_addr,
		.pull_rkey = r.pull_rkey,
	};
	return NULL;
}

static bool status_known(uint8_t status)
{
	switch (status) {
	case WIRE_OK:
	case WIRE_NOT_FOUND:
	case WIRE_TOO_LARGE:
	case WIRE_NO_SPACE:
	case WIRE_PROTOCOL:
	case WIRE_BUSY:
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
		return "response of an unknown kind";
	copy = r.flags & WIRE_R_COPY;
	if (r.flags & ~WIRE_R_COPY || (copy && r.op != WIRE_GET))
		return "response with unknown flags";
	if (r.value_len > VALUE_MAX || len - sizeof(r) != (copy ? 0 : r.value_len))
		return "response length does not fit its value";
	*out = (struct response){
		.op = r.op,
		.status = r.status,
		.id = r.id,
		.flags = r.flags,
		.item_flags = r.item_flags,
		.version = r.version,
		.slot = r.slot,
		.seed = r.seed,
		.value = (const uint8_t *)msg + sizeof(r),
		.value_len = r.value_len,
	};
	return NULL;
}

static const char *geometry_check_segments(const struct geometry *g)
{
	uint64_t last = geometry_buckets(g) - 1, n;
	uint32_t segments = 1, i;

	for (n = last; n >> g->level_base; n >>= 1)
		segments++;
	if (segments > SEGMENTS_MAX)
		return "more index segments than there can be";
	for (i = 0; i < segments; i++) {
		uint64_t buckets = 1ull << (i ? g->level_base + i - 1 : g->level_base);

		if (g->segments[i] < sizeof(struct superblock) || g->segments[i] % BUCKET_BYTES)
			return "index segment misplaced";
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
