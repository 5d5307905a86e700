/* SPDX-License-Identifier: MIT */
/* Makes and decodes a list of URLs to listen at. */
#include "server/config/listen_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/default_socket.h"
#include "common/util/network.h"
#include "server/config/option_table.h"

bool listen_list_next(const char **at, struct device_addr *addr)
{
	char url[DEVICE_URL_MAX];
	size_t length = strcspn(*at, ",");

	if (!length || length >= sizeof(url))
		return false;
	memcpy(url, *at, length);
	url[length] = '\0';
	*at += length;
	*at += **at == ',';
	return !device_listen_parse(addr, url, NULL, 0);
}

static bool is_same_socket(const struct device_addr *a, const struct device_addr *b)
{
	return *a->path && !strcmp(a->path, b->path);
}

static bool is_same(const struct device_addr *a, const struct device_addr *b)
{
	return a->kind == b->kind && a->port == b->port && !strcmp(a->host, b->host) &&
	       !strcmp(a->path, b->path);
}

int listen_list_add(char *list, const char *word, struct parse_why *why)
{
	char reason[sizeof(why->text) - 64];
	struct device_addr addr, other;
	unsigned int count = 0;
	const char *at = list;
	size_t length = strlen(list);

	if (!*word) {
		strcpy(why->text, "a URL is empty: remove one of the commas");
		return -EINVAL;
	}
	if (device_listen_parse(&addr, word, reason, sizeof(reason))) {
		snprintf(why->text, sizeof(why->text), "%.60s: %s", word, reason);
		return -EINVAL;
	}
	while (listen_list_next(&at, &other)) {
		count++;
		if (is_same(&addr, &other)) {
			snprintf(why->text, sizeof(why->text), "%.100s is listed twice: remove one",
				 word);
			return -EINVAL;
		}
		if (is_same_socket(&addr, &other)) {
			snprintf(why->text, sizeof(why->text),
				 "the socket of %.130s is listed twice: give it another path",
				 word);
			return -EINVAL;
		}
	}
	if (count == LISTEN_MAX || length + 1 + strlen(word) >= OPTION_LIST_MAX) {
		snprintf(why->text, sizeof(why->text), "more than %d URLs: give fewer", LISTEN_MAX);
		return -ERANGE;
	}
	snprintf(list + length, OPTION_LIST_MAX - length, "%s%s", length ? "," : "", word);
	return 0;
}

uint32_t listen_list_kinds(const char *list)
{
	struct device_addr addr;
	uint32_t kinds = 0;

	while (listen_list_next(&list, &addr))
		kinds |= addr.kind;
	return kinds;
}

/* Whether it is no address that clients could connect to. */
static bool is_wildcard(const struct device_addr *addr)
{
	static const uint8_t zeros[sizeof(((struct ip_address *)0)->bytes)];
	struct ip_address address;

	return !strcmp(addr->host, DEVICE_HOST_AUTO) ||
	       (ip_address_parse(&address, addr->host) &&
		!memcmp(address.bytes, zeros, sizeof(zeros)));
}

int listen_list_urls(const char *list, char *urls, size_t size, struct parse_why *why)
{
	char url[DEVICE_URL_MAX];
	struct device_addr addr;
	size_t used = 0;

	if (!strcmp(list, LISTEN_AUTO)) {
		strcpy(why->text, "server.listen = auto names no address");
		return -EINVAL;
	}
	while (listen_list_next(&list, &addr)) {
		if (!(addr.kind & DEVICES_ALL))
			continue;
		device_addr_text(&addr, url);
		if (addr.kind != DEVICE_SOFTNIC && is_wildcard(&addr)) {
			snprintf(why->text, sizeof(why->text),
				 "%.100s of server.listen is every address of this host", url);
			return -EINVAL;
		}
		if (addr.kind == DEVICE_SOFTNIC && !*addr.path) {
			default_socket_serve(addr.path);
			device_addr_text(&addr, url);
		}
		if (used + (used > 0) + strlen(url) >= size) {
			snprintf(why->text, sizeof(why->text),
				 "the URLs of server.listen have more than %zu bytes", size - 1);
			return -EINVAL;
		}
		used += (size_t)snprintf(urls + used, size - used, "%s%s", used ? "," : "", url);
	}
	return 0;
}
