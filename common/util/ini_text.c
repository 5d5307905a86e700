/* SPDX-License-Identifier: MIT */
#include "common/util/ini_text.h"

#include <stdbool.h>
#include <string.h>

#include "common/util/parse.h"

#define SPACE " \t"

void ini_text_init(struct ini_text *ini, char *text, size_t length)
{
	*ini = (struct ini_text){
		.at = text + bom_length(text, length),
		.end = text + length,
	};
}

char *ini_word_take(char **text)
{
	char *word = *text + strspn(*text, SPACE), *end;

	if (!*word)
		return NULL;
	end = word + strcspn(word, SPACE);
	*text = *end ? end + 1 : end;
	*end = '\0';
	return word;
}

/* Cuts the spaces of the @length bytes at @text, after which there is a zero or a byte to cut. */
static char *trim(char *text, size_t length)
{
	while (length && strchr(SPACE, text[length - 1]))
		length--;
	text[length] = '\0';
	return text + strspn(text, SPACE);
}

static bool has_control(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < ' ' && line[i] != '\t')
			return true;
	return false;
}

static enum ini_item section_take(struct ini_text *ini, char *text)
{
	char *end = strchr(text, ']');

	if (!end || end[1])
		return INI_BAD_SECTION;
	*end = '\0';
	ini->key = text + 1;
	return INI_SECTION;
}

static enum ini_item setting_take(struct ini_text *ini, char *text)
{
	char *equals = strchr(text, '=');

	if (!equals)
		return INI_BAD_LINE;
	ini->key = trim(text, (size_t)(equals - text));
	ini->value = equals + 1;
	return INI_SETTING;
}

enum ini_item ini_text_next(struct ini_text *ini)
{
	char *line, *newline, *text;
	size_t length;

	while (ini->at < ini->end) {
		line = ini->at;
		newline = memchr(line, '\n', (size_t)(ini->end - line));
		length = (size_t)((newline ? newline : ini->end) - line);
		ini->at = line + length + 1;
		ini->line++;
		if (length && line[length - 1] == '\r')
			length--;
		if (has_control(line, length))
			return INI_BAD_BYTE;
		text = trim(line, length);
		if (*text == '[')
			return section_take(ini, text);
		if (*text && !strchr("#;", *text))
			return setting_take(ini, text);
	}
	return INI_END;
}
