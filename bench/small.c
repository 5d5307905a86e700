/* SPDX-License-Identifier: MIT */
/*
 * Stores, reads and deletes small records: see small.h.
 */
#include "bench/small.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bench/random.h"
#include "bench/server_stats.h"
#include "common/util/clock.h"

/* Records whose operations go out together, each with a terminating zero. */
struct batch {
	size_t count;
	char keys[SMALL_BATCH][SMALL_KEY_BYTES + 1];
	char values[SMALL_BATCH][SMALL_VALUE_BYTES + 1];
};

static const char *const op_names[] = { "PUT", "GET", "GET", "DELETE" };

static int failed(const struct db *db, enum small_op op, const char *what)
{
	const char *more = db_error(db);

	fprintf(stderr, "kvbench: %s: %s%s%s\n", op_names[op], what, *more ? ": " : "", more);
	return -EBADMSG;
}

static int changes_do(struct db *db, enum small_op op, const struct batch *batch)
{
	struct db_change changes[SMALL_BATCH];
	enum kvd_status status;
	size_t i;

	for (i = 0; i < batch->count; i++)
		changes[i] = (struct db_change){ batch->keys[i], SMALL_KEY_BYTES, batch->values[i],
						 SMALL_VALUE_BYTES };
	status = op == SMALL_PUT ? db_put(db, changes, batch->count) :
				   db_delete(db, changes, batch->count);
	return status ? failed(db, op, kvd_status_text(status)) : 0;
}

static int gets_do(struct db *db, enum small_op op, const struct batch *batch)
{
	const enum kvd_status expected = op == SMALL_GET ? KVD_OK : KVD_NOT_FOUND;
	struct kvd_get_request requests[SMALL_BATCH];
	char values[SMALL_BATCH][SMALL_VALUE_BYTES];
	size_t i;

	memset(requests, 0, sizeof(requests));
	for (i = 0; i < batch->count; i++) {
		requests[i].key = batch->keys[i];
		requests[i].key_len = SMALL_KEY_BYTES;
		requests[i].value = values[i];
		requests[i].value_size = SMALL_VALUE_BYTES;
	}
	db_get(db, requests, batch->count);
	for (i = 0; i < batch->count; i++) {
		if (requests[i].status != expected)
			return failed(db, op, kvd_status_text(requests[i].status));
		if (op == SMALL_GET && (requests[i].item.value_len != SMALL_VALUE_BYTES ||
					memcmp(values[i], batch->values[i], SMALL_VALUE_BYTES)))
			return failed(db, op, "WRONG VALUE");
	}
	return 0;
}

/*
 * Yields each number below @records once, for PUTs in order. Other operations jump: in steps of a
 * fixed odd size through the next power of two, without numbers that are too large.
 */
static uint64_t number_next(uint64_t *at, uint64_t records, enum small_op op)
{
	uint64_t size = 1;

	if (op == SMALL_PUT)
		return (*at)++;
	while (size < records)
		size <<= 1;
	do {
		*at = (*at + UINT64_C(0x9e3779b97f4a7c15)) & (size - 1);
	} while (*at >= records);
	return op == SMALL_MISS ? *at + SMALL_RECORDS_MAX : *at;
}

static void batch_fill(struct batch *batch, uint64_t *at, uint64_t records, enum small_op op)
{
	uint64_t number, state;
	size_t i;

	for (i = 0; i < batch->count; i++) {
		number = number_next(at, records, op);
		state = number;
		snprintf(batch->keys[i], sizeof(batch->keys[i]), "%016" PRIx64,
			 splitmix_next(&state));
		snprintf(batch->values[i], sizeof(batch->values[i]), "%032" PRIu64, number);
	}
}

static int run(struct db *db, enum small_op op, uint64_t records)
{
	const uint64_t start_ns = clock_ns();
	uint64_t at = 0, done;
	struct batch batch;
	double seconds;
	int error;

	for (done = 0; done < records; done += batch.count) {
		batch.count = records - done < SMALL_BATCH ? (size_t)(records - done) : SMALL_BATCH;
		batch_fill(&batch, &at, records, op);
		error = op == SMALL_PUT || op == SMALL_DELETE ? changes_do(db, op, &batch) :
								gets_do(db, op, &batch);
		if (error)
			return error;
	}
	seconds = (double)(clock_ns() - start_ns) / 1e9;
	printf("records %" PRIu64 "\nseconds %.3f\nper_second %.0f\n", records, seconds,
	       (double)records / seconds);
	return 0;
}

static int connect_to(struct db **db, const struct db_target *target)
{
	struct kvd_options options;
	char error[DB_ERROR_MAX];
	enum kvd_status status;

	kvd_options_init(&options);
	options.depth = target->depth;
	status = db_open(db, target, &options, error);
	return status ? db_connect_failed(target, status, error) : 0;
}

int small_run(const struct db_target *target, enum small_op op, uint64_t records)
{
	struct db *db;
	int error;

	error = connect_to(&db, target);
	if (error)
		return error;
	error = run(db, op, records);
	db_close(db);
	return error;
}

int small_count(const struct db_target *target)
{
	static struct server_stats stats;
	uint64_t items;
	struct db *db;
	int error;

	error = connect_to(&db, target);
	if (error)
		return error;
	server_stats_sample(&stats, db);
	if (server_stats_number(stats.text, "items", &items)) {
		printf("%" PRIu64 "\n", items);
	} else {
		fprintf(stderr, "kvbench: the server does not report how many keys it holds\n");
		error = -EBADMSG;
	}
	db_close(db);
	return error;
}
