/* SPDX-License-Identifier: MIT */
#include "server/control/session_manager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/config/config.h"
#include "server/control/admission.h"
#include "server/control/client_user.h"
#include "server/control/session_stats.h"
#include "server/control/traces.h"
#include "server/memcached/login.h"
#include "server/memcached/serve.h"
#include "server/worker/audit.h"

/* Connections that are taken before other events have their turn. */
#define ACCEPT_AT_ONCE 64

/* A connection that has not become a session yet. */
struct arrival {
	const struct listener *listener;
	int fd;
	struct tls *tls; /* after its handshake; NULL: the listener has none */
	struct cm_peer peer;
};

static void refused(struct net *net, const struct listener *listener, const struct cm_peer *peer,
		    const char *why)
{
	stat_add(&net->stats.connections_rejected, 1);
	log_ratelimited(LOG_WARN, 10, "memcached: connection of %s refused: %.*s", peer->address,
			(int)strcspn(why, "\r"), why);
	audit_refused(listener->addr.kind, peer, why);
}

/* A client that may not connect is told why: a line of the protocol. */
static void refuse(struct net *net, const struct arrival *arrival, const char *line)
{
	size_t len = strlen(line);
	ssize_t n;

	if (arrival->tls) {
		n = tls_send(arrival->tls, line, len);
		tls_finish(arrival->tls);
		tls_end(arrival->tls);
	} else {
		n = send(arrival->fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	/* A client that gets no line still sees its connection end. */
	(void)n;
	close(arrival->fd);
	refused(net, arrival->listener, &arrival->peer, line);
}

static void refuse_error(struct net *net, const struct arrival *arrival, const char *why)
{
	char line[WIRE_REJECT_TEXT_BYTES + 32];

	snprintf(line, sizeof(line), "SERVER_ERROR %s\r\n", why);
	refuse(net, arrival, line);
}

static struct worker *worker_choose(const struct net *net)
{
	unsigned int i, best = 0;

	for (i = 1; i < net->env.workers; i++)
		if (net->sessions_count[i] < net->sessions_count[best])
			best = i;
	return &net->workers[best];
}

static void session_init(struct session *session, struct net *net, const struct arrival *arrival,
			 const struct user *user, struct tenant *tenant)
{
	struct worker *worker = worker_choose(net);
	struct client *client = &session->client;

	session->fd = arrival->fd;
	session->tls = arrival->tls;
	session->parser.key_max = net->env.config->memcached.key_max;
	session->note.session = session;
	client->worker = worker;
	client->part = tenant->now.parts[worker->number];
	client->fleet = net->env.fleet;
	client->kind = arrival->listener->addr.kind;
	client->peer = arrival->peer;
	client->by_admin = peer_is_admin(&arrival->peer);
	client->connected_ns = clock_ns();
	session->locked = user == &user_unauthenticated;
	if (user)
		admission_set(client, net->users, user);
}

static void lock_forget(struct net *net, struct session *session)
{
	if (session->in_locked)
		TAILQ_REMOVE(&net->sessions_locked, session, locked_entry);
	session->in_locked = false;
}

static void session_add(struct net *net, struct session *session)
{
	struct client *client = &session->client;

	LIST_INSERT_HEAD(&net->sessions, session, entry);
	session->in_locked = session->locked;
	if (session->in_locked)
		TAILQ_INSERT_TAIL(&net->sessions_locked, session, locked_entry);
	net->sessions_count[client->worker->number]++;
	client->number = conn_registry_add(&net->registry, client);
	client->part->tenant->conns_count++;
	stat_add(&net->stats.connections, 1);
	stat_add(&net->stats.connections_total, 1);
}

static void session_remove(struct net *net, struct session *session)
{
	struct client *client = &session->client;
	struct users *users = client->users;

	audit_closed(client, NULL);
	traces_take(net);
	LIST_REMOVE(session, entry);
	lock_forget(net, session);
	net->sessions_count[client->worker->number]--;
	admission_set(client, NULL, NULL);
	users_put(users);
	accounts_close(&net->accounts, client->principal, client->part->tenant,
		       store_clock_ns(client->part->store));
	conn_registry_remove(&net->registry, client->number);
	client->part->tenant->conns_count--;
	stat_sub(&net->stats.connections, 1);
	tls_end(session->tls);
	close(session->fd);
	free(session);
}

/* The tenant of the client; NULL: @why says why not. */
static struct tenant *session_tenant(const struct net *net, const struct user *user,
				     char why[WIRE_REJECT_TEXT_BYTES])
{
	const char *name = user ? user->tenant : TENANT_DEFAULT;
	struct tenant *tenant = tenants_find(&net->tenants, name);

	if (tenant && tenant->state == TENANT_SERVES)
		return tenant;
	snprintf(why, WIRE_REJECT_TEXT_BYTES,
		 tenant ? "the tenant %s is being created, resized or dropped" :
			  "there is no tenant %s",
		 name);
	return NULL;
}

static void session_make(struct net *net, const struct arrival *arrival, const struct user *user,
			 struct tenant *tenant)
{
	struct session *session = calloc(1, sizeof(*session));
	struct principal principal;
	struct client *client;

	if (!session) {
		refuse_error(net, arrival, "out of memory");
		return;
	}
	session_init(session, net, arrival, user, tenant);
	client = &session->client;
	principal_init(&principal, &client->peer, user);
	if (client->fleet)
		session->forwards = calloc(1, sizeof(*session->forwards));
	if ((client->fleet && !session->forwards) ||
	    !accounts_open(&net->accounts, &principal, tenant, client,
			   store_clock_ns(client->part->store))) {
		struct users *users = client->users;

		admission_set(client, NULL, NULL);
		users_put(users);
		free(session->forwards);
		free(session);
		refuse_error(net, arrival, "out of memory");
		return;
	}
	session_add(net, session);
	audit_opened(client);
	log_debug("memcached: connection of %s: worker %u", client->peer.address,
		  client->worker->number);
	session_note_send(session, &client->worker->mailbox, NOTE_SESSION);
}

/* Whether the client has closed the connection, and sent nothing. */
static bool is_over(const struct arrival *arrival)
{
	char byte;
	ssize_t n;

	if (arrival->tls)
		return false;
	n = recv(arrival->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);
	return !n || (n < 0 && errno != EAGAIN);
}

static void session_admit(struct net *net, const struct arrival *arrival)
{
	const struct config *config = net->env.config;
	char why[WIRE_REJECT_TEXT_BYTES];
	struct admission admission;
	struct tenant *tenant;

	if (net->stopping) {
		refuse_error(net, arrival, "the server is stopping");
		return;
	}
	if (net->stats.connections - net->admins_count >= config->server.max_connections) {
		refuse(net, arrival, "ERROR Too many open connections\r\n");
		return;
	}
	if (revoked_find(net->revoked, &arrival->peer, clock_ns())) {
		refuse_error(net, arrival, "the client's identity was revoked while it connected");
		return;
	}
	admission_decide(&admission, net->users, &net->accounts, config,
			 arrival->listener->addr.kind, &arrival->peer);
	if (admission.reason) {
		stat_add(&net->stats.connections_not_allowed, admission.reason == WIRE_REJECT_USER);
		stat_add(&net->stats.connections_over_limit, admission.reason == WIRE_REJECT_LIMIT);
		refuse_error(net, arrival, admission.text);
		return;
	}
	tenant = session_tenant(net, admission.user, why);
	if (is_over(arrival))
		/* So a flood of these does not take the places of others until workers end them. */
		close(arrival->fd);
	else if (tenant)
		session_make(net, arrival, admission.user, tenant);
	else
		refuse_error(net, arrival, why);
}

void session_manager_accept(struct net *net, struct listener *listener)
{
	struct arrival arrival = { .listener = listener };
	int err, i;

	for (i = 0; i < ACCEPT_AT_ONCE; i++) {
		err = listener_accept(listener, &arrival.fd, &arrival.peer);
		if (err == -EAGAIN)
			return;
		if (!err) {
			session_admit(net, &arrival);
		} else if (err == -EMFILE || err == -ENFILE) {
			listener_refuse(listener, &net->spare_fd);
			stat_add(&net->stats.connections_rejected, 1);
		} else {
			log_ratelimited(LOG_INFO, 10, "memcached: accept: %s", strerror(-err));
		}
	}
}

static void handshake_failed(struct net *net, const struct handshake *handshake)
{
	if (handshake->err == -ECONNRESET || handshake->err == -EPIPE) {
		log_ratelimited(LOG_INFO, 10,
				"memcached: %s ended its connection before the TLS handshake was "
				"done",
				handshake->peer.address);
		return;
	}
	stat_add(&net->stats.connections_expired, handshake->err == -ETIMEDOUT);
	refused(net, handshake->listener, &handshake->peer, handshake->why);
}

static void handshake_handle(struct net *net, struct handshake *handshake)
{
	struct arrival arrival = { .listener = handshake->listener, .peer = handshake->peer };

	if (handshake->err) {
		handshake_failed(net, handshake);
		return;
	}
	arrival.tls = handshake_take_stream(handshake, &arrival.fd);
	session_admit(net, &arrival);
}

void session_manager_handshakes(struct net *net)
{
	struct handshake_list ended;
	struct handshake *handshake;

	handshakes_take(&net->handshakes, &ended);
	while ((handshake = STAILQ_FIRST(&ended))) {
		STAILQ_REMOVE_HEAD(&ended, entry);
		handshake_handle(net, handshake);
		handshake_free(handshake);
	}
}

void session_manager_note(struct net *net, const struct note *note)
{
	struct session *session = note->session;

	if (note->kind == NOTE_SESSION_ENDED) {
		log_debug("memcached: connection of %s: closed", session->client.peer.address);
		session_remove(net, session);
		return;
	}
	if (session->login) {
		logins_ask(&net->logins, net->users, session);
		return;
	}
	session_stats_answer(net, session);
	session_note_send(session, &session->client.worker->mailbox, NOTE_SESSION_ANSWER);
}

/* Why the client can't be @user now, in @line. */
static bool enter_refused(struct net *net, const struct user *user,
			  const struct principal *principal, char *line)
{
	bool full = user->connections &&
		    accounts_connections(&net->accounts, principal) >= user->connections;

	stat_add(&net->stats.connections_over_limit, full);
	if (full)
		snprintf(line, LOGIN_LINE_BYTES,
			 "SERVER_ERROR user %s is at its limit of connections (%u)", user->name,
			 user->connections);
	return full;
}

/* Gives the client the account of @principal in @tenant, and takes it out of its old one. */
static bool account_change(struct net *net, struct client *client,
			   const struct principal *principal, struct tenant *tenant)
{
	uint64_t now_ns = store_clock_ns(client->part->store);
	struct tenant *before = client->part->tenant;
	const struct principal *was = client->principal;

	if (!accounts_open(&net->accounts, principal, tenant, client, now_ns))
		return false;
	accounts_close(&net->accounts, was, before, now_ns);
	before->conns_count--;
	tenant->conns_count++;
	client->part = tenant->now.parts[client->worker->number];
	return true;
}

/*
 * Makes the session one of @user: in its tenant, with its account and rights. @line gets the
 * answer. If something is against that, or the session is being closed, it stays as it was.
 */
static void session_enter(struct net *net, struct session *session, const struct user *user,
			  char line[LOGIN_LINE_BYTES])
{
	struct client *client = &session->client;
	char why[WIRE_REJECT_TEXT_BYTES];
	struct principal principal;
	struct tenant *tenant;
	struct users *users = client->users;

	*line = '\0';
	if (session->is_cut)
		return;
	principal_init(&principal, &client->peer, user);
	if (enter_refused(net, user, &principal, line))
		return;
	tenant = session_tenant(net, user, why);
	if (!tenant) {
		snprintf(line, LOGIN_LINE_BYTES, "SERVER_ERROR %s", why);
		return;
	}
	if (!account_change(net, client, &principal, tenant)) {
		snprintf(line, LOGIN_LINE_BYTES, "SERVER_ERROR out of memory");
		return;
	}
	/* The worker does not use the old user: it waits for the answer. */
	admission_set(client, net->users, user);
	users_put(users);
	client->by_password = true;
	session->locked = false;
	lock_forget(net, session);
	log_debug("memcached: connection of %s: user %s", client->peer.address, user->name);
	snprintf(line, LOGIN_LINE_BYTES, "STORED");
}

void session_manager_password_checked(struct net *net)
{
	char line[LOGIN_LINE_BYTES];
	const struct user *user;
	struct session *session = logins_checked(&net->logins, net->users, &user);

	if (!session)
		return;
	session_enter(net, session, user, line);
	if (session->client.by_password)
		audit_authenticated(&session->client);
	else
		audit_login_failed(&session->client, *line ? line : "it is being closed");
	logins_answer(session, line);
}

void session_manager_expire(struct net *net, uint64_t now_ns)
{
	uint64_t timeout_ns = net->env.config->server.handshake_timeout;
	struct session *session;

	while ((session = TAILQ_FIRST(&net->sessions_locked)) &&
	       session->client.connected_ns + timeout_ns <= now_ns) {
		lock_forget(net, session);
		if (session->is_cut)
			continue;
		log_ratelimited(LOG_WARN, 10,
				"memcached: connection of %s: closed: it did not authenticate "
				"within server.handshake_timeout",
				session->client.peer.address);
		stat_add(&net->stats.connections_expired, 1);
		session_manager_close(session, CLIENT_LOGIN_LATE);
	}
	logins_expire(&net->logins, net->users, now_ns);
}

void session_manager_close(struct session *session, enum client_end end)
{
	if (session->is_cut)
		return;
	(void)client_ends(&session->client, end);
	session->is_cut = true;
	/* The session's worker finds the end of the input. */
	shutdown(session->fd, SHUT_RDWR);
	logins_forget(session);
}

void session_manager_close_all(struct net *net)
{
	struct session *session;

	LIST_FOREACH(session, &net->sessions, entry)
		session_manager_close(session, CLIENT_STOP);
}

void session_manager_close_tenant(struct net *net, const struct tenant *tenant)
{
	struct session *session;

	LIST_FOREACH(session, &net->sessions, entry)
		if (session->client.part->tenant == tenant)
			session_manager_close(session, CLIENT_TENANT);
}

void session_manager_finish_workers(struct net *net, unsigned int first)
{
	struct session *session;

	LIST_FOREACH(session, &net->sessions, entry)
		if (session->client.worker->number >= first && !session->is_cut) {
			(void)client_ends(&session->client, CLIENT_WORKER);
			/* The worker reads what has arrived, and then finds the end. */
			shutdown(session->fd, SHUT_RD);
		}
}

void session_manager_close_workers(struct net *net, unsigned int first)
{
	struct session *session;

	LIST_FOREACH(session, &net->sessions, entry)
		if (session->client.worker->number >= first)
			session_manager_close(session, CLIENT_WORKER);
}

unsigned int session_manager_revoke(struct net *net, const struct revoke *revoke)
{
	struct session *session;
	unsigned int left = 0;

	LIST_FOREACH(session, &net->sessions, entry) {
		if (!revoke_matches(revoke, &session->client))
			continue;
		stat_add(&net->stats.connections_revoked, !session->is_cut);
		session_manager_close(session, CLIENT_REVOKED);
		left++;
	}
	return left;
}

bool session_manager_renew_users(struct net *net, struct users *users)
{
	struct session *session;
	bool renewed = false;

	LIST_FOREACH(session, &net->sessions, entry)
		if (!session->is_cut && client_user_renew(&session->client, users, false)) {
			renewed = true;
		} else if (!session->is_cut) {
			stat_add(&net->stats.connections_withdrawn, 1);
			session_manager_close(session, CLIENT_USERS);
		}
	return renewed;
}

void session_manager_put_users(struct net *net)
{
	struct session *session;

	LIST_FOREACH(session, &net->sessions, entry) {
		users_put(session->client.users_old);
		session->client.users_old = NULL;
	}
}

void session_manager_free_all(struct net *net)
{
	struct session *session;

	while ((session = LIST_FIRST(&net->sessions))) {
		serve_release(session);
		session_remove(net, session);
	}
}
