/* SPDX-License-Identifier: MIT */
/*
 * The torture of a growing index (tests/stress/torture.h), as a program: on a store without a
 * server, on a server in this process (-S), or on a running one (-u). `race_torture -t 600` is the
 * long form. With -b a mutant is active (tests/stress/mutants.h), for which the table is compiled
 * into this file.
 */
#include <stdlib.h>

#include "common/barrier.h"
#include "common/util/spin.h"
#include "server/store/growth.h"
#include "server/store/store.h"
#include "tests/stress/mutants.h"
#include "tests/stress/torture.h"

#define item_invalidate(item) mutant_item_invalidate(item, __func__)
#define item_publish(item, sum) mutant_item_publish(item, sum, __func__)
#define slot_store(slot, value) mutant_slot_store(slot, value, __func__)
#define bucket_lock(bucket) mutant_bucket_lock(bucket)
#define bucket_unlock(bucket) mutant_bucket_unlock(bucket, __func__)
#define bucket_level_store(bucket, level) mutant_level_store(bucket, level, __func__)
#define chain_move_begin(home) mutant_chain_move_begin(home, __func__)
#define chain_move_end(home) mutant_chain_move_end(home)
#define slot_follow(slot) mutant_slot_follow(slot)
#define chain_epoch_first(home) mutant_epoch_first(home)
#define chain_epoch_again(home) mutant_epoch_again(home, epoch)
#define item_is_for(item, request) mutant_item_is_for(item, request)
#define mem_free(cache, p, bytes) mutant_mem_free(cache, p, bytes)
#define memmove(to, from, bytes) mutant_memmove(to, from, bytes)
#include "server/store/attempt.c"
#include "server/store/chain.c"
#include "server/store/growth.c"
#include "server/store/index.c"
#include "server/store/large.c"
#include "server/store/lookup.c"
#include "server/store/scan.c"
#include "server/store/table.c"
#include "server/store/table_maintain.c"
#include "server/store/update.c"
#undef MOVES_MAX
#include "client/libkvd/lookup.c"

int main(int argc, char **argv)
{
	struct torture_options options = { .seed = 1, .seconds = 5, .writers = 3, .readers = 3 };
	const struct torture_backend *backend;

	torture_options_parse(&options, argc, argv);
	mutant_active = (enum mutant)options.mutant;
	backend = options.server || options.url ? torture_server(&options) :
						  torture_store(&options);
	return torture_run(&options, backend) ? EXIT_SUCCESS : EXIT_FAILURE;
}
