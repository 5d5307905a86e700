/* SPDX-License-Identifier: MIT */
/*
 * READs by keys and addresses that a client chose itself, for the system tests of keys, revocation
 * and tenants. Checks are printed as by tests/support/checks.h.
 */
#ifndef KVD_TESTS_SUPPORT_RAW_READ_H
#define KVD_TESTS_SUPPORT_RAW_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/raw_peer.h"

#define RAW_READ_BYTES 512u

/* READs RAW_READ_BYTES at @addr to raw_data(); the status of the completion. */
enum ibv_wc_status raw_read_by(struct raw_peer *p, uint32_t rkey, uint64_t addr);
/* The last raw_read_by() has changed no byte of raw_data(). */
bool raw_got_nothing(const struct raw_peer *p);
/* READs the first bytes of its own region, and gets them. */
bool raw_reads_own(struct raw_peer *p);
/*
 * A client of raw_tenant that has done no wrong yet READs by @rkey at @addr; NULL: its own. Checks
 * that this is a remote access error, brings not a byte and ends its connection.
 */
void raw_attack(const char *what, const uint32_t *rkey, const uint64_t *addr);

#endif /* KVD_TESTS_SUPPORT_RAW_READ_H */
