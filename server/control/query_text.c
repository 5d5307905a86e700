/* SPDX-License-Identifier: MIT */
/* Prints an answer, or copies a part of a text. */
#include "server/control/query_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void query_say(struct query *query, enum wire_status status, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(query->text, query->size, format, args);
	va_end(args);
	query->status = status;
	query->len = n < (int)query->size ? (uint32_t)n : query->size - 1;
}

uint64_t query_page(struct query *query, const char *text, uint64_t bytes, uint64_t at)
{
	const uint64_t rest = at < bytes ? bytes - at : 0;

	query->len = rest < query->size ? (uint32_t)rest : query->size;
	memcpy(query->text, text + (bytes - rest), query->len);
	return query->len < rest ? at + query->len : 0;
}
