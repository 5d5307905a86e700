/* SPDX-License-Identifier: MIT */
#include "server/memcached/ahead.h"

#include <string.h>

#include "common/layout.h"
#include "server/memcached/tokens.h"
#include "server/store/store.h"

/* Where the next get's first key begins, if its line does at @text; NULL: it does not. */
static const uint8_t *line_keys(const uint8_t *text, const uint8_t *end)
{
	return end - text > 4 && !memcmp(text, "get ", 4) ? text + 4 : NULL;
}

/*
 * The key at @text, as the parser finds it: another length would be another hash. Returns what
 * follows it; NULL: no whole key is there.
 */
static const uint8_t *key_find(struct mc_token *key, const uint8_t *text, const uint8_t *end)
{
	size_t used;
	enum mc_found found = mc_token_find(key, &used, text, (size_t)(end - text), KEY_MAX);

	return found == MC_FOUND_SPACE || found == MC_FOUND_LAST ? text + used : NULL;
}

/* What is found wrong here is found again when the command is decoded. */
void ahead_look(struct ahead *ahead, const struct table *table, const uint8_t *text, size_t len,
		bool more)
{
	const uint8_t *end = text + len, *at;
	struct mc_token key;
	uint64_t hash;

	ahead_reset(ahead);
	while (text && ahead->count < AHEAD_MAX) {
		if (!more)
			text = line_keys(text, end);
		at = text ? key_find(&key, text, end) : NULL;
		if (!at)
			break;
		hash = table_hash(table, key.text, key.len);
		table_prefetch_bucket(table, hash);
		ahead->keys[ahead->count].key = key.text;
		ahead->keys[ahead->count].len = key.len;
		ahead->keys[ahead->count++].hash = hash;
		more = *at == ' ';
		/* After a zero byte the rest of the line is dropped. */
		text = *at ? at + 1 + (*at == '\r') : NULL;
	}
	for (unsigned int i = 0; i < ahead->count; i++)
		table_prefetch_item(table, ahead->keys[i].hash);
}
