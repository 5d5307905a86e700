/* SPDX-License-Identifier: MIT */
/*
 * The tables of YCSB's properties: those that kvbench acts on, and those that it accepts without
 * effect. The parser and --help use the same tables.
 */
#ifndef KVD_BENCH_PROPERTY_H
#define KVD_BENCH_PROPERTY_H

#include <stddef.h>
#include <stdint.h>

enum property_type {
	PROPERTY_UINT,
	PROPERTY_SECONDS, /* a whole number of seconds and so on: a bare number, or with a unit */
	PROPERTY_MS,
	PROPERTY_US,
	PROPERTY_FRACTION, /* of floating point */
	PROPERTY_BOOL,
	PROPERTY_CHOICE,
	PROPERTY_TEXT,
	PROPERTY_SIZE, /* bytes, with unit */
	PROPERTY_TIME, /* nanoseconds, with unit; a bare number is seconds */
};

/* A property that kvbench acts on: its place in struct workload and its allowed values. */
struct property {
	const char *name;
	enum property_type type;
	size_t offset;
	const char *preset;	    /* the default, as a user would write it; NULL: none */
	double min, max;	    /* limits of numbers; each is exact as a double */
	const char *const *choices; /* of PROPERTY_CHOICE, ends with NULL */
	const char *help;
};

/* A property of YCSB that has no effect here; values other than these are refused. */
struct property_idle {
	const char *name;   /* ends with '.': all names with this prefix */
	const char *values; /* those accepted, each between '|'; NULL: any */
	const char *why;
};

extern const struct property properties[];
extern const size_t property_count;
extern const struct property_idle properties_idle[];
extern const size_t property_idle_count;

const struct property *property_find(const char *name);
const struct property_idle *property_idle_find(const char *name);

#endif /* KVD_BENCH_PROPERTY_H */
