/* SPDX-License-Identifier: MIT */
/* Parses and prints the URL of server.http. */
#include "server/config/http_url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/network.h"

#define HTTP "http://"
#define HTTPS "https://"

static bool scheme_take(const char **text, const char *scheme)
{
	size_t length = strlen(scheme);

	if (strncmp(*text, scheme, length) != 0)
		return false;
	*text += length;
	return true;
}

/* Takes "10.9.0.1" or "[fd00::1]". False: it is no such address. */
static bool host_take(const char **text, char host[HTTP_HOST_MAX])
{
	const bool v6 = **text == '[';
	const char *begin = *text + v6, *end = strchr(begin, v6 ? ']' : ':');
	struct ip_address address;
	size_t length = end ? (size_t)(end - begin) : strlen(begin);

	if (length >= HTTP_HOST_MAX || (v6 && !end))
		return false;
	memcpy(host, begin, length);
	host[length] = '\0';
	*text = begin + length + v6;
	return ip_address_parse(&address, host) && address.v6 == v6;
}

int http_url_parse(struct http_url *url, const char *text, struct parse_why *why)
{
	struct http_url parsed = { 0 };
	const char *at = text;
	uint64_t port;

	parsed.tls = scheme_take(&at, HTTPS);
	if (!parsed.tls)
		scheme_take(&at, HTTP);
	if (!host_take(&at, parsed.host) || *at++ != ':' ||
	    parse_uint(at, 1, UINT16_MAX, &port, NULL)) {
		snprintf(
			why->text, sizeof(why->text),
			"'%.100s' is not ADDRESS:PORT: give the address to listen at and a port, "
			"like 127.0.0.1:7480 or [::1]:7480; 0.0.0.0:7480 is every address of IPv4, "
			"[::]:7480 of IPv6, too",
			text);
		return -EINVAL;
	}
	parsed.port = (uint16_t)port;
	*url = parsed;
	return 0;
}

const char *http_url_text(const struct http_url *url, char text[HTTP_URL_MAX])
{
	snprintf(text, HTTP_URL_MAX, strchr(url->host, ':') ? "%s[%s]:%u" : "%s%s:%u",
		 url->tls ? HTTPS : HTTP, url->host, url->port);
	return text;
}
