/* SPDX-License-Identifier: MIT */
/*
 * kvctl debug dump: an archive for a report of a bug. It has what the server says of itself, and
 * neither keys nor values nor secrets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/doctor.h"
#include "client/kvctl/error.h"
#include "client/kvctl/report.h"
#include "client/kvctl/tar.h"

#define REPORT_BYTES (1u << 20)
#define CLIENTS_BYTES (32u << 20) /* 256 for each connection, at the most that a server takes */

struct debug {
	struct kvd *db;
	const struct arguments *arguments;
	struct tar tar;
	char folder[40]; /* in the archive */
	FILE *errors;	 /* what the archive lacks, and why */
	char *text;	 /* CLIENTS_BYTES */
};

static void file_add(struct debug *debug, const char *name, const char *text, size_t len)
{
	char path[TAR_NAME_BYTES];

	snprintf(path, sizeof(path), "%s/%s", debug->folder, name);
	tar_add(&debug->tar, path, text, len);
}

/* Adds the file, of which a call of libkvd has written @len bytes, or why it has failed. */
static void answer_add(struct debug *debug, const char *name, enum kvd_status status, size_t len)
{
	if (status)
		fprintf(debug->errors, "%s: %s\n", name, kvd_error(debug->db));
	else
		file_add(debug, name, debug->text, len);
}

static void report_add(struct debug *debug, const char *name, enum kvd_report what)
{
	size_t len = 0;
	enum kvd_status status = kvd_server_report(debug->db, what, debug->text, REPORT_BYTES,
						   &len);

	answer_add(debug, name, status, len);
}

static void config_add(struct debug *debug)
{
	size_t len = 0;
	enum kvd_status status = kvd_config_get(debug->db, debug->text, REPORT_BYTES, &len);

	answer_add(debug, "config", status, len);
}

static void clients_add(struct debug *debug)
{
	size_t len = 0;
	enum kvd_status status = kvd_client_list(debug->db, debug->text, CLIENTS_BYTES, &len);

	answer_add(debug, "clients", status, len);
}

static void stats_add(struct debug *debug)
{
	size_t len = 0;
	enum kvd_status status = kvd_server_stats(debug->db, debug->text, REPORT_BYTES, &len);

	answer_add(debug, "stats", status, len);
}

/* A line's key is its last pair. */
static size_t keys_remove(char *text)
{
	char *to = text;

	for (const char *line = text, *key, *end; *line; line = end) {
		end = line + strcspn(line, "\n");
		key = memmem(line, (size_t)(end - line), " key=", 5);
		for (; line < (key ? key : end); line++)
			*to++ = *line;
		if (*end)
			*to++ = *end++;
	}
	*to = '\0';
	return (size_t)(to - text);
}

static void slowlog_add(struct debug *debug)
{
	enum kvd_status status = kvd_server_report(debug->db, KVD_REPORT_SLOW, debug->text,
						   REPORT_BYTES, NULL);

	answer_add(debug, "slowlog", status, status ? 0 : keys_remove(debug->text));
}

/* Adds what @write prints. */
static void print_add(struct debug *debug, const char *name,
		      void (*write)(const struct debug *debug, FILE *out))
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (out)
		write(debug, out);
	if (out && !fclose(out))
		file_add(debug, name, text, len);
	else
		fprintf(debug->errors, "%s: %s\n", name, strerror(ENOMEM));
	free(text);
}

static void doctor_write(const struct debug *debug, FILE *out)
{
	static struct findings findings;

	(void)doctor_look(&findings, debug->arguments->server, debug->arguments);
	findings_print(&findings, out);
}

/* Of this host; the server's are in `stats` and `process`. */
static void client_write(const struct debug *debug, FILE *out)
{
	struct utsname host;

	fprintf(out, "kvctl and libkvd %s\nserver %s\n", kvd_version(), debug->arguments->server);
	if (!uname(&host))
		fprintf(out, "kernel %s %s %s %s\n", host.sysname, host.release, host.version,
			host.machine);
}

static void all_add(struct debug *debug)
{
	print_add(debug, "client", client_write);
	config_add(debug);
	report_add(debug, "process", KVD_REPORT_PROCESS);
	report_add(debug, "log", KVD_REPORT_LOG);
	stats_add(debug);
	clients_add(debug);
	slowlog_add(debug);
	print_add(debug, "doctor", doctor_write);
}

/* Writes the archive to @fd, and closes that. Returns an exit status. */
static int archive_write(struct debug *debug, int fd, const char *name)
{
	char *errors = NULL;
	size_t len = 0;
	bool done;

	debug->errors = open_memstream(&errors, &len);
	if (!debug->errors || !tar_open(&debug->tar, fd, time(NULL))) {
		if (debug->errors)
			fclose(debug->errors);
		free(errors);
		close(fd);
		return report_memory();
	}
	all_add(debug);
	if (!fclose(debug->errors) && len) {
		file_add(debug, "errors", errors, len);
		report_error("%s lacks something:\n%.*s", name, (int)len - 1, errors);
	}
	free(errors);
	done = tar_close(&debug->tar);
	if (!done)
		report_error("%s: can't write it: %s", name, strerror(errno));
	return done ? EX_OK : EX_IOERR;
}

/* The file is for its owner alone, as it has names and addresses of clients. */
static int file_write(struct debug *debug, const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), code;

	if (fd < 0) {
		report_error("%s: can't create it: %s", name, strerror(errno));
		return EX_IOERR;
	}
	code = archive_write(debug, fd, name);
	if (code)
		unlink(name);
	else
		printf("%s\n", name);
	return code;
}

static int dump(struct debug *debug)
{
	const struct arguments *arguments = debug->arguments;
	char name[sizeof(debug->folder) + sizeof(".tar.gz")];
	int fd;

	if (!arguments->output.given) {
		snprintf(name, sizeof(name), "%s.tar.gz", debug->folder);
		return file_write(debug, name);
	}
	if (strcmp(arguments->output.text, "-") != 0)
		return file_write(debug, arguments->output.text);
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		report_error("standard output: %s", strerror(errno));
		return EX_IOERR;
	}
	return archive_write(debug, fd, "the archive");
}

int command_debug(struct kvd *db, const struct arguments *arguments)
{
	struct debug debug = { .db = db, .arguments = arguments };
	const time_t now = time(NULL);
	enum kvd_status status;
	struct tm tm;
	int code;

	if (strcmp(arguments->words[0], "dump") != 0)
		return usage_error(arguments->words[0], "dump");
	gmtime_r(&now, &tm);
	strftime(debug.folder, sizeof(debug.folder), "kvd-debug-%Y%m%dT%H%M%SZ", &tm);
	debug.text = malloc(CLIENTS_BYTES);
	if (!debug.text)
		return report_memory();
	/* Of a user without the right there would be hardly anything. */
	status = kvd_config_get(db, debug.text, REPORT_BYTES, NULL);
	code = status == KVD_ERR_NOT_ALLOWED ? report(db, status) : dump(&debug);
	free(debug.text);
	return code;
}
