/* SPDX-License-Identifier: MIT */
/*
 * A thread that writes the lines of all threads to a file, so that none of them waits for a file or
 * a pipe that takes no more: a worker or the control thread that waits would hold up every client.
 *
 * Lines wait in a ring of LINE_WRITER_BYTES, in order. When it is full, further lines are lost
 * until half of it is written; then one line says how many. A failed write (a full disk) is
 * retried, and reported once. The descriptor's flags stay: O_NONBLOCK would affect all processes
 * that share stderr.
 */
#ifndef KVD_SERVER_LINE_WRITER_H
#define KVD_SERVER_LINE_WRITER_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/log.h"

/* About 1,300 lines of 100 bytes. */
#define LINE_WRITER_BYTES (128u << 10)

/* A pipe takes this much in one piece whenever poll(2) reports it writable. */
#define LINE_WRITER_LINE_MAX PIPE_BUF

/* How long to wait for a file that takes nothing before checking for a stop or a reopen. */
#define LINE_WRITER_WAIT_MS 100

/* How long the end of the process waits for the file to take the last lines. */
#define LINE_WRITER_FLUSH_MS 1000u

/* The file. The thread calls all of these. */
struct line_file {
	const char *thread; /* its name */
	/*
	 * Writes what the file takes of the lines of @length bytes, and waits for it for
	 * LINE_WRITER_WAIT_MS at most. Returns how many bytes; 0: none, or a negative errno.
	 * Handlers of signals may call it.
	 */
	ssize_t (*write)(const char *lines, size_t length);
	/* Makes the line that says how many were lost; the lock is held. Returns its length. */
	size_t (*say_lost)(char line[LOG_LINE_MAX], uint64_t lost);
	/* The file took nothing, with that errno. */
	void (*say_refused)(int error);
	void (*reopen)(void);
};

/* One of all zero is stopped: in .bss, the ring takes no place in the program's file. */
struct line_writer {
	const struct line_file *file;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;  /* the thread: there is a line, or something to do */
	pthread_cond_t ended;
	bool running;
	bool stopping;
	bool reopen;
	bool dropping;	   /* the ring was full, and is not half empty yet */
	uint64_t unsaid;   /* lost lines that the file does not report yet */
	uint64_t head;	   /* bytes written since the start; the ring's first byte */
	uint64_t tail;	   /* bytes put in */
	uint64_t until_ns; /* stopping: give up then */
	char ring[LINE_WRITER_BYTES];
	_Atomic uint64_t lost; /* read without the lock */
	bool refused;	       /* the thread's: the error of the file was reported */
	pthread_t thread;
};

/*
 * Starts the thread for @file, which must stay. After the last fork(), with the signals blocked
 * that other threads take. Returns 0 or a negative errno; -EBUSY: it runs, or still waits for its
 * file.
 */
int line_writer_start(struct line_writer *writer, const struct line_file *file);

/* Puts a whole line, of LINE_WRITER_LINE_MAX at most, into the ring. Any thread. */
void line_writer_put(struct line_writer *writer, const char *line, size_t length);

/* Lines that line_writer_read() finds at most. */
#define LINE_WRITER_LAST 256u

/*
 * Copies the last lines, written or not, to @text, as many whole lines as fit into @size. *@at is 0
 * to begin with the first of them, and becomes the place of the next line. Returns the bytes; 0:
 * there are no more. Any thread.
 */
size_t line_writer_read(struct line_writer *writer, uint64_t *at, char *text, size_t size);

/* Waits until all lines so far are written, for LINE_WRITER_FLUSH_MS at most. Any thread. */
void line_writer_flush(struct line_writer *writer);

/*
 * Writes the lines in the ring, for LINE_WRITER_FLUSH_MS at most, and stops the thread. No other
 * thread may put lines. Does nothing if the thread was not started. A thread that is blocked in
 * write(2) can't be stopped: it is detached.
 */
void line_writer_stop(struct line_writer *writer);

/* Makes the thread call file->reopen(). Does not wait. Any thread. */
void line_writer_reopen(struct line_writer *writer);

/*
 * Writes the lines in the ring, for LINE_WRITER_FLUSH_MS at most, from the handler of a fatal
 * signal, which ends the process: the thread writes nothing more.
 */
void line_writer_crash(struct line_writer *writer);

/* Lines lost since the process started. Any thread. */
uint64_t line_writer_lost(const struct line_writer *writer);

/*
 * Waits for @wait_ms until @fd takes bytes, and writes. Returns how many; 0: none, or a negative
 * errno.
 */
ssize_t line_write(int fd, const char *batch, size_t length, int wait_ms);

#endif /* KVD_SERVER_LINE_WRITER_H */
