/* SPDX-License-Identifier: MIT */
/*
 * Ranges that the clients of sys_history.c read. The checker of histories knows that a range's
 * version and length are right; here its bytes are compared with the value that was stored with
 * that version, which is made again from its serial number. Of the result of APPEND or PREPEND, or
 * of a change whose end is unknown, nothing is known.
 */
#include <stdlib.h>
#include <string.h>

#include "common/layout.h"
#include "common/util/splitmix.h"
#include "tests/system/sys_history.h"

#define OFFSET_MAX (200u << 10)
#define SHORT_BYTES 120u

void unique_fill(uint8_t *to, size_t len, uint64_t serial, unsigned int number)
{
	uint64_t state = serial * CLIENTS + number, word;
	size_t at;

	memcpy(to, &serial, 8);
	memcpy(to + 8, &number, 4);
	for (at = 12; at < len; at += 8) {
		word = splitmix_next(&state);
		memcpy(to + at, &word, len - at < 8 ? len - at : 8);
	}
}

/* Anywhere, or at an end of a piece: in a short value, in a long one, or after it. */
static size_t random_end(struct client *c)
{
	uint64_t r = client_random(c);

	if (r % 4 == 0)
		return (r >> 8) % SHORT_BYTES;
	if (r % 4 == 1)
		return (1 + (r >> 8) % 3) * PIECE_BYTES - 1 + (r >> 16) % 3;
	return (r >> 8) % OFFSET_MAX;
}

void range_prep(struct client *c, struct kvd_op *op, const uint8_t *key, uint8_t *value)
{
	size_t one = random_end(c), other = random_end(c);
	size_t offset = one < other ? one : other;

	c->counts.ranges++;
	kvd_prep_get_range(op, key, KEY_BYTES, offset, value, one + other - 2 * offset);
}

enum kvd_status range_call(struct client *c, struct kvd_op *op)
{
	struct kvd_range range = { .key = op->key,
				   .key_len = op->key_len,
				   .offset = op->offset,
				   .value = op->value,
				   .value_size = op->value_len };
	enum kvd_status status;

	if (client_random(c) % 2)
		return kvd_get_range(c->kvd, op->key, op->key_len, op->offset, op->value,
				     op->value_len, &op->item);
	status = kvd_get_ranges(c->kvd, &range, 1);
	op->item = range.item;
	return status ? status : range.status;
}

/* A number has fewer bytes, and a piece does not make the value. */
void range_note_call(struct client *c, const struct kvd_op *op, int64_t index)
{
	struct made *made = &c->made[c->made_count];

	if (index < 0 || c->made_count == MADE_MAX || op->op != KVD_OP_PUT || op->value_len < 16 ||
	    op->mode == KVD_PUT_APPEND || op->mode == KVD_PUT_PREPEND)
		return;
	c->made_count++;
	made->index = index;
	memcpy(&made->serial, op->value, sizeof(made->serial));
}

/* How many of @len bytes a range has from @offset on, in a buffer of @size bytes. */
static size_t range_bytes(size_t len, size_t offset, size_t size)
{
	size_t left = offset < len ? len - offset : 0;

	return size < left ? size : left;
}

void range_note_return(struct client *c, const struct kvd_op *op, int64_t index)
{
	struct ranged *ranged = &c->ranged[c->ranged_count];

	if (op->op != KVD_OP_GET_RANGE || op->status || c->ranged_count == RANGED_MAX)
		return;
	ranged->index = index;
	ranged->offset = op->offset;
	ranged->bytes = lin_value(op->value,
				  range_bytes(op->item.value_len, op->offset, op->value_len));
	c->ranged_count += ranged->bytes.len > 0;
}

/* A range of another length is wrong already. */
static const struct made *made_find(const struct client *c, const struct lin_op *range)
{
	for (unsigned int i = 0; i < c->made_count; i++) {
		const struct lin_op *op = &c->log.ops[c->made[i].index];

		if (op->status == LIN_OK && op->key == range->key &&
		    op->version == range->version && op->value.len == range->value.len)
			return &c->made[i];
	}
	return NULL;
}

void ranges_judge(struct client *reader, const struct client *c)
{
	for (unsigned int i = 0; i < reader->ranged_count; i++) {
		const struct ranged *ranged = &reader->ranged[i];
		const struct lin_op *op = &reader->log.ops[ranged->index];
		const struct made *made = made_find(c, op);
		struct lin_value want;

		if (!made)
			continue;
		unique_fill(reader->value, op->value.len, made->serial, c->number);
		want = lin_value(reader->value + ranged->offset, ranged->bytes.len);
		reader->counts.ranges_judged++;
		reader->counts.ranges_long += op->value.len > PIECE_BYTES;
		if (!lin_same(&want, &ranged->bytes))
			wrong("a range has bytes of another value", op->key, op->version,
			      ranged->offset);
	}
}
