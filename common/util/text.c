/* SPDX-License-Identifier: MIT */
/* Text of peers: see text.h. */
#include "common/util/text.h"

#include <stdbool.h>

/* RFC 3629: the shortest form, no surrogates. */
size_t utf8_len(const uint8_t *p, size_t len)
{
	static const struct {
		uint8_t first_min, first_max, second_min, second_max, len;
	} forms[] = {
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	if (p[0] < 0x80)
		return 1;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (p[0] < forms[i].first_min || p[0] > forms[i].first_max)
			continue;
		if (len < forms[i].len || p[1] < forms[i].second_min || p[1] > forms[i].second_max)
			return 0;
		for (size_t j = 2; j < forms[i].len; j++)
			if (p[j] < 0x80 || p[j] > 0xbf)
				return 0;
		return forms[i].len;
	}
	return 0;
}

size_t plain_len(const uint8_t *p, size_t len)
{
	const size_t n = utf8_len(p, len);
	const bool is_c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0;

	return *p < 0x20 || *p == 0x7f || is_c1 ? 0 : n;
}

void text_mask(char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		n = plain_len((const uint8_t *)text + i, len - i);
		if (!n)
			text[i] = '?';
	}
}
