/* SPDX-License-Identifier: MIT */
/*
 * Properties: YCSB's key=value files, read as java.util.Properties.load() reads them, and -p
 * key=value on top. Each value remembers where it came from, so that whoever refuses it can say
 * `file:line`.
 *
 * The syntax (Java SE API, class java.util.Properties, method load): a line ends with \n, \r or
 * \r\n; lines that are blank or start with # or ! are skipped; an odd number of backslashes at the
 * end joins the next line without its leading blanks; the key ends at the first unescaped '=', ':'
 * or blank; blanks around the separator are dropped, blanks behind the value are kept; \t \n \r \f
 * and \uXXXX are escapes, before any other character a backslash is dropped. Two things differ:
 * bytes above 127 are kept as they are (Java decodes them as ISO 8859-1), and \uXXXX becomes UTF-8.
 */
#ifndef KVD_BENCH_PROPS_H
#define KVD_BENCH_PROPS_H

#include <stdbool.h>
#include <stddef.h>

/* Bounds of what is read: properties at all, bytes of a file, bytes of a message. */
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
	char error[PROPS_ERROR_MAX]; /* what the last failed call met */
};

void props_init(struct props *props);
void props_release(struct props *props);

/*
 * Reads @path; a key that is there already gets the new value, as with several -P in YCSB.
 * Returns 0, or a negative errno with props->error set: -EINVAL for syntax, -E2BIG for a bound
 * above, -ENOMEM, or what open(2) and read(2) say.
 */
int props_load(struct props *props, const char *path);

/* The same for @len bytes of @text, called @name in messages. */
int props_parse(struct props *props, const char *text, size_t len, const char *name);

/* Adds one -p argument, "key=value", taken literally as in YCSB. Errors as for props_load(). */
int props_set(struct props *props, const char *argument);

/* The property called @key, or NULL. */
const struct prop *props_find(const struct props *props, const char *key);

/* Writes where @prop came from, "file:line" or "-p", to @text and returns @text. */
const char *prop_where(const struct prop *prop, char *text, size_t size);

#endif /* KVD_BENCH_PROPS_H */
