/* SPDX-License-Identifier: MIT */
/*
 * The backend for Redis: RESP2 (redis.io/docs/reference/protocol-spec), over TCP or a Unix socket.
 *
 *	redis://HOST:PORT, redis:///PATH
 *
 * Operations that are given together are pipelined: up to BATCH_MAX commands go out with one system
 * call, then their responses are taken.
 */
#include "bench/db.h"

#include <stdlib.h>
#include <string.h>

#include "bench/stream.h"

#define BATCH_MAX 64
#define INFO_MAX 65536
/* The most parts in which a command is sent: start, key, middle, value and end. */
#define COMMAND_PARTS 5
static_assert(COMMAND_PARTS * BATCH_MAX <= STREAM_PARTS_MAX, "stream_send()");

static const char prefix[] = "redis://";

struct redis {
	struct db db;
	struct kvd_stats stats;
	struct stream stream;
};

/* Commands that are collected for one send. */
struct message {
	unsigned int commands;
	size_t count; /* of the parts */
	struct iovec parts[COMMAND_PARTS * BATCH_MAX];
	char heads[BATCH_MAX][64], middles[BATCH_MAX][32];
};

static struct redis *redis_of(struct db *db)
{
	return (struct redis *)db;
}

static enum kvd_status redis_open(struct db **db, const char *url,
				  const struct kvd_options *options, char *error)
{
	struct redis *redis = calloc(1, sizeof(*redis));
	enum kvd_status status;

	*db = NULL;
	*error = '\0';
	if (!redis)
		return KVD_ERR_NO_MEMORY;
	status = stream_open(&redis->stream, url + strlen(prefix), options->timeout_ms);
	if (status) {
		snprintf(error, DB_ERROR_MAX, "%s", redis->stream.error);
		free(redis);
		return status;
	}
	redis->db.backend = &db_redis;
	*db = &redis->db;
	return KVD_OK;
}

static void redis_close(struct db *db)
{
	stream_close(&redis_of(db)->stream);
	free(db);
}

/* Initializes only the counts: a message is large, and most have one command. */
static void message_init(struct message *message)
{
	message->commands = 0;
	message->count = 0;
}

static void add_part(struct message *message, const void *bytes, size_t len)
{
	message->parts[message->count++] = (struct iovec){ .iov_base = (void *)bytes,
							   .iov_len = len };
}

/* Adds the command @name of three letters. Only SET sends the value. */
static void add_command(struct message *message, const char *name, const struct db_change *change)
{
	const bool set = !strcmp(name, "SET");
	char *head = message->heads[message->commands];
	char *middle = message->middles[message->commands];
	int len;

	message->commands++;
	len = snprintf(head, sizeof(message->heads[0]), "*%d\r\n$3\r\n%s\r\n$%zu\r\n", set ? 3 : 2,
		       name, change->key_len);
	add_part(message, head, (size_t)len);
	add_part(message, change->key, change->key_len);
	if (set) {
		len = snprintf(middle, sizeof(message->middles[0]), "\r\n$%zu\r\n",
			       change->value_len);
		add_part(message, middle, (size_t)len);
		add_part(message, change->value, change->value_len);
	}
	add_part(message, "\r\n", 2);
}

/* Redis responds "-OOM ..." if maxmemory is reached and nothing may be evicted. */
static enum kvd_status error_take(struct redis *redis, const char *line)
{
	if (strncmp(line, "-OOM", 4))
		return stream_refuse(&redis->stream, line);
	snprintf(redis->stream.error, sizeof(redis->stream.error), "%s", line);
	return KVD_ERR_NO_SPACE;
}

/* Takes @count responses of one line. One that is @missing counts as KVD_NOT_FOUND. */
static enum kvd_status take_responses(struct redis *redis, size_t count, const char *good,
				      const char *missing)
{
	enum kvd_status status, result = KVD_OK;
	char *line;

	for (; count; count--) {
		status = stream_take_line(&redis->stream, &line);
		if (!status && strcmp(line, good))
			status = missing && !strcmp(line, missing) ? KVD_NOT_FOUND :
								     error_take(redis, line);
		if (redis->stream.lost)
			return status;
		if (status)
			result = status;
	}
	return result;
}

static enum kvd_status change_some(struct redis *redis, const char *name,
				   const struct db_change *changes, size_t count)
{
	struct message message;
	enum kvd_status status;
	size_t i;

	message_init(&message);
	for (i = 0; i < count; i++)
		add_command(&message, name, &changes[i]);
	redis->stats.round_trips += count;
	status = stream_send(&redis->stream, message.parts, message.count);
	if (status)
		return status;
	if (!strcmp(name, "SET"))
		return take_responses(redis, count, "+OK", NULL);
	return take_responses(redis, count, ":1", ":0");
}

static enum kvd_status change_all(struct db *db, const char *name, const struct db_change *changes,
				  size_t count)
{
	enum kvd_status status = KVD_OK;
	size_t done, batch;

	for (done = 0; !status && done < count; done += batch) {
		batch = count - done < BATCH_MAX ? count - done : BATCH_MAX;
		status = change_some(redis_of(db), name, changes + done, batch);
	}
	return status;
}

static enum kvd_status redis_put(struct db *db, const struct db_change *changes, size_t count)
{
	redis_of(db)->stats.puts += count;
	return change_all(db, "SET", changes, count);
}

static enum kvd_status redis_delete(struct db *db, const struct db_change *changes, size_t count)
{
	redis_of(db)->stats.deletes += count;
	return change_all(db, "DEL", changes, count);
}

/* Takes the length of a value, "$N", into *@len; -1 if there is none. */
static enum kvd_status take_length(struct redis *redis, long long *len)
{
	enum kvd_status status;
	char *line;

	status = stream_take_line(&redis->stream, &line);
	if (status)
		return status;
	if (sscanf(line, "$%lld", len) != 1 || *len < -1)
		return stream_refuse(&redis->stream, line);
	return KVD_OK;
}

static enum kvd_status take_value(struct redis *redis, struct kvd_get_request *request)
{
	enum kvd_status status;
	long long len;

	status = take_length(redis, &len);
	if (status)
		return status;
	request->status = len < 0 ? KVD_NOT_FOUND : KVD_OK;
	if (len < 0)
		return KVD_OK;
	if ((unsigned long long)len > request->value_size)
		return stream_refuse(&redis->stream, "a longer value than expected");
	request->item = (struct kvd_item){ .value_len = (size_t)len };
	redis->stats.hits++;
	status = stream_take_bytes(&redis->stream, request->value, (size_t)len);
	return status ? status : stream_take_end(&redis->stream);
}

static enum kvd_status get_some(struct redis *redis, struct kvd_get_request *requests, size_t count)
{
	struct message message;
	enum kvd_status status;
	size_t i;

	message_init(&message);
	for (i = 0; i < count; i++) {
		const struct db_change get = { .key = requests[i].key,
					       .key_len = requests[i].key_len };

		add_command(&message, "GET", &get);
	}
	redis->stats.gets += count;
	redis->stats.round_trips++;
	status = stream_send(&redis->stream, message.parts, message.count);
	for (i = 0; !status && i < count; i++)
		status = take_value(redis, &requests[i]);
	return status;
}

static void redis_get(struct db *db, struct kvd_get_request *requests, size_t count)
{
	enum kvd_status status = KVD_OK;
	size_t i, done, batch;

	for (done = 0; !status && done < count; done += batch) {
		batch = count - done < BATCH_MAX ? count - done : BATCH_MAX;
		status = get_some(redis_of(db), requests + done, batch);
	}
	for (i = 0; status && i < count; i++)
		requests[i].status = status;
}

/* The names of statistics in INFO and in kvd. */
static const struct {
	const char *theirs, *ours;
} stat_names[] = {
	{ "\nused_cpu_user:", "cpu_user_us" },
	{ "\nused_cpu_sys:", "cpu_system_us" },
	{ "\nevicted_keys:", "evictions" },
	{ "\ndb0:keys=", "items" },
};

/* An empty database has no line in INFO, so a statistic that is missing is 0. */
static size_t stats_print(const char *info, char *text, size_t size)
{
	unsigned long long number, micros;
	size_t i, len = 0;
	const char *at;
	int got;

	for (i = 0; i < sizeof(stat_names) / sizeof(stat_names[0]) && len < size; i++) {
		at = strstr(info, stat_names[i].theirs);
		number = 0;
		got = at ? sscanf(at + strlen(stat_names[i].theirs), "%llu.%llu", &number,
				  &micros) :
			   0;
		len += (size_t)snprintf(text + len, size - len, "%s %llu\n", stat_names[i].ours,
					got == 2 ? number * 1000000 + micros : number);
	}
	return len;
}

static enum kvd_status redis_server_stats(struct db *db, char *text, size_t size)
{
	struct iovec part = { .iov_base = (void *)"INFO\r\n", .iov_len = 6 };
	struct stream *stream = &redis_of(db)->stream;
	char info[INFO_MAX];
	enum kvd_status status;
	long long len;

	text[0] = '\0';
	status = stream_send(stream, &part, 1);
	if (!status)
		status = take_length(redis_of(db), &len);
	if (status)
		return status;
	if (len < 0 || len >= INFO_MAX)
		return stream_refuse(stream, "a longer INFO than expected");
	info[len] = '\0';
	status = stream_take_bytes(stream, info, (size_t)len);
	if (!status)
		status = stream_take_end(stream);
	if (!status && stats_print(info, text, size) >= size)
		return KVD_ERR_BUFFER;
	return status;
}

static void redis_stats(const struct db *db, struct kvd_stats *stats)
{
	*stats = ((const struct redis *)db)->stats;
}

static void redis_info(const struct db *db, struct kvd_info *info)
{
	(void)db;
	*info = (struct kvd_info){ .device_kind = "redis",
				   .device_name = "socket",
				   .device_why = "for comparison" };
}

static const char *redis_error(const struct db *db)
{
	return ((const struct redis *)db)->stream.error;
}

const struct db_backend db_redis = {
	.name = "redis",
	.urls = "redis://HOST:PORT or redis:///PATH",
	.prefix = prefix,
	.key_max = KVD_KEY_MAX,
	.memory_option = "maxmemory",
	.open = redis_open,
	.close = redis_close,
	.get = redis_get,
	.put = redis_put,
	.remove = redis_delete,
	.server_stats = redis_server_stats,
	.stats = redis_stats,
	.info = redis_info,
	.error = redis_error,
};
