/* SPDX-License-Identifier: MIT */
/* What a server may send to a client. */
#include "common/wire.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *msg = exact_copy(data, size);
	struct response response;

	if (!wire_response_parse(&response, msg, size)) {
		must(response.op >= 1 && response.op <= WIRE_OP_MAX);
		must(response.value_len <= VALUE_MAX);
		must(!(response.flags & ~WIRE_R_COPY));
		if (!(response.flags & WIRE_R_COPY)) {
			must(response.value + response.value_len == msg + size);
			touch(response.value, response.value_len);
		}
	}
	free(msg);
	return 0;
}
