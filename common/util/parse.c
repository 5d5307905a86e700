/* SPDX-License-Identifier: MIT */
/*
 * Parsing and printing numbers with units: digits, then at most one unit from a table. See parse.h.
 */
#include "common/util/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* No valid number is longer; longer texts are cut in messages. */
#define SHOWN_TEXT_MAX 40

struct unit {
	const char *name;
	uint64_t factor;
};

/* Largest first: format_with() takes the first that divides the value. */
static const struct unit size_units[] = {
	{ "t", 1ull << 40 }, { "g", 1ull << 30 }, { "m", 1ull << 20 },
	{ "k", 1ull << 10 }, { "", 1 },		  { NULL, 0 },
};

static const struct unit time_units[] = {
	{ "h", 3600000000000ull },
	{ "m", 60000000000ull },
	{ "s", 1000000000ull },
	{ "ms", 1000000ull },
	{ "us", 1000ull },
	{ "ns", 1 },
	{ NULL, 0 },
};

static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };

static int refuse(struct parse_why *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(struct parse_why *why, int error, const char *format, ...)
{
	va_list args;

	if (why) {
		va_start(args, format);
		vsnprintf(why->text, sizeof(why->text), format, args);
		va_end(args);
	}
	return error;
}

static const char *format_with(const struct unit *units, uint64_t value, char *buffer)
{
	const struct unit *unit = units;

	while (value % unit->factor)
		unit++;
	if (value)
		snprintf(buffer, PARSE_FORMAT_MAX, "%" PRIu64 "%s", value / unit->factor,
			 unit->name);
	else
		strcpy(buffer, "0");
	return buffer;
}

const char *format_size(uint64_t bytes, char *buffer)
{
	return format_with(size_units, bytes, buffer);
}

const char *show_size(uint64_t bytes, char *buffer)
{
	const struct unit *unit = size_units;
	uint64_t whole, tenths;

	while (unit->factor > 1 && bytes < unit->factor)
		unit++;
	whole = bytes / unit->factor;
	tenths = bytes % unit->factor * 10 / unit->factor;
	if (unit->factor == 1)
		snprintf(buffer, PARSE_FORMAT_MAX, "%" PRIu64 " byte%s", whole,
			 whole == 1 ? "" : "s");
	else if (bytes % unit->factor)
		snprintf(buffer, PARSE_FORMAT_MAX, "%" PRIu64 ".%" PRIu64 " %ciB", whole, tenths,
			 toupper(*unit->name));
	else
		snprintf(buffer, PARSE_FORMAT_MAX, "%" PRIu64 " %ciB", whole, toupper(*unit->name));
	return buffer;
}

const char *format_time(uint64_t ns, char *buffer)
{
	return format_with(time_units, ns, buffer);
}

static uint64_t unit_factor(const struct unit *units, const char *name)
{
	for (; units->name; units++)
		if (strcasecmp(units->name, name) == 0)
			return units->factor;
	return 0;
}

/* Reads leading digits. Returns what follows them, or NULL if there are none. */
static const char *read_digits(const char *text, uint64_t *number, bool *overflow)
{
	const char *at = text;

	*number = 0;
	*overflow = false;
	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*at - '0'), number))
			*overflow = true;
	return at == text ? NULL : at;
}

/* How one kind of number is written: its units, and its name in messages. */
struct form {
	const struct unit *units;
	const char *what;
};

static int parse_number(const struct form *form, const char *text, uint64_t min, uint64_t max,
			uint64_t *value, struct parse_why *why)
{
	char low[PARSE_FORMAT_MAX], high[PARSE_FORMAT_MAX];
	uint64_t number, factor = 0;
	const char *unit;
	bool overflow;

	unit = read_digits(text, &number, &overflow);
	if (unit)
		factor = unit_factor(form->units, unit);
	/* Zero is zero in every unit. */
	if (unit && !*unit && number == 0 && !overflow)
		factor = 1;
	if (!factor)
		return refuse(why, -EINVAL, "'%.*s' is not %s", SHOWN_TEXT_MAX, text, form->what);
	if (overflow || __builtin_mul_overflow(number, factor, &number) || number < min ||
	    number > max)
		return refuse(why, -ERANGE, "'%.*s' is out of range: give %s to %s", SHOWN_TEXT_MAX,
			      text, format_with(form->units, min, low),
			      format_with(form->units, max, high));
	*value = number;
	return 0;
}

int parse_uint(const char *text, uint64_t min, uint64_t max, uint64_t *value, struct parse_why *why)
{
	static const struct form form = { no_units, "a whole number: give digits only" };

	return parse_number(&form, text, min, max, value, why);
}

int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *bytes, struct parse_why *why)
{
	static const struct form form = {
		size_units, "a size: give bytes, or a whole number with k, m, g or t, like 64m"
	};

	return parse_number(&form, text, min, max, bytes, why);
}

int parse_time(const char *text, uint64_t min, uint64_t max, uint64_t *ns, struct parse_why *why)
{
	static const struct form form = {
		time_units, "a time: give a whole number with ns, us, ms, s, m or h, like 500ms"
	};

	return parse_number(&form, text, min, max, ns, why);
}

/* The name of the unit is the text of format_time() after the 1. */
int parse_duration(const char *text, uint64_t unit_ns, uint64_t min, uint64_t max, uint64_t *units,
		   struct parse_why *why)
{
	char with_unit[SHOWN_TEXT_MAX + PARSE_FORMAT_MAX], unit[PARSE_FORMAT_MAX];
	uint64_t ns;
	int ret;

	format_time(unit_ns, unit);
	if (*text && !text[strspn(text, "0123456789")] && strlen(text) < SHOWN_TEXT_MAX) {
		snprintf(with_unit, sizeof(with_unit), "%s%s", text, unit + 1);
		text = with_unit;
	}
	ret = parse_time(text, min * unit_ns, max * unit_ns, &ns, why);
	if (ret)
		return ret;
	if (ns % unit_ns)
		return refuse(why, -EINVAL, "'%.*s' is not a multiple of %s", SHOWN_TEXT_MAX, text,
			      unit);
	*units = ns / unit_ns;
	return 0;
}

int parse_mode(const char *text, uint32_t *mode, struct parse_why *why)
{
	size_t digits = strspn(text, "01234567");
	uint32_t bits = 0;

	if (digits == 0 || text[digits])
		return refuse(why, -EINVAL, "'%.*s' is not a mode: give octal digits, like 0660",
			      SHOWN_TEXT_MAX, text);
	for (size_t i = 0; i < digits; i++) {
		bits = bits << 3 | (uint32_t)(text[i] - '0');
		if (bits > 0777)
			return refuse(why, -ERANGE, "'%.*s' is out of range: give 0 to 0777",
				      SHOWN_TEXT_MAX, text);
	}
	*mode = bits;
	return 0;
}

size_t bom_length(const char *text, size_t length)
{
	static const char bom[3] = { '\xef', '\xbb', '\xbf' };

	return length >= sizeof(bom) && !memcmp(text, bom, sizeof(bom)) ? sizeof(bom) : 0;
}

int parse_bool(const char *text, bool *value, struct parse_why *why)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*value = i & 1;
			return 0;
		}
	}
	return refuse(why, -EINVAL, "'%.*s' is neither: give yes or no", SHOWN_TEXT_MAX, text);
}
