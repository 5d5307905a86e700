/* SPDX-License-Identifier: MIT */
/* What a thread learns from its waits about other threads that want its CPU. */
#include "common/util/spin.h"

#include "common/util/clock.h"

void spin_begin(struct spin *spin, uint64_t limit_ns, uint64_t now_ns)
{
	uint64_t pause_ns;

	spin->yielded = false;
	if (spin->busy && now_ns >= spin->busy_until_ns) {
		spin->busy = false;
		spin->vain = 0;
	}
	pause_ns = spin->busy || limit_ns < SPIN_PAUSE_NS ? limit_ns : SPIN_PAUSE_NS;
	if (spin->vain >= SPIN_VAIN_MAX && ++spin->waits % SPIN_PROBE_EVERY)
		pause_ns = 0;
	spin->since_ns = now_ns;
	spin->pause_ns = pause_ns;
	spin->limit_ns = spin->busy ? pause_ns : limit_ns;
}

void spin_end(struct spin *spin, bool asleep)
{
	if (!asleep && !spin->yielded)
		spin->vain = 0;
	else if (spin->vain < SPIN_VAIN_MAX)
		spin->vain++;
}

void spin_yield(struct spin *spin, uint64_t now_ns)
{
	uint64_t after_ns;

	spin->yielded |= now_ns - spin->since_ns >= spin->pause_ns;
	sched_yield();
	after_ns = clock_ns();
	spin->shared_ns = after_ns;
	if (after_ns - now_ns < SPIN_LONG_NS) {
		spin->credit += spin->credit < SPIN_CREDIT_MAX;
	} else if (spin->credit >= SPIN_LONG_EVERY) {
		spin->credit -= SPIN_LONG_EVERY;
	} else {
		spin->busy = true;
		spin->vain = 0;
		spin->busy_until_ns = after_ns + (after_ns - now_ns) * SPIN_BUSY_TIMES;
	}
}
