/* SPDX-License-Identifier: MIT */
/* Completes a word of a line that is being typed: commands, their options and keys. */
#ifndef KVD_CLIENT_KVCTL_COMPLETE_H
#define KVD_CLIENT_KVCTL_COMPLETE_H

#include <stddef.h>

#include "client/kvd.h"

#define COMPLETE_MAX 100u /* words that are offered */
#define COMPLETE_WORD_MAX 200u

struct command;

struct completion {
	char words[COMPLETE_MAX][COMPLETE_WORD_MAX];
	size_t count;
	size_t begun; /* bytes of the word that were typed */
	/* The command of the line; NULL: none was typed yet, or it does not exist. */
	const struct command *command;
};

/*
 * For @line, of @len bytes up to the cursor. Scans @db for keys for at most a tenth of a second.
 * Keys with blanks, quotes or unprintable bytes are not offered, and nothing is offered after a
 * quote.
 */
void complete(struct completion *completion, struct kvd *db, const char *line, size_t len);

/* The length of the longest prefix that all words have in common. */
size_t complete_common(const struct completion *completion);

#endif /* KVD_CLIENT_KVCTL_COMPLETE_H */
