/* SPDX-License-Identifier: MIT */
/*
 * Lines of a script whose changes are under way together, for mass insertion. Changes of one handle
 * take effect in the order of the lines. A line that is no plain change of one key is a barrier: it
 * runs when all before it have ended.
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
 * Takes the line that was read last, and its words. True: it is under way, and @line's memory is
 * another one, or it is wrong and was noted. False: all before it have ended, and the caller runs
 * it.
 */
bool pipeline_take(struct pipeline *pipeline, struct words *words, struct line *line);
/* A line that the caller ran, or could not, ended with this exit status; 0: well. */
void pipeline_note(struct pipeline *pipeline, int code);
/*
 * Nothing is sent and no response is taken while kvctl waits for a line, and the changes would time
 * out: so this goes on with them until there is something to read, or none is under way.
 */
void pipeline_await_input(struct pipeline *pipeline, int fd);

/* False: the connection is lost, and no line behind would succeed. */
bool pipeline_goes_on(const struct pipeline *pipeline);

/*
 * Waits for all, prints the summary of @lines that were read, and frees it. Returns the exit status
 * of the first line that failed, as far as the pipeline knows it.
 */
int pipeline_end(struct pipeline *pipeline, uint64_t lines);

#endif /* KVD_CLIENT_KVCTL_PIPELINE_H */
