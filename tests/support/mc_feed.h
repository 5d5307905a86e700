/* SPDX-License-Identifier: MIT */
/* Feeds bytes to the parser of memcached's protocol as a session does, and shows what comes out. */
#ifndef KVD_TESTS_SUPPORT_MC_FEED_H
#define KVD_TESTS_SUPPORT_MC_FEED_H

#include <stddef.h>
#include <stdint.h>

/*
 * The commands as text, each with a ';', for the caller to free. At first @first bytes have
 * arrived, then @step more each time that a command is incomplete. Ends at the input's end, or
 * where the connection ends. Each call gets the bytes in a block of their size, so that
 * AddressSanitizer detects a byte read too many; aborts if a call takes more bytes than it got.
 */
char *mc_feed(const uint8_t *text, size_t len, size_t first, size_t step, uint32_t key_max);

#endif /* KVD_TESTS_SUPPORT_MC_FEED_H */
