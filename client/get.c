/* SPDX-License-Identifier: MIT */
/*
 * GET: one-sided.
 *
 *	warm	the bucket cache knows the key's slot: READ item, verify.		1 READ
 *	cold	READ home bucket, pick slots by tag, READ item, verify.			2 READs
 *
 *   G1. An item counts only if its sum, made for this incarnation and this place, is right and its
 *	 key is the one looked for, byte for byte: then it was valid at some instant of the READ, and
 *	 by the server's rule T1 (server/table.h) it was the key's only valid copy. (Guarantees A, B)
 *   G2. A miss is reported only when every bucket of the chain verified, was of the home bucket's
 *	 level, and had no slot with the key's tag. Where a tag matched but the item was another
 *	 key's, the memory may have been recycled between the two READs: the server is asked.
 *	 (Guarantee C)
 *   G3. What does not verify is read again from the home bucket on, after a pause that doubles; after
 *	 get_tries reads the server is asked. (Guarantee G)
 *
 * Up to GETS_MAX look-ups go through these steps together, each step's READs in one chain.
 */
#include <string.h>

#include "client/handle.h"
#include "common/barrier.h"
#include "common/clock.h"
#include "common/sum.h"

/* Overflow buckets that are followed; the server makes fewer (CHAIN_MAX in server/table.h). */
#define HOPS_MAX 64
/* The pause before another try: doubles from the first to the last. */
#define PAUSE_NS_MIN 250
#define PAUSE_NS_MAX 64000
/* One GET in this many is timed, the first included. */
#define TIMED_EVERY 16

enum step {
	STEP_BUCKET, /* needs the bucket at bucket_offset */
	STEP_ITEM,   /* needs the item of slots[slot] */
	STEP_ASK,    /* needs the server */
	STEP_DONE,
};

struct look_up {
	struct kvd_get_request *request;
	uint64_t hash;
	uint64_t home;
	uint64_t bucket_offset;
	uint64_t slots[BUCKET_SLOTS]; /* with the key's tag, of one bucket */
	const uint8_t *buffer;	      /* where the READ under way puts it */
	enum step step;
	unsigned int slot, slot_count;
	unsigned int tries, hops;
	uint32_t overflow; /* of the bucket that was read last */
	uint8_t level;	   /* of the home bucket */
	bool cached;	   /* slots are from the bucket cache */
	bool foreign;	   /* a slot's tag matched, its item's key did not */
	bool again;	   /* has to read again: pause first */
};

static void finish(struct look_up *l, enum kvd_status status)
{
	l->request->status = status;
	l->step = STEP_DONE;
}

/* Reads the chain from its beginning. */
static void go_home(struct look_up *l)
{
	l->step = STEP_BUCKET;
	l->bucket_offset = l->home;
	l->hops = 0;
	l->cached = false;
	l->foreign = false;
}

static void try_again(struct kvd *handle, struct look_up *l)
{
	handle->stats.retries++;
	l->again = true;
	go_home(l);
	if (++l->tries >= handle->options.get_tries)
		l->step = STEP_ASK;
}

/* Where the bucket cache leads, if it knows the key's home. */
static void look_up_start(struct kvd *handle, struct look_up *l)
{
	go_home(l);
	l->tries = 0;
	l->again = false;
	l->slot = 0;
	l->slot_count = bcache_find(&handle->cache, l->home, hash_tag(l->hash), l->slots);
	if (l->slot_count) {
		l->step = STEP_ITEM;
		l->cached = true;
	}
}

/* After the last slot of a bucket: the next bucket of the chain, or the verdict. */
static void chain_next(struct look_up *l)
{
	if (l->overflow && l->hops < HOPS_MAX) {
		l->step = STEP_BUCKET;
		l->bucket_offset = (uint64_t)l->overflow * BUCKET_BYTES;
		l->hops++;
	} else if (l->overflow || l->foreign) {
		l->step = STEP_ASK;
	} else {
		finish(l, KVD_NOT_FOUND);
	}
}

/* This slot did not lead to the key: the next one, or on along the chain. */
static void slot_next(struct look_up *l)
{
	if (++l->slot < l->slot_count)
		l->step = STEP_ITEM;
	else if (l->cached)
		go_home(l);
	else
		chain_next(l);
}

static bool bucket_verifies(const struct kvd *handle, const struct look_up *l,
			    const struct bucket *bucket)
{
	if (bucket_sum(bucket, handle->geometry.incarnation, l->bucket_offset) != bucket->sum)
		return false;
	return l->hops ? bucket->level == l->level : bucket->level == handle->geometry.level;
}

static void bucket_arrived(struct kvd *handle, struct look_up *l)
{
	const struct bucket *bucket = (const struct bucket *)l->buffer;
	unsigned int i;

	if (!bucket_verifies(handle, l, bucket)) {
		try_again(handle, l);
		return;
	}
	bcache_store(&handle->cache, l->bucket_offset, bucket);
	l->level = bucket->level;
	l->overflow = bucket->overflow;
	l->slot = 0;
	l->slot_count = 0;
	for (i = 0; i < BUCKET_SLOTS; i++)
		if (bucket->slots[i] && slot_tag(bucket->slots[i]) == hash_tag(l->hash))
			l->slots[l->slot_count++] = bucket->slots[i];
	if (l->slot_count)
		l->step = STEP_ITEM;
	else
		chain_next(l);
}

/* Whether @item, of which @bytes were read, is whole and valid at @offset. */
static bool item_verifies(const struct item *item, uint64_t bytes, uint64_t seed, uint64_t offset)
{
	return item->sum != ITEM_SUM_INVALID && item->key_len && item->key_len <= KEY_MAX &&
	       item->value_len <= VALUE_MAX &&
	       item_bytes(item->key_len, item->value_len) <= bytes &&
	       item_sum(item, seed, offset) == item->sum;
}

static bool item_is_for(const struct item *item, const struct kvd_get_request *request)
{
	return item->key_len == request->key_len &&
	       !memcmp(item->data, request->key, request->key_len);
}

static enum kvd_status deliver(struct kvd *handle, struct kvd_get_request *request,
			       const void *value, size_t value_len, uint64_t version,
			       uint32_t flags)
{
	request->item = (struct kvd_item){
		.value_len = value_len,
		.version = version,
		.flags = flags,
	};
	if (value_len > request->value_size)
		return kvd_fail(handle, KVD_ERR_BUFFER, "a value of %zu bytes: the buffer has %zu",
				value_len, request->value_size);
	if (value_len)
		memcpy(request->value, value, value_len);
	return KVD_OK;
}

static void deliver_item(struct kvd *handle, struct look_up *l, const struct item *item)
{
	if (l->cached)
		handle->stats.cache_hits++;
	finish(l, deliver(handle, l->request, item->data + item->key_len, item->value_len,
			  item->version, item->flags));
}

/* A slot led to something that is not valid there (any more). */
static void item_stale(struct kvd *handle, struct look_up *l)
{
	bcache_drop(&handle->cache, l->home, l->slots[l->slot]);
	if (l->cached) {
		handle->stats.cache_stale++;
		go_home(l);
	} else {
		try_again(handle, l);
	}
}

static void item_arrived(struct kvd *handle, struct look_up *l, const struct item *item,
			 uint64_t bytes)
{
	uint64_t offset = slot_offset(l->slots[l->slot]);

	if (!item_verifies(item, bytes, handle->geometry.incarnation, offset)) {
		item_stale(handle, l);
	} else if (!item_is_for(item, l->request)) {
		l->foreign = true;
		slot_next(l);
	} else {
		deliver_item(handle, l, item);
	}
}

/*
 * A header that nothing has verified yet: what is clearly no item's must not make us allocate and
 * read what its length says.
 */
static bool head_is_likely(const struct kvd *handle, const struct item *head)
{
	return head->sum != ITEM_SUM_INVALID && head->key_len && head->key_len <= KEY_MAX &&
	       head->value_len <= handle->geometry.value_max;
}

/* Items too long for a slot to tell: first the header, for the length, then all of it. */
static enum kvd_status read_long_item(struct kvd *handle, struct look_up *l)
{
	uint64_t offset = slot_offset(l->slots[l->slot]), bytes;
	struct item head;
	enum kvd_status status;

	status = read_long(handle, offset, sizeof(head));
	if (status)
		return status;
	memcpy(&head, handle->scratch.base, sizeof(head));
	bytes = item_bytes(head.key_len, head.value_len);
	if (!head_is_likely(handle, &head) || !region_holds(handle, offset, bytes)) {
		item_stale(handle, l);
		return KVD_OK;
	}
	status = memory_resize(handle, &handle->scratch, bytes,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!status)
		status = read_long(handle, offset, bytes);
	if (!status)
		item_arrived(handle, l, (const struct item *)handle->scratch.base, bytes);
	return status;
}

/* Reads the copy that the server set aside, to be verified with its own seed. */
static enum kvd_status read_copy(struct kvd *handle, struct look_up *l,
				 const struct response *response)
{
	uint64_t bytes = item_bytes(l->request->key_len, response->value_len);
	uint64_t offset = slot_offset(response->slot);
	const struct item *item;
	enum kvd_status status;

	if (!region_holds(handle, offset, bytes))
		return kvd_fail(handle, KVD_ERR_PROTOCOL, "the server names a place out of bounds");
	status = memory_resize(handle, &handle->scratch, bytes,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!status)
		status = read_long(handle, offset, bytes);
	if (status)
		return status;
	item = (const struct item *)handle->scratch.base;
	if (!item_verifies(item, bytes, response->seed, offset) || !item_is_for(item, l->request)) {
		finish(l,
		       kvd_fail(handle, KVD_ERR_BUSY,
				"the server took its copy of the value back before it was read"));
		return KVD_OK;
	}
	finish(l, deliver(handle, l->request, item->data + item->key_len, item->value_len,
			  item->version, item->flags));
	return KVD_OK;
}

/* The two-sided GET, under the bucket's lock in the server. */
static enum kvd_status ask_server(struct kvd *handle, struct look_up *l)
{
	struct rpc rpc = {
		.head.op = WIRE_GET,
		.key = l->request->key,
		.key_len = l->request->key_len,
	};
	struct response response;
	enum kvd_status status;

	handle->stats.fallbacks++;
	status = rpc_call(handle, &rpc, &response);
	if (status)
		return status;
	status = rpc_status(handle, &response);
	if (!status && response.flags & WIRE_R_COPY)
		return read_copy(handle, l, &response);
	if (!status)
		status = deliver(handle, l->request, response.value, response.value_len,
				 response.version, response.item_flags);
	finish(l, status);
	return handle->broken ? status : KVD_OK;
}

/* The READs that the look-ups need next, as far as they fit scratch. */
struct round {
	struct read reads[GETS_MAX];
	struct look_up *owners[GETS_MAX];
	unsigned int count;
	uint64_t scratch_used;
};

static void round_add(struct round *round, struct look_up *l, const struct memory *memory,
		      uint64_t at, uint64_t offset, uint32_t bytes)
{
	l->buffer = memory->base + at;
	round->owners[round->count] = l;
	round->reads[round->count++] = (struct read){
		.offset = offset,
		.to = memory->base + at,
		.memory = memory,
		.bytes = bytes,
	};
}

static void round_add_item(struct kvd *handle, struct round *round, struct look_up *l)
{
	uint64_t slot = l->slots[l->slot];
	uint32_t bytes = slot_bytes(slot);

	/* No server makes a slot without a length or beyond the region; no READ is made of one. */
	if (!bytes || !region_holds(handle, slot_offset(slot), bytes)) {
		item_stale(handle, l);
		return;
	}
	if (round->scratch_used + bytes > handle->scratch.bytes)
		return;
	round_add(round, l, &handle->scratch, round->scratch_used, slot_offset(slot), bytes);
	round->scratch_used += bytes;
}

static void round_add_bucket(struct kvd *handle, struct round *round, struct look_up *l)
{
	if (!region_holds(handle, l->bucket_offset, BUCKET_BYTES)) {
		l->step = STEP_ASK;
		return;
	}
	handle->stats.bucket_reads++;
	round_add(round, l, &handle->buckets, (uint64_t)round->count * BUCKET_BYTES,
		  l->bucket_offset, BUCKET_BYTES);
}

/* One item alone must fit. */
static enum kvd_status scratch_for(struct kvd *handle, const struct look_up *l)
{
	uint32_t bytes = slot_bytes(l->slots[l->slot]);

	if (bytes <= handle->scratch.bytes)
		return KVD_OK;
	return memory_resize(handle, &handle->scratch, bytes,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

/* Steps that can't share a chain: the server, and long items. */
static enum kvd_status step_alone(struct kvd *handle, struct look_up *l)
{
	enum kvd_status status = KVD_OK;

	if (l->step == STEP_ITEM && slot_is_long(l->slots[l->slot]))
		status = read_long_item(handle, l);
	else if (l->step == STEP_ITEM)
		status = scratch_for(handle, l);
	if (!status && l->step == STEP_ASK)
		status = ask_server(handle, l);
	if (status == KVD_ERR_NO_MEMORY) {
		finish(l, status);
		status = KVD_OK;
	}
	return status;
}

static void pause_for(unsigned int tries)
{
	uint64_t ns = PAUSE_NS_MIN, until;

	while (--tries && ns < PAUSE_NS_MAX)
		ns *= 2;
	until = clock_ns() + ns;
	while (clock_ns() < until)
		cpu_relax();
}

/* Pauses if a look-up has to, as long as the one that has tried longest. */
static void pause_if_needed(struct look_up *look_ups, unsigned int count)
{
	unsigned int i, tries = 0;

	for (i = 0; i < count; i++) {
		if (look_ups[i].again && look_ups[i].tries > tries)
			tries = look_ups[i].tries;
		look_ups[i].again = false;
	}
	if (tries)
		pause_for(tries);
}

static enum kvd_status round_run(struct kvd *handle, struct round *round)
{
	enum kvd_status status;
	struct look_up *l;
	unsigned int i;

	status = read_chain(handle, round->reads, round->count);
	for (i = 0; !status && i < round->count; i++) {
		l = round->owners[i];
		if (l->step == STEP_BUCKET)
			bucket_arrived(handle, l);
		else
			item_arrived(handle, l, (const struct item *)l->buffer,
				     round->reads[i].bytes);
	}
	return status;
}

/*
 * One step of all look-ups: alone what must be, the rest as one chain of READs. Returns with
 * *@done when nothing was left to do.
 */
static enum kvd_status step_all(struct kvd *handle, struct look_up *look_ups, unsigned int count,
				bool *done)
{
	struct round round;
	enum kvd_status status;
	unsigned int i;

	round.count = 0;
	round.scratch_used = 0;
	for (i = 0; i < count; i++) {
		status = step_alone(handle, &look_ups[i]);
		if (status)
			return status;
	}
	*done = true;
	for (i = 0; i < count; i++) {
		struct look_up *l = &look_ups[i];

		if (l->step == STEP_DONE)
			continue;
		*done = false;
		if (l->step == STEP_BUCKET)
			round_add_bucket(handle, &round, l);
		else if (l->step == STEP_ITEM && !slot_is_long(l->slots[l->slot]))
			round_add_item(handle, &round, l);
	}
	return round.count ? round_run(handle, &round) : KVD_OK;
}

/*
 * Every step takes a look-up forward: to the next slot, bucket or try, of which each has a bound, so
 * the loop has one.
 */
static enum kvd_status run(struct kvd *handle, struct look_up *look_ups, unsigned int count)
{
	enum kvd_status status = KVD_OK;
	bool done = false;

	while (!status && !done) {
		pause_if_needed(look_ups, count);
		status = step_all(handle, look_ups, count, &done);
	}
	return status;
}

static void count_answers(struct kvd *handle, const struct kvd_get_request *requests,
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

/* Prepares the look-ups of @requests; those that can't be done are done already. */
static void prepare(struct kvd *handle, struct look_up *look_ups, struct kvd_get_request *requests,
		    unsigned int count)
{
	struct look_up *l;
	unsigned int i;

	for (i = 0; i < count; i++) {
		l = &look_ups[i];
		l->request = &requests[i];
		l->again = false;
		if (key_check(handle, requests[i].key, requests[i].key_len)) {
			finish(l, KVD_ERR_INVALID);
			continue;
		}
		l->hash = key_hash(requests[i].key, requests[i].key_len,
				   handle->geometry.hash_seed);
		l->home = home_offset(handle, l->hash);
		l->step = STEP_BUCKET;
		if (count > 1)
			bcache_prefetch(&handle->cache, l->home);
	}
	for (i = 0; i < count; i++)
		if (look_ups[i].step != STEP_DONE)
			look_up_start(handle, &look_ups[i]);
}

/* At most GETS_MAX. */
static enum kvd_status get_some(struct kvd *handle, struct kvd_get_request *requests,
				unsigned int count)
{
	bool timed = handle->timed_gets++ % TIMED_EVERY == 0;
	uint64_t start = timed ? clock_ns() : 0;
	struct look_up look_ups[GETS_MAX];
	enum kvd_status status;
	unsigned int i;

	handle->deadline_ns = 0;
	prepare(handle, look_ups, requests, count);
	status = run(handle, look_ups, count);
	for (i = 0; status && i < count; i++)
		if (look_ups[i].step != STEP_DONE)
			requests[i].status = status;
	count_answers(handle, requests, count);
	if (timed)
		hist_record(&handle->latency[KVD_OP_GET], clock_ns() - start);
	return status;
}

enum kvd_status kvd_get_many(struct kvd *handle, struct kvd_get_request *requests, size_t count)
{
	enum kvd_status status = call_begin(handle);
	size_t i, n;

	for (i = 0; i < count; i += n) {
		n = count - i < GETS_MAX ? count - i : GETS_MAX;
		if (!status)
			status = get_some(handle, requests + i, (unsigned int)n);
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
		status = get_some(handle, &request, 1);
	if (!status)
		status = request.status;
	if (item && (status == KVD_OK || status == KVD_ERR_BUFFER))
		*item = request.item;
	return status;
}
