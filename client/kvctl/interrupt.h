/* SPDX-License-Identifier: MIT */
/*
 * SIGINT as a wish to end what runs, for commands that run until they are interrupted, and for all
 * of them where kvctl goes on behind it. Elsewhere SIGINT ends kvctl.
 *
 * From a noted SIGINT to interrupt_clear() there is a SIGALRM each second, so that a call which
 * began to block just after the SIGINT ends with EINTR as well.
 */
#ifndef KVD_CLIENT_KVCTL_INTERRUPT_H
#define KVD_CLIENT_KVCTL_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

/* From here on SIGINT is noted, and what it was before is written to *@before. */
void interrupt_catch(struct sigaction *before);
/*
 * The same, but a second one ends kvctl. Nothing changes where SIGINT is noted already, since the
 * interactive mode goes on, or is ignored, as by a shell's commands in the background.
 */
void interrupt_catch_once(struct sigaction *before);
/* What interrupt_catch() wrote is right again. */
void interrupt_leave(const struct sigaction *before);

/* Whether there was one since the last interrupt_clear(). */
bool interrupted(void);
void interrupt_clear(void);

#endif /* KVD_CLIENT_KVCTL_INTERRUPT_H */
