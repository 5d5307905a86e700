/* SPDX-License-Identifier: MIT */
/*
 * A record of kvbench: the one value that holds all fields of a YCSB record. A reader can check
 * every byte of it with only the key and the record's header.
 *
 *	offset	bytes
 *	0	4	magic, "kvr1"
 *	4	2	number of fields
 *	6	2	0: all fields have one length; 1: their lengths follow the header
 *	8	8	writer: a random number of the thread that built the record
 *	16	8	counter: of that writer's records
 *	24	8	sum of the above, the key, the fields' lengths and the record's length
 *	32	4 each	the fields' lengths, if the number at 6 is 1
 *	...		the fields, one after the other
 *
 * Integers are little-endian. Writer and counter are the record's generation: no two records that
 * were ever written have the same. The fields are one stream of pseudo-random bytes that starts
 * from the sum, so each byte follows from the key, the generation and its place. In a value that is
 * torn, half written, a mix of two generations, shifted, cut, or another key's, about 255 of 256
 * wrong bytes differ from those that its own header determines.
 *
 * With 10 fields of 100 bytes a record has 1,032 bytes. YCSB's bindings for stores without fields
 * also write a record as one value; an update of one field (writeallfields=false) is there and here
 * a write of the whole record without a read.
 */
#ifndef KVD_BENCH_RECORD_H
#define KVD_BENCH_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_HEADER_SIZE 32
#define RECORD_FIELDS_MAX 1000
/* "kvr1" as a little-endian integer */
#define RECORD_MAGIC 0x3172766bu

/* The fields of a record. */
struct record_shape {
	uint32_t field_count; /* 1 to RECORD_FIELDS_MAX */
	/* Of all fields; or, if @lengths is not NULL, that array has field_count lengths. */
	uint32_t length;
	const uint32_t *lengths;
};

struct record_generation {
	uint64_t writer;
	uint64_t counter;
};

/* The first fault of a value. */
struct record_fault {
	const char *what;
	size_t offset; /* of the first wrong byte in the value */
	int field;     /* the field of that byte, or -1 for the header */
	uint8_t expected, got;
	struct record_generation generation; /* as the value has it */
};

/* Returns the length in bytes of a record of @shape. */
size_t record_size(const struct record_shape *shape);

/* Builds a record of record_size() bytes in @record. */
void record_build(void *record, const struct record_shape *shape,
		  const struct record_generation *generation, const void *key, size_t key_len);

/*
 * Checks every byte of @value. Returns 0; or -EBADMSG with *@fault filled if a byte is not one that
 * record_build() wrote for @key.
 */
int record_check(const void *value, size_t len, const void *key, size_t key_len,
		 struct record_fault *fault);

#endif /* KVD_BENCH_RECORD_H */
