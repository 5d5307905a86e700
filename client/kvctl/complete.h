/* SPDX-License-Identifier: MIT */
/* What can stand at a place of a line that somebody types: commands, their options and keys. */
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
	size_t begun; /* bytes of the word that are there */
	/* The command of the line; NULL: there is none yet, or no such one. */
	const struct command *command;
};

/*
 * For @line, of @len bytes up to the cursor. Keys are asked of @db for a tenth of a second at most;
 * those with blanks, quotes or bytes that are not printed are not offered. Quotes before the cursor
 * are not understood: nothing is offered behind one.
 */
void complete(struct completion *completion, struct kvd *db, const char *line, size_t len);

/* The length of the longest begin that all words have in common. */
size_t complete_common(const struct completion *completion);

#endif /* KVD_CLIENT_KVCTL_COMPLETE_H */
