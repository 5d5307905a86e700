/* SPDX-License-Identifier: MIT */
/*
 * The registry of connections, for the control thread: gives each a number for users, finds it by
 * that number, and lists all of them page by page, in constant time for each.
 *
 * A connection has a slot while it is open. Its number combines the slot and how often the slot was
 * used before, so a number is never used again.
 */
#ifndef KVD_SERVER_CONTROL_CONN_REGISTRY_H
#define KVD_SERVER_CONTROL_CONN_REGISTRY_H

#include <stdint.h>

struct client;

struct conn_registry {
	struct client **slots; /* NULL: free */
	uint64_t *numbers;     /* of each slot's connection, or of its next one */
	uint32_t *free;	       /* stack of free slots */
	uint32_t free_count;
	uint32_t count; /* slots; a power of two */
};

/* Room for @conns_max connections. 0 or -ENOMEM. */
int conn_registry_init(struct conn_registry *registry, uint32_t conns_max);
void conn_registry_release(struct conn_registry *registry);

/* Returns the connection's number, never 0; or 0 if all slots are taken. */
uint64_t conn_registry_add(struct conn_registry *registry, struct client *client);
void conn_registry_remove(struct conn_registry *registry, uint64_t number);

/* The connection with this number, or NULL. */
struct client *conn_registry_find(const struct conn_registry *registry, uint64_t number);

/*
 * The next connection at slot *@slot or after it, or NULL; looks at @slots_max slots at most and
 * moves *@slot past the last one. At registry->count all slots were seen: each connection that was
 * open all the time once.
 */
struct client *conn_registry_next(const struct conn_registry *registry, uint32_t *slot,
				  uint32_t slots_max);

#endif /* KVD_SERVER_CONTROL_CONN_REGISTRY_H */
