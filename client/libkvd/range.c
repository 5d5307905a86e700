/* SPDX-License-Identifier: MIT */
/*
 * Ranges: lookups that want a part of the value. An item that may have one piece is READ whole, and
 * the range copied. Of a longer one a transfer READs header and key, and then its piece sums and
 * the pieces that the range touches (client/libkvd/transfer.h). By GET-5 the header was that of the
 * key's item at an instant of the lookup; the piece sums have its value sum, and the pieces have
 * their sums: so these are the bytes of that version, whenever each was READ.
 */
#include "client/libkvd/engine.h"
#include "client/libkvd/get.h"
#include "client/libkvd/observe.h"

/* @count: at most GETS_MAX. */
static enum kvd_status ranges_batch(struct kvd *handle, struct kvd_range *ranges,
				    unsigned int count)
{
	struct kvd_get_request requests[GETS_MAX];
	size_t offsets[GETS_MAX];
	enum kvd_status status;
	unsigned int i;

	for (i = 0; i < count; i++) {
		requests[i] = (struct kvd_get_request){
			.key = ranges[i].key,
			.key_len = ranges[i].key_len,
			.value = ranges[i].value,
			.value_size = ranges[i].value_size,
		};
		offsets[i] = ranges[i].offset;
	}
	status = lookups_call(handle, requests, count, PART_RANGE, offsets);
	for (i = 0; i < count; i++) {
		ranges[i].status = requests[i].status;
		ranges[i].item = requests[i].item;
		get_count(handle, requests[i].status);
	}
	if (handle->observing)
		observe_counted(handle);
	/* The GETs are done; if this fails, the next call returns the error. */
	if (handle->access.due && !status)
		access_settle(handle);
	return status;
}

static void ranges_end(struct kvd_range *ranges, size_t count, enum kvd_status status)
{
	size_t i;

	for (i = 0; ranges && i < count; i++)
		ranges[i].status = status;
}

enum kvd_status kvd_get_ranges(struct kvd *handle, struct kvd_range *ranges, size_t count)
{
	enum kvd_status status = call_begin(handle);
	size_t at, n;

	if (status) {
		ranges_end(ranges, count, status);
		return status;
	}
	if (!ranges && count)
		status = handle_fail(handle, KVD_ERR_INVALID, "the ranges are NULL");
	for (at = 0; !status && at < count; at += n) {
		n = count - at < GETS_MAX ? count - at : GETS_MAX;
		status = ranges_batch(handle, ranges + at, (unsigned int)n);
	}
	if (status && ranges && at < count)
		ranges_end(ranges + at, count - at, status);
	return call_end(handle, status);
}
