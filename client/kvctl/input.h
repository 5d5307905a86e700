/* SPDX-License-Identifier: MIT */
/* Values that kvctl reads: from a word of the command line, a file or the standard input. */
#ifndef KVD_CLIENT_KVCTL_INPUT_H
#define KVD_CLIENT_KVCTL_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct arguments;
struct kvd;

struct value {
	const uint8_t *bytes;
	size_t len;
	uint8_t *read; /* to be freed; NULL: the bytes are a word's */
};

/*
 * Takes the value from words[@at] or --file; without them, or if the word is an unquoted -, from
 * the standard input. With --hex-values it is given as hexadecimal digits. Reading stops one byte
 * after the server's longest value. EX_OK, or another exit status after printing why there is no
 * value.
 */
int value_take(struct value *value, const struct kvd *db, const struct arguments *arguments,
	       int at);
void value_release(struct value *value);

#endif /* KVD_CLIENT_KVCTL_INPUT_H */
