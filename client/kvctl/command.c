/* SPDX-License-Identifier: MIT */
/* The array of commands: see command.h. */
#include "client/kvctl/command.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const struct command commands[] = {
#define X(name, aliases, group, words, min, max, kind, help)                                       \
	{ #name, aliases, GROUP_##group, words, min, max, kind, command_##name, help },
	KVCTL_COMMANDS(X)
#undef X
};

const size_t command_row_count = sizeof(commands) / sizeof(commands[0]);

/* The length of the first word of @names, and of its blanks. */
static size_t name_length(const char *names, size_t *skip)
{
	const size_t len = strcspn(names, " ");

	*skip = len + strspn(names + len, " ");
	return len;
}

static bool is_among(const char *name, const char *names)
{
	size_t skip;

	for (; *names; names += skip) {
		const size_t len = name_length(names, &skip);

		if (len == strlen(name) && !strncasecmp(names, name, len))
			return true;
	}
	return false;
}

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < command_row_count; i++)
		if (!strcasecmp(commands[i].name, name) || is_among(name, commands[i].aliases))
			return &commands[i];
	return NULL;
}

static const struct {
	const char *name, *use;
} other_names[] = {
#define X(name, use) { name, use },
	KVCTL_OTHER_NAMES(X)
#undef X
};

/* A longer word is not taken for a misspelled command. */
#define WORD_MAX 16u
#define DISTANCE_MAX 2u

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/*
 * The optimal string alignment distance: how many letters must be inserted, removed, replaced or
 * swapped with their neighbour to turn @a into @b.
 */
static unsigned int distance(const char *a, const char *b)
{
	const size_t a_len = strlen(a), b_len = strlen(b);
	unsigned int d[WORD_MAX + 1][WORD_MAX + 1];

	if (a_len > WORD_MAX || b_len > WORD_MAX)
		return UINT_MAX;
	for (unsigned int i = 0; i <= a_len; i++)
		d[i][0] = i;
	for (unsigned int j = 0; j <= b_len; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= a_len; i++)
		for (size_t j = 1; j <= b_len; j++) {
			d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1);
			d[i][j] = least(d[i][j], d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[a_len][b_len];
}

/* The command spelled most like @name; NULL: in every one, half of the letters or more differ. */
static const struct command *command_like(const char *name)
{
	const struct command *like = NULL;
	unsigned int best = DISTANCE_MAX + 1, n;

	for (size_t i = 0; i < command_row_count; i++) {
		n = distance(name, commands[i].name);
		if (n < best && 2 * n < strlen(name)) {
			best = n;
			like = &commands[i];
		}
	}
	return like;
}

void command_advise(char advice[COMMAND_ADVICE_BYTES], const char *name)
{
	char lower[WORD_MAX + 1] = "";
	const struct command *like;

	*advice = '\0';
	if (strlen(name) > WORD_MAX)
		return;
	for (size_t i = 0; name[i]; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++) {
		if (strcmp(other_names[i].name, lower) != 0)
			continue;
		snprintf(advice, COMMAND_ADVICE_BYTES, "it is %s", other_names[i].use);
		return;
	}
	like = command_like(lower);
	if (like)
		snprintf(advice, COMMAND_ADVICE_BYTES, "did you mean `%s`?", like->name);
}

bool command_is_among(const struct command *command, const char *names)
{
	if (!strcmp(names, FOR_ALL) || !strcmp(names, FOR_CONNECTION))
		return true;
	if (!command)
		return !strcmp(names, FOR_NONE);
	return is_among(command->name, names);
}
