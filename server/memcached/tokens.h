/* SPDX-License-Identifier: MIT */
/*
 * Lines of memcached's text protocol in tokens, and tokens as numbers. Only spaces separate tokens:
 * tabs and other control characters belong to them, as in memcached. A zero byte ends the line's
 * text, since memcached takes the line for a string of C; what follows it is dropped.
 */
#ifndef KVD_SERVER_MEMCACHED_TOKENS_H
#define KVD_SERVER_MEMCACHED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* As many as memcached separates; what follows the last is dropped. */
#define MC_TOKENS_MAX 23u

struct mc_token {
	const uint8_t *text;
	uint32_t len;
};

struct mc_tokens {
	uint32_t count;
	struct mc_token token[MC_TOKENS_MAX];
};

static inline bool mc_token_is(const struct mc_token *token, const char *text)
{
	return token->len == strlen(text) && !memcmp(token->text, text, token->len);
}

/* The tokens of a line, without its end. */
void mc_tokens_split(struct mc_tokens *tokens, const uint8_t *line, size_t len);

enum mc_found {
	MC_FOUND_SPACE,	  /* a token, and the space after it */
	MC_FOUND_LAST,	  /* a token that ends its line */
	MC_FOUND_END,	  /* the end of the line */
	MC_FOUND_PARTIAL, /* not the end of a token: more bytes are needed */
	MC_FOUND_LONG,	  /* a token longer than the maximum */
};

/*
 * The first token of a line that need not be whole, of @max bytes at most. *@used: up to the
 * token's end; with PARTIAL and LONG up to its start; with END up to the line's end.
 */
enum mc_found mc_token_find(struct mc_token *token, size_t *used, const uint8_t *text, size_t len,
			    size_t max);

/*
 * Decimal numbers, with a sign or without; false: it is none, or out of range. Stricter than
 * memcached, which ignores a tab and what follows it, and cuts 32-bit numbers to their low bits.
 */
bool mc_token_signed(const struct mc_token *token, int64_t *number);
bool mc_token_unsigned(const struct mc_token *token, uint64_t max, uint64_t *number);

#endif /* KVD_SERVER_MEMCACHED_TOKENS_H */
