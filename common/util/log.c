/* SPDX-License-Identifier: MIT */
/*
 * The log: formats lines and writes them to stderr or a file. The descriptor's number never changes
 * while the log is open: log_reopen() puts the new file under it with dup3(2), which is atomic for
 * a thread that is writing.
 */
#include "common/util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util/text.h"

/* A write that signals interrupted this often is given up. */
#define LOG_WRITE_TRIES_MAX 8

_Atomic int log_threshold = LOG_OFF;

static _Atomic int log_fd = STDERR_FILENO;
static void (*_Atomic log_sink)(const char *line, size_t length);
static void (*_Atomic log_hook)(void *user, enum log_level level, const char *text);
static void *_Atomic log_hook_user;
static _Atomic bool log_echo;
static char log_path[PATH_MAX];

/*
 * Without O_NONBLOCK the open of a FIFO without a reader would not return; with it, open fails with
 * ENXIO. Writes wait as usual.
 */
int log_open(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		      0640);

	if (fd < 0)
		return -errno;
	fcntl(fd, F_SETFL, O_APPEND);
	return fd;
}

static void log_close(void)
{
	int fd = atomic_exchange(&log_fd, STDERR_FILENO);

	if (fd != STDERR_FILENO)
		close(fd);
	log_path[0] = '\0';
}

int log_init(enum log_level level, const char *path)
{
	int fd = STDERR_FILENO;

	if (!path)
		path = "";
	if (strlen(path) >= sizeof(log_path))
		return -ENAMETOOLONG;
	if (*path) {
		fd = log_open(path);
		if (fd < 0)
			return fd;
	}
	log_close();
	strcpy(log_path, path);
	atomic_store(&log_fd, fd);
	log_set_level(level);
	return 0;
}

int log_reopen(void)
{
	int fd, ret = 0;

	if (!log_path[0])
		return 0;
	fd = log_open(log_path);
	if (fd < 0)
		return fd;
	if (dup3(fd, atomic_load(&log_fd), O_CLOEXEC) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

const char *log_file(void)
{
	return log_path;
}

int log_descriptor(void)
{
	return atomic_load(&log_fd);
}

void log_set_sink(void (*sink)(const char *line, size_t length))
{
	atomic_store(&log_sink, sink);
}

void log_set_hook(void (*hook)(void *user, enum log_level level, const char *text), void *user)
{
	atomic_store(&log_hook_user, user);
	atomic_store(&log_hook, hook);
}

void log_echo_errors(bool echo)
{
	atomic_store(&log_echo, echo);
}

void log_release(void)
{
	log_set_level(LOG_OFF);
	log_close();
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_threshold, (int)level, memory_order_relaxed);
}

/* Returns the length, which is less than @room; a zero follows. */
static size_t __attribute__((format(printf, 3, 0)))
format_text(char *text, size_t room, const char *format, va_list args)
{
	int wanted = vsnprintf(text, room, format, args);
	size_t length = wanted < 0 ? 0 : (size_t)wanted;

	if (length >= room) {
		length = room - 1;
		memcpy(text + length - 3, "...", 3);
	}
	text_mask(text, length); /* a peer must not forge a line or control a terminal */
	text[length] = '\0';
	return length;
}

static size_t __attribute__((format(printf, 3, 0)))
format_line(char *line, enum log_level level, const char *format, va_list args)
{
	char text[LOG_LINE_MAX];
	int wanted = vsnprintf(text, sizeof(text), format, args);
	size_t length = wanted < 0 ? 0 : (size_t)wanted;

	/* What was cut here is too long for a line, too, which says so. */
	return log_line(line, level, text, length < sizeof(text) ? length : sizeof(text) - 1);
}

size_t log_format(char line[LOG_LINE_MAX], enum log_level level, const char *format, ...)
{
	size_t length;
	va_list args;

	va_start(args, format);
	length = format_line(line, level, format, args);
	va_end(args);
	return length;
}

static void write_line(int fd, const char *line, size_t length)
{
	for (int tries = 0; tries < LOG_WRITE_TRIES_MAX; tries++)
		if (write(fd, line, length) >= 0 || errno != EINTR)
			return;
}

void log_write(enum log_level level, const char *format, ...)
{
	void (*sink)(const char *line, size_t length) = atomic_load(&log_sink);
	void (*hook)(void *user, enum log_level level, const char *text) = atomic_load(&log_hook);
	int saved_errno = errno;
	char line[LOG_LINE_MAX];
	size_t length;
	va_list args;

	va_start(args, format);
	if (hook)
		length = format_text(line, sizeof(line), format, args);
	else
		length = format_line(line, level, format, args);
	va_end(args);
	if (hook) {
		hook(atomic_load(&log_hook_user), level, line);
		errno = saved_errno;
		return;
	}
	if (level == LOG_ERROR && atomic_load(&log_echo) && log_descriptor() != STDERR_FILENO)
		write_line(STDERR_FILENO, line, length);
	if (sink)
		sink(line, length);
	else
		write_line(log_descriptor(), line, length);
	errno = saved_errno;
}

bool log_limit_pass(struct log_limit *limit, uint32_t per_second, uint32_t now_s,
		    uint32_t *suppressed)
{
	uint64_t old = atomic_load_explicit(&limit->state, memory_order_relaxed);

	*suppressed = 0;
	while ((uint32_t)(old >> 32) != now_s) {
		uint64_t fresh = (uint64_t)now_s << 32 | 1;
		uint32_t count = (uint32_t)old;

		if (!atomic_compare_exchange_weak_explicit(
			    &limit->state, &old, fresh, memory_order_relaxed, memory_order_relaxed))
			continue;
		*suppressed = count > per_second ? count - per_second : 0;
		return per_second > 0;
	}
	old = atomic_fetch_add_explicit(&limit->state, 1, memory_order_relaxed);
	return (uint32_t)old < per_second;
}

bool log_limit_check(struct log_limit *limit, enum log_level level, uint32_t per_second)
{
	struct timespec now;
	uint32_t suppressed;
	bool pass;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	/* + 1: a fresh limit holds second 0. */
	pass = log_limit_pass(limit, per_second, (uint32_t)now.tv_sec + 1, &suppressed);
	if (suppressed)
		log_write(level, "%u lines like the next one were suppressed in one second",
			  suppressed);
	return pass;
}
