/* SPDX-License-Identifier: MIT */
/* The log's thread: a line writer that is the log's sink. */
#include "server/log_writer.h"

#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "server/journal.h"
#include "server/line_writer.h"

static struct line_writer writer;

static void writer_put(const char *line, size_t length)
{
	char entry[JOURNAL_LINE_MAX];

	if (journal_is_open())
		line_writer_put(&writer, entry, journal_line(entry, line, length));
	else
		line_writer_put(&writer, line, length);
}

static ssize_t file_write(const char *lines, size_t length)
{
	if (journal_is_open())
		return journal_write(lines, length);
	return line_write(log_descriptor(), lines, length, LINE_WRITER_WAIT_MS);
}

static size_t say_lost(char line[LOG_LINE_MAX], uint64_t lost)
{
	return log_format(line, LOG_WARN,
			  "log: %llu lines were lost: %s was full or not read for a while",
			  (unsigned long long)lost, *log_file() ? log_file() : "stderr");
}

/* On stderr: the file itself is full. */
static void say_refused(int error)
{
	char line[LOG_LINE_MAX];

	if (!*log_file())
		return;
	line_write(STDERR_FILENO, line,
		   log_format(line, LOG_ERROR,
			      "log.file = %s: can't write to it: %s; lines wait in memory, and are "
			      "lost when that is full (log_lines_lost)",
			      log_file(), strerror(error)),
		   0);
}

/*
 * Writes the new file's first line; if the file takes nothing now, queues it in the ring. The
 * journal is not opened again.
 */
static void reopened(void)
{
	char line[LOG_LINE_MAX];
	size_t length;

	if (!log_enabled(LOG_NOTICE))
		return;
	length = log_format(line, LOG_NOTICE, "SIGHUP: log reopened");
	if (journal_is_open() || line_write(log_descriptor(), line, length, 0) != (ssize_t)length)
		writer_put(line, length);
}

/* Calls no log_error(), which would write to the file directly once the sink is removed. */
static void reopen(void)
{
	char line[LOG_LINE_MAX];
	int err = log_reopen();

	if (!err) {
		reopened();
		return;
	}
	writer_put(line, log_format(line, LOG_ERROR,
				    "SIGHUP: log.file = %s: can't open it: %s; the log goes on in "
				    "the old file",
				    log_file(), strerror(-err)));
	/* On stderr too: the old file may have been removed. Stderr may be a full pipe: no wait. */
	line_write(STDERR_FILENO, line,
		   log_format(line, LOG_ERROR, "log.file = %s: can't open it again: %s", log_file(),
			      strerror(-err)),
		   0);
}

static const struct line_file file = {
	.thread = "log",
	.write = file_write,
	.say_lost = say_lost,
	.say_refused = say_refused,
	.reopen = reopen,
};

int log_writer_start(void)
{
	int err = line_writer_start(&writer, &file);

	if (err) {
		log_error("can't start the log's thread: %s; raise the limit of threads "
			  "(ulimit -u, TasksMax= in the systemd unit)",
			  strerror(-err));
		return err;
	}
	log_set_sink(writer_put);
	return 0;
}

void log_writer_flush(void)
{
	line_writer_flush(&writer);
}

void log_writer_stop(void)
{
	log_set_sink(NULL);
	line_writer_stop(&writer);
}

void log_writer_reopen(void)
{
	line_writer_reopen(&writer);
}

void log_writer_crash(void)
{
	line_writer_crash(&writer);
}

size_t log_writer_read(uint64_t *at, char *text, size_t size)
{
	return line_writer_read(&writer, at, text, size);
}

uint64_t log_writer_lost(void)
{
	return line_writer_lost(&writer);
}
