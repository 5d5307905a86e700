/* SPDX-License-Identifier: MIT */
/* Reads the texts of a server: its statistics, "name value" lines, and fields "name=value". */
#ifndef KVD_CLIENT_KVCTL_STATS_TEXT_H
#define KVD_CLIENT_KVCTL_STATS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As many as the statistics of a server have. */
#define STATS_BYTES (64u << 10)

/* A line of statistics, which points into the text. */
struct stats_line {
	const char *name, *value;
	size_t name_len, value_len;
};

/* The line at *@at, which becomes the one behind it. False: there is none. */
bool stats_line_next(const char **at, struct stats_line *line);
/* False: its value is no decimal number. */
bool stats_line_number(const struct stats_line *line, uint64_t *number);

/* The line of that name. False: there is none. */
bool stats_find(const char *text, const char *name, size_t name_len, struct stats_line *line);
/* The number under that name; 0 if there is none. */
uint64_t stats_number(const char *text, const char *name);

/*
 * The value of the field @name in a line that ends with a newline or a zero; its length is written
 * to *@len. NULL: it has none.
 */
const char *field_find(const char *line, const char *name, size_t *len);
/* The number in that field; 0 if there is none. */
uint64_t field_number(const char *line, const char *name);

#endif /* KVD_CLIENT_KVCTL_STATS_TEXT_H */
