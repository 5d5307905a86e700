/* SPDX-License-Identifier: MIT */
/* Keys in base64: see base64.h. */
#include "server/memcached/base64.h"

/* The 6 bits of a digit; more: it is none. */
static uint32_t digit_of(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26u;
	if (c >= '0' && c <= '9')
		return c - '0' + 52u;
	return c == '+' ? 62 : c == '/' ? 63 : 64;
}

size_t base64_decode(uint8_t *bytes, const uint8_t *text, size_t len)
{
	size_t pad = 0, written = 0;

	if (!len || len % 4)
		return 0;
	while (pad < 2 && text[len - pad - 1] == '=')
		pad++;
	for (size_t i = 0; i < len; i += 4) {
		uint32_t group = 0;

		for (size_t j = i; j < i + 4; j++) {
			uint32_t digit = j < len - pad ? digit_of(text[j]) : 0;

			if (digit > 63)
				return 0;
			group = group << 6 | digit;
		}
		bytes[written++] = (uint8_t)(group >> 16);
		bytes[written++] = (uint8_t)(group >> 8);
		bytes[written++] = (uint8_t)group;
	}
	return written - pad;
}
