/* SPDX-License-Identifier: MIT */
/*
 * Measures look-ups of keys whose server is away. bench/failover.sh runs it.
 *
 *	micro away URL
 *
 * It stores keys, prints "ready", and GETs them all the time. After a line on the standard input
 * (the server, or a member of the fleet, was killed) it goes on until AWAY look-ups have ended with
 * KVD_ERR_AWAY, and prints "first MS us P50 P99": the longest call until then, and percentiles of
 * the calls that ended so after the first one.
 */
#include "bench/micro/micro.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEYS 1000u
#define AWAY 10000u
#define GIVE_UP_NS (60ull * SECOND_NS)

static bool line_has_come(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

static void measure(struct kvd *db)
{
	static struct hist times;
	uint64_t first_ns = 0, end_ns = UINT64_MAX, count = 0, i;
	char value[8];

	for (i = 0; count <= AWAY; i = (i + 1) % KEYS) {
		uint64_t start_ns = clock_ns(), took_ns;
		enum kvd_status status = kvd_get(db, &i, sizeof(i), value, sizeof(value), NULL);

		took_ns = clock_ns() - start_ns;
		if (status == KVD_ERR_AWAY && count++)
			hist_record(&times, took_ns);
		if (took_ns > first_ns && count <= 1)
			first_ns = took_ns;
		if (!i && end_ns == UINT64_MAX && line_has_come())
			end_ns = start_ns + GIVE_UP_NS;
		if (start_ns > end_ns)
			errx(1, "%ju look-ups found a server away: too few", (uintmax_t)count);
	}
	printf("first %.0f us %.2f %.2f\n", us(first_ns) / 1000, us(hist_quantile(&times, 0.5)),
	       us(hist_quantile(&times, 0.99)));
}

int away_main(int argc, char **argv)
{
	struct kvd_options options;
	struct kvd *db;

	if (argc != 2)
		errx(2, "usage: micro away URL");
	kvd_options_init(&options);
	if (kvd_open(&db, argv[1], &options))
		errx(1, "%s", kvd_error(NULL));
	for (uint64_t i = 0; i < KEYS; i++)
		if (kvd_put(db, &i, sizeof(i), "value", 5, NULL, NULL))
			errx(1, "PUT: %s", kvd_error(db));
	printf("ready\n");
	fflush(stdout);
	measure(db);
	kvd_close(db);
	return 0;
}
