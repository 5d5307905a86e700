/* SPDX-License-Identifier: MIT */
/* The lines of kvctl top that are about one server or, with the sums, about several. */
#ifndef KVD_CLIENT_KVCTL_TOP_LINES_H
#define KVD_CLIENT_KVCTL_TOP_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_LINES 1000u
#define TOP_LINE_BYTES 256u

/* The first line is the title; the others may be scrolled. */
struct top_view {
	char lines[TOP_LINES][TOP_LINE_BYTES];
	bool is_heading[TOP_LINES]; /* of a table */
	unsigned int count;
};

/* Two samples of the statistics of each server, "" of one that is away, and the seconds between. */
struct span {
	const char *const *before, *const *now;
	size_t count;
	double seconds;
};

/* The statistic now, and how much it grew; of all servers together. */
uint64_t top_value(const struct span *span, const char *name);
double top_grown(const struct span *span, const char *name);
/* For each second. */
double top_rate(const struct span *span, const char *name);
/* Nanoseconds in microseconds. */
double top_us(uint64_t ns);

/* Adds a line. */
void top_line(struct top_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds the heading of a table. */
void top_heading(struct top_view *view, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void top_add_requests(struct top_view *view, const struct span *span);
void top_add_memory(struct top_view *view, const struct span *span);
/* Counters of trouble that have grown. */
void top_add_trouble(struct top_view *view, const struct span *span);

#endif /* KVD_CLIENT_KVCTL_TOP_LINES_H */
