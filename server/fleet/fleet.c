/* SPDX-License-Identifier: MIT */
/* Opens the fleet that the configuration names. */
#include "server/fleet/fleet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "server/fleet/static_map.h"

/* As many names as fit in a message, each after a space. */
static const char *members_list(const struct fleet_map *map, char *text, size_t size)
{
	size_t used = 0;
	uint32_t i;

	for (i = 0; i < map->head->members && size - used > FLEET_NAME_MAX + 8; i++)
		used += (size_t)snprintf(text + used, size - used, " %.*s", (int)FLEET_NAME_MAX,
					 map->members[i]->id);
	if (i < map->head->members)
		snprintf(text + used, size - used, " ...");
	return text;
}

static int member_find(struct fleet *fleet, const char *path, const char *member)
{
	char names[256];

	fleet->member = fleet_map_find(fleet->map, member);
	if (fleet->member < fleet->map->head->members)
		return 0;
	members_list(fleet->map, names, sizeof(names));
	if (*member)
		log_error("fleet.member = %s: %s has no such member: set one of%s", member, path,
			  names);
	else
		log_error("fleet.member is not set: set it to the name that this server has in "
			  "%s, one of%s",
			  path, names);
	return -EINVAL;
}

int fleet_open(struct fleet *fleet, const char *path, const char member[FLEET_NAME_MAX + 1])
{
	char why[STATIC_MAP_WHY_MAX];
	int err = static_map_load(&fleet->map, path, why);

	if (err) {
		log_error("fleet.file = %s", why);
		return err;
	}
	err = member_find(fleet, path, member);
	if (err) {
		fleet_close(fleet);
		return err;
	}
	fleet->shards = 0;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		fleet->shards += fleet_row_owner(fleet->map->rows[i]) == fleet->member;
	return 0;
}

void fleet_announce(const struct fleet *fleet)
{
	const struct fleet_head *head = fleet->map->head;

	log_notice("fleet %.*s: epoch %" PRIu64 ", member %.*s of %u, with %u of %u shards",
		   (int)FLEET_NAME_MAX, head->name, head->epoch, (int)FLEET_NAME_MAX,
		   fleet->map->members[fleet->member]->id, head->members, fleet->shards,
		   FLEET_SHARDS);
}

void fleet_close(struct fleet *fleet)
{
	fleet_map_free(fleet->map);
	fleet->map = NULL;
}
