/* SPDX-License-Identifier: MIT */
/*
 * The word of a member: the epoch by which READs of its memory count, and until when (FLEET-5,
 * FLEET-6). The welcome has one; a later one is READ from the superblock.
 *
 * The end is a time of the server's clock. When a word is taken, its end becomes a time of
 * clock_boot_ns(), so that a READ is judged by one reading of a clock, which also counts the time
 * that this host was suspended. That time comes before the end, whatever the clocks do:
 *
 *	until = boot + (end - high) * WORD_PERCENT / 100
 *
 * boot is clock_boot_ns(), read before the time for which high is the upper bound of the server's
 * clock (client/libkvd/clock.h). What is left, end - high, passes by the server's clock in no less
 * than left / 1.002 of clock_raw_ns() (DRIFT_PPM). clock_boot_ns() is steered, and may be slower:
 * by 10 % by adjtimex(2)'s tick, by 500 ppm by its frequency, and by 500 ppm while adjtime(3)
 * slews. 0.899 / 1.002 is 0.897.
 *
 * A member extends its word every tenth of a lease or so. The word is fresh for half of what was
 * left when it was taken. A READ that completes later counts, too, and has the word READ again
 * meanwhile; so a member that is used costs one READ in half a lease. After `until` nothing counts
 * before another word has come.
 *
 *   WORD-1. A later end of a word with the same generation and epoch holds for READs that were
 *	 posted before it was known. A member that lost its lease, so that others may have served
 *	 its shards meanwhile, has another epoch before it extends its word (FLEET-4). Any other
 *	 word judges only lookups that start later (`judgement`).
 */
#ifndef KVD_CLIENT_LIBKVD_WORD_H
#define KVD_CLIENT_LIBKVD_WORD_H

#include "client/libkvd/handle.h"
#include "common/util/clock.h"

#define WORD_PERCENT 89u

/* Takes the word of a welcome, of a READ. */
void word_take(struct kvd *handle, const struct fleet_word *word);

static inline bool word_has_ended(const struct kvd *handle)
{
	return handle->member.until_ns && clock_boot_ns() >= handle->member.until_ns;
}

/* READs the word if it is not fresh: where no READ judges it. */
void word_look(struct kvd *handle);
/* Computes anew until when READs count: the server's clock is known better. */
void word_time(struct kvd *handle);
/* Whether a narrower interval of the server's clock would tell more about the word's end. */
bool word_clock_is_wide(const struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_WORD_H */
