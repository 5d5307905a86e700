/* SPDX-License-Identifier: MIT */
/*
 * The log: one line per event, to stderr or a file. common/util/log_line.h has what it looks like.
 *
 * Threads: any thread may log at any time, log_set_level() and log_reopen() included. A line is one
 * write(2) on an O_APPEND descriptor, so lines never mix and no lock is taken. That write may
 * block, for example on a pipe without a reader: so kvd gives its lines to a thread instead
 * (log_set_sink(), server/log_writer.h).
 *
 * The log is silent (LOG_OFF) until log_init() or log_set_level(): libkvd contains this code and
 * must not write to the stderr of the program that it is linked into.
 */
#ifndef KVD_COMMON_UTIL_LOG_H
#define KVD_COMMON_UTIL_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/log_line.h"

/*
 * Starts logging to the file at path, created 0640 if need be; NULL or "" is stderr. Returns 0 or a
 * negative errno; a failure changes nothing.
 */
int log_init(enum log_level level, const char *path);

/*
 * Opens a file for lines, created 0640 if need be. Does not wait for the reader of a FIFO: -ENXIO.
 * Returns the descriptor or a negative errno.
 */
int log_open(const char *path);

/*
 * Opens the file again by its name, after it was renamed. Lines of other threads go to the old file
 * or to the new one; none is lost. Returns 0 or a negative errno (the old file stays open).
 */
int log_reopen(void);

/* The path of the file; "" for stderr. */
const char *log_file(void);

/* What lines are written to. The number stays the same until log_release(). */
int log_descriptor(void);

/*
 * From now on @sink gets each line, which ends in a newline, instead of the file; it may be called
 * by any thread. NULL: the file again.
 */
void log_set_sink(void (*sink)(const char *line, size_t length));

/*
 * From now on @hook gets the text of each line, without time, level and newline, and nothing else
 * is written; NULL: no more. Before other threads log.
 */
void log_set_hook(void (*hook)(void *user, enum log_level level, const char *text), void *user);

/*
 * While @echo, errors are written to stderr, too, if the log is a file: the user who starts a
 * server looks there, and may not know the file. Such a write may block.
 */
void log_echo_errors(bool echo);

/* Closes the file and goes silent. No other thread may be logging. */
void log_release(void);

void log_set_level(enum log_level level);

extern _Atomic int log_threshold;

static inline bool log_enabled(enum log_level level)
{
	return level != LOG_OFF &&
	       (int)level <= atomic_load_explicit(&log_threshold, memory_order_relaxed);
}

/*
 * Writes one line. Control characters, and bytes that are not UTF-8, become '?'; errno is kept, and
 * %m may be used.
 */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Makes a line as log_write() does, and does not write it. Returns its length, newline included;
 * there is no zero at its end.
 */
size_t log_format(char line[LOG_LINE_MAX], enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if (log_enabled(level))                                                            \
			log_write((level), __VA_ARGS__);                                           \
	} while (0)

#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_notice(...) log_at(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

/* A second and the number of events in it, in one word so that threads need no lock. */
struct log_limit {
	_Atomic uint64_t state;
};

/*
 * Counts one event at second now_s. True if it is among the first per_second events of its second.
 * *suppressed is how many were suppressed in the last second that had events, if this event is the
 * first of a new second; else 0.
 */
bool log_limit_pass(struct log_limit *limit, uint32_t per_second, uint32_t now_s,
		    uint32_t *suppressed);

/* log_limit_pass() by the monotonic clock; first logs how many lines the last second suppressed. */
bool log_limit_check(struct log_limit *limit, enum log_level level, uint32_t per_second);

/* For events that a peer can cause: at most per_second lines a second from this line of code. */
#define log_ratelimited(level, per_second, ...)                                                    \
	do {                                                                                       \
		static struct log_limit log_limit_here_;                                           \
		if (log_enabled(level) &&                                                          \
		    log_limit_check(&log_limit_here_, (level), (per_second)))                      \
			log_write((level), __VA_ARGS__);                                           \
	} while (0)

/* Advice for messages of the server: how to raise the limits of its process. */

/* For EMFILE. */
#define ADVICE_OPEN_FILES                                                                          \
	"raise the limit on open files (`ulimit -n` in the shell that starts kvd, LimitNOFILE= "   \
	"in its systemd unit)"

/* For ENOMEM of an RDMA device. */
#define ADVICE_LOCKED_MEMORY                                                                       \
	"raise the limit on locked memory (`ulimit -l` in the shell that starts kvd, "             \
	"LimitMEMLOCK= in its systemd unit)"

/* For EAGAIN of pthread_create(). */
#define ADVICE_THREADS                                                                             \
	"raise the limit on threads (`ulimit -u` in the shell that starts kvd, TasksMax= in its "  \
	"systemd unit)"

#endif /* KVD_COMMON_UTIL_LOG_H */
