/* SPDX-License-Identifier: MIT */
/* Collects the changes of a map, and encodes the new one. */
#include "server/fleet/map_edit.h"

#include <assert.h>
#include <string.h>

#include "common/util/heap.h"

struct map_edit {
	const struct fleet_map *old; /* NULL: the fleet is new */
	const char *error;	     /* NULL: none yet */
	struct fleet_head head;	     /* of the new map, but for member_bytes and sum */
	/* Members that were added or replaced, by number; NULL: as in the old map. */
	struct fleet_member *changed[FLEET_MEMBERS_MAX];
	uint64_t rows[FLEET_SHARDS];
};

struct map_edit *map_edit_create(const struct fleet_map *old)
{
	struct map_edit *edit = heap_calloc(1, sizeof(*edit));

	if (!edit)
		return NULL;
	edit->old = old;
	edit->head = *old->head;
	edit->head.epoch++;
	memcpy(edit->rows, old->rows, sizeof(edit->rows));
	return edit;
}

struct map_edit *map_edit_create_first(const char name[FLEET_NAME_MAX], uint64_t generation,
				       uint64_t seed, uint64_t lease_ns)
{
	struct map_edit *edit = heap_calloc(1, sizeof(*edit));

	if (!edit)
		return NULL;
	edit->head = (struct fleet_head){
		.magic = FLEET_MAP_MAGIC,
		.generation = generation,
		.epoch = MAP_EDIT_EPOCH_FIRST,
		.hash_seed = seed,
		.lease_ns = lease_ns,
	};
	memcpy(edit->head.name, name, FLEET_NAME_MAX);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		map_edit_row(edit, i, FLEET_NO_OWNER, 0);
	return edit;
}

void map_edit_destroy(struct map_edit *edit)
{
	if (!edit)
		return;
	for (uint32_t i = 0; i < edit->head.members; i++)
		heap_free(edit->changed[i]);
	heap_free(edit);
}

void map_edit_adopt(struct map_edit *edit, uint64_t generation, uint64_t more)
{
	if (!edit)
		return;
	edit->head.generation = generation;
	/* An epoch that is too high stays so: map_edit_finish() refuses it. */
	edit->head.epoch += more - 1 < FLEET_EPOCH_MAX ? more - 1 : FLEET_EPOCH_MAX;
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		map_edit_row(edit, i, fleet_row_owner(edit->rows[i]), 0);
}

uint64_t map_edit_epoch(const struct map_edit *edit)
{
	return edit && !edit->error ? edit->head.epoch : 0;
}

static const struct fleet_member *member_now(const struct map_edit *edit, uint32_t number)
{
	return edit->changed[number] ? edit->changed[number] : edit->old->members[number];
}

static uint32_t member_find(const struct map_edit *edit, const char id[FLEET_NAME_MAX])
{
	uint32_t i;

	for (i = 0; i < edit->head.members; i++)
		if (!memcmp(member_now(edit, i)->id, id, FLEET_NAME_MAX))
			break;
	return i;
}

/* What map_edit_member() returns when it fails. */
static uint32_t failed(struct map_edit *edit, const char *error)
{
	if (!edit->error)
		edit->error = error;
	return FLEET_NO_OWNER;
}

uint32_t map_edit_member(struct map_edit *edit, const struct map_member *member)
{
	const struct fleet_member head = {
		.lost_s = member->lost_s,
		.session = member->session,
		.weight = member->weight,
		.flags = member->flags,
		.urls_len = (uint32_t)strnlen(member->urls, FLEET_URLS_MAX + 1),
	};
	struct fleet_member *entry;
	uint32_t number;

	if (!edit)
		return FLEET_NO_OWNER;
	number = member_find(edit, member->id);
	if (number == FLEET_MEMBERS_MAX)
		return failed(edit, "the map has as many members as it can have");
	entry = heap_calloc(1, fleet_member_bytes(&head));
	if (!entry)
		return failed(edit, "out of memory");
	*entry = head;
	memcpy(entry->id, member->id, FLEET_NAME_MAX);
	memcpy(entry->urls, member->urls, head.urls_len);
	if (number == edit->head.members)
		edit->head.members++;
	heap_free(edit->changed[number]);
	edit->changed[number] = entry;
	return number;
}

/* The entry of member @number in the new map, to be changed. NULL: no memory. */
static struct fleet_member *member_change(struct map_edit *edit, uint32_t number)
{
	const struct fleet_member *now = member_now(edit, number);
	size_t bytes = fleet_member_bytes(now);

	assert(number < edit->head.members);
	if (!edit->changed[number]) {
		edit->changed[number] = heap_alloc(bytes);
		if (!edit->changed[number])
			failed(edit, "out of memory");
		else
			memcpy(edit->changed[number], now, bytes);
	}
	return edit->changed[number];
}

void map_edit_lost(struct map_edit *edit, uint32_t number, uint64_t lost_s)
{
	struct fleet_member *member = edit ? member_change(edit, number) : NULL;

	if (member)
		member->lost_s = lost_s;
}

void map_edit_flags(struct map_edit *edit, uint32_t number, uint32_t flags)
{
	struct fleet_member *member = edit ? member_change(edit, number) : NULL;

	if (member)
		member->flags = flags;
}

void map_edit_row(struct map_edit *edit, uint32_t shard, uint32_t owner, uint64_t flags)
{
	assert(shard < FLEET_SHARDS && owner <= FLEET_NO_OWNER);
	assert(!(flags & ~(FLEET_OPEN | FLEET_GIVEN)));
	if (edit)
		edit->rows[shard] = fleet_row(owner, false, edit->head.epoch) | flags;
}

/* Encodes the map into memory that the caller frees. NULL: no memory. */
static uint8_t *map_encode(struct map_edit *edit, size_t *bytes)
{
	struct fleet_head *head = &edit->head;
	size_t at = sizeof(*head);
	uint32_t i;
	uint8_t *all;

	head->member_bytes = 0;
	for (i = 0; i < head->members; i++)
		head->member_bytes += (uint32_t)fleet_member_bytes(member_now(edit, i));
	*bytes = at + head->member_bytes + sizeof(edit->rows);
	all = heap_alloc(*bytes);
	if (!all)
		return NULL;
	memcpy(all, head, sizeof(*head));
	for (i = 0; i < head->members; at += fleet_member_bytes(member_now(edit, i++)))
		memcpy(all + at, member_now(edit, i), fleet_member_bytes(member_now(edit, i)));
	memcpy(all + at, edit->rows, sizeof(edit->rows));
	((struct fleet_head *)(void *)all)->sum = fleet_map_sum((void *)all, *bytes);
	return all;
}

const char *map_edit_finish(struct map_edit *edit, struct fleet_map **map)
{
	const char *error = edit ? edit->error : "out of memory";
	uint8_t *all = NULL;
	size_t bytes;

	*map = NULL;
	if (!error) {
		all = map_encode(edit, &bytes);
		error = all ? fleet_map_make(map, all, bytes) : "out of memory";
	}
	heap_free(all);
	map_edit_destroy(edit);
	return error;
}
