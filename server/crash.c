/* SPDX-License-Identifier: MIT */
/* The handler of fatal signals. All that it calls is async-signal-safe. */
#include "server/crash.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "common/util/thread.h"
#include "server/audit_file.h"
#include "server/crash_report.h"
#include "server/log_writer.h"

/* Longer than both line_writer_crash() and the report take. */
#define WAIT_S 4

static const int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };

#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static bool caught[SIGNALS];
static _Atomic int crashed; /* the thread that crashed first; 0: none */

/* The first thread that crashes reports. Any other waits, or it would end the process. */
static void on_crash(int number, siginfo_t *info, void *context)
{
	const struct timespec wait = { WAIT_S, 0 };
	int self = gettid(), first = 0;

	if (atomic_compare_exchange_strong(&crashed, &first, self)) {
		log_writer_crash();
		audit_file_crash();
		crash_report(info, context);
	} else if (first != self) {
		nanosleep(&wait, NULL);
	}
	/* The signal is blocked until the handler returns. */
	signal(number, SIG_DFL);
	raise(number);
}

void crash_catch(void)
{
	static _Alignas(16) char stack[THREAD_SIGNAL_STACK_BYTES];
	struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct sigaction old;

	crash_report_prepare();
	thread_signal_stack(stack);
	/* A fault of the handler itself is then one of a blocked signal, which ends the process. */
	sigemptyset(&action.sa_mask);
	for (unsigned int i = 0; i < SIGNALS; i++)
		sigaddset(&action.sa_mask, signals[i]);
	for (unsigned int i = 0; i < SIGNALS; i++)
		caught[i] = !sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL &&
			    !sigaction(signals[i], &action, NULL);
}

void crash_release(void)
{
	for (unsigned int i = 0; i < SIGNALS; i++) {
		if (caught[i])
			signal(signals[i], SIG_DFL);
		caught[i] = false;
	}
	thread_signal_stack(NULL);
}
