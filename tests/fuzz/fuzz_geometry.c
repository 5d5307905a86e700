/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of geometry_check(): no offset that a client computes from an accepted geometry is
 * outside the region. The target makes the sum right, since no random input would have it.
 */
#include "common/sum.h"
#include "common/wire.h"
#include "tests/fuzz/fuzz.h"

static void must_be_inside(const struct geometry *g, uint64_t hash)
{
	uint64_t home = geometry_home(g, hash), offset;

	must(home < geometry_buckets(g));
	offset = geometry_bucket_offset(g, home);
	must(offset % BUCKET_BYTES == 0 && offset >= sizeof(struct superblock));
	must(offset <= g->region_bytes - BUCKET_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct geometry g;
	uint64_t hash;
	size_t at;

	if (size < sizeof(g))
		return 0;
	memcpy(&g, data, sizeof(g));
	geometry_check(&g);
	g.sum = geometry_sum(&g);
	if (geometry_check(&g))
		return 0;
	must_be_inside(&g, 0);
	must_be_inside(&g, ~0ull);
	must_be_inside(&g, geometry_buckets(&g) - 1);
	for (at = 0; at < 64; at++)
		must_be_inside(&g, 1ull << at);
	for (at = sizeof(g); at + 8 <= size; at += 8) {
		memcpy(&hash, data + at, 8);
		must_be_inside(&g, hash);
	}
	return 0;
}
