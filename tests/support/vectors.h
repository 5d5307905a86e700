/* SPDX-License-Identifier: MIT */
/*
 * What stands in the protocol's documents in a form that programs read: numbers, tables of fields,
 * test vectors. Whatever is missing or can't be read fails the test that asks for it.
 */
#ifndef KVD_TESTS_SUPPORT_VECTORS_H
#define KVD_TESTS_SUPPORT_VECTORS_H

#include <stddef.h>
#include <stdint.h>

#define VECTOR_BYTES_MAX 1024

struct vector {
	uint8_t bytes[VECTOR_BYTES_MAX];
	size_t len;
	const char *text; /* of the block, its comments included; ends at the fence */
};

struct field {
	const char *name;
	size_t offset, bytes;
};

/* Reads the documents; a block is looked for in all of them. */
void documents_load(const char *const *paths, unsigned int count);
void documents_free(void);

/* The bytes of the block "```vector NAME". */
void vector_load(struct vector *vector, const char *name);
/* The line "NAME = NUMBER" of a block. */
uint64_t vector_number(const struct vector *vector, const char *name);
/* The numbers of a block that is a table, row by row. Returns how many. */
unsigned int vector_numbers(const char *name, uint64_t *to, unsigned int max);

/* The document says that @name is @value in a block "```numbers". */
void assert_number(const char *name, uint64_t value);
/* How many numbers there are in all. */
unsigned int numbers_count(void);

/* The first table behind the text @anchor has these fields, and no others. */
void assert_fields(const char *anchor, const struct field *fields, unsigned int count,
		   size_t bytes);
struct named {
	unsigned int number;
	const char *name;
};

/* The first table behind @anchor has a row "| NUMBER | NAME |" for each, in this order, no other. */
void assert_rows(const char *anchor, const struct named *rows, unsigned int count);

#endif /* KVD_TESTS_SUPPORT_VECTORS_H */
