/* SPDX-License-Identifier: MIT */
#include "server/memcached/output.h"

#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/memcached/stream.h"

void output_bytes(struct sockets *sockets, const void *bytes, size_t len)
{
	memcpy(sockets->output + sockets->output_len, bytes, len);
	sockets->output_len += (uint32_t)len;
}

void output_line(struct sockets *sockets, const char *text)
{
	output_bytes(sockets, text, strlen(text));
	output_bytes(sockets, "\r\n", 2);
}

void output_value(struct sockets *sockets, uint32_t gap, const char *line, uint32_t line_len,
		  uint32_t value_len)
{
	uint8_t *begin = sockets->output + sockets->output_at;
	uint8_t *end = sockets->output + sockets->output_len, *value = end + gap;
	uint32_t hole = gap - line_len, before = sockets->output_len - sockets->output_at;

	/* What is shorter moves: the output before the value, or the value. */
	if (before < value_len) {
		memmove(begin + hole, begin, before);
		sockets->output_at += hole;
		sockets->output_len += hole;
		sockets->line_at += hole;
		end += hole;
	} else {
		memmove(value - hole, value, value_len);
		value -= hole;
	}
	memcpy(end, line, line_len);
	memcpy(value + value_len, "\r\n", 2);
	sockets->output_len += line_len + value_len + 2;
}

/* Others may have the memory that was given back. */
static void waits_end(struct sockets *sockets)
{
	struct session *session = TAILQ_FIRST(&sockets->output_waits);

	if (!session)
		return;
	TAILQ_REMOVE(&sockets->output_waits, session, output_entry);
	session->output_waits = false;
	session->output_next = true;
	session->client.wake(&session->client);
}

static void output_add(struct session *session, size_t bytes)
{
	struct sockets *sockets = session->sockets;

	if (!session->output_bytes) {
		session->output_since_ns = session->output_progress_ns = clock_ns();
		TAILQ_INSERT_TAIL(&sockets->outputs, session, output_entry);
	}
	session->output_bytes += bytes;
	sockets->output_bytes += bytes;
}

static uint64_t output_share(const struct sockets *sockets)
{
	const struct worker *worker = sockets->worker;

	return worker->env->config->memcached.output / stat_read(&worker->limits.workers);
}

bool output_count(struct session *session, size_t bytes)
{
	struct sockets *sockets = session->sockets;

	bool next = session->output_next || TAILQ_EMPTY(&sockets->output_waits);

	if (next &&
	    (!sockets->output_bytes || sockets->output_bytes + bytes <= output_share(sockets))) {
		session->output_next = false;
		output_add(session, bytes);
		return true;
	}
	session->waits = session->output_waits = true;
	if (next)
		TAILQ_INSERT_HEAD(&sockets->output_waits, session, output_entry);
	else
		TAILQ_INSERT_TAIL(&sockets->output_waits, session, output_entry);
	return false;
}

void output_drop(struct session *session, size_t bytes)
{
	session->output_bytes -= bytes;
	session->sockets->output_bytes -= bytes;
	if (!session->output_bytes)
		TAILQ_REMOVE(&session->sockets->outputs, session, output_entry);
	waits_end(session->sockets);
}

static void output_free(struct session *session)
{
	if (!session->output)
		return;
	output_drop(session, session->output_len);
	free(session->output);
	session->output = NULL;
	session->output_at = session->output_len = 0;
}

void output_release(struct session *session)
{
	output_free(session);
	if (session->output_waits)
		TAILQ_REMOVE(&session->sockets->output_waits, session, output_entry);
	session->output_waits = false;
	/* The turn passes to the next session. */
	if (session->output_next)
		waits_end(session->sockets);
	session->output_next = false;
}

struct session *output_expired(struct sockets *sockets, uint64_t now_ns)
{
	const struct worker_limits *limits = &sockets->worker->limits;
	struct session *session;

	if (TAILQ_EMPTY(&sockets->output_waits))
		return NULL;
	/* What waits for another thread does so for a bounded time, and not for its client. */
	TAILQ_FOREACH(session, &sockets->outputs, output_entry)
		if (!session_awaits(session) &&
		    (now_ns >= session->output_since_ns + stat_read(&limits->pull_ns) ||
		     now_ns >= session->output_progress_ns + stat_read(&limits->pull_stall_ns)))
			return session;
	return NULL;
}

bool output_resume(struct session *session)
{
	size_t left = session->output_len - session->output_at, sent;

	sent = session_send(session, session->output + session->output_at, left);
	session->output_at += (uint32_t)sent;
	if (sent)
		session->output_progress_ns = clock_ns();
	session->clogged = sent < left && !session->broken;
	if (session->clogged)
		return false;
	output_free(session);
	return !session->broken;
}

bool output_keep(struct session *session, uint8_t *bytes, size_t at, size_t len)
{
	session->output = bytes;
	session->output_at = (uint32_t)at;
	session->output_len = (uint32_t)len;
	output_add(session, len);
	return output_resume(session);
}

bool output_send(struct session *session)
{
	struct sockets *sockets = session->sockets;
	uint8_t *at = sockets->output + sockets->output_at, *rest;
	size_t left = sockets->output_len - sockets->output_at, sent;

	sockets->output_at = sockets->output_len = sockets->line_at = 0;
	if (!left)
		return true;
	sent = session_send(session, at, left);
	sockets->sent = true;
	if (sent == left)
		return true;
	if (session->broken)
		return false;
	rest = malloc(left - sent);
	if (!rest) {
		session->shut = session->broken = true;
		return false;
	}
	memcpy(rest, at + sent, left - sent);
	return output_keep(session, rest, 0, left - sent);
}

bool output_room(struct session *session, uint32_t bytes)
{
	return output_left(session->sockets) >= bytes || output_send(session);
}
