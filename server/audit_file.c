/* SPDX-License-Identifier: MIT */
/* The audit log's thread: a line writer that is its sink. */
#include "server/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "server/line_writer.h"
#include "server/worker/audit.h"

static const char *audit_path = "";
static int audit_fd = -1;
static struct line_writer writer;

static ssize_t file_write(const char *lines, size_t length)
{
	return line_write(audit_fd, lines, length, LINE_WRITER_WAIT_MS);
}

static size_t say_lost(char line[LOG_LINE_MAX], uint64_t lost)
{
	return audit_lost(line, lost);
}

static void say_refused(int error)
{
	log_error("log.audit = %s: can't write to it: %s; lines wait in memory, and are lost when "
		  "that is full (audit_lines_lost)",
		  audit_path, strerror(error));
}

static void reopen(void)
{
	int fd = log_open(audit_path);

	if (fd < 0 || dup3(fd, audit_fd, O_CLOEXEC) < 0)
		log_error("SIGHUP: log.audit = %s: can't open it: %s; the audit log goes on in the "
			  "old file",
			  audit_path, strerror(fd < 0 ? -fd : errno));
	else
		log_notice("SIGHUP: log.audit reopened");
	if (fd >= 0)
		close(fd);
}

static const struct line_file audit_file = {
	.thread = "audit",
	.write = file_write,
	.say_lost = say_lost,
	.say_refused = say_refused,
	.reopen = reopen,
};

static void writer_put(const char *line, size_t length)
{
	line_writer_put(&writer, line, length);
}

int audit_file_start(const char *path)
{
	int err = 0;

	if (!*path)
		return 0;
	audit_path = path;
	audit_fd = log_open(path);
	if (audit_fd < 0) {
		log_error("log.audit = %s: can't open it: %s; set a path that this user may write "
			  "to, or nothing for no audit log",
			  path, strerror(-audit_fd));
		return audit_fd;
	}
	err = line_writer_start(&writer, &audit_file);
	if (err) {
		log_error("can't start the thread of the audit log: %s: " ADVICE_THREADS,
			  strerror(-err));
		close(audit_fd);
		audit_fd = -1;
		return err;
	}
	audit_set_sink(writer_put);
	return 0;
}

void audit_file_stop(void)
{
	if (audit_fd < 0)
		return;
	audit_set_sink(NULL);
	line_writer_stop(&writer);
	close(audit_fd);
	audit_fd = -1;
}

void audit_file_reopen(void)
{
	if (audit_fd >= 0)
		line_writer_reopen(&writer);
}

void audit_file_crash(void)
{
	line_writer_crash(&writer);
}

uint64_t audit_file_lost(void)
{
	return line_writer_lost(&writer);
}
