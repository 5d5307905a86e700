/* SPDX-License-Identifier: MIT */
/*
 * The functions of client/kvd.h that kvbench calls, over memcached's text protocol: kvbench's own
 * objects linked with this file instead of libkvd are `mcbench`, which drives memcached with the
 * very same keys, values, threads, checks and clock. For bench/compare-memcached.sh; not installed.
 *
 *	memcached://HOST:PORT		over TCP, HOST an IPv4 address
 *	memcached:///PATH		over a Unix socket
 *	...?pipeline=N			a PUT returns before its answer is there, until N are under
 *					way: good for rates, not for latencies
 *
 * kvd_get_many() is one `get` of up to MULTIGET_MAX keys, memcached's fastest way for many keys.
 * The CPU time that kvbench asks the server for is memcached's own rusage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/kvd.h"

#define MULTIGET_MAX 64
#define PIPELINE_MAX 1024
/* memcached's own limit */
#define MC_KEY_MAX 250
#define BUFFER_SIZE 65536
#define ERROR_MAX 256

struct kvd {
	int fd;
	bool lost;
	unsigned int pipeline; /* PUTs that may be under way; 1: none when the call returns */
	unsigned int unanswered;
	size_t begin, end; /* of what is received and not yet used, in buffer */
	char buffer[BUFFER_SIZE];
	char error[ERROR_MAX];
	struct kvd_stats stats;
};

static __thread char open_error[ERROR_MAX];

static enum kvd_status lose(struct kvd *mc, enum kvd_status status, const char *what)
{
	snprintf(mc->error, sizeof(mc->error), "%s", what);
	mc->lost = true;
	return status;
}

const char *kvd_status_text(enum kvd_status status)
{
	switch (status) {
#define X(name, number, text)                                                                      \
	case KVD_##name:                                                                           \
		return text;
		KVD_STATUS_MAP(X)
#undef X
	}
	return "unknown status";
}

const char *kvd_version(void)
{
	return "memcached";
}

void kvd_options_init(struct kvd_options *options)
{
	*options = (struct kvd_options){ .timeout_ms = 2000, .connect_timeout_ms = 5000 };
}

const char *kvd_error(const struct kvd *mc)
{
	return mc ? mc->error : open_error;
}

/* Fills @address from the part of a URL behind memcached://. Returns its length, 0 if it is bad. */
static socklen_t address_parse(const char *text, struct sockaddr_storage *address)
{
	struct sockaddr_un *local = (struct sockaddr_un *)address;
	struct sockaddr_in *in = (struct sockaddr_in *)address;
	char host[64];
	unsigned int port;

	memset(address, 0, sizeof(*address));
	if (*text == '/') {
		local->sun_family = AF_UNIX;
		snprintf(local->sun_path, sizeof(local->sun_path), "%.*s", (int)strcspn(text, "?"),
			 text);
		return sizeof(*local);
	}
	if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2 || port > 65535 ||
	    inet_pton(AF_INET, host, &in->sin_addr) != 1)
		return 0;
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	return sizeof(*in);
}

static unsigned int pipeline_parse(const char *url)
{
	const char *option = strstr(url, "?pipeline=");
	unsigned long depth = option ? strtoul(option + strlen("?pipeline="), NULL, 10) : 1;

	return depth >= 1 && depth <= PIPELINE_MAX ? (unsigned int)depth : 1;
}

static int socket_connect(const struct sockaddr_storage *address, socklen_t len,
			  uint32_t timeout_ms)
{
	const struct timeval timeout = { .tv_sec = timeout_ms / 1000,
					 .tv_usec = timeout_ms % 1000 * 1000 };
	const int yes = 1;
	int fd;

	fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, len) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    (address->ss_family == AF_INET &&
	     setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)))) {
		const int error = -errno;

		close(fd);
		return error;
	}
	return fd;
}

enum kvd_status kvd_open(struct kvd **handle, const char *url, const struct kvd_options *options)
{
	struct sockaddr_storage address;
	socklen_t len = 0;
	struct kvd *mc;

	*handle = NULL;
	if (!strncmp(url, "memcached://", 12))
		len = address_parse(url + 12, &address);
	if (!len) {
		snprintf(open_error, sizeof(open_error),
			 "give memcached://HOST:PORT or memcached:///PATH");
		return KVD_ERR_INVALID;
	}
	mc = calloc(1, sizeof(*mc));
	if (!mc)
		return KVD_ERR_NO_MEMORY;
	mc->pipeline = pipeline_parse(url);
	mc->fd = socket_connect(&address, len, options->timeout_ms);
	if (mc->fd < 0) {
		snprintf(open_error, sizeof(open_error), "%s", strerror(-mc->fd));
		free(mc);
		return KVD_ERR_UNREACHABLE;
	}
	*handle = mc;
	return KVD_OK;
}

void kvd_close(struct kvd *mc)
{
	if (!mc)
		return;
	close(mc->fd);
	free(mc);
}

/* Sends all of @parts, which it changes. */
static enum kvd_status send_all(struct kvd *mc, struct iovec *parts, int count)
{
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
	ssize_t sent;

	while (message.msg_iovlen) {
		sent = sendmsg(mc->fd, &message, MSG_NOSIGNAL);
		if (sent < 0)
			return lose(mc, KVD_ERR_DISCONNECTED, strerror(errno));
		while (message.msg_iovlen && (size_t)sent >= message.msg_iov->iov_len) {
			sent -= (ssize_t)message.msg_iov->iov_len;
			message.msg_iov++;
			message.msg_iovlen--;
		}
		if (message.msg_iovlen) {
			message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent;
			message.msg_iov->iov_len -= (size_t)sent;
		}
	}
	return KVD_OK;
}

static enum kvd_status receive_some(struct kvd *mc, void *bytes, size_t size, size_t *received)
{
	ssize_t got = recv(mc->fd, bytes, size, 0);

	if (got < 0)
		return lose(mc, errno == EAGAIN ? KVD_ERR_TIMEOUT : KVD_ERR_DISCONNECTED,
			    strerror(errno));
	if (!got)
		return lose(mc, KVD_ERR_DISCONNECTED, "memcached closed the connection");
	*received = (size_t)got;
	return KVD_OK;
}

/* Takes one line, its \r\n replaced by a zero. It stands until the next receive. */
static enum kvd_status take_line(struct kvd *mc, char **line)
{
	enum kvd_status status;
	size_t received;
	char *end;

	while (!(end = memmem(mc->buffer + mc->begin, mc->end - mc->begin, "\r\n", 2))) {
		memmove(mc->buffer, mc->buffer + mc->begin, mc->end - mc->begin);
		mc->end -= mc->begin;
		mc->begin = 0;
		if (mc->end == sizeof(mc->buffer))
			return lose(mc, KVD_ERR_PROTOCOL, "a line without an end");
		status = receive_some(mc, mc->buffer + mc->end, sizeof(mc->buffer) - mc->end,
				      &received);
		if (status)
			return status;
		mc->end += received;
	}
	*end = '\0';
	*line = mc->buffer + mc->begin;
	mc->begin = (size_t)(end + 2 - mc->buffer);
	return KVD_OK;
}

/* Takes @len bytes of a value. */
static enum kvd_status take_bytes(struct kvd *mc, char *bytes, size_t len)
{
	size_t have = mc->end - mc->begin < len ? mc->end - mc->begin : len, received;
	enum kvd_status status;

	memcpy(bytes, mc->buffer + mc->begin, have);
	mc->begin += have;
	for (; have < len; have += received) {
		status = receive_some(mc, bytes + have, len - have, &received);
		if (status)
			return status;
	}
	return KVD_OK;
}

/* Takes the answers to the PUTs under way. */
static enum kvd_status take_stored(struct kvd *mc)
{
	enum kvd_status status, result = KVD_OK;
	char *line;

	for (; mc->unanswered; mc->unanswered--) {
		status = take_line(mc, &line);
		if (status)
			return status;
		if (strcmp(line, "STORED")) {
			snprintf(mc->error, sizeof(mc->error), "%s", line);
			result = KVD_ERR_NO_SPACE;
		}
	}
	return result;
}

enum kvd_status kvd_put(struct kvd *mc, const void *key, size_t key_len, const void *value,
			size_t value_len, const struct kvd_put_args *args, uint64_t *version)
{
	char command[MC_KEY_MAX + 64];
	struct iovec parts[3] = { { .iov_base = command },
				  { .iov_base = (void *)value, .iov_len = value_len },
				  { .iov_base = (void *)"\r\n", .iov_len = 2 } };
	enum kvd_status status;

	(void)args;
	(void)version;
	if (mc->lost)
		return KVD_ERR_DISCONNECTED;
	if (!key_len || key_len > MC_KEY_MAX)
		return KVD_ERR_INVALID;
	parts[0].iov_len = (size_t)snprintf(command, sizeof(command), "set %.*s 0 0 %zu\r\n",
					    (int)key_len, (const char *)key, value_len);
	mc->stats.puts++;
	mc->stats.round_trips++;
	status = send_all(mc, parts, 3);
	if (status)
		return status;
	mc->unanswered++;
	return mc->unanswered < mc->pipeline ? KVD_OK : take_stored(mc);
}

/* Takes the value that @header ("key flags bytes") announces into the request it answers. */
static enum kvd_status take_value(struct kvd *mc, const char *header,
				  struct kvd_get_request *request)
{
	enum kvd_status status;
	size_t len;
	char end[2];

	if (sscanf(header, "%*s %*u %zu", &len) != 1)
		return lose(mc, KVD_ERR_PROTOCOL, "a VALUE line without a length");
	if (len > request->value_size)
		return lose(mc, KVD_ERR_PROTOCOL, "a longer value than expected");
	status = take_bytes(mc, request->value, len);
	if (!status)
		status = take_bytes(mc, end, sizeof(end));
	request->status = status;
	request->item = (struct kvd_item){ .value_len = len };
	return status;
}

static bool is_key(const struct kvd_get_request *request, const char *header)
{
	return !strncmp(header, request->key, request->key_len) && header[request->key_len] == ' ';
}

/* Takes the answer to a `get` of @count keys: those found, in their order, then END. */
static enum kvd_status take_values(struct kvd *mc, struct kvd_get_request *requests, size_t count)
{
	enum kvd_status status;
	size_t i = 0;
	char *line;

	while (!(status = take_line(mc, &line))) {
		if (!strcmp(line, "END"))
			return KVD_OK;
		if (strncmp(line, "VALUE ", 6))
			return lose(mc, KVD_ERR_PROTOCOL, line);
		while (i < count && !is_key(&requests[i], line + 6))
			i++;
		if (i == count)
			return lose(mc, KVD_ERR_PROTOCOL, "a value that was not asked for");
		status = take_value(mc, line + 6, &requests[i++]);
		if (status)
			return status;
		mc->stats.hits++;
	}
	return status;
}

static enum kvd_status get_some(struct kvd *mc, struct kvd_get_request *requests, size_t count)
{
	char command[MULTIGET_MAX * (MC_KEY_MAX + 1) + 8];
	struct iovec part = { .iov_base = command };
	enum kvd_status status;
	size_t i, len = 3;

	memcpy(command, "get", 3);
	for (i = 0; i < count; i++) {
		if (!requests[i].key_len || requests[i].key_len > MC_KEY_MAX)
			return lose(mc, KVD_ERR_INVALID, "a key memcached does not take");
		requests[i].status = KVD_NOT_FOUND;
		command[len++] = ' ';
		memcpy(command + len, requests[i].key, requests[i].key_len);
		len += requests[i].key_len;
	}
	memcpy(command + len, "\r\n", 2);
	part.iov_len = len + 2;
	mc->stats.gets += count;
	mc->stats.round_trips++;
	status = take_stored(mc);
	if (!status)
		status = send_all(mc, &part, 1);
	return status ? status : take_values(mc, requests, count);
}

enum kvd_status kvd_get_many(struct kvd *mc, struct kvd_get_request *requests, size_t count)
{
	enum kvd_status status = mc->lost ? KVD_ERR_DISCONNECTED : KVD_OK;
	size_t i, done, some;

	for (done = 0; !status && done < count; done += some) {
		some = count - done < MULTIGET_MAX ? count - done : MULTIGET_MAX;
		status = get_some(mc, requests + done, some);
	}
	for (i = 0; status && i < count; i++)
		requests[i].status = status;
	return status;
}

enum kvd_status kvd_get(struct kvd *mc, const void *key, size_t key_len, void *value,
			size_t value_size, struct kvd_item *item)
{
	struct kvd_get_request request = {
		.key = key, .key_len = key_len, .value = value, .value_size = value_size
	};

	kvd_get_many(mc, &request, 1);
	if (item)
		*item = request.item;
	return request.status;
}

/* "STAT rusage_user 12.345678" becomes "cpu_user_us 12345678". */
static size_t stat_print(const char *line, char *text, size_t size)
{
	unsigned long seconds, micros;
	char kind[16];
	int len = 0;

	if (sscanf(line, "STAT rusage_%15[a-z] %lu.%lu", kind, &seconds, &micros) == 3)
		len = snprintf(text, size, "cpu_%s_us %lu\n", kind, seconds * 1000000 + micros);
	return len > 0 && (size_t)len < size ? (size_t)len : 0;
}

enum kvd_status kvd_server_stats(struct kvd *mc, char *text, size_t size, size_t *text_len)
{
	struct iovec part = { .iov_base = (void *)"stats\r\n", .iov_len = 7 };
	enum kvd_status status;
	size_t len = 0;
	char *line;

	if (mc->lost)
		return KVD_ERR_DISCONNECTED;
	status = send_all(mc, &part, 1);
	while (!status && !(status = take_line(mc, &line)) && strcmp(line, "END"))
		len += stat_print(line, text + len, size - len);
	text[len] = '\0';
	if (text_len)
		*text_len = len;
	return status;
}

void kvd_info(const struct kvd *mc, struct kvd_info *info)
{
	(void)mc;
	*info = (struct kvd_info){ .device_kind = "memcached",
				   .device_name = "socket",
				   .device_why = "for comparison",
				   .value_max = 1 << 20 };
}

void kvd_stats(const struct kvd *mc, struct kvd_stats *stats)
{
	*stats = mc->stats;
}
