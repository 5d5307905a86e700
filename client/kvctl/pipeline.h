/* SPDX-License-Identifier: MIT */
/*
 * Runs many changes of a script concurrently, for mass insertion. Changes of one handle take effect
 * in the order of the lines. A line that is no plain change of one key is a barrier: it runs after
 * all earlier lines have ended.
 */
#ifndef KVD_CLIENT_KVCTL_PIPELINE_H
#define KVD_CLIENT_KVCTL_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

struct arguments;
struct kvd;
struct line;
struct pipeline;
struct words;

/* NULL: no memory. */
struct pipeline *pipeline_create(struct kvd *db, const struct arguments *arguments);

/*
 * Takes the line that was read last, and its words. True: it is under way and @line has other
 * memory, or it is wrong and was noted. False: all earlier lines have ended, and the caller must
 * run this one.
 */
bool pipeline_take(struct pipeline *pipeline, struct words *words, struct line *line);
/* Notes the exit status of a line that the caller ran, or could not run; 0: success. */
void pipeline_note(struct pipeline *pipeline, int code);
/*
 * Polls until there is input, or no change is under way: changes would time out while kvctl blocks
 * in read().
 */
void pipeline_await_input(struct pipeline *pipeline, int fd);

/* False: the connection is lost, and no later line would succeed. */
bool pipeline_goes_on(const struct pipeline *pipeline);

/*
 * Waits for all changes, prints a summary of the @lines that were read, and frees the pipeline.
 * Returns the exit status of the first line that failed, as far as the pipeline knows it.
 */
int pipeline_end(struct pipeline *pipeline, uint64_t lines);

#endif /* KVD_CLIENT_KVCTL_PIPELINE_H */
