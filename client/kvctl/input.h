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
 * The value that words[@at] says, or --file; without them, or if the word is - without quotes, the
 * standard input.
 * With --hex-values its bytes are hexadecimal digits. Of an input that is longer than the server's
 * longest value one byte more than that is read. EX_OK, or another exit status after printing why
 * there is none.
 */
int value_take(struct value *value, const struct kvd *db, const struct arguments *arguments,
	       int at);
void value_release(struct value *value);

#endif /* KVD_CLIENT_KVCTL_INPUT_H */
