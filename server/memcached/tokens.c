/* SPDX-License-Identifier: MIT */
/* Lines of memcached's text protocol in tokens: see tokens.h. */
#include "server/memcached/tokens.h"

void mc_tokens_split(struct mc_tokens *tokens, const uint8_t *line, size_t len)
{
	size_t at = 0;

	tokens->count = 0;
	while (tokens->count < MC_TOKENS_MAX) {
		size_t start;

		while (at < len && line[at] == ' ')
			at++;
		start = at;
		while (at < len && line[at] != ' ' && line[at])
			at++;
		if (at == start)
			return;
		tokens->token[tokens->count++] = (struct mc_token){ .text = line + start,
								    .len = (uint32_t)(at - start) };
	}
}

/* Whether the text of a line ends at @p, before @end: at \n, at \r\n, or at a zero byte. */
static bool at_line_end(const uint8_t *p, const uint8_t *end)
{
	return *p == '\n' || !*p || (*p == '\r' && end - p > 1 && p[1] == '\n');
}

enum mc_found mc_token_find(struct mc_token *token, size_t *used, const uint8_t *text, size_t len,
			    size_t max)
{
	const uint8_t *end = text + len, *start = text, *p;

	while (start < end && *start == ' ')
		start++;
	*used = (size_t)(start - text);
	/* The byte after a \r says whether it belongs to the token. */
	if ((size_t)(end - start) > max + 2)
		end = start + max + 2;
	p = start;
	while (p < end && (*p > ' ' || (*p != ' ' && !at_line_end(p, end))))
		p++;
	token->text = start;
	token->len = (uint32_t)(p - start);
	if (token->len > max)
		return p < end || token->len == max + 2 ? MC_FOUND_LONG : MC_FOUND_PARTIAL;
	if (p == end)
		return MC_FOUND_PARTIAL;
	if (p == start)
		return MC_FOUND_END;
	*used = (size_t)(p - text);
	return *p == ' ' ? MC_FOUND_SPACE : MC_FOUND_LAST;
}

/* The digits after the sign. */
static bool number_parse(const struct mc_token *token, bool *negative, uint64_t *number)
{
	const uint8_t *p = token->text, *end = p + token->len;

	*negative = p < end && *p == '-';
	p += p < end && (*p == '-' || *p == '+');
	if (p == end)
		return false;
	for (*number = 0; p < end; p++) {
		unsigned int digit = *p - (unsigned int)'0';

		if (digit > 9 || __builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, digit, number))
			return false;
	}
	return true;
}

bool mc_token_signed(const struct mc_token *token, int64_t *number)
{
	uint64_t size;
	bool negative;

	if (!number_parse(token, &negative, &size) || size > INT64_MAX)
		return false;
	*number = negative ? -(int64_t)size : (int64_t)size;
	return true;
}

bool mc_token_unsigned(const struct mc_token *token, uint64_t max, uint64_t *number)
{
	bool negative;

	return number_parse(token, &negative, number) && *number <= max && !(negative && *number);
}
