/* SPDX-License-Identifier: MIT */
/*
 * A writer of JSON, for --json of all commands. Each record is one value on a line of its own (JSON
 * Lines), so that lists can be read while they are written.
 *
 *	struct json json;
 *
 *	json_begin(&json, stdout);
 *	json_open(&json, NULL, '{');
 *	json_bytes(&json, "key", key, key_len);
 *	json_open(&json, "values", '[');
 *	json_number(&json, NULL, 1);
 *	json_close(&json, ']');
 *	json_close(&json, '}');
 *	json_end(&json);
 *
 * @name is the name of an object's member, and NULL for an array's values and for the outermost
 * one. An outermost object that is about a member of a fleet (report_member()) begins with its
 * name. Write errors stay in the stream (ferror(3)).
 */
#ifndef KVD_CLIENT_KVCTL_JSON_H
#define KVD_CLIENT_KVCTL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool comma; /* one is due before the next value */
	bool begun; /* the outermost value has */
};

void json_begin(struct json *json, FILE *out);
/* Ends the line. */
void json_end(struct json *json);

/* An object, '{' and '}', or an array, '[' and ']'. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);

/* Bytes as a string if they are UTF-8, else as the object {"hex": "00ff"}. */
void json_bytes(struct json *json, const char *name, const void *bytes, size_t len);
/* Bytes as the object {"hex": "00ff"}, always. */
void json_hex(struct json *json, const char *name, const void *bytes, size_t len);
void json_text(struct json *json, const char *name, const char *text);
void json_number(struct json *json, const char *name, uint64_t number);
/* A number with that many digits after the point; null if it is not finite. */
void json_double(struct json *json, const char *name, double number, int digits);
void json_bool(struct json *json, const char *name, bool is);
void json_null(struct json *json, const char *name);
/*
 * A value in a server's text: as a number if it is decimal and doubles represent it exactly (below
 * 2^53), else as a string.
 */
void json_word(struct json *json, const char *name, const char *word, size_t len);

/* Prints a line of a server's text, pairs name=value and a newline, as a line with an object. */
void json_pairs(const char *line, size_t len);

#endif /* KVD_CLIENT_KVCTL_JSON_H */
