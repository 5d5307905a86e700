/* SPDX-License-Identifier: MIT */
/* Completes words: see complete.h. */
#include "client/kvctl/complete.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "common/util/clock.h"

#define KEYS_NS 100000000u

struct word {
	const char *text;
	size_t len;
};

static void offer(struct completion *c, const struct word *begin, const char *prefix,
		  const void *bytes, size_t len)
{
	const size_t prefix_len = strlen(prefix);
	char *word;

	if (c->count == COMPLETE_MAX || prefix_len + len >= COMPLETE_WORD_MAX)
		return;
	word = c->words[c->count];
	memcpy(word, prefix, prefix_len);
	memcpy(word + prefix_len, bytes, len);
	word[prefix_len + len] = '\0';
	if (prefix_len + len < begin->len || memcmp(word, begin->text, begin->len))
		return;
	for (size_t i = 0; i < c->count; i++)
		if (!strcmp(c->words[i], word))
			return;
	c->count++;
}

static void offer_commands(struct completion *c, const struct word *begin)
{
	for (size_t i = 0; i < command_row_count; i++)
		offer(c, begin, "", commands[i].name, strlen(commands[i].name));
	offer(c, begin, "", "quit", strlen("quit"));
}

static void offer_options(struct completion *c, const struct word *begin)
{
	for (size_t i = 0; i < option_row_count; i++)
		if (strcmp(option_rows[i].commands, FOR_CONNECTION) &&
		    command_is_among(c->command, option_rows[i].commands))
			offer(c, begin, "--", option_rows[i].long_name,
			      strlen(option_rows[i].long_name));
}

struct keys {
	struct completion *completion;
	const struct word *begin;
};

static int take_key(void *arg, const struct kvd_entry *entry)
{
	const struct keys *keys = arg;
	const char *key = entry->key;

	for (size_t i = 0; i < entry->key_len; i++)
		if (!isgraph((unsigned char)key[i]) || strchr("\"'\\#", key[i]))
			return 0;
	offer(keys->completion, keys->begin, "", key, entry->key_len);
	return keys->completion->count == COMPLETE_MAX;
}

static void offer_keys(struct completion *c, struct kvd *db, const struct word *begin)
{
	const struct kvd_scan_args args = { .prefix = begin->len ? begin->text : NULL,
					    .prefix_len = begin->len };
	const uint64_t until_ns = clock_ns() + KEYS_NS;
	struct keys keys = { c, begin };
	uint64_t cursor = 0;

	if (begin->len > KVD_KEY_MAX)
		return;
	do {
		if (kvd_scan(db, &cursor, &args, take_key, &keys))
			return;
	} while (cursor && c->count < COMPLETE_MAX && clock_ns() < until_ns);
}

/* Whether word @number, counted from 1 after the command's name, is a key. */
static bool is_key(const struct command *command, int number)
{
	const char *words = command->words;

	if (!strncmp(words, "KEY...", 6))
		return true;
	return number == 1 && (!strncmp(words, "KEY", 3) || !strncmp(words, "[PREFIX]", 8));
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

void complete(struct completion *c, struct kvd *db, const char *line, size_t len)
{
	struct word word = { line, 0 };
	size_t at = 0;
	int number = 0; /* words before this one, without options */
	char name[COMPLETE_WORD_MAX];

	c->count = 0;
	c->command = NULL;
	if (memchr(line, '"', len) || memchr(line, '\'', len))
		return;
	for (;;) {
		while (at < len && isspace((unsigned char)line[at]))
			at++;
		word.text = line + at;
		while (at < len && !isspace((unsigned char)line[at]))
			at++;
		word.len = (size_t)(line + at - word.text);
		if (at == len)
			break;
		if (*word.text == '-')
			continue;
		if (!number++ && word.len < sizeof(name)) {
			memcpy(name, word.text, word.len);
			name[word.len] = '\0';
			c->command = command_find(name);
		}
	}
	c->begun = word.len;
	if (number && !c->command)
		return;
	if (word.len && *word.text == '-')
		offer_options(c, &word);
	else if (!number || (number == 1 && !strcmp(c->command->name, "help")))
		offer_commands(c, &word);
	else if (is_key(c->command, number))
		offer_keys(c, db, &word);
	qsort(c->words, c->count, sizeof(c->words[0]), compare);
}

size_t complete_common(const struct completion *c)
{
	size_t len = c->count ? strlen(c->words[0]) : 0;

	for (size_t i = 1; i < c->count; i++)
		for (size_t j = 0; j < len; j++)
			if (c->words[i][j] != c->words[0][j])
				len = j;
	return len;
}
