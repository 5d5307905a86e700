/* SPDX-License-Identifier: MIT */
/* What a fleet's handle remembers of its scans: which shards were found whole. */
#include "client/libkvd/fleet_scan.h"

#include <string.h>

#include "client/libkvd/fleet.h"
#include "client/libkvd/fleet_links.h"
#include "common/sum.h"
#include "common/util/clock.h"
#include "common/util/heap.h"

static void found_set(struct fleet_scan *scan, uint32_t shard)
{
	scan->found[shard / 64] |= 1ull << shard % 64;
}

static bool is_found(const struct fleet_scan *scan, uint32_t shard)
{
	return scan->found[shard / 64] >> shard % 64 & 1;
}

bool scan_has(const struct fleet_scan *scan, const void *key, size_t key_len)
{
	return is_found(scan, fleet_shard(key_hash(key, key_len, scan->hash_seed)));
}

static struct fleet_scan **place_of(struct kvd *home, uint32_t number)
{
	return &home->fleet->scans[number % SCANS_MAX];
}

void scan_forget(struct kvd *home, struct fleet_scan *scan)
{
	*place_of(home, scan->number) = NULL;
	heap_free(scan);
}

/* Numbers begin anywhere: those of other handles lead to no scan of this one. */
static uint32_t number_next(struct kvd *home)
{
	struct fleet *fleet = home->fleet;

	if (!fleet->scan_number)
		fleet->scan_number = (uint32_t)(home->reconnect.random >> 32);
	do
		fleet->scan_number = (fleet->scan_number + 1) & ((1u << CURSOR_SCAN_BITS) - 1);
	while (!fleet->scan_number);
	return fleet->scan_number;
}

static struct fleet_scan *scan_make(struct kvd *home)
{
	struct fleet_scan *scan = heap_calloc(1, sizeof(*scan)), **place;

	if (!scan)
		return NULL;
	scan->number = number_next(home);
	scan->hash_seed = home->geometry.hash_seed;
	place = place_of(home, scan->number);
	heap_free(*place);
	*place = scan;
	return scan;
}

/*
 * The members before the cursor's were scanned, and this one in part; if shards may have moved
 * since, that does not count.
 */
static void scan_resume(struct kvd *home, struct fleet_scan *scan, uint32_t number)
{
	const struct fleet_map *map = home->fleet->map;
	uint32_t i;

	scan->scanning = true;
	memcpy(scan->member, map->members[number]->id, FLEET_NAME_MAX);
	if (map->head->lease_ns)
		return;
	scan->epoch = map->head->epoch;
	for (i = 0; i < FLEET_SHARDS; i++)
		if (fleet_row_owner(map->rows[i]) < number)
			found_set(scan, i);
}

struct fleet_scan *scan_find(struct kvd *home, uint64_t cursor)
{
	uint32_t number = (uint32_t)(cursor >> CURSOR_MEMBER_BITS) & ((1u << CURSOR_SCAN_BITS) - 1);
	struct fleet_scan *scan = *place_of(home, number);

	if (cursor && scan && scan->number == number && scan->hash_seed == home->geometry.hash_seed)
		return scan;
	scan = scan_make(home);
	if (scan && cursor)
		scan_resume(home, scan, cursor_member(cursor));
	return scan;
}

enum kvd_status scan_member_begin(struct kvd *home, struct fleet_scan *scan, uint64_t cursor)
{
	const char *id = home->fleet->map->members[cursor_member(cursor)]->id;
	enum kvd_status status;
	struct kvd *member;

	if (scan->scanning && !memcmp(scan->member, id, FLEET_NAME_MAX))
		return KVD_OK;
	scan->epoch = 0;
	memcpy(scan->member, id, FLEET_NAME_MAX);
	/* The members have other numbers: it is scanned in part only. */
	if (scan->scanning || cursor & CURSOR_OWN)
		return KVD_OK;
	member = fleet_member(home, cursor_member(cursor));
	status = member ? member_epoch(member, &scan->epoch) : KVD_ERR_DISCONNECTED;
	scan->scanning = !status;
	return status;
}

static enum kvd_status map_get(struct kvd *home, uint64_t epoch)
{
	uint64_t until_ns = clock_ns() + home->options.timeout_ms * 1000000ull;

	while (fleet_epoch(home) < epoch)
		if (!fleet_map_wait(home, until_ns) && fleet_epoch(home) < epoch)
			return handle_error_set(home, KVD_ERR_TIMEOUT,
						"no newer map of the fleet within timeout_ms");
	return KVD_OK;
}

/* At the next member after @number, in turn, with shards that were not found. */
static uint64_t next_make(const struct kvd *home, const struct fleet_scan *scan, uint32_t number)
{
	uint32_t i, owner, first = UINT32_MAX, later = UINT32_MAX;

	for (i = 0; i < FLEET_SHARDS; i++) {
		owner = fleet_row_owner(home->fleet->map->rows[i]);
		if (owner == FLEET_NO_OWNER || is_found(scan, i))
			continue;
		if (owner < first)
			first = owner;
		if (owner > number && owner < later)
			later = owner;
	}
	if (later == UINT32_MAX)
		later = first;
	return later == UINT32_MAX ? 0 : cursor_make(scan, 0, later);
}

uint64_t scan_first(const struct kvd *home, const struct fleet_scan *scan)
{
	return next_make(home, scan, UINT32_MAX);
}

enum kvd_status scan_member_end(struct kvd *home, struct fleet_scan *scan, uint64_t *cursor)
{
	struct kvd *member = fleet_member(home, cursor_member(*cursor));
	enum kvd_status status = KVD_ERR_DISCONNECTED;
	uint64_t epoch, row;
	const struct fleet_map *map;
	uint32_t number, i;

	if (member)
		status = member_epoch(member, &epoch);
	if (!status)
		status = map_get(home, epoch);
	if (status)
		return status;
	map = home->fleet->map;
	number = fleet_map_find(map, scan->member);
	for (i = 0; i < FLEET_SHARDS; i++) {
		row = map->rows[i];
		if (fleet_row_owner(row) == number && fleet_row_since(row) <= scan->epoch)
			found_set(scan, i);
	}
	scan->scanning = false;
	*cursor = next_make(home, scan, number);
	return KVD_OK;
}
