/* SPDX-License-Identifier: MIT */
/*
 * Reads properties: YCSB's key=value files, as java.util.Properties.load() reads them, and the -p
 * key=value of the command line. Each keeps the place it was read from, so that an error message
 * can say `file:line`.
 *
 * The syntax (Java SE API, class java.util.Properties, method load): a line ends with \n, \r or
 * \r\n; lines that are blank or start with # or ! are skipped; an odd number of backslashes at the
 * end of a line joins it with the next line, without the leading blanks of that; the key ends at
 * the first unescaped '=', ':' or blank; blanks around the separator are dropped, blanks after the
 * value are kept; \t \n \r \f and \uXXXX are escapes, before any other character a backslash is
 * dropped. Two things differ: bytes above 127 are kept as they are (Java decodes them as ISO
 * 8859-1), and \uXXXX becomes UTF-8.
 */
#ifndef KVD_BENCH_PROPS_H
#define KVD_BENCH_PROPS_H

#include <stdbool.h>
#include <stddef.h>

/* Limits: properties in all, bytes of a file, bytes of a message. */
#define PROPS_MAX 512
#define PROPS_FILE_MAX (1u << 20)
#define PROPS_ERROR_MAX 512

struct prop {
	char *key;
	char *value;
	const char *file;  /* the name as given, or "-p"; owned by struct props */
	unsigned int line; /* 0 for -p */
};

struct props {
	struct prop *list;
	size_t count;
	char **files; /* names of the files read */
	size_t file_count;
	char error[PROPS_ERROR_MAX]; /* of the last call that failed */
};

void props_init(struct props *props);
void props_release(struct props *props);

/*
 * Reads @path. A key that is known already gets the new value, as with several -P in YCSB.
 * Returns 0, or a negative errno with props->error set: -EINVAL for syntax, -E2BIG for a limit
 * above, -ENOMEM, or the error of open(2) or read(2).
 */
int props_load(struct props *props, const char *path);

/* As props_load(), for @len bytes of @text, which messages call @name. */
int props_parse(struct props *props, const char *text, size_t len, const char *name);

/* Adds one -p argument, "key=value", taken literally as in YCSB. Errors as for props_load(). */
int props_set(struct props *props, const char *argument);

/* The property called @key, or NULL. */
const struct prop *props_find(const struct props *props, const char *key);

/* Writes the place of @prop, "file:line" or "-p", to @text. Returns @text. */
const char *prop_where(const struct prop *prop, char *text, size_t size);

#endif /* KVD_BENCH_PROPS_H */
