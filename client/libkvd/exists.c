/* SPDX-License-Identifier: MIT */
/*
 * Whether keys exist, of many in one call: lookups (client/libkvd/lookup.c) that READ no values.
 * They need no message, and count as no use of the items.
 */
#include "client/libkvd/engine.h"
#include "client/libkvd/get.h"
#include "client/libkvd/observe.h"

/* kvd_exists_leading() begins with so many keys, and doubles that up to GETS_MAX. */
#define LEADING_FIRST 4u

void exists_count(struct kvd *handle, enum kvd_status status)
{
	handle->stats.exists++;
	handle->stats.exists_found += status == KVD_OK;
}

/* @count: at most GETS_MAX. Adds those that exist to *@found. @results may be NULL. */
static enum kvd_status exists_batch(struct kvd *handle, const struct kvd_key *keys,
				    struct kvd_exists *results, unsigned int count, size_t *found)
{
	struct kvd_get_request requests[GETS_MAX];
	enum kvd_status status;
	unsigned int i;

	for (i = 0; i < count; i++)
		requests[i] = (struct kvd_get_request){
			.key = keys[i].key,
			.key_len = keys[i].key_len,
		};
	status = lookups_call(handle, requests, count, true);
	for (i = 0; i < count; i++) {
		if (results)
			results[i] = (struct kvd_exists){ requests[i].status, requests[i].item };
		*found += requests[i].status == KVD_OK;
		exists_count(handle, requests[i].status);
	}
	if (handle->observing)
		observe_counted(handle);
	return status;
}

static enum kvd_status keys_check(struct kvd *handle, const struct kvd_key *keys, size_t count)
{
	return keys || !count ? KVD_OK : handle_fail(handle, KVD_ERR_INVALID, "the keys are NULL");
}

enum kvd_status kvd_exists_many(struct kvd *handle, const struct kvd_key *keys, size_t count,
				struct kvd_exists *results, size_t *present)
{
	enum kvd_status status = call_begin(handle);
	size_t found = 0, at, n;

	if (present)
		*present = 0;
	if (status) {
		for (at = 0; results && at < count; at++)
			results[at] = (struct kvd_exists){ .status = status };
		return status;
	}
	status = keys_check(handle, keys, count);
	for (at = 0; !status && at < count; at += n) {
		n = count - at < GETS_MAX ? count - at : GETS_MAX;
		status = exists_batch(handle, keys + at, results ? results + at : NULL,
				      (unsigned int)n, &found);
	}
	for (; results && keys && at < count; at++)
		results[at] = (struct kvd_exists){ .status = status };
	if (present)
		*present = found;
	return call_end(handle, status);
}

/* Adds the keys of @results that exist before the first that does not to *@leading. */
static enum kvd_status leading_add(const struct kvd_exists *results, unsigned int count,
				   size_t *leading)
{
	unsigned int i;

	for (i = 0; i < count && results[i].status == KVD_OK; i++)
		++*leading;
	return i < count ? results[i].status : KVD_OK;
}

enum kvd_status kvd_exists_leading(struct kvd *handle, const struct kvd_key *keys, size_t count,
				   size_t *leading)
{
	enum kvd_status status = call_begin(handle), first = KVD_OK;
	struct kvd_exists results[GETS_MAX] = { 0 };
	size_t found = 0, step = LEADING_FIRST, any = 0, n;

	if (leading)
		*leading = 0;
	if (status)
		return status;
	status = keys_check(handle, keys, count);
	while (!status && !first && found < count) {
		n = count - found < step ? count - found : step;
		step = step * 2 < GETS_MAX ? step * 2 : GETS_MAX;
		status = exists_batch(handle, keys + found, results, (unsigned int)n, &any);
		first = leading_add(results, (unsigned int)n, &found);
	}
	if (leading)
		*leading = found;
	return call_end(handle, first && first != KVD_NOT_FOUND ? first : status);
}
