/* SPDX-License-Identifier: MIT */
/* The members of a fleet, and their handles. */
#include "client/libkvd/fleet_links.h"

#include <stdio.h>
#include <string.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/device.h"
#include "client/libkvd/reconnect.h"
#include "client/libkvd/register.h"
#include "common/util/clock.h"
#include "common/util/heap.h"

/* The share of one member; the handles of a process share it. */
static size_t cache_share(const struct kvd *home)
{
	const struct fleet_map *map = home->fleet->map;
	size_t bytes = home->options.cache_bytes;

	if (!bytes || !map)
		return bytes;
	bytes /= map->head->members;
	return bytes > LINK_CACHE_MIN ? bytes : LINK_CACHE_MIN;
}

struct kvd *member_make(struct kvd *home, const char *url, bool opening, enum kvd_status *status)
{
	uint64_t begin_ns = clock_ns();
	struct kvd *handle = heap_calloc(1, sizeof(*handle));

	*status = KVD_ERR_NO_MEMORY;
	if (!handle) {
		handle_error_set(home, *status, "out of memory");
		return NULL;
	}
	handle_init(handle, &home->options);
	handle->options.cache_bytes = cache_share(home);
	handle->member.home = home;
	handle->member.shards = home->fleet->shards;
	handle->member.mine = SHARD_NONE;
	handle->observing = home->observing;
	handle->epoll_fd = home->epoll_fd;
	memcpy(handle->tenant, home->tenant, sizeof(handle->tenant));
	if (credentials_copy(&handle->credentials, &home->credentials))
		handle_error_set(handle, KVD_ERR_NO_MEMORY, "out of memory");
	else
		*status = device_get(handle, url);
	if (*status) {
		member_failed(handle, *status);
		kvd_close(handle);
		return NULL;
	}
	register_member(handle);
	if (opening)
		reconnect_open(handle, begin_ns);
	else
		reconnect_first(handle);
	return handle;
}

enum kvd_status member_failed(const struct kvd *member, enum kvd_status status)
{
	return handle_error_set(member->member.home, status, "%s", member->error);
}

/* The first of the member's URLs that is of the fleet's kind. */
static bool url_find(const struct fleet *fleet, const struct fleet_member *member,
		     char url[FLEET_URLS_MAX + 1])
{
	const char *scheme = device_scheme(fleet->kind), *at = member->urls;
	const char *end = at + member->urls_len, *comma;
	size_t length;

	for (; at < end; at = comma + 1) {
		comma = memchr(at, ',', (size_t)(end - at));
		if (!comma)
			comma = end;
		length = (size_t)(comma - at);
		if (length <= strlen(scheme) || memcmp(at, scheme, strlen(scheme)))
			continue;
		memcpy(url, at, length);
		url[length] = '\0';
		return true;
	}
	return false;
}

/* The member's device is tried again after a pause, as a connection is. */
static void link_failed(struct kvd *home, struct fleet_link *link, enum kvd_status status)
{
	link->status = status;
	snprintf(link->why, sizeof(link->why), "%.*s", (int)sizeof(link->why) - 1, home->error);
	link->retry_ns = clock_ns() + reconnect_pause_ns(link->failures++, (uintptr_t)link);
}

struct kvd *link_handle(struct kvd *home, struct fleet_link *link)
{
	struct fleet *fleet = home->fleet;
	const struct fleet_member *member;
	char url[FLEET_URLS_MAX + 1];
	enum kvd_status status;

	if (link->handle || (link->failures && clock_ns() < link->retry_ns))
		return link->handle;
	member = fleet->map->members[link->number];
	if (!url_find(fleet, member, url)) {
		status = handle_error_set(home, KVD_ERR_UNREACHABLE,
					  "the member %.*s of the fleet %.*s has no URL like "
					  "%s...: add one to it",
					  (int)FLEET_NAME_MAX, link->id, (int)FLEET_NAME_MAX,
					  fleet->name, device_scheme(fleet->kind));
		link_failed(home, link, status);
		return NULL;
	}
	link->handle = member_make(home, url, false, &status);
	if (!link->handle) {
		link_failed(home, link, status);
		return NULL;
	}
	link->failures = 0;
	link->handle->member.link = link;
	member_judge(fleet, link->handle);
	return link->handle;
}

void link_activate(struct fleet *fleet, struct fleet_link *link)
{
	if (link->active)
		return;
	link->active = true;
	list_add(&fleet->active, &link->entry);
}

bool link_is_away(const struct fleet_link *link)
{
	const struct kvd *handle = link->handle;

	return handle && !handle->up && (handle->geometry.incarnation || handle->reconnect.tries);
}

bool word_fits(const struct fleet *fleet, const struct fleet_word *word)
{
	const struct fleet_head *head = fleet->map->head;

	return word->generation == head->generation && word->epoch <= head->epoch;
}

void member_judge(struct fleet *fleet, struct kvd *handle)
{
	const uint64_t *rows = fleet->map->rows;
	struct member *member = &handle->member;
	uint32_t number = member->link->number, i;
	bool fits = word_fits(fleet, &member->word), counts;

	for (i = 0; i < FLEET_SHARDS; i++) {
		if (fleet_row_owner(rows[i]) != number)
			continue;
		counts = fits && rows[i] & FLEET_OPEN &&
			 fleet_row_since(rows[i]) <= member->word.epoch;
		fleet->shards[i] = (uint16_t)(number | (counts ? SHARD_COUNTS : 0));
	}
	member->mine = (uint16_t)(number | SHARD_COUNTS);
	member->judgement++;
}

/* The owners by a new map: no READ counts yet. */
static void shards_set(struct fleet *fleet)
{
	const struct fleet_map *map = fleet->map;
	uint32_t i, owner;

	for (i = 0; i < FLEET_SHARDS; i++) {
		owner = fleet_row_owner(map->rows[i]);
		fleet->shards[i] = (uint16_t)(owner == FLEET_NO_OWNER ? map->head->members : owner);
	}
}

void stats_sum(struct kvd_stats *to, const struct kvd_stats *from)
{
	const uint64_t *words = (const uint64_t *)from;
	uint64_t *sums = (uint64_t *)to;
	size_t i;

	for (i = 0; i < sizeof(*to) / sizeof(*sums); i++)
		sums[i] += words[i];
}

bool member_leaves(const struct fleet_map *map, uint32_t number, const struct fleet_map *next)
{
	const struct fleet_member *before = map->members[number], *after;
	uint32_t found = fleet_map_find(next, before->id);

	if (found == next->head->members)
		return true;
	after = next->members[found];
	return before->urls_len != after->urls_len ||
	       memcmp(before->urls, after->urls, before->urls_len);
}

/* The flights of a member that leaves end as with a server that is gone. */
static void link_close(struct fleet *fleet, struct fleet_link *link)
{
	if (link->active)
		list_remove(&link->entry);
	if (link->handle) {
		stats_sum(&fleet->closed, &link->handle->stats);
		kvd_close(link->handle);
	}
	heap_free(link);
}

static void links_free(struct fleet_link **links, uint32_t count)
{
	uint32_t i;

	for (i = 0; links && i < count; i++)
		heap_free(links[i]);
	heap_free(links);
}

/* A new link for each member; those that were there before follow. NULL: no memory. */
static struct fleet_link **links_make(const struct fleet_map *map)
{
	uint32_t i, count = map->head->members;
	struct fleet_link **links = heap_calloc(count + 1, sizeof(struct fleet_link *));

	for (i = 0; links && i < count; i++) {
		links[i] = heap_calloc(1, sizeof(*links[i]));
		if (!links[i]) {
			links_free(links, i);
			return NULL;
		}
		links[i]->number = i;
		memcpy(links[i]->id, map->members[i]->id, sizeof(links[i]->id));
	}
	return links;
}

/* Takes over the links of members that stay, and closes the others. */
static void links_replace(struct fleet *fleet, const struct fleet_map *map,
			  struct fleet_link **links)
{
	uint32_t i, number, count = fleet->map ? fleet->map->head->members : 0;

	for (i = 0; i < count; i++) {
		if (member_leaves(fleet->map, i, map)) {
			link_close(fleet, fleet->links[i]);
			continue;
		}
		number = fleet_map_find(map, fleet->links[i]->id);
		heap_free(links[number]);
		links[number] = fleet->links[i];
		links[number]->number = number;
	}
	heap_free(fleet->links);
	fleet->links = links;
}

/* The seed becomes the handle of the member that it says it is. */
static void seed_link(struct fleet *fleet, struct kvd *seed)
{
	uint32_t number = fleet_map_find(fleet->map, seed->member.id);

	if (number == fleet->map->head->members)
		return;
	seed->member.link = fleet->links[number];
	fleet->links[number]->handle = seed;
}

/* There is a handle, for its device: none of those before may be of a member that stays. */
static void links_use_one(struct kvd *home)
{
	struct fleet *fleet = home->fleet;
	uint32_t i, count = fleet->map->head->members;

	for (i = 0; i < count; i++)
		if (fleet->links[i]->handle)
			return;
	for (i = 0; i < count && !link_handle(home, fleet->links[i]); i++)
		;
}

enum kvd_status fleet_adopt(struct kvd *home, struct fleet_map *map, struct kvd *seed)
{
	struct fleet_link **links = links_make(map);
	struct fleet *fleet = home->fleet;
	struct fleet_map *old = fleet->map;
	uint32_t i;

	if (!links) {
		fleet_map_free(map);
		return handle_error_set(home, KVD_ERR_NO_MEMORY, "no memory for the fleet's map");
	}
	links_replace(fleet, map, links);
	fleet->map = map;
	home->stats.maps++;
	shards_set(fleet);
	home->geometry.hash_seed = map->head->hash_seed;
	if (seed)
		seed_link(fleet, seed);
	for (i = 0; i < map->head->members; i++)
		if (fleet->links[i]->handle)
			member_judge(fleet, fleet->links[i]->handle);
	fleet_map_free(old);
	links_use_one(home);
	return KVD_OK;
}
