/* SPDX-License-Identifier: MIT */
/*
 * Plays traces against a server: see replay.h.
 */
#include "bench/kvtrace/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/splitmix.h"

struct replay {
	const struct replay_options *options;
	struct replay_result *result;
	struct db *db;
	uint64_t done, start_ns;
	/* the batch */
	unsigned int count;
	struct trace_access accesses[REPLAY_BATCH_MAX];
	struct kvd_get_request requests[REPLAY_BATCH_MAX];
	char keys[REPLAY_BATCH_MAX][REPLAY_KEY_BYTES + 1];
	uint8_t got[REPLAY_BATCH_MAX][TRACE_SIZE_MAX];
	/* with room for one more word, since values are made in whole words */
	uint8_t made[TRACE_SIZE_MAX + 8];
};

/* A shorter value of a key is a prefix of a longer one. */
static void value_make(struct replay *replay, uint64_t key, size_t len)
{
	uint64_t state = key, word;
	size_t i;

	for (i = 0; i < len; i += sizeof(word)) {
		word = splitmix_next(&state);
		memcpy(replay->made + i, &word, sizeof(word));
	}
}

static void hit_check(struct replay *replay, const struct trace_access *access, const uint8_t *got,
		      size_t len)
{
	value_make(replay, access->key, len);
	if (len != access->size)
		replay->result->resized++;
	if (!memcmp(got, replay->made, len))
		return;
	if (!replay->result->wrong++)
		fprintf(stderr, "kvtrace: WRONG VALUE of key %" PRIu64 " (%zu bytes)\n",
			access->key, len);
}

static int failed(const struct replay *replay, const char *what, enum kvd_status status)
{
	const char *why = db_error(replay->db);

	fprintf(stderr, "kvtrace: %s after %" PRIu64 " accesses failed: %s%s%s\n", what,
		replay->done, kvd_status_text(status), *why ? ": " : "", why);
	return -EIO;
}

static int fill(struct replay *replay, unsigned int i)
{
	const struct trace_access *access = &replay->accesses[i];
	const struct db_change change = { replay->keys[i], REPLAY_KEY_BYTES, replay->made,
					  access->size };
	enum kvd_status status;

	value_make(replay, access->key, access->size);
	status = db_put(replay->db, &change, 1);
	if (status == KVD_ERR_NO_SPACE || status == KVD_ERR_TOO_LARGE)
		replay->result->not_stored++;
	else if (status)
		return failed(replay, "PUT", status);
	return 0;
}

static int response_take(struct replay *replay, unsigned int i)
{
	const struct kvd_get_request *request = &replay->requests[i];
	const bool counted = replay->done++ >= replay->options->warmup;

	replay->result->accesses += counted;
	if (request->status == KVD_NOT_FOUND)
		return fill(replay, i);
	if (request->status)
		return failed(replay, "GET", request->status);
	replay->result->hits += counted;
	hit_check(replay, &replay->accesses[i], replay->got[i], request->item.value_len);
	return 0;
}

/* Waits until the accesses so far have taken as long as they must at the given rate. */
static void keep_rate(const struct replay *replay)
{
	struct timespec until;
	uint64_t turn;

	if (!replay->options->rate)
		return;
	turn = replay->start_ns +
	       (uint64_t)((double)replay->done * 1e9 / (double)replay->options->rate);
	until.tv_sec = (time_t)(turn / 1000000000u);
	until.tv_nsec = (long)(turn % 1000000000u);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int batch_play(struct replay *replay)
{
	unsigned int i;
	int error = 0;

	keep_rate(replay);
	db_get(replay->db, replay->requests, replay->count);
	for (i = 0; !error && i < replay->count; i++)
		error = response_take(replay, i);
	replay->count = 0;
	return error;
}

static bool in_batch(const struct replay *replay, uint64_t key)
{
	unsigned int i;

	for (i = 0; i < replay->count; i++)
		if (replay->accesses[i].key == key)
			return true;
	return false;
}

static int access_add(struct replay *replay, const struct trace_access *access)
{
	unsigned int i;
	int error;

	if (replay->count == replay->options->batch || in_batch(replay, access->key)) {
		error = batch_play(replay);
		if (error)
			return error;
	}
	i = replay->count++;
	replay->accesses[i] = *access;
	snprintf(replay->keys[i], sizeof(replay->keys[i]), "%016" PRIx64, access->key);
	replay->requests[i] = (struct kvd_get_request){ .key = replay->keys[i],
							.key_len = REPLAY_KEY_BYTES,
							.value = replay->got[i],
							.value_size = TRACE_SIZE_MAX };
	return 0;
}

static int play_all(struct replay *replay, struct trace *trace)
{
	struct trace_access access;
	int error;

	replay->start_ns = clock_ns();
	while ((error = trace_next(trace, &access)) == 1) {
		error = access_add(replay, &access);
		if (error)
			return error;
	}
	if (error)
		fprintf(stderr, "kvtrace: %s\n", trace->error);
	else
		error = batch_play(replay);
	replay->result->elapsed_ns = clock_ns() - replay->start_ns;
	return error;
}

int replay_run(struct trace *trace, const struct replay_options *options,
	       struct replay_result *result)
{
	static struct replay replay;
	struct kvd_options kvd;
	char text[DB_ERROR_MAX];
	enum kvd_status status;
	int error;

	memset(result, 0, sizeof(*result));
	memset(&replay, 0, sizeof(replay));
	replay.options = options;
	replay.result = result;
	kvd_options_init(&kvd);
	kvd.cache_bytes = options->cache_bytes;
	if (options->timeout_ms)
		kvd.timeout_ms = kvd.connect_timeout_ms = options->timeout_ms;
	status = db_open(&replay.db, &options->target, &kvd, text);
	if (status)
		return db_connect_failed(&options->target, status, text);
	error = play_all(&replay, trace);
	db_close(replay.db);
	return error;
}
