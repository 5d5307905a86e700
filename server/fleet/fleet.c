/* SPDX-License-Identifier: MIT */
/* Opens the fleet that the configuration names. */
#include "server/fleet/fleet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <urcu-qsbr.h>

#include "common/util/heap.h"
#include "common/util/log.h"
#include "server/fleet/static_map.h"

const char *fleet_members_text(const struct fleet_map *map, char *text, size_t size)
{
	size_t used = 0;
	uint32_t i;

	*text = '\0';
	for (i = 0; i < map->head->members && size - used > FLEET_NAME_MAX + 8; i++)
		used += (size_t)snprintf(text + used, size - used, " %.*s", (int)FLEET_NAME_MAX,
					 map->members[i]->id);
	if (i < map->head->members)
		snprintf(text + used, size - used, " ...");
	return text;
}

static int member_check(const struct fleet_map *map, const char *path, const char *member)
{
	char names[256];

	if (fleet_map_find(map, member) < map->head->members)
		return 0;
	fleet_members_text(map, names, sizeof(names));
	if (*member)
		log_error("fleet.member = %s: %s has no such member: set one of%s", member, path,
			  names);
	else
		log_error("fleet.member is not set: set it to the name that this server has in "
			  "%s, one of%s",
			  path, names);
	return -EINVAL;
}

int fleet_fix(struct fleet *fleet, struct fleet_map *map, const char id[FLEET_NAME_MAX])
{
	struct fleet_view *view = fleet_view_make(map, id);

	if (!view)
		return -ENOMEM;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (fleet_row_owner(map->rows[i]) == view->member)
			fleet_view_serve(view, i);
	memcpy(fleet->id, id, sizeof(fleet->id));
	fleet->hash_seed = map->head->hash_seed;
	fleet->end_ns = UINT64_MAX;
	fleet->view = view;
	return 0;
}

int fleet_open(struct fleet *fleet, const char *path, const char member[FLEET_NAME_MAX + 1])
{
	char why[STATIC_MAP_WHY_MAX];
	struct fleet_map *map;
	int err = static_map_load(&map, path, why);

	if (err) {
		log_error("fleet.file = %s", why);
		return err;
	}
	err = member_check(map, path, member);
	if (!err)
		err = fleet_fix(fleet, map, member);
	if (err)
		fleet_map_free(map);
	return err;
}

void fleet_announce(const struct fleet *fleet)
{
	const struct fleet_head *head = fleet->view->map->head;

	log_notice("fleet %.*s: epoch %" PRIu64 ", member %.*s of %u, with %u of %u shards",
		   (int)FLEET_NAME_MAX, head->name, head->epoch, (int)FLEET_NAME_MAX, fleet->id,
		   head->members, fleet->view->shards, FLEET_SHARDS);
}

void fleet_close(struct fleet *fleet)
{
	fleet_view_free(fleet->view);
	fleet->view = NULL;
}

struct fleet_view *fleet_view_make(struct fleet_map *map, const char id[FLEET_NAME_MAX])
{
	struct fleet_view *view = heap_calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	view->map = map;
	view->member = fleet_map_find(map, id);
	if (view->member == map->head->members)
		view->member = FLEET_NO_OWNER;
	for (uint32_t i = 0; i < FLEET_SHARDS && view->member != FLEET_NO_OWNER; i++)
		view->shards += fleet_row_owner(map->rows[i]) == view->member;
	return view;
}

void fleet_view_free(struct fleet_view *view)
{
	if (!view)
		return;
	fleet_map_free(view->map);
	heap_free(view);
}

bool fleet_map_balances(const struct fleet_map *map)
{
	for (uint32_t i = 0; i < map->head->members; i++)
		if (map->members[i]->flags & FLEET_MEMBER_BALANCES)
			return true;
	return false;
}

void fleet_publish(struct fleet *fleet, struct fleet_view *view)
{
	struct fleet_view *old = fleet->view;

	if (fleet_map_balances(view->map))
		atomic_store_explicit(&fleet->balanced_epoch, view->map->head->epoch,
				      memory_order_relaxed);
	__atomic_store_n(&fleet->view, view, __ATOMIC_RELEASE);
	synchronize_rcu();
	if (fleet->turns_wait)
		fleet->turns_wait(fleet->workers);
	fleet_view_free(old);
}

static struct fleet_inbox *inbox_lock(const struct fleet *fleet)
{
	pthread_mutex_lock(&fleet->inbox->lock);
	return fleet->inbox;
}

static void inbox_unlock(struct fleet_inbox *inbox)
{
	pthread_mutex_unlock(&inbox->lock);
	inbox->wake(inbox->thread);
}

void fleet_want_look(const struct fleet *fleet)
{
	struct fleet_inbox *inbox = inbox_lock(fleet);

	inbox->wants.look = true;
	inbox_unlock(inbox);
}

void fleet_want_accept(const struct fleet *fleet, uint64_t generation, uint64_t epoch)
{
	struct fleet_inbox *inbox = inbox_lock(fleet);

	inbox->wants.accept_generation = generation;
	inbox->wants.accept_epoch = epoch;
	inbox_unlock(inbox);
}

void fleet_want_change(const struct fleet *fleet, enum wire_fleet what,
		       const char id[FLEET_NAME_MAX])
{
	struct fleet_inbox *inbox = inbox_lock(fleet);

	inbox->wants.change = true;
	inbox->wants.what = what;
	memcpy(inbox->wants.id, id, FLEET_NAME_MAX);
	inbox_unlock(inbox);
}

void fleet_wants_take(const struct fleet *fleet, struct fleet_wants *wants)
{
	struct fleet_inbox *inbox = inbox_lock(fleet);

	*wants = inbox->wants;
	inbox->wants = (struct fleet_wants){ 0 };
	pthread_mutex_unlock(&inbox->lock);
}
