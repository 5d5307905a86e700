/* SPDX-License-Identifier: MIT */
/*
 * Builds and checks records: see record.h for the layout.
 *
 * The bytes come from a counter and a mixer of two multiplications. Words do not depend on each
 * other, so the processor works on several at once: a check runs at the speed of memory, much
 * faster than values arrive.
 */
#include "bench/record.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

struct header {
	uint32_t magic;
	uint16_t field_count;
	uint16_t has_lengths;
	uint64_t writer;
	uint64_t counter;
	uint64_t sum;
};

_Static_assert(sizeof(struct header) == RECORD_HEADER_SIZE, "the layout is documented");
_Static_assert(offsetof(struct header, sum) == 24, "the layout is documented");

static inline uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
	x = (x ^ x >> 32) * UINT64_C(0xa0761d6478bd642f);
	return x ^ x >> 32;
}

static inline uint64_t load64(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return le64toh(word);
}

static inline void store64(uint8_t *bytes, uint64_t word)
{
	word = htole64(word);
	memcpy(bytes, &word, sizeof(word));
}

/* The last @len < 8 bytes of a text, as the low bytes of a word. */
static inline uint64_t load_tail(const uint8_t *bytes, size_t len)
{
	uint64_t word = 0;

	memcpy(&word, bytes, len);
	return le64toh(word);
}

static uint64_t bytes_hash(uint64_t hash, const uint8_t *bytes, size_t len)
{
	for (hash = mix(hash + len); len >= 8; bytes += 8, len -= 8)
		hash = mix(hash ^ load64(bytes)) + GOLDEN;
	return len ? mix(hash ^ load_tail(bytes, len)) : hash;
}

/*
 * The sum for a header's first 24 bytes at @header, with @table_size bytes of lengths at @table, of
 * a record of @size bytes.
 */
static uint64_t header_sum(const uint8_t *header, const uint8_t *table, size_t table_size,
			   const void *key, size_t key_len, size_t size)
{
	uint64_t hash = bytes_hash(size, header, offsetof(struct header, sum));

	if (table_size)
		hash = bytes_hash(hash, table, table_size);
	return bytes_hash(hash, key, key_len);
}

/* One multiplication of 64 by 64 bits whose two halves are folded, as in wyrand. */
static inline uint64_t stream_word(uint64_t start, size_t index)
{
	const uint64_t x = start + index * GOLDEN;
	const unsigned __int128 product = (unsigned __int128)x * (x ^ UINT64_C(0xe7037ed1a0b428db));

	return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

static void stream_fill(uint8_t *bytes, size_t len, uint64_t start)
{
	size_t i, words = len / 8;
	uint64_t last;

	for (i = 0; i < words; i++)
		store64(bytes + 8 * i, stream_word(start, i));
	if (len % 8) {
		last = htole64(stream_word(start, words));
		memcpy(bytes + 8 * words, &last, len % 8);
	}
}

/* Returns 0 if the bytes are as stream_fill() writes them, else some bits that differ. */
static uint64_t stream_differs(const uint8_t *bytes, size_t len, uint64_t start)
{
	size_t i, words = len / 8;
	uint64_t differs = 0;

	for (i = 0; i < words; i++)
		differs |= load64(bytes + 8 * i) ^ stream_word(start, i);
	if (len % 8)
		differs |= load_tail(bytes + 8 * words, len % 8) ^
			   (stream_word(start, words) & ((UINT64_C(1) << len % 8 * 8) - 1));
	return differs;
}

/* Returns the place of the first byte that stream_fill() would not write. There is one. */
static size_t stream_find_fault(const uint8_t *bytes, size_t len, uint64_t start,
				struct record_fault *fault)
{
	size_t i;

	for (i = 0; i < len; i++) {
		fault->expected = (uint8_t)(stream_word(start, i / 8) >> i % 8 * 8);
		fault->got = bytes[i];
		if (fault->expected != fault->got)
			break;
	}
	return i;
}

size_t record_size(const struct record_shape *shape)
{
	size_t size = RECORD_HEADER_SIZE;
	uint32_t i;

	if (!shape->lengths)
		return size + (size_t)shape->field_count * shape->length;
	for (i = 0; i < shape->field_count; i++)
		size += sizeof(uint32_t) + shape->lengths[i];
	return size;
}

/* Writes the lengths of the fields if they vary. Returns how many bytes it wrote. */
static size_t table_fill(uint8_t *table, const struct record_shape *shape)
{
	uint32_t i, length;

	if (!shape->lengths)
		return 0;
	for (i = 0; i < shape->field_count; i++) {
		length = htole32(shape->lengths[i]);
		memcpy(table + i * sizeof(length), &length, sizeof(length));
	}
	return i * sizeof(length);
}

void record_build(void *record, const struct record_shape *shape,
		  const struct record_generation *generation, const void *key, size_t key_len)
{
	struct header header = {
		.magic = htole32(RECORD_MAGIC),
		.field_count = htole16((uint16_t)shape->field_count),
		.has_lengths = htole16(shape->lengths != NULL),
		.writer = htole64(generation->writer),
		.counter = htole64(generation->counter),
	};
	uint8_t *table = (uint8_t *)record + sizeof(header);
	const size_t table_size = table_fill(table, shape), size = record_size(shape);
	const uint64_t sum = header_sum((uint8_t *)&header, table, table_size, key, key_len, size);

	header.sum = htole64(sum);
	memcpy(record, &header, sizeof(header));
	stream_fill(table + table_size, size - sizeof(header) - table_size, sum);
}

static int fault_set(struct record_fault *fault, const char *what, size_t offset)
{
	fault->what = what;
	fault->offset = offset;
	return -EBADMSG;
}

/* The bytes of the table of lengths that follows @header. */
static size_t table_size_of(const struct header *header)
{
	return header->has_lengths ? le16toh(header->field_count) * sizeof(uint32_t) : 0;
}

/* Checks all but the fields, and leaves the header in *@header. */
static int header_check(const uint8_t *value, size_t len, const void *key, size_t key_len,
			struct header *header, struct record_fault *fault)
{
	if (len < sizeof(*header))
		return fault_set(fault, "shorter than a record's header", len);
	memcpy(header, value, sizeof(*header));
	if (le32toh(header->magic) != RECORD_MAGIC)
		return fault_set(fault, "not a record of kvbench", 0);
	fault->generation.writer = le64toh(header->writer);
	fault->generation.counter = le64toh(header->counter);
	if (len < sizeof(*header) + table_size_of(header) ||
	    le64toh(header->sum) != header_sum(value, value + sizeof(*header),
					       table_size_of(header), key, key_len, len))
		return fault_set(fault, "the header does not fit its sum, the key and the length",
				 offsetof(struct header, sum));
	return 0;
}

/* Which field the byte at @offset of the fields is in. */
static int field_at(const uint8_t *value, size_t len, const struct header *header, size_t offset)
{
	const uint32_t count = le16toh(header->field_count);
	const uint8_t *table = value + sizeof(*header);
	uint32_t i, length;

	if (!header->has_lengths)
		return (int)(offset * count / (len - sizeof(*header)));
	for (i = 0; i < count; i++, offset -= length) {
		memcpy(&length, table + i * sizeof(length), sizeof(length));
		length = le32toh(length);
		if (offset < length)
			break;
	}
	return (int)i;
}

int record_check(const void *value, size_t len, const void *key, size_t key_len,
		 struct record_fault *fault)
{
	const uint8_t *fields;
	struct header header;
	size_t size, at;
	int error;

	*fault = (struct record_fault){ .field = -1 };
	error = header_check(value, len, key, key_len, &header, fault);
	if (error)
		return error;
	fields = (const uint8_t *)value + sizeof(header) + table_size_of(&header);
	size = len - sizeof(header) - table_size_of(&header);
	if (__builtin_expect(!stream_differs(fields, size, le64toh(header.sum)), 1))
		return 0;
	at = stream_find_fault(fields, size, le64toh(header.sum), fault);
	fault->field = field_at(value, len, &header, at);
	return fault_set(fault, "the fields are not those of the header",
			 (size_t)(fields - (const uint8_t *)value) + at);
}
