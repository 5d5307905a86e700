/* SPDX-License-Identifier: MIT */
/*
 * The linearizability checker's values, which stand for the bytes of an item, and its recorder of
 * operations. The search is in lin_search.c.
 */
#include "tests/linearizability/lin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define PRIME ((UINT64_C(1) << 61) - 1)
#define NUMBER_DIGITS_MAX 20
#define LOG_ROOM_MIN 1024

/* Values */

static uint64_t mul(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;
	uint64_t r = (uint64_t)(p & PRIME) + (uint64_t)(p >> 61);

	return r >= PRIME ? r - PRIME : r;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t r = a + b;

	return r >= PRIME ? r - PRIME : r;
}

static uint64_t power(uint64_t base, uint32_t exponent)
{
	uint64_t r = 1;

	for (; exponent; exponent >>= 1, base = mul(base, base))
		if (exponent & 1)
			r = mul(r, base);
	return r;
}

/* Appends @digit to the number, or makes it no number. */
static void number_push(struct lin_value *value, unsigned int digit)
{
	if (value->is_number && digit <= 9 &&
	    !__builtin_mul_overflow(value->number, 10, &value->number) &&
	    !__builtin_add_overflow(value->number, digit, &value->number))
		return;
	value->is_number = false;
	value->number = 0;
}

struct lin_value lin_value(const void *bytes, size_t len)
{
	const uint8_t *b = bytes;
	struct lin_value value = { .len = (uint32_t)len,
				   .is_number = len > 0 && len <= NUMBER_DIGITS_MAX };
	size_t i;

	for (i = 0; i < len; i++) {
		value.hash = add(mul(value.hash, LIN_BASE), b[i] + UINT64_C(1));
		number_push(&value, b[i] - (unsigned int)'0');
	}
	return value;
}

struct lin_value lin_number(uint64_t number)
{
	char text[NUMBER_DIGITS_MAX + 1];
	int len = snprintf(text, sizeof(text), "%" PRIu64, number);

	return lin_value(text, (size_t)len);
}

struct lin_value lin_append(struct lin_value old, struct lin_value piece)
{
	struct lin_value value = { .len = old.len + piece.len };
	uint64_t shifted = old.number;
	uint32_t i;

	value.hash = add(mul(old.hash, power(LIN_BASE, piece.len)), piece.hash);
	if (!old.len || !piece.len) {
		value.is_number = old.len ? old.is_number : piece.is_number;
		value.number = old.len ? old.number : piece.number;
		return value;
	}
	if (!old.is_number || !piece.is_number || value.len > NUMBER_DIGITS_MAX)
		return value;
	for (i = 0; i < piece.len; i++)
		if (__builtin_mul_overflow(shifted, 10, &shifted))
			return value;
	value.is_number = !__builtin_add_overflow(shifted, piece.number, &value.number);
	if (!value.is_number)
		value.number = 0;
	return value;
}

struct lin_value lin_prepend(struct lin_value old, struct lin_value piece)
{
	return lin_append(piece, old);
}

bool lin_same(const struct lin_value *a, const struct lin_value *b)
{
	return a->hash == b->hash && a->len == b->len;
}

/* The recorder */

void lin_log_init(struct lin_log *log, uint16_t client)
{
	*log = (struct lin_log){ .client = client };
}

void lin_log_release(struct lin_log *log)
{
	free(log->ops);
	*log = (struct lin_log){ .client = log->client };
}

int64_t lin_call(struct lin_log *log, const struct lin_op *op)
{
	size_t room = log->room ? log->room * 2 : LOG_ROOM_MIN;
	struct lin_op *ops;

	if (log->count == log->room) {
		ops = reallocarray(log->ops, room, sizeof(*ops));
		if (!ops) {
			log->failed = true;
			return -ENOMEM;
		}
		log->ops = ops;
		log->room = room;
	}
	log->ops[log->count] = *op;
	log->ops[log->count].client = log->client;
	log->ops[log->count].status = LIN_UNKNOWN;
	log->ops[log->count].return_ns = LIN_NEVER;
	log->ops[log->count].version = 0;
	return (int64_t)log->count++;
}

void lin_return(struct lin_log *log, int64_t index, uint64_t now_ns, enum lin_status status,
		uint64_t version, const struct lin_value *value)
{
	struct lin_op *op;

	if (index < 0 || status == LIN_UNKNOWN)
		return;
	op = &log->ops[index];
	op->return_ns = now_ns;
	op->status = (uint8_t)status;
	op->version = version;
	if (value)
		op->value = *value;
}
