/* SPDX-License-Identifier: MIT */
/*
 * Measures PUTs of client threads that share few CPUs with kvd's workers and with busy loops.
 * bench/oversubscribed.sh runs it.
 *
 *	micro crowd -a URL [-c CLIENTS] [-w WORKERS] [-p free|beside|across] [-b LOOPS] [-s SECONDS]
 *
 * The clients connect one after another, so that client i has worker i modulo WORKERS: kvd gives a
 * connection to the worker that has the fewest. kvd pins worker w to the w-th of its CPUs. A
 * client is pinned to its worker's CPU (beside), to the next one (across), or not at all (free).
 * Busy loop i is pinned to CPU i.
 *
 * Prints one line: PUTs per second of all clients, p50, p99, p99.9 and longest in microseconds, the
 * rate of the slowest client over that of the fastest, and context switches per PUT.
 */
#include "bench/micro/micro.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CLIENTS_MAX 64
#define LOOPS_MAX 64

enum placement { FREE, BESIDE, ACROSS };

static const char *const placement_names[] = { "free", "beside", "across" };

static struct crowd {
	const char *url;
	unsigned int clients, workers, loops, seconds;
	enum placement placement;
	cpu_set_t cpus; /* the CPUs on which this process may run */
	unsigned int cpu_count;
	pthread_barrier_t start;
	atomic_bool stop;
} crowd = { .clients = 1, .workers = 1, .seconds = 2 };

struct client {
	pthread_t thread;
	unsigned int number;
	struct kvd *db;
	struct hist latency;
	double per_second;
	long switches;
};

static struct client clients[CLIENTS_MAX];
static pthread_t loops[LOOPS_MAX];

/* Pins the calling thread to the @n-th CPU, modulo their number. */
static void pin(unsigned int n)
{
	cpu_set_t set;
	int cpu;

	n %= crowd.cpu_count;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &crowd.cpus) && !n--)
			break;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		errx(1, "a thread can't be pinned to CPU %d", cpu);
}

static void *loop_main(void *arg)
{
	pin((unsigned int)(uintptr_t)arg);
	while (!atomic_load_explicit(&crowd.stop, memory_order_relaxed))
		;
	return NULL;
}

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* PUTs until @until_ns; returns how many. */
static uint64_t puts_until(struct client *client, struct random *random, uint64_t until_ns)
{
	uint64_t now = clock_ns(), count;

	for (count = 0; now < until_ns; count++)
		now = put_measured(client->db, random, &client->latency, now);
	return count;
}

static void *client_main(void *arg)
{
	struct client *client = arg;
	struct random random;
	uint64_t begin, count;
	long before;

	random_init(&random, client->number + 1);
	if (crowd.placement != FREE)
		pin(client->number % crowd.workers + (crowd.placement == ACROSS));
	pthread_barrier_wait(&crowd.start);
	puts_until(client, &random, clock_ns() + WARM_UP_NS);
	hist_init(&client->latency);
	before = switches();
	begin = clock_ns();
	count = puts_until(client, &random, begin + (uint64_t)crowd.seconds * SECOND_NS);
	client->per_second = (double)count * SECOND_NS / (double)(clock_ns() - begin);
	client->switches = switches() - before;
	return NULL;
}

static void threads_run(void)
{
	unsigned int i;

	for (i = 0; i < crowd.loops; i++)
		if (pthread_create(&loops[i], NULL, loop_main, (void *)(uintptr_t)i))
			errx(1, "no thread for busy loop %u", i);
	if (pthread_barrier_init(&crowd.start, NULL, crowd.clients))
		errx(1, "no barrier");
	for (i = 0; i < crowd.clients; i++)
		if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]))
			errx(1, "no thread for client %u", i);
	for (i = 0; i < crowd.clients; i++)
		pthread_join(clients[i].thread, NULL);
	atomic_store(&crowd.stop, true);
	for (i = 0; i < crowd.loops; i++)
		pthread_join(loops[i], NULL);
}

static void clients_open(void)
{
	unsigned int i;

	for (i = 0; i < crowd.clients; i++) {
		clients[i].number = i;
		if (kvd_open(&clients[i].db, crowd.url, NULL))
			errx(1, "%s: %s", crowd.url, kvd_error(NULL));
	}
}

static void print(void)
{
	double all = 0, slowest = clients[0].per_second, fastest = 0;
	static struct hist latency;
	long switched = 0;
	unsigned int i;

	hist_init(&latency);
	for (i = 0; i < crowd.clients; i++) {
		const struct client *client = &clients[i];

		hist_merge(&latency, &client->latency);
		all += client->per_second;
		switched += client->switches;
		slowest = client->per_second < slowest ? client->per_second : slowest;
		fastest = client->per_second > fastest ? client->per_second : fastest;
	}
	printf("%.0f %.1f %.1f %.1f %.1f %.2f %.2f\n", all, us(hist_quantile(&latency, 0.5)),
	       us(hist_quantile(&latency, 0.99)), us(hist_quantile(&latency, 0.999)),
	       us(hist_max(&latency)), slowest / fastest,
	       (double)switched / (double)hist_count(&latency));
}

static enum placement placement(const char *text)
{
	int i;

	for (i = FREE; i <= ACROSS; i++)
		if (!strcmp(text, placement_names[i]))
			return (enum placement)i;
	errx(2, "%s: give free, beside or across", text);
}

int crowd_main(int argc, char **argv)
{
	int option;
	unsigned int i;

	while ((option = getopt(argc, argv, "a:b:c:p:s:w:")) != -1) {
		switch (option) {
		case 'a':
			crowd.url = optarg;
			break;
		case 'b':
			crowd.loops = number(optarg, 0, LOOPS_MAX);
			break;
		case 'c':
			crowd.clients = number(optarg, 1, CLIENTS_MAX);
			break;
		case 'p':
			crowd.placement = placement(optarg);
			break;
		case 's':
			crowd.seconds = number(optarg, 1, 3600);
			break;
		case 'w':
			crowd.workers = number(optarg, 1, 64);
			break;
		default:
			return 2;
		}
	}
	if (!crowd.url || optind != argc)
		errx(2,
		     "usage: micro crowd -a URL [-c CLIENTS] [-w WORKERS] [-p free|beside|across] "
		     "[-b LOOPS] [-s SECONDS]");
	if (sched_getaffinity(0, sizeof(crowd.cpus), &crowd.cpus))
		err(1, "the CPUs of this process");
	crowd.cpu_count = (unsigned int)CPU_COUNT(&crowd.cpus);
	clients_open();
	threads_run();
	print();
	for (i = 0; i < crowd.clients; i++)
		kvd_close(clients[i].db);
	return 0;
}
