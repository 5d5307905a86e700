/* SPDX-License-Identifier: MIT */
#include "server/memcached/large_get.h"

#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/memcached/stream.h"

/* Bytes that are sent with one system call, between two looks at the clock. */
#define SEND_BYTES (256u << 10)
/* The last bytes go out together with the tail, and the next answers. */
#define LAST_BYTES (8u << 10)

struct large_get {
	struct hold hold;
	bool begun;
	uint32_t at, len; /* of the value: sent, and all */
	const char *tail; /* NULL: none */
	uint64_t hash, version;
	uint32_t key_len;
	uint8_t key[];
};

static struct holds *holds_of(const struct session *session)
{
	return &session->client.part->thread.table->holds;
}

bool large_get_hold(struct session *session, const struct mc_command *command, uint64_t hash,
		    const struct item_ref *ref, bool *waits)
{
	uint32_t len = item_value_len(&ref->front.item);
	struct large_get *get;

	*waits = !output_count(session, len);
	if (*waits)
		return false;
	get = calloc(1, sizeof(*get) + command->key_len);
	if (!get) {
		output_drop(session, len);
		return false;
	}
	get->len = len;
	get->hash = hash;
	get->version = ref->front.item.version;
	get->key_len = command->key_len;
	memcpy(get->key, command->key, command->key_len);
	hold_begin(holds_of(session), &get->hold, lookup_ref_value(ref), len);
	session->get = get;
	return true;
}

void large_get_end(struct session *session)
{
	struct large_get *get = session->get;

	if (!get)
		return;
	hold_end(holds_of(session), &get->hold);
	session->get = NULL;
	output_drop(session, get->len);
	free(get);
}

void large_get_begin(struct session *session, const char *line, uint32_t line_len, const char *tail)
{
	session->get->begun = true;
	session->get->tail = tail;
	output_bytes(session->sockets, line, line_len);
}

bool large_get_begun(const struct session *session)
{
	return session->get && session->get->begun;
}

/* The end of the value goes to the worker's output. */
static enum action_next last_put(struct session *session, const uint8_t *bytes, uint32_t len)
{
	struct sockets *sockets = session->sockets;
	const char *tail = session->get->tail;

	if (!output_room(session, len + SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	output_bytes(sockets, bytes, len);
	output_bytes(sockets, "\r\n", 2);
	if (tail)
		output_line(sockets, tail);
	large_get_end(session);
	return ACTION_DONE;
}

/* Where the value is: a lost one may only have moved (HOLD-3). NULL: it is gone. */
static const uint8_t *value_find(struct session *session)
{
	struct large_get *get = session->get;
	const uint8_t *bytes = hold_bytes(&get->hold);
	struct item_ref ref;

	if (bytes)
		return bytes;
	if (lookup_find(client_thread(&session->client), get->hash, get->key, get->key_len, &ref) !=
		    LOOKUP_FOUND ||
	    ref.front.item.version != get->version)
		return NULL;
	hold_end(holds_of(session), &get->hold);
	hold_begin(holds_of(session), &get->hold, lookup_ref_value(&ref), get->len);
	return lookup_ref_value(&ref);
}

enum action_next large_get_run(struct session *session, uint64_t until_ns)
{
	struct large_get *get = session->get;
	const uint8_t *bytes = value_find(session);
	uint32_t left, n;

	if (!bytes) {
		/* A part of it was sent, so there is no answer to go on with. */
		log_ratelimited(LOG_WARN, 10,
				"memcached: connection of %s: closed: a value of %u bytes was "
				"replaced while it was sent",
				session->client.peer.address, get->len);
		session->shut = session->broken = true;
		return ACTION_CLOGGED;
	}
	if (!output_send(session))
		return ACTION_CLOGGED;
	while ((left = get->len - get->at) > LAST_BYTES) {
		n = session->tls ? SESSION_TLS_BYTES : SEND_BYTES;
		n = left - LAST_BYTES < n ? left - LAST_BYTES : n;
		left = (uint32_t)session_send(session, bytes + get->at, n);
		get->at += left;
		if (left)
			session->output_progress_ns = clock_ns();
		if (left < n) {
			session->clogged = !session->broken;
			return ACTION_CLOGGED;
		}
		if (clock_ns() >= until_ns)
			return ACTION_AGAIN;
	}
	return last_put(session, bytes + get->at, left);
}
