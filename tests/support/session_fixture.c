/* SPDX-License-Identifier: MIT */
/* Sets up sessions on a worker without a thread, and does what the control thread would. */
#include "tests/support/session_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <urcu-qsbr.h>

#include "common/util/stat.h"
#include "server/config/config.h"
#include "server/memcached/login.h"
#include "server/memcached/marks.h"
#include "server/memcached/sockets.h"
#include "server/worker/budget.h"
#include "tests/support/worker_fixture.h"

#define SWEEP_SHARE 1
#define STATS "STAT pid 1\r\nSTAT version kvd\r\nEND\r\n"

struct test_session test_sessions[TEST_SESSIONS];

static struct worker_env env;
static struct config config;
static struct budget_gates gates[TEST_SESSIONS];
static struct principal principals[TEST_SESSIONS];

static struct maintenance *maintenance_of_store(void)
{
	return &test_store.maintenance;
}

void test_sessions_create(uint64_t region_bytes, uint64_t value_max, uint64_t pull_share,
			  uint64_t output_share)
{
	assert_int_equal(test_worker_create(region_bytes, value_max), 0);
	assert_int_equal(maintenance_init(maintenance_of_store(), &test_store.table,
					  MAINTENANCE_THREAD_ID, SWEEP_SHARE, NULL),
			 0);
	budget_init(&test_tenant.pull_budget, pull_share);
	budget_init(&test_tenant.build_budget, pull_share);
	config = (struct config){ .memcached.output = output_share };
	env = *test_worker.env;
	env.config = &config;
	env.workers = 1;
	env.front = &sockets_front;
	test_worker.env = &env;
	assert_int_equal(mailbox_init(&test_worker.mailbox), 0);
	assert_int_equal(sockets_front.init(&test_worker), 0);
	for (unsigned int i = 0; i < TEST_SESSIONS; i++) {
		test_sessions[i] = (struct test_session){ .fd = -1 };
		budget_gates_init(&gates[i]);
		snprintf(principals[i].name, sizeof(principals[i].name), "uid=%u", i);
	}
}

static void sockets_check(const struct sockets *sockets)
{
	assert_int_equal(sockets->count, 0);
	assert_int_equal(sockets->output_bytes, 0);
	assert_int_equal(sockets->forwards, 0);
	assert_true(TAILQ_EMPTY(&sockets->ready));
	assert_true(TAILQ_EMPTY(&sockets->sessions));
	assert_true(TAILQ_EMPTY(&sockets->outputs));
	assert_true(TAILQ_EMPTY(&sockets->output_waits));
	assert_true(TAILQ_EMPTY(&sockets->puts));
	assert_true(TAILQ_EMPTY(&sockets->forward_waits));
	assert_true(TAILQ_EMPTY(&sockets->flushing));
	assert_int_equal(test_store.table.holds.count, 0);
}

void test_sessions_destroy(void)
{
	for (unsigned int i = 0; i < TEST_SESSIONS; i++) {
		assert_null(test_sessions[i].session);
		test_session_close(i);
		assert_int_equal(gates[i].pulls.passed, 0);
		assert_int_equal(gates[i].builds.passed, 0);
	}
	sockets_check(test_worker.sockets);
	sockets_front.release(&test_worker);
	mailbox_release(&test_worker.mailbox);
	marks_destroy(test_tenant.marks);
	maintenance_release(maintenance_of_store());
	test_worker_destroy();
}

void test_session_open(unsigned int i, uint32_t key_max, bool locked, int send_bytes)
{
	struct session *session = calloc(1, sizeof(*session));
	int fds[2];

	assert_non_null(session);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	if (send_bytes)
		assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &send_bytes,
					    sizeof(send_bytes)),
				 0);
	session->fd = fds[0];
	session->locked = locked;
	session->parser.key_max = key_max;
	session->note.session = session;
	session->client = (struct client){
		.worker = &test_worker,
		.part = &test_worker.part,
		.principal = &principals[i],
		.gates = &gates[i],
		.kind = LISTEN_MEMCACHED,
	};
	test_sessions[i] = (struct test_session){ .session = session, .fd = fds[1] };
	session_note_send(session, &test_worker.mailbox, NOTE_SESSION);
}

void test_session_close(unsigned int i)
{
	if (test_sessions[i].fd >= 0)
		close(test_sessions[i].fd);
	test_sessions[i].fd = -1;
}

void test_session_cut(unsigned int i)
{
	struct session *session = test_sessions[i].session;

	if (!session || session->is_cut)
		return;
	session->is_cut = true;
	shutdown(session->fd, SHUT_RDWR);
}

/* The session has ended: all that it had was given back by its worker. */
static void session_free(struct test_session *test)
{
	struct session *session = test->session;

	assert_false(test->asked);
	assert_null(session->input);
	assert_null(session->output);
	assert_int_equal(session->output_bytes, 0);
	assert_false(session->output_waits);
	assert_null(session->work);
	assert_null(session->get);
	assert_null(session->put);
	assert_null(session->login);
	assert_null(session->query);
	assert_int_equal(session->in, SESSION_IN_NONE);
	close(session->fd);
	free(session);
	test->session = NULL;
}

static struct test_session *test_session_of(const struct session *session)
{
	for (unsigned int i = 0; i < TEST_SESSIONS; i++)
		if (test_sessions[i].session == session)
			return &test_sessions[i];
	fail();
	return NULL;
}

static void control_read_mail(void)
{
	struct note *note = mailbox_take(env.control), *next;
	struct test_session *test;

	for (; note; note = next) {
		next = note->next;
		test = test_session_of(note->session);
		if (note->kind == NOTE_SESSION_ENDED) {
			session_free(test);
			continue;
		}
		assert_int_equal(note->kind, NOTE_SESSION_ASKS);
		assert_false(test->asked);
		test->asked = true;
	}
}

static bool worker_read_mail(void)
{
	struct note *note, *next;

	if (!mailbox_pending(&test_worker.mailbox))
		return false;
	for (note = mailbox_take(&test_worker.mailbox); note; note = next) {
		next = note->next;
		sockets_front.note(&test_worker, note);
	}
	return true;
}

bool test_sessions_turn(void)
{
	bool mail = worker_read_mail(), ran = sockets_front.run(&test_worker);

	rcu_quiescent_state();
	store_thread_clock(&test_worker.part.thread);
	turn_end(&test_worker.turn, &test_worker.turns, test_worker.part.thread.now_ns);
	control_read_mail();
	return mail || ran;
}

void test_sessions_rest(unsigned int turns_max)
{
	unsigned int n = 0;

	while (test_sessions_turn())
		assert_true(++n < turns_max);
	/* As a worker that has nothing to do. */
	store_thread_idle(&test_worker.part.thread);
}

static void login_answer(struct session *session)
{
	struct login *login = session->login;

	session->locked = strcmp(login->password, "right") != 0;
	snprintf(login->line, sizeof(login->line), "%s",
		 session->locked ? "CLIENT_ERROR authentication failure" : "STORED");
}

void test_sessions_answer(void)
{
	struct session *session;

	for (unsigned int i = 0; i < TEST_SESSIONS; i++) {
		if (!test_sessions[i].asked)
			continue;
		test_sessions[i].asked = false;
		session = test_sessions[i].session;
		if (session->login) {
			login_answer(session);
		} else {
			session->query->text = strdup(STATS);
			session->query->len = strlen(STATS);
		}
		session_note_send(session, &test_worker.mailbox, NOTE_SESSION_ANSWER);
	}
}

bool test_sessions_flushing(void)
{
	return !TAILQ_EMPTY(&test_worker.sockets->flushing);
}

void test_sessions_flush(void)
{
	const struct session *session;

	assert_int_equal(maintenance_start(maintenance_of_store()), 0);
	TAILQ_FOREACH(session, &test_worker.sockets->flushing, ready_entry)
		while (!maintenance_flushed(maintenance_of_store(), session->flush_ticket)) {
			rcu_quiescent_state();
			sched_yield();
		}
	/* The thread may be waiting for a grace period. */
	rcu_thread_offline();
	maintenance_stop(maintenance_of_store());
	rcu_thread_online();
}
