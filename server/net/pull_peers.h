/* SPDX-License-Identifier: MIT */
/*
 * Peers of which a large value did not arrive: what they ask for is served behind what others ask
 * for, for a while (B6 in server/net/budget.h).
 *
 * A peer is what a client can't change by connecting again: its process on softnic, its host's
 * address on a verbs device. The worker's.
 */
#ifndef KVD_SERVER_NET_PULL_PEERS_H
#define KVD_SERVER_NET_PULL_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"

/* With more of them, the one that would be forgotten first is forgotten. */
#define PULL_PEERS_MAX 64

/* Bytes of @peer->address that name the peer: those without the port. */
size_t peer_name_length(const struct cm_peer *peer);

struct pull_peers {
	struct {
		char name[DEVICE_PEER_MAX];
		uint64_t until_ns; /* 0: not in use */
	} late[PULL_PEERS_MAX];
	uint64_t until_ns; /* the latest of all */
};

/* A value of @peer did not arrive: remembers that until @until_ns, which is later each time. */
void pull_peers_add(struct pull_peers *peers, const struct cm_peer *peer, uint64_t until_ns);

bool do_pull_peers_has(const struct pull_peers *peers, const struct cm_peer *peer, uint64_t now_ns);

static inline bool pull_peers_has(const struct pull_peers *peers, const struct cm_peer *peer,
				  uint64_t now_ns)
{
	return now_ns < peers->until_ns && do_pull_peers_has(peers, peer, now_ns);
}

#endif /* KVD_SERVER_NET_PULL_PEERS_H */
