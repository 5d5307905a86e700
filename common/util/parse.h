/* SPDX-License-Identifier: MIT */
/*
 * Parsing of option values as people write them: sizes `64m`, times `500ms`, plain integers, octal
 * modes, yes/no. The whole text must match: no sign, no space, no fraction, nothing after it.
 *
 * Each function returns 0 and sets the value; or it returns -EINVAL (wrong form) or -ERANGE
 * (outside min to max, or more than 64 bits), leaves the value unchanged, and writes to `why`, if
 * that is not NULL, what is wrong with the text and what would be right.
 */
#ifndef KVD_COMMON_UTIL_PARSE_H
#define KVD_COMMON_UTIL_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARSE_WHY_MAX 320
#define PARSE_FORMAT_MAX 32

struct parse_why {
	char text[PARSE_WHY_MAX];
};

int parse_uint(const char *text, uint64_t min, uint64_t max, uint64_t *value,
	       struct parse_why *why);

/* Bytes: `4096`, `64k`, `64m`, `2g`, `1t`; units are powers of 1,024, in either case. */
int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *bytes,
	       struct parse_why *why);

/* `50us`, `500ms`, `5s`, `2m`, `1h`, `100ns`, `0`. The value and the limits are nanoseconds. */
int parse_time(const char *text, uint64_t min, uint64_t max, uint64_t *ns, struct parse_why *why);

/*
 * A time as a number of @unit_ns, one of the units above: in milliseconds, `5s` is 5000, and so is
 * `5000`, since a number alone counts in that unit. The limits are such numbers, too.
 */
int parse_duration(const char *text, uint64_t unit_ns, uint64_t min, uint64_t max, uint64_t *units,
		   struct parse_why *why);

/* File permissions in octal: `0660`, `660`; at most 0777. */
int parse_mode(const char *text, uint32_t *mode, struct parse_why *why);

/* `yes` `true` `on` `1`, `no` `false` `off` `0`, in either case. */
int parse_bool(const char *text, bool *value, struct parse_why *why);

/* 3, if the text begins with a byte order mark of UTF-8, which some editors write; else 0. */
size_t bom_length(const char *text, size_t length);

/*
 * The shortest exact form of a value, which the parser above reads back to the same value. The
 * result is in buffer, which must have room for PARSE_FORMAT_MAX bytes.
 */
const char *format_size(uint64_t bytes, char *buffer);
const char *format_time(uint64_t ns, char *buffer);

/*
 * A size for messages: "96 MiB", "1.5 GiB", "512 bytes". Rounded down to a tenth of its unit. In
 * buffer, of PARSE_FORMAT_MAX bytes.
 */
const char *show_size(uint64_t bytes, char *buffer);

#endif /* KVD_COMMON_UTIL_PARSE_H */
