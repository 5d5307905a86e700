/* SPDX-License-Identifier: MIT */
#include "common/tls/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/secret.h"

/* The most keys. They are searched one by one: a server with more users uses certificates. */
#define PSKS_MAX 4096

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* NULL, or what is wrong. */
static const char *name_take(struct tls_psk *psk, const char *text, size_t length)
{
	if (!length || length > TLS_PSK_NAME_MAX)
		return "the identity must have 1 to 64 bytes";
	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return "the identity must be printable ASCII without spaces";
	memcpy(psk->name, text, length);
	psk->name[length] = '\0';
	return NULL;
}

static const char *key_take(struct tls_psk *psk, const char *text, size_t length)
{
	if (length % 2 || length < 2 * TLS_PSK_KEY_MIN || length > 2 * TLS_PSK_KEY_MAX)
		return "the key must have 32 to 128 hexadecimal digits, two for each byte";
	for (size_t i = 0; i < length; i += 2) {
		int high = digit(text[i]), low = digit(text[i + 1]);

		if (high < 0 || low < 0)
			return "the key must consist of hexadecimal digits";
		psk->key[i / 2] = (uint8_t)(high << 4 | low);
	}
	psk->key_len = length / 2;
	return NULL;
}

/* The key follows the last ':', since an identity may contain others. */
static const char *line_take(struct tls_psks *psks, const char *line, size_t length)
{
	struct tls_psk *psk = &psks->list[psks->count];
	const char *colon = memrchr(line, ':', length);
	const char *error;

	if (!colon)
		return "write identity:key, the key in hexadecimal digits";
	error = name_take(psk, line, (size_t)(colon - line));
	if (!error)
		error = key_take(psk, colon + 1, (size_t)(line + length - colon - 1));
	if (error)
		return error;
	if (tls_psks_find(psks, psk->name, strlen(psk->name)))
		return "the identity has another key above";
	psks->count++;
	return NULL;
}

static size_t lines_of(const char *text, size_t length)
{
	size_t lines = 1;

	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	return lines;
}

int tls_psks_parse(struct tls_psks *psks, const char *text, size_t length, char *why)
{
	const char *line = text, *end = text + length, *error = NULL;
	size_t number = 0, line_len, lines = lines_of(text, length);

	if (lines > PSKS_MAX + 1)
		lines = PSKS_MAX + 1;
	*psks = (struct tls_psks){ .list = secret_alloc(lines * sizeof(*psks->list)),
				   .room = lines };
	if (!psks->list)
		return -ENOMEM;
	for (line += bom_length(line, length); line < end && !error; line += line_len + 1) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));

		number++;
		line_len = newline ? (size_t)(newline - line) : (size_t)(end - line);
		if (!line_len || *line == '#')
			continue;
		error = psks->count < PSKS_MAX ? line_take(psks, line, line_len) :
						 "there are too many keys: 4096 at most";
	}
	if (!error)
		return 0;
	snprintf(why, TLS_WHY_MAX, "line %zu: %s", number, error);
	return -EINVAL;
}

const struct tls_psk *tls_psks_find(const struct tls_psks *psks, const void *name, size_t length)
{
	for (size_t i = 0; i < psks->count; i++)
		if (strlen(psks->list[i].name) == length &&
		    !memcmp(psks->list[i].name, name, length))
			return &psks->list[i];
	return NULL;
}

void tls_psks_release(struct tls_psks *psks)
{
	secret_free(psks->list, psks->room * sizeof(*psks->list));
	*psks = (struct tls_psks){ 0 };
}
