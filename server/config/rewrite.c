/* SPDX-License-Identifier: MIT */
/*
 * Edits the text of a configuration file by the numbers of lines that its parser gives, and
 * replaces the file.
 */
#include "server/config/rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/config/option_kinds.h"

/* More than all lines that the parser takes. */
#define FILE_BYTES_MAX (4u << 20)
/* Of a line, as the parser takes it. */
#define LINE_BYTES_MAX 198

/* clang-format off */
enum section_number {
#define S(section) SECTION_##section,
	OPTION_SECTIONS(S)
#undef S
};

static const enum section_number section_of[OPTION_COUNT] = {
#define X(section, key, kind, change, text, min, max, help) SECTION_##section,
	OPTIONS(X)
#undef X
};
/* clang-format on */

/* A file to rewrite, and what is made of it. */
struct rewrite {
	const char *path; /* as config_report() names it */
	const struct config *config;
	bool change[OPTION_COUNT];	  /* the options to write */
	unsigned int after[OPTION_COUNT]; /* the line that a new one follows; 0: none */
	struct config_places places;
	struct stat st; /* of the file as it was read */
	char *text;
	size_t length;
	bool crlf; /* lines end in "\r\n" */
	FILE *out;
	bool line_open; /* what was written last has no end of line */
};

static void file_error(const char *path, const char *what, int err)
{
	config_report(path, 0, "%s: %s", what, strerror(-err));
}

/* The value of an option as text; @text has OPTION_TEXT_MAX bytes. */
static const char *value_text(const struct config *config, unsigned int number, char *text)
{
	const struct config_option *option = &option_table[number];

	return option_format(option, (const char *)config + option->offset, text);
}

static bool is_same(const struct config *a, const struct config *b, unsigned int number)
{
	char a_text[OPTION_TEXT_MAX], b_text[OPTION_TEXT_MAX];

	return !strcmp(value_text(a, number, a_text), value_text(b, number, b_text));
}

/* Writes text of the file as it is, or what is new, with its ends of lines. */
static void copy(struct rewrite *rewrite, const char *text, size_t length)
{
	fwrite(text, 1, length, rewrite->out);
	if (length)
		rewrite->line_open = text[length - 1] != '\n';
}

static void line_end(struct rewrite *rewrite)
{
	copy(rewrite, rewrite->crlf ? "\r\n" : "\n", rewrite->crlf ? 2 : 1);
}

static void line_add(struct rewrite *rewrite, const char *text, size_t length)
{
	if (rewrite->line_open)
		line_end(rewrite);
	copy(rewrite, text, length);
	line_end(rewrite);
}

/* The comment after a value, with the space before it; "" if there is none. @text ends in zero. */
static const char *comment_of(const char *text)
{
	const char *end = text;

	for (const char *at = text; *at; at++) {
		if (*at == ';' && at > text && strchr(" \t", at[-1]))
			return end;
		if (!strchr(" \t", *at))
			end = at + 1;
	}
	return "";
}

static void comment_add(struct rewrite *rewrite, const char *comment)
{
	comment += strspn(comment, " \t");
	if (*comment)
		line_add(rewrite, comment, strlen(comment));
}

/* Writes `key = value` on as many lines as config_print_option() takes. */
static int option_add(struct rewrite *rewrite, unsigned int number, const char *comment)
{
	const struct config_option *option = &option_table[number];
	char text[OPTION_TEXT_MAX], line[LINE_BYTES_MAX + 1];
	char *lines = NULL, *at, *end;
	size_t length;
	FILE *out;
	int n;

	value_text(rewrite->config, number, text);
	n = snprintf(line, sizeof(line), "%s =%s%s%s", option->key, *text ? " " : "", text,
		     comment);
	if (*comment && !option_is_list(option) && n <= LINE_BYTES_MAX) {
		line_add(rewrite, line, (size_t)n);
		return 0;
	}
	comment_add(rewrite, comment);
	out = open_memstream(&lines, &length);
	if (!out)
		return -ENOMEM;
	config_print_option(rewrite->config, number, out);
	if (fclose(out)) {
		free(lines);
		return -ENOMEM;
	}
	for (at = lines; (end = strchr(at, '\n')); at = end + 1)
		line_add(rewrite, at, (size_t)(end - at));
	free(lines);
	return 0;
}

/* The line's text without its end; @line has LINE_BYTES_MAX + 1 bytes. */
static void line_text(char *line, const char *from, size_t length)
{
	while (length && strchr(" \t\r\n\v\f", from[length - 1]))
		length--;
	snprintf(line, LINE_BYTES_MAX + 1, "%.*s", (int)length, from);
}

/* The option whose value has a part on the line, if it changes; or OPTION_COUNT. */
static unsigned int option_on(const struct rewrite *rewrite, unsigned int number)
{
	unsigned int i = 0;

	while (i < OPTION_COUNT &&
	       !(rewrite->change[i] && rewrite->places.first[i] &&
		 rewrite->places.first[i] <= number && number <= rewrite->places.last[i]))
		i++;
	return i;
}

static int line_edit(struct rewrite *rewrite, unsigned int number, const char *from, size_t length)
{
	unsigned int option = option_on(rewrite, number);
	char line[LINE_BYTES_MAX + 1];
	const char *start, *value;
	int err = 0;

	line_text(line, from, length);
	start = line + strspn(line, " \t\v\f");
	if (option == OPTION_COUNT || !*start || strchr(";#", *start)) {
		copy(rewrite, from, length);
	} else if (number == rewrite->places.first[option]) {
		value = strpbrk(line, "=:");
		err = option_add(rewrite, option, comment_of(value ? value + 1 : line));
	} else {
		comment_add(rewrite, comment_of(start));
	}
	for (unsigned int i = 0; !err && i < OPTION_COUNT; i++)
		if (rewrite->change[i] && rewrite->after[i] == number)
			err = option_add(rewrite, i, "");
	return err;
}

static int sections_add(struct rewrite *rewrite)
{
	const char *section = "";
	char line[64];
	int err = 0;

	for (unsigned int i = 0; !err && i < OPTION_COUNT; i++) {
		if (!rewrite->change[i] || rewrite->places.section[section_of[i]])
			continue;
		if (strcmp(section, option_table[i].section) != 0) {
			section = option_table[i].section;
			if (rewrite->length)
				line_add(rewrite, "", 0);
			line_add(rewrite, line,
				 (size_t)snprintf(line, sizeof(line), "[%s]", section));
		}
		err = option_add(rewrite, i, "");
	}
	return err;
}

/* Finds the line that each new option follows. */
static void lines_find(struct rewrite *rewrite)
{
	const struct config_places *places = &rewrite->places;

	for (unsigned int i = 0; i < OPTION_COUNT; i++) {
		if (!rewrite->change[i] || places->first[i])
			continue;
		rewrite->after[i] = places->section[section_of[i]];
		for (unsigned int other = 0; other < OPTION_COUNT; other++)
			if (section_of[other] == section_of[i] &&
			    places->last[other] > rewrite->after[i])
				rewrite->after[i] = places->last[other];
	}
}

static int text_edit(struct rewrite *rewrite)
{
	const char *at = rewrite->text, *end = at + rewrite->length, *next;
	unsigned int number = 0;
	int err = 0;

	next = memchr(at, '\n', rewrite->length);
	rewrite->crlf = next && next > at && next[-1] == '\r';
	lines_find(rewrite);
	for (; !err && at < end; at = next) {
		next = memchr(at, '\n', (size_t)(end - at));
		next = next ? next + 1 : end;
		err = line_edit(rewrite, ++number, at, (size_t)(next - at));
	}
	return err ? err : sections_add(rewrite);
}

/* Reads the whole file. */
static int text_read(struct rewrite *rewrite, const char *path)
{
	FILE *in = fopen(path, "re");
	int err;

	if (!in || fstat(fileno(in), &rewrite->st)) {
		err = -errno;
		file_error(rewrite->path, "cannot read", err);
		goto close;
	}
	err = -EINVAL;
	if (!S_ISREG(rewrite->st.st_mode) || rewrite->st.st_size > FILE_BYTES_MAX) {
		config_report(rewrite->path, 0, "it is not a regular file of less than %u MiB",
			      FILE_BYTES_MAX >> 20);
		goto close;
	}
	err = -ENOMEM;
	rewrite->text = malloc((size_t)rewrite->st.st_size + 1);
	if (!rewrite->text) {
		file_error(rewrite->path, "cannot read", err);
		goto close;
	}
	rewrite->length = fread(rewrite->text, 1, (size_t)rewrite->st.st_size, in);
	err = ferror(in) ? -EIO : 0;
	if (err)
		file_error(rewrite->path, "cannot read", err);
close:
	if (in)
		fclose(in);
	return err;
}

static int folder_error(const struct rewrite *rewrite, const char *folder, int err)
{
	config_report(rewrite->path, 0,
		      "cannot write a new file in its folder, %s: %s: let kvd's user write there, "
		      "and where systemd runs kvd, add ReadWritePaths=%s (systemctl edit kvd)",
		      folder, strerror(-err), folder);
	return err;
}

/* Gives the new file the owner and the mode of the old one. */
static int owner_set(const struct rewrite *rewrite, int fd)
{
	const struct stat *st = &rewrite->st;
	struct stat now;
	int err;

	if (fstat(fd, &now)) {
		err = -errno;
		file_error(rewrite->path, "cannot write a new file", err);
		return err;
	}
	if ((now.st_uid != st->st_uid || now.st_gid != st->st_gid) &&
	    fchown(fd, st->st_uid, st->st_gid)) {
		err = -errno;
		config_report(rewrite->path, 0,
			      "cannot give a new file its owner (uid %u, gid %u): %s: let kvd's "
			      "user own it",
			      st->st_uid, st->st_gid, strerror(-err));
		return err;
	}
	if (!fchmod(fd, st->st_mode & 07777))
		return 0;
	err = -errno;
	file_error(rewrite->path, "cannot set the mode of a new file", err);
	return err;
}

static int file_write(struct rewrite *rewrite, int fd)
{
	FILE *out = fdopen(fd, "w");
	int err;

	if (!out) {
		err = -errno;
		close(fd);
		file_error(rewrite->path, "cannot write a new file", err);
		return err;
	}
	rewrite->out = out;
	err = owner_set(rewrite, fd);
	if (!err) {
		err = text_edit(rewrite);
		if (fflush(out) || fsync(fd))
			err = -errno;
		if (err)
			file_error(rewrite->path, "cannot write a new file", err);
	}
	if (fclose(out) && !err) {
		err = -errno;
		file_error(rewrite->path, "cannot write a new file", err);
	}
	return err;
}

/* Whether the new file is read as it should, and the old one is as it was. */
static int file_verify(const struct rewrite *rewrite, const char *path, const char *fresh,
		       const struct config *before)
{
	struct config read;
	struct stat now;
	int err;

	config_init(&read);
	err = config_load(&read, fresh);
	for (unsigned int i = 0; !err && i < OPTION_COUNT; i++)
		if (!is_same(&read, rewrite->change[i] ? rewrite->config : before, i)) {
			config_report(rewrite->path, 0, "%s.%s cannot be written into it: edit it",
				      option_table[i].section, option_table[i].key);
			err = -EINVAL;
		}
	if (err)
		return err;
	if (!stat(path, &now) && now.st_dev == rewrite->st.st_dev &&
	    now.st_ino == rewrite->st.st_ino && now.st_size == rewrite->st.st_size &&
	    now.st_mtim.tv_sec == rewrite->st.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == rewrite->st.st_mtim.tv_nsec)
		return 0;
	config_report(rewrite->path, 0, "somebody has just changed it: try again");
	return -EAGAIN;
}

static int folder_sync(const struct rewrite *rewrite, const char *folder)
{
	int err = 0, fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd))
		err = -errno;
	if (fd >= 0)
		close(fd);
	/* The file is written, but may be the old one again after the host has crashed. */
	if (err)
		file_error(rewrite->path, "cannot sync its folder", err);
	return err;
}

/* Writes the new file beside the old one at @path, and renames it. */
static int file_replace(struct rewrite *rewrite, const char *path, const struct config *before)
{
	char fresh[PATH_MAX + 16], parent[PATH_MAX];
	const char *folder;
	int err, fd;

	strcpy(parent, path);
	folder = dirname(parent);
	snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path);
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return folder_error(rewrite, folder, -errno);
	err = file_write(rewrite, fd);
	if (!err)
		err = file_verify(rewrite, path, fresh, before);
	if (!err && rename(fresh, path))
		err = folder_error(rewrite, folder, -errno);
	if (err) {
		unlink(fresh);
		return err;
	}
	return folder_sync(rewrite, folder);
}

int config_rewrite(const char *path, const struct config *config, const bool set[OPTION_COUNT],
		   unsigned int *changed)
{
	struct rewrite rewrite = { .path = path, .config = config };
	char real[PATH_MAX];
	struct config before;
	int err;

	*changed = 0;
	if (!realpath(path, real)) {
		err = -errno;
		file_error(path, "cannot read", err);
		return err;
	}
	err = text_read(&rewrite, real);
	config_init(&before);
	if (!err)
		err = config_load_places(&before, path, &rewrite.places);
	for (unsigned int i = 0; !err && i < OPTION_COUNT; i++) {
		rewrite.change[i] = set[i] && !is_same(config, &before, i);
		*changed += rewrite.change[i];
	}
	if (!err && *changed)
		err = file_replace(&rewrite, real, &before);
	free(rewrite.text);
	return err;
}
