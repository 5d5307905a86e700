/* SPDX-License-Identifier: MIT */
/*
 * A record: the one kvd value that holds all fields of a YCSB record, made so that a reader can
 * tell every byte of it from the key and the record's first bytes alone.
 *
 *	offset	bytes
 *	0	4	magic, "kvr1"
 *	4	2	number of fields
 *	6	2	0: all fields are equally long; 1: their lengths follow the header
 *	8	8	writer: a random number of the thread that built it
 *	16	8	counter: of that writer's records
 *	24	8	sum over the above, the key, the fields' lengths and the length of the record
 *	32	4 each	the fields' lengths, if the number at 6 is 1
 *	...		the fields, one behind the other
 *
 * Integers are little-endian. Writer and counter are the record's generation: no two records ever
 * written have the same. The fields are one stream of pseudo-random bytes that starts from the sum,
 * so that each byte follows from the key, the generation and its place. A value that is torn, half
 * written, put together from two generations, shifted, cut, or another key's differs from what its
 * own header promises, in about 255 of 256 bytes that do not belong.
 *
 * With 10 fields of 100 bytes a record is 1,032 bytes. YCSB's bindings for stores without fields
 * write a record as one value, too; an update of one field (writeallfields=false) is there and here
 * a blind write of the whole record.
 */
#ifndef KVD_BENCH_RECORD_H
#define KVD_BENCH_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_HEADER_SIZE 32
#define RECORD_FIELDS_MAX 1000
/* "kvr1" as a little-endian integer */
#define RECORD_MAGIC 0x3172766bu

/* What a record is to look like. */
struct record_shape {
	uint32_t field_count; /* 1 to RECORD_FIELDS_MAX */
	/* One length for all fields, or a table of field_count lengths if @lengths is not NULL. */
	uint32_t length;
	const uint32_t *lengths;
};

struct record_generation {
	uint64_t writer;
	uint64_t counter;
};

/* What is wrong with a value, and where. */
struct record_fault {
	const char *what;
	size_t offset; /* of the first wrong byte in the value */
	int field;     /* that it lies in, or -1 for the header */
	uint8_t expected, got;
	struct record_generation generation; /* as the value has it */
};

/* Returns the length in bytes of a record of @shape. */
size_t record_size(const struct record_shape *shape);

/* Builds a record of record_size() bytes in @record. */
void record_build(void *record, const struct record_shape *shape,
		  const struct record_generation *generation, const void *key, size_t key_len);

/*
 * Checks every byte of @value. Returns 0, or -EBADMSG with *@fault filled if any byte is not what a
 * record_build() for @key wrote.
 */
int record_check(const void *value, size_t len, const void *key, size_t key_len,
		 struct record_fault *fault);

#endif /* KVD_BENCH_RECORD_H */
