/* SPDX-License-Identifier: MIT */
#include "server/memcached/ahead.h"

#include <string.h>

#include "common/layout.h"
#include "server/store/store.h"

/* Where the next get's first key begins, if its line does at @text; NULL: it does not. */
static const uint8_t *line_keys(const uint8_t *text, const uint8_t *end)
{
	return end - text > 4 && !memcmp(text, "get ", 4) ? text + 4 : NULL;
}

/* The key at @text, of *@len bytes. Returns what follows it; NULL: no whole key is there. */
static const uint8_t *key_end(const uint8_t *text, const uint8_t *end, uint32_t *len)
{
	const uint8_t *at = text;

	while (at < end && *at != ' ' && *at != '\r' && *at != '\n')
		at++;
	*len = (uint32_t)(at - text);
	return at < end && *len && *len <= KEY_MAX ? at : NULL;
}

/* What is found wrong here is found again when the command is decoded. */
void ahead_look(struct ahead *ahead, const struct table *table, const uint8_t *text, size_t len,
		bool more)
{
	const uint8_t *end = text + len, *at;
	uint32_t key_len;
	uint64_t hash;

	ahead_reset(ahead);
	while (text && ahead->count < AHEAD_MAX) {
		if (!more)
			text = line_keys(text, end);
		while (text && text < end && *text == ' ')
			text++;
		at = text ? key_end(text, end, &key_len) : NULL;
		if (!at)
			break;
		hash = table_hash(table, text, key_len);
		table_prefetch_bucket(table, hash);
		ahead->keys[ahead->count].key = text;
		ahead->keys[ahead->count++].hash = hash;
		more = *at == ' ';
		text = at + 1 + (*at == '\r');
	}
	for (unsigned int i = 0; i < ahead->count; i++)
		table_prefetch_item(table, ahead->keys[i].hash);
}
