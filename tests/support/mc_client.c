/* SPDX-License-Identifier: MIT */
/* Sends commands of memcached's protocol and takes their answers: see mc_client.h. */
#include "tests/support/mc_client.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define DEADLINE_S 300
/* The server's socket begins with a buffer of some segments, of the size that the client names. */
#define NARROW_SEGMENT_BYTES 1000
#define NARROW_RECEIVE_BYTES 8192

static int options_set(int fd, bool narrow)
{
	const struct timeval deadline = { .tv_sec = DEADLINE_S };
	const int segment = NARROW_SEGMENT_BYTES, receive = NARROW_RECEIVE_BYTES, yes = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof(deadline)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)))
		return -errno;
	if (narrow && (setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)) ||
		       setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive))))
		return -errno;
	return 0;
}

int mc_client_open(struct mc_client *client, uint16_t port, bool narrow)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int ret;

	*client = (struct mc_client){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	if (client->fd < 0)
		return -errno;
	ret = options_set(client->fd, narrow);
	if (!ret && connect(client->fd, (const struct sockaddr *)&to, sizeof(to)))
		ret = -errno;
	if (ret)
		mc_client_close(client);
	return ret;
}

void mc_client_close(struct mc_client *client)
{
	close(client->fd);
	client->fd = -1;
}

bool mc_client_send(struct mc_client *client, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	ssize_t n;

	for (; len; at += n, len -= (size_t)n) {
		do
			n = send(client->fd, at, len, MSG_NOSIGNAL);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return false;
	}
	return true;
}

/* Receives at least a byte, unless the connection is broken: then 0. */
static size_t receive(struct mc_client *client, void *to, size_t len)
{
	ssize_t n;

	do
		n = recv(client->fd, to, len, 0);
	while (n < 0 && errno == EINTR);
	return n > 0 ? (size_t)n : 0;
}

bool mc_client_receive(struct mc_client *client, void *to, size_t len)
{
	uint8_t *at = to;
	size_t n = client->len - client->at;

	if (n > len)
		n = len;
	memcpy(at, client->input + client->at, n);
	client->at += n;
	while (len -= n) {
		at += n;
		n = receive(client, at, len);
		if (!n)
			return false;
	}
	return true;
}

/* Receives the next line to client->line. */
static bool line_take(struct mc_client *client)
{
	size_t n = 0;

	for (;;) {
		if (client->at == client->len) {
			client->at = 0;
			client->len = receive(client, client->input, sizeof(client->input));
			if (!client->len)
				return false;
		}
		if (n == sizeof(client->line))
			return false;
		client->line[n] = client->input[client->at++];
		if (client->line[n++] == '\n')
			break;
	}
	if (n < 2 || client->line[n - 2] != '\r')
		return false;
	client->line[n - 2] = '\0';
	return true;
}

static enum mc_answer answer_take(struct mc_client *client)
{
	static const struct {
		const char *line;
		enum mc_answer answer;
	} answers[] = {
		{ "STORED", MC_ANSWER_OK },
		{ "DELETED", MC_ANSWER_OK },
		{ "TOUCHED", MC_ANSWER_OK },
		{ "NOT_FOUND", MC_ANSWER_NOT_FOUND },
		{ "END", MC_ANSWER_NOT_FOUND },
		{ "EXISTS", MC_ANSWER_EXISTS },
		{ "NOT_STORED", MC_ANSWER_NOT_STORED },
		{ "CLIENT_ERROR cannot increment or decrement non-numeric value",
		  MC_ANSWER_NOT_A_NUMBER },
	};

	if (!line_take(client))
		return MC_ANSWER_BROKEN;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (!strcmp(client->line, answers[i].line))
			return answers[i].answer;
	return MC_ANSWER_OTHER;
}

__attribute__((format(printf, 2, 3))) static bool command_send(struct mc_client *client,
							       const char *format, ...)
{
	char line[MC_CLIENT_LINE_MAX];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return len > 0 && (size_t)len < sizeof(line) && mc_client_send(client, line, (size_t)len);
}

/* A decimal number after a space; moves @at past it. */
static bool number_parse(const char **at, uint64_t *number)
{
	char *end;

	if (**at != ' ' || !isdigit((unsigned char)(*at)[1]))
		return false;
	errno = 0;
	*number = strtoull(*at + 1, &end, 10);
	*at = end;
	return !errno;
}

enum mc_answer mc_client_gets(struct mc_client *client, const char *key, uint32_t *len,
			      uint64_t *version)
{
	uint64_t flags, bytes;
	const char *at;
	enum mc_answer answer;
	size_t key_len = strlen(key);

	if (!command_send(client, "gets %s\r\n", key))
		return MC_ANSWER_BROKEN;
	answer = answer_take(client);
	if (answer != MC_ANSWER_OTHER || strncmp(client->line, "VALUE ", 6) != 0)
		return answer;
	at = client->line + 6 + key_len;
	if (strncmp(client->line + 6, key, key_len) != 0 || !number_parse(&at, &flags) ||
	    !number_parse(&at, &bytes) || !number_parse(&at, version) || *at || bytes > UINT32_MAX)
		return MC_ANSWER_OTHER;
	*len = (uint32_t)bytes;
	return MC_ANSWER_OK;
}

bool mc_client_gets_end(struct mc_client *client)
{
	return line_take(client) && !*client->line && answer_take(client) == MC_ANSWER_NOT_FOUND &&
	       !strcmp(client->line, "END");
}

bool mc_client_put(struct mc_client *client, const char *command, const char *key, uint32_t len,
		   uint64_t version)
{
	if (!strcmp(command, "cas"))
		return command_send(client, "cas %s 0 0 %u %" PRIu64 "\r\n", key, len, version);
	return command_send(client, "%s %s 0 0 %u\r\n", command, key, len);
}

enum mc_answer mc_client_put_end(struct mc_client *client)
{
	return mc_client_send(client, "\r\n", 2) ? answer_take(client) : MC_ANSWER_BROKEN;
}

enum mc_answer mc_client_delete(struct mc_client *client, const char *key)
{
	return command_send(client, "delete %s\r\n", key) ? answer_take(client) : MC_ANSWER_BROKEN;
}

enum mc_answer mc_client_touch(struct mc_client *client, const char *key, uint32_t ttl_s)
{
	return command_send(client, "touch %s %u\r\n", key, ttl_s) ? answer_take(client) :
								     MC_ANSWER_BROKEN;
}

enum mc_answer mc_client_incr(struct mc_client *client, const char *key, uint64_t delta,
			      uint64_t *number)
{
	enum mc_answer answer;
	char *end;

	if (!command_send(client, "incr %s %" PRIu64 "\r\n", key, delta))
		return MC_ANSWER_BROKEN;
	answer = answer_take(client);
	if (answer != MC_ANSWER_OTHER || !isdigit((unsigned char)*client->line))
		return answer;
	errno = 0;
	*number = strtoull(client->line, &end, 10);
	return errno || *end ? MC_ANSWER_OTHER : MC_ANSWER_OK;
}
