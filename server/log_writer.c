/* SPDX-License-Identifier: MIT */
/*
 * The log's thread: takes lines from a ring and writes them.
 *
 * A batch stays in the ring until it is written, so that a crashing process finds all unwritten
 * lines there; it may write a batch twice. The lock is held while bytes are copied, never during a
 * system call that may block.
 */
#include "server/log_writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/thread.h"

/* A pipe takes this much in one piece whenever poll(2) reports it writable. */
#define BATCH_BYTES PIPE_BUF

/* How long to wait for a file that takes nothing before checking for a stop or a reopen. */
#define WAIT_MS 100

#define MS_NS 1000000ull

/* One each millisecond. The crashed thread may hold the lock: then nothing is written. */
#define CRASH_LOCK_TRIES 100

static struct {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;  /* the thread: there is a line, or something to do */
	pthread_cond_t ended;
	bool running;
	bool stopping;
	bool reopen;
	bool dropping;	   /* the ring was full, and is not half empty yet */
	uint64_t unsaid;   /* lost lines that the log does not report yet */
	uint64_t head;	   /* bytes written since the start; the ring's first byte */
	uint64_t tail;	   /* bytes put in */
	uint64_t until_ns; /* stopping: give up then */
	char ring[LOG_WRITER_BYTES];
	_Atomic uint64_t lost; /* read without the lock */
	bool refused;	       /* the thread's: stderr has the error of the file */
	pthread_t thread;
} writer = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

static uint64_t do_used(void)
{
	return writer.tail - writer.head;
}

static void do_append(const char *line, size_t length)
{
	size_t at = writer.tail % LOG_WRITER_BYTES;
	size_t first = length < LOG_WRITER_BYTES - at ? length : LOG_WRITER_BYTES - at;

	memcpy(writer.ring + at, line, first);
	memcpy(writer.ring, line + first, length - first);
	writer.tail += length;
}

/*
 * Copies whole lines from the ring's start, as many as fit; the first may be the rest of a line.
 * Returns the number of bytes.
 */
static size_t do_peek(char batch[BATCH_BYTES])
{
	size_t length = do_used() < BATCH_BYTES ? do_used() : BATCH_BYTES;
	size_t at = writer.head % LOG_WRITER_BYTES;
	size_t first = length < LOG_WRITER_BYTES - at ? length : LOG_WRITER_BYTES - at;

	memcpy(batch, writer.ring + at, first);
	memcpy(batch + first, writer.ring, length - first);
	while (length && batch[length - 1] != '\n')
		length--;
	return length;
}

/* Logs how many lines were lost, once half of the ring is free. */
static void do_say_lost(void)
{
	char line[LOG_LINE_MAX];

	if (!writer.unsaid || do_used() > LOG_WRITER_BYTES / 2)
		return;
	do_append(line, log_format(line, LOG_WARN,
				   "log: %llu lines were lost: %s was full or not read for a while",
				   (unsigned long long)writer.unsaid,
				   *log_file() ? log_file() : "stderr"));
	writer.unsaid = 0;
	writer.dropping = false;
}

/* The log's sink. */
static void writer_put(const char *line, size_t length)
{
	bool empty;

	pthread_mutex_lock(&writer.lock);
	empty = do_used() == 0;
	if (do_used() + length > LOG_WRITER_BYTES)
		writer.dropping = true;
	if (writer.dropping) {
		writer.unsaid++;
		atomic_fetch_add_explicit(&writer.lost, 1, memory_order_relaxed);
	} else {
		do_append(line, length);
	}
	pthread_mutex_unlock(&writer.lock);
	if (empty)
		pthread_cond_signal(&writer.wake);
}

/* Waits until @fd takes bytes, and writes. Returns how many; 0: none, or a negative errno. */
static ssize_t write_some(int fd, const char *batch, size_t length, int wait_ms)
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

/* Reports an error on stderr, once until the file takes lines again: the file itself is full. */
static void say_refused(ssize_t written)
{
	char line[LOG_LINE_MAX];

	if (written > 0)
		writer.refused = false;
	if (written >= 0 || written == -EINTR || writer.refused || !*log_file())
		return;
	writer.refused = true;
	write_some(STDERR_FILENO, line,
		   log_format(line, LOG_ERROR,
			      "log.file = %s: can't write to it: %s; lines wait in memory, and are "
			      "lost when that is full (log_lines_lost)",
			      log_file(), strerror((int)-written)),
		   0);
}

/* Writes one batch, or as much of it as the file takes now. False: give up. */
static bool write_batch(const char *batch, size_t length)
{
	ssize_t written = write_some(log_descriptor(), batch, length, WAIT_MS);
	bool go_on;

	say_refused(written);
	pthread_mutex_lock(&writer.lock);
	if (written > 0)
		writer.head += (uint64_t)written;
	go_on = !writer.stopping ||
		((written >= 0 || written == -EINTR) && clock_ns() < writer.until_ns);
	pthread_mutex_unlock(&writer.lock);
	/* The disk may get room, or the pipe a reader. */
	if (written < 0 && written != -EINTR && go_on)
		pause_ms(WAIT_MS);
	return go_on;
}

/* Writes the new file's first line; if the file takes nothing now, queues it in the ring. */
static void reopened(void)
{
	char line[LOG_LINE_MAX];
	size_t length;

	if (!log_enabled(LOG_NOTICE))
		return;
	length = log_format(line, LOG_NOTICE, "SIGHUP: log reopened");
	if (write_some(log_descriptor(), line, length, 0) != (ssize_t)length)
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
	write_some(STDERR_FILENO, line,
		   log_format(line, LOG_ERROR, "log.file = %s: can't open it again: %s", log_file(),
			      strerror(-err)),
		   0);
}

/* One turn: waits for lines or a request. False: stopping, and all is written or given up. */
static bool writer_turn(void)
{
	char batch[BATCH_BYTES];
	bool wants_reopen;
	size_t length;

	pthread_mutex_lock(&writer.lock);
	while (!do_used() && !writer.unsaid && !writer.reopen && !writer.stopping)
		pthread_cond_wait(&writer.wake, &writer.lock);
	wants_reopen = writer.reopen;
	writer.reopen = false;
	do_say_lost();
	length = do_peek(batch);
	pthread_mutex_unlock(&writer.lock);
	if (wants_reopen) {
		reopen();
		return true;
	}
	return length && write_batch(batch, length);
}

static void *writer_run(void *unused)
{
	(void)unused;
	while (writer_turn())
		;
	pthread_mutex_lock(&writer.lock);
	writer.running = false;
	pthread_mutex_unlock(&writer.lock);
	pthread_cond_signal(&writer.ended);
	return NULL;
}

static bool crash_lock(void)
{
	for (int tries = 0; tries < CRASH_LOCK_TRIES; tries++) {
		if (!pthread_mutex_trylock(&writer.lock))
			return true;
		pause_ms(1);
	}
	return false;
}

/* Nothing that it calls allocates or waits for another thread, trylock included. */
void log_writer_crash(void)
{
	uint64_t until = clock_ns() + LOG_WRITER_FLUSH_MS * MS_NS;
	char batch[BATCH_BYTES];
	ssize_t written = 0;
	size_t length;

	if (crash_lock()) {
		while (written >= 0 && clock_ns() < until && (length = do_peek(batch))) {
			written = write_some(log_descriptor(), batch, length, WAIT_MS);
			writer.head += written > 0 ? (uint64_t)written : 0;
		}
	}
	/* The lock stays held: the thread must not count a batch that was written here. */
}

static int start_thread(void)
{
	pthread_condattr_t monotonic;
	int err;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writer.wake, &monotonic);
	pthread_cond_init(&writer.ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	writer.stopping = writer.dropping = writer.reopen = false;
	writer.refused = false;
	writer.head = writer.tail = writer.unsaid = 0;
	pthread_mutex_lock(&writer.lock);
	err = thread_start(&writer.thread, "log", writer_run, NULL);
	writer.running = !err;
	pthread_mutex_unlock(&writer.lock);
	return err;
}

static bool is_running(void)
{
	bool running;

	pthread_mutex_lock(&writer.lock);
	running = writer.running;
	pthread_mutex_unlock(&writer.lock);
	return running;
}

int log_writer_start(void)
{
	int err = -EBUSY;

	if (!is_running())
		err = start_thread();
	if (err) {
		log_error("can't start the log's thread: %s; raise the limit of threads "
			  "(ulimit -u, TasksMax= in the systemd unit)",
			  strerror(-err));
		return err;
	}
	log_set_sink(writer_put);
	return 0;
}

/* Whether the thread ended in time. */
static bool await_end(void)
{
	/* Twice: once for the file to take the rest, once for the thread to be scheduled. */
	uint64_t until = clock_ns() + 2 * LOG_WRITER_FLUSH_MS * MS_NS;
	const struct timespec time = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };
	bool done;
	int err = 0;

	pthread_mutex_lock(&writer.lock);
	writer.stopping = true;
	writer.until_ns = clock_ns() + LOG_WRITER_FLUSH_MS * MS_NS;
	pthread_cond_signal(&writer.wake);
	while (writer.running && !err)
		err = pthread_cond_timedwait(&writer.ended, &writer.lock, &time);
	done = !writer.running;
	pthread_mutex_unlock(&writer.lock);
	return done;
}

static bool all_written(void)
{
	bool empty;

	pthread_mutex_lock(&writer.lock);
	empty = !writer.running || !do_used();
	pthread_mutex_unlock(&writer.lock);
	return empty;
}

void log_writer_flush(void)
{
	uint64_t until = clock_ns() + LOG_WRITER_FLUSH_MS * MS_NS;

	while (!all_written() && clock_ns() < until)
		pause_ms(1);
}

void log_writer_stop(void)
{
	if (!is_running())
		return;
	log_set_sink(NULL);
	if (await_end())
		pthread_join(writer.thread, NULL);
	else
		pthread_detach(writer.thread);
}

void log_writer_reopen(void)
{
	pthread_mutex_lock(&writer.lock);
	writer.reopen = true;
	pthread_mutex_unlock(&writer.lock);
	pthread_cond_signal(&writer.wake);
}

uint64_t log_writer_lost(void)
{
	return atomic_load_explicit(&writer.lost, memory_order_relaxed);
}
