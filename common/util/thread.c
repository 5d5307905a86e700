/* SPDX-License-Identifier: MIT */
/* Starts threads. The second stack is at the far end of the first, which an overflow spares. */
#include "common/util/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/util/heap.h"

struct start {
	void *(*run)(void *);
	void *arg;
	char name[THREAD_NAME_BYTES];
};

static _Thread_local bool has_stack;
static _Thread_local char name_here[THREAD_NAME_BYTES] = "kvd";

const char *thread_name(void)
{
	return name_here;
}

void thread_signal_stack(void *stack)
{
	const stack_t none = { .ss_flags = SS_DISABLE };
	const stack_t ours = { .ss_sp = stack, .ss_size = THREAD_SIGNAL_STACK_BYTES };
	stack_t now;

	if (!stack) {
		if (has_stack)
			sigaltstack(&none, NULL);
		has_stack = false;
	} else if (!sigaltstack(NULL, &now) && now.ss_flags & SS_DISABLE) {
		has_stack = !sigaltstack(&ours, NULL);
	}
}

static void *thread_run(void *arg)
{
	_Alignas(16) char stack[THREAD_SIGNAL_STACK_BYTES];
	struct start start = *(struct start *)arg;
	void *result;

	heap_free(arg);
	pthread_setname_np(pthread_self(), start.name);
	strcpy(name_here, start.name);
	thread_signal_stack(stack);
	result = start.run(start.arg);
	thread_signal_stack(NULL);
	return result;
}

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	struct start *start = heap_alloc(sizeof(*start));
	int err;

	if (!start)
		return -ENOMEM;
	start->run = run;
	start->arg = arg;
	snprintf(start->name, sizeof(start->name), "%s", name);
	err = -pthread_create(thread, NULL, thread_run, start);
	if (err)
		heap_free(start);
	return err;
}
