/* SPDX-License-Identifier: MIT */
/* kvctl config: prints, sets and saves the options of a running server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/glob.h"
#include "client/kvctl/json.h"
#include "client/kvctl/report.h"

#define OPTIONS_BYTES (128u << 10) /* several times all options with their longest values */
#define REWRITE_BYTES 1024

/* Whether a pattern matches the option's name; without patterns each does. */
static bool is_wanted(const struct arguments *arguments, const char *name, size_t len)
{
	const uint8_t *bytes = (const uint8_t *)name;

	for (int i = 1; i < arguments->word_count; i++) {
		const char *pattern = arguments->words[i];

		if (glob_matches((const uint8_t *)pattern, strlen(pattern), bytes, len))
			return true;
	}
	return arguments->word_count == 1;
}

/* Prints the lines "name = value" that are wanted. Returns their number. */
static unsigned int options_print(const struct arguments *arguments, const char *text)
{
	unsigned int count = 0;
	struct json json;

	if (arguments->json.given) {
		json_begin(&json, stdout);
		json_open(&json, NULL, '{');
	}
	for (size_t line, name_len; *text; text += line + (text[line] == '\n')) {
		char name[64];
		const char *value;

		line = strcspn(text, "\n");
		name_len = strcspn(text, " \n");
		if (!is_wanted(arguments, text, name_len))
			continue;
		count++;
		if (!arguments->json.given) {
			printf("%.*s\n", (int)line, text);
			continue;
		}
		value = text + name_len + strspn(text + name_len, " =");
		if (value > text + line)
			value = text + line;
		snprintf(name, sizeof(name), "%.*s", (int)name_len, text);
		json_bytes(&json, name, value, (size_t)(text + line - value));
	}
	if (arguments->json.given) {
		json_close(&json, '}');
		json_end(&json);
	}
	return count;
}

static int config_get(struct kvd *db, const struct arguments *arguments)
{
	char *text = malloc(OPTIONS_BYTES);
	enum kvd_status status;
	int code;

	if (!text)
		return report_memory();
	status = kvd_config_get(db, text, OPTIONS_BYTES, NULL);
	code = report(db, status);
	if (!status && !options_print(arguments, text)) {
		report_error("no option matches: kvctl config get prints all");
		code = EXIT_NOT_FOUND;
	}
	free(text);
	return code;
}

/* Writes "name=value" lines for the words to @text. EX_OK, or EX_USAGE after reporting. */
static int assignments_join(const struct arguments *arguments, char text[KVD_KEY_MAX + 1])
{
	size_t used = 0;

	for (int i = 1; i < arguments->word_count; i += 2) {
		const char *name = arguments->words[i], *value = arguments->words[i + 1];
		const size_t room = KVD_KEY_MAX + 1 - used;
		int n;

		if (strpbrk(name, "=\n") || strchr(value, '\n'))
			return usage_error(name,
					   "write config set section.key VALUE, without = and "
					   "newlines");
		n = snprintf(text + used, room, "%s%s=%s", used ? "\n" : "", name, value);
		if (n < 0 || (size_t)n >= room)
			return usage_error(name,
					   "too long for one request: set it alone, or change "
					   "the server's file and send it SIGHUP");
		used += (size_t)n;
	}
	return EX_OK;
}

static int config_set(struct kvd *db, const struct arguments *arguments)
{
	char text[KVD_KEY_MAX + 1];
	int code = assignments_join(arguments, text);

	return code ? code : report_change(db, arguments, kvd_config_set(db, text));
}

static int config_rewrite(struct kvd *db, const struct arguments *arguments)
{
	char text[REWRITE_BYTES];
	size_t len;
	enum kvd_status status = kvd_config_rewrite(db, text, sizeof(text), &len);
	struct json json;

	if (!status && arguments->json.given) {
		json_begin(&json, stdout);
		json_open(&json, NULL, '{');
		json_bytes(&json, "result", text, len - (len && text[len - 1] == '\n'));
		json_close(&json, '}');
		json_end(&json);
	} else if (!status) {
		fputs(text, stdout);
	}
	return report(db, status);
}

int command_config(struct kvd *db, const struct arguments *arguments)
{
	const char *what = arguments->words[0];
	const int count = arguments->word_count;

	if (!strcmp(what, "get"))
		return config_get(db, arguments);
	if (!strcmp(what, "set") && count >= 3 && count % 2)
		return config_set(db, arguments);
	if (!strcmp(what, "rewrite") && count == 1)
		return config_rewrite(db, arguments);
	return usage_error(what,
			   "get [PATTERN...], set section.key VALUE [section.key VALUE...] or "
			   "rewrite");
}
