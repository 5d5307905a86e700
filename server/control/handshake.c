/* SPDX-License-Identifier: MIT */
#include "server/control/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/thread.h"
#include "server/control/nic_address.h"

#define NS_PER_MS 1000000u
#define SCHEME "memcached+tls://"

static bool has_urls(const struct config *config)
{
	return listen_list_kinds(config->server.listen) & LISTEN_MEMCACHED_TLS;
}

static int files_error(int err, const char *why)
{
	log_error("server.listen: " SCHEME " can't use the files of [tls]: %s", why);
	return err;
}

/* *@context is NULL if there are no such URLs. */
static int context_make(struct tls_context **context, const struct config *config)
{
	const struct tls_files files = nic_address_tls(config);
	char why[TLS_WHY_MAX] = "no memory";
	int err;

	*context = NULL;
	if (!has_urls(config))
		return 0;
	if (!*files.certificate && !*files.key && !*files.psk)
		return files_error(-EINVAL, "none is set: set tls.certificate and tls.key, and "
					    "tls.ca, or set tls.psk, or remove the URL");
	err = tls_context_make(context, &files, NULL, why);
	return err ? files_error(err, why) : 0;
}

int handshakes_check(const struct config *config)
{
	struct tls_context *context;
	int err = context_make(&context, config);

	tls_context_put(context);
	return err;
}

int handshakes_open(struct handshakes *handshakes, const struct config *config)
{
	int err = context_make(&handshakes->context, config);

	if (err || !handshakes->context)
		return err;
	handshakes->epoll_fd = handshakes->stop_fd = handshakes->spare_fd = -1;
	handshakes->note.kind = NOTE_HANDSHAKES;
	handshakes->timeout_ns = config->server.handshake_timeout;
	handshakes->max = config->server.max_connections;
	if (handshakes->max > HANDSHAKES_MAX)
		handshakes->max = HANDSHAKES_MAX;
	setups_init(&handshakes->setups);
	STAILQ_INIT(&handshakes->ended);
	pthread_mutex_init(&handshakes->lock, NULL);
	pthread_cond_init(&handshakes->taken, NULL);
	handshakes->opened = true;
	return 0;
}

static void fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

void handshakes_close(struct handshakes *handshakes)
{
	if (!handshakes->opened)
		return;
	handshakes->opened = false;
	tls_context_put(handshakes->context);
	pthread_cond_destroy(&handshakes->taken);
	pthread_mutex_destroy(&handshakes->lock);
	fd_close(handshakes->epoll_fd);
	fd_close(handshakes->stop_fd);
	fd_close(handshakes->spare_fd);
}

struct tls *handshake_take_stream(struct handshake *handshake, int *fd)
{
	struct tls *tls = handshake->tls;

	*fd = handshake->setup.fd;
	handshake->tls = NULL;
	handshake->setup.fd = -1;
	return tls;
}

void handshake_free(struct handshake *handshake)
{
	tls_end(handshake->tls);
	fd_close(handshake->setup.fd);
	free(handshake);
}

static struct handshake *handshake_of(struct setup *setup)
{
	return (struct handshake *)((char *)setup - offsetof(struct handshake, setup));
}

/* Gives it to the control thread. */
static void handshake_end(struct handshakes *handshakes, struct handshake *handshake, int err)
{
	handshake->err = err;
	setups_remove(&handshakes->setups, &handshake->setup);
	(void)epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_DEL, handshake->setup.fd, NULL);
	pthread_mutex_lock(&handshakes->lock);
	while (handshakes->ended_count == HANDSHAKES_ENDED_MAX && !handshakes->stops)
		pthread_cond_wait(&handshakes->taken, &handshakes->lock);
	STAILQ_INSERT_TAIL(&handshakes->ended, handshake, entry);
	handshakes->ended_count++;
	if (!handshakes->told)
		mailbox_send(handshakes->control, &handshakes->note);
	handshakes->told = true;
	pthread_mutex_unlock(&handshakes->lock);
}

static void handshake_fail(struct handshakes *handshakes, struct handshake *handshake, int err,
			   const char *why)
{
	/* One that lingers has been refused for another reason. */
	if (handshake->lingers)
		err = -EKEYREJECTED;
	else
		snprintf(handshake->why, sizeof(handshake->why), "%s", why);
	handshake_end(handshakes, handshake, err);
}

static int handshake_watch(struct handshakes *handshakes, struct handshake *handshake,
			   uint32_t events, int op)
{
	struct epoll_event event = { .events = events, .data.ptr = handshake };

	return epoll_ctl(handshakes->epoll_fd, op, handshake->setup.fd, &event) ? -errno : 0;
}

/*
 * TLS refused the client, and told it why. Data that the client sent meanwhile must be read before
 * the socket is closed: else TCP would reset the connection, and the client might never see the
 * reason.
 */
static void handshake_linger(struct handshakes *handshakes, struct handshake *handshake)
{
	snprintf(handshake->why, sizeof(handshake->why), "%s", tls_why(handshake->tls));
	handshake->lingers = true;
	if (shutdown(handshake->setup.fd, SHUT_WR) ||
	    handshake_watch(handshakes, handshake, EPOLLIN, EPOLL_CTL_MOD))
		handshake_end(handshakes, handshake, -EKEYREJECTED);
}

static void lingering_read(struct handshakes *handshakes, struct handshake *handshake)
{
	uint8_t ignored[4096];
	ssize_t got = recv(handshake->setup.fd, ignored, sizeof(ignored), 0);

	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	handshake_end(handshakes, handshake, -EKEYREJECTED);
}

static int stream_start(struct handshakes *handshakes, struct handshake *handshake)
{
	struct tls_context *context;
	int err;

	pthread_mutex_lock(&handshakes->lock);
	context = handshakes->context;
	tls_context_hold(context);
	pthread_mutex_unlock(&handshakes->lock);
	err = tls_start(&handshake->tls, context, handshake->setup.fd);
	tls_context_put(context);
	return err;
}

/* Goes on with the handshake: as tls_handshake(). */
static int handshake_continue(struct handshakes *handshakes, struct handshake *handshake)
{
	uint32_t events = EPOLLIN;
	int err = handshake->tls ? 0 : stream_start(handshakes, handshake);

	if (!err)
		err = tls_handshake(handshake->tls, &events);
	if (err == -EAGAIN && handshake_watch(handshakes, handshake, events, EPOLL_CTL_MOD))
		return -ENOMEM;
	return err;
}

static void handshake_step(struct handshakes *handshakes, struct handshake *handshake)
{
	int err;

	handshake->setup.heard = true;
	if (handshake->lingers) {
		lingering_read(handshakes, handshake);
		return;
	}
	err = handshake_continue(handshakes, handshake);
	if (err == -EAGAIN)
		return;
	if (err == -EKEYREJECTED) {
		handshake_linger(handshakes, handshake);
	} else if (err) {
		handshake_fail(handshakes, handshake, err, strerror(-err));
	} else {
		handshake->peer.identity = tls_identity(handshake->tls);
		handshake_end(handshakes, handshake, 0);
	}
}

/* 0, or a negative errno, and the socket is the caller's. */
static int handshake_make(struct handshakes *handshakes, const struct listener *listener, int fd,
			  const struct cm_peer *peer)
{
	struct handshake *handshake = calloc(1, sizeof(*handshake));
	uint64_t now_ns = clock_ns();
	int err;

	if (!handshake)
		return -ENOMEM;
	handshake->source = HANDSHAKE_CLIENT;
	handshake->listener = listener;
	handshake->peer = *peer;
	handshake->setup.fd = fd;
	ip_address_parse(&handshake->setup.host, peer->address);
	ip_address_to_host(&handshake->setup.host);
	err = handshake_watch(handshakes, handshake, EPOLLIN, EPOLL_CTL_ADD);
	if (err) {
		free(handshake);
		return err;
	}
	if (handshakes->setups.count == handshakes->max)
		handshake_fail(handshakes,
			       handshake_of(setups_to_drop(&handshakes->setups, now_ns)), -EBUSY,
			       "too many are being set up");
	setups_add(&handshakes->setups, &handshake->setup, now_ns, handshakes->timeout_ns);
	handshake->peer.since_ns = handshake->setup.since_ns;
	return 0;
}

/* Takes one connection: the handshakes that are under way have their turns as well. */
static void listener_take(struct handshakes *handshakes, const struct listener *listener)
{
	struct cm_peer peer;
	int fd, err = listener_accept(listener, &fd, &peer);

	if (err == -EAGAIN)
		return;
	if (!err) {
		err = handshake_make(handshakes, listener, fd, &peer);
		if (err)
			close(fd);
	}
	if (err == -EMFILE || err == -ENFILE)
		listener_refuse(listener, &handshakes->spare_fd);
	else if (err)
		log_ratelimited(LOG_INFO, 10, "memcached: accept: %s", strerror(-err));
}

/* Until the first deadline; -1: there is none. */
static int wait_ms(const struct handshakes *handshakes)
{
	uint64_t at_ns = setups_deadline(&handshakes->setups), now_ns = clock_ns();

	if (!at_ns)
		return -1;
	return at_ns <= now_ns ? 0 : (int)((at_ns - now_ns) / NS_PER_MS) + 1;
}

static void expire(struct handshakes *handshakes)
{
	struct setup *setup;

	while ((setup = setups_expired(&handshakes->setups, clock_ns())))
		handshake_fail(handshakes, handshake_of(setup), -ETIMEDOUT,
			       "its TLS handshake took longer than server.handshake_timeout");
}

static void *handshakes_run(void *arg)
{
	struct handshakes *handshakes = arg;
	struct epoll_event event;
	enum handshake_source *source;
	int n;

	for (;;) {
		/* One at a time: epoll(7) goes round, so each has its turn. */
		n = epoll_wait(handshakes->epoll_fd, &event, 1, wait_ms(handshakes));
		source = n == 1 ? event.data.ptr : NULL;
		if (source && *source == HANDSHAKE_STOP)
			break;
		if (source && *source == HANDSHAKE_LISTENER)
			listener_take(handshakes, ((struct handshake_listener *)source)->listener);
		else if (source)
			handshake_step(handshakes, (struct handshake *)source);
		expire(handshakes);
	}
	return NULL;
}

static int source_add(struct handshakes *handshakes, int fd, enum handshake_source *source)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

	return epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int sources_add(struct handshakes *handshakes, const struct listeners *listeners)
{
	struct handshake_listener *own = handshakes->listeners;
	int err;

	handshakes->stop_source = HANDSHAKE_STOP;
	err = source_add(handshakes, handshakes->stop_fd, &handshakes->stop_source);
	for (unsigned int i = 0; !err && i < listeners->count; i++) {
		if (!listener_is_tls(&listeners->list[i]))
			continue;
		own->source = HANDSHAKE_LISTENER;
		own->listener = &listeners->list[i];
		err = source_add(handshakes, own->listener->fd, &own->source);
		own++;
	}
	return err;
}

static int handshakes_thread_start(struct handshakes *handshakes, const struct listeners *listeners)
{
	int err;

	handshakes->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	handshakes->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	handshakes->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (handshakes->epoll_fd < 0 || handshakes->stop_fd < 0 || handshakes->spare_fd < 0)
		return -errno;
	err = sources_add(handshakes, listeners);
	return err ? err :
		     thread_start(&handshakes->thread, "handshakes", handshakes_run, handshakes);
}

int handshakes_start(struct handshakes *handshakes, const struct listeners *listeners,
		     struct mailbox *control)
{
	int err;

	if (!handshakes->opened)
		return 0;
	handshakes->control = control;
	err = handshakes_thread_start(handshakes, listeners);
	if (err) {
		log_error(SCHEME ": can't start the thread of TLS handshakes: %s: %s",
			  strerror(-err), err == -EMFILE ? ADVICE_OPEN_FILES : ADVICE_THREADS);
		return err;
	}
	handshakes->started = true;
	return 0;
}

static void thread_stop(struct handshakes *handshakes)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&handshakes->lock);
	handshakes->stops = true;
	pthread_cond_signal(&handshakes->taken);
	pthread_mutex_unlock(&handshakes->lock);
	/* A write to an eventfd fails only when its count is at its end. */
	if (write(handshakes->stop_fd, &one, sizeof(one)) != sizeof(one))
		log_error("can't stop the thread of TLS handshakes: %m");
	pthread_join(handshakes->thread, NULL);
	handshakes->started = false;
}

void handshakes_stop(struct handshakes *handshakes)
{
	struct handshake_list ended;
	struct handshake *handshake;
	struct setup *setup;

	if (!handshakes->started)
		return;
	thread_stop(handshakes);
	while ((setup = TAILQ_FIRST(&handshakes->setups.list))) {
		setups_remove(&handshakes->setups, setup);
		handshake_free(handshake_of(setup));
	}
	handshakes_take(handshakes, &ended);
	while ((handshake = STAILQ_FIRST(&ended))) {
		STAILQ_REMOVE_HEAD(&ended, entry);
		handshake_free(handshake);
	}
}

void handshakes_take(struct handshakes *handshakes, struct handshake_list *ended)
{
	STAILQ_INIT(ended);
	pthread_mutex_lock(&handshakes->lock);
	STAILQ_CONCAT(ended, &handshakes->ended);
	handshakes->ended_count = 0;
	handshakes->told = false;
	pthread_cond_signal(&handshakes->taken);
	pthread_mutex_unlock(&handshakes->lock);
}

void handshakes_renew(struct handshakes *handshakes, const struct config *config)
{
	const struct tls_files files = nic_address_tls(config);
	char why[TLS_WHY_MAX] = "no memory";
	struct tls_context *fresh, *old = handshakes->context;

	if (!handshakes->opened)
		return;
	/* Only this thread changes the context. */
	if (tls_context_renew(&fresh, old, &files, why)) {
		log_error(SCHEME ": [tls] stays as it was: %s", why);
		return;
	}
	if (fresh) {
		pthread_mutex_lock(&handshakes->lock);
		handshakes->context = fresh;
		pthread_mutex_unlock(&handshakes->lock);
		tls_context_put(old);
	}
	log_notice(SCHEME ": the files of [tls] were read again");
}
