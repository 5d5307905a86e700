/* SPDX-License-Identifier: MIT */
/*
 * Tests of the log's thread (server/log_writer.h): lines keep their order, a pipe that nobody reads
 * stops nobody, what is lost is counted and said, and a process that ends writes the rest.
 */
#include "server/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/line_writer.h"

#define TEXT_MAX (4u << 20)
#define DEADLINE_S 300ull

static char dir[] = "/tmp/kvd-test-writer-XXXXXX";
static char path[64], moved[64];
static char text[TEXT_MAX];

/*
 * The log's file takes a third of what it is given, each time, as while a disk fills up. What is
 * given next has to begin with the rest.
 */
static _Atomic bool takes_parts, rest_is_lost;
static char rest[PIPE_BUF];
static size_t rest_length;

/* With this errno the file takes nothing; how often it was tried, and what stderr was told. */
static _Atomic int refuses;
static _Atomic unsigned int refusals, told;

/* The file takes nothing until the end is awaited, and then the first try is interrupted. */
static _Atomic bool holds, is_held, interrupts;

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
			   const struct timespec *restrict time)
{
	holds = false;
	return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, time);
}

/* Between two tries the thread pauses; no test waits for that. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
	return refuses ? 0 : (int)syscall(SYS_nanosleep, time, left);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
	size_t part = length;

	while (holds && fd == log_descriptor()) {
		is_held = true;
		sched_yield();
	}
	if (interrupts && fd == log_descriptor()) {
		interrupts = false;
		errno = EINTR;
		return -1;
	}
	if (refuses && fd == log_descriptor()) {
		refusals++;
		errno = refuses;
		return -1;
	}
	if (refusals && fd == STDERR_FILENO && memmem(bytes, length, "can't write to it", 17)) {
		told++;
		return (ssize_t)length;
	}
	if (takes_parts && fd == log_descriptor() && length <= sizeof(rest)) {
		if (length < rest_length || memcmp(bytes, rest, rest_length))
			rest_is_lost = true;
		part = (length + 2) / 3;
		rest_length = length - part;
		memcpy(rest, (const char *)bytes + part, rest_length);
	}
	return syscall(SYS_write, fd, bytes, part);
}

static int group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/log", dir);
	snprintf(moved, sizeof(moved), "%s/log.1", dir);
	/* What these tests are about is that nothing blocks. */
	alarm(4 * DEADLINE_S);
	signal(SIGPIPE, SIG_IGN); /* as kvd does */
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

static int teardown(void **state)
{
	(void)state;
	/* Of a test that failed: the next one would wait for ever. */
	refuses = 0;
	log_writer_stop();
	log_release();
	unlink(path);
	unlink(moved);
	return 0;
}

static void start(const char *file)
{
	assert_int_equal(log_init(LOG_DEBUG, file), 0);
	assert_int_equal(log_writer_start(), 0);
}

static void stop(void)
{
	log_writer_stop();
	log_release();
}

/* Reads the file into text; returns its bytes. */
static size_t slurp(const char *name)
{
	FILE *in = fopen(name, "re");
	size_t length = 0;

	if (in) {
		length = fread(text, 1, sizeof(text) - 1, in);
		fclose(in);
	}
	text[length] = '\0';
	return length;
}

static void wait_for(const char *name, const char *wanted)
{
	uint64_t until = clock_ns() + DEADLINE_S * 1000000000;

	while (!slurp(name) || !strstr(text, wanted)) {
		if (clock_ns() > until)
			fail_msg("'%s' is not in %s: %s", wanted, name, text);
		poll(NULL, 0, 1);
	}
}

/*
 * Checks that the numbers of `info line N of thread T` in text ascend; returns how many such lines
 * there are, and adds the lines that others say were lost to *lost.
 */
static unsigned int check_order(unsigned int threads, uint64_t *lost)
{
	int last[16];
	unsigned int lines = 0;

	memset(last, -1, sizeof(last));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		const char *at = strstr(line, " info line ");
		unsigned int thread = 0;
		unsigned long long count;
		int number;

		if (!at) {
			assert_int_equal(
				sscanf(line, "%*s warn log: %llu lines were lost: ", &count), 1);
			*lost += count;
			continue;
		}
		assert_int_equal(sscanf(at, " info line %d of thread %u", &number, &thread), 2);
		assert_true(thread < threads && number > last[thread]);
		last[thread] = number;
		lines++;
	}
	return lines;
}

#define THREADS 4
#define LINES 2000u

static void *write_lines(void *number)
{
	for (unsigned int i = 0; i < LINES; i++)
		log_info("line %u of thread %u", i, *(unsigned int *)number);
	return NULL;
}

/* Every line arrives, or is counted. */
static void threads_write(void **state)
{
	uint64_t before = log_writer_lost(), lost = 0;
	pthread_t threads[THREADS];
	unsigned int numbers[THREADS];

	(void)state;
	start(path);
	for (unsigned int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &numbers[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stop();
	slurp(path);
	assert_int_equal(check_order(THREADS, &lost) + (log_writer_lost() - before),
			 THREADS * LINES);
	assert_true(lost == log_writer_lost() - before);
}

/* Makes path a pipe that takes nothing more; returns its end to read from. */
static int full_pipe(void)
{
	static const char bytes[4096];
	int in, out;

	assert_int_equal(mkfifo(path, 0600), 0);
	in = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	out = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(in >= 0 && out >= 0);
	while (write(out, bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	close(out);
	return in;
}

/* Reads what is in the pipe now; returns its bytes, the zeros of full_pipe() left out. */
static size_t drain(int in, size_t length)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < n; i++)
			if (bytes[i]) {
				assert_true(length < sizeof(text) - 1);
				text[length++] = bytes[i];
			}
	text[length] = '\0';
	return length;
}

static void a_full_pipe(void **state)
{
	uint64_t until = clock_ns() + DEADLINE_S * 1000000000;
	uint64_t before = log_writer_lost(), lost = 0;
	unsigned int numbers[] = { 0, 1 }, lines;
	int in = full_pipe();
	size_t length = 0;

	(void)state;
	start(path);
	write_lines(&numbers[0]);
	write_lines(&numbers[1]);
	lost = log_writer_lost() - before;
	/* 4,000 lines of 54 bytes or more; the ring holds 128 KiB. */
	assert_in_range(lost, 2 * LINES - LINE_WRITER_BYTES / 50, 2 * LINES - 1);
	/* Nothing more is lost while it is read; the count comes where the lines are missing. */
	while (!strstr(text, " lines were lost: ") && clock_ns() < until)
		length = drain(in, length);
	assert_true(lost == log_writer_lost() - before);
	assert_int_equal(text[length - 1], '\n');
	lost = 0;
	lines = check_order(2, &lost);
	assert_true(lost == log_writer_lost() - before);
	assert_int_equal(lines + lost, 2 * LINES);
	/* Logging goes on. */
	length = 0;
	text[0] = '\0';
	log_info("line 9999 of thread 0");
	while (!strstr(text, "line 9999") && clock_ns() < until)
		length = drain(in, length);
	assert_non_null(strstr(text, "line 9999 of thread 0\n"));
	stop();
	close(in);
}

/* Neither the end of the process nor reopening waits for a reader. */
static void ends_beside_a_full_pipe(void **state)
{
	int in = full_pipe(), saved = dup(STDERR_FILENO), err;
	uint64_t until = clock_ns() + DEADLINE_S * 1000000000;

	(void)state;
	assert_true(saved >= 0);
	start(path);
	log_info("never read");
	log_writer_reopen();
	/* Where a line would go that is written after the end. */
	dup2(in, STDERR_FILENO);
	stop();
	/* The thread ended: it did not stay in write(2). */
	while ((err = log_writer_start()) == -EBUSY && clock_ns() < until)
		poll(NULL, 0, 1);
	log_writer_stop();
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(in);
	assert_int_equal(err, 0);
}

/* The flag of stderr's file description is the shell's, too. */
static void descriptor_is_not_changed(void **state)
{
	int before = fcntl(STDERR_FILENO, F_GETFL);

	(void)state;
	start(NULL);
	log_set_level(LOG_OFF);
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL), before);
	stop();
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL), before);
}

/* A full disk: what waits is not lost, unless the ring is too small for it. */
static void a_full_disk(void **state)
{
	uint64_t before = log_writer_lost();
	unsigned int number = 0;

	(void)state;
	start("/dev/full");
	log_info("waits");
	assert_true(log_writer_lost() == before);
	write_lines(&number);
	write_lines(&number);
	assert_true(log_writer_lost() > before);
	stop();
}

/* The rest of what the file took a part of comes next, and no line is lost. */
static void in_parts(void **state)
{
	uint64_t before = log_writer_lost(), lost = 0;

	(void)state;
	takes_parts = true;
	start(path);
	for (unsigned int i = 0; i < 1000; i++)
		log_info("line %u of thread 0", i);
	while (!rest_is_lost && (!slurp(path) || !strstr(text, " info line 999 of thread 0\n")))
		poll(NULL, 0, 1);
	stop();
	takes_parts = false;
	assert_false(rest_is_lost);
	slurp(path);
	assert_int_equal(check_order(1, &lost), 1000);
	assert_int_equal(lost, 0);
	assert_true(log_writer_lost() == before);
}

/* Several batches that wait at the stop, in a file that must be opened again. */
static void a_stop_writes_all(void **state)
{
	(void)state;
	holds = interrupts = true;
	start(path);
	for (unsigned int i = 0; i < 300; i++) {
		log_info("line %u of thread 0", i);
		while (!is_held)
			sched_yield();
	}
	log_writer_reopen();
	stop();
	assert_false(holds || interrupts);
	slurp(path);
	assert_non_null(strstr(text, " notice SIGHUP: log reopened\n"));
	assert_non_null(strstr(text, " info line 0 of thread 0\n"));
	assert_non_null(strstr(text, " info line 299 of thread 0\n"));
}

static void opened_again(void **state)
{
	const char *first;
	int saved, fd;

	(void)state;
	start(path);
	log_info("one");
	wait_for(path, " info one\n");
	assert_int_equal(rename(path, moved), 0);
	for (unsigned int i = 0; i < 1000; i++)
		log_info("line %u", i);
	log_writer_reopen();
	wait_for(path, " notice SIGHUP: log reopened\n");
	/* This is the first line there, though others were waiting. */
	first = strchr(text, '\n');
	assert_non_null(first);
	assert_non_null(strstr(text, "SIGHUP: log reopened"));
	assert_true(strstr(text, "SIGHUP: log reopened") < first);
	log_info("two");
	wait_for(path, " info two\n");

	/* The file can't be opened: the old one says so, and stderr, for that may be gone. */
	assert_int_equal(unlink(moved), 0);
	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	saved = dup(STDERR_FILENO);
	snprintf(text, sizeof(text), "%s/stderr", dir);
	fd = open(text, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(saved >= 0 && fd >= 0);
	dup2(fd, STDERR_FILENO);
	log_writer_reopen();
	wait_for(moved, " error SIGHUP: log.file = ");
	assert_non_null(strstr(text, "/log: can't open it: Is a directory; the log goes on in the "
				     "old file\n"));
	log_info("three");
	wait_for(moved, " info three\n");
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fd);
	assert_int_equal(rmdir(path), 0);
	snprintf(path + strlen(dir), sizeof(path) - strlen(dir), "/stderr");
	wait_for(path, ": can't open it again: Is a directory\n");
	unlink(path);
	snprintf(path + strlen(dir), sizeof(path) - strlen(dir), "/log");
	stop();
}

/* Before the thread starts, and after it was stopped, lines are written at once. */
static void without_the_thread(void **state)
{
	(void)state;
	assert_int_equal(log_init(LOG_INFO, path), 0);
	log_info("before");
	slurp(path);
	assert_non_null(strstr(text, " info before\n"));
	assert_int_equal(log_writer_start(), 0);
	assert_int_equal(log_writer_start(), -EBUSY);
	log_info("meanwhile");
	log_writer_stop();
	log_writer_stop();
	log_info("after");
	slurp(path);
	assert_non_null(strstr(text, " info meanwhile\n"));
	assert_non_null(strstr(text, " info after\n"));
	log_release();
}

static void refuse_some(int with)
{
	unsigned int before;

	/* In this order: what is refused from here on is refused with that. */
	refuses = with;
	before = refusals;
	log_notice("a line");
	while (refusals < before + 5)
		sched_yield();
}

/* That the file takes nothing is said on stderr, once until it takes lines again. */
static void refusals_are_told(void **state)
{
	(void)state;
	start(path);
	told = 0;
	refuse_some(EINTR); /* which is none */
	assert_int_equal(told, 0);
	for (unsigned int i = 1; i <= 2; i++) {
		refuse_some(ENOSPC);
		assert_int_equal(told, i);
		refuses = 0;
		log_writer_flush();
	}
	stop();
}

#define CASE(name) cmocka_unit_test_teardown(name, teardown)

/* Reads the last lines in pages of @size bytes; @first: the number of the first of them. */
static void assert_last_lines(int first, int end, size_t size)
{
	char page[LOG_LINE_MAX * 4], wanted[64];
	uint64_t at = 0;
	size_t bytes;

	do {
		bytes = log_writer_read(&at, page, size);
		assert_true(bytes <= size && (!bytes || page[bytes - 1] == '\n'));
		page[bytes] = '\0';
		for (char *line = strtok(page, "\n"); line; line = strtok(NULL, "\n"), first++) {
			snprintf(wanted, sizeof(wanted), "notice number %d ", first);
			assert_non_null(strstr(line, wanted));
		}
	} while (bytes);
	assert_int_equal(first, end);
}

/* The last 256, whether or not they are written; fewer, if they are too long for the ring. */
static void the_last_lines(void **state)
{
	static char padding[LOG_LINE_MAX];
	int lines;

	(void)state;
	start(path);
	for (int i = 0; i < 1000; i++)
		log_notice("number %d of them", i);
	assert_last_lines(1000 - (int)LINE_WRITER_LAST, 1000, LOG_LINE_MAX);
	assert_last_lines(1000 - (int)LINE_WRITER_LAST, 1000, 100);
	log_writer_flush();
	assert_last_lines(1000 - (int)LINE_WRITER_LAST, 1000, 3000);
	/* Each line takes 1,000 bytes and a number of digits that stays the same. */
	memset(padding, 'x', 1000);
	for (int i = 1000; i < 1500; i++) {
		log_notice("number %d %.*s", i,
			   (int)(1000 -
				 strlen("2026-11-21T00:18:00.123Z notice "
					"number 1000 ") -
				 1),
			   padding);
		log_writer_flush();
	}
	lines = LINE_WRITER_BYTES / 1000;
	assert_last_lines(1500 - lines, 1500, LOG_LINE_MAX);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_last_lines),
		CASE(threads_write),
		CASE(a_full_pipe),
		CASE(ends_beside_a_full_pipe),
		CASE(descriptor_is_not_changed),
		CASE(a_full_disk),
		CASE(refusals_are_told),
		CASE(in_parts),
		CASE(a_stop_writes_all),
		CASE(opened_again),
		CASE(without_the_thread),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
