/* SPDX-License-Identifier: MIT */
/* Notes SIGINT: see interrupt.h. */
#include "client/kvctl/interrupt.h"

#include <stddef.h>
#include <unistd.h>

#define WAKE_S 1

static volatile sig_atomic_t noted;

static void wake(int number)
{
	(void)number;
	if (noted)
		alarm(WAKE_S);
}

/* Wakes a call that began to block just after interrupted() was checked. */
static void note(int number)
{
	const struct sigaction action = { .sa_handler = wake };

	(void)number;
	noted = 1;
	sigaction(SIGALRM, &action, NULL);
	alarm(WAKE_S);
}

/* Without SA_RESTART, waiting for a key or for time ends with EINTR. */
void interrupt_catch(struct sigaction *before)
{
	const struct sigaction action = { .sa_handler = note };

	sigaction(SIGINT, &action, before);
}

void interrupt_catch_once(struct sigaction *before)
{
	const struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, NULL, before);
	if (before->sa_handler != note && before->sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
}

void interrupt_leave(const struct sigaction *before)
{
	sigaction(SIGINT, before, NULL);
}

bool interrupted(void)
{
	return noted;
}

void interrupt_clear(void)
{
	sigset_t sigint, before;

	if (!noted)
		return;
	/* A SIGINT in between would start alarms, and SIGALRM would end kvctl. */
	sigemptyset(&sigint);
	sigaddset(&sigint, SIGINT);
	sigprocmask(SIG_BLOCK, &sigint, &before);
	noted = 0;
	alarm(0);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
}
