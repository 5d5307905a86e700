/* SPDX-License-Identifier: MIT */
/* Notes SIGINT: see interrupt.h. */
#include "client/kvctl/interrupt.h"

#include <stddef.h>

static volatile sig_atomic_t noted;

static void note(int number)
{
	(void)number;
	noted = 1;
}

/* Without SA_RESTART: what waits for a key or for time ends with EINTR. */
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
	noted = 0;
}
