/* SPDX-License-Identifier: MIT */
/* Sums of values that are longer than a piece, or that come bit by bit: hashes each piece alone. */
#include "common/sum.h"

enum { STATE_PIECE, STATE_ALL };

static_assert(sizeof(XXH3_state_t) % VALUE_SUM_ALIGN == 0, "both states are aligned");

static XXH3_state_t *state_of(struct value_sum *sum, unsigned int which)
{
	uintptr_t at = (uintptr_t)sum->states;

	return (XXH3_state_t *)(sum->states +
				(VALUE_SUM_ALIGN - at % VALUE_SUM_ALIGN) % VALUE_SUM_ALIGN) +
	       which;
}

static void state_reset(struct value_sum *sum, unsigned int which)
{
	XXH3_64bits_reset_withSecret(state_of(sum, which), sum->key->secret,
				     sizeof(sum->key->secret));
}

void value_sum_begin(struct value_sum *sum, const struct sum_key *key)
{
	sum->key = key;
	sum->piece_sums = NULL;
	sum->bytes = 0;
	sum->pieces = false;
	state_reset(sum, STATE_PIECE);
}

/* The value has more than one piece, of which the first, or the next, has been hashed. */
static void piece_end(struct value_sum *sum)
{
	uint64_t piece = XXH3_64bits_digest(state_of(sum, STATE_PIECE));

	if (!sum->pieces)
		state_reset(sum, STATE_ALL);
	sum->pieces = true;
	sum_long_add(state_of(sum, STATE_ALL), &piece, sizeof(piece));
	if (!sum->piece_sums)
		return;
	memcpy(sum->piece_sums, &piece, sizeof(piece));
	sum->piece_sums += sizeof(piece);
}

void value_sum_add(struct value_sum *sum, const void *bytes, size_t count)
{
	const uint8_t *from = bytes;
	size_t part;

	for (; count; from += part, count -= part) {
		/* Only now: the last piece may be the only one. */
		if (sum->bytes == PIECE_BYTES) {
			piece_end(sum);
			state_reset(sum, STATE_PIECE);
			sum->bytes = 0;
		}
		part = PIECE_BYTES - sum->bytes;
		if (part > count)
			part = count;
		sum_long_add(state_of(sum, STATE_PIECE), from, part);
		sum->bytes += (uint32_t)part;
	}
}

uint64_t value_sum_end(struct value_sum *sum)
{
	if (!sum->pieces)
		return XXH3_64bits_digest(state_of(sum, STATE_PIECE));
	piece_end(sum);
	return XXH3_64bits_digest(state_of(sum, STATE_ALL));
}

static uint64_t piece_sum(const struct item *item, const struct sum_key *key, uint64_t at)
{
	uint64_t left = item_value_len(item) - at;

	return sum_bytes(key, item_value(item) + at, left < PIECE_BYTES ? left : PIECE_BYTES);
}

uint64_t piece_sums_make(struct item *item, const struct sum_key *key)
{
	uint8_t *to = item_piece_sums(item);
	uint64_t at, sum;

	for (at = 0; at < item_value_len(item); at += PIECE_BYTES, to += sizeof(sum)) {
		sum = piece_sum(item, key, at);
		memcpy(to, &sum, sizeof(sum));
	}
	return sum_bytes(key, item_piece_sums(item), piece_sums_bytes(item_value_len(item)));
}

bool piece_sums_verify(const struct item *item, const struct sum_key *key)
{
	const uint8_t *from = item_piece_sums(item);
	uint64_t at, sum;

	if (sum_bytes(key, from, piece_sums_bytes(item_value_len(item))) !=
	    item_long(item)->value_sum)
		return false;
	for (at = 0; at < item_value_len(item); at += PIECE_BYTES, from += sizeof(sum)) {
		sum = piece_sum(item, key, at);
		if (memcmp(from, &sum, sizeof(sum)) != 0)
			return false;
	}
	return true;
}
