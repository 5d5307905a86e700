/* SPDX-License-Identifier: MIT */
/*
 * Keys as kvctl's commands get and print them: as they are, or with -x in hexadecimal; and values,
 * with --hex-values.
 */
#ifndef KVD_CLIENT_KVCTL_KEY_H
#define KVD_CLIENT_KVCTL_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/kvd.h"

struct arguments;
struct json;

struct key {
	uint8_t bytes[KVD_KEY_MAX];
	size_t len;
};

/* Of a word. EX_OK, or EX_USAGE after printing why it is no key. */
int key_parse(struct key *key, const struct arguments *arguments, const char *word);

/* Without a newline. */
void key_print(FILE *out, const struct arguments *arguments, const void *key, size_t len);

/*
 * For people, on a terminal or in a table: what would move the cursor, or is no UTF-8, is quoted as
 * a word of a script is, so that it can be typed as it is printed.
 */
void key_show(FILE *out, const struct arguments *arguments, const void *key, size_t len);

/* The member "key" of an object. */
void key_json(struct json *json, const struct arguments *arguments, const void *key, size_t len);

/* The same of values, with --hex-values. */
void value_print(FILE *out, const struct arguments *arguments, const void *value, size_t len);
void value_show(FILE *out, const struct arguments *arguments, const void *value, size_t len);
void value_json(struct json *json, const struct arguments *arguments, const void *value,
		size_t len);

void hex_print(FILE *out, const void *bytes, size_t len);
/* The bytes of @digits hexadecimal digits, an even number, to @bytes. False: they are none. */
bool hex_parse(uint8_t *bytes, const char *text, size_t digits);

#endif /* KVD_CLIENT_KVCTL_KEY_H */
