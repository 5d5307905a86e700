/* SPDX-License-Identifier: MIT */
/*
 * Parses java.util.Properties: see props.h for the syntax. A file is parsed in three steps: logical
 * lines (without comments, continuations joined), key and value of a line, escapes in each.
 */
#include "bench/props.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/text.h"

#define PROPS_FILES_MAX 64

/* The text being read. */
struct reader {
	const char *at;
	const char *end;
	unsigned int line; /* number of the natural line at @at, from 1 */
};

static int fail(struct props *props, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct props *props, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(props->error, sizeof(props->error), format, args);
	va_end(args);
	text_mask(props->error, strlen(props->error));
	return error;
}

void props_init(struct props *props)
{
	memset(props, 0, sizeof(*props));
}

void props_release(struct props *props)
{
	size_t i;

	for (i = 0; i < props->count; i++) {
		free(props->list[i].key);
		free(props->list[i].value);
	}
	for (i = 0; i < props->file_count; i++)
		free(props->files[i]);
	free(props->list);
	free(props->files);
	props_init(props);
}

const struct prop *props_find(const struct props *props, const char *key)
{
	size_t i;

	for (i = 0; i < props->count; i++)
		if (!strcmp(props->list[i].key, key))
			return &props->list[i];
	return NULL;
}

const char *prop_where(const struct prop *prop, char *text, size_t size)
{
	if (prop->line)
		snprintf(text, size, "%s:%u", prop->file, prop->line);
	else
		snprintf(text, size, "%s", prop->file);
	return text;
}

static struct prop *prop_append(struct props *props, const char *key)
{
	struct prop *list, *prop;
	char *copy;

	list = realloc(props->list, (props->count + 1) * sizeof(*list));
	if (!list)
		return NULL;
	props->list = list;
	copy = strdup(key);
	if (!copy)
		return NULL;
	prop = &list[props->count++];
	*prop = (struct prop){ .key = copy };
	return prop;
}

static int prop_put(struct props *props, const char *key, const char *value, const char *file,
		    unsigned int line)
{
	struct prop *prop = (struct prop *)props_find(props, key);
	char *copy;

	if (!prop && props->count == PROPS_MAX)
		return fail(props, -E2BIG, "%s: more than %d properties", file, PROPS_MAX);
	copy = strdup(value);
	if (copy && !prop)
		prop = prop_append(props, key);
	if (!copy || !prop) {
		free(copy);
		return fail(props, -ENOMEM, "%s: out of memory", file);
	}
	free(prop->value);
	prop->value = copy;
	prop->file = file;
	prop->line = line;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\f';
}

static bool is_eol(char c)
{
	return c == '\n' || c == '\r';
}

static void skip_eol(struct reader *reader)
{
	if (reader->at == reader->end)
		return;
	if (*reader->at == '\r' && reader->at + 1 < reader->end && reader->at[1] == '\n')
		reader->at++;
	reader->at++;
	reader->line++;
}

static void skip_blanks(struct reader *reader)
{
	while (reader->at < reader->end && is_blank(*reader->at))
		reader->at++;
}

static void skip_comment(struct reader *reader)
{
	while (reader->at < reader->end && !is_eol(*reader->at))
		reader->at++;
}

/*
 * Appends the rest of the natural line to @out, its end of line consumed. Returns whether a
 * backslash joins the next one to it; that backslash is not in @out.
 */
static bool take_natural_line(struct reader *reader, char **out)
{
	bool escaped = false;

	for (; reader->at < reader->end && !is_eol(*reader->at); reader->at++) {
		escaped = *reader->at == '\\' && !escaped;
		*(*out)++ = *reader->at;
	}
	if (escaped)
		(*out)--;
	skip_eol(reader);
	return escaped;
}

/*
 * Reads the next logical line into @out, which holds as much as the whole text, and ends it with a
 * zero. Returns the number of its first natural line, or 0 at the end.
 */
static unsigned int take_logical_line(struct reader *reader, char *out)
{
	char *start = out;
	unsigned int line = 0;
	bool more = true;

	while (more && reader->at < reader->end) {
		skip_blanks(reader);
		if (reader->at == reader->end)
			break;
		/* A comment may also follow a continuation that has no text yet. */
		if (out == start && (*reader->at == '#' || *reader->at == '!')) {
			skip_comment(reader);
			skip_eol(reader);
			continue;
		}
		if (out == start)
			line = reader->line;
		more = take_natural_line(reader, &out) || out == start;
	}
	*out = '\0';
	return out == start ? 0 : line;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the four digits of \uXXXX at @at. Returns -1 if they are not four or name NUL. */
static int take_unicode(const char *at)
{
	int i, digit, code = 0;

	for (i = 0; i < 4; i++) {
		digit = hex_digit(at[i]);
		if (digit < 0)
			return -1;
		code = code << 4 | digit;
	}
	return code ? code : -1;
}

/* At most 3 bytes, where the escape had 6. */
static char *put_utf8(char *out, int code)
{
	if (code < 0x80) {
		*out++ = (char)code;
	} else if (code < 0x800) {
		*out++ = (char)(0xc0 | code >> 6);
		*out++ = (char)(0x80 | (code & 0x3f));
	} else {
		*out++ = (char)(0xe0 | code >> 12);
		*out++ = (char)(0x80 | (code >> 6 & 0x3f));
		*out++ = (char)(0x80 | (code & 0x3f));
	}
	return out;
}

/* Resolves the escapes in @text in place. Returns 0, or -EINVAL for a bad \uXXXX. */
static int unescape(char *text)
{
	static const char names[] = "tnrf", meanings[] = "\t\n\r\f";
	const char *in = text, *name;
	char *out = text;
	int code;

	while (*in) {
		if (*in != '\\') {
			*out++ = *in++;
			continue;
		}
		in++;
		if (*in == 'u') {
			code = take_unicode(in + 1);
			if (code < 0)
				return -EINVAL;
			out = put_utf8(out, code);
			in += 5;
		} else if (*in) {
			name = strchr(names, *in);
			*out++ = name ? meanings[name - names] : *in;
			in++;
		}
	}
	*out = '\0';
	return 0;
}

/* Cuts @line into key and value; the key is @line itself, the value is returned. */
static char *split(char *line)
{
	char *key_end = line, *value;

	while (*key_end && *key_end != '=' && *key_end != ':' && !is_blank(*key_end))
		key_end += key_end[0] == '\\' && key_end[1] ? 2 : 1;
	value = key_end;
	while (is_blank(*value))
		value++;
	if (*value == '=' || *value == ':')
		value++;
	while (is_blank(*value))
		value++;
	*key_end = '\0';
	return value;
}

static int parse_line(struct props *props, char *line, const char *name, unsigned int number)
{
	char *value = split(line);

	if (unescape(line) || unescape(value))
		return fail(props, -EINVAL,
			    "%s:%u: \\u must be followed by four hex digits, not "
			    "all zero",
			    name, number);
	return prop_put(props, line, value, name, number);
}

static const char *file_name_keep(struct props *props, const char *name)
{
	char **files;
	char *copy;

	if (props->file_count == PROPS_FILES_MAX)
		return NULL;
	files = realloc(props->files, (props->file_count + 1) * sizeof(*files));
	if (!files)
		return NULL;
	props->files = files;
	copy = strdup(name);
	if (copy)
		files[props->file_count++] = copy;
	return copy;
}

int props_parse(struct props *props, const char *text, size_t len, const char *name)
{
	struct reader reader = { .at = text + bom_length(text, len), .end = text + len, .line = 1 };
	unsigned int line;
	char *buffer;
	int error = 0;

	if (memchr(text, 0, len))
		return fail(props, -EINVAL, "%s: not a text file: it holds a zero byte", name);
	name = file_name_keep(props, name);
	buffer = malloc(len + 1);
	if (!name || !buffer) {
		free(buffer);
		return fail(props, -ENOMEM, "more than %d files, or out of memory",
			    PROPS_FILES_MAX);
	}
	while (!error && (line = take_logical_line(&reader, buffer)))
		error = parse_line(props, buffer, name, line);
	free(buffer);
	return error;
}

int props_load(struct props *props, const char *path)
{
	char *text = NULL;
	size_t len;
	FILE *file;
	int error;

	file = fopen(path, "re");
	if (!file)
		return fail(props, -errno, "can't open the property file %s: %s", path,
			    strerror(errno));
	text = malloc(PROPS_FILE_MAX + 1);
	if (!text) {
		error = fail(props, -ENOMEM, "%s: out of memory", path);
		goto close;
	}
	len = fread(text, 1, PROPS_FILE_MAX + 1, file);
	if (ferror(file))
		error = fail(props, -errno, "can't read %s: %s", path, strerror(errno));
	else if (len > PROPS_FILE_MAX)
		error = fail(props, -E2BIG, "%s: larger than %u bytes", path, PROPS_FILE_MAX);
	else
		error = props_parse(props, text, len, path);
	free(text);
close:
	fclose(file);
	return error;
}

int props_set(struct props *props, const char *argument)
{
	const char *equals = strchr(argument, '=');
	char *key;
	int error;

	if (!equals || equals == argument)
		return fail(props, -EINVAL, "-p %s: give key=value", argument);
	key = strndup(argument, (size_t)(equals - argument));
	if (!key)
		return fail(props, -ENOMEM, "-p %s: out of memory", argument);
	error = prop_put(props, key, equals + 1, "-p", 0);
	free(key);
	return error;
}
