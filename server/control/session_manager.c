/* SPDX-License-Identifier: MIT */
#include "server/control/session_manager.h"

#include <errno.h>
#include <fcntl.h>
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
#include "server/memcached/serve.h"

/* Connections that are taken before other events have their turn. */
#define ACCEPT_AT_ONCE 64

/* A client that may not connect is told why: a line of the protocol. */
static void refuse(struct net *net, int fd, const struct cm_peer *peer, const char *line)
{
	ssize_t n = send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);

	/* A client that gets no line still sees its connection end. */
	(void)n;
	close(fd);
	stat_add(&net->stats.connections_rejected, 1);
	log_ratelimited(LOG_WARN, 10, "memcached: connection of %s refused: %.*s", peer->address,
			(int)strcspn(line, "\r"), line);
}

static void refuse_error(struct net *net, int fd, const struct cm_peer *peer, const char *why)
{
	char line[WIRE_REJECT_TEXT_BYTES + 32];

	snprintf(line, sizeof(line), "SERVER_ERROR %s\r\n", why);
	refuse(net, fd, peer, line);
}

static struct worker *worker_choose(const struct net *net)
{
	unsigned int i, best = 0;

	for (i = 1; i < net->worker_count; i++)
		if (net->sessions_count[i] < net->sessions_count[best])
			best = i;
	return &net->workers[best];
}

static void session_init(struct session *session, struct net *net, const struct listener *listener,
			 int fd, const struct cm_peer *peer, const struct user *user,
			 struct tenant *tenant)
{
	struct worker *worker = worker_choose(net);
	struct client *client = &session->client;

	session->fd = fd;
	session->parser.key_max = net->env.config->memcached.key_max;
	session->start = (struct note){ .session = session, .kind = NOTE_SESSION };
	session->asks = (struct note){ .session = session, .kind = NOTE_SESSION_ASKS };
	session->answer = (struct note){ .session = session, .kind = NOTE_SESSION_ANSWER };
	session->ended = (struct note){ .session = session, .kind = NOTE_SESSION_ENDED };
	client->session = session;
	client->worker = worker;
	client->part = tenant->now.parts[worker->number];
	client->fleet = net->env.fleet;
	client->kind = listener->addr.kind;
	client->peer = *peer;
	client->by_admin = peer_is_admin(peer);
	client->connected_ns = clock_ns();
	principal_init(&client->principal, peer, user);
	if (user)
		admission_set(client, net->users, user);
}

static void session_add(struct net *net, struct session *session)
{
	struct client *client = &session->client;

	LIST_INSERT_HEAD(&net->sessions, session, entry);
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

	LIST_REMOVE(session, entry);
	net->sessions_count[client->worker->number]--;
	admission_set(client, NULL, NULL);
	users_put(users);
	accounts_close(&net->accounts, &client->principal, client->part->tenant,
		       store_clock_ns(client->part->store));
	conn_registry_remove(&net->registry, client->number);
	client->part->tenant->conns_count--;
	stat_sub(&net->stats.connections, 1);
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

static void session_make(struct net *net, const struct listener *listener, int fd,
			 const struct cm_peer *peer, const struct user *user, struct tenant *tenant)
{
	struct session *session = calloc(1, sizeof(*session));
	struct client *client;

	if (!session) {
		refuse_error(net, fd, peer, "out of memory");
		return;
	}
	session_init(session, net, listener, fd, peer, user, tenant);
	client = &session->client;
	client->account = accounts_open(&net->accounts, &client->principal, tenant, &client->gates,
					store_clock_ns(client->part->store));
	if (!client->account) {
		struct users *users = client->users;

		admission_set(client, NULL, NULL);
		users_put(users);
		free(session);
		refuse_error(net, fd, peer, "out of memory");
		return;
	}
	session_add(net, session);
	log_debug("memcached: connection of %s: worker %u", peer->address, client->worker->number);
	mailbox_send(&client->worker->mailbox, &session->start);
}

static void session_admit(struct net *net, const struct listener *listener, int fd,
			  const struct cm_peer *peer)
{
	const struct config *config = net->env.config;
	char why[WIRE_REJECT_TEXT_BYTES];
	struct admission admission;
	struct tenant *tenant;

	if (net->stopping) {
		refuse_error(net, fd, peer, "the server is stopping");
		return;
	}
	if (net->stats.connections - net->admins_count >= config->server.max_connections) {
		refuse(net, fd, peer, "ERROR Too many open connections\r\n");
		return;
	}
	admission_decide(&admission, net->users, &net->accounts, config, listener->addr.kind, peer);
	if (admission.reason) {
		stat_add(&net->stats.connections_not_allowed, admission.reason == WIRE_REJECT_USER);
		stat_add(&net->stats.connections_over_limit, admission.reason == WIRE_REJECT_LIMIT);
		refuse_error(net, fd, peer, admission.text);
		return;
	}
	tenant = session_tenant(net, admission.user, why);
	if (tenant)
		session_make(net, listener, fd, peer, admission.user, tenant);
	else
		refuse_error(net, fd, peer, why);
}

/* No descriptor is left: the client is refused with the one that is kept for that. */
static void refuse_for_want(struct net *net, struct listener *listener)
{
	int fd;

	close(net->spare_fd);
	fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	net->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	stat_add(&net->stats.connections_rejected, 1);
	log_ratelimited(
		LOG_ERROR, 1,
		"memcached: a connection is refused, for lack of descriptors: " ADVICE_OPEN_FILES
		" or lower server.max_connections");
}

void session_manager_accept(struct net *net, struct listener *listener)
{
	struct cm_peer peer;
	int fd, err, i;

	for (i = 0; i < ACCEPT_AT_ONCE; i++) {
		err = listener_accept(listener, &fd, &peer);
		if (err == -EAGAIN)
			return;
		if (!err)
			session_admit(net, listener, fd, &peer);
		else if (err == -EMFILE || err == -ENFILE)
			refuse_for_want(net, listener);
		else
			log_ratelimited(LOG_INFO, 10, "memcached: accept: %s", strerror(-err));
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
	session_stats_answer(net, session);
	mailbox_send(&session->client.worker->mailbox, &session->answer);
}

void session_manager_close(struct session *session)
{
	if (session->is_cut)
		return;
	session->is_cut = true;
	/* The session's worker finds the end of the input. */
	shutdown(session->fd, SHUT_RDWR);
}

void session_manager_close_all(struct net *net)
{
	struct session *session;

	LIST_FOREACH(session, &net->sessions, entry)
		session_manager_close(session);
}

void session_manager_close_tenant(struct net *net, const struct tenant *tenant)
{
	struct session *session;

	LIST_FOREACH(session, &net->sessions, entry)
		if (session->client.part->tenant == tenant)
			session_manager_close(session);
}

unsigned int session_manager_revoke(struct net *net, const struct revoke *revoke)
{
	struct session *session;
	unsigned int left = 0;

	LIST_FOREACH(session, &net->sessions, entry) {
		if (!revoke_matches(revoke, &session->client))
			continue;
		stat_add(&net->stats.connections_revoked, !session->is_cut);
		session_manager_close(session);
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
			session_manager_close(session);
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
