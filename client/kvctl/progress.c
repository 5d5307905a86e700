/* SPDX-License-Identifier: MIT */
/* The line of progress: see progress.h. */
#include "client/kvctl/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/util/clock.h"

#define SHOW_NS 200000000u

void progress_begin(struct progress *progress, bool is_wanted, uint64_t total)
{
	*progress = (struct progress){
		.is_shown = is_wanted || isatty(STDERR_FILENO),
		.total = total,
		.begin_ns = clock_ns(),
	};
}

void progress_resume(struct progress *progress)
{
	progress->done_before = progress->done;
	progress->keys_before = progress->keys;
	progress->bytes_before = progress->bytes;
}

char *bytes_text(char text[16], double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int unit = 0;

	while (bytes >= 1024 && unit < 4) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 16, "%.*f %s", unit && bytes < 1000, bytes, units[unit]);
	return text;
}

char *time_text(char text[24], uint64_t seconds)
{
	if (seconds > 360000000)
		seconds = 360000000;
	if (seconds >= 3600)
		snprintf(text, 24, "%" PRIu64 ":%02u:%02u", seconds / 3600,
			 (unsigned int)(seconds / 60 % 60), (unsigned int)(seconds % 60));
	else
		snprintf(text, 24, "%u:%02u", (unsigned int)(seconds / 60),
			 (unsigned int)(seconds % 60));
	return text;
}

/* The share that is done, and the remaining time at the rate so far. */
static void print_share(const struct progress *p, double seconds)
{
	const uint64_t done = p->done < p->total ? p->done : p->total;
	const double rate = (double)(done - p->done_before) / seconds;
	char left[24];

	if (!p->total)
		return;
	fprintf(stderr, "%5.1f %%  ", 100.0 * (double)done / (double)p->total);
	if (rate > 0)
		fprintf(stderr, "%s left  ",
			time_text(left, (uint64_t)((double)(p->total - done) / rate)));
}

static void print(const struct progress *p, uint64_t now_ns)
{
	const double seconds = (double)(now_ns - p->begin_ns + 1) / 1e9;
	char bytes[16], rate[16];

	fputc('\r', stderr);
	print_share(p, seconds);
	fprintf(stderr, "%" PRIu64 " keys  %s  %.0f keys/s  %s/s\033[K", p->keys,
		bytes_text(bytes, (double)p->bytes), (double)(p->keys - p->keys_before) / seconds,
		bytes_text(rate, (double)(p->bytes - p->bytes_before) / seconds));
	fflush(stderr);
}

void progress_show(struct progress *progress)
{
	uint64_t now_ns;

	if (!progress->is_shown)
		return;
	now_ns = clock_ns();
	if (now_ns - progress->shown_ns < SHOW_NS)
		return;
	progress->shown_ns = now_ns;
	print(progress, now_ns);
}

void progress_end(struct progress *progress)
{
	if (!progress->is_shown)
		return;
	print(progress, clock_ns());
	fputc('\n', stderr);
	progress->is_shown = false;
}
