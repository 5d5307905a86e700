/* SPDX-License-Identifier: MIT */
/* Patterns of keys: see glob.h. */
#include "client/kvctl/glob.h"

/*
 * The class whose [ is at @at. Returns where the pattern goes on, and sets *@is_in; 0: it has no
 * end.
 */
static size_t class_match(const uint8_t *pattern, size_t len, size_t at, uint8_t byte, bool *is_in)
{
	size_t i = at + 1, first;
	bool negated = i < len && (pattern[i] == '!' || pattern[i] == '^'), found = false;

	i += negated;
	for (first = i; i < len && (pattern[i] != ']' || i == first); i++) {
		uint8_t low, high;

		if (pattern[i] == '\\' && i + 1 < len)
			i++;
		low = high = pattern[i];
		if (i + 2 < len && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
			i += 2;
			if (pattern[i] == '\\' && i + 1 < len)
				i++;
			high = pattern[i];
		}
		found |= low <= byte && byte <= high;
	}
	*is_in = found != negated;
	return i < len ? i + 1 : 0;
}

/* Whether one byte matches the element at *@at, which is no `*`; moves *@at past it. */
static bool byte_matches(const uint8_t *pattern, size_t len, size_t *at, uint8_t byte)
{
	size_t behind;
	bool is_in;

	switch (pattern[*at]) {
	case '?':
		++*at;
		return true;
	case '[':
		behind = class_match(pattern, len, *at, byte, &is_in);
		if (!behind)
			break;
		*at = behind;
		return is_in;
	case '\\':
		*at += *at + 1 < len;
		break;
	}
	return pattern[(*at)++] == byte;
}

/* After a mismatch the last `*` takes one byte more. */
bool glob_matches(const uint8_t *pattern, size_t pattern_len, const uint8_t *key, size_t key_len)
{
	size_t p = 0, k = 0, star = SIZE_MAX, star_key = 0;

	while (k < key_len) {
		if (p < pattern_len && pattern[p] == '*') {
			star = ++p;
			star_key = k;
		} else if (p < pattern_len && byte_matches(pattern, pattern_len, &p, key[k])) {
			k++;
		} else if (star != SIZE_MAX) {
			p = star;
			k = ++star_key;
		} else {
			return false;
		}
	}
	while (p < pattern_len && pattern[p] == '*')
		p++;
	return p == pattern_len;
}
