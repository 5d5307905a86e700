/* SPDX-License-Identifier: MIT */
/*
 * Measures PUTs of one thread over many connections in turn, while many others are idle.
 * bench/connections-scaling.sh and bench/connect-ways.sh run it.
 *
 *	micro connections -a URL [-c ACTIVE] [-i IDLE] [-s SECONDS] [-t PAUSE_US] [-p KVD_PID]
 *	micro connections -a URL -o OPENS
 *
 * A handle takes some descriptors, so several processes open the idle ones. The thread is pinned to
 * the last CPU; kvd pins its first worker to the first CPU. With -t the thread sleeps between two
 * PUTs, so that kvd's worker sleeps, too.
 *
 * Prints one line: PUTs per second in the 90th percentile of intervals of 20 ms and overall, p50,
 * p99 and p99.9 in microseconds, connections opened per second and, with kvd's process number, its
 * CPU time per PUT in microseconds and its resident memory per connection in KiB (else 0). On a
 * machine that others use, too, the first figure is the one to compare.
 *
 * With -o it only opens and closes handles, one after another, and prints p50, p99 and the longest
 * time of kvd_open() in milliseconds, and connections per second, closing included. With
 * credentials (KVD_TLS_...) no connection resumes a TLS session, as each handle has sessions of its
 * own.
 */
#include "bench/micro/micro.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ACTIVE_MAX 16384
#define IDLE_MAX 65536
#define OPENS_MAX 1000000
#define IDLE_EACH 1000 /* handles of one process */
#define CONNECT_MS 60000
#define SETTLE_MS 500 /* until kvd has found the idle connections to be idle */
#define INTERVAL_NS 20000000u
#define SECONDS_MAX 600
#define PAUSE_US_MAX 100000
#define INTERVALS_MAX ((unsigned long)SECONDS_MAX * SECOND_NS / INTERVAL_NS)

struct setting {
	const char *url;
	unsigned int active, idle, seconds, pause_us;
	pid_t kvd; /* 0: unknown */
};

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

/* Runs in a process: opens idle connections, reports on @ready, and keeps them. */
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

/* Starts processes with @count connections in all, one after another; *@pids are their ids. */
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

/* CPU time that kvd's process has used. */
static uint64_t kvd_cpu_ns(pid_t kvd)
{
	struct timespec ts;
	clockid_t clock;

	if (!kvd)
		return 0;
	if (clock_getcpuclockid(kvd, &clock) || clock_gettime(clock, &ts))
		errx(1, "the CPU time of process %d can't be read", (int)kvd);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* Resident memory of kvd's process. */
static double kvd_memory_kib(pid_t kvd)
{
	char path[64];
	long pages;
	FILE *file;

	if (!kvd)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)kvd);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		errx(1, "%s can't be read", path);
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* PUTs over all active connections in turn until @until_ns; returns how many. */
static uint64_t puts_until(const struct setting *setting, struct random *random, uint64_t until_ns)
{
	static unsigned int next; /* the connection whose turn it is */
	uint64_t now = clock_ns(), done;

	for (done = 0; now < until_ns; done++) {
		now = put_measured(active[next], random, &latency, now);
		next = next + 1 < setting->active ? next + 1 : 0;
		if (setting->pause_us) {
			usleep(setting->pause_us);
			now = clock_ns();
		}
	}
	return done;
}

static double per_second(uint64_t puts, uint64_t ns)
{
	return (double)puts * SECOND_NS / (double)ns;
}

static void measure(const struct setting *setting, double opened_per_second, double each_kib)
{
	struct random random;
	uint64_t begin, before, now, puts, cpu_ns, done = 0;
	unsigned int intervals = 0;

	random_init(&random, 1);
	puts_until(setting, &random, clock_ns() + WARM_UP_NS);
	hist_init(&latency);
	cpu_ns = kvd_cpu_ns(setting->kvd);
	begin = now = clock_ns();
	while (now < begin + (uint64_t)setting->seconds * SECOND_NS && intervals < INTERVALS_MAX) {
		before = now;
		puts = puts_until(setting, &random, before + INTERVAL_NS);
		now = clock_ns();
		rates[intervals++] = per_second(puts, now - before);
		done += puts;
	}
	cpu_ns = kvd_cpu_ns(setting->kvd) - cpu_ns;
	qsort(rates, intervals, sizeof(rates[0]), compare_doubles);
	printf("%.0f %.0f %.1f %.1f %.1f %.0f %.2f %.1f\n", rates[intervals * 9 / 10],
	       per_second(done, now - begin), us(hist_quantile(&latency, 0.5)),
	       us(hist_quantile(&latency, 0.99)), us(hist_quantile(&latency, 0.999)),
	       opened_per_second, us(cpu_ns) / (double)done, each_kib);
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

static void run(const struct setting *setting)
{
	static pid_t pids[IDLE_MAX / IDLE_EACH + 1];
	unsigned int count = setting->active, idle = setting->idle, processes, i;
	double took, before_kib = kvd_memory_kib(setting->kvd), each_kib;
	uint64_t begin = clock_ns();

	descriptors_allow(count > IDLE_EACH || !idle ? count : IDLE_EACH);
	processes = idle_open(setting->url, idle, pids);
	for (i = 0; i < count; i++)
		active[i] = handle_open(setting->url);
	took = (double)(clock_ns() - begin) / SECOND_NS;
	each_kib = (kvd_memory_kib(setting->kvd) - before_kib) / (count + idle);
	usleep(SETTLE_MS * 1000);
	pin_last();
	measure(setting, (double)(count + idle) / took, each_kib);
	for (i = 0; i < processes; i++)
		kill(pids[i], SIGKILL);
	for (i = 0; i < processes; i++)
		waitpid(pids[i], NULL, 0);
	for (i = 0; i < count; i++)
		kvd_close(active[i]);
}

int connections_main(int argc, char **argv)
{
	struct setting setting = { .active = 1, .seconds = 2 };
	unsigned int opens = 0;
	int option;

	while ((option = getopt(argc, argv, "a:c:i:o:p:s:t:")) != -1) {
		switch (option) {
		case 'a':
			setting.url = optarg;
			break;
		case 'c':
			setting.active = number(optarg, 1, ACTIVE_MAX);
			break;
		case 'i':
			setting.idle = number(optarg, 0, IDLE_MAX);
			break;
		case 'o':
			opens = number(optarg, 1, OPENS_MAX);
			break;
		case 'p':
			setting.kvd = (pid_t)number(optarg, 1, INT_MAX);
			break;
		case 's':
			setting.seconds = number(optarg, 1, SECONDS_MAX);
			break;
		case 't':
			setting.pause_us = number(optarg, 0, PAUSE_US_MAX);
			break;
		default:
			return 2;
		}
	}
	if (!setting.url || optind != argc)
		errx(2, "usage: micro connections -a URL [-c ACTIVE] [-i IDLE] [-s SECONDS]\n"
			"                         [-t PAUSE_US] [-p KVD_PID]\n"
			"       micro connections -a URL -o OPENS");
	if (opens)
		open_close(setting.url, opens);
	else
		run(&setting);
	return 0;
}
