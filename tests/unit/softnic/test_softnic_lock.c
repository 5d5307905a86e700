/* SPDX-License-Identifier: MIT */
/* Tests of softnic's locks: with and without the promise that one thread at a time uses them. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/lock.h"

static void without_the_promise_it_excludes(void **state)
{
	struct sn_lock lock = { .single = true };

	(void)state;
	sn_lock_init(&lock, false);
	sn_lock(&lock);
	assert_int_equal(sn_trylock(&lock), EBUSY);
	sn_unlock(&lock);
	assert_int_equal(sn_trylock(&lock), 0);
	sn_unlock(&lock);
	sn_lock_destroy(&lock);
}

static void with_the_promise_no_mutex_is_taken(void **state)
{
	struct sn_lock lock = { .single = false };

	(void)state;
	sn_lock_init(&lock, true);
	sn_lock(&lock);
	assert_int_equal(pthread_mutex_trylock(&lock.mutex), 0);
	pthread_mutex_unlock(&lock.mutex);
	sn_unlock(&lock);
	assert_int_equal(sn_trylock(&lock), 0);
	assert_int_equal(pthread_mutex_trylock(&lock.mutex), 0);
	pthread_mutex_unlock(&lock.mutex);
	sn_unlock(&lock);
	sn_lock_destroy(&lock);
}

/* What a second thread would do while the first one is inside. */
static void a_broken_promise_ends_the_process(void **state)
{
#ifdef SN_LOCK_CHECK
	struct sn_lock lock = { .single = false };
	int status = 0;
	pid_t pid;

	(void)state;
	sn_lock_init(&lock, true);
	sn_lock(&lock);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		sn_lock(&lock);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	sn_unlock(&lock);
	sn_lock_destroy(&lock);
#else
	(void)state;
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_promise_it_excludes),
		cmocka_unit_test(with_the_promise_no_mutex_is_taken),
		cmocka_unit_test(a_broken_promise_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
