/* SPDX-License-Identifier: MIT */
/* Numbers connections and finds them by their numbers. */
#include "server/control/conn_registry.h"

#include <errno.h>
#include <stdlib.h>

int conn_registry_init(struct conn_registry *registry, uint32_t conns_max)
{
	uint32_t i;

	registry->count = 1;
	while (registry->count < conns_max)
		registry->count *= 2;
	registry->slots = calloc(registry->count, sizeof(struct client *));
	registry->numbers = calloc(registry->count, sizeof(*registry->numbers));
	registry->free = calloc(registry->count, sizeof(*registry->free));
	if (!registry->slots || !registry->numbers || !registry->free) {
		conn_registry_release(registry);
		return -ENOMEM;
	}
	registry->free_count = registry->count;
	for (i = 0; i < registry->count; i++) {
		registry->free[i] = registry->count - 1 - i;
		/* No connection has the number 0. */
		registry->numbers[i] = i ? i : registry->count;
	}
	return 0;
}

void conn_registry_release(struct conn_registry *registry)
{
	free(registry->slots);
	free(registry->numbers);
	free(registry->free);
	*registry = (struct conn_registry){ 0 };
}

static uint32_t number_slot(const struct conn_registry *registry, uint64_t number)
{
	return (uint32_t)number & (registry->count - 1);
}

uint64_t conn_registry_add(struct conn_registry *registry, struct client *client)
{
	uint32_t slot;

	if (!registry->free_count)
		return 0;
	slot = registry->free[--registry->free_count];
	registry->slots[slot] = client;
	return registry->numbers[slot];
}

void conn_registry_remove(struct conn_registry *registry, uint64_t number)
{
	uint32_t slot = number_slot(registry, number);

	registry->slots[slot] = NULL;
	registry->numbers[slot] += registry->count;
	registry->free[registry->free_count++] = slot;
}

struct client *conn_registry_find(const struct conn_registry *registry, uint64_t number)
{
	uint32_t slot = number_slot(registry, number);

	return registry->numbers[slot] == number ? registry->slots[slot] : NULL;
}

struct client *conn_registry_next(const struct conn_registry *registry, uint32_t *slot,
				  uint32_t slots_max)
{
	while (slots_max-- && *slot < registry->count)
		if (registry->slots[(*slot)++])
			return registry->slots[*slot - 1];
	return NULL;
}
