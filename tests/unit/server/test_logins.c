/* SPDX-License-Identifier: MIT */
/*
 * Unit tests of server/control/logins.c: which password is checked next, who waits for whom, and
 * what sessions are answered that end, or whose users change, meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "server/control/logins.h"
#include "server/memcached/login.h"
#include "server/users/users.h"
#include "tests/support/log_fixture.h"

#define HASH_OF(c)                                                                                 \
	"$6$" c "$pyABpBcCEaxIsotjNwuBApVKg5hyCCzIYsPO2V2LZ9FqcUmQFrG7BpmrLRMg5pv43WooQmYoiDpfi8"  \
	"NoPo5K30"
#define USER_OF(name, c) "[user " name "]\nrights = read\npassword = " HASH_OF(c) "\n"
#define STORED "STORED"

static uint64_t test_now;
static struct logins test_logins;
static struct users *test_users;
static struct worker worker;
static int begin_error;
/* What is being checked. */
static char checked[64], checked_hash[160];

static uint64_t fake_clock(void)
{
	return test_now;
}

static int fake_begin(struct password_job *job, const char *given, const char *of)
{
	assert_false(job->runs);
	if (begin_error)
		return begin_error;
	job->runs = true;
	snprintf(checked, sizeof(checked), "%s", given);
	snprintf(checked_hash, sizeof(checked_hash), "%s", of);
	return 0;
}

/* The password of each user is "right". */
static bool fake_matched(const struct password_job *job)
{
	(void)job;
	return !strcmp(checked, "right");
}

static const char *fake_hash(const struct password_job *job)
{
	(void)job;
	return checked_hash;
}

#define clock_ns fake_clock
#define password_job_begin fake_begin
#define password_job_matched fake_matched
#define password_job_hash fake_hash
#include "server/control/logins.c"

static struct users *users_of(const char *text)
{
	char why[USERS_WHY_MAX] = "";
	struct users *users = NULL;

	if (users_parse(&users, text, strlen(text), NULL, why))
		fail_msg("%s", why);
	return users;
}

static int setup(void **state)
{
	(void)state;
	test_now = 1000 * LOGIN_DELAY_NS;
	begin_error = 0;
	assert_int_equal(mailbox_init(&worker.mailbox), 0);
	assert_int_equal(logins_init(&test_logins, &worker.mailbox), 0);
	test_users = users_of("[user z]\nuid = 1\nrights = read\n" USER_OF("a", "a")
				      USER_OF("b", "b"));
	return test_log_begin();
}

/* No source is left. */
static int teardown(void **state)
{
	(void)state;
	assert_null(test_logins.tree);
	assert_false(test_logins.job.runs);
	assert_null(mailbox_take(&worker.mailbox));
	users_put(test_users);
	logins_release(&test_logins);
	mailbox_release(&worker.mailbox);
	log_init(LOG_OFF, NULL);
	return 0;
}

static void asks(struct session *session, const char *address, const char *user, const char *gives)
{
	*session = (struct session){ .client.worker = &worker };
	session->note.session = session;
	session->login = calloc(1, sizeof(*session->login));
	snprintf(session->client.peer.address, sizeof(session->client.peer.address), "%s:1",
		 address);
	snprintf(session->login->user, sizeof(session->login->user), "%s", user);
	snprintf(session->login->password, sizeof(session->login->password), "%s", gives);
	logins_ask(&test_logins, test_users, session);
}

/* The session has its answer, and no other has one. */
static void assert_answer(struct session *session, const char *line)
{
	struct note *note = mailbox_take(&worker.mailbox);

	assert_non_null(note);
	assert_null(note->next);
	assert_ptr_equal(note, &session->note);
	assert_string_equal(session->login->line, line);
	free(session->login);
	session->login = NULL;
}

static void assert_no_answer(void)
{
	assert_null(mailbox_take(&worker.mailbox));
}

static void assert_checks(const char *gives, const char *of)
{
	assert_true(test_logins.job.runs);
	assert_string_equal(checked, gives);
	assert_string_equal(checked_hash, of);
}

/* The check has ended: as the caller of logins_checked() does. */
static void check_ends(void)
{
	const struct user *user;
	struct session *session = logins_checked(&test_logins, test_users, &user);

	if (!session)
		return;
	assert_null(session->source);
	assert_string_equal(session->login->user, user->name);
	logins_answer(session, session->is_cut ? "" : STORED);
}

static void delay_passes(void)
{
	test_now += LOGIN_DELAY_NS;
	logins_expire(&test_logins, test_users, test_now);
}

static void right_and_wrong(void **state)
{
	struct session session;

	(void)state;
	asks(&session, "10.9.0.1", "a", "right");
	assert_checks("right", HASH_OF("a"));
	assert_no_answer();
	check_ends();
	assert_answer(&session, STORED);
	assert_int_equal(logins_wait_ms(&test_logins, 5000), 5000);

	asks(&session, "10.9.0.1", "a", "wrong");
	check_ends();
	assert_no_answer();
	assert_int_equal(logins_wait_ms(&test_logins, 5000), 1001);
	assert_int_equal(logins_wait_ms(&test_logins, 10), 10);
	test_now += LOGIN_DELAY_NS - 1;
	logins_expire(&test_logins, test_users, test_now);
	assert_no_answer();
	test_now++;
	assert_int_equal(logins_wait_ms(&test_logins, 5000), 0);
	logins_expire(&test_logins, test_users, test_now);
	assert_answer(&session, FAILURE);
	assert_logged("memcached: connection of 10.9.0.1:1: wrong password of user a (1 wrong");
}

/* Also one that is recognised by its uid alone. */
static void unknown_users(void **state)
{
	struct session session[3];

	(void)state;
	asks(&session[0], "10.9.0.1", "nobody", "right");
	asks(&session[1], "10.9.0.1", "z", "right");
	asks(&session[2], "10.9.0.1", "", "right");
	for (int i = 0; i < 3; i++) {
		assert_checks("right", HASH_OF("a"));
		check_ends();
		assert_no_answer();
		assert_false(test_logins.job.runs);
		delay_passes();
		assert_answer(&session[i], FAILURE);
	}
	assert_logged("wrong password of an unknown user (1 wrong");
	assert_null(strstr(test_log_text(), "nobody"));
}

/* LOGINS-1 and LOGINS-2. */
static void sources_take_turns(void **state)
{
	struct session a[3], b, far;

	(void)state;
	for (int i = 0; i < 3; i++)
		asks(&a[i], "10.9.0.1", "a", i == 2 ? "right" : "wrong");
	asks(&b, "10.9.0.1", "b", "right");
	asks(&far, "10.9.0.2", "a", "right");
	assert_checks("wrong", HASH_OF("a"));
	check_ends();
	assert_checks("right", HASH_OF("b"));
	check_ends();
	assert_answer(&b, STORED);
	assert_checks("right", HASH_OF("a"));
	check_ends();
	assert_answer(&far, STORED);
	/* The source is held. */
	assert_false(test_logins.job.runs);
	delay_passes();
	assert_answer(&a[0], FAILURE);
	assert_checks("wrong", HASH_OF("a"));
	check_ends();
	assert_false(test_logins.job.runs);
	delay_passes();
	assert_answer(&a[1], FAILURE);
	check_ends();
	assert_answer(&a[2], STORED);
}

/* Two right ones of a source: another source is between them. */
static void one_at_a_time(void **state)
{
	struct session first, second, other;

	(void)state;
	asks(&first, "10.9.0.1", "a", "right");
	asks(&second, "10.9.0.1", "a", "right");
	asks(&other, "fd00::1", "b", "right");
	check_ends();
	assert_answer(&first, STORED);
	assert_checks("right", HASH_OF("b"));
	check_ends();
	assert_answer(&other, STORED);
	check_ends();
	assert_answer(&second, STORED);
}

/* A host chooses the last 64 bits of its address itself. */
static void networks_of_hosts(void **state)
{
	struct session first, second;

	(void)state;
	asks(&first, "[fd00::1]", "a", "wrong");
	asks(&second, "[fd00::2]", "a", "right");
	check_ends();
	assert_false(test_logins.job.runs);
	delay_passes();
	assert_answer(&first, FAILURE);
	check_ends();
	assert_answer(&second, STORED);
}

static void cut(struct session *session)
{
	session->is_cut = true;
	logins_forget(session);
}

static void sessions_end(void **state)
{
	struct session check, held, waits, ready;

	(void)state;
	/* One that is being checked is answered afterwards. */
	asks(&check, "10.9.0.1", "a", "right");
	asks(&ready, "10.9.0.1", "b", "right");
	cut(&check);
	assert_no_answer();
	cut(&ready);
	assert_answer(&ready, FAILURE);
	check_ends();
	assert_answer(&check, "");
	assert_null(test_logins.tree);

	asks(&check, "10.9.0.1", "a", "wrong");
	cut(&check);
	check_ends();
	assert_answer(&check, FAILURE);

	/* A session that ends does not end the delay. */
	asks(&waits, "10.9.0.1", "a", "right");
	assert_false(test_logins.job.runs);
	delay_passes();
	assert_checks("right", HASH_OF("a"));
	check_ends();
	assert_answer(&waits, STORED);

	asks(&held, "10.9.0.1", "a", "wrong");
	asks(&waits, "10.9.0.1", "a", "right");
	check_ends();
	cut(&held);
	assert_answer(&held, FAILURE);
	cut(&waits);
	assert_answer(&waits, FAILURE);
	assert_non_null(test_logins.tree);
	delay_passes();

	/* One that has no login is not concerned. */
	cut(&waits);
}

static void users_change(void **state)
{
	struct session session, waits;

	(void)state;
	asks(&session, "10.9.0.1", "a", "right");
	asks(&waits, "10.9.0.1", "a", "right");
	users_put(test_users);
	test_users = users_of(USER_OF("a", "c"));
	check_ends();
	assert_no_answer();
	delay_passes();
	assert_answer(&session, FAILURE);
	assert_checks("right", HASH_OF("c"));
	users_put(test_users);
	test_users = NULL;
	check_ends();
	delay_passes();
	assert_answer(&waits, FAILURE);
	/* Nothing is there to check it against. */
	asks(&session, "10.9.0.1", "a", "right");
	assert_answer(&session, FAILURE);
	test_users = users_of("[user *]\nrights = read\n");
	asks(&session, "10.9.0.1", "*", "right");
	assert_answer(&session, FAILURE);
}

static void fails(void **state)
{
	struct session session;

	(void)state;
	begin_error = -ENOMEM;
	asks(&session, "10.9.0.1", "a", "right");
	assert_answer(&session, "SERVER_ERROR out of memory");
	begin_error = 0;
	/* One that was cut before it asked. */
	session = (struct session){ .client.worker = &worker, .is_cut = true };
	session.note.session = &session;
	session.login = calloc(1, sizeof(*session.login));
	logins_ask(&test_logins, test_users, &session);
	assert_answer(&session, FAILURE);
}

/* Workers have ended, and sessions are freed whatever they wait for. */
static void released_as_it_is(void **state)
{
	struct session sessions[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		asks(&sessions[i], i ? "10.9.0.1" : "10.9.0.2", "a", "right");
	for (int i = 0; i < 3; i++)
		free(sessions[i].login);
	memset(sessions, 0xff, sizeof(sessions));
	logins_release(&test_logins);
	assert_null(test_logins.tree);
	test_logins.job.runs = false;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(right_and_wrong),   T(unknown_users), T(sources_take_turns), T(one_at_a_time),
		T(networks_of_hosts), T(sessions_end),	T(users_change),       T(fails),
		T(released_as_it_is),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
