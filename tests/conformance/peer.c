/* SPDX-License-Identifier: MIT */
/*
 * Conformance cases for peers in their own processes that are killed, stopped, or exit without
 * disconnecting. Such a peer is this program started again, since a verbs device does not survive a
 * fork.
 */
#include "tests/conformance/conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/log.h"

#define URL_MAX 512
#define LINE_MAX_BYTES 512
#define SENDS 8
#define SEED 42

void peer_start(struct peer *peer, const char *role, const char *url)
{
	int ends[2];

	CHECK_OK(pipe2(ends, O_CLOEXEC));
	peer->pid = fork();
	if (peer->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		execl(suite.program, suite.program, suite.ops->name, "--peer", role, url, NULL);
		_exit(127);
	}
	CHECK(peer->pid > 0);
	close(ends[1]);
	peer->out = ends[0];
}

/* Blocks; the case's alarm ends it if the peer writes nothing. */
void peer_line(struct peer *peer, char *line, size_t size)
{
	size_t len = 0;

	while (len + 1 < size && read(peer->out, line + len, 1) == 1 && line[len] != '\n')
		len++;
	line[len] = '\0';
	CHECK(len > 0);
}

void peer_kill(struct peer *peer, int signal)
{
	CHECK_OK(kill(peer->pid, signal));
}

void peer_wait(struct peer *peer, int signal)
{
	int status;

	CHECK(waitpid(peer->pid, &status, 0) == peer->pid);
	if (signal)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal);
	else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(peer->out);
}

static void url_of(const struct device_addr *addr, char *url, size_t size)
{
	const char *scheme = device_scheme(addr->kind);

	if (addr->kind == DEVICE_SOFTNIC)
		snprintf(url, size, "%s%s", scheme, addr->path);
	else
		snprintf(url, size, strchr(addr->host, ':') ? "%s[%s]:%u" : "%s%s:%u", scheme,
			 addr->host, addr->port);
}

/* What the peer processes do. */

static void say(const char *line)
{
	printf("%s\n", line);
	fflush(stdout);
}

static void peer_connect(struct side *side, const char *url)
{
	struct device_addr addr;
	struct cm_event event;

	addr = suite_addr(url);
	side_open(side, "peer", &addr, DEVICE_CONNECT, &PAIR_DEFAULTS);
	mem_fill(side, 0, side->mem_bytes, SEED);
	side_connect(side, &PAIR_DEFAULTS);
	event = side_event(side, CM_ESTABLISHED);
	side_hello_read(side, &event);
	say("ready");
}

/* Connects and then does nothing, not even poll. */
static void role_idle_client(const char *url)
{
	struct side side;

	peer_connect(&side, url);
	pause();
}

/* Connects, has a send outstanding, and exits without closing anything. */
static void role_exiting_client(const char *url)
{
	static struct side side;

	peer_connect(&side, url);
	CHECK_OK(send_post(&side, 1, 0, 16, IBV_SEND_SIGNALED));
	_exit(EXIT_SUCCESS);
}

/* A server of shared memory that polls and takes events until it is killed. */
static void role_server(const char *url)
{
	struct pair_options options = PAIR_DEFAULTS;
	struct device_addr addr;
	struct cm_event event;
	struct side side;
	char text[URL_MAX];

	options.server_fd = true;
	(void)url;
	addr = suite_listen_addr();
	side_open(&side, "peer", &addr, DEVICE_LISTEN, &options);
	mem_fill(&side, 0, side.mem_bytes, SEED);
	side_listen(&side);
	addr = suite_connect_addr(side.dev);
	url_of(&addr, text, sizeof(text));
	say(text);
	side_accept(&side, &options);
	side_event(&side, CM_ESTABLISHED);
	say("ready");
	for (;;) {
		side_poll(&side);
		suite.ops->cm_get_event(side.cm, &event);
	}
}

int peer_main(const char *role, const char *url)
{
	log_init(LOG_DEBUG, NULL);
	suite.dir = url; /* a server's folder; the others don't use it */
	if (strcmp(role, "idle-client") == 0)
		role_idle_client(url);
	else if (strcmp(role, "exiting-client") == 0)
		role_exiting_client(url);
	else if (strcmp(role, "server") == 0)
		role_server(url);
	return EXIT_FAILURE;
}

/* The cases. */

static void server_open(struct side *server)
{
	struct device_addr addr = suite_listen_addr();

	side_open(server, "server", &addr, DEVICE_LISTEN, &PAIR_DEFAULTS);
	side_listen(server);
}

/* Starts a client process and accepts it. */
static void client_join(struct side *server, struct peer *peer, const char *role)
{
	struct device_addr addr = suite_connect_addr(server->dev);
	char url[URL_MAX], line[LINE_MAX_BYTES];

	url_of(&addr, url, sizeof(url));
	peer_start(peer, role, url);
	side_accept(server, &PAIR_DEFAULTS);
	side_event(server, CM_ESTABLISHED);
	peer_line(peer, line, sizeof(line));
	CHECK(strcmp(line, "ready") == 0);
}

/* Starts a server process and connects to it. */
static void server_join(struct side *client, struct peer *peer)
{
	struct device_addr addr;
	struct cm_event event;
	char line[LINE_MAX_BYTES];

	peer_start(peer, "server", suite.dir);
	peer_line(peer, line, sizeof(line));
	addr = suite_addr(line);
	side_open(client, "client", &addr, DEVICE_CONNECT, &PAIR_DEFAULTS);
	side_connect(client, &PAIR_DEFAULTS);
	event = side_event(client, CM_ESTABLISHED);
	side_hello_read(client, &event);
	peer_line(peer, line, sizeof(line));
}

static void killed(struct side *side, struct peer *peer)
{
	int64_t start_us = suite_now_us();

	peer_kill(peer, SIGKILL);
	CHECK(side_event(side, CM_DISCONNECTED).id == side->id);
	fprintf(stderr, "%s got the event %lld us after the kill\n", side->name,
		(long long)(suite_now_us() - start_us));
	side_qp_in_error(side);
	peer_wait(peer, SIGKILL);
}

static void client_killed_idle(void)
{
	struct side server;
	struct peer peer;

	server_open(&server);
	client_join(&server, &peer, "idle-client");
	killed(&server, &peer);
	side_wc_none(&server);
	side_close(&server);
}

/* All requests that are outstanding when the peer dies complete, in order, with an error. */
static void client_killed_with_work(void)
{
	struct side server;
	struct peer peer;

	server_open(&server);
	client_join(&server, &peer, "idle-client");
	for (unsigned int i = 0; i < SENDS; i++)
		CHECK_OK(send_post(&server, i, 0, 16, i % 2 ? IBV_SEND_SIGNALED : 0));
	CHECK_OK(read_post(&server, SENDS, 4096, 4096, 0, IBV_SEND_SIGNALED));
	side_wc_none(&server); /* it has posted no receives */
	killed(&server, &peer);
	for (unsigned int i = 0; i < SENDS + 1; i++) {
		struct ibv_wc wc = side_wc(&server);

		CHECK_INT(wc.wr_id, i);
		CHECK(wc.status != IBV_WC_SUCCESS);
		if (i)
			CHECK_INT(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	side_close(&server);
}

static void client_killed_others_stay(void)
{
	struct peer first, second;
	struct cm_id *first_id;
	struct side server;

	server_open(&server);
	client_join(&server, &first, "idle-client");
	first_id = server.id;
	client_join(&server, &second, "idle-client");
	CHECK_OK(send_post(&server, 1, 0, 16, IBV_SEND_SIGNALED));
	killed(&server, &second);
	side_wc(&server);
	side_destroy_id(&server);
	server.id = first_id;
	side_event_none(&server);
	CHECK_OK(read_post_raw(&server, 2, 0, 0, 0, 0)); /* a probe succeeds */
	if (suite.kind != DEVICE_SOFTNIC) /* on softnic the peer would have to poll */
		side_wc_is(&server, 2, IBV_WC_SUCCESS);
	killed(&server, &first);
	side_close(&server);
}

static void client_exits(void)
{
	struct side server;
	struct peer peer;

	server_open(&server);
	client_join(&server, &peer, "exiting-client");
	CHECK(side_event(&server, CM_DISCONNECTED).id == server.id);
	side_qp_in_error(&server);
	peer_wait(&peer, 0);
	side_close(&server);
}

static void server_killed(void)
{
	struct side client;
	struct peer peer;

	server_join(&client, &peer);
	CHECK_OK(read_post(&client, 1, 0, 4096, 0, IBV_SEND_SIGNALED));
	side_wc_is(&client, 1, IBV_WC_SUCCESS);
	mem_check(&client, 0, 4096, SEED);
	CHECK_OK(send_post(&client, 2, 0, 16, IBV_SEND_SIGNALED)); /* it posts no receives */
	side_wc_none(&client);
	killed(&client, &peer);
	side_wc_is(&client, 2, IBV_WC_WR_FLUSH_ERR);
	/* What is posted later fails as well. */
	CHECK_OK(read_post(&client, 3, 0, 4096, 0, IBV_SEND_SIGNALED));
	side_wc_is(&client, 3, IBV_WC_WR_FLUSH_ERR);
	side_close(&client);
}

/* Guarantee E: READs of a region succeed while its server gets no CPU at all. */
static void server_stopped_is_readable(void)
{
	struct side client;
	struct peer peer;
	int status;

	server_join(&client, &peer);
	peer_kill(&peer, SIGSTOP);
	CHECK(waitpid(peer.pid, &status, WUNTRACED) == peer.pid && WIFSTOPPED(status));
	for (unsigned int i = 0; i < 100; i++) {
		CHECK_OK(read_post(&client, i, 0, 4096, 0, IBV_SEND_SIGNALED));
		side_wc_is(&client, i, IBV_WC_SUCCESS);
		mem_check(&client, 0, 4096, SEED);
	}
	killed(&client, &peer);
	side_close(&client);
}

/* The address of a server that died is free for the next one. */
static void server_again_after_kill(void)
{
	struct device_addr addr;
	struct side client, server;
	struct peer peer;

	server_join(&client, &peer);
	addr = suite_connect_addr(client.dev);
	killed(&client, &peer);
	side_close(&client);
	side_open(&server, "server", &addr, DEVICE_LISTEN, &PAIR_DEFAULTS);
	side_listen(&server);
	client_join(&server, &peer, "idle-client");
	killed(&server, &peer);
	side_close(&server);
}

const struct suite_case peer_cases[] = {
	{ "client_killed_idle", client_killed_idle, ALL_DEVICES },
	{ "client_killed_with_work", client_killed_with_work, ALL_DEVICES },
	{ "client_killed_others_stay", client_killed_others_stay, ALL_DEVICES },
	{ "client_exits", client_exits, ALL_DEVICES },
	{ "server_killed", server_killed, ALL_DEVICES },
	{ "server_stopped_is_readable", server_stopped_is_readable, ALL_DEVICES },
	{ "server_again_after_kill", server_again_after_kill, ALL_DEVICES },
	{ NULL, NULL, 0 },
};
