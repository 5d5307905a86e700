/* SPDX-License-Identifier: MIT */
/*
 * Tests of the log (common/util/log.h): form of a line, levels, bounds, masking, reopening,
 * threads, rate limits. And of a program's standard streams (common/util/streams.h).
 */
#include "common/util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/util/log_line.h"
#include "common/util/streams.h"
#include "common/util/thread.h"

#define TEXT_MAX (4 << 20)

static char dir[] = "/tmp/kvd-test-log-XXXXXX";
static char path[64], moved[64];
static char text[TEXT_MAX];

/* What the time is; -1: what it is. */
static time_t now_s = -1;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (now_s < 0)
		return (int)syscall(SYS_clock_gettime, clock, now);
	*now = (struct timespec){ now_s, 1999 };
	return 0;
}

static int group_setup(void **state)
{
	(void)state;
	/* A program that links libkvd and never calls log_init() sees no line. */
	if (log_enabled(LOG_ERROR))
		return -1;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/log", dir);
	snprintf(moved, sizeof(moved), "%s/log.1", dir);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

static int setup(void **state)
{
	(void)state;
	return log_init(LOG_DEBUG, path);
}

static int teardown(void **state)
{
	(void)state;
	log_release();
	unlink(path);
	unlink(moved);
	return 0;
}

/* Reads the file into `text`; returns the number of its lines. */
static unsigned int slurp(const char *name)
{
	FILE *in = fopen(name, "re");
	unsigned int lines = 0;
	size_t length;

	assert_non_null(in);
	length = fread(text, 1, sizeof(text) - 1, in);
	fclose(in);
	text[length] = '\0';
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	if (length)
		assert_int_equal(text[length - 1], '\n');
	return lines;
}

static bool matches(const char *line, const char *pattern)
{
	regex_t regex;
	bool match;

	assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	match = regexec(&regex, line, 0, NULL, 0) == 0;
	regfree(&regex);
	return match;
}

#define STAMP "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "

static void test_line(void **state)
{
	(void)state;
	log_notice("queue pair 0x%x: %s", 0x2au, "gone");
	assert_int_equal(slurp(path), 1);
	assert_true(matches(text, STAMP "notice queue pair 0x2a: gone\n$"));
}

static void test_errno(void **state)
{
	(void)state;
	errno = ENOENT;
	log_error("cannot open: %m");
	assert_int_equal(errno, ENOENT);
	slurp(path);
	assert_non_null(strstr(text, "error cannot open: No such file or directory\n"));

	/* A failed write does not change errno either. */
	assert_int_equal(log_init(LOG_ERROR, "/dev/full"), 0);
	log_error("lost");
	assert_int_equal(errno, ENOENT);
}

static void log_all_levels(void)
{
	log_error("e");
	log_warn("w");
	log_notice("n");
	log_info("i");
	log_debug("d");
}

static void test_levels(void **state)
{
	(void)state;
	for (int level = LOG_OFF; level <= LOG_DEBUG; level++) {
		log_set_level((enum log_level)level);
		assert_int_equal(truncate(path, 0), 0);
		log_all_levels();
		assert_int_equal(slurp(path), level);
	}
	assert_true(matches(text, "error e\n.*warn w\n.*notice n\n.*info i\n.*debug d\n"));
	assert_string_equal(log_level_name(LOG_WARN), "warn");
	assert_string_equal(log_level_name((enum log_level)99), "?");
}

/* libkvd relies on it: nothing is written before log_init() or after log_release(). */
static void test_silent(void **state)
{
	int saved, fd;

	(void)state;
	log_release();
	assert_false(log_enabled(LOG_ERROR));
	fd = open(path, O_WRONLY | O_TRUNC);
	saved = dup(STDERR_FILENO);
	assert_true(fd >= 0 && saved >= 0);
	dup2(fd, STDERR_FILENO);
	log_all_levels();
	log_ratelimited(LOG_ERROR, 1, "x");
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fd);
	assert_int_equal(slurp(path), 0);
}

static void test_long_line(void **state)
{
	char message[2 * LOG_LINE_MAX];

	(void)state;
	memset(message, 'x', sizeof(message) - 1);
	message[sizeof(message) - 1] = '\0';
	log_info("%s", message);
	log_info("next");
	assert_int_equal(slurp(path), 2);
	assert_int_equal(strchr(text, '\n') - text, LOG_LINE_MAX - 1);
	assert_memory_equal(text + LOG_LINE_MAX - 4, "...\n", 4);
}

/* The longest message that fits is not cut. */
static void test_full_line(void **state)
{
	char message[LOG_LINE_MAX];
	size_t room;

	(void)state;
	log_info("%s", "");
	slurp(path);
	room = LOG_LINE_MAX - strlen(text);
	memset(message, 'x', room);
	message[room] = '\0';
	log_info("%s", message);
	assert_int_equal(slurp(path), 2);
	assert_int_equal(strlen(strchr(text, '\n') + 1), LOG_LINE_MAX);
	assert_null(strstr(text, "..."));
}

static void test_controls(void **state)
{
	(void)state;
	log_warn("a\nb\033[31m\x7f\xc3\xa4");
	assert_int_equal(slurp(path), 1);
	assert_non_null(strstr(text, "warn a?b?[31m?\xc3\xa4\n"));
	/* CSI as a byte, and as a character. */
	log_warn("a\x9b"
		 "31m\xc2\x9b"
		 "31m\xe2\x82\xac\xe2\x82");
	slurp(path);
	assert_non_null(strstr(text, "warn a?31m??31m\xe2\x82\xac??\n"));
}

#define JSON_STAMP "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z"

static json_t *json_line(const char *line)
{
	json_t *object = json_loadb(line, (size_t)(strchr(line, '\n') - line), 0, NULL);

	assert_non_null(object);
	assert_int_equal(json_object_size(object), 4);
	assert_true(matches(json_string_value(json_object_get(object, "ts")), "^" JSON_STAMP "$"));
	return object;
}

static void assert_json(const char *line, const char *level, const char *msg)
{
	json_t *object = json_line(line);

	assert_string_equal(json_string_value(json_object_get(object, "level")), level);
	assert_string_equal(json_string_value(json_object_get(object, "thread")), "kvd");
	assert_string_equal(json_string_value(json_object_get(object, "msg")), msg);
	json_decref(object);
}

static void test_json(void **state)
{
	(void)state;
	log_set_style(LOG_STYLE_JSON);
	log_warn("a \"b\" \\ c\n\x01\xff \xe2\x82\xac\xe2\x82");
	log_info("%s", "");
	log_set_style(LOG_STYLE_TEXT);
	log_info("text");
	assert_int_equal(slurp(path), 3);
	assert_json(text, "warn", "a \"b\" \\ c??? \xe2\x82\xac??");
	assert_json(strchr(text, '\n') + 1, "info", "");
	assert_true(matches(text, "\n"
				  "[^{\n]* info text\n$"));
}

/* An escaped character, and one of several bytes, is cut as a whole, wherever the line ends. */
static void test_json_is_cut(void **state)
{
	char message[2 * LOG_LINE_MAX];
	json_t *object;
	size_t shown;

	(void)state;
	log_set_style(LOG_STYLE_JSON);
	for (unsigned int pad = 0; pad < 8; pad++) {
		memset(message, 'x', pad);
		for (size_t i = pad; i < sizeof(message); i++)
			message[i] = "\"\xe2\x82\xac"[(i - pad) % 4];
		message[sizeof(message) - 1] = '\0';
		assert_int_equal(truncate(path, 0), 0);
		log_info("%s", message);
		assert_int_equal(slurp(path), 1);
		assert_in_range(strlen(text), LOG_LINE_MAX - 4, LOG_LINE_MAX);
		object = json_line(text);
		shown = strlen(json_string_value(json_object_get(object, "msg")));
		assert_memory_equal(json_string_value(json_object_get(object, "msg")), message,
				    shown - 3);
		assert_string_equal(json_string_value(json_object_get(object, "msg")) + shown - 3,
				    "...");
		json_decref(object);
	}
	log_set_style(LOG_STYLE_TEXT);
}

static void *log_in_thread(void *unused)
{
	log_info("here");
	return unused;
}

static void test_json_thread(void **state)
{
	pthread_t thread;

	(void)state;
	log_set_style(LOG_STYLE_JSON);
	assert_int_equal(thread_start(&thread, "worker-7", log_in_thread, NULL), 0);
	pthread_join(thread, NULL);
	log_set_style(LOG_STYLE_TEXT);
	slurp(path);
	assert_non_null(strstr(text, ",\"thread\":\"worker-7\",\"msg\":\"here\"}\n"));
}

/* The journal has times of its own, and shows lines by their priority. */
static void test_journal(void **state)
{
	(void)state;
	log_set_journal(true);
	log_all_levels();
	log_set_style(LOG_STYLE_JSON);
	log_error("e");
	log_set_style(LOG_STYLE_TEXT);
	log_set_journal(false);
	log_error("a file");
	assert_int_equal(slurp(path), 7);
	assert_true(matches(text, "^<3>e\n<4>w\n<5>n\n<6>i\n<7>d\n<3>[{]\"ts\":\"" JSON_STAMP
				  "\",\"level\":\"error\",\"thread\":\"kvd\",\"msg\":\"e\"[}]\n"
				  "[0-9][^\n]* error a file\n$"));
}

/* Dates are computed without the C library: as gmtime(3) does. */
static void test_stamp(void **state)
{
	char stamp[LOG_STAMP_BYTES], wanted[LOG_STAMP_BYTES];
	struct tm utc;

	(void)state;
	for (now_s = 0; now_s < 5000000000; now_s += 86400 * 10 + 12345) {
		gmtime_r(&now_s, &utc);
		strftime(wanted, sizeof(wanted), "%Y-%m-%dT%H:%M:%S.000001Z", &utc);
		log_stamp(stamp);
		assert_string_equal(stamp, wanted);
	}
	now_s = -1;
}

/* The next descriptor that is opened: it changes if one was left open. */
static int lowest_free_fd(void)
{
	int fd = dup(STDERR_FILENO);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static void test_reopen(void **state)
{
	int free_fd;

	(void)state;
	log_info("one");
	assert_int_equal(rename(path, moved), 0);
	log_info("two");
	free_fd = lowest_free_fd();
	assert_int_equal(log_reopen(), 0);
	assert_int_equal(lowest_free_fd(), free_fd);
	log_info("three");
	assert_int_equal(slurp(moved), 2);
	assert_int_equal(slurp(path), 1);
	assert_non_null(strstr(text, "info three"));
}

static void test_open_fails(void **state)
{
	char name[128];

	(void)state;
	snprintf(name, sizeof(name), "%s/no/such/folder", dir);
	assert_int_equal(log_init(LOG_ERROR, name), -ENOENT);
	/* The log is as it was before. */
	log_debug("still here");
	assert_int_equal(slurp(path), 1);

	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(log_reopen(), -EISDIR);
	assert_int_equal(rmdir(path), 0);
	/* That nobody reads: opening it must not wait for a reader. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(log_reopen(), -ENXIO);
	assert_int_equal(unlink(path), 0);
	log_debug("and here");
	assert_int_equal(slurp(moved), 2);
}

#define THREADS 4
#define LINES 2000

static void *write_lines(void *arg)
{
	for (int i = 0; i < LINES; i++)
		log_info("thread %d line %d end", *(int *)arg, i);
	return NULL;
}

/* No line is lost, torn or mixed with another while the file is reopened under the writers. */
static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	unsigned int lines;
	int ids[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++) {
		ids[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(log_reopen(), 0);
	assert_int_equal(rename(path, moved), 0);
	assert_int_equal(log_reopen(), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);

	lines = slurp(path);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(matches(line, STAMP "info thread [0-9] line [0-9]+ end$"));
	lines += slurp(moved);
	assert_int_equal(lines, THREADS * LINES);
}

static void test_limit(void **state)
{
	struct log_limit limit = { 0 };
	unsigned int passed = 0;
	uint32_t suppressed;

	(void)state;
	for (int i = 0; i < 25; i++) {
		passed += log_limit_pass(&limit, 10, 7, &suppressed);
		assert_int_equal(suppressed, 0);
	}
	assert_int_equal(passed, 10);
	assert_true(log_limit_pass(&limit, 10, 9, &suppressed));
	assert_int_equal(suppressed, 15);
	assert_true(log_limit_pass(&limit, 10, 10, &suppressed));
	assert_int_equal(suppressed, 0);
	assert_false(log_limit_pass(&limit, 0, 11, &suppressed));
}

static void test_ratelimited(void **state)
{
	(void)state;
	for (int i = 0; i < 500; i++)
		log_ratelimited(LOG_WARN, 3, "peer sent garbage");
	/* If a second begins meanwhile, three more lines pass, and one that counts the dropped. */
	assert_in_range(slurp(path), 3, 50);
}

static void *take_limit(void *arg)
{
	uintptr_t passed = 0;
	uint32_t suppressed;

	for (int i = 0; i < LINES; i++)
		passed += log_limit_pass(arg, 100, 5, &suppressed);
	return (void *)passed;
}

static void test_limit_threads(void **state)
{
	struct log_limit limit = { 0 };
	pthread_t threads[THREADS];
	uintptr_t total = 0;
	uint32_t suppressed;
	void *passed;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_limit, &limit), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &passed);
		total += (uintptr_t)passed;
	}
	assert_int_equal(total, 100);
	log_limit_pass(&limit, 100, 6, &suppressed);
	assert_int_equal(suppressed, THREADS * LINES - 100);
}

/* In a child process: what is missing is there, and no file gets its number. */
static bool streams_are_filled(void)
{
	char byte = 'x';

	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	return !streams_init("test") && open("/dev/null", O_RDONLY) > STDERR_FILENO &&
	       read(STDIN_FILENO, &byte, 1) < 0 && errno == EBADF &&
	       write(STDOUT_FILENO, &byte, 1) < 0 && errno == EBADF &&
	       write(STDERR_FILENO, &byte, 1) == 1;
}

static void in_child(bool (*check)(void))
{
	const pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(!check());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Pieces of a line are written together, and so is what ends without a new line. */
static bool lines_are_whole(void)
{
	char got[64] = "";
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) ||
	    dup2(ends[0], STDERR_FILENO) < 0 || streams_init("test"))
		return false;
	fputs("a key ", stderr);
	fprintf(stderr, "%c%c", 'i', 's');
	fputs(": here\nmore", stderr);
	if (read(ends[1], got, sizeof(got)) != 15 || strcmp(got, "a key is: here\n") != 0)
		return false;
	fflush(stderr);
	return read(ends[1], got, sizeof(got)) == 4;
}

/* An error of write(2) and no signal. */
static bool large_files_are_errors(void)
{
	const struct rlimit none = { 0, 0 };
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return !streams_init("test") && !setrlimit(RLIMIT_FSIZE, &none) && fd >= 0 &&
	       write(fd, "x", 1) < 0 && errno == EFBIG;
}

static void test_streams(void **state)
{
	(void)state;
	in_child(lines_are_whole);
	in_child(large_files_are_errors);
}

static void test_streams_closed(void **state)
{
	(void)state;
	in_child(streams_are_filled);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(test_line),	      LOG_TEST(test_errno),
		LOG_TEST(test_levels),	      LOG_TEST(test_silent),
		LOG_TEST(test_long_line),     LOG_TEST(test_full_line),
		LOG_TEST(test_controls),      LOG_TEST(test_reopen),
		LOG_TEST(test_open_fails),    LOG_TEST(test_threads),
		LOG_TEST(test_limit),	      LOG_TEST(test_ratelimited),
		LOG_TEST(test_limit_threads), LOG_TEST(test_streams_closed),
		LOG_TEST(test_streams),	      LOG_TEST(test_json),
		LOG_TEST(test_json_is_cut),   LOG_TEST(test_json_thread),
		LOG_TEST(test_journal),	      LOG_TEST(test_stamp),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
