/* SPDX-License-Identifier: MIT */
/* Tests what works between this host and a server: see doctor_server.h. */
#include "client/kvctl/doctor_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvctl/members.h"
#include "client/kvctl/stats_text.h"
#include "common/util/clock.h"

#define LOOPS 50
#define PULLS 10
#define VALUE_BYTES 100u
#define PULL_BYTES (1u << 20)
#define KEY_TTL_S 60

#define PREFIX "kvctl-doctor"

struct key {
	char text[MEMBERS_KEY_BYTES];
	size_t len;
};

static enum kvd_status store(struct kvd *db, const struct key *key, const void *value, size_t len)
{
	const struct kvd_put_args args = { .ttl_s = KEY_TTL_S, .priority = KVD_PRIORITY_LOW };

	return kvd_put(db, key->text, key->len, value, len, &args, NULL);
}

/* The times of calls of @op that took one of two paths. */
static void loop_read(struct doctor_loop *loop, struct kvd *db, enum kvd_opcode op,
		      enum kvd_path path, enum kvd_path other)
{
	struct kvd_op_stats stats;

	if (kvd_op_stats(db, op, path, &stats, sizeof(stats)) || !stats.count)
		(void)kvd_op_stats(db, op, other, &stats, sizeof(stats));
	loop->count = stats.count;
	loop->p50_ns = stats.service.p50_ns;
	loop->max_ns = stats.service.max_ns;
}

static void loop_end(struct doctor_loop *loop, struct kvd *db, enum kvd_status status)
{
	loop->status = status;
	if (status)
		snprintf(loop->error, sizeof(loop->error), "%s%s%s", kvd_status_text(status),
			 *kvd_error(db) ? ": " : "", kvd_error(db));
}

static void ping_loop(struct doctor_loop *loop, struct kvd *db)
{
	enum kvd_status status = KVD_OK;

	for (unsigned int i = 0; !status && i < LOOPS; i++)
		status = kvd_ping(db);
	loop_end(loop, db, status);
	loop_read(loop, db, KVD_OP_PING, KVD_PATH_REQUEST, KVD_PATH_REQUEST);
}

static void get_loop(struct doctor_loop *loop, struct kvd *db, const struct key *key,
		     enum doctor_path path)
{
	const bool by_request = path == DOCTOR_PATH_REQUEST;
	enum kvd_status (*get)(struct kvd *, const void *, size_t, void *, size_t,
			       struct kvd_item *) = by_request ? kvd_get_by_request : kvd_get;
	char value[VALUE_BYTES] = { 'x' };
	enum kvd_status status = store(db, key, value, sizeof(value));
	struct kvd_item item;

	for (unsigned int i = 0; !status && i < LOOPS; i++)
		status = get(db, key->text, key->len, value, sizeof(value), &item);
	loop_end(loop, db, status);
	loop->bytes = sizeof(value);
	if (by_request)
		loop_read(loop, db, KVD_OP_GET_BY_REQUEST, KVD_PATH_REQUEST, KVD_PATH_REQUEST);
	else
		loop_read(loop, db, KVD_OP_GET, KVD_PATH_WARM, KVD_PATH_COLD);
}

static void pull_loop(struct doctor_loop *loop, struct kvd *db, const struct key *key,
		      const struct doctor_server *server)
{
	enum kvd_status status = KVD_OK;
	char *value;

	loop->bytes = server->value_max < PULL_BYTES ? server->value_max : PULL_BYTES;
	if (loop->bytes <= server->message_max)
		return;
	value = calloc(1, loop->bytes);
	if (!value) {
		loop->status = KVD_ERR_NO_MEMORY;
		return;
	}
	for (unsigned int i = 0; !status && i < PULLS; i++)
		status = store(db, key, value, loop->bytes);
	loop_end(loop, db, status);
	loop_read(loop, db, KVD_OP_PUT, KVD_PATH_PULL, KVD_PATH_DIRECT);
	free(value);
}

static void version_read(struct doctor_server *server, struct kvd *db)
{
	static char text[STATS_BYTES];

	server->stats_status = kvd_server_stats(db, text, sizeof(text), NULL);
	if (!server->stats_status)
		(void)!sscanf(text, "version %31s", server->version);
}

static void connection_read(struct doctor_server *server, struct kvd *db)
{
	struct kvd_info info;

	kvd_info(db, &info);
	snprintf(server->device, sizeof(server->device), "%s %s", info.device_kind,
		 info.device_name);
	snprintf(server->link, sizeof(server->link), "%s", info.device_link);
	server->message_max = info.request_bytes;
	server->value_max = info.value_max;
	server->clock_error_ns = info.clock_error_ns;
}

/* The paths of keys, by the handle @db. */
static void keys_read(struct doctor_server *server, struct kvd *db,
		      const struct doctor_member_of *of)
{
	struct key key;

	if (!members_key_make(of ? db : NULL, of ? of->number : 0, PREFIX, key.text)) {
		server->keyless = true;
		return;
	}
	key.len = strlen(key.text);
	get_loop(&server->loop[DOCTOR_PATH_REQUEST], db, &key, DOCTOR_PATH_REQUEST);
	get_loop(&server->loop[DOCTOR_PATH_READ], db, &key, DOCTOR_PATH_READ);
	pull_loop(&server->loop[DOCTOR_PATH_PULL], db, &key, server);
	(void)kvd_delete(db, key.text, key.len); /* else it expires */
}

/* A handle of its own: the times of others would be in the same statistics. */
static void keys_of_member_read(struct doctor_server *server, const struct doctor_member_of *of,
				const struct kvd_options *options)
{
	enum kvd_status status;
	struct kvd *db;

	status = kvd_open(&db, of->fleet, options);
	if (status) {
		for (enum doctor_path path = DOCTOR_PATH_REQUEST; path < DOCTOR_PATH_COUNT; path++)
			loop_end(&server->loop[path], NULL, status);
		return;
	}
	(void)kvd_observe(db, KVD_OBSERVE_OPS);
	keys_read(server, db, of);
	kvd_close(db);
}

void doctor_server_read(struct doctor_server *server, const char *url,
			const struct doctor_member_of *of, const struct kvd_options *options)
{
	const uint64_t start_ns = clock_ns();
	struct kvd *db;

	*server = (struct doctor_server){ .url = url, .member = of ? of->id : NULL };
	server->open_status = kvd_open(&db, url, options);
	server->open_ns = clock_ns() - start_ns;
	if (server->open_status) {
		snprintf(server->open_error, sizeof(server->open_error), "%s", kvd_error(NULL));
		return;
	}
	(void)kvd_observe(db, KVD_OBSERVE_OPS); /* without memory for it nothing is counted */
	version_read(server, db);
	ping_loop(&server->loop[DOCTOR_PATH_PING], db);
	connection_read(server, db);
	if (of)
		keys_of_member_read(server, of, options);
	else
		keys_read(server, db, NULL);
	kvd_close(db);
}
