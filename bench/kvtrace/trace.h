/* SPDX-License-Identifier: MIT */
/*
 * Reads traces of a cache's accesses: a text file, one access per line, in order of time.
 *
 *	KEY [SIZE]
 *
 * Fields are separated by one comma or by blanks. KEY is a decimal number below 2^64, SIZE the
 * bytes of its value, 0 to TRACE_SIZE_MAX. Empty lines and those that begin with # are skipped.
 * struct trace_format describes traces with other columns: for Twitter's cache traces (time, key,
 * key size, value size, client, operation, TTL) key_column is 2, size_column is 4, and the keys are
 * text. Every line is an access, whatever operation it was.
 */
#ifndef KVD_BENCH_KVTRACE_TRACE_H
#define KVD_BENCH_KVTRACE_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A little less than the default limit of kvd and memcached, 1 MiB with the header. */
#define TRACE_SIZE_MAX 1000000u
#define TRACE_COLUMN_MAX 64u
#define TRACE_LINE_MAX 4096u
#define TRACE_ERROR_MAX 256

struct trace_format {
	uint32_t key_column;   /* from 1 */
	uint32_t size_column;  /* from 1; a line may end before it */
	bool text_keys;	       /* keys are text; the number of a key is its hash */
	uint32_t size_default; /* bytes, for a line without a size */
};

#define TRACE_FORMAT_DEFAULT                                                                       \
	(struct trace_format)                                                                      \
	{                                                                                          \
		.key_column = 1, .size_column = 2, .size_default = 100                             \
	}

struct trace_access {
	uint64_t key;
	uint32_t size;
};

struct trace {
	struct trace_format format;
	const char *name; /* for messages; the caller's */
	FILE *file;
	uint64_t line;
	uint64_t cut; /* sizes above TRACE_SIZE_MAX, reduced to that */
	char text[TRACE_LINE_MAX];
	char error[TRACE_ERROR_MAX]; /* of the last call that failed, with file and line */
};

/* @path may be "-": standard input. Returns 0, or -errno of open(2) with trace->error. */
int trace_open(struct trace *trace, const char *path, const struct trace_format *format);
void trace_close(struct trace *trace);

/*
 * Returns 1 with the next access; 0 at the end; -EINVAL for a line that is no access, -EIO if
 * reading failed, both with trace->error.
 */
int trace_next(struct trace *trace, struct trace_access *access);

#endif /* KVD_BENCH_KVTRACE_TRACE_H */
