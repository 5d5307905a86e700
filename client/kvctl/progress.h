/* SPDX-License-Identifier: MIT */
/*
 * A line on the terminal that says how far a long command is: share, keys, bytes, rates and the
 * time that is left. It goes to the standard error, some times a second, over itself; not at all
 * where that is no terminal, unless the user wants it.
 */
#ifndef KVD_CLIENT_KVCTL_PROGRESS_H
#define KVD_CLIENT_KVCTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool is_shown;
	uint64_t total; /* of what `done` counts; 0: unknown, and so no share and no time left */
	uint64_t done, keys, bytes;
	uint64_t done_before; /* of an earlier run that was interrupted: not in the rates */
	uint64_t keys_before, bytes_before;
	uint64_t begin_ns, shown_ns; /* clock_ns() */
};

/* @is_wanted: also where the standard error is no terminal. */
void progress_begin(struct progress *progress, bool is_wanted, uint64_t total);
/* What was done before now is of an earlier run. */
void progress_resume(struct progress *progress);
/* To be called often, after `done`, `keys` and `bytes` have changed: it looks at the clock. */
void progress_show(struct progress *progress);
/* Shows it once more, and ends the line. */
void progress_end(struct progress *progress);

/* "1.5 GiB" to @text, which has 16 bytes and is returned. */
char *bytes_text(char text[16], double bytes);
/* "1:02:03" or "2:03". */
char *time_text(char text[24], uint64_t seconds);

#endif /* KVD_CLIENT_KVCTL_PROGRESS_H */
