/* SPDX-License-Identifier: MIT */
/* Parses and prints keys and values: see key.h. */
#include "client/kvctl/key.h"

#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/json.h"
#include "client/kvctl/words.h"
#include "common/util/text.h"

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at;

	at = strchr(digits, c | ('A' <= c && c <= 'F' ? 0x20 : 0));
	return at && c ? (int)(at - digits) : -1;
}

bool hex_parse(uint8_t *bytes, const char *text, size_t digits)
{
	for (size_t i = 0; i < digits; i += 2) {
		int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	return true;
}

int key_parse(struct key *key, const struct arguments *arguments, const char *word)
{
	const size_t len = word_len(arguments->line, word);

	if (arguments->hex.given) {
		if (!len || len % 2 || len / 2 > KVD_KEY_MAX)
			return usage_error(word, "not 1 to 1024 bytes in hexadecimal");
		key->len = len / 2;
		return hex_parse(key->bytes, word, len) ? EX_OK :
							  usage_error(word, "not hexadecimal");
	}
	if (len < 1 || len > KVD_KEY_MAX)
		return usage_error(word, "a key has 1 to 1024 bytes");
	key->len = len;
	memcpy(key->bytes, word, len);
	return EX_OK;
}

void hex_print(FILE *out, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < len; i++)
		fprintf(out, "%02x", p[i]);
}

static void quoted_print(FILE *out, const uint8_t *bytes, size_t len)
{
	size_t n;

	putc('"', out);
	for (size_t i = 0; i < len; i += n ? n : 1) {
		n = plain_len(bytes + i, len - i);
		if (bytes[i] == '"' || bytes[i] == '\\')
			fprintf(out, "\\%c", bytes[i]);
		else if (bytes[i] == '\n' || bytes[i] == '\t' || bytes[i] == '\r')
			fprintf(out, "\\%c", bytes[i] == '\n' ? 'n' : bytes[i] == '\t' ? 't' : 'r');
		else if (n)
			fwrite(bytes + i, 1, n, out);
		else
			fprintf(out, "\\x%02x", bytes[i]);
	}
	putc('"', out);
}

static void bytes_show(FILE *out, const uint8_t *bytes, size_t len)
{
	bool plain = !len || (*bytes != '"' && *bytes != '\'');
	size_t n;

	for (size_t i = 0; plain && i < len; i += n) {
		n = plain_len(bytes + i, len - i);
		plain = n;
	}
	if (plain)
		fwrite(bytes, 1, len, out);
	else
		quoted_print(out, bytes, len);
}

void key_show(FILE *out, const struct arguments *arguments, const void *key, size_t len)
{
	if (arguments->hex.given)
		hex_print(out, key, len);
	else
		bytes_show(out, key, len);
}

void value_show(FILE *out, const struct arguments *arguments, const void *value, size_t len)
{
	if (arguments->hex_values.given)
		hex_print(out, value, len);
	else
		bytes_show(out, value, len);
}

void key_print(FILE *out, const struct arguments *arguments, const void *key, size_t len)
{
	if (arguments->hex.given)
		hex_print(out, key, len);
	else
		fwrite(key, 1, len, out);
}

void key_json(struct json *json, const struct arguments *arguments, const void *key, size_t len)
{
	(arguments->hex.given ? json_hex : json_bytes)(json, "key", key, len);
}

void value_print(FILE *out, const struct arguments *arguments, const void *value, size_t len)
{
	if (arguments->hex_values.given)
		hex_print(out, value, len);
	else
		fwrite(value, 1, len, out);
}

void value_json(struct json *json, const struct arguments *arguments, const void *value, size_t len)
{
	(arguments->hex_values.given ? json_hex : json_bytes)(json, "value", value, len);
}
