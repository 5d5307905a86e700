/* SPDX-License-Identifier: MIT */
/*
 * GETs, one-sided: READs buckets and items, of many lookups in one chain.
 *
 *	warm	the bucket cache has the key's slot: READ item, verify.			1 READ
 *	cold	READ home bucket, pick slots by tag, READ item, verify.			2 READs
 *
 * client/libkvd/lookup.c decides what the data means and what to READ next (GET-1 to GET-4).
 *
 * Whether keys exist is known from lookups that READ no values (GET-5). They need no message, and
 * count as no use of the items.
 */
#include "client/libkvd/get.h"

#include "client/libkvd/engine.h"
#include "client/libkvd/extents.h"
#include "client/libkvd/fleet_links.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/geometry.h"
#include "client/libkvd/lookup.h"
#include "client/libkvd/observe.h"
#include "client/libkvd/read.h"
#include "client/libkvd/rpc.h"
#include "client/libkvd/transfer.h"
#include "client/libkvd/word.h"
#include "common/barrier.h"
#include "common/util/clock.h"

/* The pause before a retry: the first, and the bound to which it doubles. */
#define PAUSE_NS_MIN 250
#define PAUSE_NS_MAX 64000
/* kvd_exists_leading() starts with this many keys, and doubles that up to GETS_MAX. */
#define LEADING_FIRST 4u

/* Lets the flight wait in @queue until something else moves it on. */
static void flight_queue(struct flight *f, struct list *queue)
{
	f->place = PLACE_QUEUED;
	list_add(queue, &f->link);
}

/* Pauses awake: a PUT takes less time than a sleep. */
static void lookup_pause(struct kvd *handle, struct flight *f)
{
	unsigned int tries = f->lookup.tries;
	uint64_t ns = PAUSE_NS_MIN;

	while (--tries && ns < PAUSE_NS_MAX)
		ns *= 2;
	f->lookup.backoff = false;
	f->retry_ns = clock_ns() + ns;
	flight_queue(f, &handle->paused);
	handle->attention = true;
}

/* Lets the server do the GET. */
static void lookup_by_rpc(struct kvd *handle, struct flight *f)
{
	handle->stats.fallbacks++;
	get_request(handle, f);
}

/* The server's clock is known: the READs that it judges must begin now. */
static void clock_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	struct list waiters;

	list_init(&waiters);
	list_move_all(&waiters, &handle->clock_waiters);
	/* A refusal is no failure here: it has the clock, too. */
	if (response->status && response->status != WIRE_BUSY && response->status != WIRE_LIMIT)
		response_status(handle, response);
	if (handle->member.word_clock)
		handle->member.home->fleet_ops->word_clock(handle);
	while (!list_empty(&waiters)) {
		f = list_entry(waiters.next, struct flight, link);
		list_remove(&f->link);
		f->lookup.since_ns = clock_raw_ns();
		clock_load_barrier();
		lookup_step(handle, f);
	}
}

static const struct flight_ops clock_ops = { .response = clock_response };

void clock_ask(struct kvd *handle)
{
	struct flight *f = &handle->clock_flight;

	if (f->place == PLACE_QUEUED || f->place == PLACE_SENT)
		return;
	handle->stats.clock_asks++;
	f->ops = &clock_ops;
	f->kind = FLIGHT_OWN;
	f->rpc = (struct rpc){ .on_loss = LOSS_REPEATS, .head.op = WIRE_PING };
	request_add(handle, f);
}

/* Narrows the interval of the server's clock by a PING; then the item is READ again. */
static bool lookup_clock(struct kvd *handle, struct flight *f)
{
	struct lookup *l = &f->lookup;

	l->step = STEP_ITEM;
	l->since_ns = clock_raw_ns();
	clock_load_barrier();
	/* Another lookup may have done it. */
	if (server_clock_width(&handle->clock, l->since_ns) <= CLOCK_WIDTH_NS_MAX)
		return true;
	if (connection_is_silent(&handle->conn)) {
		silence_cut(handle, f);
		return false;
	}
	flight_queue(f, &handle->clock_waiters);
	clock_ask(handle);
	return false;
}

/* Starts again with another word. Another lookup may have READ it. */
static bool lookup_word(struct kvd *handle, struct flight *f)
{
	if (word_has_ended(handle)) {
		flight_queue(f, &handle->word_waiters);
		handle->member.home->fleet_ops->word_read(handle);
		return false;
	}
	lookup_again(handle, &f->lookup);
	return true;
}

/* Goes to the bucket to which the key was moved, by the geometry as it is now. */
static bool lookup_move(struct kvd *handle, struct flight *f)
{
	if (geometry_adopt(handle) || !geometry_due(handle)) {
		lookup_moved(handle, &f->lookup);
		return true;
	}
	flight_queue(f, &handle->geometry_waiters);
	geometry_read(handle);
	return false;
}

/* True: the READ is in the chain, or waits for room. */
static inline bool bucket_read(struct kvd *handle, struct flight *f)
{
	struct lookup *l = &f->lookup;

	if (region_lacks(handle, l->bucket_offset) || !region_left(handle, l->bucket_offset)) {
		l->step = STEP_RPC;
		return false;
	}
	/* The first bucket of a chain starts the time that GET-2 bounds by CHAIN_NS_MAX. */
	if (!l->hops) {
		if (!handle->conn.chain_ns)
			handle->conn.chain_ns = clock_raw_ns();
		l->chain_ns = handle->conn.chain_ns;
	}
	if (read_add(handle, f, l->bucket_offset, BUCKET_BYTES))
		handle->stats.bucket_reads++;
	else
		read_wait(handle, f, BUCKET_BYTES);
	return true;
}

/* True: the READ is in the chain, or waits for room; false: lookup.step says what is next. */
static ALWAYS_INLINE bool item_read(struct kvd *handle, struct flight *f)
{
	struct lookup *l = &f->lookup;
	uint64_t slot = l->slots[l->slot];
	uint32_t bytes = lookup_item_bytes(l, slot_bytes(slot));
	uint64_t left = region_left(handle, slot_offset(slot));

	if (region_lacks(handle, slot_offset(slot))) {
		/* A cached slot may be of an extent that is gone. */
		if (l->cached)
			lookup_stale(handle, l);
		else
			l->step = STEP_RPC;
		return false;
	}
	if (slot_is_long(slot) && l->part != PART_NONE) {
		item_transfer(handle, f, slot_offset(slot), 0);
		return true;
	}
	/* No server stores such a slot, and its READ would break the connection. */
	if (!bytes || bytes > left) {
		lookup_stale(handle, l);
		return false;
	}
	if (bytes >= TRANSFER_DIRECT_MIN && (ring_is_short(&handle->conn, bytes) ||
					     (l->part != PART_RANGE && value_is_direct(handle, f))))
		item_transfer(handle, f, slot_offset(slot), bytes);
	else if (!read_add(handle, f, slot_offset(slot), bytes))
		read_wait(handle, f, bytes);
	return true;
}

/* The loop ends: each step leads to the next slot, bucket or try, which all have bounds. */
void lookup_step(struct kvd *handle, struct flight *f)
{
	struct lookup *l = &f->lookup;
	bool more = true;

	f->place = PLACE_NONE;
	f->phase = PHASE_PLAIN;
	while (more) {
		if (l->backoff) {
			lookup_pause(handle, f);
			return;
		}
		switch (l->step) {
		case STEP_ITEM:
			more = !item_read(handle, f);
			break;
		case STEP_BUCKET:
			more = !bucket_read(handle, f);
			break;
		case STEP_MOVED:
			more = lookup_move(handle, f);
			break;
		case STEP_CLOCK:
			more = lookup_clock(handle, f);
			break;
		case STEP_WORD:
			more = lookup_word(handle, f);
			break;
		case STEP_RPC:
			lookup_by_rpc(handle, f);
			return;
		case STEP_DONE:
			flight_end(handle, f);
			return;
		}
	}
}

/* KVD_ERR_INVALID if the key or the buffer is invalid. */
static inline enum kvd_status get_check(struct kvd *handle, const struct kvd_get_request *request)
{
	enum kvd_status status = key_check(handle, request->key, request->key_len);

	return status ? status : buffer_check(handle, request->value, request->value_size);
}

/* Looks up where the region is mapped here, until that is known. */
static inline void source_find(struct kvd *handle)
{
	const struct connection *conn = &handle->conn;

	/* A lost connection may have no queue pair any more. */
	if (conn->sources_known < conn->extents && !conn->broken)
		extents_find(handle);
}

void lookup_begin(struct kvd *handle, struct flight *f)
{
	if (change_blocks(handle, f->lookup.hash)) {
		flight_queue(f, &handle->blocked);
		return;
	}
	source_find(handle);
	lookup_start(handle, &f->lookup);
	lookup_step(handle, f);
}

/* The flight's READ has completed. */
static void read_done(struct kvd *handle, struct flight *f)
{
	struct lookup *l = &f->lookup;

	if (f->phase != PHASE_PLAIN) {
		large_done(handle, f);
		return;
	}
	if (l->step == STEP_BUCKET)
		lookup_bucket(handle, l);
	else
		lookup_item(handle, l, (const struct item *)l->buffer, l->bytes);
	if (l->step == STEP_DONE && f->left && !f->direct) {
		f->place = PLACE_ENDED;
		--*f->left;
	} else {
		lookup_step(handle, f);
	}
}

static void get_ready(struct kvd *handle, struct flight *f)
{
	if (f->phase == PHASE_PLAIN)
		lookup_step(handle, f);
	else
		large_ready(handle, f);
}

static void get_fail(struct flight *f, enum kvd_status status)
{
	lookup_finish(&f->lookup, status);
}

/* After a change of the key for which the GET has waited. */
static void get_begin(struct kvd *handle, struct flight *f)
{
	if (f->kind == FLIGHT_GET)
		get_request(handle, f);
	else
		lookup_begin(handle, f);
}

const struct flight_ops get_ops = {
	.begin = get_begin,
	.ready = get_ready,
	.read_done = read_done,
	.response = get_response,
	.fail = get_fail,
};

/*
 * Starts the lookups, except those that ended for a bad key or buffer, and adds their first READs
 * to one chain. Bucket cache and region are much larger than the CPU's cache: each is prefetched
 * for all lookups before the first one uses it.
 */
static ALWAYS_INLINE void lookups_start(struct kvd *handle, struct flight *flights,
					unsigned int count)
{
	struct flight *f;

	if (handle->up)
		source_find(handle);
	for (f = flights; f < flights + count; f++) {
		if (f->place == PLACE_ENDED)
			continue;
		if (change_blocks(handle, f->lookup.hash)) {
			flight_queue(f, &handle->blocked);
			continue;
		}
		lookup_start(handle, &f->lookup);
		if (f->lookup.step != STEP_ITEM || !item_read(handle, f))
			lookup_step(handle, f);
	}
}

static enum kvd_opcode lookup_op(const struct flight *f)
{
	static const uint8_t ops[] = {
		[PART_WHOLE] = KVD_OP_GET,
		[PART_NONE] = KVD_OP_EXISTS,
		[PART_RANGE] = KVD_OP_GET_RANGE,
	};

	return (enum kvd_opcode)ops[f->lookup.part];
}

/* batch_start() and batch_end() are not inlined: that would cost GETs that are not observed. */
static __attribute__((noinline)) void batch_start(struct kvd *handle, struct flight *flights,
						  unsigned int count)
{
	struct observed observed = { .op = lookup_op(flights), .start_ns = clock_ns() };
	unsigned int i;

	for (i = 0; i < count; i++) {
		flights[i].start_ns = observed.start_ns;
		observe_flight(&flights[i]);
		observed.about = flights[i].lookup.request;
		observe_start(handle, &observed);
	}
}

/* The lookups of a batch end together. */
static __attribute__((noinline)) void batch_end(struct kvd *handle, const struct flight *flights,
						unsigned int count)
{
	struct observed observed = { .op = lookup_op(flights), .start_ns = flights[0].start_ns };
	uint64_t end_ns = clock_ns();
	unsigned int i;

	for (i = 0; i < count; i++) {
		observed.about = flights[i].lookup.request;
		observe_end(handle, &observed, &flights[i], observed.about->status, end_ns);
	}
}

/* Runs the lookups at the members that have the keys. One of a member that is ready begins here. */
static ALWAYS_INLINE void fleet_lookups(struct kvd *handle, struct flight *flights,
					unsigned int count, unsigned int *left)
{
	struct kvd *member = count == 1 ? fleet_ready(handle, flights) : NULL;
	unsigned int i;

	if (member) {
		lookups_start(member, flights, 1);
		engine_step(member);
		/* The usual end, to which the fleet adds nothing. */
		if (!*left && flights->lookup.request->status <= KVD_NOT_FOUND &&
		    !member->access.due) {
			handle->call_count = 0;
			member->member.flights--;
			return;
		}
	}
	for (i = 0; i < count; i++)
		flights[i].op = NULL;
	handle->fleet_ops->call(handle, flights, count, left);
}

/* Inlined: one lookup needs no loops, and its flight is near the warm top of the stack. */
static ALWAYS_INLINE enum kvd_status do_lookups(struct kvd *handle, struct flight *flights,
						struct kvd_get_request *requests,
						unsigned int count, enum lookup_part part,
						const size_t *offsets)
{
	unsigned int i, left = count;
	enum kvd_status status;
	struct flight *f;

	handle->deadline_ns = 0;
	status = engine_turn(handle);
	for (i = 0; i < count; i++) {
		f = &flights[i];
		flight_init_lookup(f, &left, &requests[i]);
		f->ops = &get_ops;
		f->lookup.part = (uint8_t)part;
		if (part == PART_RANGE)
			f->lookup.range_at = offsets[i];
		if (status || get_check(handle, &requests[i])) {
			requests[i].status = status ? status : KVD_ERR_INVALID;
			f->place = PLACE_ENDED;
			left--;
		} else {
			lookup_prepare(handle, &f->lookup);
		}
	}
	if (handle->observing)
		batch_start(handle, flights, count);
	if (left && handle->fleet) {
		fleet_lookups(handle, flights, count, &left);
	} else if (left) {
		lookups_start(handle, flights, count);
		status = engine_run(handle, flights, count, &left);
	}
	if (handle->observing)
		batch_end(handle, flights, count);
	return status;
}

enum kvd_status lookups_call(struct kvd *handle, struct kvd_get_request *requests,
			     unsigned int count, enum lookup_part part, const size_t *offsets)
{
	struct flight flights[GETS_MAX];

	return do_lookups(handle, flights, requests, count, part, offsets);
}

/* @count: at most GETS_MAX. */
static ALWAYS_INLINE enum kvd_status do_gets(struct kvd *handle, struct flight *flights,
					     struct kvd_get_request *requests, unsigned int count)
{
	bool timed = handle->timed_gets++ % TIMED_EVERY == 0;
	uint64_t start = timed ? clock_ns() : 0;
	enum kvd_status status = do_lookups(handle, flights, requests, count, PART_WHOLE, NULL);
	unsigned int i;

	for (i = 0; i < count; i++)
		get_count(handle, requests[i].status);
	if (handle->observing)
		observe_counted(handle);
	if (timed)
		handle_latency(handle, KVD_OP_GET, clock_ns() - start);
	/* The GETs are done; if this fails, the next call returns the error. */
	if (handle->access.due && !status)
		access_settle(handle);
	return status;
}

static enum kvd_status get_batch(struct kvd *handle, struct kvd_get_request *requests,
				 unsigned int count)
{
	struct flight flights[GETS_MAX];

	return do_gets(handle, flights, requests, count);
}

enum kvd_status kvd_get_many(struct kvd *handle, struct kvd_get_request *requests, size_t count)
{
	enum kvd_status status = call_begin(handle);
	size_t i, j, n;

	if (!requests && count) {
		if (status)
			return status;
		return call_end(handle,
				handle_fail(handle, KVD_ERR_INVALID, "the requests are NULL"));
	}
	if (status) {
		for (i = 0; i < count; i++)
			requests[i].status = status;
		return status;
	}
	for (i = 0; i < count; i += n) {
		n = count - i < GETS_MAX ? count - i : GETS_MAX;
		if (!status)
			status = get_batch(handle, requests + i, (unsigned int)n);
		else
			for (j = 0; j < n; j++)
				requests[i + j].status = status;
	}
	return call_end(handle, status);
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
	struct flight flight;

	if (status)
		return status;
	status = do_gets(handle, &flight, &request, 1);
	if (!status)
		status = request.status;
	if (item && (status == KVD_OK || status == KVD_ERR_BUFFER))
		*item = request.item;
	return call_end(handle, status);
}

void exists_count(struct kvd *handle, enum kvd_status status)
{
	handle->stats.exists++;
	handle->stats.exists_found += status == KVD_OK;
}

/* Not whether the key exists, nor that its length is bad. */
static bool is_unknown(enum kvd_status status)
{
	return status > KVD_NOT_FOUND && status != KVD_ERR_INVALID;
}

/*
 * @count: at most GETS_MAX. Adds those that exist to *@found. @results may be NULL: then only the
 * status that is returned can say that a key may exist and was not counted.
 */
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
	status = lookups_call(handle, requests, count, PART_NONE, NULL);
	for (i = 0; i < count; i++) {
		/* On a silent connection some may be known, and others not. */
		if (!status && requests[i].status == KVD_ERR_AWAY && !handle->fleet)
			status = KVD_ERR_AWAY;
		if (results)
			results[i] = (struct kvd_exists){ requests[i].status, requests[i].item };
		else if (!status && is_unknown(requests[i].status))
			status = requests[i].status;
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
