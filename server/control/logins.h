/* SPDX-License-Identifier: MIT */
/*
 * Logins: sessions of memcached's protocol whose client gave a user and a password
 * (server/memcached/login.h), and what the control thread decides of them.
 *
 *   LOGINS-1. A source is an address (for IPv6 its /64) with the name of one user; all names that
 *	 are no user with a password are one. One password of a source is checked at a time, and
 *	 after a wrong one LOGIN_DELAY_NS pass before that is answered and the next one is checked.
 *	 So each source has at most 60 guesses a minute, however many connections it makes, and a
 *	 client with a wrong password holds up only those that name the same user at its address.
 *   LOGINS-2. Sources take turns. One thread checks for all (server/control/password_job.h).
 *   LOGINS-3. The password of an unknown user is checked like any, against the hash of another, so
 *	 the time that one login takes says nothing about which users there are.
 *   LOGINS-4. A login is judged by the users that there are when its check has ended: one whose
 *	 password was changed meanwhile is refused.
 *
 * All functions are for the control thread.
 */
#ifndef KVD_SERVER_CONTROL_LOGINS_H
#define KVD_SERVER_CONTROL_LOGINS_H

#include <stdint.h>
#include <sys/queue.h>

#include "server/control/password_job.h"

/* From a wrong password to its answer. */
#define LOGIN_DELAY_NS 1000000000ull

struct session;
struct user;
struct users;

TAILQ_HEAD(login_sources, login_source);

struct logins {
	struct password_job job;
	void *tree;		     /* of struct login_source, for tsearch(3) */
	struct login_sources ready;  /* the next password of each may be checked */
	struct login_sources held;   /* after a wrong one, in the order of their deadlines */
	struct login_source *checks; /* whose password is being checked; NULL: none's */
	uint64_t wrong;		     /* passwords */
};

/* 0 or a negative errno. */
int logins_init(struct logins *logins, struct mailbox *control);

/* Puts session->login in the queue; @users are those that there are, or NULL. */
void logins_ask(struct logins *logins, const struct users *users, struct session *session);
/*
 * Takes NOTE_PASSWORD_DONE. Returns the session whose password was that of *@user, which the caller
 * answers; or NULL.
 */
struct session *logins_checked(struct logins *logins, const struct users *users,
			       const struct user **user);
/* Answers the session, which has asked, and is not in the queue. */
void logins_answer(struct session *session, const char *line);
/* Answers those whose delay is over at @now_ns, by clock_ns(). */
void logins_expire(struct logins *logins, const struct users *users, uint64_t now_ns);
/* How long the control thread may wait, up to @wait_ms. */
int logins_wait_ms(const struct logins *logins, int wait_ms);
/* The session is being closed: it is answered at once, unless its password is being checked. */
void logins_forget(struct session *session);

/* Ends the thread. */
void logins_stop(struct logins *logins);
/* No session may be left. Accepts zeroed @logins, too. */
void logins_release(struct logins *logins);

#endif /* KVD_SERVER_CONTROL_LOGINS_H */
