/* SPDX-License-Identifier: MIT */
/* Writes JSON (RFC 8259): see json.h. */
#include "client/kvctl/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "client/kvctl/error.h"
#include "common/util/text.h"

#define EXACT_DIGITS_MAX 15 /* 10^15 is below 2^53 */

void json_begin(struct json *json, FILE *out)
{
	*json = (struct json){ .out = out };
}

void json_end(struct json *json)
{
	putc('\n', json->out);
	json->comma = false;
}

static void string_print(struct json *json, const uint8_t *bytes, size_t len)
{
	putc('"', json->out);
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		n = plain_len(bytes + i, len - i);
		if (bytes[i] == '"' || bytes[i] == '\\')
			fprintf(json->out, "\\%c", bytes[i]);
		else if (bytes[i] == '\n')
			fputs("\\n", json->out);
		else if (bytes[i] == '\t')
			fputs("\\t", json->out);
		else if (n)
			fwrite(bytes + i, 1, n, json->out);
		else if (utf8_len(bytes + i, len - i) == 2)
			fprintf(json->out, "\\u%04x", bytes[++i]); /* as its second byte */
		else
			fprintf(json->out, "\\u%04x", bytes[i] < 0x80 ? bytes[i] : 0xfffdu);
	}
	putc('"', json->out);
}

/* Writes the comma and the name before a value. */
static void value_begin(struct json *json, const char *name)
{
	if (json->comma)
		fputs(", ", json->out);
	if (name) {
		string_print(json, (const uint8_t *)name, strlen(name));
		fputs(": ", json->out);
	}
	json->comma = true;
}

void json_open(struct json *json, const char *name, char bracket)
{
	value_begin(json, name);
	putc(bracket, json->out);
	json->comma = false;
	if (!json->begun && report_member_now())
		json_text(json, "member", report_member_now());
	json->begun = true;
}

void json_close(struct json *json, char bracket)
{
	putc(bracket, json->out);
	json->comma = true;
}

static bool is_utf8(const uint8_t *bytes, size_t len)
{
	size_t i, n;

	for (i = 0; i < len; i += n) {
		n = utf8_len(bytes + i, len - i);
		if (!n)
			return false;
	}
	return true;
}

void json_hex(struct json *json, const char *name, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	value_begin(json, name);
	fputs("{\"hex\": \"", json->out);
	for (size_t i = 0; i < len; i++)
		fprintf(json->out, "%02x", p[i]);
	fputs("\"}", json->out);
}

void json_bytes(struct json *json, const char *name, const void *bytes, size_t len)
{
	if (!is_utf8(bytes, len)) {
		json_hex(json, name, bytes, len);
		return;
	}
	value_begin(json, name);
	string_print(json, bytes, len);
}

void json_text(struct json *json, const char *name, const char *text)
{
	json_bytes(json, name, text, strlen(text));
}

void json_number(struct json *json, const char *name, uint64_t number)
{
	value_begin(json, name);
	fprintf(json->out, "%" PRIu64, number);
}

void json_double(struct json *json, const char *name, double number, int digits)
{
	if (!isfinite(number)) {
		json_null(json, name);
		return;
	}
	value_begin(json, name);
	fprintf(json->out, "%.*f", digits, number);
}

void json_bool(struct json *json, const char *name, bool is)
{
	value_begin(json, name);
	fputs(is ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *name)
{
	value_begin(json, name);
	fputs("null", json->out);
}

/* "0", "12", "0.5"; not "007", "1.", "-1". */
static bool is_number(const char *word, size_t len)
{
	size_t whole = 0, part;

	while (whole < len && '0' <= word[whole] && word[whole] <= '9')
		whole++;
	if (!whole || len > EXACT_DIGITS_MAX || (word[0] == '0' && whole > 1))
		return false;
	if (whole == len)
		return true;
	for (part = whole + 1; part < len && '0' <= word[part] && word[part] <= '9'; part++)
		;
	return word[whole] == '.' && part == len && len > whole + 1;
}

void json_word(struct json *json, const char *name, const char *word, size_t len)
{
	if (!is_number(word, len)) {
		json_bytes(json, name, word, len);
		return;
	}
	value_begin(json, name);
	fwrite(word, 1, len, json->out);
}

static void word_text(struct json *json, const char *name, const char *word, size_t len)
{
	json_bytes(json, name, word, len);
}

void json_pairs(const char *line, size_t len)
{
	const char *end = line + len;
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	while (line < end && *line != '\n') {
		const size_t word = strcspn(line, " \n"), name_len = strcspn(line, "= \n");
		const size_t from = name_len + (line[name_len] == '=');
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)name_len, line);
		/* A key is text, even if it looks like a number. */
		(strcmp(name, "key") ? json_word : word_text)(&json, name, line + from,
							      word - from);
		line += word;
		line += strspn(line, " ");
	}
	json_close(&json, '}');
	json_end(&json);
}
