/* SPDX-License-Identifier: MIT */
/*
 * connections: measures PUTs of one thread over many connections, in turn, beside many idle ones.
 * bench/connections-scaling.sh runs it.
 *
 *	connections -a URL [-c ACTIVE] [-i IDLE] [-s SECONDS]
 *	connections -a URL -o OPENS
 *
 * A handle takes some descriptors, so the idle ones are opened by several processes. The thread is
 * pinned to the last CPU; kvd pins its first worker to the first one.
 *
 * Prints one line: PUTs per second in the 90th percentile of intervals of 20 ms and over all, p50,
 * p99 and p99.9 in microseconds, and connections that were opened per second. On a machine that
 * others use, too, the first figure is the one to compare.
 *
 * With -o it only opens connections, one after the other, each of a handle of its own, which is
 * closed again, and prints p50, p99 and the longest time of kvd_open() in milliseconds, and how
 * many there were per second, closing included. With credentials (KVD_TLS_...) none resumes a
 * session, which a handle keeps for itself.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "bench/client/puts.h"

#define ACTIVE_MAX 1024
#define IDLE_MAX 65536
#define OPENS_MAX 1000000
#define IDLE_EACH 1000 /* handles of one process */
#define HANDLE_FDS 10  /* descriptors of a handle, at most */
#define CONNECT_MS 60000
#define SETTLE_MS 500 /* for the idle ones to be found idle */
#define INTERVAL_NS 20000000u
#define SECONDS_MAX 600
#define INTERVALS_MAX ((unsigned long)SECONDS_MAX * SECOND_NS / INTERVAL_NS)

static struct kvd *active[ACTIVE_MAX];
static struct hist latency;
static double rates[INTERVALS_MAX]; /* of the intervals, per second */

static struct kvd *handle_open(const char *url)
{
	struct kvd_options options;
	struct kvd *db;

	kvd_options_init(&options);
	options.cache_bytes = 0;
	options.connect_timeout_ms = CONNECT_MS;
	if (kvd_open(&db, url, &options))
		errx(1, "%s: %s", url, kvd_error(NULL));
	return db;
}

static void descriptors_allow(unsigned int handles)
{
	const rlim_t wanted = (rlim_t)handles * HANDLE_FDS + 64;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		err(1, "the limit of open files");
	if (limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = wanted;
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "%u handles need %ju open files; raise ulimit -n", handles,
		    (uintmax_t)wanted);
}

/* A process with idle connections: tells on @ready when it has them, and keeps them. */
static void idle_main(const char *url, unsigned int count, int ready)
{
	unsigned int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0; i < count; i++)
		handle_open(url);
	if (write(ready, "", 1) != 1)
		err(1, "a pipe");
	for (;;)
		pause();
}

/* Starts processes with @count connections in all, one after the other; *@pids are theirs. */
static unsigned int idle_open(const char *url, unsigned int count, pid_t *pids)
{
	unsigned int processes = 0;
	int ready[2];
	char byte;

	for (; count; processes++) {
		unsigned int each = count < IDLE_EACH ? count : IDLE_EACH;

		if (pipe(ready))
			err(1, "a pipe");
		pids[processes] = fork();
		if (pids[processes] < 0)
			err(1, "a process");
		if (!pids[processes])
			idle_main(url, each, ready[1]);
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			errx(1, "%u idle connections could not be opened", each);
		close(ready[0]);
		count -= each;
	}
	return processes;
}

static void pin_last(void)
{
	cpu_set_t set;
	int cpu;

	if (sched_getaffinity(0, sizeof(set), &set))
		err(1, "the CPUs of this process");
	for (cpu = CPU_SETSIZE - 1; !CPU_ISSET(cpu, &set); cpu--)
		;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "the thread can't be pinned to CPU %d", cpu);
}

/* PUTs over all active connections in turn until @until_ns; returns how many. */
static uint64_t puts_until(unsigned int count, struct random *random, uint64_t until_ns)
{
	static unsigned int next; /* the connection whose turn it is */
	uint64_t now = clock_ns(), done;

	for (done = 0; now < until_ns; done++) {
		now = put_measured(active[next], random, &latency, now);
		next = next + 1 < count ? next + 1 : 0;
	}
	return done;
}

static double per_second(uint64_t puts, uint64_t ns)
{
	return (double)puts * SECOND_NS / (double)ns;
}

static int compare_rates(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(unsigned int count, unsigned int seconds, double opened_per_second)
{
	struct random random;
	uint64_t begin, before, now, puts, done = 0;
	unsigned int intervals = 0;

	random_init(&random, 1);
	puts_until(count, &random, clock_ns() + WARM_UP_NS);
	hist_init(&latency);
	begin = now = clock_ns();
	while (now < begin + (uint64_t)seconds * SECOND_NS && intervals < INTERVALS_MAX) {
		before = now;
		puts = puts_until(count, &random, before + INTERVAL_NS);
		now = clock_ns();
		rates[intervals++] = per_second(puts, now - before);
		done += puts;
	}
	qsort(rates, intervals, sizeof(rates[0]), compare_rates);
	printf("%.0f %.0f %.1f %.1f %.1f %.0f\n", rates[intervals * 9 / 10],
	       per_second(done, now - begin), us(hist_quantile(&latency, 0.5)),
	       us(hist_quantile(&latency, 0.99)), us(hist_quantile(&latency, 0.999)),
	       opened_per_second);
}

static void open_close(const char *url, unsigned int count)
{
	uint64_t begin = clock_ns(), before;

	hist_init(&latency);
	for (unsigned int i = 0; i < count; i++) {
		struct kvd *db;

		before = clock_ns();
		db = handle_open(url);
		hist_record(&latency, clock_ns() - before);
		kvd_close(db);
	}
	printf("%.2f %.2f %.2f %.0f\n", us(hist_quantile(&latency, 0.5)) / 1000,
	       us(hist_quantile(&latency, 0.99)) / 1000, us(hist_quantile(&latency, 1)) / 1000,
	       per_second(count, clock_ns() - begin));
}

static void run(const char *url, unsigned int count, unsigned int idle, unsigned int seconds)
{
	static pid_t pids[IDLE_MAX / IDLE_EACH + 1];
	unsigned int processes, i;
	uint64_t begin = clock_ns();
	double took;

	descriptors_allow(count > IDLE_EACH || !idle ? count : IDLE_EACH);
	processes = idle_open(url, idle, pids);
	for (i = 0; i < count; i++)
		active[i] = handle_open(url);
	took = (double)(clock_ns() - begin) / SECOND_NS;
	usleep(SETTLE_MS * 1000);
	pin_last();
	measure(count, seconds, (double)(count + idle) / took);
	for (i = 0; i < processes; i++)
		kill(pids[i], SIGKILL);
	for (i = 0; i < processes; i++)
		waitpid(pids[i], NULL, 0);
	for (i = 0; i < count; i++)
		kvd_close(active[i]);
}

int main(int argc, char **argv)
{
	unsigned int count = 1, idle = 0, seconds = 2, opens = 0;
	const char *url = NULL;
	int option;

	while ((option = getopt(argc, argv, "a:c:i:o:s:")) != -1) {
		switch (option) {
		case 'a':
			url = optarg;
			break;
		case 'c':
			count = number(optarg, ACTIVE_MAX);
			break;
		case 'i':
			idle = number(optarg, IDLE_MAX);
			break;
		case 'o':
			opens = number(optarg, OPENS_MAX);
			break;
		case 's':
			seconds = number(optarg, SECONDS_MAX);
			break;
		default:
			return 2;
		}
	}
	if (!url || !count || !seconds || optind != argc)
		errx(2, "usage: connections -a URL [-c ACTIVE] [-i IDLE] [-s SECONDS] | -o OPENS");
	if (opens)
		open_close(url, opens);
	else
		run(url, count, idle, seconds);
	return 0;
}
