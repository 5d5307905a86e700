/* SPDX-License-Identifier: MIT */
/* A fleet of one or two members for tests of workers; the server is the last one of them. */
#ifndef KVD_TESTS_SUPPORT_FLEET_FIXTURE_H
#define KVD_TESTS_SUPPORT_FLEET_FIXTURE_H

#include "server/fleet/fleet.h"

#define TEST_EPOCH 7u

extern struct fleet test_fleet;

/* Of @members, 1 or 2: the server serves all its shards, always. */
void test_fleet_create(unsigned int members);
void test_fleet_destroy(void);
/* Whether the server serves the shard of @hash from now on; the owner stays the same. */
void test_fleet_serve(uint64_t hash, bool serves);

#endif /* KVD_TESTS_SUPPORT_FLEET_FIXTURE_H */
