/* SPDX-License-Identifier: MIT */
/*
 * The command line of kvbench: which command, which store, and the options of that command.
 */
#ifndef KVD_BENCH_ARGUMENTS_H
#define KVD_BENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/db.h"
#include "bench/props.h"

enum command {
	COMMAND_LOAD,
	COMMAND_RUN,
	COMMAND_PUT,
	COMMAND_GET,
	COMMAND_MISS,
	COMMAND_DELETE,
	COMMAND_COUNT,
	COMMAND_SHIFT,
};
#define COMMAND_TOTAL 8

/* Parsed arguments; strings belong to the command line. */
struct arguments {
	enum command command;
	const char *db_name, *url; /* as given, else NULL */
	struct db_target target;

	struct props props;
	const char *name; /* of the last property file */
	unsigned int batch;
	bool json;
	bool registered;

	uint64_t records; /* -n; 0: not given */
	uint64_t times;	  /* --times of shift */
	char *const *sizes;
	int size_count;
};

void arguments_init(struct arguments *arguments);
void arguments_release(struct arguments *arguments);

/*
 * Returns 0, or -EINVAL after it has printed what is wrong. Ends the program after --help and
 * --version.
 */
int arguments_read(struct arguments *arguments, int argc, char **argv);

/* Prints "kvbench: ", @message, @detail and a pointer to -h. Returns -EINVAL. */
int arguments_refuse(const char *message, const char *detail);

#endif /* KVD_BENCH_ARGUMENTS_H */
