/* SPDX-License-Identifier: MIT */
#include "server/control/logins.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/memcached/login.h"
#include "server/memcached/session.h"
#include "server/users/users.h"
#include "server/worker/audit.h"

#define NS_PER_MS 1000000ull
#define FAILURE "CLIENT_ERROR authentication failure"

struct login_source {
	char name[PRINCIPAL_BYTES + 1 + USER_NAME_MAX]; /* first: the tree compares it */
	enum { SOURCE_READY, SOURCE_CHECKS, SOURCE_HELD } state;
	struct logins *logins;
	/* The first one's password is being checked, or was wrong, if `first` says so. */
	TAILQ_HEAD(source_sessions, session) sessions;
	struct session *first;
	uint64_t until_ns;		 /* of SOURCE_HELD */
	TAILQ_ENTRY(login_source) entry; /* in the list of its state */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct login_source *)a)->name,
		      ((const struct login_source *)b)->name);
}

int logins_init(struct logins *logins, struct mailbox *control)
{
	*logins = (struct logins){ 0 };
	TAILQ_INIT(&logins->ready);
	TAILQ_INIT(&logins->held);
	return password_job_init(&logins->job, control);
}

/* The user that the session names, if it has a password; or NULL. */
static const struct user *user_asked(const struct users *users, const struct session *session)
{
	const struct user *user = users ? users_named(users, session->login->user) : NULL;

	return user && user->password ? user : NULL;
}

static void source_name(struct login_source *source, const struct users *users,
			const struct session *session)
{
	const struct user *user = user_asked(users, session);
	struct principal who;

	principal_init(&who, &session->client.peer, NULL);
	snprintf(source->name, sizeof(source->name), "%s %s", who.name, user ? user->name : "");
}

/* The session's source; NULL: no memory. */
static struct login_source *source_find(struct logins *logins, const struct users *users,
					const struct session *session)
{
	struct login_source wanted, *source;
	void *node;

	source_name(&wanted, users, session);
	node = tfind(&wanted, &logins->tree, by_name);
	if (node)
		return *(struct login_source **)node;
	source = calloc(1, sizeof(*source));
	if (!source)
		return NULL;
	memcpy(source->name, wanted.name, sizeof(source->name));
	source->logins = logins;
	TAILQ_INIT(&source->sessions);
	if (!tsearch(source, &logins->tree, by_name)) {
		free(source);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&logins->ready, source, entry);
	return source;
}

static void source_free(struct login_source *source)
{
	tdelete(source, &source->logins->tree, by_name);
	free(source);
}

/* The source was in no list: its next password is checked in its turn, if there is one. */
static void source_go_on(struct login_source *source)
{
	if (TAILQ_EMPTY(&source->sessions)) {
		source_free(source);
		return;
	}
	source->state = SOURCE_READY;
	TAILQ_INSERT_TAIL(&source->logins->ready, source, entry);
}

void logins_answer(struct session *session, const char *line)
{
	snprintf(session->login->line, sizeof(session->login->line), "%s", line);
	session_note_send(session, &session->client.worker->mailbox, NOTE_SESSION_ANSWER);
}

static void session_leave(struct session *session)
{
	struct login_source *source = session->source;

	TAILQ_REMOVE(&source->sessions, session, login->source_entry);
	session->source = NULL;
	if (source->first == session)
		source->first = NULL;
}

/* Begins the check of the source's first session. False: it can't be checked, and was answered. */
static bool source_check(struct login_source *source, const struct users *users)
{
	struct session *session = TAILQ_FIRST(&source->sessions);
	const struct user *user = user_asked(users, session);
	struct logins *logins = source->logins;

	if (!user && users)
		user = users->with_password;
	if (user && !password_job_begin(&logins->job, session->login->password, user->password)) {
		source->state = SOURCE_CHECKS;
		source->first = session;
		logins->checks = source;
		return true;
	}
	session_leave(session);
	logins_answer(session, user ? "SERVER_ERROR out of memory" : FAILURE);
	return false;
}

/* Begins the next check, if none runs. */
static void logins_run(struct logins *logins, const struct users *users)
{
	struct login_source *source;

	while (!logins->job.runs && (source = TAILQ_FIRST(&logins->ready))) {
		TAILQ_REMOVE(&logins->ready, source, entry);
		if (!source_check(source, users))
			source_go_on(source);
	}
}

void logins_ask(struct logins *logins, const struct users *users, struct session *session)
{
	struct login_source *source;

	if (session->is_cut) {
		logins_answer(session, FAILURE);
		return;
	}
	source = source_find(logins, users, session);
	if (!source) {
		logins_answer(session, "SERVER_ERROR out of memory");
		return;
	}
	session->source = source;
	TAILQ_INSERT_TAIL(&source->sessions, session, login->source_entry);
	logins_run(logins, users);
}

/* The session's user, if its password was right. */
static const struct user *user_matched(const struct password_job *job, const struct users *users,
				       const struct session *session)
{
	const struct user *user = user_asked(users, session);
	bool matched = user && password_job_matched(job) &&
		       !strcmp(user->password, password_job_hash(job));

	return matched ? user : NULL;
}

/* A client may have sent its password for its user's name: an unknown one is not written down. */
static void wrong_log(struct logins *logins, const struct users *users,
		      const struct session *session)
{
	const struct user *user = user_asked(users, session);
	char why[sizeof("wrong password of user ") + USER_NAME_MAX];

	logins->wrong++;
	log_ratelimited(LOG_WARN, 10,
			"memcached: connection of %s: wrong password of %s%s (%" PRIu64
			" wrong ones of all clients so far)",
			session->client.peer.address, user ? "user " : "an unknown user",
			user ? user->name : "", logins->wrong);
	snprintf(why, sizeof(why), "wrong password of %s%s", user ? "user " : "an unknown user",
		 user ? user->name : "");
	audit_login_failed(&session->client, why);
}

static void source_hold(struct login_source *source)
{
	source->state = SOURCE_HELD;
	source->until_ns = clock_ns() + LOGIN_DELAY_NS;
	TAILQ_INSERT_TAIL(&source->logins->held, source, entry);
}

struct session *logins_checked(struct logins *logins, const struct users *users,
			       const struct user **user)
{
	struct login_source *source = logins->checks;
	struct session *session = source->first;

	logins->job.runs = false;
	logins->checks = NULL;
	*user = user_matched(&logins->job, users, session);
	if (*user) {
		session_leave(session);
		source_go_on(source);
	} else {
		wrong_log(logins, users, session);
		source_hold(source);
		if (session->is_cut)
			logins_forget(session);
	}
	logins_run(logins, users);
	return *user ? session : NULL;
}

void logins_expire(struct logins *logins, const struct users *users, uint64_t now_ns)
{
	struct login_source *source;
	struct session *session;

	while ((source = TAILQ_FIRST(&logins->held)) && source->until_ns <= now_ns) {
		TAILQ_REMOVE(&logins->held, source, entry);
		session = source->first;
		if (session) {
			session_leave(session);
			logins_answer(session, FAILURE);
		}
		source_go_on(source);
	}
	logins_run(logins, users);
}

int logins_wait_ms(const struct logins *logins, int wait_ms)
{
	const struct login_source *source = TAILQ_FIRST(&logins->held);
	uint64_t now_ns, due_ms = 0;

	if (!source)
		return wait_ms;
	now_ns = clock_ns();
	if (source->until_ns > now_ns)
		due_ms = (source->until_ns - now_ns) / NS_PER_MS + 1;
	return due_ms < (uint64_t)wait_ms ? (int)due_ms : wait_ms;
}

void logins_forget(struct session *session)
{
	struct login_source *source = session->source;

	if (!source || (source->state == SOURCE_CHECKS && source->first == session))
		return;
	session_leave(session);
	logins_answer(session, FAILURE);
	/* One that is held stays so: a client can't end its delay. */
	if (source->state == SOURCE_READY && TAILQ_EMPTY(&source->sessions)) {
		TAILQ_REMOVE(&source->logins->ready, source, entry);
		source_free(source);
	}
}

void logins_stop(struct logins *logins)
{
	password_job_stop(&logins->job);
}

void logins_release(struct logins *logins)
{
	while (logins->tree) {
		struct login_source *source = *(struct login_source **)logins->tree;

		source_free(source);
	}
	password_job_release(&logins->job);
}
