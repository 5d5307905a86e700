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

/* The default: only the server's own user may connect. */
#define SOFTNIC_MODE_DEFAULT 0600

#define PORT_DIGITS_MAX 5
#define PORT_MAX 65535

/* The bytes of a host name, an IPv4 address or an IPv6 address with its %interface. */
#define NAME_BYTES                                                                                 \
	"abcdefghijklmnopqrstuvwxyz"                                                               \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ"                                                               \
	"0123456789.-_"
#define IPV6_BYTES NAME_BYTES ":%"

/* Of a URL that is refused. */
struct why {
	char *text;
	size_t size;
	const char *scheme;
};

static int refuse(struct why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(struct why *why, const char *format, ...)
{
	va_list args;

	if (why->size) {
		va_start(args, format);
		vsnprintf(why->text, why->size, format, args);
		va_end(args);
	}
	return -EINVAL;
}

/* *end is set to what follows. */
static int port_parse(uint16_t *port, const char *text, const char **end, struct why *why)
{
	size_t digits = strspn(text, "0123456789");
	unsigned int value = 0;

	*end = text + digits;
	if (digits == 0 || digits > PORT_DIGITS_MAX || (**end != '\0' && **end != '?'))
		return refuse(why, "'%s' is not a port: write a number from 1 to %d after the ':'.",
			      text, PORT_MAX);
	for (size_t i = 0; i < digits; i++)
		value = value * 10 + (unsigned int)(text[i] - '0');
	if (value == 0 || value > PORT_MAX)
		return refuse(why, "The port %s is out of range: use 1 to %d.", text, PORT_MAX);
	*port = (uint16_t)value;
	return 0;
}

static int host_parse(struct device_addr *addr, const char *host, size_t len, const char *allowed,
		      struct why *why)
{
	if (len == 0)
		return refuse(why, "The host is missing: write %sHOST:PORT.", why->scheme);
	if (len >= sizeof(addr->host))
		return refuse(why, "The host is %zu bytes long: use at most %zu.", len,
			      sizeof(addr->host) - 1);
	if (strspn(host, allowed) < len)
		return refuse(why, "'%.*s' is not a host: write a name, an IPv4 address or [IPv6].",
			      (int)len, host);
	memcpy(addr->host, host, len);
	addr->host[len] = '\0';
	return 0;
}

/* Of the host and port, which options may follow. */
static const char *last_colon(const char *text)
{
	return memrchr(text, ':', strcspn(text, "?"));
}

static int inet_parse(struct device_addr *addr, const char *rest, struct why *why)
{
	bool bracket = rest[0] == '[';
	const char *host = rest + bracket;
	const char *end = bracket ? strchr(host, ']') : last_colon(host);
	const char *port, *options;
	int err;

	if (!end)
		return bracket ?
			       refuse(why, "The ']' is missing: write %s[ADDRESS]:PORT.",
				      why->scheme) :
			       refuse(why, "The port is missing: write %sHOST:PORT.", why->scheme);
	if (!bracket && strchr(host, ':') != end)
		return refuse(why, "An IPv6 address needs brackets: %s[ADDRESS]:PORT.",
			      why->scheme);
	port = end + bracket;
	if (*port != ':')
		return refuse(why, "The port is missing: write %s[ADDRESS]:PORT.", why->scheme);
	err = host_parse(addr, host, (size_t)(end - host), bracket ? IPV6_BYTES : NAME_BYTES, why);
	if (err)
		return err;
	err = port_parse(&addr->port, port + 1, &options, why);
	if (err || !*options)
		return err;
	return link_parse(&addr->link, options + 1, addr->kind & DEVICES_OVER_TCP, why->text,
			  why->size);
}

static int softnic_parse(struct device_addr *addr, const char *path, struct why *why)
{
	size_t len = strlen(path);

	if (path[0] != '/')
		return refuse(why, "The path must be absolute, so write three slashes: "
				   "softnic:///run/kvd/kvd.sock.");
	if (path[len - 1] == '/')
		return refuse(why, "'%s' is a directory: add the name of the socket.", path);
	if (len >= sizeof(addr->path))
		return refuse(why, "The path is %zu bytes long: a Unix socket's may have %zu.", len,
			      sizeof(addr->path) - 1);
	memcpy(addr->path, path, len + 1);
	addr->mode = SOFTNIC_MODE_DEFAULT;
	return 0;
}

static const struct {
	const char *scheme;
	enum device_kind kind;
	int (*parse)(struct device_addr *addr, const char *rest, struct why *why);
} schemes[] = {
	{ "rdma://", DEVICE_VERBS, inet_parse },
	{ "rdma+tcp://", DEVICE_VERBS_TCP, inet_parse },
	{ "rdma+tls://", DEVICE_VERBS_TLS, inet_parse },
	{ "softnic://", DEVICE_SOFTNIC, softnic_parse },
};

#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

const char *device_scheme(enum device_kind kind)
{
	size_t i = 0;

	while (schemes[i].kind != kind)
		i++;
	return schemes[i].scheme;
}

int device_addr_parse(struct device_addr *addr, const char *url, char *why, size_t why_size)
{
	struct device_addr parsed = { 0 };
	struct why reason = { why, why_size, NULL };
	int err;

	for (size_t i = 0; i < SCHEMES; i++) {
		reason.scheme = schemes[i].scheme;
		if (strncmp(url, reason.scheme, strlen(reason.scheme)) != 0)
			continue;
		parsed.kind = schemes[i].kind;
		err = schemes[i].parse(&parsed, url + strlen(reason.scheme), &reason);
		if (!err)
			*addr = parsed;
		return err;
	}
	return refuse(&reason,
		      "'%s' is not a kvd URL: write one like rdma://10.0.0.1:7471, "
		      "rdma+tcp://10.0.0.1:7472, rdma+tls://10.0.0.1:7473 or "
		      "softnic:///run/kvd/kvd.sock.",
		      url);
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
