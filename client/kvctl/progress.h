/* SPDX-License-Identifier: MIT */
/*
 * The progress line of a long command: share, keys, bytes, rates and remaining time. It is redrawn
 * on the standard error a few times a second; if that is no terminal, only with --progress.
 */
#ifndef KVD_CLIENT_KVCTL_PROGRESS_H
#define KVD_CLIENT_KVCTL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool is_shown;
	uint64_t total; /* of what `done` counts; 0: unknown, so no share and remaining time */
	uint64_t done, keys, bytes;
	uint64_t done_before; /* by an earlier run that was interrupted: not in the rates */
	uint64_t keys_before, bytes_before;
	uint64_t begin_ns, shown_ns; /* clock_ns() */
};

/* @is_wanted: show it even if the standard error is no terminal. */
void progress_begin(struct progress *progress, bool is_wanted, uint64_t total);
/* Counts everything done so far to an earlier run. */
void progress_resume(struct progress *progress);
/* Call it often, after `done`, `keys` and `bytes` have changed: it redraws when it is time. */
void progress_show(struct progress *progress);
/* Shows the progress once more, and ends the line. */
void progress_end(struct progress *progress);

/* "1.5 GiB" to @text, which has 16 bytes and is returned. */
char *bytes_text(char text[16], double bytes);
/* "1:02:03" or "2:03". */
char *time_text(char text[24], uint64_t seconds);

#endif /* KVD_CLIENT_KVCTL_PROGRESS_H */
