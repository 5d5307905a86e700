/* SPDX-License-Identifier: MIT */
/* A workload's keys and records: how many there are, how long, and how a key is written. */
#include "bench/workload.h"

#include <string.h>

#include "bench/record.h"
#include "bench/zipfian.h"

/* Decimal digits of the hashes in keys, which are below 2^63. */
#define HASH_DIGITS_MAX 19

const char *const distribution_names[] = { "uniform", "zipfian",     "latest", "sequential",
					   "hotspot", "exponential", NULL };

/*
 * As in CoreWorkload.java. If insertcount is not given, Client.java loads recordcount records from
 * insertstart on, which is more than the run phase ever reads.
 */
uint64_t workload_load_count(const struct workload *workload)
{
	if (workload->insert_count != WORKLOAD_COUNT_REST)
		return workload->insert_count;
	return workload->record_count - workload->insert_start;
}

size_t workload_record_max(const struct workload *workload)
{
	size_t field = workload->field_length;

	if (workload->field_lengths != LENGTH_CONSTANT)
		field += sizeof(uint32_t);
	return RECORD_HEADER_SIZE + workload->field_count * field;
}

size_t workload_key_max(const struct workload *workload)
{
	const size_t digits = workload->insert_order == ORDER_HASHED ? HASH_DIGITS_MAX : 0;

	return 4 + (workload->zero_padding > digits ? workload->zero_padding : digits);
}

/* CoreWorkload.java, buildKeyName(). */
size_t workload_key(const struct workload *workload, uint64_t number, char *key)
{
	char digits[20], *at = digits + sizeof(digits);
	size_t len, pad;

	if (workload->insert_order == ORDER_HASHED)
		number = fnv_hash(number);
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	len = (size_t)(digits + sizeof(digits) - at);
	pad = workload->zero_padding > len ? workload->zero_padding - len : 0;
	memcpy(key, "user", 4);
	memset(key + 4, '0', pad);
	memcpy(key + 4 + pad, at, len);
	return 4 + pad + len;
}

const char *distribution_name(unsigned int distribution)
{
	return distribution_names[distribution];
}
