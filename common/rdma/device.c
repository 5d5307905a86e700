/* SPDX-License-Identifier: MIT */
/*
 * What all kinds of device share: parsing the URLs of servers, and finding out whether this host
 * has an RDMA device.
 */
#include "common/rdma/device.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/util/unix_socket.h"

/* The default: only the server's own user may connect. */
#define SOFTNIC_MODE_DEFAULT 0600

#define PORT_DIGITS_MAX 5
#define PORT_MAX 65535
/* The default ports. */
#define PORT_RDMA 7471
#define PORT_RDMA_TCP 7472
#define PORT_RDMA_TLS 7473
#define PORT_MEMCACHED 11211
#define PORT_MEMCACHED_TLS 11212

/* The bytes of a host name, an IPv4 address or an IPv6 address with its %interface. */
#define NAME_BYTES                                                                                 \
	"abcdefghijklmnopqrstuvwxyz"                                                               \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ"                                                               \
	"0123456789.-_"
#define IPV6_BYTES NAME_BYTES ":%"

struct scheme;

/* State of parsing a URL. */
struct parse {
	const struct scheme *scheme;
	bool listen;
	char *text; /* why it is refused */
	size_t size;
};

struct scheme {
	const char *name;
	enum device_kind kind;
	uint16_t port; /* 0: it has none */
	int (*parse)(struct device_addr *addr, const char *rest, struct parse *parse);
};

static bool is_memcached(const struct scheme *scheme)
{
	return scheme->kind & LISTEN_MEMCACHED_ALL;
}

static int refuse(struct parse *parse, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(struct parse *parse, const char *format, ...)
{
	va_list args;

	if (parse->size) {
		va_start(args, format);
		vsnprintf(parse->text, parse->size, format, args);
		va_end(args);
	}
	return -EINVAL;
}

/* *end is set to what follows. */
static int port_parse(uint16_t *port, const char *text, const char **end, struct parse *parse)
{
	size_t digits = strspn(text, "0123456789");
	unsigned int value = 0;

	*end = text + digits;
	if (digits == 0 || digits > PORT_DIGITS_MAX || (**end != '\0' && **end != '?'))
		return refuse(parse,
			      "'%s' is not a port: write a number from 1 to %d after the ':'.",
			      text, PORT_MAX);
	for (size_t i = 0; i < digits; i++)
		value = value * 10 + (unsigned int)(text[i] - '0');
	if (value == 0 || value > PORT_MAX)
		return refuse(parse, "The port %s is out of range: use 1 to %d.", text, PORT_MAX);
	*port = (uint16_t)value;
	return 0;
}

static int host_parse(struct device_addr *addr, const char *host, size_t len, bool bracket,
		      struct parse *parse)
{
	if (len == 0 && parse->listen && !bracket) {
		strcpy(addr->host, DEVICE_HOST_AUTO);
		return 0;
	}
	if (len == 0)
		return refuse(parse, "The host is missing: write %sHOST:PORT.",
			      parse->scheme->name);
	if (len >= sizeof(addr->host))
		return refuse(parse, "The host is %zu bytes long: use at most %zu.", len,
			      sizeof(addr->host) - 1);
	if (strspn(host, bracket ? IPV6_BYTES : NAME_BYTES) < len)
		return refuse(parse,
			      "'%.*s' is not a host: write a name, an IPv4 address or [IPv6].",
			      (int)len, host);
	memcpy(addr->host, host, len);
	addr->host[len] = '\0';
	return 0;
}

static int inet_parse(struct device_addr *addr, const char *rest, struct parse *parse)
{
	bool bracket = rest[0] == '[';
	const char *host = rest + bracket;
	size_t len = strcspn(host, bracket ? "]" : ":?");
	const char *at = host + len;
	int err;

	if (bracket && *at++ != ']')
		return refuse(parse, "The ']' is missing: write %s[ADDRESS]:PORT.",
			      parse->scheme->name);
	if (!bracket && *at == ':' && memchr(at + 1, ':', strcspn(at + 1, "?")))
		return refuse(parse, "An IPv6 address needs brackets: %s[ADDRESS]:PORT.",
			      parse->scheme->name);
	if (*at && *at != ':' && *at != '?')
		return refuse(parse, "'%s' follows the ']': write %s[ADDRESS]:PORT.", at,
			      parse->scheme->name);
	err = host_parse(addr, host, len, bracket, parse);
	addr->port = parse->scheme->port;
	if (!err && *at == ':')
		err = port_parse(&addr->port, at + 1, &at, parse);
	if (err || !*at)
		return err;
	if (parse->listen)
		return refuse(parse,
			      "A URL to listen at has no options: leave out '%s', and set "
			      "the options of [rdma].",
			      at);
	return link_parse(&addr->link, at + 1, addr->kind & DEVICES_OVER_TCP, parse->text,
			  parse->size);
}

static int path_parse(struct device_addr *addr, const char *path, struct parse *parse)
{
	size_t len = strlen(path);

	addr->mode = SOFTNIC_MODE_DEFAULT;
	if (path[0] != '/')
		return refuse(parse,
			      "The path must be absolute, so write three slashes: "
			      "%s/run/kvd/kvd.sock.",
			      parse->scheme->name);
	if (path[len - 1] == '/')
		return refuse(parse, "'%s' is a directory: add the name of the socket.", path);
	if (len >= sizeof(addr->path))
		return refuse(parse, "The path is %zu bytes long: a Unix socket's may be %zu.", len,
			      sizeof(addr->path) - 1);
	memcpy(addr->path, path, len + 1);
	return 0;
}

static int softnic_parse(struct device_addr *addr, const char *path, struct parse *parse)
{
	addr->mode = SOFTNIC_MODE_DEFAULT;
	return *path || !parse->listen ? path_parse(addr, path, parse) : 0;
}

static int memcached_parse(struct device_addr *addr, const char *rest, struct parse *parse)
{
	return *rest == '/' ? path_parse(addr, rest, parse) : inet_parse(addr, rest, parse);
}

static const struct scheme schemes[] = {
	{ "rdma://", DEVICE_RDMA, PORT_RDMA, inet_parse },
	{ "rdma+tcp://", DEVICE_RDMA_TCP, PORT_RDMA_TCP, inet_parse },
	{ "rdma+tls://", DEVICE_RDMA_TLS, PORT_RDMA_TLS, inet_parse },
	{ "softnic://", DEVICE_SOFTNIC, 0, softnic_parse },
	{ "memcached://", LISTEN_MEMCACHED, PORT_MEMCACHED, memcached_parse },
	{ "memcached+tls://", LISTEN_MEMCACHED_TLS, PORT_MEMCACHED_TLS, inet_parse },
};

#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

const char *device_scheme(enum device_kind kind)
{
	size_t i = 0;

	while (schemes[i].kind != kind)
		i++;
	return schemes[i].name;
}

static int url_parse(struct device_addr *addr, const char *url, struct parse *parse)
{
	struct device_addr parsed = { 0 };
	int err;

	for (size_t i = 0; i < SCHEMES; i++) {
		parse->scheme = &schemes[i];
		if (strncmp(url, schemes[i].name, strlen(schemes[i].name)) != 0)
			continue;
		if (is_memcached(&schemes[i]) && !parse->listen)
			return refuse(parse,
				      "'%s' is for clients of memcached's protocol: write a URL "
				      "like rdma://HOST or softnic:///PATH of server.listen.",
				      url);
		parsed.kind = schemes[i].kind;
		err = schemes[i].parse(&parsed, url + strlen(schemes[i].name), parse);
		if (!err)
			*addr = parsed;
		return err;
	}
	return refuse(parse,
		      "'%s' is not a kvd URL: write one like rdma://10.0.0.1:7471, "
		      "rdma+tcp://10.0.0.1:7472, rdma+tls://10.0.0.1:7473 or "
		      "softnic:///run/kvd/kvd.sock.",
		      url);
}

int device_addr_parse(struct device_addr *addr, const char *url, char *why, size_t why_size)
{
	return url_parse(addr, url, &(struct parse){ .text = why, .size = why_size });
}

int device_listen_parse(struct device_addr *addr, const char *url, char *why, size_t why_size)
{
	return url_parse(addr, url,
			 &(struct parse){ .listen = true, .text = why, .size = why_size });
}

void device_addr_text(const struct device_addr *addr, char *text)
{
	const char *scheme = device_scheme(addr->kind);
	const char *host = strcmp(addr->host, DEVICE_HOST_AUTO) ? addr->host : "";

	if (!*host && !addr->port)
		snprintf(text, DEVICE_URL_MAX, "%s%s", scheme, addr->path);
	else
		snprintf(text, DEVICE_URL_MAX, strpbrk(host, ":%") ? "%s[%s]:%u" : "%s%s:%u",
			 scheme, host, addr->port);
}

int cm_peer_local(struct cm_peer *peer, int sock)
{
	struct ucred cred;
	int err = unix_socket_peer(sock, &cred);

	*peer = (struct cm_peer){ 0 };
	if (err)
		return err;
	snprintf(peer->address, sizeof(peer->address), "pid:%d", (int)cred.pid);
	peer->uid_known = true;
	peer->uid = cred.uid;
	return 0;
}

bool device_verbs_present(char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found = false;

	for (int i = 0; list && list[i] && !found; i++) {
		struct ibv_context *context = ibv_open_device(list[i]);

		if (!context)
			continue;
		snprintf(name, IBV_SYSFS_NAME_MAX, "%s", ibv_get_device_name(list[i]));
		ibv_close_device(context);
		found = true;
	}
	if (list)
		ibv_free_device_list(list);
	return found;
}
