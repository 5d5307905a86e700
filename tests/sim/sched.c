/* SPDX-License-Identifier: MIT */
/* The scheduler: which thread has the token, virtual time, timers, and the threads' ends. */
#include "tests/sim/sched.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/splitmix.h"

#define THREADS_MAX 256
#define REGIONS_MAX 64
/* One in this many ordered stores to memory that clients read is a disturbance. */
#define STORE_ODDS 8
#define ATOMIC_WEIGHT 8
/* The pauses there: 2^10 ns to 2^18 ns, some operations of others. */
#define STORE_PAUSE_LOG_MIN 10
#define STORE_PAUSE_LOG_RANGE 9
#define TIMERS_MAX 256
/* Virtual times: what a point takes, and a reading of the clock. */
#define POINT_NS 1
#define CLOCK_NS 15
/* A thread that has the highest priority for this many points loses it. */
#define STRETCH_POINTS 200000
/* The pauses of a thread that stands still: 2^8 ns to 2^22 ns. */
#define PAUSE_LOG_MIN 8
#define PAUSE_LOG_RANGE 15
/* The weight between two pauses, in the mean: with less, calls time out by themselves. */
#define PAUSE_WEIGHT_MIN 8192
/* The mean distance between change points of priorities, in points: 2^10 to 2^17. */
#define CHANGE_LOG_MIN 10
#define CHANGE_LOG_RANGE 8
/* A run ends sooner, whatever times out in it. */
#define END_NS 900000000000ull
/* Jumps of the time that a trace shows. */
#define JUMP_SHOWN_NS 20000000ull

enum state { STATE_RUNS, STATE_WAITS, STATE_ENDED };

struct thread {
	pthread_t real;
	pid_t tid;
	uint32_t token; /* futex: 1: it has it */
	unsigned int number;
	enum state state;
	bool joined;
	uint64_t priority;
	uint64_t since_steps; /* it has the token */
	sim_ready_fn *ready;  /* waits for this; NULL: for a time alone */
	const void *ready_arg;
	uint64_t asked; /* sim.changes when ready() was last called */
	bool is_ready;
	uint64_t until_ns;
	const char *what;
	void *(*run)(void *);
	void *arg, *result;
};

struct timer {
	int fd;
	uint64_t when_ns, every_ns;
};

static struct {
	struct sim_options options;
	bool on, disturbed, priorities;
	uint64_t random, now_ns, steps, changes, trace, disturbances;
	int64_t credit; /* weight of the points until the next disturbance */
	uint64_t mean;	/* of it */
	uint64_t low;	/* the lowest priority given */
	unsigned int pause_odds;
	struct thread *self;
	struct thread threads[THREADS_MAX];
	unsigned int count;
	struct thread *ending; /* has given away the token, but may still run */
	struct timer timers[TIMERS_MAX];
	unsigned int timers_count;
	struct {
		uintptr_t base, bytes;
	} regions[REGIONS_MAX];
	unsigned int regions_count;
} sim;

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);
ssize_t __real_write(int, const void *, size_t);
pid_t __real_getpid(void);
int __real_sched_yield(void);

static void token_pass(struct thread *to)
{
	__atomic_store_n(&to->token, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &to->token, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Takes the token that was passed, when the one who ended has really gone. */
static void token_take(struct thread *self)
{
	while (!__atomic_load_n(&self->token, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &self->token, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	self->token = 0;
	while (sim.ending && !syscall(SYS_tgkill, __real_getpid(), sim.ending->tid, 0))
		__real_sched_yield();
	sim.ending = NULL;
}

uint64_t sim_random(void)
{
	return splitmix_next(&sim.random);
}

static void trace_add(uint64_t what)
{
	sim.trace = (sim.trace ^ what) * 0x9fb21c651e98df25;
	sim.trace ^= sim.trace >> 29;
}

/* Points until the next disturbance: uniform up to twice the mean. */
static void credit_draw(void)
{
	sim.credit = 1 + (int64_t)(sim_random() % (2 * sim.mean));
}

void sim_begin(const struct sim_options *options)
{
	sim.options = *options;
	sim.random = options->seed * 0xd1342543de82ef95 + 1;
	sim.low = UINT64_MAX / 2;
	sim.priorities = sim_random() % 3 == 0;
	sim.mean = 1ull << (sim.priorities ? CHANGE_LOG_MIN + sim_random() % CHANGE_LOG_RANGE :
					     4 + sim_random() % 9);
	sim.pause_odds = 1u << (sim_random() % 6);
	if (sim.mean * sim.pause_odds < PAUSE_WEIGHT_MIN)
		sim.pause_odds = (unsigned int)(PAUSE_WEIGHT_MIN / sim.mean);
	sim.self = &sim.threads[0];
	sim.self->real = pthread_self();
	sim.self->priority = UINT64_MAX / 2 + sim_random() / 2;
	sim.count = 1;
	credit_draw();
	sim.on = true;
}

void sim_disturb(bool on)
{
	sim.disturbed = on;
}

void sim_changed(void)
{
	sim.changes++;
}

uint64_t sim_now(void)
{
	return sim.now_ns;
}

uint64_t sim_trace(void)
{
	return sim.trace;
}

uint64_t sim_steps(void)
{
	return sim.steps;
}

uint64_t sim_disturbances(void)
{
	return sim.disturbances;
}

unsigned int sim_thread_number(void)
{
	return sim.self ? sim.self->number : 0;
}

void sim_wrong(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "WRONG: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	fflush(NULL);
	_exit(EXIT_FAILURE);
}

static void timers_fire(void)
{
	const uint64_t one = 1;
	struct timer *t;

	for (t = sim.timers; t < sim.timers + sim.timers_count; t++) {
		if (t->when_ns > sim.now_ns)
			continue;
		if (__real_write(t->fd, &one, sizeof(one)) != sizeof(one))
			sim_wrong("timer of descriptor %d: %m", t->fd);
		t->when_ns = t->every_ns ? sim.now_ns + t->every_ns : SIM_NEVER;
		sim.changes++;
	}
}

static struct timer *timer_find(int fd)
{
	for (unsigned int i = 0; i < sim.timers_count; i++)
		if (sim.timers[i].fd == fd)
			return &sim.timers[i];
	return NULL;
}

void sim_timer_set(int fd, uint64_t when_ns, uint64_t every_ns)
{
	struct timer *t = timer_find(fd);

	if (!t && sim.timers_count == TIMERS_MAX)
		sim_wrong("too many timers");
	if (!t)
		t = &sim.timers[sim.timers_count++];
	*t = (struct timer){ fd, when_ns, every_ns };
}

void sim_timer_end(int fd)
{
	struct timer *t = timer_find(fd);

	if (t)
		*t = sim.timers[--sim.timers_count];
}

uint64_t sim_timer_left(int fd, uint64_t *every_ns)
{
	const struct timer *t = timer_find(fd);

	*every_ns = t ? t->every_ns : 0;
	if (!t || t->when_ns == SIM_NEVER)
		return 0;
	return t->when_ns > sim.now_ns ? t->when_ns - sim.now_ns : 1;
}

static bool can_run(struct thread *t)
{
	if (t->state != STATE_WAITS)
		return t->state == STATE_RUNS;
	if (t->ready && (t->asked != sim.changes)) {
		t->asked = sim.changes;
		t->is_ready = t->ready(t->ready_arg);
	}
	return t->is_ready || t->until_ns <= sim.now_ns;
}

static void waits_print(uint64_t next_ns)
{
	unsigned int i;

	fprintf(stderr,
		"%12llu ns: all wait, for %llu ns at least:", (unsigned long long)sim.now_ns,
		(unsigned long long)(next_ns - sim.now_ns));
	for (i = 0; i < sim.count; i++)
		if (sim.threads[i].state == STATE_WAITS)
			fprintf(stderr, " %u: %s (%lld);", i, sim.threads[i].what,
				(long long)(sim.threads[i].until_ns - sim.now_ns));
	fprintf(stderr, "\n");
}

static void deadlock(void)
{
	waits_print(SIM_NEVER);
	sim_wrong("deadlock: all threads wait, none with a deadline");
}

/* Nobody can run: time jumps to the next deadline. */
static void time_jump(void)
{
	uint64_t next = SIM_NEVER;
	unsigned int i;

	for (i = 0; i < sim.count; i++)
		if (sim.threads[i].state == STATE_WAITS && sim.threads[i].until_ns < next)
			next = sim.threads[i].until_ns;
	for (i = 0; i < sim.timers_count; i++)
		if (sim.timers[i].when_ns < next)
			next = sim.timers[i].when_ns;
	if (next == SIM_NEVER)
		deadlock();
	if (next > END_NS) {
		waits_print(next);
		sim_wrong("it does not end within %llu virtual seconds", END_NS / 1000000000);
	}
	if (sim.options.trace && next > sim.now_ns + JUMP_SHOWN_NS)
		waits_print(next);
	if (next > sim.now_ns)
		sim.now_ns = next;
}

/* The thread to run next, which may be the one that runs. */
static struct thread *choose(void)
{
	struct thread *able[THREADS_MAX], *best;
	unsigned int i, count;

	for (;;) {
		timers_fire();
		for (i = count = 0; i < sim.count; i++)
			if (can_run(&sim.threads[i]))
				able[count++] = &sim.threads[i];
		if (count)
			break;
		time_jump();
	}
	if (!sim.priorities || !sim.disturbed)
		return able[sim_random() % count];
	best = able[0];
	for (i = 1; i < count; i++)
		if (able[i]->priority > best->priority)
			best = able[i];
	return best;
}

static void switch_to(struct thread *next)
{
	struct thread *self = sim.self;

	if (next->state == STATE_WAITS)
		next->state = STATE_RUNS;
	trace_add(next->number);
	if (next == self)
		return;
	next->since_steps = sim.steps;
	sim.self = next;
	token_pass(next);
	if (self->state != STATE_ENDED)
		token_take(self);
}

static void priority_lose(void)
{
	sim.self->priority = --sim.low;
}

/* The thread that runs stands still for a while. */
static void pause_begin(unsigned int log_min, unsigned int log_range)
{
	uint64_t ns = 1ull << (log_min + sim_random() % log_range);

	sim.self->state = STATE_WAITS;
	sim.self->ready = NULL;
	sim.self->is_ready = false;
	sim.self->until_ns = sim.now_ns + ns + sim_random() % ns;
	sim.self->what = "nothing";
}

static void disturb(const void *where)
{
	struct thread *self = sim.self;

	credit_draw();
	if (!sim.disturbed || sim.disturbances >= sim.options.disturbances)
		return;
	sim.disturbances++;
	if (sim.options.trace)
		fprintf(stderr, "%12llu ns: thread %u is disturbed at %p\n",
			(unsigned long long)sim.now_ns, self->number, where);
	if (sim.priorities)
		priority_lose();
	if (sim_random() % sim.pause_odds == 0)
		pause_begin(PAUSE_LOG_MIN, PAUSE_LOG_RANGE);
	switch_to(choose());
}

void sim_point(unsigned int weight, const void *where)
{
	if (!sim.on)
		return;
	sim.steps++;
	sim.now_ns += POINT_NS;
	trace_add((uintptr_t)where);
	sim.credit -= weight;
	if (sim.credit > 0)
		return;
	if (sim.steps > sim.options.steps_max)
		sim_wrong("livelock: %lu points", sim.options.steps_max);
	if (sim.priorities && sim.steps - sim.self->since_steps > STRETCH_POINTS)
		priority_lose();
	disturb(where);
}

void sim_region(const void *base, size_t bytes)
{
	if (sim.regions_count < REGIONS_MAX) {
		sim.regions[sim.regions_count].base = (uintptr_t)base;
		sim.regions[sim.regions_count++].bytes = bytes;
	}
}

static bool in_region(uintptr_t address)
{
	unsigned int i;

	for (i = 0; i < sim.regions_count; i++)
		if (address - sim.regions[i].base < sim.regions[i].bytes)
			return true;
	return false;
}

void sim_point_at(const volatile void *address, bool stores, const void *where)
{
	if (!sim.on)
		return;
	sim_point(ATOMIC_WEIGHT, where);
	if (!stores || !sim.disturbed || !in_region((uintptr_t)address) ||
	    sim_random() % STORE_ODDS || sim.disturbances >= sim.options.disturbances)
		return;
	sim.disturbances++;
	if (sim.options.trace)
		fprintf(stderr, "%12llu ns: thread %u pauses before its store at %p\n",
			(unsigned long long)sim.now_ns, sim.self->number, where);
	pause_begin(STORE_PAUSE_LOG_MIN, STORE_PAUSE_LOG_RANGE);
	switch_to(choose());
}

/* Others run, whether the schedule is disturbed or not: the one that spins may wait for them. */
void sim_spin(uint64_t ns, const void *where)
{
	if (!sim.on)
		return;
	sim.steps++;
	sim.now_ns += ns;
	trace_add((uintptr_t)where);
	if (sim.steps > sim.options.steps_max)
		sim_wrong("livelock: %lu points, and it spins", sim.options.steps_max);
	priority_lose();
	switch_to(choose());
}

uint64_t sim_clock(void)
{
	sim.now_ns += CLOCK_NS;
	return sim.now_ns;
}

bool sim_wait(sim_ready_fn *ready, const void *arg, uint64_t until_ns, const char *what)
{
	struct thread *self = sim.self;

	if (ready && ready(arg))
		return true;
	if (until_ns <= sim.now_ns)
		return false;
	self->state = STATE_WAITS;
	self->ready = ready;
	self->ready_arg = arg;
	self->asked = sim.changes;
	self->is_ready = false;
	self->until_ns = until_ns;
	self->what = what;
	switch_to(choose());
	return ready && ready(arg);
}

static void *thread_run(void *arg)
{
	struct thread *self = arg;

	token_take(self);
	self->tid = gettid();
	self->result = self->run(self->arg);
	self->state = STATE_ENDED;
	sim.changes++;
	sim.ending = self;
	switch_to(choose());
	return NULL;
}

int sim_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
		      void *arg)
{
	struct thread *t = &sim.threads[sim.count];
	int err;

	if (sim.count == THREADS_MAX)
		sim_wrong("too many threads");
	*t = (struct thread){ .number = sim.count, .run = run, .arg = arg };
	t->priority = UINT64_MAX / 2 + sim_random() / 2;
	/* The pthread_t must not be used again while somebody may ask for it. */
	if (attr)
		pthread_attr_setdetachstate((pthread_attr_t *)attr, PTHREAD_CREATE_JOINABLE);
	err = __real_pthread_create(&t->real, attr, thread_run, t);
	if (err)
		return err;
	sim.count++;
	if (sim.options.trace)
		fprintf(stderr, "%12llu ns: thread %u begins in %p\n",
			(unsigned long long)sim.now_ns, t->number, *(void **)&run);
	*thread = t->real;
	return 0;
}

static bool has_ended(const void *arg)
{
	return ((const struct thread *)arg)->state == STATE_ENDED;
}

int sim_thread_join(pthread_t thread, void **result)
{
	struct thread *t;

	for (t = sim.threads; t < sim.threads + sim.count; t++)
		if (t->real == thread && !t->joined)
			break;
	if (t == sim.threads + sim.count)
		return ESRCH;
	t->joined = true;
	sim_wait(has_ended, t, SIM_NEVER, "the end of a thread");
	if (result)
		*result = t->result;
	return __real_pthread_join(thread, NULL);
}
