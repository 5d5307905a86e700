/* SPDX-License-Identifier: MIT */
/*
 * How kvctl's commands take and print keys: as they are, or with -x in hexadecimal; and values,
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

/* Parses a word. EX_OK, or EX_USAGE after printing why it is no key. */
int key_parse(struct key *key, const struct arguments *arguments, const char *word);

/* Prints a key without a newline. */
void key_print(FILE *out, const struct arguments *arguments, const void *key, size_t len);

/*
 * Prints a key for people, on a terminal or in a table: bytes that would move the cursor or are no
 * UTF-8 are quoted as in a word of a script, so that the key can be typed as it is printed.
 */
void key_show(FILE *out, const struct arguments *arguments, const void *key, size_t len);

/* Writes the member "key" of an object. */
void key_json(struct json *json, const struct arguments *arguments, const void *key, size_t len);

/* Prints and writes values, in hexadecimal with --hex-values. */
void value_print(FILE *out, const struct arguments *arguments, const void *value, size_t len);
void value_show(FILE *out, const struct arguments *arguments, const void *value, size_t len);
void value_json(struct json *json, const struct arguments *arguments, const void *value,
		size_t len);

void hex_print(FILE *out, const void *bytes, size_t len);
/* Decodes an even number of @digits to @bytes. False: they are not hexadecimal. */
bool hex_parse(uint8_t *bytes, const char *text, size_t digits);

#endif /* KVD_CLIENT_KVCTL_KEY_H */
