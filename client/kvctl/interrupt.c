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
