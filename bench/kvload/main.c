/* SPDX-License-Identifier: MIT */
/*
 * kvload: small records, keys of 16 bytes and values of 32, into kvd, memcached or Redis and out
 * again as fast as one connection goes. For bench/bytes-per-key.sh and bench/table-bench.sh, which
 * measure what the server takes for it. Every answer is checked.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/kvload/text.h"
#include "bench/random.h"
#include "bench/server_stats.h"
#include "client/kvd.h"
#include "common/util/clock.h"
#include "common/util/parse.h"

enum exit_status { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_UNAVAILABLE = 69 };

#define RECORDS_MAX UINT64_C(1000000000)

struct target {
	struct kvd *kvd; /* or else */
	struct text text;
};

static const char help_text[] =
	"Usage: kvload set|get|miss|delete URL RECORDS\n"
	"       kvload count URL\n"
	"Does one operation with each of RECORDS records (16 bytes of key, 32 of value), set in order\n"
	"and the others in a random one; or counts what is stored.\n"
	"URL: softnic:///PATH, rdma://HOST:PORT, memcached:///PATH or redis:///PATH\n"
	"Exit status: 0 fine, 1 a wrong answer, 2 usage, 69 no connection.\n";

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* What connects through a socket leaves target->kvd NULL. */
static enum exit_status target_open(struct target *target, const char *url)
{
	int error = 0;

	target->kvd = NULL;
	if (begins(url, "memcached://"))
		error = text_connect(&target->text, TEXT_MEMCACHED, url + strlen("memcached://"));
	else if (begins(url, "redis://"))
		error = text_connect(&target->text, TEXT_REDIS, url + strlen("redis://"));
	else if (kvd_open(&target->kvd, url, NULL)) {
		fprintf(stderr, "kvload: can't connect to %s: %s\n", url, kvd_error(NULL));
		return EXIT_UNAVAILABLE;
	}
	if (!error)
		return EXIT_FINE;
	fprintf(stderr, "kvload: can't connect to %s: %s\n", url, strerror(-error));
	return EXIT_UNAVAILABLE;
}

static void target_close(struct target *target)
{
	if (target->kvd)
		kvd_close(target->kvd);
	else
		text_close(&target->text);
}

static int kvd_failed(struct kvd *kvd, const char *what, enum kvd_status status)
{
	const char *more = kvd_error(kvd);

	fprintf(stderr, "kvload: %s: %s%s%s\n", what, kvd_status_text(status), *more ? ": " : "",
		more);
	return -EBADMSG;
}

static int kvd_gets(struct kvd *kvd, bool there, const uint64_t *numbers, size_t count)
{
	char keys[LOAD_BATCH][LOAD_KEY_BYTES + 1], values[LOAD_BATCH][LOAD_VALUE_BYTES + 1];
	struct kvd_get_request requests[LOAD_BATCH];
	const enum kvd_status wanted = there ? KVD_OK : KVD_NOT_FOUND;
	char value[LOAD_VALUE_BYTES + 1];
	size_t i;

	memset(requests, 0, sizeof(requests));
	for (i = 0; i < count; i++) {
		load_key(numbers[i], keys[i]);
		requests[i].key = keys[i];
		requests[i].key_len = LOAD_KEY_BYTES;
		requests[i].value = values[i];
		requests[i].value_size = LOAD_VALUE_BYTES;
	}
	kvd_get_many(kvd, requests, count);
	for (i = 0; i < count; i++) {
		if (requests[i].status != wanted)
			return kvd_failed(kvd, "GET", requests[i].status);
		load_value(numbers[i], value);
		if (there && (requests[i].item.value_len != LOAD_VALUE_BYTES ||
			      memcmp(values[i], value, LOAD_VALUE_BYTES)))
			return kvd_failed(kvd, "GET: WRONG VALUE", KVD_OK);
	}
	return 0;
}

static int kvd_changes(struct kvd *kvd, enum load_op op, const uint64_t *numbers, size_t count)
{
	char key[LOAD_KEY_BYTES + 1], value[LOAD_VALUE_BYTES + 1];
	enum kvd_status status = KVD_OK;
	size_t i;

	for (i = 0; !status && i < count; i++) {
		load_key(numbers[i], key);
		load_value(numbers[i], value);
		status = op == LOAD_SET ? kvd_put(kvd, key, LOAD_KEY_BYTES, value, LOAD_VALUE_BYTES,
						  NULL, NULL) :
					  kvd_delete(kvd, key, LOAD_KEY_BYTES);
	}
	return status ? kvd_failed(kvd, op == LOAD_SET ? "PUT" : "DELETE", status) : 0;
}

static int batch_do(struct target *target, enum load_op op, const uint64_t *numbers, size_t count)
{
	int error;

	if (target->kvd)
		return op == LOAD_GET || op == LOAD_MISS ?
			       kvd_gets(target->kvd, op == LOAD_GET, numbers, count) :
			       kvd_changes(target->kvd, op, numbers, count);
	error = text_do(&target->text, op, numbers, count);
	if (error == -EBADMSG)
		fprintf(stderr, "kvload: an answer that was not expected: %.80s\n",
			target->text.got);
	else if (error)
		fprintf(stderr, "kvload: %s\n", strerror(-error));
	return error;
}

/*
 * Each number below @records once, in an order that jumps about: steps of a fixed odd size through the
 * next power of two, those beyond the end left out.
 */
static uint64_t next_number(uint64_t *at, uint64_t records, enum load_op op)
{
	uint64_t size = 1;

	if (op == LOAD_SET)
		return (*at)++;
	while (size < records)
		size <<= 1;
	do {
		*at = (*at + UINT64_C(0x9e3779b97f4a7c15)) & (size - 1);
	} while (*at >= records);
	return op == LOAD_MISS ? *at + RECORDS_MAX : *at;
}

static enum exit_status run(struct target *target, enum load_op op, uint64_t records)
{
	const uint64_t start_ns = clock_ns();
	uint64_t numbers[LOAD_BATCH], at = 0, done;
	double seconds;
	size_t i, count;

	for (done = 0; done < records; done += count) {
		count = records - done < LOAD_BATCH ? (size_t)(records - done) : LOAD_BATCH;
		for (i = 0; i < count; i++)
			numbers[i] = next_number(&at, records, op);
		if (batch_do(target, op, numbers, count))
			return EXIT_WRONG;
	}
	seconds = (double)(clock_ns() - start_ns) / 1e9;
	printf("records %" PRIu64 "\nseconds %.3f\nper_second %.0f\n", records, seconds,
	       (double)records / seconds);
	return EXIT_FINE;
}

static enum exit_status print_count(struct target *target)
{
	static struct server_stats stats;
	char text[32] = "?";
	uint64_t count;

	if (target->kvd) {
		server_stats_sample(&stats, target->kvd);
		if (!server_stats_find(stats.text, "items", text, sizeof(text)))
			return EXIT_WRONG;
	} else if (text_count(&target->text, &count)) {
		return EXIT_WRONG;
	} else {
		snprintf(text, sizeof(text), "%" PRIu64, count);
	}
	puts(text);
	return EXIT_FINE;
}

int main(int argc, char **argv)
{
	static const char *const commands[] = { "set", "get", "miss", "delete", "count" };
	const int counting = 4;
	static struct target target;
	enum exit_status status;
	struct parse_why why;
	uint64_t records = 0;
	int op = 0;

	while (argc > 1 && op <= counting && strcmp(argv[1], commands[op]))
		op++;
	if (argc != (op == counting ? 3 : 4) || op > counting) {
		fputs(help_text, stderr);
		return EXIT_USAGE;
	}
	if (op != counting && parse_uint(argv[3], 1, RECORDS_MAX, &records, &why)) {
		fprintf(stderr, "kvload: RECORDS: %s\n", why.text);
		return EXIT_USAGE;
	}
	status = target_open(&target, argv[2]);
	if (status)
		return status;
	status = op == counting ? print_count(&target) : run(&target, (enum load_op)op, records);
	target_close(&target);
	return status;
}
