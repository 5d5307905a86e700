/* SPDX-License-Identifier: MIT */
#include "server/http/exposition.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000u
#define ROOM_MIN 65536u
/* Seconds with nanoseconds. */
#define SECONDS_MAX 32

static bool room_make(struct exposition *out, size_t bytes)
{
	size_t room = out->room ? out->room : ROOM_MIN;
	char *text;

	if (out->failed || bytes <= out->room - out->bytes)
		return !out->failed;
	while (room - out->bytes < bytes)
		room *= 2;
	text = room <= EXPOSITION_BYTES_MAX ? realloc(out->text, room) : NULL;
	if (!text) {
		out->failed = true;
		return false;
	}
	out->text = text;
	out->room = room;
	return true;
}

static void __attribute__((format(printf, 2, 3)))
print(struct exposition *out, const char *format, ...)
{
	char line[EXPOSITION_LABELS_MAX + 2 * EXPOSITION_NAME_MAX + 512];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(line) || !room_make(out, (size_t)n)) {
		out->failed = true;
		return;
	}
	memcpy(out->text + out->bytes, line, (size_t)n);
	out->bytes += (size_t)n;
}

/* Returns the bytes that the character takes in a value between quotes. */
static size_t escape(char c, char escaped[2])
{
	if (c == '"' || c == '\\') {
		escaped[0] = '\\';
		escaped[1] = c;
		return 2;
	}
	escaped[0] = c >= ' ' && c <= '~' ? c : '_';
	return 1;
}

struct labels *label_add(struct labels *labels, const char *name, const char *value)
{
	/* For the comma, the quotes, the brace that ends them and a zero. */
	const size_t room = sizeof(labels->text) - 4;
	size_t at = labels->bytes, length = strlen(name);
	char escaped[2];

	if (at + length + 3 >= room)
		return labels;
	at += (size_t)sprintf(labels->text + at, "%s%s=\"", at ? "," : "", name);
	for (; *value; value++) {
		length = escape(*value, escaped);
		if (at + length > room)
			return labels;
		memcpy(labels->text + at, escaped, length);
		at += length;
	}
	labels->text[at++] = '"';
	labels->bytes = at;
	return labels;
}

struct labels *label_add_number(struct labels *labels, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return label_add(labels, name, text);
}

void exposition_family(struct exposition *out, const char *name, enum metric_type type,
		       const char *help)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };

	snprintf(out->family, sizeof(out->family), "%s", name);
	print(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

static void sample(struct exposition *out, const char *suffix, const struct labels *labels,
		   const char *value)
{
	if (labels && labels->bytes)
		print(out, "%s%s{%.*s} %s\n", out->family, suffix, (int)labels->bytes, labels->text,
		      value);
	else
		print(out, "%s%s %s\n", out->family, suffix, value);
}

static void number(struct exposition *out, const char *suffix, const struct labels *labels,
		   uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	sample(out, suffix, labels, text);
}

/* Without zeros at the end. */
static const char *seconds(uint64_t ns, char text[SECONDS_MAX])
{
	size_t length = (size_t)snprintf(text, SECONDS_MAX, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S,
					 ns % NS_PER_S);

	while (text[length - 1] == '0')
		length--;
	length -= text[length - 1] == '.';
	text[length] = '\0';
	return text;
}

void exposition_number(struct exposition *out, const struct labels *labels, uint64_t value)
{
	number(out, "", labels, value);
}

void exposition_ns(struct exposition *out, const struct labels *labels, uint64_t ns)
{
	char text[SECONDS_MAX];

	sample(out, "", labels, seconds(ns, text));
}

void exposition_one(struct exposition *out, const char *name, enum metric_type type,
		    const char *help, uint64_t value)
{
	exposition_family(out, name, type, help);
	exposition_number(out, NULL, value);
}

void exposition_histogram(struct exposition *out, const struct labels *labels,
			  const uint64_t *bounds_ns, const uint64_t *counts, unsigned int count,
			  uint64_t sum_ns)
{
	char text[SECONDS_MAX];
	uint64_t sum = 0;

	for (unsigned int i = 0; i < count; i++) {
		struct labels bucket = *labels;

		sum += counts[i];
		label_add(&bucket, "le", i + 1 < count ? seconds(bounds_ns[i], text) : "+Inf");
		number(out, "_bucket", &bucket, sum);
	}
	sample(out, "_sum", labels, seconds(sum_ns, text));
	number(out, "_count", labels, sum);
}
