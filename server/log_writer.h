/* SPDX-License-Identifier: MIT */
/*
 * The log's thread: writes the lines of all threads (server/line_writer.h) to the log's file, or to
 * stderr. What is lost is said there, and a file that takes nothing is reported on stderr once.
 *
 * A process that dies by a fatal signal first writes the lines in the ring (server/crash.h); one
 * that is killed by SIGKILL can't.
 */
#ifndef KVD_SERVER_LOG_WRITER_H
#define KVD_SERVER_LOG_WRITER_H

#include <stddef.h>
#include <stdint.h>

/*
 * Starts the thread. Call it after log_init() and the last fork(), with the signals blocked that
 * other threads take. Returns 0 or, after logging, a negative errno: lines are then written
 * directly.
 */
int log_writer_start(void);

/* Waits until all lines so far are written, for LINE_WRITER_FLUSH_MS at most. Any thread. */
void log_writer_flush(void);

/*
 * Writes the lines in the ring, for LINE_WRITER_FLUSH_MS at most, and stops the thread. No other
 * thread may be logging. Does nothing if the thread was not started. A thread that is blocked in
 * write(2) can't be stopped: it is detached, and until it returns log_writer_start() returns
 * -EBUSY.
 */
void log_writer_stop(void);

/*
 * Makes the thread reopen the log's file by name (log_reopen()) and log that, or the error, which
 * goes to stderr too: the old file may have been removed. Does not wait. Any thread.
 */
void log_writer_reopen(void);

/*
 * Writes the lines in the ring, for LINE_WRITER_FLUSH_MS at most, from the handler of a fatal
 * signal, which ends the process: the log's thread writes nothing more.
 */
void log_writer_crash(void);

/* The last lines: line_writer_read(). Any thread. */
size_t log_writer_read(uint64_t *at, char *text, size_t size);

/* Lines lost since the process started. Any thread. */
uint64_t log_writer_lost(void);

#endif /* KVD_SERVER_LOG_WRITER_H */
