/* SPDX-License-Identifier: MIT */
/*
 * memcached and Redis over a Unix socket: see text.h. The protocols: memcached's doc/protocol.txt,
 * and RESP2, redis.io/docs/reference/protocol-spec.
 */
#include "bench/kvload/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/random.h"

void load_key(uint64_t number, char key[LOAD_KEY_BYTES + 1])
{
	snprintf(key, LOAD_KEY_BYTES + 1, "%016" PRIx64, splitmix_next(&number));
}

void load_value(uint64_t number, char value[LOAD_VALUE_BYTES + 1])
{
	snprintf(value, LOAD_VALUE_BYTES + 1, "%032" PRIu64, number);
}

int text_connect(struct text *text, enum text_protocol protocol, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int error;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	text->protocol = protocol;
	text->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (text->fd < 0)
		return -errno;
	if (!connect(text->fd, (const struct sockaddr *)&address, sizeof(address)))
		return 0;
	error = -errno;
	close(text->fd);
	return error;
}

void text_close(struct text *text)
{
	close(text->fd);
}

/* All that is ever appended fits: at most 128 bytes a record. */
static void __attribute__((format(printf, 3, 4)))
append(char *buffer, size_t *len, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	*len += (size_t)vsnprintf(buffer + *len, LOAD_BATCH * 128 + 16 - *len, format, args);
	va_end(args);
}

static void memcached_append(struct text *text, enum load_op op, const char *key, const char *value)
{
	char *request = text->request, *answer = text->answer;

	switch (op) {
	case LOAD_SET:
		append(request, &text->request_len, "set %s 0 0 %u\r\n%s\r\n", key,
		       LOAD_VALUE_BYTES, value);
		append(answer, &text->answer_len, "STORED\r\n");
		break;
	case LOAD_DELETE:
		append(request, &text->request_len, "delete %s\r\n", key);
		append(answer, &text->answer_len, "DELETED\r\n");
		break;
	default: /* one get of all */
		append(request, &text->request_len, "%s %s", text->request_len ? "" : "get", key);
		if (op == LOAD_GET)
			append(answer, &text->answer_len, "VALUE %s 0 %u\r\n%s\r\n", key,
			       LOAD_VALUE_BYTES, value);
	}
}

static void redis_append(struct text *text, enum load_op op, const char *key, const char *value)
{
	static const char *const names[] = { "SET", "GET", "GET", "DEL" };

	append(text->request, &text->request_len, "*%d\r\n$3\r\n%s\r\n$%u\r\n%s\r\n",
	       op == LOAD_SET ? 3 : 2, names[op], LOAD_KEY_BYTES, key);
	if (op == LOAD_SET)
		append(text->request, &text->request_len, "$%u\r\n%s\r\n", LOAD_VALUE_BYTES, value);
	if (op == LOAD_GET)
		append(text->answer, &text->answer_len, "$%u\r\n%s\r\n", LOAD_VALUE_BYTES, value);
	else
		append(text->answer, &text->answer_len, "%s\r\n",
		       op == LOAD_SET  ? "+OK" :
		       op == LOAD_MISS ? "$-1" :
					 ":1");
}

static void batch_make(struct text *text, enum load_op op, const uint64_t *numbers, size_t count)
{
	char key[LOAD_KEY_BYTES + 1], value[LOAD_VALUE_BYTES + 1];
	size_t i;

	text->request_len = 0;
	text->answer_len = 0;
	for (i = 0; i < count; i++) {
		load_key(numbers[i], key);
		load_value(numbers[i], value);
		if (text->protocol == TEXT_MEMCACHED)
			memcached_append(text, op, key, value);
		else
			redis_append(text, op, key, value);
	}
	if (text->protocol == TEXT_MEMCACHED && (op == LOAD_GET || op == LOAD_MISS)) {
		append(text->request, &text->request_len, "\r\n");
		append(text->answer, &text->answer_len, "END\r\n");
	}
}

static int send_all(const struct text *text, const char *bytes, size_t len)
{
	ssize_t sent;

	for (; len; bytes += sent, len -= (size_t)sent) {
		sent = send(text->fd, bytes, len, MSG_NOSIGNAL);
		if (sent < 0)
			return -errno;
	}
	return 0;
}

/* Receives more behind @have bytes of text->got, which it terminates. */
static int receive_some(struct text *text, size_t *have)
{
	ssize_t received = recv(text->fd, text->got + *have, sizeof(text->got) - 1 - *have, 0);

	if (received <= 0)
		return received ? -errno : -ECONNRESET;
	*have += (size_t)received;
	text->got[*have] = '\0';
	return 0;
}

int text_do(struct text *text, enum load_op op, const uint64_t *numbers, size_t count)
{
	size_t have = 0;
	int error;

	batch_make(text, op, numbers, count);
	error = send_all(text, text->request, text->request_len);
	while (!error && have < text->answer_len) {
		error = receive_some(text, &have);
		if (!error && (have > text->answer_len || memcmp(text->got, text->answer, have)))
			error = -EBADMSG;
	}
	return error;
}

int text_count(struct text *text, uint64_t *count)
{
	const char *question = text->protocol == TEXT_REDIS ? "DBSIZE\r\n" : "stats\r\n";
	const char *name = text->protocol == TEXT_REDIS ? ":" : "STAT curr_items ";
	const char *end = text->protocol == TEXT_REDIS ? "\r\n" : "END\r\n";
	size_t have = 0;
	const char *at;
	int error;

	text->got[0] = '\0';
	error = send_all(text, question, strlen(question));
	while (!error && !strstr(text->got, end) && have < sizeof(text->got) - 1)
		error = receive_some(text, &have);
	if (error)
		return error;
	at = strstr(text->got, name);
	if (!at)
		return -EBADMSG;
	*count = strtoull(at + strlen(name), NULL, 10);
	return 0;
}
