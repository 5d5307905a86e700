/* SPDX-License-Identifier: MIT */
/* Makes the lines of the audit log. */
#include "server/worker/audit.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/util/clock.h"
#include "server/users/user.h"
#include "server/worker/audit_limit.h"

/* Bytes of a text in a line, with what escapes them. */
#define TEXT_BYTES 320

static void (*_Atomic audit_sink)(const char *line, size_t length);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct audit_limit limit; /* under the lock */

struct line {
	char text[AUDIT_LINE_MAX];
	size_t length;
};

static bool is_enabled(void)
{
	return atomic_load_explicit(&audit_sink, memory_order_relaxed);
}

/* A name that this file gives needs no escapes. */
static void add_name(struct line *line, const char *name)
{
	line->length += (size_t)snprintf(line->text + line->length,
					 sizeof(line->text) - line->length, ",\"%s\":", name);
}

static void add_bytes(struct line *line, const char *name, const char *text, size_t length)
{
	char *at;

	add_name(line, name);
	at = line->text + line->length;
	*at++ = '"';
	at = log_json(at, at + TEXT_BYTES, text, length);
	*at++ = '"';
	line->length = (size_t)(at - line->text);
}

/* A line of memcached's protocol ends at its '\r'. */
static void add_text(struct line *line, const char *name, const char *text)
{
	add_bytes(line, name, text, strcspn(text, "\r"));
}

static void add_number(struct line *line, const char *name, uint64_t value)
{
	add_name(line, name);
	line->length += (size_t)snprintf(line->text + line->length,
					 sizeof(line->text) - line->length, "%" PRIu64, value);
}

static void line_begin(struct line *line, const char *event)
{
	char stamp[LOG_STAMP_BYTES];

	log_stamp(stamp);
	line->length = (size_t)snprintf(line->text, sizeof(line->text), "{\"ts\":\"%s\"", stamp);
	add_text(line, "event", event);
}

static void line_end(struct line *line)
{
	memcpy(line->text + line->length, "}\n", 2);
	line->length += 2;
}

static void line_write(struct line *line)
{
	void (*sink)(const char *line, size_t length) = atomic_load(&audit_sink);

	line_end(line);
	if (sink)
		sink(line->text, line->length);
}

static void add_peer(struct line *line, enum device_kind kind, const struct cm_peer *peer)
{
	const char *scheme = device_scheme(kind);

	add_bytes(line, "way", scheme, strcspn(scheme, ":"));
	add_text(line, "address", peer->address);
	if (peer->uid_known)
		add_number(line, "uid", peer->uid);
}

static void add_client(struct line *line, const struct client *client)
{
	const struct user *user = client_user(client);

	add_number(line, "connection", client->number);
	add_text(line, "principal", client->principal->name);
	if (user && user != &user_unauthenticated)
		add_text(line, "user", user->name);
	add_peer(line, client->kind, &client->peer);
}

static void more_write(const struct audit_source *source, uint64_t count)
{
	static const char *const names[] = {
		[AUDIT_CONNECTIONS] = "connections",
		[AUDIT_REFUSALS] = "refusals",
		[AUDIT_ADMINISTRATION] = "administration",
	};
	struct line line;

	line_begin(&line, "more");
	add_text(&line, "principal", source->principal.name);
	add_text(&line, "of", names[source->class]);
	add_number(&line, "count", count);
	line_write(&line);
}

void audit_tick(uint64_t now_ns)
{
	struct audit_source source;
	uint64_t count;

	if (!is_enabled())
		return;
	do {
		pthread_mutex_lock(&lock);
		count = audit_limit_more(&limit, now_ns, &source);
		pthread_mutex_unlock(&lock);
		if (count)
			more_write(&source, count);
	} while (count);
}

/* Whether a line of the principal may be written now. */
static bool passes(enum audit_class class, const struct principal *principal)
{
	uint64_t now_ns = clock_ns();
	bool pass;

	audit_tick(now_ns);
	pthread_mutex_lock(&lock);
	pass = audit_limit_pass(&limit, class, principal, now_ns);
	pthread_mutex_unlock(&lock);
	return pass;
}

void audit_set_sink(void (*sink)(const char *line, size_t length))
{
	audit_tick(UINT64_MAX);
	memset(&limit, 0, sizeof(limit));
	atomic_store(&audit_sink, sink);
}

static void client_event(const struct client *client, enum audit_class class, const char *event,
			 const char *reason)
{
	struct line line;

	if (!is_enabled() || !passes(class, client->principal))
		return;
	line_begin(&line, event);
	add_client(&line, client);
	if (reason)
		add_text(&line, "reason", reason);
	line_write(&line);
}

void audit_opened(struct client *client)
{
	client->audited = true;
	client_event(client, AUDIT_CONNECTIONS, "opened", NULL);
}

void audit_authenticated(const struct client *client)
{
	client_event(client, AUDIT_CONNECTIONS, "authenticated", NULL);
}

void audit_closed(const struct client *client, const char *why)
{
	static const char *const ends[] = {
#define X(name, text) text,
		CLIENT_ENDS(X)
#undef X
	};

	if (client->audited)
		client_event(client, AUDIT_CONNECTIONS, "closed",
			     why ? why : ends[atomic_load(&client->end)]);
}

void audit_login_failed(const struct client *client, const char *reason)
{
	client_event(client, AUDIT_REFUSALS, "login failed", reason);
}

void audit_refused(enum device_kind kind, const struct cm_peer *peer, const char *reason)
{
	struct principal principal;
	struct line line;

	if (!is_enabled())
		return;
	principal_init(&principal, peer, NULL);
	if (!passes(AUDIT_REFUSALS, &principal))
		return;
	line_begin(&line, "refused");
	add_text(&line, "principal", principal.name);
	add_peer(&line, kind, peer);
	add_text(&line, "reason", reason);
	line_write(&line);
}

void audit_admin(const struct client *client, const char *action, const char *target,
		 const char *result)
{
	struct line line;

	if (!is_enabled() || (client && !passes(AUDIT_ADMINISTRATION, client->principal)))
		return;
	line_begin(&line, "administration");
	add_text(&line, "action", action);
	if (*target)
		add_text(&line, "target", target);
	add_text(&line, "result", result);
	if (client)
		add_client(&line, client);
	line_write(&line);
}

size_t audit_lost(char text[LOG_LINE_MAX], uint64_t lost)
{
	struct line line;

	line_begin(&line, "lost");
	add_number(&line, "lines", lost);
	line_end(&line);
	memcpy(text, line.text, line.length);
	return line.length;
}
