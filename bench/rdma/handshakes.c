/* SPDX-License-Identifier: MIT */
/*
 * handshakes: measures how many handshakes of TLS a CPU makes in a second, those of client and
 * server together, in one thread over a socket pair, by its CPU time: without a network and without
 * RDMA. bench/connect-ways.sh runs it.
 *
 *	handshakes SECONDS HOST SERVER.PEM SERVER.KEY CLIENT.PEM CLIENT.KEY PSK
 *
 * HOST is whom the server's certificate names; each certificate is signed by itself. Prints a line
 * for each kind: handshakes per second.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tls/tls.h"
#include "common/util/clock.h"

#define SECOND_NS 1000000000ull
#define STEPS_MAX 100

static struct tls_context *context_make(const struct tls_files *files, const char *host)
{
	struct tls_context *context;
	char why[TLS_WHY_MAX] = "no memory";

	if (tls_context_make(&context, files, host, why))
		errx(1, "%s", why);
	return context;
}

/* Each end goes on until it has to wait for the other. */
static void shake(struct tls *client, struct tls *server)
{
	int at_client = -EAGAIN, at_server = -EAGAIN;
	uint32_t events;
	char byte;

	for (int i = 0; i < STEPS_MAX && (at_client || at_server); i++) {
		if (at_client)
			at_client = tls_handshake(client, &events);
		if (at_server)
			at_server = tls_handshake(server, &events);
	}
	if (at_client || at_server)
		errx(1, "no handshake: %s%s", tls_why(client), tls_why(server));
	/* The server's tickets, for the next one. */
	if (tls_recv(client, &byte, 1) != -EAGAIN)
		errx(1, "after the handshake: %s", tls_why(client));
}

/* Whether the session of an earlier one was resumed. */
static bool handshake(struct tls_context *at_client, struct tls_context *at_server)
{
	struct tls *client, *server;
	bool resumed;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
		err(1, "a socket pair");
	if (tls_start(&client, at_client, fds[0]) || tls_start(&server, at_server, fds[1]))
		errx(1, "no memory");
	shake(client, server);
	resumed = tls_is_resumed(client);
	tls_end(client);
	tls_end(server);
	close(fds[0]);
	close(fds[1]);
	return resumed;
}

/* With a client context for all, so that sessions are resumed, or one for each handshake. */
static void measure(const char *name, const struct tls_files *at_client,
		    const struct tls_files *at_server, const char *host, bool resumes,
		    unsigned long seconds)
{
	struct tls_context *server = context_make(at_server, NULL);
	struct tls_context *client = context_make(at_client, host);
	uint64_t took = 0, count = 0, before;

	handshake(client, server);
	while (took < seconds * SECOND_NS) {
		if (!resumes) {
			tls_context_put(client);
			client = context_make(at_client, host);
		}
		before = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
		if (handshake(client, server) != resumes)
			errx(1, "%s: a session was%s resumed", name, resumes ? " not" : "");
		took += clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - before;
		count++;
	}
	tls_context_put(client);
	tls_context_put(server);
	printf("%-28s %9.0f\n", name, (double)count * SECOND_NS / (double)took);
}

int main(int argc, char **argv)
{
	if (argc != 8 || !atol(argv[1]))
		errx(2, "usage: handshakes SECONDS HOST SERVER.PEM SERVER.KEY CLIENT.PEM "
			"CLIENT.KEY PSK");

	const unsigned long seconds = strtoul(argv[1], NULL, 10);
	const struct tls_files server = { .certificate = argv[3], .key = argv[4] };
	const struct tls_files knows = { .ca = argv[3] };
	const struct tls_files asks = {
		.certificate = argv[3], .key = argv[4], .ca = argv[5], .peer_certificate = true
	};
	const struct tls_files shows = { .ca = argv[3], .certificate = argv[5], .key = argv[6] };
	const struct tls_files psk = { .psk = argv[7] };

	measure("the server's certificate", &knows, &server, argv[2], false, seconds);
	measure("certificates of both", &shows, &asks, argv[2], false, seconds);
	measure("the same, resumed", &shows, &asks, argv[2], true, seconds);
	measure("a pre-shared key", &psk, &psk, argv[2], false, seconds);
	return 0;
}
