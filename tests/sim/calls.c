/* SPDX-License-Identifier: MIT */
/*
 * Points at calls of other libraries, by the linker's --wrap (SIM_WRAPPED in the Makefile): a call
 * that would block is tried without blocking, and the thread waits until something changed; time,
 * random numbers, and what there is of CPUs and memory, are the simulation's. Sockets, eventfds,
 * epoll and mappings are the kernel's own, which does at once what one thread at a time asks for.
 */
#include "tests/sim/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "server/store/host_memory.h"
#include "tests/sim/sched.h"

#define CALL_WEIGHT 16
#define COPY_PART 64
#define YIELD_NS 500
#define COARSE_NS 1000000u
#define S_NS 1000000000ull
#define PID 4242
#define CPUS 2
#define REGION_BYTES (16u << 20)
#define RCU_THREADS_MAX 256

#define HERE __builtin_return_address(0)
#define REAL(type, name, ...) type __real_##name(__VA_ARGS__)
/* Declares and begins the definition of what is called in a function's stead. */
#define WRAP(type, name, ...)                                                                      \
	REAL(type, name, __VA_ARGS__);                                                             \
	type __wrap_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__)

#define call_point() sim_point(CALL_WEIGHT, HERE)

/* Time. */

static uint64_t ns_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * S_NS + (uint64_t)time->tv_nsec;
}

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / S_NS), (long)(ns % S_NS) };
}

/* A deadline on one of the virtual clocks. */
static uint64_t until_of(uint64_t at_ns)
{
	uint64_t base = at_ns >= SIM_REALTIME_NS ? SIM_REALTIME_NS : SIM_MONOTONIC_NS;

	return at_ns > base ? at_ns - base : 0;
}

static uint64_t until_after(uint64_t ns)
{
	return sim_now() + ns;
}

WRAP(int, clock_gettime, clockid_t id, struct timespec *time)
{
	uint64_t now = sim_clock();

	if (id == CLOCK_REALTIME)
		now += SIM_REALTIME_NS;
	else if (id == CLOCK_MONOTONIC_COARSE)
		now = SIM_MONOTONIC_NS + now / COARSE_NS * COARSE_NS;
	else
		now += SIM_MONOTONIC_NS;
	*time = time_of(now);
	return 0;
}

WRAP(int, pthread_getcpuclockid, pthread_t thread, clockid_t *id)
{
	(void)thread;
	*id = CLOCK_MONOTONIC;
	return 0;
}

WRAP(int, nanosleep, const struct timespec *time, struct timespec *left)
{
	(void)left;
	sim_wait(NULL, NULL, until_after(ns_of(time)), "a time");
	return 0;
}

WRAP(int, usleep, useconds_t us)
{
	sim_wait(NULL, NULL, until_after(us * 1000ull), "a time");
	return 0;
}

WRAP(int, sched_yield, void)
{
	sim_spin(YIELD_NS, HERE);
	return 0;
}

WRAP(int, timerfd_create, int clock, int flags)
{
	(void)clock;
	return eventfd(0, (flags & TFD_NONBLOCK ? EFD_NONBLOCK : 0) |
				  (flags & TFD_CLOEXEC ? EFD_CLOEXEC : 0));
}

REAL(ssize_t, read, int fd, void *to, size_t bytes);

WRAP(int, timerfd_settime, int fd, int flags, const struct itimerspec *value,
     struct itimerspec *old)
{
	uint64_t count, at = ns_of(&value->it_value);

	(void)old;
	call_point();
	/* What it has counted is gone. */
	if (__real_read(fd, &count, sizeof(count)) == sizeof(count))
		sim_changed();
	sim_timer_end(fd);
	if (at)
		sim_timer_set(fd, flags & TFD_TIMER_ABSTIME ? until_of(at) : until_after(at),
			      ns_of(&value->it_interval));
	return 0;
}

WRAP(int, timerfd_gettime, int fd, struct itimerspec *value)
{
	uint64_t every, left = sim_timer_left(fd, &every);

	value->it_value = time_of(left);
	value->it_interval = time_of(every);
	return 0;
}

/* Descriptors. */

struct fds {
	struct pollfd *fds;
	nfds_t count;
};

REAL(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms);

static bool fds_ready(const void *arg)
{
	const struct fds *f = arg;

	return __real_poll(f->fds, f->count, 0) > 0;
}

static int poll_until(struct pollfd *fds, nfds_t count, uint64_t until_ns)
{
	struct fds f = { fds, count };

	sim_wait(fds_ready, &f, until_ns, "descriptors");
	return __real_poll(fds, count, 0);
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	call_point();
	return poll_until(fds, count,
			  timeout_ms < 0 ? SIM_NEVER :
					   until_after((uint64_t)timeout_ms * 1000000u));
}

WRAP(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
     const sigset_t *signals)
{
	(void)signals;
	call_point();
	return poll_until(fds, count, timeout ? until_after(ns_of(timeout)) : SIM_NEVER);
}

WRAP(int, epoll_wait, int fd, struct epoll_event *events, int max, int timeout_ms)
{
	struct pollfd self = { fd, POLLIN, 0 };

	call_point();
	poll_until(&self, 1,
		   timeout_ms < 0 ? SIM_NEVER : until_after((uint64_t)timeout_ms * 1000000u));
	return __real_epoll_wait(fd, events, max, 0);
}

WRAP(int, epoll_ctl, int fd, int what, int at, struct epoll_event *event)
{
	call_point();
	sim_changed();
	return __real_epoll_ctl(fd, what, at, event);
}

/* Waits if the descriptor is one that blocks. */
static void fd_wait(int fd, short events)
{
	struct pollfd self = { fd, events, 0 };
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !(flags & O_NONBLOCK))
		poll_until(&self, 1, SIM_NEVER);
}

ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
	call_point();
	fd_wait(fd, POLLIN);
	sim_changed();
	return __real_read(fd, to, bytes);
}

WRAP(ssize_t, write, int fd, const void *from, size_t bytes)
{
	call_point();
	sim_changed();
	return __real_write(fd, from, bytes);
}

WRAP(ssize_t, send, int fd, const void *from, size_t bytes, int flags)
{
	call_point();
	sim_changed();
	return __real_send(fd, from, bytes, flags);
}

WRAP(ssize_t, sendmsg, int fd, const struct msghdr *message, int flags)
{
	call_point();
	sim_changed();
	return __real_sendmsg(fd, message, flags);
}

WRAP(ssize_t, recvmsg, int fd, struct msghdr *message, int flags)
{
	call_point();
	sim_changed();
	return __real_recvmsg(fd, message, flags);
}

WRAP(int, recvmmsg, int fd, struct mmsghdr *messages, unsigned int count, int flags,
     struct timespec *timeout)
{
	call_point();
	sim_changed();
	return __real_recvmmsg(fd, messages, count, flags, timeout);
}

static int accepted[SIM_ACCEPTED_MAX];
static unsigned int accepted_count;

WRAP(int, accept4, int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
	int got;

	call_point();
	sim_changed();
	got = __real_accept4(fd, from, bytes, flags);
	if (got >= 0 && accepted_count < SIM_ACCEPTED_MAX)
		accepted[accepted_count++] = got;
	return got;
}

WRAP(int, connect, int fd, const struct sockaddr *to, socklen_t bytes)
{
	call_point();
	sim_changed();
	return __real_connect(fd, to, bytes);
}

WRAP(int, close, int fd)
{
	call_point();
	sim_changed();
	sim_timer_end(fd);
	for (unsigned int i = 0; i < accepted_count; i++)
		if (accepted[i] == fd)
			accepted[i--] = accepted[--accepted_count];
	return __real_close(fd);
}

bool sim_reset_one(uint64_t random)
{
	if (!accepted_count)
		return false;
	sim_changed();
	return !shutdown(accepted[random % accepted_count], SHUT_RDWR);
}

/* The process. */

WRAP(pid_t, getpid, void)
{
	return PID;
}

WRAP(int, kill, pid_t pid, int number)
{
	sim_changed();
	return __real_kill(pid == PID ? __real_getpid() : pid, number);
}

WRAP(int, sched_getcpu, void)
{
	return (int)sim_thread_number() % CPUS;
}

WRAP(int, sched_getaffinity, pid_t pid, size_t bytes, cpu_set_t *set)
{
	(void)pid;
	memset(set, 0, bytes);
	for (int i = 0; i < CPUS; i++)
		CPU_SET(i, set);
	return 0;
}

WRAP(int, pthread_setaffinity_np, pthread_t thread, size_t bytes, const cpu_set_t *set)
{
	(void)thread;
	(void)bytes;
	(void)set;
	return 0;
}

/* /proc/meminfo changes its length from read to read, and each byte read is a point. */
WRAP(void, host_memory_read, struct host_memory *memory, const char *root)
{
	(void)root;
	/* What can't be read limits nothing. */
	__real_host_memory_read(memory, "/dev/null");
}

WRAP(ssize_t, getrandom, void *to, size_t bytes, unsigned int flags)
{
	uint8_t *at = to;

	(void)flags;
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)sim_random();
	return (ssize_t)bytes;
}

/* The same folder each time, so that a server that is started again has the URL of the last. */
WRAP(char *, mkdtemp, char *name)
{
	snprintf(name + strlen(name) - 6, 7, "%06u", (unsigned int)__real_getpid() % 1000000);
	return mkdir(name, 0700) ? NULL : name;
}

/* Threads. */

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg)
{
	call_point();
	return sim_thread_create(thread, attr, run, arg);
}

WRAP(int, pthread_join, pthread_t thread, void **result)
{
	call_point();
	return sim_thread_join(thread, result);
}

WRAP(int, pthread_detach, pthread_t thread)
{
	(void)thread;
	return 0;
}

static bool mutex_is_free(const void *arg)
{
	return !__atomic_load_n(&((const pthread_mutex_t *)arg)->__data.__lock, __ATOMIC_RELAXED);
}

/* Robust mutexes, which the kernel looks at when their owner dies, are the kernel's. */
static bool mutex_is_robust(const pthread_mutex_t *mutex)
{
	return mutex->__data.__kind & PTHREAD_MUTEX_ROBUST_NP << 4;
}

WRAP(int, pthread_mutex_trylock, pthread_mutex_t *mutex)
{
	call_point();
	return __real_pthread_mutex_trylock(mutex);
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
	int err;

	call_point();
	while ((err = __real_pthread_mutex_trylock(mutex)) == EBUSY) {
		if (mutex_is_robust(mutex))
			sim_wrong("a robust mutex is waited for");
		sim_wait(mutex_is_free, mutex, SIM_NEVER, "a mutex");
	}
	return err;
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
	int err = __real_pthread_mutex_unlock(mutex);

	sim_changed();
	call_point();
	return err;
}

struct waiter {
	struct waiter *next;
	const pthread_cond_t *cond;
	bool signaled;
};

static struct waiter *waiters;

static bool is_signaled(const void *arg)
{
	return ((const struct waiter *)arg)->signaled;
}

static int cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t until_ns)
{
	struct waiter w = { waiters, cond, false }, **at;

	waiters = &w;
	__real_pthread_mutex_unlock(mutex);
	sim_changed();
	sim_wait(is_signaled, &w, until_ns, "a condition");
	for (at = &waiters; *at != &w; at = &(*at)->next)
		;
	*at = w.next;
	__wrap_pthread_mutex_lock(mutex);
	return w.signaled ? 0 : ETIMEDOUT;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return cond_wait(cond, mutex, SIM_NEVER);
}

WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex,
     const struct timespec *at)
{
	return cond_wait(cond, mutex, until_of(ns_of(at)));
}

/* Wakes the one that waits for the longest time. */
WRAP(int, pthread_cond_signal, pthread_cond_t *cond)
{
	struct waiter *w, *first = NULL;

	call_point();
	for (w = waiters; w; w = w->next)
		if (w->cond == cond && !w->signaled)
			first = w;
	if (first)
		first->signaled = true;
	sim_changed();
	return 0;
}

/* 0: not begun; 1: runs; 2: done. */
static bool once_is_done(const void *arg)
{
	return *(const pthread_once_t *)arg == 2;
}

WRAP(int, pthread_once, pthread_once_t *once, void (*run)(void))
{
	if (*once == 0) {
		*once = 1;
		run();
		*once = 2;
		sim_changed();
	}
	sim_wait(once_is_done, once, SIM_NEVER, "pthread_once()");
	return 0;
}

/* liburcu: grace periods. The library keeps its own account too, which nobody waits for. */

static struct {
	bool online;
	uint64_t quiescent; /* states so far */
} rcu[RCU_THREADS_MAX];

static void rcu_set(bool online)
{
	rcu[sim_thread_number()].online = online;
	rcu[sim_thread_number()].quiescent++;
	sim_changed();
}

WRAP(void, urcu_qsbr_register_thread, void)
{
	__real_urcu_qsbr_register_thread();
	rcu_set(true);
}

WRAP(void, urcu_qsbr_unregister_thread, void)
{
	rcu_set(false);
	__real_urcu_qsbr_unregister_thread();
}

WRAP(void, urcu_qsbr_thread_online, void)
{
	__real_urcu_qsbr_thread_online();
	rcu_set(true);
	call_point();
}

WRAP(void, urcu_qsbr_thread_offline, void)
{
	call_point();
	rcu_set(false);
	__real_urcu_qsbr_thread_offline();
}

WRAP(void, urcu_qsbr_quiescent_state, void)
{
	call_point();
	rcu_set(rcu[sim_thread_number()].online);
	__real_urcu_qsbr_quiescent_state();
}

static bool grace_has_passed(const void *arg)
{
	const uint64_t *before = arg;

	for (unsigned int i = 0; i < RCU_THREADS_MAX; i++)
		if (rcu[i].online && rcu[i].quiescent == before[i])
			return false;
	return true;
}

WRAP(void, urcu_qsbr_synchronize_rcu, void)
{
	uint64_t before[RCU_THREADS_MAX];
	bool online = rcu[sim_thread_number()].online;

	call_point();
	rcu_set(false);
	for (unsigned int i = 0; i < RCU_THREADS_MAX; i++)
		before[i] = rcu[i].quiescent;
	sim_wait(grace_has_passed, before, SIM_NEVER, "a grace period");
	rcu_set(online);
	call_point();
}

/* The server's memory that clients read is the largest that is mapped from a file. */
WRAP(void *, mmap, void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
	void *got;

	call_point();
	got = __real_mmap(at, bytes, rights, flags, fd, offset);
	if (got != MAP_FAILED && fd >= 0 && (rights & PROT_WRITE) && bytes >= REGION_BYTES)
		sim_region(got, bytes);
	return got;
}

/* Copies: others may run in the middle of a long one. */

WRAP(void *, memcpy, void *to, const void *from, size_t bytes)
{
	size_t at;

	sim_point(1, HERE);
	for (at = 0; bytes - at > COPY_PART; at += COPY_PART) {
		__real_memcpy((char *)to + at, (const char *)from + at, COPY_PART);
		sim_point(1, HERE);
	}
	__real_memcpy((char *)to + at, (const char *)from + at, bytes - at);
	return to;
}

WRAP(void *, memmove, void *to, const void *from, size_t bytes)
{
	uintptr_t apart = (uintptr_t)to - (uintptr_t)from;

	if (apart >= bytes && -apart >= bytes)
		return __wrap_memcpy(to, from, bytes);
	sim_point(1, HERE);
	return __real_memmove(to, from, bytes);
}
