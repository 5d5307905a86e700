/* SPDX-License-Identifier: MIT */
/*
 * The thread of a file of lines: takes them from a ring and writes them.
 *
 * A batch stays in the ring until it is written, so that a crashing process finds all unwritten
 * lines there; it may write a batch twice. The lock is held while bytes are copied, never during a
 * system call that may block.
 */
#include "server/line_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/thread.h"

#define BATCH_BYTES LINE_WRITER_LINE_MAX

#define MS_NS 1000000ull

/* One each millisecond. The crashed thread may hold the lock: then nothing is written. */
#define CRASH_LOCK_TRIES 100

static uint64_t do_used(const struct line_writer *writer)
{
	return writer->tail - writer->head;
}

static void do_append(struct line_writer *writer, const char *line, size_t length)
{
	size_t at = writer->tail % LINE_WRITER_BYTES;
	size_t first = length < LINE_WRITER_BYTES - at ? length : LINE_WRITER_BYTES - at;

	memcpy(writer->ring + at, line, first);
	memcpy(writer->ring, line + first, length - first);
	writer->tail += length;
}

/*
 * Copies whole lines from the ring's start, as many as fit; the first may be the rest of a line.
 * Returns the number of bytes.
 */
static size_t do_peek(const struct line_writer *writer, char batch[BATCH_BYTES])
{
	size_t length = do_used(writer) < BATCH_BYTES ? do_used(writer) : BATCH_BYTES;
	size_t at = writer->head % LINE_WRITER_BYTES;
	size_t first = length < LINE_WRITER_BYTES - at ? length : LINE_WRITER_BYTES - at;

	memcpy(batch, writer->ring + at, first);
	memcpy(batch + first, writer->ring, length - first);
	while (length && batch[length - 1] != '\n')
		length--;
	return length;
}

/* Writes how many lines were lost, once half of the ring is free. */
static void do_say_lost(struct line_writer *writer)
{
	char line[LOG_LINE_MAX];

	if (!writer->unsaid || do_used(writer) > LINE_WRITER_BYTES / 2)
		return;
	do_append(writer, line, writer->file->say_lost(line, writer->unsaid));
	writer->unsaid = 0;
	writer->dropping = false;
}

void line_writer_put(struct line_writer *writer, const char *line, size_t length)
{
	bool empty;

	pthread_mutex_lock(&writer->lock);
	empty = do_used(writer) == 0;
	if (do_used(writer) + length > LINE_WRITER_BYTES)
		writer->dropping = true;
	if (writer->dropping) {
		writer->unsaid++;
		atomic_fetch_add_explicit(&writer->lost, 1, memory_order_relaxed);
	} else {
		do_append(writer, line, length);
	}
	pthread_mutex_unlock(&writer->lock);
	if (empty)
		pthread_cond_signal(&writer->wake);
}

static char do_byte(const struct line_writer *writer, uint64_t at)
{
	return writer->ring[at % LINE_WRITER_BYTES];
}

/* Where the first of the last lines begins that are still in the ring. */
static uint64_t do_first(const struct line_writer *writer)
{
	const uint64_t least = writer->tail > LINE_WRITER_BYTES ? writer->tail - LINE_WRITER_BYTES :
								  0;
	uint64_t at = writer->tail, first = writer->tail;

	/* Each line ends in a newline; the oldest one may lack its begin. */
	for (unsigned int lines = 0; at > least && lines <= LINE_WRITER_LAST; at--) {
		if (do_byte(writer, at - 1) != '\n')
			continue;
		first = at;
		lines++;
	}
	return at == 0 && least == 0 ? 0 : first;
}

size_t line_writer_read(struct line_writer *writer, uint64_t *at, char *text, size_t size)
{
	uint64_t first;
	size_t length = 0, whole = 0;

	pthread_mutex_lock(&writer->lock);
	first = do_first(writer);
	if (*at < first)
		*at = first;
	for (; length < size && *at + length < writer->tail; length++) {
		text[length] = do_byte(writer, *at + length);
		if (text[length] == '\n')
			whole = length + 1;
	}
	pthread_mutex_unlock(&writer->lock);
	*at += whole;
	return whole;
}

ssize_t line_write(int fd, const char *batch, size_t length, int wait_ms)
{
	struct pollfd poller = { .fd = fd, .events = POLLOUT };
	ssize_t written;

	if (poll(&poller, 1, wait_ms) <= 0)
		return 0;
	written = write(fd, batch, length);
	return written < 0 ? -errno : written;
}

static void pause_ms(unsigned int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * (long)MS_NS };

	nanosleep(&time, NULL);
}

/* Reports an error, once until the file takes lines again. */
static void say_refused(struct line_writer *writer, ssize_t written)
{
	if (written > 0)
		writer->refused = false;
	if (written >= 0 || written == -EINTR || writer->refused)
		return;
	writer->refused = true;
	writer->file->say_refused((int)-written);
}

/* Writes one batch, or as much of it as the file takes now. False: give up. */
static bool write_batch(struct line_writer *writer, const char *batch, size_t length)
{
	ssize_t written = writer->file->write(batch, length);
	bool go_on;

	say_refused(writer, written);
	pthread_mutex_lock(&writer->lock);
	if (written > 0)
		writer->head += (uint64_t)written;
	go_on = !writer->stopping ||
		((written >= 0 || written == -EINTR) && clock_ns() < writer->until_ns);
	pthread_mutex_unlock(&writer->lock);
	/* The disk may get room, or the pipe a reader. */
	if (written < 0 && written != -EINTR && go_on)
		pause_ms(LINE_WRITER_WAIT_MS);
	return go_on;
}

/* One turn: waits for lines or a request. False: stopping, and all is written or given up. */
static bool writer_turn(struct line_writer *writer)
{
	char batch[BATCH_BYTES];
	bool wants_reopen;
	size_t length;

	pthread_mutex_lock(&writer->lock);
	while (!do_used(writer) && !writer->unsaid && !writer->reopen && !writer->stopping)
		pthread_cond_wait(&writer->wake, &writer->lock);
	wants_reopen = writer->reopen;
	writer->reopen = false;
	do_say_lost(writer);
	length = do_peek(writer, batch);
	pthread_mutex_unlock(&writer->lock);
	if (wants_reopen) {
		writer->file->reopen();
		return true;
	}
	return length && write_batch(writer, batch, length);
}

static void *writer_run(void *arg)
{
	struct line_writer *writer = arg;

	while (writer_turn(writer))
		;
	pthread_mutex_lock(&writer->lock);
	writer->running = false;
	pthread_mutex_unlock(&writer->lock);
	pthread_cond_signal(&writer->ended);
	return NULL;
}

static bool crash_lock(struct line_writer *writer)
{
	for (int tries = 0; tries < CRASH_LOCK_TRIES; tries++) {
		if (!pthread_mutex_trylock(&writer->lock))
			return true;
		pause_ms(1);
	}
	return false;
}

/* Nothing that it calls allocates or waits for another thread, trylock included. */
void line_writer_crash(struct line_writer *writer)
{
	uint64_t until = clock_ns() + LINE_WRITER_FLUSH_MS * MS_NS;
	char batch[BATCH_BYTES];
	ssize_t written = 0;
	size_t length;

	if (crash_lock(writer)) {
		while (written >= 0 && clock_ns() < until && (length = do_peek(writer, batch))) {
			written = writer->file->write(batch, length);
			writer->head += written > 0 ? (uint64_t)written : 0;
		}
	}
	/* The lock stays held: the thread must not count a batch that was written here. */
}

static int start_thread(struct line_writer *writer)
{
	pthread_condattr_t monotonic;
	int err;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writer->wake, &monotonic);
	pthread_cond_init(&writer->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	writer->stopping = writer->dropping = writer->reopen = false;
	writer->refused = false;
	writer->head = writer->tail = writer->unsaid = 0;
	pthread_mutex_lock(&writer->lock);
	err = thread_start(&writer->thread, writer->file->thread, writer_run, writer);
	writer->running = !err;
	pthread_mutex_unlock(&writer->lock);
	return err;
}

static bool is_running(struct line_writer *writer)
{
	bool running;

	pthread_mutex_lock(&writer->lock);
	running = writer->running;
	pthread_mutex_unlock(&writer->lock);
	return running;
}

int line_writer_start(struct line_writer *writer, const struct line_file *file)
{
	if (is_running(writer))
		return -EBUSY;
	writer->file = file;
	return start_thread(writer);
}

/* Whether the thread ended in time. */
static bool await_end(struct line_writer *writer)
{
	/* Twice: once for the file to take the rest, once for the thread to be scheduled. */
	uint64_t until = clock_ns() + 2 * LINE_WRITER_FLUSH_MS * MS_NS;
	const struct timespec time = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };
	bool done;
	int err = 0;

	pthread_mutex_lock(&writer->lock);
	writer->stopping = true;
	writer->until_ns = clock_ns() + LINE_WRITER_FLUSH_MS * MS_NS;
	pthread_cond_signal(&writer->wake);
	while (writer->running && !err)
		err = pthread_cond_timedwait(&writer->ended, &writer->lock, &time);
	done = !writer->running;
	pthread_mutex_unlock(&writer->lock);
	return done;
}

static bool all_written(struct line_writer *writer)
{
	bool empty;

	pthread_mutex_lock(&writer->lock);
	empty = !writer->running || !do_used(writer);
	pthread_mutex_unlock(&writer->lock);
	return empty;
}

void line_writer_flush(struct line_writer *writer)
{
	uint64_t until = clock_ns() + LINE_WRITER_FLUSH_MS * MS_NS;

	while (!all_written(writer) && clock_ns() < until)
		pause_ms(1);
}

void line_writer_stop(struct line_writer *writer)
{
	if (!is_running(writer))
		return;
	if (await_end(writer))
		pthread_join(writer->thread, NULL);
	else
		pthread_detach(writer->thread);
}

void line_writer_reopen(struct line_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->reopen = true;
	pthread_mutex_unlock(&writer->lock);
	pthread_cond_signal(&writer->wake);
}

uint64_t line_writer_lost(const struct line_writer *writer)
{
	return atomic_load_explicit(&writer->lost, memory_order_relaxed);
}
