/* SPDX-License-Identifier: MIT */
/*
 * Lets clients and the main thread meet at gates: see meeting.h.
 */
#include "bench/meeting.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/util/clock.h"

#define SECOND_NS UINT64_C(1000000000)

static void signals_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(how, &set, NULL);
}

int meeting_init(struct meeting *meeting)
{
	sigset_t set;
	int error;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	meeting->arrivals = eventfd(0, EFD_CLOEXEC);
	if (meeting->arrivals < 0)
		return -errno;
	meeting->signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (meeting->signals < 0) {
		error = -errno;
		close(meeting->arrivals);
		return error;
	}
	signals_mask(SIG_BLOCK);
	pthread_mutex_init(&meeting->lock, NULL);
	pthread_cond_init(&meeting->opened, NULL);
	meeting->gates_open = 0;
	meeting->interrupted = false;
	return 0;
}

void meeting_release(struct meeting *meeting)
{
	pthread_cond_destroy(&meeting->opened);
	pthread_mutex_destroy(&meeting->lock);
	signals_mask(SIG_UNBLOCK);
	close(meeting->signals);
	close(meeting->arrivals);
}

void meeting_arrive(struct meeting *meeting, unsigned int gate)
{
	const uint64_t one = 1;

	/* Can't fail: the counter never gets near its maximum. */
	if (write(meeting->arrivals, &one, sizeof(one)) != sizeof(one))
		abort();
	pthread_mutex_lock(&meeting->lock);
	while (meeting->gates_open <= gate)
		pthread_cond_wait(&meeting->opened, &meeting->lock);
	pthread_mutex_unlock(&meeting->lock);
}

void meeting_open(struct meeting *meeting)
{
	pthread_mutex_lock(&meeting->lock);
	meeting->gates_open++;
	pthread_cond_broadcast(&meeting->opened);
	pthread_mutex_unlock(&meeting->lock);
}

static void take_signal(struct meeting *meeting, const struct meeting_watch *watch)
{
	struct signalfd_siginfo info;

	if (read(meeting->signals, &info, sizeof(info)) != sizeof(info))
		return;
	meeting->interrupted = true;
	watch->interrupted(watch->context);
	signals_mask(SIG_UNBLOCK);
}

static uint64_t take_arrivals(struct meeting *meeting)
{
	uint64_t count;

	return read(meeting->arrivals, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / SECOND_NS),
				  .tv_nsec = (long)(ns % SECOND_NS) };
}

/* Each client ends by its quota, deadline, timeouts or the signal, so this ends, too. */
void meeting_wait(struct meeting *meeting, unsigned int count, const struct meeting_watch *watch)
{
	struct pollfd news[2] = { { .fd = meeting->arrivals, .events = POLLIN },
				  { .fd = meeting->signals, .events = POLLIN } };
	uint64_t now, arrived = 0, next = clock_ns() + watch->tick_ns;
	struct timespec timeout;

	while (arrived < count) {
		now = clock_ns();
		if (watch->tick && now >= next) {
			watch->tick(watch->context);
			next += watch->tick_ns;
			continue;
		}
		timeout = timespec_of(next - now);
		if (ppoll(news, 2, watch->tick ? &timeout : NULL, NULL) <= 0)
			continue;
		if (news[1].revents)
			take_signal(meeting, watch);
		if (news[0].revents)
			arrived += take_arrivals(meeting);
	}
}
