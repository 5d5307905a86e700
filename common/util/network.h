/* SPDX-License-Identifier: MIT */
/*
 * Networks of IP addresses, "10.9.0.0/24" or "fd00::/8" (CIDR, RFC 4632 and RFC 4291), and whether
 * an address is in one. An IPv4 address mapped to IPv6 (::ffff:10.9.0.1) counts as IPv4: IPv6
 * networks do not contain it. Any thread.
 */
#ifndef KVD_COMMON_UTIL_NETWORK_H
#define KVD_COMMON_UTIL_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/parse.h"

struct ip_address {
	bool v6;
	uint8_t bytes[16]; /* IPv4: the first 4, then zeros */
};

struct network {
	struct ip_address address; /* zeros after the first @bits */
	unsigned int bits;	   /* 0 to 32, or to 128 */
};

/*
 * Parses a network; without "/bits" it is that one address. 0, or -EINVAL with the reason in @why,
 * if that is not NULL: for example, bits after the network's are set.
 */
int network_parse(struct network *network, const char *text, struct parse_why *why);

/*
 * Parses an address in the form of struct cm_peer (common/rdma/device.h): "10.9.0.1:4711",
 * "[fe80::1%eth0]:4711", or either without a port ("fe80::1"). False: it is not an address.
 */
bool ip_address_parse(struct ip_address *address, const char *text);

/*
 * Reduces an IPv6 address to its network of 64 bits: the host chooses the rest itself (RFC 4291,
 * 2.5.1; RFC 7421), and changes it all the time (RFC 8981).
 */
void ip_address_to_host(struct ip_address *address);

bool network_holds(const struct network *network, const struct ip_address *address);

/*
 * Whether the address @text is in one of @list, networks separated by commas; an empty list
 * contains every address. Entries that are not networks contain none.
 */
bool networks_hold(const char *list, const char *text);

/* Below 0, 0 or above it, as for qsort(3): the same networks are equal. */
int network_compare(const struct network *a, const struct network *b);

#endif /* KVD_COMMON_UTIL_NETWORK_H */
