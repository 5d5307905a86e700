/* SPDX-License-Identifier: MIT */
/*
 * Reads a dump block by block. It hands out only blocks that were verified as a whole, and nothing
 * of a damaged one.
 */
#ifndef KVD_CLIENT_KVCTL_DUMP_READER_H
#define KVD_CLIENT_KVCTL_DUMP_READER_H

#include <limits.h>

#include "client/kvctl/dump_file.h"

/* A name of a file, and a sentence. */
#define DUMP_WHY_MAX (PATH_MAX + 256)

enum dump_result {
	DUMP_BLOCK,   /* a block was read and verified */
	DUMP_IS_DONE, /* the end was read, and the whole file is verified */
	DUMP_SKIPPED, /* a body is damaged, and was not handed out; the next block may follow */
	DUMP_DAMAGED, /* the file is damaged here, and the rest can't be read */
	DUMP_CUT,     /* the file ends here, and its end is missing */
	DUMP_FAILED,  /* the file could not be read, or there is no memory: errno */
};

/* Not to be moved or copied. */
struct dump_reader {
	int fd;
	const char *name; /* for errors; the caller's */
	uint64_t offset;  /* of what is read next, in bytes */
	uint64_t bytes;	  /* in the file; 0: unknown, for example in a pipe */
	uint64_t before;  /* what `before` in the next block's header must be */
	uint64_t skipped; /* blocks whose bodies are damaged */
	struct dump_header header;
	uint8_t filter[2 * DUMP_FILTER_MAX];
	struct dump_end counts; /* of what was read; `missing` is set once the end was read */
	char why[DUMP_WHY_MAX]; /* what is wrong, in which file, at which byte */
};

/* A block in memory, which grows as needed. Zero it first. */
struct dump_body {
	struct dump_block block;
	uint8_t *bytes;
	size_t size;
};

void dump_body_release(struct dump_body *body);

/*
 * Reads the header of the file @fd. DUMP_BLOCK: it is valid; else `why` says what is wrong. The
 * caller keeps the descriptor.
 */
enum dump_result dump_reader_begin(struct dump_reader *reader, int fd, const char *name);

/* Reads the next block to @body. With every result but DUMP_BLOCK and DUMP_IS_DONE `why` is set. */
enum dump_result dump_reader_next(struct dump_reader *reader, struct dump_body *body);

/*
 * Goes on at @offset, after a block with the sum @before, with the counts that an earlier reader
 * had there. False: the file can't be read from there, and `why` says why.
 */
bool dump_reader_seek(struct dump_reader *reader, uint64_t offset, uint64_t before,
		      const struct dump_end *counts);

#endif /* KVD_CLIENT_KVCTL_DUMP_READER_H */
