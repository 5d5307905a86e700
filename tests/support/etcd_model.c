/* SPDX-License-Identifier: MIT */
/* Executes the calls of members as etcd would. */
#include "tests/support/etcd_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/sum.h"
#include "common/util/heap.h"
#include "server/fleet/map_edit.h"

#define MEMBERS_FIRST 8u
#define LEASES_FIRST 64

/* Not checked again: a thousand members copy each map. */
struct fleet_map *etcd_model_map_copy(const struct fleet_map *map)
{
	const uint8_t *from = (const uint8_t *)map;
	const size_t front = (size_t)((const uint8_t *)map->head - from);
	uint8_t *to = heap_alloc(front + map->bytes);
	struct fleet_map *copy = (struct fleet_map *)(void *)to;

	if (!to)
		abort();
	memcpy(to, from, front + map->bytes);
	copy->head = (struct fleet_head *)(void *)(to + front);
	copy->rows = (const uint64_t *)(const void *)(to + ((const uint8_t *)map->rows - from));
	for (uint32_t i = 0; i < map->head->members; i++)
		copy->members[i] =
			(const struct fleet_member
				 *)(const void *)(to + ((const uint8_t *)map->members[i] - from));
	return copy;
}

void etcd_model_put(struct etcd_model *etcd, struct fleet_map *map)
{
	fleet_map_free(etcd->map);
	etcd->map = map;
	etcd->map_revision = ++etcd->revision;
}

void etcd_model_init(struct etcd_model *etcd, uint64_t generation)
{
	static const char name[FLEET_NAME_MAX] = "model";
	struct fleet_map *map;

	*etcd = (struct etcd_model){ .cluster_id = 1, .revision = 1 };
	if (map_edit_finish(map_edit_create_first(name, generation, 1, 0), &map))
		abort();
	etcd_model_put(etcd, map);
}

void etcd_model_release(struct etcd_model *etcd)
{
	fleet_map_free(etcd->map);
	heap_free(etcd->members);
	heap_free(etcd->slots);
	heap_free(etcd->lives);
	*etcd = (struct etcd_model){ 0 };
}

static void *copy_of(const void *from, size_t bytes)
{
	void *to = bytes ? heap_alloc(bytes) : NULL;

	return to ? memcpy(to, from, bytes) : NULL;
}

void etcd_model_copy(struct etcd_model *to, const struct etcd_model *from)
{
	struct fleet_map *map = etcd_model_map_copy(from->map);

	etcd_model_release(to);
	*to = *from;
	to->map = map;
	to->members = copy_of(from->members, from->members_max * sizeof(*from->members));
	to->slots = copy_of(from->slots, 2 * from->members_max * sizeof(*from->slots));
	to->lives = copy_of(from->lives, (size_t)from->leases_max * sizeof(*from->lives));
}

void etcd_model_adopt(struct etcd_model *etcd, uint64_t generation)
{
	struct map_edit *edit = map_edit_create(etcd->map);
	struct fleet_map *map;

	map_edit_adopt(edit, generation, 1u << 20);
	if (map_edit_finish(edit, &map))
		abort();
	etcd_model_put(etcd, map);
}

static void *grown(void *old, size_t bytes, size_t more)
{
	uint8_t *all = heap_calloc(1, bytes + more);

	if (!all)
		abort();
	if (old)
		memcpy(all, old, bytes);
	heap_free(old);
	return all;
}

/* The slot of @id, or the one that it would get. */
static uint32_t *slot_find(const struct etcd_model *etcd, const char *id)
{
	const uint32_t mask = 2 * etcd->members_max - 1;
	uint32_t at = (uint32_t)XXH3_64bits(id, FLEET_NAME_MAX) & mask;

	while (etcd->slots[at] &&
	       memcmp(etcd->members[etcd->slots[at] - 1].id, id, FLEET_NAME_MAX) != 0)
		at = (at + 1) & mask;
	return &etcd->slots[at];
}

static void members_grow(struct etcd_model *etcd)
{
	const uint32_t old = etcd->members_max, all = old ? 2 * old : MEMBERS_FIRST;

	etcd->members = grown(etcd->members, old * sizeof(*etcd->members),
			      (all - old) * sizeof(*etcd->members));
	heap_free(etcd->slots);
	etcd->slots = grown(NULL, 0, 2 * all * sizeof(*etcd->slots));
	etcd->members_max = all;
	for (uint32_t i = 0; i < etcd->member_count; i++)
		*slot_find(etcd, etcd->members[i].id) = i + 1;
}

/* The key of member @id, absent or not. Ends what earlier calls have returned. */
static struct etcd_model_key *member_find(struct etcd_model *etcd, const char *id)
{
	/* Of a call that names no member. */
	static struct etcd_model_key none;
	uint32_t *slot;

	if (!id[0])
		return &none;
	if (etcd->member_count == etcd->members_max)
		members_grow(etcd);
	slot = slot_find(etcd, id);
	if (!*slot) {
		*slot = ++etcd->member_count;
		memcpy(etcd->members[*slot - 1].id, id, FLEET_NAME_MAX);
	}
	return &etcd->members[*slot - 1];
}

static bool is_true(struct etcd_model *etcd, const struct registry_compare *compare)
{
	switch (compare->key) {
	case REGISTRY_MAP:
		return compare->revision == (etcd->map ? etcd->map_revision : 0);
	case REGISTRY_MEMBER:
		return compare->revision == member_find(etcd, compare->id)->create_revision;
	case REGISTRY_CONTROLLER:
		return compare->revision == etcd->controller.create_revision;
	}
	abort();
}

static void key_put(struct etcd_model *etcd, struct etcd_model_key *key, int64_t lease)
{
	if (!key->create_revision)
		key->create_revision = etcd->revision;
	key->lease = lease;
}

static void execute_puts(struct etcd_model *etcd, const struct registry_call *call)
{
	struct etcd_model_key *own = member_find(etcd, call->id);

	if (!call->put_map && !call->put_member && !call->put_controller)
		return;
	etcd->revision++;
	if (call->put_map) {
		fleet_map_free(etcd->map);
		etcd->map = etcd_model_map_copy(call->put_map);
		etcd->map_revision = etcd->revision;
	}
	if (call->put_member) {
		key_put(etcd, own, call->lease);
		own->incarnation = call->incarnation;
	}
	if (call->put_controller) {
		key_put(etcd, &etcd->controller, call->lease);
		memcpy(etcd->controller.id, call->id, FLEET_NAME_MAX);
	}
}

static int by_id(const void *a, const void *b)
{
	const struct registry_member *x = a, *y = b;

	return memcmp(x->id, y->id, FLEET_NAME_MAX);
}

static void execute_reads(struct etcd_model *etcd, const struct registry_call *call,
			  struct registry_result *result)
{
	const struct etcd_model_key *own = member_find(etcd, call->id);

	if (result->reads & REGISTRY_READ_MAP && etcd->map) {
		result->map = etcd_model_map_copy(etcd->map);
		result->map_revision = etcd->map_revision;
	}
	if (result->reads & REGISTRY_READ_OWN && own->create_revision) {
		result->own_create_revision = own->create_revision;
		result->own_incarnation = own->incarnation;
	}
	if (result->reads & REGISTRY_READ_CONTROLLER && etcd->controller.create_revision) {
		result->controller_create_revision = etcd->controller.create_revision;
		memcpy(result->controller, etcd->controller.id, FLEET_NAME_MAX);
	}
	if (!(result->reads & REGISTRY_READ_MEMBERS))
		return;
	result->members = heap_calloc(etcd->member_count + 1, sizeof(*result->members));
	for (uint32_t i = 0; i < etcd->member_count; i++)
		if (etcd->members[i].create_revision) {
			struct registry_member *member = &result->members[result->member_count++];

			memcpy(member->id, etcd->members[i].id, FLEET_NAME_MAX);
			member->create_revision = etcd->members[i].create_revision;
		}
	qsort(result->members, result->member_count, sizeof(*result->members), by_id);
}

static bool lives(const struct etcd_model *etcd, int64_t lease)
{
	return lease > 0 && lease < etcd->leases_max && etcd->lives[lease];
}

static void execute_txn(struct etcd_model *etcd, const struct registry_call *call,
			struct registry_result *result)
{
	bool all = true;

	for (unsigned int i = 0; i < call->compare_count; i++)
		all = all && is_true(etcd, &call->compares[i]);
	if (all && (call->put_member || call->put_controller) && !lives(etcd, call->lease)) {
		result->outcome = ETCD_NOT_EXECUTED;
		result->err = -ENOENT;
		return;
	}
	result->outcome = all ? ETCD_SUCCEEDED : ETCD_COMPARE_FAILED;
	if (all)
		execute_puts(etcd, call);
	result->cluster_id = etcd->cluster_id;
	result->revision = etcd->revision;
	result->reads = call->reads[all];
	execute_reads(etcd, call, result);
}

static void leases_grow(struct etcd_model *etcd)
{
	const size_t old = (size_t)etcd->leases_max, more = old ? old : LEASES_FIRST;

	etcd->lives = grown(etcd->lives, old * sizeof(*etcd->lives), more * sizeof(*etcd->lives));
	etcd->leases_max += (int64_t)more;
}

static void execute_lease(struct etcd_model *etcd, const struct registry_call *call,
			  struct registry_result *result)
{
	if (call->kind == REGISTRY_GRANT) {
		result->lease = ++etcd->leases;
		if (result->lease >= etcd->leases_max)
			leases_grow(etcd);
		etcd->lives[result->lease] = true;
	} else if (!lives(etcd, call->lease)) {
		result->outcome = ETCD_NOT_EXECUTED;
		result->err = -ENOENT;
		return;
	} else if (call->kind == REGISTRY_REVOKE) {
		etcd_model_end(etcd, call->lease);
	}
	result->outcome = ETCD_SUCCEEDED;
	result->ttl_s = 2;
}

void etcd_model_execute(struct etcd_model *etcd, const struct registry_call *call,
			struct registry_result *result)
{
	*result = (struct registry_result){ 0 };
	if (call->kind == REGISTRY_TXN)
		execute_txn(etcd, call, result);
	else
		execute_lease(etcd, call, result);
}

static void key_end(struct etcd_model *etcd, struct etcd_model_key *key, int64_t lease)
{
	if (!key->create_revision || key->lease != lease)
		return;
	key->create_revision = 0;
	etcd->revision++;
}

void etcd_model_end(struct etcd_model *etcd, int64_t lease)
{
	if (!lives(etcd, lease))
		return;
	etcd->lives[lease] = false;
	for (uint32_t i = 0; i < etcd->member_count; i++)
		key_end(etcd, &etcd->members[i], lease);
	key_end(etcd, &etcd->controller, lease);
}

struct registry_call *etcd_model_call_copy(const struct registry_call *call)
{
	struct registry_call *copy = heap_calloc(1, sizeof(*copy));
	struct registry_compare *compares = heap_calloc(call->compare_count + 1, sizeof(*compares));

	*copy = *call;
	if (call->compare_count)
		memcpy(compares, call->compares, call->compare_count * sizeof(*compares));
	copy->compares = compares;
	if (call->put_map)
		copy->put_map = etcd_model_map_copy(call->put_map);
	return copy;
}

void etcd_model_call_free(struct registry_call *call)
{
	if (!call)
		return;
	heap_free((void *)call->compares);
	fleet_map_free((struct fleet_map *)call->put_map);
	heap_free(call);
}
