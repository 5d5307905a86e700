/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of wire_request_parse(): an accepted message from a client is complete and in bounds.
 */
#include "common/wire.h"
#include "tests/fuzz/fuzz.h"

static void read_batch(const struct request *batch)
{
	struct request request;
	size_t at = 0;

	must(batch->count >= 1 && batch->count <= WIRE_BATCH_MAX);
	for (uint32_t i = 0; i < batch->count; i++) {
		size_t before = at;

		must(!wire_batched_parse(&request, batch->value, batch->value_len, &at));
		must(at - before == wire_batched_bytes(&request) && at <= batch->value_len);
		must(request.op >= WIRE_PING && request.op <= WIRE_TOUCH);
		must(!(request.flags & WIRE_F_PULL) && !request.access_count);
		must((request.op != WIRE_GET && request.op != WIRE_TOUCH) || !request.flags);
		must(request.op != WIRE_GET || !request.offset);
		must(!request.key == !request.key_len && request.key_len <= KEY_MAX);
		if (request.key)
			touch(request.key, request.key_len);
		if (request.value)
			touch(request.value, request.value_len);
	}
	must(at == batch->value_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *msg = exact_copy(data, size);
	struct request request;

	if (!wire_request_parse(&request, msg, size)) {
		must(request.op >= 1 && request.op <= WIRE_OP_MAX);
		must(!request.key == !request.key_len && request.key_len <= KEY_MAX);
		must(!request.access == !request.access_count);
		must(request.access_count <= WIRE_ACCESS_MAX && request.ttl <= WIRE_TTL_MAX);
		if (request.key)
			touch(request.key, request.key_len);
		if (request.value) {
			must(!(request.flags & WIRE_F_PULL) && request.value_len);
			must(request.value + request.value_len + request_report_bytes(&request) ==
			     msg + size);
			touch(request.value, request.value_len);
		}
		if (request.op == WIRE_BATCH)
			read_batch(&request);
		if (request.access)
			touch(request.access, request.access_count * WIRE_ACCESS_BYTES);
		must(!(request.flags & WIRE_F_PULL) ||
		     (request.op == WIRE_PUT && request.value_len));
		must(request.op != WIRE_HELLO || request.value_len == sizeof(struct wire_hello));
		must(request.op != WIRE_ACCESS || request_report_bytes(&request));
		must(request.op != WIRE_GET || !request.flags || !request.offset);
		if (request.op == WIRE_PUT && request.mode == WIRE_COPY)
			must(request.version && !request.change &&
			     !(request.flags & WIRE_F_RESUME));
		else
			must(!request.use);
		must(!request.change || (request.op != WIRE_HELLO && request.op != WIRE_STATS &&
					 request.op != WIRE_SCAN && request.op != WIRE_ACCESS &&
					 request.op != WIRE_GET));
	}
	free(msg);
	return 0;
}
