/* SPDX-License-Identifier: MIT */
/*
 * micro: measurements of libkvd alone, each a command of one program. The scripts in bench/ run
 * these commands. The head of each file says what its command measures and prints.
 */
#ifndef KVD_BENCH_MICRO_MICRO_H
#define KVD_BENCH_MICRO_MICRO_H

#include <err.h>
#include <stdint.h>

#include "bench/random.h"
#include "client/kvd.h"
#include "common/util/clock.h"
#include "common/util/hist.h"

#define RECORDS 100000
#define PUT_BYTES 48
#define WARM_UP_NS 500000000u
#define SECOND_NS 1000000000u

/* The commands, in the order of their files. argv[0] is the command's name. */
int async_main(int argc, char **argv);
int away_main(int argc, char **argv);
int calls_main(int argc, char **argv);
int connections_main(int argc, char **argv);
int crowd_main(int argc, char **argv);
int get_floor_main(int argc, char **argv);
int ranges_main(int argc, char **argv);
int resp_main(int argc, char **argv);
int sockets_main(int argc, char **argv);

/* The number in an argument, from @min to @max; exits if it is no such number. */
unsigned int number(const char *text, unsigned int min, unsigned int max);

/* Raises the limit of open files to what @handles may need, or as far as allowed. */
void descriptors_allow(unsigned int handles);

/* Compares two numbers, for qsort(). */
int compare_doubles(const void *a, const void *b);

/* PUTs a random record, timed from @now_ns; returns the time when it was done. */
static inline uint64_t put_measured(struct kvd *db, struct random *random, struct hist *latency,
				    uint64_t now_ns)
{
	static const char value[PUT_BYTES];
	uint64_t record = random_below(random, RECORDS), done_ns;

	if (kvd_put(db, &record, sizeof(record), value, sizeof(value), NULL, NULL))
		errx(1, "PUT: %s", kvd_error(db));
	done_ns = clock_ns();
	hist_record(latency, done_ns - now_ns);
	return done_ns;
}

static inline double us(uint64_t ns)
{
	return (double)ns / 1000;
}

#endif /* KVD_BENCH_MICRO_MICRO_H */
