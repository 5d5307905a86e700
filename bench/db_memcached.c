/* SPDX-License-Identifier: MIT */
/*
 * The backend for memcached: its text protocol (doc/protocol.txt), over TCP or a Unix socket.
 *
 *	memcached://HOST:PORT, memcached:///PATH
 *	...?pipeline=N		a PUT returns before its response arrives, until N are under way:
 *				good for rates, not for latencies
 *
 * Operations that are given together go out with one system call: GETs as one `get` of up to
 * BATCH_MAX keys, memcached's fastest way for many keys; PUTs and DELETEs as that many commands.
 */
#include "bench/db.h"

#include <stdlib.h>
#include <string.h>

#include "bench/stream.h"
#include "common/util/parse.h"

#define BATCH_MAX 64
static_assert(3 * BATCH_MAX <= STREAM_PARTS_MAX, "stream_send()");
#define PIPELINE_MAX 1024
/* memcached's own limit */
#define MEMCACHED_KEY_MAX 250
/* bytes of a command without its keys */
#define COMMAND_MAX 64

static const char prefix[] = "memcached://";

struct memcached {
	struct db db;
	unsigned int pipeline; /* PUTs that may be under way; 1: none when the call returns */
	unsigned int pending;  /* PUTs whose response was not taken */
	struct kvd_stats stats;
	struct stream stream;
};

static struct memcached *memcached_of(struct db *db)
{
	return (struct memcached *)db;
}

/* Parses the part of @url after the '?'. */
static enum kvd_status options_parse(struct memcached *mc, const char *url, char *error)
{
	const char *option = strchr(url, '?');
	struct parse_why why = { "the only option is ?pipeline=N" };
	uint64_t depth = 1;

	if (option && (strncmp(option, "?pipeline=", 10) ||
		       parse_uint(option + 10, 1, PIPELINE_MAX, &depth, &why))) {
		snprintf(error, DB_ERROR_MAX, "%s: %s", option, why.text);
		return KVD_ERR_INVALID;
	}
	mc->pipeline = (unsigned int)depth;
	return KVD_OK;
}

static enum kvd_status memcached_open(struct db **db, const char *url,
				      const struct kvd_options *options, char *error)
{
	struct memcached *mc = calloc(1, sizeof(*mc));
	enum kvd_status status;

	*db = NULL;
	*error = '\0';
	if (!mc)
		return KVD_ERR_NO_MEMORY;
	status = options_parse(mc, url, error);
	if (!status) {
		status = stream_open(&mc->stream, url + strlen(prefix), options->timeout_ms);
		if (status)
			snprintf(error, DB_ERROR_MAX, "%s", mc->stream.error);
	}
	if (status) {
		free(mc);
		return status;
	}
	mc->db.backend = &db_memcached;
	*db = &mc->db;
	return KVD_OK;
}

static void memcached_close(struct db *db)
{
	stream_close(&memcached_of(db)->stream);
	free(db);
}

/* A response to a failed operation: memcached has stored or found nothing. */
static enum kvd_status note(struct memcached *mc, const char *line, enum kvd_status status)
{
	snprintf(mc->stream.error, sizeof(mc->stream.error), "%s", line);
	return status;
}

/* Takes @count responses of one line. Those that are not @good count as @failure. */
static enum kvd_status take_responses(struct memcached *mc, size_t count, const char *good,
				      enum kvd_status failure)
{
	enum kvd_status status, result = KVD_OK;
	char *line;

	for (; count; count--) {
		status = stream_take_line(&mc->stream, &line);
		if (status)
			return status;
		if (strcmp(line, good))
			result = note(mc, line, failure);
	}
	return result;
}

static enum kvd_status take_stored(struct memcached *mc)
{
	const unsigned int pending = mc->pending;

	mc->pending = 0;
	return take_responses(mc, pending, "STORED", KVD_ERR_NO_SPACE);
}

static bool key_fits(const void *key, size_t len)
{
	return len && len <= MEMCACHED_KEY_MAX && !memchr(key, ' ', len);
}

static enum kvd_status put_some(struct memcached *mc, const struct db_change *changes, size_t count)
{
	char commands[BATCH_MAX][MEMCACHED_KEY_MAX + COMMAND_MAX];
	struct iovec parts[3 * BATCH_MAX];
	enum kvd_status status;
	size_t i;

	for (i = 0; i < count; i++) {
		const struct db_change *change = &changes[i];

		if (!key_fits(change->key, change->key_len))
			return note(mc, "a key that memcached does not take", KVD_ERR_INVALID);
		parts[3 * i].iov_base = commands[i];
		parts[3 * i].iov_len = (size_t)snprintf(
			commands[i], sizeof(commands[i]), "set %.*s 0 0 %zu\r\n",
			(int)change->key_len, (const char *)change->key, change->value_len);
		parts[3 * i + 1].iov_base = (void *)change->value;
		parts[3 * i + 1].iov_len = change->value_len;
		parts[3 * i + 2].iov_base = (void *)"\r\n";
		parts[3 * i + 2].iov_len = 2;
	}
	/* Each counts as a round trip, even if sent together; the rest are those of the GETs. */
	mc->stats.puts += count;
	mc->stats.round_trips += count;
	status = stream_send(&mc->stream, parts, 3 * count);
	if (status)
		return status;
	mc->pending += (unsigned int)count;
	return mc->pending < mc->pipeline ? KVD_OK : take_stored(mc);
}

static enum kvd_status delete_some(struct memcached *mc, const struct db_change *changes,
				   size_t count)
{
	char commands[BATCH_MAX * (MEMCACHED_KEY_MAX + COMMAND_MAX)];
	struct iovec part = { .iov_base = commands };
	enum kvd_status status;
	size_t i;

	for (i = 0; i < count; i++) {
		if (!key_fits(changes[i].key, changes[i].key_len))
			return note(mc, "a key that memcached does not take", KVD_ERR_INVALID);
		part.iov_len += (size_t)snprintf(commands + part.iov_len,
						 sizeof(commands) - part.iov_len, "delete %.*s\r\n",
						 (int)changes[i].key_len,
						 (const char *)changes[i].key);
	}
	mc->stats.deletes += count;
	mc->stats.round_trips += count;
	status = take_stored(mc);
	if (!status)
		status = stream_send(&mc->stream, &part, 1);
	return status ? status : take_responses(mc, count, "DELETED", KVD_NOT_FOUND);
}

/* Calls @some for each BATCH_MAX of @changes. */
static enum kvd_status in_batches(struct db *db, const struct db_change *changes, size_t count,
				  enum kvd_status (*some)(struct memcached *,
							  const struct db_change *, size_t))
{
	enum kvd_status status = KVD_OK;
	size_t done, batch;

	for (done = 0; !status && done < count; done += batch) {
		batch = count - done < BATCH_MAX ? count - done : BATCH_MAX;
		status = some(memcached_of(db), changes + done, batch);
	}
	return status;
}

static enum kvd_status memcached_put(struct db *db, const struct db_change *changes, size_t count)
{
	return in_batches(db, changes, count, put_some);
}

static enum kvd_status memcached_delete(struct db *db, const struct db_change *changes,
					size_t count)
{
	return in_batches(db, changes, count, delete_some);
}

/* Takes the value that @header ("key flags bytes") announces. */
static enum kvd_status take_value(struct memcached *mc, const char *header,
				  struct kvd_get_request *request)
{
	enum kvd_status status;
	size_t len;

	if (sscanf(header, "%*s %*u %zu", &len) != 1)
		return stream_refuse(&mc->stream, "a VALUE line without a length");
	if (len > request->value_size)
		return stream_refuse(&mc->stream, "a longer value than expected");
	status = stream_take_bytes(&mc->stream, request->value, len);
	if (!status)
		status = stream_take_end(&mc->stream);
	request->status = status;
	request->item = (struct kvd_item){ .value_len = len };
	return status;
}

static bool is_key(const struct kvd_get_request *request, const char *header)
{
	return !strncmp(header, request->key, request->key_len) && header[request->key_len] == ' ';
}

/* Takes the response to a `get` of @count keys: those found, in their order, then END. */
static enum kvd_status take_values(struct memcached *mc, struct kvd_get_request *requests,
				   size_t count)
{
	enum kvd_status status;
	size_t i = 0;
	char *line;

	while (!(status = stream_take_line(&mc->stream, &line))) {
		if (!strcmp(line, "END"))
			return KVD_OK;
		if (strncmp(line, "VALUE ", 6))
			return stream_refuse(&mc->stream, line);
		while (i < count && !is_key(&requests[i], line + 6))
			i++;
		if (i == count)
			return stream_refuse(&mc->stream, "a value that was not asked for");
		status = take_value(mc, line + 6, &requests[i++]);
		if (status)
			return status;
		mc->stats.hits++;
	}
	return status;
}

static enum kvd_status get_some(struct memcached *mc, struct kvd_get_request *requests,
				size_t count)
{
	char command[BATCH_MAX * (MEMCACHED_KEY_MAX + 1) + COMMAND_MAX];
	struct iovec part = { .iov_base = command };
	enum kvd_status status;
	size_t i, len = 3;

	memcpy(command, "get", 3);
	for (i = 0; i < count; i++) {
		if (!key_fits(requests[i].key, requests[i].key_len))
			return note(mc, "a key that memcached does not take", KVD_ERR_INVALID);
		requests[i].status = KVD_NOT_FOUND;
		command[len++] = ' ';
		memcpy(command + len, requests[i].key, requests[i].key_len);
		len += requests[i].key_len;
	}
	memcpy(command + len, "\r\n", 2);
	part.iov_len = len + 2;
	mc->stats.gets += count;
	mc->stats.round_trips++;
	status = take_stored(mc);
	if (!status)
		status = stream_send(&mc->stream, &part, 1);
	return status ? status : take_values(mc, requests, count);
}

static void memcached_get(struct db *db, struct kvd_get_request *requests, size_t count)
{
	struct memcached *mc = memcached_of(db);
	enum kvd_status status = KVD_OK;
	size_t i, done, batch;

	for (done = 0; !status && done < count; done += batch) {
		batch = count - done < BATCH_MAX ? count - done : BATCH_MAX;
		status = get_some(mc, requests + done, batch);
	}
	for (i = 0; status && i < count; i++)
		requests[i].status = status;
}

/* The names of statistics in memcached and in kvd. */
static const struct {
	const char *theirs, *ours;
} stat_names[] = {
	{ "rusage_user", "cpu_user_us" },
	{ "rusage_system", "cpu_system_us" },
	{ "curr_items", "items" },
	{ "evictions", "evictions" },
};

/* Converts "STAT name value" if kvd has this statistic. Times become microseconds. */
static size_t stat_print(const char *line, char *text, size_t size)
{
	unsigned long long number, micros;
	char name[32];
	int len = 0, got;
	size_t i;

	got = sscanf(line, "STAT %31s %llu.%llu", name, &number, &micros);
	for (i = 0; got >= 2 && i < sizeof(stat_names) / sizeof(stat_names[0]); i++)
		if (!strcmp(name, stat_names[i].theirs))
			len = snprintf(text, size, "%s %llu\n", stat_names[i].ours,
				       got == 3 ? number * 1000000 + micros : number);
	return len > 0 && (size_t)len < size ? (size_t)len : 0;
}

static enum kvd_status memcached_server_stats(struct db *db, char *text, size_t size)
{
	struct iovec part = { .iov_base = (void *)"stats\r\n", .iov_len = 7 };
	struct memcached *mc = memcached_of(db);
	enum kvd_status status;
	size_t len = 0;
	char *line;

	status = take_stored(mc);
	if (!status)
		status = stream_send(&mc->stream, &part, 1);
	while (!status && !(status = stream_take_line(&mc->stream, &line)) && strcmp(line, "END"))
		len += stat_print(line, text + len, size - len);
	text[len] = '\0';
	return status;
}

static void memcached_stats(const struct db *db, struct kvd_stats *stats)
{
	*stats = ((const struct memcached *)db)->stats;
}

static void memcached_info(const struct db *db, struct kvd_info *info)
{
	(void)db;
	*info = (struct kvd_info){ .device_kind = "memcached",
				   .device_name = "socket",
				   .device_why = "for comparison" };
}

static const char *memcached_error(const struct db *db)
{
	return ((const struct memcached *)db)->stream.error;
}

const struct db_backend db_memcached = {
	.name = "memcached",
	.urls = "memcached://HOST:PORT or memcached:///PATH",
	.prefix = prefix,
	.key_max = MEMCACHED_KEY_MAX,
	.memory_option = "-m",
	.open = memcached_open,
	.close = memcached_close,
	.get = memcached_get,
	.put = memcached_put,
	.remove = memcached_delete,
	.server_stats = memcached_server_stats,
	.stats = memcached_stats,
	.info = memcached_info,
	.error = memcached_error,
};
