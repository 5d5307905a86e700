/* SPDX-License-Identifier: MIT */
/*
 * Networks of IP addresses, "10.9.0.0/24" or "fd00::/8" (CIDR, RFC 4632 and RFC 4291), and whether
 * an address is in one. An address of IPv4 that is mapped to IPv6 (::ffff:10.9.0.1) is that of
 * IPv4: networks of IPv6 do not hold it. Any thread.
 */
#ifndef KVD_COMMON_UTIL_NETWORK_H
#define KVD_COMMON_UTIL_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/parse.h"

struct ip_address {
	bool v6;
	uint8_t bytes[16]; /* of IPv4 the first 4, and zeros */
};

struct network {
	struct ip_address address; /* zeros behind the first @bits */
	unsigned int bits;	   /* 0 to 32, or to 128 */
};

/*
 * Reads a network; without "/bits" it is that one address. 0, or -EINVAL with what is wrong in
 * @why, if that is not NULL: bits behind the network's are set, say.
 */
int network_parse(struct network *network, const char *text, struct parse_why *why);

/*
 * Reads an address, as struct cm_peer of common/rdma/device.h has it: "10.9.0.1:4711",
 * "[fe80::1%eth0]:4711", or either without a port ("fe80::1"). False: it is none.
 */
bool ip_address_parse(struct ip_address *address, const char *text);

/*
 * Leaves of an IPv6 address its network of 64 bits: the rest is the host's own choice (RFC 4291,
 * 2.5.1; RFC 7421), and changes all the time (RFC 8981).
 */
void ip_address_to_host(struct ip_address *address);

bool network_holds(const struct network *network, const struct ip_address *address);

/*
 * Whether one of @list, networks with commas between them, has the address @text; so does an empty
 * list. What is no network holds nothing.
 */
bool networks_hold(const char *list, const char *text);

/* Below 0, 0 or above it, as for qsort(3): the same networks are equal. */
int network_compare(const struct network *a, const struct network *b);

#endif /* KVD_COMMON_UTIL_NETWORK_H */
