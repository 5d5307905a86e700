/* SPDX-License-Identifier: MIT */
/*
 * The log's thread: writes the lines of all threads, so that none of them waits for a file or a
 * pipe that takes no more: a worker or the control thread that waits there holds up every client.
 *
 * Lines wait in a ring of LOG_WRITER_BYTES, in their order. When it is full, further lines are lost
 * until half of it was written; then one line says how many. What the file refuses (a full disk) is
 * tried again, and a line on stderr says so once. Nothing is changed at the descriptor: O_NONBLOCK
 * would hold for all processes that share stderr.
 *
 * A process that dies by SIGABRT, SIGSEGV, SIGBUS, SIGFPE or SIGILL first writes what waits; one
 * that is killed by SIGKILL can't.
 */
#ifndef KVD_SERVER_LOG_WRITER_H
#define KVD_SERVER_LOG_WRITER_H

#include <stdint.h>

/* About 1,300 lines of 100 bytes. */
#define LOG_WRITER_BYTES (128u << 10)

/* How long the end of the process waits for the file to take the last lines. */
#define LOG_WRITER_FLUSH_MS 1000u

/*
 * Starts the thread. After log_init() and the last fork(), with those signals blocked that other
 * threads are to take. 0 or, after logging, a negative errno: lines are written directly then.
 */
int log_writer_start(void);

/* Waits until all lines so far are written, for LOG_WRITER_FLUSH_MS at most. Any thread. */
void log_writer_flush(void);

/*
 * Writes what waits, for LOG_WRITER_FLUSH_MS at most, and stops the thread. No other thread may be
 * logging. Nothing if it was not started. A thread that can't be stopped, since it waits inside
 * write(2), is left behind; while it waits there, log_writer_start() returns -EBUSY.
 */
void log_writer_stop(void);

/*
 * Has the thread open the log's file again by its name (log_reopen()), and log that, or the error,
 * which goes to stderr too: the old file may have been removed. Does not wait. Any thread.
 */
void log_writer_reopen(void);

/* Lines lost since the process started. Any thread. */
uint64_t log_writer_lost(void);

#endif /* KVD_SERVER_LOG_WRITER_H */
