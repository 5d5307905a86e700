/* SPDX-License-Identifier: MIT */
/*
 * A workload of kvbench: YCSB's properties, checked and turned into numbers.
 *
 * YCSB facts (brianfrankcooper/YCSB): CoreWorkload.java for the properties and their defaults,
 * Client.java for counts, threads and target, Measurements.java for what is measured.
 */
#ifndef KVD_BENCH_WORKLOAD_H
#define KVD_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define WORKLOAD_RECORDS_MAX UINT64_C(1000000000000)
#define WORKLOAD_THREADS_MAX 1024
/* "user", a number of up to 20 digits or this many by zeropadding; fits KVD_KEY_MAX. */
#define WORKLOAD_PADDING_MAX 1000
#define WORKLOAD_KEY_MAX (4 + WORKLOAD_PADDING_MAX + 1)
/* insertcount is not given */
#define WORKLOAD_COUNT_REST UINT64_MAX

enum phase { PHASE_LOAD, PHASE_RUN };

enum distribution {
	DISTRIBUTION_UNIFORM,
	DISTRIBUTION_ZIPFIAN,
	DISTRIBUTION_LATEST,
	DISTRIBUTION_SEQUENTIAL,
	DISTRIBUTION_HOTSPOT,
	DISTRIBUTION_EXPONENTIAL,
};

enum length_distribution { LENGTH_CONSTANT, LENGTH_UNIFORM, LENGTH_ZIPFIAN };

enum insert_order { ORDER_HASHED, ORDER_ORDERED };

/* YCSB's operations except scans, as kvd's keys have no order. */
enum operation { OPERATION_READ, OPERATION_UPDATE, OPERATION_INSERT, OPERATION_RMW };
#define OPERATION_COUNT 4

struct workload {
	uint64_t record_count;
	uint64_t operation_count; /* 0: until max_execution_s */
	uint64_t insert_start;
	uint64_t insert_count;
	uint64_t field_count;
	uint64_t field_length; /* bytes, the largest if they vary */
	uint64_t field_length_min;
	unsigned int field_lengths;	   /* enum length_distribution */
	unsigned int request_distribution; /* enum distribution */
	unsigned int insert_order;	   /* enum insert_order */
	uint64_t zero_padding;
	double proportions[OPERATION_COUNT];
	double scan_proportion;
	double hotspot_data_fraction, hotspot_operation_fraction;
	double exponential_percentile, exponential_fraction;
	uint64_t threads;
	uint64_t target;	  /* operations per second, all threads together; 0: no limit */
	uint64_t max_execution_s; /* 0: no limit */
	bool spin_sleep;
	bool check; /* every value read, byte for byte */
	bool status;
	uint64_t status_interval_s;
	const char *label; /* belongs to the properties */

	uint64_t timeout_ms, connect_timeout_ms, cache_bytes, spin_us, get_tries;
	uint64_t warmup_ns, warmup_operations;
	uint64_t seed; /* 0: another seed for each run */
};

/* Number of records that the load phase inserts, from insert_start on. */
uint64_t workload_load_count(const struct workload *workload);

/* Bytes of the longest record the workload can write. */
size_t workload_record_max(const struct workload *workload);

/* Bytes of the longest key. */
size_t workload_key_max(const struct workload *workload);

/* Writes the key of record @number to @key (WORKLOAD_KEY_MAX bytes). Returns its length. */
size_t workload_key(const struct workload *workload, uint64_t number, char *key);

/* The names of enum distribution, as in the property; NULL ends them. */
extern const char *const distribution_names[];
/* The name of a request distribution. */
const char *distribution_name(unsigned int distribution);

#endif /* KVD_BENCH_WORKLOAD_H */
