/* SPDX-License-Identifier: MIT */
/* Parses a server's texts: statistics, as lines "name value", and fields "name=value". */
#ifndef KVD_CLIENT_KVCTL_STATS_TEXT_H
#define KVD_CLIENT_KVCTL_STATS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Enough for the statistics of any server. */
#define STATS_BYTES (64u << 10)

/* A line of statistics, which points into the text. */
struct stats_line {
	const char *name, *value;
	size_t name_len, value_len;
};

/* Reads the line at *@at and moves *@at to the next one. False: there is none. */
bool stats_line_next(const char **at, struct stats_line *line);
/* Parses a line's number. False: the value is no decimal number. */
bool stats_line_number(const struct stats_line *line, uint64_t *number);

/* Finds the line with that name. False: there is none. */
bool stats_find(const char *text, const char *name, size_t name_len, struct stats_line *line);
/* The number of the line with that name; 0 if there is none. */
uint64_t stats_number(const char *text, const char *name);

/*
 * The value of the field @name in a line that ends with a newline or a zero; *@len is its length.
 * NULL: there is no such field.
 */
const char *field_find(const char *line, const char *name, size_t *len);
/* The number in the field @name; 0 if there is none. */
uint64_t field_number(const char *line, const char *name);

#endif /* KVD_CLIENT_KVCTL_STATS_TEXT_H */
