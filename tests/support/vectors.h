/* SPDX-License-Identifier: MIT */
/*
 * Test vectors: reads the numbers, tables of fields and blocks of bytes in the protocol documents,
 * to compare them with the code. Anything that is missing or can't be parsed fails the calling
 * test.
 */
#ifndef KVD_TESTS_SUPPORT_VECTORS_H
#define KVD_TESTS_SUPPORT_VECTORS_H

#include <stddef.h>
#include <stdint.h>

#define VECTOR_BYTES_MAX 1024

struct vector {
	uint8_t bytes[VECTOR_BYTES_MAX];
	size_t len;
	const char *text; /* the block with its comments; ends at the fence */
};

struct field {
	const char *name;
	size_t offset, bytes;
};

/* Reads the documents. The other functions search all of them. */
void documents_load(const char *const *paths, unsigned int count);
void documents_free(void);

/* Parses the bytes of the block "```vector NAME". */
void vector_load(struct vector *vector, const char *name);
/* Returns the number of the line "NAME = NUMBER" of a block. */
uint64_t vector_number(const struct vector *vector, const char *name);
/* Parses a block that is a table of numbers, row by row. Returns how many there are. */
unsigned int vector_numbers(const char *name, uint64_t *to, unsigned int max);

/* Asserts that a block "```numbers" has the line "NAME NUMBER" with @name and @value. */
void assert_number(const char *name, uint64_t value);
/* Returns how many lines the blocks "```numbers" have. */
unsigned int numbers_count(void);

/*
 * Asserts that the first table after the text @anchor has these fields and no others, and that they
 * cover @bytes without gaps.
 */
void assert_fields(const char *anchor, const struct field *fields, unsigned int count,
		   size_t bytes);

struct named {
	unsigned int number;
	const char *name;
};

/* Asserts that the first table after @anchor has the rows "| NUMBER | NAME |", in this order. */
void assert_rows(const char *anchor, const struct named *rows, unsigned int count);

#endif /* KVD_TESTS_SUPPORT_VECTORS_H */
