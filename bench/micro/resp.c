/* SPDX-License-Identifier: MIT */
/*
 * Stores and loads batches of chunks in Redis, as an inference engine's cache does that speaks
 * RESP: each thread has a connection, sends its share of a batch in one pipeline (hiredis), and
 * copies what it loads to its place. bench/chunks.sh runs it.
 *
 *	micro resp SOCKET THREADS CHUNKS BYTES KEYS BATCHES
 *
 * BATCHES batches of CHUNKS chunks of BYTES are stored and loaded, each chunk under the next of
 * KEYS keys, one batch at a time; and as many times CHUNKS keys are looked up. A line for each of
 * "store", "load" and "lookup": median and 99th percentile of a batch's time in us, and the share
 * of chunks that were loaded, or are there.
 */
#include "bench/micro/micro.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 64
#define THREADS_MAX 64u

enum step { STORE, LOAD, LOOKUP, END };

static const char *const step_names[] = { [STORE] = "store", [LOAD] = "load", [LOOKUP] = "lookup" };

/* What all threads do next, between two barriers. */
static struct {
	unsigned int threads, chunks, bytes, keys;
	uint8_t *buffers; /* of a batch */
	pthread_barrier_t begin, end;
	enum step step;
	unsigned int first; /* key of the batch */
} work;

struct thread {
	pthread_t id;
	redisContext *redis;
	unsigned int from, to; /* its chunks of a batch */
	unsigned int found;
};

static void command_append(redisContext *redis, unsigned int chunk)
{
	static const char *const names[] = { [STORE] = "SET", [LOAD] = "GET", [LOOKUP] = "EXISTS" };
	const char *name = names[work.step];
	char key[KEY_BYTES];
	const char *words[] = { name, key,
				(const char *)work.buffers + (size_t)chunk * work.bytes };
	size_t sizes[] = { strlen(name), 0, work.bytes };

	sizes[1] = (size_t)snprintf(key, sizeof(key), "model@1@0@%032x",
				    (work.first + chunk) % work.keys);
	if (redisAppendCommandArgv(redis, work.step == STORE ? 3 : 2, words, sizes))
		errx(1, "%s: %s", name, redis->errstr);
}

/* Whether the chunk was stored, has been loaded, or is there. */
static bool reply_take(redisContext *redis, unsigned int chunk)
{
	redisReply *reply;
	bool done;

	if (redisGetReply(redis, (void **)&reply))
		errx(1, "%s: %s", step_names[work.step], redis->errstr);
	if (reply->type == REDIS_REPLY_ERROR)
		errx(1, "%s: %s", step_names[work.step], reply->str);
	done = reply->type == REDIS_REPLY_STATUS || reply->integer;
	if (reply->type == REDIS_REPLY_STRING) {
		if (reply->len != work.bytes)
			errx(1, "a chunk has %zu bytes", reply->len);
		memcpy(work.buffers + (size_t)chunk * work.bytes, reply->str, work.bytes);
		done = true;
	}
	freeReplyObject(reply);
	return done;
}

static void *thread_run(void *arg)
{
	struct thread *thread = arg;
	unsigned int i;

	for (;;) {
		pthread_barrier_wait(&work.begin);
		if (work.step == END)
			return NULL;
		for (i = thread->from; i < thread->to; i++)
			command_append(thread->redis, i);
		for (i = thread->from; i < thread->to; i++)
			thread->found += reply_take(thread->redis, i);
		pthread_barrier_wait(&work.end);
	}
}

static uint64_t batch_run(enum step step, unsigned int first)
{
	uint64_t start_ns = clock_ns();

	work.step = step;
	work.first = first;
	pthread_barrier_wait(&work.begin);
	pthread_barrier_wait(&work.end);
	return clock_ns() - start_ns;
}

static void measure(enum step step, struct thread *threads, unsigned int batches)
{
	struct hist *times = calloc(1, sizeof(*times));
	unsigned int i, found = 0;

	if (!times)
		err(1, "no memory");
	for (i = 0; i < work.threads; i++)
		threads[i].found = 0;
	for (i = 0; i < batches; i++)
		hist_record(times, batch_run(step, i * work.chunks % work.keys));
	for (i = 0; i < work.threads; i++)
		found += threads[i].found;
	printf("%s %.1f %.1f %.3f\n", step_names[step], us(hist_quantile(times, 0.5)),
	       us(hist_quantile(times, 0.99)), found / ((double)batches * work.chunks));
	free(times);
}

static void thread_open(struct thread *thread, unsigned int n, const char *path)
{
	thread->from = work.chunks * n / work.threads;
	thread->to = work.chunks * (n + 1) / work.threads;
	thread->redis = redisConnectUnix(path);
	if (!thread->redis || thread->redis->err)
		errx(1, "%s: %s", path, thread->redis ? thread->redis->errstr : "no memory");
	if (pthread_create(&thread->id, NULL, thread_run, thread))
		errx(1, "can't start a thread");
}

int resp_main(int argc, char **argv)
{
	struct thread threads[THREADS_MAX] = { 0 };
	unsigned int batches, i;

	if (argc != 7)
		errx(2, "usage: micro resp SOCKET THREADS CHUNKS BYTES KEYS BATCHES");
	work.threads = number(argv[2], 1, THREADS_MAX);
	work.chunks = number(argv[3], 1, 1u << 16);
	work.bytes = number(argv[4], 1, 1u << 28);
	work.keys = number(argv[5], work.chunks, 1u << 20);
	batches = number(argv[6], 1, 1u << 20);
	work.buffers = calloc(work.chunks, work.bytes);
	if (!work.buffers)
		err(1, "no memory");
	pthread_barrier_init(&work.begin, NULL, work.threads + 1);
	pthread_barrier_init(&work.end, NULL, work.threads + 1);
	for (i = 0; i < work.threads; i++)
		thread_open(&threads[i], i, argv[1]);
	/* Not measured: the first accesses to the memory of both sides. */
	for (i = 0; i * work.chunks < work.keys; i++)
		batch_run(STORE, i * work.chunks);
	for (enum step step = STORE; step < END; step++)
		measure(step, threads, batches);
	work.step = END;
	pthread_barrier_wait(&work.begin);
	for (i = 0; i < work.threads; i++) {
		pthread_join(threads[i].id, NULL);
		redisFree(threads[i].redis);
	}
	free(work.buffers);
	return 0;
}
