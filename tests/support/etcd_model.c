/* SPDX-License-Identifier: MIT */
/* Executes the calls of members as etcd would. */
#include "tests/support/etcd_model.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/heap.h"
#include "server/fleet/map_edit.h"

struct fleet_map *etcd_model_map_copy(const struct fleet_map *map)
{
	struct fleet_map *copy;

	if (fleet_map_make(&copy, map->head, map->bytes))
		abort();
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
	etcd->map = NULL;
}

void etcd_model_copy(struct etcd_model *to, const struct etcd_model *from)
{
	struct fleet_map *map = etcd_model_map_copy(from->map);

	etcd_model_release(to);
	*to = *from;
	to->map = map;
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

static struct etcd_model_key *member_find(struct etcd_model *etcd, const char *id)
{
	struct etcd_model_key *free_key = NULL;

	for (int i = 0; i < ETCD_MODEL_KEYS; i++) {
		struct etcd_model_key *key = &etcd->members[i];

		if (!memcmp(key->id, id, FLEET_NAME_MAX))
			return key;
		if (!key->id[0] && !free_key)
			free_key = key;
	}
	assert(free_key);
	memcpy(free_key->id, id, FLEET_NAME_MAX);
	return free_key;
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
	result->members = heap_calloc(ETCD_MODEL_KEYS, sizeof(*result->members));
	for (int i = 0; i < ETCD_MODEL_KEYS; i++)
		if (etcd->members[i].create_revision) {
			struct registry_member *member = &result->members[result->member_count++];

			memcpy(member->id, etcd->members[i].id, FLEET_NAME_MAX);
			member->create_revision = etcd->members[i].create_revision;
		}
}

static bool lives(const struct etcd_model *etcd, int64_t lease)
{
	return lease > 0 && lease < ETCD_MODEL_LEASES && etcd->lives[lease];
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

static void execute_lease(struct etcd_model *etcd, const struct registry_call *call,
			  struct registry_result *result)
{
	if (call->kind == REGISTRY_GRANT) {
		result->lease = ++etcd->leases;
		assert(result->lease < ETCD_MODEL_LEASES);
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
	for (int i = 0; i < ETCD_MODEL_KEYS; i++)
		key_end(etcd, &etcd->members[i], lease);
	key_end(etcd, &etcd->controller, lease);
}

struct registry_call *etcd_model_call_copy(const struct registry_call *call)
{
	struct registry_call *copy = heap_calloc(1, sizeof(*copy));
	struct registry_compare *compares = heap_calloc(call->compare_count + 1, sizeof(*compares));

	*copy = *call;
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
