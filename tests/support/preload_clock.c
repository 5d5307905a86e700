/* SPDX-License-Identifier: MIT */
/*
 * A library for LD_PRELOAD that gives a process the clocks in the file that KVD_TEST_CLOCKS names
 * (tests/support/host_clocks.h).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/host_clocks.h"

#define NS_PER_S 1000000000

static const struct host_clocks *clocks;
static int (*real_gettime)(clockid_t, struct timespec *);

static void __attribute__((constructor)) clocks_map(void)
{
	const char *path = getenv(HOST_CLOCKS_ENV);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map;

	*(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(*clocks), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		clocks = map;
}

static void state_read(struct host_clocks_state *state)
{
	uint32_t sequence;

	do {
		sequence = atomic_load_explicit(&clocks->sequence, memory_order_acquire);
		*state = *(const volatile struct host_clocks_state *)&clocks->state;
		atomic_thread_fence(memory_order_acquire);
	} while (sequence % 2 ||
		 atomic_load_explicit(&clocks->sequence, memory_order_relaxed) != sequence);
}

static int64_t ahead(clockid_t id, uint64_t now_ns)
{
	struct host_clocks_state state;

	if (!clocks || (id != CLOCK_MONOTONIC_RAW && id != CLOCK_BOOTTIME && id != CLOCK_REALTIME))
		return 0;
	state_read(&state);
	return id == CLOCK_MONOTONIC_RAW ? host_clocks_raw_ahead(&state, now_ns) :
	       id == CLOCK_BOOTTIME	 ? state.boot_ns :
					   state.real_ns;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
	int ret = real_gettime ? real_gettime(id, now) : (int)syscall(SYS_clock_gettime, id, now);
	uint64_t ns;

	if (ret)
		return ret;
	ns = (uint64_t)now->tv_sec * NS_PER_S + (uint64_t)now->tv_nsec;
	ns += (uint64_t)ahead(id, ns);
	now->tv_sec = (time_t)(ns / NS_PER_S);
	now->tv_nsec = (long)(ns % NS_PER_S);
	return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *to)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}
