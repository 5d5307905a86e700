/* SPDX-License-Identifier: MIT */
/*
 * Writes metrics in the text format of Prometheus, version 0.0.4: families, each with its help,
 * its type and its samples. One thread uses a struct exposition; nothing blocks.
 */
#ifndef KVD_SERVER_HTTP_EXPOSITION_H
#define KVD_SERVER_HTTP_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a text at most: 64 tenants and 64 workers take a third of it. */
#define EXPOSITION_BYTES_MAX (1u << 20)
#define EXPOSITION_NAME_MAX 96
/* Bytes of all labels of a sample, escaped: what does not fit is left out. */
#define EXPOSITION_LABELS_MAX 1024

struct exposition {
	char *text; /* of malloc(); grows */
	size_t bytes, room;
	bool failed; /* no memory, or EXPOSITION_BYTES_MAX is exceeded */
	char family[EXPOSITION_NAME_MAX];
};

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* The labels of a sample; all zero: none. */
struct labels {
	char text[EXPOSITION_LABELS_MAX];
	size_t bytes;
};

/* Adds a label; bytes of @value that are not printable ASCII become '_'. Returns @labels. */
struct labels *label_add(struct labels *labels, const char *name, const char *value);
struct labels *label_add_number(struct labels *labels, const char *name, uint64_t value);

/* Begins a family. @help has no backslash and no newline. */
void exposition_family(struct exposition *out, const char *name, enum metric_type type,
		       const char *help);
/* Write a sample of the family; @labels: NULL: none. */
void exposition_number(struct exposition *out, const struct labels *labels, uint64_t value);
/* In seconds. */
void exposition_ns(struct exposition *out, const struct labels *labels, uint64_t ns);

/* A family of one sample without labels. */
void exposition_one(struct exposition *out, const char *name, enum metric_type type,
		    const char *help, uint64_t value);

/*
 * The samples of a histogram of times: @counts[i] values, not cumulated, are at most @bounds_ns[i],
 * and more than the bound before it. The last of the @count bounds is +Inf, whatever it says.
 */
void exposition_histogram(struct exposition *out, const struct labels *labels,
			  const uint64_t *bounds_ns, const uint64_t *counts, unsigned int count,
			  uint64_t sum_ns);

#endif /* KVD_SERVER_HTTP_EXPOSITION_H */
