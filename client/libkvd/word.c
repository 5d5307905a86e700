/* SPDX-License-Identifier: MIT */
/* The word of a member: the time until which READs count. */
#include "client/libkvd/word.h"

/* The part of what is left of a word that the server's clock may be uncertain by. */
#define CLOCK_SHARE 8u

/*
 * The check leaves out sleep of this host of up to CLOCK_SLEPT_NS_MIN: the server's clock may be
 * later by that.
 */
void word_time(struct kvd *handle)
{
	struct member *member = &handle->member;
	uint64_t boot_ns = clock_boot_ns(), raw_ns = clock_raw_ns(), high, left = 0;
	uint64_t end_ns = member->word.end_ns;

	if (end_ns == UINT64_MAX) {
		member->fresh_ns = member->until_ns = 0;
		return;
	}
	handle_clock_check(handle);
	high = server_clock_high(&handle->clock, raw_ns);
	if (high < end_ns && end_ns - high > CLOCK_SLEPT_NS_MIN)
		left = (end_ns - high - CLOCK_SLEPT_NS_MIN) / 100 * WORD_PERCENT;
	member->fresh_ns = boot_ns + left / 2;
	member->until_ns = boot_ns + left;
}

void word_take(struct kvd *handle, const struct fleet_word *word)
{
	struct member *member = &handle->member;
	bool same = word->generation == member->word.generation &&
		    word->epoch == member->word.epoch;

	member->word = *word;
	word_time(handle);
	if (!same)
		member->home->fleet_ops->judge(handle);
}

bool word_clock_is_wide(const struct kvd *handle)
{
	uint64_t now_ns = clock_raw_ns(), end_ns = handle->member.word.end_ns;
	uint64_t low = server_clock_low(&handle->clock, now_ns);

	return end_ns != UINT64_MAX && low < end_ns &&
	       server_clock_width(&handle->clock, now_ns) > (end_ns - low) / CLOCK_SHARE;
}

void word_look(struct kvd *handle)
{
	if (handle->member.fresh_ns && clock_boot_ns() >= handle->member.fresh_ns)
		handle->member.home->fleet_ops->word_read(handle);
}
