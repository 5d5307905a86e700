/* SPDX-License-Identifier: MIT */
/* What the programs that measure PUTs by libkvd share: the PUT itself, arguments and units. */
#ifndef KVD_BENCH_CLIENT_PUTS_H
#define KVD_BENCH_CLIENT_PUTS_H

#include <err.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench/random.h"
#include "client/kvd.h"
#include "common/util/clock.h"
#include "common/util/hist.h"

#define RECORDS 100000
#define VALUE_BYTES 48
#define WARM_UP_NS 500000000u
#define SECOND_NS 1000000000u

/* PUTs a random record, measured from @now_ns; returns the time when it was done. */
static inline uint64_t put_measured(struct kvd *db, struct random *random, struct hist *latency,
				    uint64_t now_ns)
{
	static const char value[VALUE_BYTES];
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

/* The number in an argument. */
static inline unsigned int number(const char *text, unsigned int max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n > max)
		errx(2, "%s: give a number from 0 to %u", text, max);
	return (unsigned int)n;
}

#endif /* KVD_BENCH_CLIENT_PUTS_H */
