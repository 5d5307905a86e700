/* SPDX-License-Identifier: MIT */
/*
 * GET, one-sided: READs buckets and items for up to GETS_MAX lookups together, each step's READs in
 * one chain.
 *
 *	warm	the bucket cache has the key's slot: READ item, verify.			1 READ
 *	cold	READ home bucket, pick slots by tag, READ item, verify.			2 READs
 *
 * client/lookup.c decides what the data means and what to READ next (G1 to G4).
 */
#include "client/get_rpc.h"
#include "client/lookup.h"
#include "client/read.h"
#include "client/rpc.h"
#include "common/barrier.h"
#include "common/util/clock.h"

/* One GET in so many is timed, beginning with the first. */
#define TIMED_EVERY 16
/* The pause before a retry: the first, and the bound to which it doubles. */
#define PAUSE_NS_MIN 250
#define PAUSE_NS_MAX 64000

/*
 * Checks a header that is not verified yet: before memory of the length it says is allocated and
 * READ.
 */
static bool header_is_plausible(const struct kvd *handle, const struct item *head)
{
	return head->sum != ITEM_SUM_INVALID && head->key_len && head->key_len <= KEY_MAX &&
	       head->value_len <= handle->geometry.value_max;
}

/* An item too long for its slot to hold the length: READs the header first, then all of it. */
static enum kvd_status read_long_item(struct kvd *handle, struct lookup *l)
{
	uint64_t offset = slot_offset(l->slots[l->slot]), bytes;
	struct item head;
	enum kvd_status status;

	status = handle_scratch_resize(handle, sizeof(head));
	if (!status)
		status = read_long(handle, offset, sizeof(head));
	if (status)
		return status;
	memcpy(&head, handle->scratch.base, sizeof(head));
	bytes = item_bytes(head.key_len, head.value_len);
	if (!header_is_plausible(handle, &head) || !region_holds(handle, offset, bytes)) {
		lookup_stale(handle, l);
		return KVD_OK;
	}
	status = handle_scratch_resize(handle, bytes);
	if (!status)
		status = read_long(handle, offset, bytes);
	if (!status)
		lookup_item(handle, l, (const struct item *)handle->scratch.base, bytes);
	return status;
}

/* Lets the server do the GET. */
static enum kvd_status lookup_by_rpc(struct kvd *handle, struct lookup *l)
{
	enum kvd_status status;

	handle->stats.fallbacks++;
	status = get_rpc(handle, l->request, 0, 0);
	lookup_finish(l, l->request->status);
	return status;
}

/* Narrows the interval of the server's clock by a PING; then the item is READ again. */
static enum kvd_status lookup_refresh_clock(struct kvd *handle, struct lookup *l)
{
	l->step = STEP_ITEM;
	l->since_ns = clock_raw_ns();
	clock_load_barrier();
	/* Another lookup of this batch may have done it. */
	if (server_clock_width(&handle->clock, l->since_ns) <= CLOCK_WIDTH_NS_MAX)
		return KVD_OK;
	handle->stats.clock_asks++;
	return rpc_clock(handle);
}

/* The READs that the lookups need next, as many as fit scratch. */
struct round {
	struct lookup *owners[GETS_MAX];
	unsigned int count;
	unsigned int left;  /* lookups that are not done */
	unsigned int tries; /* the most of those that have to pause */
	bool alone;	    /* a lookup has a step to do that can't share a chain */
	uint64_t scratch_used;
	uint64_t began_ns; /* clock_raw_ns() before the READs are posted; 0: not needed */
};

static inline void round_add(struct kvd *handle, struct round *round, struct lookup *l,
			     const struct reg_buf *buf, uint64_t at, uint64_t offset,
			     uint32_t bytes)
{
	l->buffer = buf->base + at;
	l->bytes = bytes;
	read_add(handle, round->count, offset, buf, at, bytes);
	round->owners[round->count++] = l;
}

/* An item that does not fit the rest of scratch waits for the next round. */
static inline void round_add_item(struct kvd *handle, struct round *round, struct lookup *l)
{
	uint64_t slot = l->slots[l->slot];
	uint32_t bytes = slot_bytes(slot);

	if (slot_is_long(slot)) {
		round->alone = true;
		return;
	}
	/* No server stores such a slot; a READ of it would break the connection. */
	if (!bytes || !region_holds(handle, slot_offset(slot), bytes)) {
		lookup_stale(handle, l);
		return;
	}
	/* Counts also where it fits: scratch must not shrink meanwhile. */
	if (bytes > handle->scratch_wanted)
		handle->scratch_wanted = bytes;
	if (bytes > handle->scratch.bytes)
		round->alone = true;
	else if (round->scratch_used + bytes <= handle->scratch.bytes) {
		read_prefetch(handle, slot_offset(slot), bytes);
		round_add(handle, round, l, &handle->scratch, round->scratch_used,
			  slot_offset(slot), bytes);
		round->scratch_used += bytes;
	}
}

/* The first bucket of a chain starts the time that G2 bounds by CHAIN_NS_MAX. */
static void round_add_bucket(struct kvd *handle, struct round *round, struct lookup *l)
{
	if (!region_holds(handle, l->bucket_offset, BUCKET_BYTES)) {
		l->step = STEP_RPC;
		round->alone = true;
		return;
	}
	if (!l->hops) {
		if (!round->began_ns)
			round->began_ns = clock_raw_ns();
		l->chain_ns = round->began_ns;
	}
	handle->stats.bucket_reads++;
	read_prefetch(handle, l->bucket_offset, BUCKET_BYTES);
	round_add(handle, round, l, &handle->buckets, (uint64_t)round->count * BUCKET_BYTES,
		  l->bucket_offset, BUCKET_BYTES);
}

static inline void round_begin(struct round *round)
{
	round->count = round->left = round->tries = 0;
	round->alone = false;
	round->scratch_used = 0;
	round->began_ns = 0;
}

/* Adds what a lookup that is not done needs next. */
static inline void round_add_step(struct kvd *handle, struct round *round, struct lookup *l)
{
	round->left++;
	if (l->step == STEP_ITEM)
		round_add_item(handle, round, l);
	else if (l->step == STEP_BUCKET)
		round_add_bucket(handle, round, l);
	else
		round->alone = true;
}

/* Puts the READs of all lookups together. */
static void round_plan(struct kvd *handle, struct round *round, struct lookup *lookups,
		       unsigned int count)
{
	struct lookup *l;

	round_begin(round);
	for (l = lookups; l < lookups + count; l++) {
		if (l->step == STEP_DONE)
			continue;
		if (l->backoff && l->tries > round->tries)
			round->tries = l->tries;
		l->backoff = false;
		round_add_step(handle, round, l);
	}
}

/* Does the steps that can't share a chain: requests, the geometry, and long items. */
static enum kvd_status lookup_step_alone(struct kvd *handle, struct lookup *l)
{
	enum kvd_status status = KVD_OK;

	if (l->step == STEP_MOVED)
		status = lookup_moved(handle, l);
	else if (l->step == STEP_CLOCK)
		status = lookup_refresh_clock(handle, l);
	if (!status && l->step == STEP_ITEM && slot_is_long(l->slots[l->slot]))
		status = read_long_item(handle, l);
	else if (!status && l->step == STEP_ITEM)
		status = handle_scratch_resize(handle, slot_bytes(l->slots[l->slot]));
	if (!status && l->step == STEP_RPC)
		status = lookup_by_rpc(handle, l);
	if (status == KVD_ERR_NO_MEMORY) {
		lookup_finish(l, status);
		status = KVD_OK;
	}
	return status;
}

/* Busy-waits: a PUT takes less time than a sleep. Doubles with each try up to PAUSE_NS_MAX. */
static void backoff_pause(unsigned int tries)
{
	uint64_t ns = PAUSE_NS_MIN, until;

	while (--tries && ns < PAUSE_NS_MAX)
		ns *= 2;
	until = clock_ns() + ns;
	while (clock_ns() < until)
		cpu_relax();
}

/* Posts the READs of a round, waits for all, and gives each lookup its data. */
static enum kvd_status round_run(struct kvd *handle, struct round *round)
{
	enum kvd_status status = read_chain(handle, round->count);
	struct lookup *l;
	unsigned int i;

	if (status)
		return status;
	for (i = 0; i < round->count; i++) {
		l = round->owners[i];
		if (l->step == STEP_BUCKET)
			lookup_bucket(handle, l);
		else
			lookup_item(handle, l, (const struct item *)l->buffer, l->bytes);
		round->left -= l->step == STEP_DONE;
	}
	return KVD_OK;
}

/* Those that have to pause first do theirs after the next round. */
static enum kvd_status lookups_step_alone(struct kvd *handle, struct lookup *lookups,
					  unsigned int count)
{
	enum kvd_status status = KVD_OK;
	unsigned int i;

	for (i = 0; !status && i < count; i++)
		if (!lookups[i].backoff)
			status = lookup_step_alone(handle, &lookups[i]);
	return status;
}

/* Ends: each step takes a lookup to its next slot, bucket or try, and each of these has a bound. */
static enum kvd_status lookups_run(struct kvd *handle, struct round *round, struct lookup *lookups,
				   unsigned int count)
{
	enum kvd_status status = KVD_OK;

	for (;;) {
		if (round->tries)
			backoff_pause(round->tries);
		if (round->count)
			status = round_run(handle, round);
		if (!status && round->alone)
			status = lookups_step_alone(handle, lookups, count);
		if (status || !round->left)
			return status;
		round_plan(handle, round, lookups, count);
	}
}

/* A value too long for the caller's buffer is a hit: the key was found. */
static void count_results(struct kvd *handle, const struct kvd_get_request *requests,
			  unsigned int count)
{
	unsigned int i;

	handle->stats.gets += count;
	for (i = 0; i < count; i++) {
		handle->stats.hits += requests[i].status == KVD_OK ||
				      requests[i].status == KVD_ERR_BUFFER;
		handle->stats.misses += requests[i].status == KVD_NOT_FOUND;
	}
}

static enum kvd_status request_check(struct kvd *handle, const struct kvd_get_request *request)
{
	enum kvd_status status = key_check(handle, request->key, request->key_len);

	return status ? status : buffer_check(handle, request->value, request->value_size);
}

/* Hashes the key, and prefetches what is cached of it. */
static inline void lookup_prepare(struct kvd *handle, struct lookup *l,
				  struct kvd_get_request *request)
{
	l->request = request;
	if (request_check(handle, request)) {
		l->backoff = false;
		lookup_finish(l, KVD_ERR_INVALID);
		return;
	}
	l->hash = key_hash(request->key, request->key_len, handle->geometry.hash_seed);
	l->step = STEP_BUCKET;
	bcache_prefetch(&handle->cache, l->hash);
}

/*
 * Starts the lookups of @requests, and puts their first READs together; those with a bad key or
 * buffer are done at once. Cache and region are much larger than the CPU's cache: each of the two
 * is prefetched for all lookups before the first one uses it.
 */
static void lookups_start(struct kvd *handle, struct round *round, struct lookup *lookups,
			  struct kvd_get_request *requests, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		lookup_prepare(handle, &lookups[i], &requests[i]);
	if (!handle->region_source)
		handle->region_source = handle->dev->ops->read_source(
			handle->qp, handle->rkey, handle->region_addr,
			handle->geometry.region_bytes);
	round_begin(round);
	for (i = 0; i < count; i++) {
		if (lookups[i].step == STEP_DONE)
			continue;
		lookup_start(handle, &lookups[i]);
		round_add_step(handle, round, &lookups[i]);
	}
}

/* @count: at most GETS_MAX. */
static enum kvd_status get_batch(struct kvd *handle, struct kvd_get_request *requests,
				 unsigned int count)
{
	bool timed = handle->timed_gets++ % TIMED_EVERY == 0;
	uint64_t start = timed ? clock_ns() : 0;
	struct lookup lookups[GETS_MAX];
	enum kvd_status status;
	struct round round;
	unsigned int i;

	handle->deadline_ns = 0;
	lookups_start(handle, &round, lookups, requests, count);
	status = lookups_run(handle, &round, lookups, count);
	for (i = 0; status && i < count; i++)
		if (lookups[i].step != STEP_DONE)
			requests[i].status = status;
	count_results(handle, requests, count);
	if (timed)
		hist_record(&handle->latency[KVD_OP_GET], clock_ns() - start);
	/* These GETs are done; if this fails, the next call returns the error. */
	if (handle->access.due && !status)
		access_report(handle);
	return status;
}

enum kvd_status kvd_get_many(struct kvd *handle, struct kvd_get_request *requests, size_t count)
{
	enum kvd_status status = call_begin(handle);
	size_t i, n;

	if (!requests && count)
		return status ? status :
				handle_fail(handle, KVD_ERR_INVALID, "the requests are NULL");
	for (i = 0; i < count; i += n) {
		n = count - i < GETS_MAX ? count - i : GETS_MAX;
		if (!status)
			status = get_batch(handle, requests + i, (unsigned int)n);
		else
			for (size_t j = 0; j < n; j++)
				requests[i + j].status = status;
	}
	return status;
}

enum kvd_status kvd_get(struct kvd *handle, const void *key, size_t key_len, void *value,
			size_t value_size, struct kvd_item *item)
{
	struct kvd_get_request request = {
		.key = key,
		.key_len = key_len,
		.value = value,
		.value_size = value_size,
	};
	enum kvd_status status = call_begin(handle);

	if (!status)
		status = get_batch(handle, &request, 1);
	if (!status)
		status = request.status;
	if (item && (status == KVD_OK || status == KVD_ERR_BUFFER))
		*item = request.item;
	return status;
}

static enum kvd_status get_by_request(struct kvd *handle, struct kvd_get_request *request,
				      uint16_t flags, uint32_t ttl_s, struct kvd_item *item)
{
	enum kvd_status status = call_begin(handle);
	uint64_t start;
	bool timed;

	if (!status)
		status = key_check(handle, request->key, request->key_len);
	if (!status)
		status = buffer_check(handle, request->value, request->value_size);
	if (!status)
		status = ttl_check(handle, ttl_s);
	if (status)
		return status;
	timed = handle->timed_gets++ % TIMED_EVERY == 0;
	start = timed ? clock_ns() : 0;
	get_rpc(handle, request, flags, ttl_s);
	count_results(handle, request, 1);
	if (timed)
		hist_record(&handle->latency[KVD_OP_GET], clock_ns() - start);
	if (item && (request->status == KVD_OK || request->status == KVD_ERR_BUFFER))
		*item = request->item;
	return request->status;
}

enum kvd_status kvd_get_by_request(struct kvd *handle, const void *key, size_t key_len, void *value,
				   size_t value_size, struct kvd_item *item)
{
	struct kvd_get_request request = {
		.key = key,
		.key_len = key_len,
		.value = value,
		.value_size = value_size,
	};

	return get_by_request(handle, &request, 0, 0, item);
}

enum kvd_status kvd_get_and_touch(struct kvd *handle, const void *key, size_t key_len,
				  uint32_t ttl_s, void *value, size_t value_size,
				  struct kvd_item *item)
{
	struct kvd_get_request request = {
		.key = key,
		.key_len = key_len,
		.value = value,
		.value_size = value_size,
	};

	return get_by_request(handle, &request, WIRE_F_TOUCH, ttl_s, item);
}
