/* SPDX-License-Identifier: MIT */
#include "server/worker/principal.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "common/util/network.h"

static void address_name(struct principal *principal, const char *text)
{
	char host[INET6_ADDRSTRLEN];
	struct ip_address address;

	if (!ip_address_parse(&address, text)) {
		snprintf(principal->name, sizeof(principal->name), "addr=%.*s", DEVICE_PEER_MAX,
			 text);
		return;
	}
	ip_address_to_host(&address);
	inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes, host, sizeof(host));
	snprintf(principal->name, sizeof(principal->name), address.v6 ? "addr=%s/64" : "addr=%s",
		 host);
}

void principal_init(struct principal *principal, const struct cm_peer *peer,
		    const struct user *user)
{
	*principal = (struct principal){ 0 };
	if (user && !user_is_wildcard(user) && user != &user_unauthenticated)
		snprintf(principal->name, sizeof(principal->name), "user=%.*s", USER_NAME_MAX,
			 user->name);
	else if (peer->identity)
		snprintf(principal->name, sizeof(principal->name), "identity=%.*s",
			 TLS_IDENTITY_MAX - 1, peer->identity);
	else if (peer->uid_known)
		snprintf(principal->name, sizeof(principal->name), "uid=%u",
			 (unsigned int)peer->uid);
	else
		address_name(principal, peer->address);
}
