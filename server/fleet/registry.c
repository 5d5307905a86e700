/* SPDX-License-Identifier: MIT */
/* Executes calls of a member with the client of etcd: their keys, their values, their answers. */
#include "server/fleet/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/util/heap.h"
#include "common/util/parse.h"
#include "server/fleet/map_gzip.h"

/* "/kvd/NAME/members/ID" is the longest. */
#define KEY_BYTES (FLEET_NAME_MAX + FLEET_NAME_MAX + sizeof("/kvd//members/"))
#define PUTS_MAX 3
#define READS_MAX 4
static_assert(KEY_BYTES <= ETCD_KEY_MAX, "keys fit");

struct key {
	char text[KEY_BYTES];
};

/* What a transaction points to while it is executed. */
struct draft {
	struct etcd_compare compares[REGISTRY_COMPARES_MAX];
	struct key keys[REGISTRY_COMPARES_MAX];
	struct etcd_op ops[2][PUTS_MAX + READS_MAX];
	struct key map, own, members, controller;
	char incarnation[24];
	void *put_map; /* compressed */
	size_t put_map_bytes;
};

/* @id: up to FLEET_NAME_MAX bytes. */
static struct key key_make(const struct registry *registry, const char *what, const char *id)
{
	struct key key;

	snprintf(key.text, sizeof(key.text), "/kvd/%s/%s%.*s", registry->name, what,
		 (int)FLEET_NAME_MAX, id);
	return key;
}

static void draft_compares(struct draft *draft, const struct registry *registry,
			   const struct registry_call *call)
{
	for (unsigned int i = 0; i < call->compare_count; i++) {
		const struct registry_compare *compare = &call->compares[i];

		if (compare->key == REGISTRY_MEMBER)
			draft->keys[i] = key_make(registry, "members/", compare->id);
		draft->compares[i] = (struct etcd_compare){
			.key = compare->key == REGISTRY_MAP	   ? draft->map.text :
			       compare->key == REGISTRY_CONTROLLER ? draft->controller.text :
								     draft->keys[i].text,
			.target = compare->key == REGISTRY_MAP ? ETCD_MOD_REVISION :
								 ETCD_CREATE_REVISION,
			.revision = compare->revision,
		};
	}
}

static struct etcd_op *draft_put(struct etcd_op *op, const char *key, const void *value,
				 size_t length, int64_t lease)
{
	*op = (struct etcd_op){
		.kind = ETCD_PUT, .key = key, .value = value, .value_len = length, .lease = lease
	};
	return op + 1;
}

static unsigned int draft_puts(struct draft *draft, const struct registry_call *call)
{
	struct etcd_op *op = draft->ops[true];
	int length = snprintf(draft->incarnation, sizeof(draft->incarnation), "%" PRIu64,
			      call->incarnation);

	if (call->put_map)
		op = draft_put(op, draft->map.text, draft->put_map, draft->put_map_bytes, 0);
	if (call->put_member)
		op = draft_put(op, draft->own.text, draft->incarnation, (size_t)length,
			       call->lease);
	if (call->put_controller)
		op = draft_put(op, draft->controller.text, call->id,
			       strnlen(call->id, FLEET_NAME_MAX), call->lease);
	return (unsigned int)(op - draft->ops[true]);
}

/* In the order of their bits, which take_ranges() relies on. */
static unsigned int draft_reads(const struct draft *draft, unsigned int reads, struct etcd_op *op)
{
	const struct etcd_op all[READS_MAX] = {
		{ .kind = ETCD_GET, .key = draft->map.text },
		{ .kind = ETCD_GET, .key = draft->own.text },
		{ .kind = ETCD_GET, .key = draft->members.text, .prefix = true },
		{ .kind = ETCD_GET, .key = draft->controller.text },
	};
	unsigned int count = 0;

	for (unsigned int i = 0; i < READS_MAX; i++)
		if (reads >> i & 1)
			op[count++] = all[i];
	return count;
}

static void take_map(struct registry_result *result, const struct etcd_range *range)
{
	if (!range->count)
		return;
	result->map_revision = range->kvs[0].mod_revision;
	result->map_error = map_gunzip(&result->map, range->kvs[0].value, range->kvs[0].value_len);
}

static void take_own(struct registry_result *result, const struct etcd_range *range)
{
	if (!range->count)
		return;
	result->own_create_revision = range->kvs[0].create_revision;
	/* A zero follows the value. */
	(void)parse_uint(range->kvs[0].value, 1, UINT64_MAX, &result->own_incarnation, NULL);
}

static int take_members(struct registry_result *result, const struct etcd_range *range,
			size_t prefix)
{
	result->members = heap_calloc(range->count + 1, sizeof(*result->members));
	if (!result->members)
		return -ENOMEM;
	for (size_t i = 0; i < range->count; i++) {
		const struct etcd_kv *kv = &range->kvs[i];
		struct registry_member *member = &result->members[result->member_count];

		/* A key that is no member's is somebody else's. */
		if (kv->key_len <= prefix || kv->key_len - prefix > FLEET_NAME_MAX)
			continue;
		memcpy(member->id, kv->key + prefix, kv->key_len - prefix);
		member->create_revision = kv->create_revision;
		result->member_count++;
	}
	return 0;
}

static void take_controller(struct registry_result *result, const struct etcd_range *range)
{
	if (!range->count)
		return;
	result->controller_create_revision = range->kvs[0].create_revision;
	if (range->kvs[0].value_len <= FLEET_NAME_MAX)
		memcpy(result->controller, range->kvs[0].value, range->kvs[0].value_len);
}

static int take_ranges(struct registry_result *result, const struct draft *draft,
		       const struct etcd_range *range, unsigned int reads)
{
	int err = 0;

	if (reads & REGISTRY_READ_MAP)
		take_map(result, range++);
	if (reads & REGISTRY_READ_OWN)
		take_own(result, range++);
	if (reads & REGISTRY_READ_MEMBERS)
		err = take_members(result, range++, strlen(draft->members.text));
	if (reads & REGISTRY_READ_CONTROLLER)
		take_controller(result, range);
	result->reads = reads;
	return err;
}

static void execute_txn(struct registry *registry, const struct registry_call *call,
			struct draft *draft, struct registry_result *result)
{
	unsigned int puts = draft_puts(draft, call), skipped;
	struct etcd_txn txn = {
		.compares = draft->compares,
		.compare_count = call->compare_count,
		.success = draft->ops[true],
		.failure = draft->ops[false],
	};
	struct etcd_answer answer;
	bool succeeded;

	txn.success_count = puts + draft_reads(draft, call->reads[true], draft->ops[true] + puts);
	txn.failure_count = draft_reads(draft, call->reads[false], draft->ops[false]);
	result->outcome = etcd_txn(registry->etcd, &txn, registry->timeout_ms, &answer);
	result->err = etcd_error(registry->etcd);
	succeeded = result->outcome == ETCD_SUCCEEDED;
	if (!succeeded && result->outcome != ETCD_COMPARE_FAILED)
		return;
	skipped = succeeded ? puts : 0;
	result->cluster_id = answer.cluster_id;
	result->revision = answer.revision;
	/* Without memory for what was read, nothing counts as read. */
	if (take_ranges(result, draft, answer.ranges + skipped, call->reads[succeeded]))
		result->reads = 0;
	etcd_answer_release(&answer);
}

static void registry_txn(struct registry *registry, const struct registry_call *call,
			 struct registry_result *result)
{
	struct draft *draft = heap_calloc(1, sizeof(*draft));

	if (draft && call->put_map)
		draft->put_map = map_gzip(call->put_map, &draft->put_map_bytes);
	if (!draft || (call->put_map && !draft->put_map)) {
		heap_free(draft);
		result->outcome = ETCD_NOT_EXECUTED;
		result->err = -ENOMEM;
		return;
	}
	draft->map = key_make(registry, "map", "");
	draft->own = key_make(registry, "members/", call->id);
	draft->members = key_make(registry, "members/", "");
	draft->controller = key_make(registry, "controller", "");
	draft_compares(draft, registry, call);
	execute_txn(registry, call, draft, result);
	heap_free(draft->put_map);
	heap_free(draft);
}

void registry_execute(struct registry *registry, const struct registry_call *call,
		      struct registry_result *result)
{
	*result = (struct registry_result){ 0 };
	switch (call->kind) {
	case REGISTRY_TXN:
		registry_txn(registry, call, result);
		return;
	case REGISTRY_GRANT:
		result->err = etcd_lease_grant(registry->etcd, call->ttl_s, registry->timeout_ms,
					       &result->lease, &result->ttl_s);
		break;
	case REGISTRY_KEEPALIVE:
		result->err = etcd_lease_keepalive(registry->etcd, call->lease,
						   registry->timeout_ms, &result->ttl_s);
		break;
	case REGISTRY_REVOKE:
		result->err = etcd_lease_revoke(registry->etcd, call->lease, registry->timeout_ms);
		break;
	}
	result->outcome = result->err ? ETCD_NOT_EXECUTED : ETCD_SUCCEEDED;
}

void registry_result_release(struct registry_result *result)
{
	fleet_map_free(result->map);
	heap_free(result->members);
	*result = (struct registry_result){ 0 };
}
