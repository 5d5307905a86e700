/* SPDX-License-Identifier: MIT */
/*
 * SIGINT asks a running command to end: commands that run until they are interrupted, and every
 * command in modes in which kvctl continues afterwards. Elsewhere SIGINT ends kvctl.
 *
 * From a noted SIGINT to interrupt_clear() there is a SIGALRM each second, so that a call which
 * began to block just after the SIGINT ends with EINTR as well.
 */
#ifndef KVD_CLIENT_KVCTL_INTERRUPT_H
#define KVD_CLIENT_KVCTL_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

/* From now on SIGINT is noted; its previous action is written to *@before. */
void interrupt_catch(struct sigaction *before);
/*
 * As interrupt_catch(), but a second SIGINT ends kvctl. Nothing changes if SIGINT is noted already,
 * as in interactive mode, or is ignored, as in a shell's background commands.
 */
void interrupt_catch_once(struct sigaction *before);
/* Restores the action that interrupt_catch() wrote. */
void interrupt_leave(const struct sigaction *before);

/* Whether there was a SIGINT since the last interrupt_clear(). */
bool interrupted(void);
void interrupt_clear(void);

#endif /* KVD_CLIENT_KVCTL_INTERRUPT_H */
