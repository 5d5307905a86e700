/* SPDX-License-Identifier: MIT */
/*
 * rcu-flavours: measures what each flavour of liburcu costs a worker of kvd, and how long
 * synchronize_rcu() takes with it.
 *
 * A worker looks up connections by queue pair number in a cds_lfht, up to BATCH in one turn of its
 * loop. Read side: the time of such a turn with the read lock around each lookup, and with one lock
 * around the turn; both include QSBR's quiescent state at the end of the turn. "none" is the same
 * without RCU. Write side: synchronize_rcu() while READERS threads run such turns without a pause,
 * as workers under load do.
 *
 * The flavours take turns, ROUNDS times. Each figure is the median of the rounds.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _LGPL_SOURCE /* the read locks inline, as in kvd */
#include <urcu/urcu-qsbr.h>
#include <urcu/urcu-memb.h>
#include <urcu/urcu-mb.h>
#include <urcu/urcu-bp.h>
#include <urcu/rculfhash.h>

#include "bench/random.h"
#include "common/util/clock.h"

#define CONNECTIONS 1024u
#define BATCH 32u
#define TURNS 30000u
#define ROUNDS 7u
#define READERS 2u
#define WAITS 100u
#define SEQUENCE 4096u /* lookups before they repeat */

struct connection {
	struct cds_lfht_node node;
	uint32_t qp_num;
	uint32_t requests;
};

static struct cds_lfht *table;
static struct connection connections[CONNECTIONS];
static uint32_t sequence[SEQUENCE];
static atomic_bool stop;
static atomic_uint running;

static int match(struct cds_lfht_node *node, const void *key)
{
	return caa_container_of(node, struct connection, node)->qp_num == *(const uint32_t *)key;
}

static unsigned long hash_of(uint32_t qp_num)
{
	return (unsigned long)qp_num * 0x9e3779b97f4a7c15ul >> 32;
}

static inline uint32_t conn_lookup(uint32_t qp_num)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *node;

	cds_lfht_lookup(table, hash_of(qp_num), match, &qp_num, &iter);
	node = cds_lfht_iter_get_node(&iter);
	return node ? caa_container_of(node, struct connection, node)->requests : 0;
}

static inline void nothing(void)
{
}

struct flavour {
	const char *name;
	const char *note;
	uint32_t (*each)(uint32_t turn); /* a turn, a lock around each lookup */
	uint32_t (*once)(uint32_t turn); /* a turn in one lock */
	void (*enter)(void);
	void (*leave)(void);
	void (*synchronize)(void);
};

/* Inline locks are called by name: a call through a pointer would cost more than the lock. */
#define DEFINE_TURNS(name, lock, unlock, quiesce)                                                  \
	static uint32_t name##_each(uint32_t turn)                                                 \
	{                                                                                          \
		uint32_t sum = 0, i;                                                               \
                                                                                                   \
		for (i = 0; i < BATCH; i++) {                                                      \
			lock();                                                                    \
			sum += conn_lookup(sequence[(turn * BATCH + i) % SEQUENCE]);               \
			unlock();                                                                  \
		}                                                                                  \
		quiesce();                                                                         \
		return sum;                                                                        \
	}                                                                                          \
	static uint32_t name##_once(uint32_t turn)                                                 \
	{                                                                                          \
		uint32_t sum = 0, i;                                                               \
                                                                                                   \
		lock();                                                                            \
		for (i = 0; i < BATCH; i++)                                                        \
			sum += conn_lookup(sequence[(turn * BATCH + i) % SEQUENCE]);               \
		unlock();                                                                          \
		quiesce();                                                                         \
		return sum;                                                                        \
	}

DEFINE_TURNS(none, nothing, nothing, nothing)
DEFINE_TURNS(qsbr, urcu_qsbr_read_lock, urcu_qsbr_read_unlock, urcu_qsbr_quiescent_state)
DEFINE_TURNS(memb, urcu_memb_read_lock, urcu_memb_read_unlock, nothing)
DEFINE_TURNS(mb, urcu_mb_read_lock, urcu_mb_read_unlock, nothing)
DEFINE_TURNS(bp, urcu_bp_read_lock, urcu_bp_read_unlock, nothing)

#define FLAVOUR(name, note)                                                                        \
	{                                                                                          \
#name, note, name##_each, name##_once, urcu_##name##_register_thread,              \
			urcu_##name##_unregister_thread, urcu_##name##_synchronize_rcu             \
	}

static const struct flavour flavours[] = {
	{ "none", "no RCU", none_each, none_once, nothing, nothing, NULL },
	FLAVOUR(qsbr, "the worker reports when it is between turns"),
	FLAVOUR(memb, "membarrier(2) by the waiting thread"),
	FLAVOUR(mb, "a full barrier in each lock and unlock"),
	FLAVOUR(bp, "threads register on their first lock"),
};

#define FLAVOURS (sizeof(flavours) / sizeof(flavours[0]))

struct figures {
	double each_ns[ROUNDS], once_ns[ROUNDS];    /* of a turn */
	double wait_ns[ROUNDS], longest_ns[ROUNDS]; /* of synchronize_rcu(): median, longest */
};

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

static double turns_time(uint32_t (*turn)(uint32_t))
{
	static volatile uint32_t sink;
	const uint64_t start_ns = clock_ns();
	uint32_t sum = 0, i;

	for (i = 0; i < TURNS; i++)
		sum += turn(i);
	sink = sum;
	(void)sink;
	return (double)(clock_ns() - start_ns) / TURNS;
}

static void pin(unsigned int number)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number % (unsigned int)(cpus > 0 ? cpus : 1), &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set); /* a failure only adds noise */
}

struct reader {
	pthread_t thread;
	const struct flavour *flavour;
	unsigned int number;
};

static void *reader_main(void *argument)
{
	const struct reader *reader = argument;
	uint32_t turn = 0;

	pin(reader->number);
	reader->flavour->enter();
	atomic_fetch_add(&running, 1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		reader->flavour->once(turn++);
	reader->flavour->leave();
	return NULL;
}

static void waits_time(const struct flavour *flavour, struct figures *figures, unsigned int round)
{
	struct reader readers[READERS];
	double times[WAITS];
	uint64_t start_ns;
	unsigned int i;

	atomic_store(&stop, false);
	atomic_store(&running, 0);
	for (i = 0; i < READERS; i++) {
		readers[i] = (struct reader){ .flavour = flavour, .number = i };
		if (pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]))
			errx(1, "no thread");
	}
	while (atomic_load(&running) < READERS)
		sched_yield();
	for (i = 0; i < WAITS; i++) {
		start_ns = clock_ns();
		flavour->synchronize();
		times[i] = (double)(clock_ns() - start_ns);
	}
	atomic_store(&stop, true);
	for (i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
	figures->wait_ns[round] = median(times, WAITS);
	figures->longest_ns[round] = times[WAITS - 1];
}

static void round_run(struct figures *figures, unsigned int round)
{
	const struct flavour *flavour;
	size_t i;

	for (i = 0; i < FLAVOURS; i++) {
		flavour = &flavours[i];
		flavour->enter();
		figures[i].each_ns[round] = turns_time(flavour->each);
		figures[i].once_ns[round] = turns_time(flavour->once);
		flavour->leave();
		if (flavour->synchronize)
			waits_time(flavour, &figures[i], round);
	}
}

static void table_fill(void)
{
	struct random random;
	uint32_t i;

	/* Of fixed size, so it never calls its flavour. */
	table = cds_lfht_new_flavor(CONNECTIONS, CONNECTIONS, CONNECTIONS, 0, &urcu_qsbr_flavor,
				    NULL);
	if (!table)
		errx(1, "no memory for the table");
	random_init(&random, 1);
	urcu_qsbr_register_thread();
	for (i = 0; i < CONNECTIONS; i++) {
		connections[i] = (struct connection){ .qp_num = 17 + i, .requests = 1 };
		cds_lfht_node_init(&connections[i].node);
		cds_lfht_add(table, hash_of(connections[i].qp_num), &connections[i].node);
	}
	urcu_qsbr_unregister_thread();
	for (i = 0; i < SEQUENCE; i++)
		sequence[i] = connections[random_below(&random, CONNECTIONS)].qp_num;
}

int main(void)
{
	static struct figures figures[FLAVOURS];
	double each, once, none_each_ns, none_once_ns;
	unsigned int round;
	size_t i;

	table_fill();
	for (round = 0; round < ROUNDS; round++)
		round_run(figures, round);
	printf("liburcu: a turn of %u lookups in %u connections; medians of %u rounds\n\n", BATCH,
	       CONNECTIONS, ROUNDS);
	printf("%-5s %22s %22s %24s\n", "", "lock each lookup", "one lock a turn",
	       "synchronize_rcu, us");
	printf("%-5s %11s %10s %11s %10s %12s %11s\n", "", "ns/lookup", "RCU's", "ns/lookup",
	       "RCU's", "median", "longest");
	none_each_ns = median(figures[0].each_ns, ROUNDS);
	none_once_ns = median(figures[0].once_ns, ROUNDS);
	for (i = 0; i < FLAVOURS; i++) {
		each = median(figures[i].each_ns, ROUNDS);
		once = median(figures[i].once_ns, ROUNDS);
		printf("%-5s %11.2f %10.2f %11.2f %10.2f", flavours[i].name, each / BATCH,
		       (each - none_each_ns) / BATCH, once / BATCH, (once - none_once_ns) / BATCH);
		if (flavours[i].synchronize)
			printf(" %12.1f %11.1f", median(figures[i].wait_ns, ROUNDS) / 1e3,
			       median(figures[i].longest_ns, ROUNDS) / 1e3);
		else
			printf(" %12s %11s", "-", "-");
		printf("  %s\n", flavours[i].note);
	}
	printf("\nsynchronize_rcu: %u calls while %u threads run such turns without a pause.\n",
	       WAITS, READERS);
	return 0;
}
