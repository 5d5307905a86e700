/* SPDX-License-Identifier: MIT */
/*
 * Tests of the end by a fatal signal (server/crash.h): what waits in the log's ring is written, and
 * a report, whatever faults: another thread too, the report itself, or a stack that overflowed.
 */
#include "server/crash.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "common/util/thread.h"
#include "server/crash_report.h"
#include "server/log_writer.h"

#define TEXT_MAX (1u << 20)
#define DYING 4

static char dir[] = "/tmp/kvd-test-crash-XXXXXX";
static char path[64];
static char text[TEXT_MAX];

static __attribute__((no_sanitize("undefined"))) void die_by_fault(void)
{
	*(volatile int *)(uintptr_t)0xbad0 = 1;
}

/* The report itself faults. */
static bool faults;

int backtrace(void **frames, int size)
{
	int (*real)(void **, int) = dlsym(RTLD_NEXT, "backtrace");

	if (faults)
		die_by_fault();
	return real(frames, size);
}

static int group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/log", dir);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

static void slurp(void)
{
	FILE *in = fopen(path, "re");
	size_t length;

	assert_non_null(in);
	length = fread(text, 1, sizeof(text) - 1, in);
	fclose(in);
	text[length] = '\0';
	unlink(path);
}

static unsigned int count_of(const char *part)
{
	unsigned int count = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
		count++;
	return count;
}

/* Runs @die in a process of its own, with the handlers; returns the signal that ended it. */
static int death(void (*die)(void))
{
	const struct sigaction standard = { .sa_handler = SIG_DFL };
	const int numbers[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	const struct rlimit none = { 0, 0 };
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		/* Not cmocka's or a sanitizer's, as in kvd. */
		for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			sigaction(numbers[i], &standard, NULL);
		if (log_init(LOG_INFO, path) || log_writer_start())
			_exit(1);
		if (freopen("/dev/null", "w", stderr))
			crash_catch();
		for (unsigned int i = 0; i < 1000; i++)
			log_info("line %u", i);
		log_error("the last words");
		die();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	slurp();
	return WTERMSIG(status);
}

static void die_by_abort(void)
{
	raise(SIGABRT);
}

static void die_by_bus(void)
{
	raise(SIGBUS);
}

static void die_by_fpe(void)
{
	raise(SIGFPE);
}

static void die_by_ill(void)
{
	raise(SIGILL);
}

static void report_is_whole(const char *signal_text)
{
	assert_non_null(strstr(text, " info line 0\n"));
	assert_non_null(strstr(text, " info line 999\n"));
	assert_non_null(strstr(text, " error the last words\n"));
	assert_non_null(strstr(text, signal_text));
	assert_int_equal(count_of(" error crash: signal "), 1);
	assert_non_null(strstr(text, " error crash: #1 "));
}

static void signals_are_reported(void **state)
{
	(void)state;
	assert_int_equal(death(die_by_abort), SIGABRT);
	report_is_whole(" (SIGABRT) sent by process ");
	assert_int_equal(death(die_by_bus), SIGBUS);
	report_is_whole(" (SIGBUS) sent by process ");
	assert_int_equal(death(die_by_fpe), SIGFPE);
	report_is_whole(" (SIGFPE) sent by process ");
	assert_int_equal(death(die_by_ill), SIGILL);
	report_is_whole(" (SIGILL) sent by process ");
}

/* A fault of the code itself: the report has its address. */
static void a_fault_has_its_address(void **state)
{
	(void)state;
	assert_int_equal(death(die_by_fault), SIGSEGV);
	report_is_whole(" (SIGSEGV) at address 0xbad0 in thread ");
}

static unsigned int depth(unsigned int level)
{
	volatile char frame[4096];

	frame[level % sizeof(frame)] = (char)level;
	return (level < UINT_MAX ? depth(level + 1) : 0) +
	       (unsigned int)frame[(level + 1) % sizeof(frame)];
}

static void *overflow(void *unused)
{
	(void)unused;
	depth(0);
	return NULL;
}

static void die_by_overflow(void)
{
	pthread_t thread;

	if (!thread_start(&thread, "overflow", overflow, NULL))
		pthread_join(thread, NULL);
}

/* There is no room on the thread's own stack for the handler. */
static void an_overflow_is_reported(void **state)
{
	(void)state;
	assert_int_equal(death(die_by_overflow), SIGSEGV);
	report_is_whole(" (SIGSEGV) at address 0x");
}

static void die_in_report(void)
{
	faults = true;
	raise(SIGABRT);
}

/* A fault while the report is written ends the process at once. */
static void a_fault_of_the_report(void **state)
{
	(void)state;
	assert_int_equal(death(die_in_report), SIGSEGV);
	assert_non_null(strstr(text, " error the last words\n"));
	assert_int_equal(count_of("crash: signal"), 1);
	assert_null(strstr(text, "crash: #1 "));
}

static void *dying_thread(void *barrier)
{
	pthread_barrier_wait(barrier);
	raise(SIGABRT);
	return NULL;
}

static void die_by_threads(void)
{
	pthread_barrier_t barrier;
	pthread_t threads[DYING];

	pthread_barrier_init(&barrier, NULL, DYING);
	for (unsigned int i = 0; i < DYING - 1; i++)
		thread_start(&threads[i], "dying", dying_thread, &barrier);
	dying_thread(&barrier);
}

/* Several threads die at once, while much must be written: none ends the process before it is. */
static void several_threads_die(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		assert_int_equal(death(die_by_threads), SIGABRT);
		report_is_whole(" (SIGABRT) sent by process ");
	}
}

static void die_released(void)
{
	crash_release();
	raise(SIGABRT);
}

static void ignore(int number)
{
	(void)number;
}

static void die_handled(void)
{
	struct sigaction now;

	crash_release();
	signal(SIGBUS, ignore);
	crash_catch();
	if (!sigaction(SIGBUS, NULL, &now) && now.sa_handler == ignore)
		raise(SIGABRT);
}

/* Without the handlers there is no report, and who has a handler keeps it. */
static void handlers_are_released(void **state)
{
	(void)state;
	assert_int_equal(death(die_released), SIGABRT);
	assert_int_equal(count_of("crash: signal"), 0);
	assert_int_equal(death(die_handled), SIGABRT);
	assert_int_equal(count_of("crash: signal"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_are_reported),
		cmocka_unit_test(a_fault_has_its_address),
		cmocka_unit_test(an_overflow_is_reported),
		cmocka_unit_test(a_fault_of_the_report),
		cmocka_unit_test(several_threads_die),
		cmocka_unit_test(handlers_are_released),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
