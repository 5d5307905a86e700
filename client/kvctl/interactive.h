/* SPDX-License-Identifier: MIT */
/* Interactive mode: kvctl without a command on a terminal. */
#ifndef KVD_CLIENT_KVCTL_INTERACTIVE_H
#define KVD_CLIENT_KVCTL_INTERACTIVE_H

struct arguments;

/*
 * Reads commands from the terminal until ^D or `quit` and runs them on one handle, opened as
 * @arguments say. A failing command does not end it. Returns an exit status: 0, or why the server
 * can't be reached.
 */
int interactive_run(const struct arguments *arguments);

#endif /* KVD_CLIENT_KVCTL_INTERACTIVE_H */
