/* SPDX-License-Identifier: MIT */
/* Queues of timers, one for each delay. */
#include "common/rdma/softnic/timer.h"

#include <stddef.h>

static const uint64_t delays_ms[SN_DELAY_COUNT] = {
	[SN_DELAY_SOON] = 1,
	[SN_DELAY_RETRY] = SN_RETRY_MS,
	[SN_DELAY_PAUSE] = 100,
	[SN_DELAY_HANDSHAKE] = SN_HANDSHAKE_MS,
};

void sn_timers_init(struct sn_timers *timers)
{
	unsigned int i;

	for (i = 0; i < SN_DELAY_COUNT; i++)
		TAILQ_INIT(&timers->queues[i]);
}

void sn_timer_set(struct sn_timers *timers, struct sn_timer *timer, enum sn_delay delay,
		  uint64_t now_ns)
{
	sn_timer_cancel(timers, timer);
	timer->when_ns = now_ns + delays_ms[delay] * 1000000u;
	timer->delay = delay;
	TAILQ_INSERT_TAIL(&timers->queues[delay], timer, in_queue);
}

void sn_timer_cancel(struct sn_timers *timers, struct sn_timer *timer)
{
	if (!timer->when_ns)
		return;
	TAILQ_REMOVE(&timers->queues[timer->delay], timer, in_queue);
	timer->when_ns = 0;
}

static struct sn_timer *timers_first(const struct sn_timers *timers)
{
	struct sn_timer *first = NULL;
	unsigned int i;

	for (i = 0; i < SN_DELAY_COUNT; i++) {
		struct sn_timer *timer = TAILQ_FIRST(&timers->queues[i]);

		if (timer && (!first || timer->when_ns < first->when_ns))
			first = timer;
	}
	return first;
}

uint64_t sn_timers_first_ns(const struct sn_timers *timers)
{
	const struct sn_timer *first = timers_first(timers);

	return first ? first->when_ns : 0;
}

struct sn_timer *sn_timers_take(struct sn_timers *timers, uint64_t now_ns)
{
	struct sn_timer *first = timers_first(timers);

	if (!first || first->when_ns > now_ns)
		return NULL;
	sn_timer_cancel(timers, first);
	return first;
}
