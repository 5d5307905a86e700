/* SPDX-License-Identifier: MIT */
/* Remembers the peers of which a large value did not arrive, each for a while. */
#include "server/net/pull_peers.h"

#include <string.h>

/* The address without the port, which is another one for each connection. */
size_t peer_name_length(const struct cm_peer *peer)
{
	const char *port = peer->uid_known ? NULL : strrchr(peer->address, ':');

	return port ? (size_t)(port - peer->address) : strlen(peer->address);
}

static int find(const struct pull_peers *peers, const struct cm_peer *peer)
{
	size_t length = peer_name_length(peer);

	for (int i = 0; i < (int)PULL_PEERS_MAX; i++)
		if (peers->late[i].until_ns && !peers->late[i].name[length] &&
		    !memcmp(peers->late[i].name, peer->address, length))
			return i;
	return -1;
}

static int forgotten_first(const struct pull_peers *peers)
{
	int first = 0;

	for (int i = 1; i < (int)PULL_PEERS_MAX; i++)
		if (peers->late[i].until_ns < peers->late[first].until_ns)
			first = i;
	return first;
}

void pull_peers_add(struct pull_peers *peers, const struct cm_peer *peer, uint64_t until_ns)
{
	int i = find(peers, peer);

	if (i < 0) {
		i = forgotten_first(peers);
		memset(peers->late[i].name, 0, sizeof(peers->late[i].name));
		memcpy(peers->late[i].name, peer->address, peer_name_length(peer));
	}
	peers->late[i].until_ns = peers->until_ns = until_ns;
}

bool do_pull_peers_has(const struct pull_peers *peers, const struct cm_peer *peer, uint64_t now_ns)
{
	int i = find(peers, peer);

	return i >= 0 && now_ns < peers->late[i].until_ns;
}
