/* SPDX-License-Identifier: MIT */
#include "common/util/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Bytes of an address as text, with its zero: inet_pton(3) takes no longer one. */
#define ADDRESS_MAX INET6_ADDRSTRLEN
/* Bytes of an address with "/128". */
#define NETWORK_MAX (ADDRESS_MAX + 4)

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static bool address_read(struct ip_address *address, const char *text)
{
	*address = (struct ip_address){ 0 };
	if (inet_pton(AF_INET, text, address->bytes) == 1)
		return true;
	address->v6 = true;
	return inet_pton(AF_INET6, text, address->bytes) == 1;
}

bool ip_address_parse(struct ip_address *address, const char *text)
{
	const char *colon = strchr(text, ':');
	char host[ADDRESS_MAX];
	size_t length;

	if (*text == '[')
		length = strcspn(++text, "]%");
	else if (colon && !strchr(colon + 1, ':'))
		length = (size_t)(colon - text);
	else
		length = strcspn(text, "%");
	if (length >= sizeof(host))
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	if (!address_read(address, host))
		return false;
	if (!address->v6 || memcmp(address->bytes, mapped, sizeof(mapped)) != 0)
		return true;
	address->v6 = false;
	memmove(address->bytes, address->bytes + sizeof(mapped), 4);
	memset(address->bytes + 4, 0, sizeof(address->bytes) - 4);
	return true;
}

/* Clears the bits after the first @bits. */
static void address_mask(struct ip_address *address, unsigned int bits)
{
	for (unsigned int i = 0; i < sizeof(address->bytes); i++) {
		unsigned int keep = bits > 8 * i ? bits - 8 * i : 0;

		if (keep < 8)
			address->bytes[i] &= (uint8_t)(0xff00u >> keep);
	}
}

void ip_address_to_host(struct ip_address *address)
{
	if (address->v6)
		address_mask(address, 64);
}

static int refuse(struct parse_why *why, const char *text, const char *reason)
{
	if (why)
		snprintf(why->text, sizeof(why->text), "'%.50s' %s", text, reason);
	return -EINVAL;
}

int network_parse(struct network *network, const char *text, struct parse_why *why)
{
	size_t length = strcspn(text, "/");
	struct ip_address masked;
	char host[ADDRESS_MAX];
	uint64_t bits;

	if (length < sizeof(host)) {
		memcpy(host, text, length);
		host[length] = '\0';
	}
	if (length >= sizeof(host) || !address_read(&network->address, host))
		return refuse(why, text, "is not a network: write it like 10.9.0.0/24 or fd00::/8");
	network->bits = network->address.v6 ? 128 : 32;
	if (text[length]) {
		if (parse_uint(text + length + 1, 0, network->bits, &bits, NULL))
			return refuse(why, text,
				      "has no number of bits after '/': 0 to 32, for IPv6 to 128");
		network->bits = (unsigned int)bits;
	}
	masked = network->address;
	address_mask(&masked, network->bits);
	if (memcmp(masked.bytes, network->address.bytes, sizeof(masked.bytes)) != 0)
		return refuse(why, text,
			      "has bits set after the network's: clear them, or write /32 or "
			      "/128 for one address");
	return 0;
}

bool network_holds(const struct network *network, const struct ip_address *address)
{
	struct ip_address masked = *address;

	if (network->address.v6 != address->v6)
		return false;
	address_mask(&masked, network->bits);
	return !memcmp(masked.bytes, network->address.bytes, sizeof(masked.bytes));
}

bool networks_hold(const char *list, const char *text)
{
	struct ip_address address;
	struct network network;
	char word[NETWORK_MAX];
	size_t length;

	if (!*list)
		return true;
	if (!ip_address_parse(&address, text))
		return false;
	for (; *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		if (length >= sizeof(word))
			continue;
		memcpy(word, list, length);
		word[length] = '\0';
		if (!network_parse(&network, word, NULL) && network_holds(&network, &address))
			return true;
	}
	return false;
}

int network_compare(const struct network *a, const struct network *b)
{
	int order = (int)a->address.v6 - (int)b->address.v6;

	if (!order)
		order = memcmp(a->address.bytes, b->address.bytes, sizeof(a->address.bytes));
	return order ? order : (int)a->bits - (int)b->bits;
}
