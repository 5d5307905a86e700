/* SPDX-License-Identifier: MIT */
/* Fuzz target of wire_response_parse() and, for a SCAN, wire_entry_parse(): all is in bounds. */
#include "common/wire.h"
#include "tests/fuzz/fuzz.h"

static void read_entries(const struct response *response)
{
	struct scan_entry entry;
	size_t at = 0, before = 0;

	while (!wire_entry_parse(&entry, response->value, response->value_len, &at)) {
		must(at > before && at <= response->value_len);
		must(entry.key_len >= 1 && entry.key_len <= KEY_MAX);
		must(entry.key + entry.key_len <= response->value + at);
		touch(entry.key, entry.key_len);
		if (entry.value) {
			must(entry.value + entry.value_len == response->value + at);
			touch(entry.value, entry.value_len);
		}
		before = at;
	}
	must(at == before);
}

static void read_results(const struct response *response)
{
	struct response result;
	size_t at = 0, before = 0;

	while (!wire_result_parse(&result, response->value, response->value_len, &at)) {
		must(at - before == sizeof(struct wire_result) + result.value_len);
		must(result.value + result.value_len == response->value + at);
		must(at <= response->value_len);
		touch(result.value, result.value_len);
		before = at;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *msg = exact_copy(data, size);
	struct response response;

	if (!wire_response_parse(&response, msg, size)) {
		must(response.op >= 1 && response.op <= WIRE_OP_MAX);
		must(!(response.flags & ~(WIRE_R_REPEATED | WIRE_R_PINS)));
		must(response.value + response.value_len == msg + size);
		touch(response.value, response.value_len);
		if (response.op == WIRE_SCAN)
			read_entries(&response);
		if (response.op == WIRE_BATCH)
			read_results(&response);
	}
	free(msg);
	return 0;
}
