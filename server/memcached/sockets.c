/* SPDX-License-Identifier: MIT */
#include "server/memcached/sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/config/config.h"
#include "server/memcached/action.h"
#include "server/memcached/forward.h"
#include "server/memcached/large_put.h"
#include "server/memcached/output.h"
#include "server/memcached/serve.h"
#include "server/memcached/stream.h"

/* Events taken at a time. */
#define EVENTS_MAX 32
/* Turns that only go on with what is ready, before the sockets are asked again. */
#define TURNS_UNASKED 4
#define FLUSH_LOOK_MS 1
#define IDLE_LOOK_MS 1000
#define PUTS_LOOK_MS 500
#define NS_PER_MS 1000000ull

/* Takes the session out of the list of those that are ready, or that wait for a flush. */
static void session_unlist(struct session *session)
{
	struct sockets *sockets = session->sockets;

	if (session->in == SESSION_IN_READY)
		TAILQ_REMOVE(&sockets->ready, session, ready_entry);
	else if (session->in == SESSION_IN_FLUSHING)
		TAILQ_REMOVE(&sockets->flushing, session, ready_entry);
	session->in = SESSION_IN_NONE;
}

static void session_ready(struct session *session)
{
	if (session->in == SESSION_IN_READY)
		return;
	session_unlist(session);
	session->in = SESSION_IN_READY;
	TAILQ_INSERT_TAIL(&session->sockets->ready, session, ready_entry);
}

static void session_wake(struct client *client)
{
	struct session *session = session_of(client);

	if (!session->waits)
		return;
	session->waits = false;
	session_ready(session);
}

static void events_set(struct session *session, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = session };

	if (session->events == events)
		return;
	session->events = events;
	/* The call can't fail: the descriptor is in the set, and there is nothing to allocate. */
	(void)epoll_ctl(session->sockets->epoll_fd, EPOLL_CTL_MOD, session->fd, &event);
}

/* The session ends: from now on only the control thread knows it. */
static void session_end(struct session *session)
{
	struct sockets *sockets = session->sockets;

	if (session_awaits(session)) {
		/* The notes of the answers come first; until then its socket is not watched. */
		if (!session->hung_up)
			(void)epoll_ctl(sockets->epoll_fd, EPOLL_CTL_DEL, session->fd, NULL);
		session->hung_up = session->shut = session->broken = true;
		session->waits = false;
		session_unlist(session);
		action_cancel(session);
		output_release(session);
		forward_wait_end(session);
		return;
	}
	if (!session->hung_up)
		(void)epoll_ctl(sockets->epoll_fd, EPOLL_CTL_DEL, session->fd, NULL);
	session_unlist(session);
	session_finish(session);
	serve_release(session);
	TAILQ_REMOVE(&sockets->sessions, session, idle_entry);
	sockets->count--;
	/* Before the control thread forgets the client's number. */
	store_thread_clock(&sockets->worker->part.thread);
	trace_turn_end(&sockets->worker->trace, sockets->worker->part.thread.now_ns);
	session_note_send(session, sockets->worker->env->control, NOTE_SESSION_ENDED);
}

static void session_start(struct session *session)
{
	struct sockets *sockets = session->client.worker->sockets;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = session };

	session->sockets = sockets;
	session->client.wake = session_wake;
	session->wipes = session->locked;
	session->events = EPOLLIN;
	client_attach(&session->client);
	store_thread_clock(&sockets->worker->part.thread);
	stat_set(&session->client.active_ns, sockets->worker->part.thread.now_ns);
	TAILQ_INSERT_TAIL(&sockets->sessions, session, idle_entry);
	sockets->count++;
	if (!epoll_ctl(sockets->epoll_fd, EPOLL_CTL_ADD, session->fd, &event))
		return;
	log_ratelimited(LOG_ERROR, 1,
			"can't wait for a client's socket: %m: allow more watches "
			"(/proc/sys/fs/epoll/max_user_watches)");
	session->hung_up = true;
	session_end(session);
}

/* An answer of another thread has come. */
static void session_answered(struct session *session)
{
	if (session->hung_up && !session_awaits(session))
		session_end(session);
	else if (!session->hung_up && !session->clogged)
		session_ready(session);
}

static void sockets_note(struct worker *worker, struct note *note)
{
	(void)worker;
	if (note->kind == NOTE_SESSION) {
		session_start(note->session);
	} else if (note->kind == NOTE_FORWARDED) {
		session_answered(forward_returned(note));
	} else {
		note->session->ask = SESSION_ANSWERED;
		/* A login may have led to another tenant: LOGIN-2. */
		client_attach(&note->session->client);
		session_answered(note->session);
	}
}

/*
 * Whether it ends, although it does not read: it can't send, or control has shut its socket down. A
 * session that waits goes on when its client alone has closed a Unix socket: the commands that the
 * client sent before are executed.
 */
static bool is_gone(const struct session *session, uint32_t events)
{
	if (!(events & (EPOLLHUP | EPOLLERR)) || session->events & EPOLLIN)
		return false;
	return session->events & EPOLLOUT || session->is_cut;
}

static void sockets_ask(struct sockets *sockets)
{
	struct epoll_event events[EVENTS_MAX];
	int i, n = epoll_wait(sockets->epoll_fd, events, EVENTS_MAX, 0);
	struct session *session;

	for (i = 0; i < n; i++) {
		session = events[i].data.ptr;
		if (!session)
			continue; /* the mailbox: its flag says so, too */
		if (is_gone(session, events[i].events))
			session_end(session);
		else if (events[i].events & session->events)
			session_ready(session);
	}
}

static uint64_t idle_timeout(const struct sockets *sockets)
{
	return stat_read(&sockets->worker->env->config->memcached.idle_timeout);
}

/* The session was active last. */
static void session_used(struct sockets *sockets, struct session *session)
{
	TAILQ_REMOVE(&sockets->sessions, session, idle_entry);
	TAILQ_INSERT_TAIL(&sockets->sessions, session, idle_entry);
}

static void session_turn(struct session *session, uint64_t until_ns, unsigned int *commands)
{
	const uint64_t active_ns = session->client.active_ns;
	struct sockets *sockets = session->sockets;
	enum serve_next next;

	session_unlist(session);
	rcu_read_lock();
	next = serve(session, until_ns, commands);
	if (session->client.active_ns != active_ns)
		session_used(sockets, session);
	switch (next) {
	case SERVE_SOCKET:
		/* The session asks again when the socket takes output. */
		forward_wait_end(session);
		events_set(session, session->clogged ? EPOLLOUT : EPOLLIN);
		break;
	case SERVE_AGAIN:
		session_ready(session);
		break;
	case SERVE_WAIT:
		/* A hang-up is always reported: by its edge, so that it does not wake us again. */
		events_set(session, EPOLLET);
		if (session->flush_ticket) {
			session->in = SESSION_IN_FLUSHING;
			TAILQ_INSERT_TAIL(&sockets->flushing, session, ready_entry);
		}
		break;
	case SERVE_END:
		session_end(session);
		break;
	}
	rcu_read_unlock();
}

/* Looks whether flushes that sessions wait for have ended. */
static void flushes_look(struct sockets *sockets)
{
	struct session *session, *next;
	uint64_t now;

	if (TAILQ_EMPTY(&sockets->flushing))
		return;
	now = clock_ns();
	if (now < sockets->flushing_at_ns)
		return;
	sockets->flushing_at_ns = now + FLUSH_LOOK_MS * NS_PER_MS;
	for (session = TAILQ_FIRST(&sockets->flushing); session; session = next) {
		next = TAILQ_NEXT(session, ready_entry);
		session_ready(session);
	}
}

/* Ends the sessions that have sent nothing for memcached.idle_timeout. */
static void idle_look(struct sockets *sockets)
{
	uint64_t now_ns = sockets->worker->part.thread.now_ns, idle_ns = idle_timeout(sockets);
	struct session *session;

	if (!idle_ns || now_ns < sockets->idle_at_ns)
		return;
	sockets->idle_at_ns = now_ns + IDLE_LOOK_MS * NS_PER_MS;
	while ((session = TAILQ_FIRST(&sockets->sessions)) &&
	       session->client.active_ns + idle_ns <= now_ns) {
		if (session_awaits(session)) {
			/* The client waits, too. */
			stat_set(&session->client.active_ns, now_ns);
			session_used(sockets, session);
			continue;
		}
		stat_add(&session_counters(session)->idle_kicks, 1);
		session_end(session);
	}
}

/* Ends the sessions whose data block does not arrive: LARGE-PUT-2. */
static void puts_look(struct sockets *sockets)
{
	struct session *session;
	uint64_t now;

	if (!large_puts_any(sockets))
		return;
	now = clock_ns();
	if (now < sockets->puts_at_ns)
		return;
	sockets->puts_at_ns = now + PUTS_LOOK_MS * NS_PER_MS;
	while ((session = large_puts_expired(sockets, now))) {
		stat_add(&sockets->worker->stats.pulls_stalled, 1);
		log_ratelimited(LOG_WARN, 10,
				"memcached: connection of %s: closed: its data block did not "
				"arrive within server.pull_stall, or server.pull_timeout",
				session->client.peer.address);
		session_end(session);
	}
}

/* Ends the sessions whose output others wait for: SESSION-4. */
static void outputs_look(struct sockets *sockets)
{
	struct session *session;
	uint64_t now;

	if (TAILQ_EMPTY(&sockets->output_waits))
		return;
	now = clock_ns();
	if (now < sockets->outputs_at_ns)
		return;
	sockets->outputs_at_ns = now + PUTS_LOOK_MS * NS_PER_MS;
	while ((session = output_expired(sockets, now))) {
		log_ratelimited(LOG_WARN, 10,
				"memcached: connection of %s: closed: it does not take a value, "
				"for whose memory others wait (memcached.output)",
				session->client.peer.address);
		session_end(session);
	}
}

static bool sockets_run(struct worker *worker)
{
	struct sockets *sockets = worker->sockets;
	struct session *session, *last;
	unsigned int commands = SOCKETS_COMMANDS;
	uint64_t until_ns;

	if (!sockets->count)
		return false;
	if (TAILQ_EMPTY(&sockets->ready) || ++sockets->turns_unasked == TURNS_UNASKED) {
		sockets->turns_unasked = 0;
		sockets_ask(sockets);
	}
	flushes_look(sockets);
	puts_look(sockets);
	outputs_look(sockets);
	idle_look(sockets);
	last = TAILQ_LAST(&sockets->ready, session_list);
	if (!last)
		return false;
	store_thread_clock(&worker->part.thread);
	turn_begin(&worker->turn, worker->part.thread.now_ns);
	until_ns = clock_ns() + PIECE_NS;
	while ((session = TAILQ_FIRST(&sockets->ready)) && commands) {
		session_turn(session, until_ns, &commands);
		if (session == last || clock_ns() >= until_ns)
			break;
	}
	return true;
}

/* How long the worker may sleep, or -1: for ever. */
static int sockets_wait_ms(const struct worker *worker)
{
	const struct sockets *sockets = worker->sockets;

	if (!TAILQ_EMPTY(&sockets->flushing))
		return FLUSH_LOOK_MS;
	if (large_puts_any(sockets) || !TAILQ_EMPTY(&sockets->output_waits))
		return PUTS_LOOK_MS;
	return sockets->count && idle_timeout(sockets) ? IDLE_LOOK_MS : -1;
}

static void sockets_release(struct worker *worker)
{
	struct sockets *sockets = worker->sockets;

	if (!sockets)
		return;
	if (sockets->epoll_fd >= 0)
		close(sockets->epoll_fd);
	free(sockets->input);
	free(sockets->output);
	free(sockets);
	worker->sockets = NULL;
}

static int sockets_set_up(struct sockets *sockets)
{
	struct epoll_event mailbox = { .events = EPOLLIN };

	sockets->input = malloc(SESSION_INPUT_BYTES);
	sockets->output = malloc(SESSION_OUTPUT_BYTES);
	sockets->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!sockets->input || !sockets->output)
		return -ENOMEM;
	if (sockets->epoll_fd < 0)
		return -errno;
	return epoll_ctl(sockets->epoll_fd, EPOLL_CTL_ADD, sockets->worker->mailbox.event_fd,
			 &mailbox) ?
		       -errno :
		       0;
}

static int sockets_init(struct worker *worker)
{
	struct sockets *sockets = calloc(1, sizeof(*sockets));
	int err = -ENOMEM;

	if (sockets) {
		worker->sockets = sockets;
		sockets->worker = worker;
		TAILQ_INIT(&sockets->ready);
		TAILQ_INIT(&sockets->sessions);
		TAILQ_INIT(&sockets->flushing);
		TAILQ_INIT(&sockets->forward_waits);
		TAILQ_INIT(&sockets->puts);
		TAILQ_INIT(&sockets->outputs);
		TAILQ_INIT(&sockets->output_waits);
		err = sockets_set_up(sockets);
	}
	if (err) {
		log_error("worker %u: can't set up its sockets: %s%s", worker->number,
			  strerror(-err), err == -EMFILE ? ": " ADVICE_OPEN_FILES : "");
		sockets_release(worker);
	}
	return err;
}

static int sockets_fd(const struct worker *worker)
{
	return worker->sockets->epoll_fd;
}

const struct front_ops sockets_front = {
	.init = sockets_init,
	.release = sockets_release,
	.fd = sockets_fd,
	.note = sockets_note,
	.run = sockets_run,
	.wait_ms = sockets_wait_ms,
};
