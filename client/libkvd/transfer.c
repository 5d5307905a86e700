/* SPDX-License-Identifier: MIT */
/* Transfers: posts the READs of an item, and processes what arrives. */
#include "client/libkvd/transfer.h"

#include <stdlib.h>

#include "client/libkvd/lookup.h"
#include "client/libkvd/memory.h"
#include "client/libkvd/pieces.h"
#include "client/libkvd/read.h"
#include "common/util/heap.h"

/* The ring of a handle that READs items longer than RING_BYTES_MAX, and its share for one READ. */
#define RING_BYTES_LARGE (256u << 10)
#define RING_SHARE 8u
/*
 * Bytes of one READ to the caller's memory. On softnic this thread copies when it posts, so one
 * READ in flight is enough, of a size that stays in the CPU's second-level cache until it is
 * hashed.
 */
#define PIECE_SOFTNIC (64u << 10)
#define PIECE_VERBS (256u << 10)
/* Bytes of a READ after which read_now() copies. */
#define PIECE_NOW (4u << 10)
/* Copied, then hashed: stays in the CPU's first-level cache in between. */
#define COPY_BYTES (8u << 10)

static struct transfer *transfer_take(struct kvd *handle)
{
	struct transfer *t;

	if (!list_empty(&handle->transfers)) {
		t = list_entry(handle->transfers.next, struct transfer, link);
		list_remove(&t->link);
		return t;
	}
	if (handle->transfer_count == TRANSFERS_MAX)
		return NULL;
	t = heap_alloc(sizeof(*t));
	if (t)
		handle->transfer_memory[handle->transfer_count++] = t;
	return t;
}

void transfers_release(struct kvd *handle)
{
	while (handle->transfer_count)
		heap_free(handle->transfer_memory[--handle->transfer_count]);
}

/* Whether something but the header is READ to the ring. */
static bool uses_ring(const struct flight *f)
{
	return !f->transfer->direct || f->lookup.part == PART_RANGE;
}

/*
 * Sets the bytes of one READ. Makes the ring longer if nothing is READ to it; if that fails it
 * stays as it is.
 */
static void piece_choose(struct kvd *handle, const struct flight *f)
{
	const struct connection *conn = &handle->conn;
	const uint32_t most = handle->message_max / 2;
	struct transfer *t = f->transfer;

	if (!t->now && uses_ring(f) && conn->ring.bytes < RING_BYTES_LARGE &&
	    conn->read_tail == conn->read_head)
		ring_resize(handle, RING_BYTES_LARGE);
	t->ring_piece = (uint32_t)(conn->ring.bytes / RING_SHARE);
	if (t->now)
		t->piece = PIECE_NOW;
	else if (!t->direct)
		t->piece = t->ring_piece;
	else
		t->piece = handle->dev->kind == DEVICE_SOFTNIC ? PIECE_SOFTNIC : PIECE_VERBS;
	t->piece = t->piece < most ? t->piece : most;
	t->ring_piece = t->ring_piece < most ? t->ring_piece : most;
}

/* Where byte @at of the value goes; lowers *@bytes to what is contiguous there. */
static uint8_t *value_at(const struct transfer *t, uint64_t at, uint64_t *bytes)
{
	uint8_t *to;
	size_t left;

	if (!t->pieces)
		return t->value + at;
	to = pieces_at(t->pieces, at, &left);
	if (left < *bytes)
		*bytes = left;
	return to;
}

/* What comes before the value. */
static uint64_t value_begin(const struct transfer *t)
{
	return t->head_bytes + (uint64_t)t->sums_bytes;
}

/* The item's byte that is READ as the one @at. */
static uint64_t item_at(const struct transfer *t, uint64_t at)
{
	if (at < t->head_bytes)
		return at;
	if (at < value_begin(t))
		return at + item_value_len(&t->front.item);
	return t->head_bytes + t->from + (at - value_begin(t));
}

/*
 * Where what is READ as the byte @at, of the value, goes; NULL: it is not wanted. Lowers *@bytes to
 * what goes there, or is not wanted either.
 */
static uint8_t *wanted_at(const struct transfer *t, uint64_t at, uint64_t *bytes)
{
	uint64_t in_value = t->from + (at - value_begin(t)), end = UINT64_MAX;
	bool is_wanted = in_value >= t->wanted.at && in_value < t->wanted.end;

	if (in_value < t->wanted.at)
		end = t->wanted.at;
	else if (is_wanted)
		end = t->wanted.end;
	if (*bytes > end - in_value)
		*bytes = end - in_value;
	return is_wanted ? value_at(t, in_value - t->wanted.at, bytes) : NULL;
}

/* Bytes of one READ from the byte @at on, of which the first are before those that go @to. */
static uint64_t direct_piece(const struct flight *f, uint64_t at)
{
	const struct transfer *t = f->transfer;
	uint64_t begin = value_begin(t), head = at < begin ? begin - at : 0;
	uint64_t bytes = t->piece - (at + head - begin) % t->piece;
	uint8_t *to = wanted_at(t, at + head, &bytes);
	size_t left = 0;

	if (to)
		memory_at(f->mem, to, &left);
	else
		left = t->ring_piece;
	return head + (bytes < left ? bytes : left);
}

/* How many bytes one READ from the byte @at on has. */
static uint64_t piece_at(const struct flight *f, uint64_t at)
{
	const struct transfer *t = f->transfer;
	uint64_t bytes = t->piece - at % t->piece;

	/* The header of a range, and its piece sums, are READ on their own. */
	if (f->lookup.part == PART_RANGE && at < value_begin(t)) {
		uint64_t left = (at < t->head_bytes ? t->head_bytes : value_begin(t)) - at;

		return left < t->ring_piece ? left : t->ring_piece;
	}
	return t->direct ? direct_piece(f, at) : bytes;
}

/* How many of @bytes from the byte @at on are READ to the ring. */
static uint32_t ring_part(const struct transfer *t, uint64_t at, uint64_t bytes)
{
	uint64_t one = 1;

	if (!t->direct)
		return (uint32_t)bytes;
	if (at < value_begin(t))
		return (uint32_t)(bytes < value_begin(t) - at ? bytes : value_begin(t) - at);
	return wanted_at(t, at, &one) ? 0 : (uint32_t)bytes;
}

static int64_t read_now(struct kvd *handle, uint64_t offset, void *to, uint32_t bytes,
			struct value_sum *sum)
{
	const struct connection *conn = &handle->conn;

	return handle->dev->ops->read_now(conn->qp, conn->rkeys[connection_extent(conn, offset)],
					  conn->region_addr + offset, to, bytes, sum);
}

static bool now_possible(struct kvd *handle)
{
	/* A lost connection may have no queue pair any more. */
	return !handle->conn.broken && !read_now(handle, 0, NULL, 0, NULL);
}

static void transfer_init(struct kvd *handle, struct flight *f)
{
	const struct kvd_get_request *request = f->lookup.request;
	struct transfer *t = f->transfer;
	uint64_t rest = region_left(handle, f->large_offset);

	t->offset = f->large_offset;
	t->value = request->value;
	t->pieces = f->lookup.pieces ? f->op : NULL;
	t->size = t->pieces ? pieces_bytes(t->pieces) : request->value_size;
	/* No value is longer, and the sums below do not wrap. */
	if (t->size > VALUE_MAX)
		t->size = VALUE_MAX;
	t->head_bytes = (uint32_t)(sizeof(union item_front) + request->key_len);
	t->from = t->sums_bytes = 0;
	t->sums = NULL;
	t->wanted = (struct value_range){ .at = 0, .end = t->size };
	t->limit = t->head_bytes + (f->lookup.part == PART_RANGE ? 0 : t->size);
	if (t->limit > rest)
		t->limit = rest;
	if (f->large_bytes && t->limit > f->large_bytes)
		t->limit = f->large_bytes;
	t->posted = t->arrived = 0;
	t->reads = t->first = 0;
	t->head_known = false;
	t->direct = f->direct;
	t->now = now_possible(handle);
	t->outcome = TRANSFER_GOING;
	t->expired = false;
	t->piece = 0;
	t->reads_max = handle->dev->kind == DEVICE_SOFTNIC ? 1 : TRANSFER_READS_MAX;
}

/* Posts later if the ring may grow then: the READ that has just completed is still in it. */
static void first_post(struct kvd *handle, struct flight *f)
{
	const struct transfer *t = f->transfer;

	if (uses_ring(f) && !t->now && handle->conn.ring.bytes < RING_BYTES_LARGE)
		read_wait(handle, f, 0);
	else
		transfer_post(handle, f);
}

enum kvd_status transfer_begin(struct kvd *handle, struct flight *f)
{
	f->transfer = transfer_take(handle);
	if (!f->transfer && !handle->transfer_count)
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "no memory to read a large value");
	if (!f->transfer) {
		f->place = PLACE_QUEUED;
		list_add(&handle->large_waiters, &f->link);
		return KVD_OK;
	}
	f->has_transfer = true;
	transfer_init(handle, f);
	first_post(handle, f);
	return KVD_OK;
}

/* Adds a READ: its first @head bytes go to the ring at @ring_at, others to the caller's memory. */
static void direct_add(struct kvd *handle, struct flight *f, uint32_t ring_at, uint32_t head,
		       uint32_t bytes)
{
	struct connection *conn = &handle->conn;
	struct ibv_send_wr *wr = &conn->read_wrs[conn->chain_count];
	struct ibv_sge *sge = conn->read_sges[conn->chain_count];
	struct transfer *t = f->transfer;
	uint64_t in_value = bytes - head;
	uint8_t *to;
	size_t left;

	chain_add(handle, f, t->offset + item_at(t, t->posted), &conn->ring, ring_at, bytes);
	if (bytes == head)
		return;
	if (head) {
		sge->length = head;
		wr->num_sge = 2;
		sge++;
	}
	to = wanted_at(t, t->posted + head, &in_value);
	sge->addr = (uintptr_t)to;
	sge->length = bytes - head;
	sge->lkey = memory_at(f->mem, to, &left)->lkey;
	handle->stats.direct_bytes += sge->length;
}

/* Adds a READ of @bytes. False: there is no room for it now. */
static bool piece_post(struct kvd *handle, struct flight *f, uint32_t bytes)
{
	struct connection *conn = &handle->conn;
	struct transfer *t = f->transfer;
	uint32_t in_ring = ring_part(t, t->posted, bytes);
	uint32_t *at = &t->ring_at[(t->first + t->reads) % TRANSFER_READS_MAX];

	*at = 0;
	if (!chain_room(conn) || (in_ring && !ring_take(conn, in_ring, at))) {
		if (!t->reads)
			read_wait(handle, f, in_ring);
		return false;
	}
	if (t->direct)
		direct_add(handle, f, *at, in_ring, bytes);
	else
		chain_add(handle, f, t->offset + item_at(t, t->posted), &conn->ring, *at, bytes);
	f->place = PLACE_READING;
	t->reads++;
	t->posted += bytes;
	/* Each READ is a chain of its own, so that it has a completion. */
	if (t->reads_max > 1)
		chain_post(handle);
	return true;
}

void transfer_post(struct kvd *handle, struct flight *f)
{
	struct transfer *t = f->transfer;
	uint64_t bytes;

	if (!t->piece)
		piece_choose(handle, f);
	while (t->reads < t->reads_max && t->posted < t->limit && !handle->conn.broken) {
		bytes = piece_at(f, t->posted);
		if (bytes > t->limit - t->posted)
			bytes = t->limit - t->posted;
		if (!piece_post(handle, f, (uint32_t)bytes))
			return;
	}
}

/* What the header says of the item, of which @bytes have arrived. */
static enum transfer_outcome head_check(const struct kvd *handle, const struct flight *f,
					const struct item *item, uint64_t bytes)
{
	const struct transfer *t = f->transfer;
	uint64_t all;

	if (!item_is_plausible(item) || !item_is_long(item))
		return TRANSFER_STALE;
	/* Not all of its key is here. */
	if (item_covered_bytes(item) > bytes)
		return TRANSFER_OTHER;
	if (item_sum(item, &handle->sum_key, handle->geometry.incarnation, t->offset) != item->sum)
		return TRANSFER_STALE;
	if (!item_is_for(item, f->lookup.request))
		return TRANSFER_OTHER;
	all = item_bytes(item);
	if (all > region_left(handle, t->offset) || (f->large_bytes && all > f->large_bytes))
		return TRANSFER_STALE;
	if (f->lookup.part != PART_RANGE && item_value_len(item) > t->size)
		return TRANSFER_FOUND;
	return TRANSFER_GOING;
}

/* Whether the piece sums, which have arrived, are the item's; then the value follows. */
static enum transfer_outcome sums_take(const struct kvd *handle, struct transfer *t)
{
	const struct item *item = &t->front.item;
	uint64_t first = t->from / PIECE_BYTES;
	uint64_t pieces = (t->limit - value_begin(t) + PIECE_BYTES - 1) / PIECE_BYTES;
	const uint8_t *from = t->sums + first * PIECE_SUM_BYTES;

	if (sum_bytes(&handle->sum_key, t->sums, t->sums_bytes) != item_long(item)->value_sum)
		return TRANSFER_STALE;
	/* As value_sum_end() makes it: that of one piece is its own. */
	if (pieces == 1)
		memcpy(&t->value_sum, from, sizeof(t->value_sum));
	else
		t->value_sum = sum_bytes(&handle->sum_key, from, pieces * PIECE_SUM_BYTES);
	return TRANSFER_GOING;
}

/* Decides, with the header known, which pieces are READ for the range. */
static enum transfer_outcome range_plan(struct kvd *handle, struct flight *f)
{
	struct transfer *t = f->transfer;
	uint64_t value_len = item_value_len(&t->front.item), end;

	t->wanted = range_of(&f->lookup, value_len);
	if (t->wanted.at == t->wanted.end)
		return TRANSFER_FOUND;
	t->from = t->wanted.at / PIECE_BYTES * PIECE_BYTES;
	end = (t->wanted.end + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
	if (end > value_len)
		end = value_len;
	/* Of all pieces the sum is known. */
	if (end - t->from < value_len) {
		t->sums_bytes = (uint32_t)piece_sums_bytes(value_len);
		t->sums = heap_alloc(t->sums_bytes);
		if (!t->sums) {
			t->stopped = handle_fail(handle, KVD_ERR_NO_MEMORY,
						 "no memory for the sums of a large value");
			return TRANSFER_ENDED;
		}
	}
	t->limit = value_begin(t) + (end - t->from);
	return TRANSFER_GOING;
}

static void head_take(struct kvd *handle, struct flight *f, const uint8_t *head, uint64_t bytes)
{
	const struct item *item = (const struct item *)(const void *)head;
	struct transfer *t = f->transfer;

	if (bytes < t->head_bytes) {
		t->outcome = TRANSFER_STALE;
		return;
	}
	t->outcome = head_check(handle, f, item, t->direct ? t->head_bytes : bytes);
	memcpy(&t->front, item, sizeof(t->front));
	t->head_known = true;
	t->limit = t->head_bytes + (uint64_t)item_value_len(item);
	t->value_sum = item_long(item)->value_sum;
	value_sum_begin(&t->sum, &handle->sum_key);
	if (t->outcome == TRANSFER_GOING && f->lookup.part == PART_RANGE)
		t->outcome = range_plan(handle, f);
}

/* Takes the piece sums from the byte @at to @end, which are in the ring. */
static void sums_arrive(const struct kvd *handle, struct transfer *t, uint64_t at, uint64_t end,
			const uint8_t *ring)
{
	memcpy(t->sums + (at - t->head_bytes), ring, end - at);
	if (end == value_begin(t))
		t->outcome = sums_take(handle, t);
}

/*
 * Takes the bytes from @at to @end, which have arrived, and hashes those of the value; @ring: where
 * the first of those in the ring is. What is copied is hashed where it went to.
 */
static void value_take(struct transfer *t, uint64_t at, uint64_t end, const uint8_t *ring)
{
	uint64_t from = at < value_begin(t) ? value_begin(t) : at, bytes;
	uint8_t *to;

	if (end > t->limit)
		end = t->limit;
	for (; from < end; from += bytes) {
		bytes = end - from;
		to = wanted_at(t, from, &bytes);
		if (to && !t->direct) {
			bytes = bytes < COPY_BYTES ? bytes : COPY_BYTES;
			memcpy(to, ring + (from - at), bytes);
		}
		value_sum_add(&t->sum, to ? to : ring + (from - at), bytes);
	}
}

/*
 * Copies what is READ as the bytes from @at on, @bytes at most, and hashes them: to the caller's
 * memory, or, if they are not wanted, to nowhere. Returns their number, or what read_now() does.
 */
static int64_t now_copy(struct kvd *handle, struct transfer *t, uint64_t at, uint64_t bytes)
{
	uint64_t begin = value_begin(t);
	uint8_t unwanted[COPY_BYTES], *to;
	int64_t got;

	if (at < begin) {
		to = t->sums + (at - t->head_bytes);
		bytes = bytes < begin - at ? bytes : begin - at;
	} else {
		to = wanted_at(t, at, &bytes);
	}
	if (!to) {
		to = unwanted;
		bytes = bytes < sizeof(unwanted) ? bytes : sizeof(unwanted);
	}
	got = read_now(handle, t->offset + item_at(t, at), to, (uint32_t)bytes, &t->sum);
	if (got > 0 && t->direct && at >= begin && to != unwanted)
		handle->stats.direct_bytes += (uint64_t)got;
	if (got <= 0 || at >= begin)
		return got;
	/* The hash of the sums is made when all are there. */
	value_sum_begin(&t->sum, &handle->sum_key);
	if (at + (uint64_t)got == begin)
		t->outcome = sums_take(handle, t);
	return got;
}

/*
 * Copies what follows the READ that has arrived, to one of the caller's pieces after another. If it
 * can't, READs follow.
 */
static void value_copy(struct kvd *handle, struct flight *f)
{
	struct transfer *t = f->transfer;
	uint64_t at, end = t->arrived + TRANSFER_NOW_BYTES;
	int64_t got;

	if (end > t->limit)
		end = t->limit;
	for (at = t->arrived; at < end && t->outcome == TRANSFER_GOING; at += (uint64_t)got) {
		got = now_copy(handle, t, at, end - at);
		if (got <= 0) {
			t->now = false;
			t->piece = 0;
			return;
		}
		f->reads++;
		handle->stats.reads++;
		handle->stats.read_bytes += (uint64_t)got;
		t->arrived = t->posted = at + (uint64_t)got;
	}
}

bool transfer_piece(struct kvd *handle, struct flight *f)
{
	const uint8_t *ring = handle->conn.ring.base;
	struct transfer *t = f->transfer;
	uint64_t at = t->arrived, bytes = piece_at(f, at);

	ring += t->ring_at[t->first];
	t->first = (t->first + 1) % TRANSFER_READS_MAX;
	t->reads--;
	if (at + bytes > t->posted)
		bytes = t->posted - at;
	t->arrived = at + bytes;
	if (t->outcome == TRANSFER_GOING && !t->head_known)
		head_take(handle, f, ring, bytes);
	else if (t->outcome == TRANSFER_GOING && at < value_begin(t))
		sums_arrive(handle, t, at, at + bytes, ring);
	if (t->outcome == TRANSFER_GOING)
		value_take(t, at, at + bytes, ring);
	if (t->outcome == TRANSFER_GOING && t->now && t->arrived < t->limit)
		value_copy(handle, f);
	if (t->outcome == TRANSFER_GOING && t->arrived >= t->limit)
		t->outcome = value_sum_end(&t->sum) == t->value_sum ? TRANSFER_FOUND :
								      TRANSFER_STALE;
	f->place = t->reads ? PLACE_READING : PLACE_NONE;
	if (t->outcome != TRANSFER_GOING)
		return !t->reads;
	if (t->piece)
		transfer_post(handle, f);
	else
		first_post(handle, f);
	return false;
}

void transfer_release(struct kvd *handle, struct flight *f)
{
	heap_free(f->transfer->sums);
	f->transfer->sums = NULL;
	list_add_first(&handle->transfers, &f->transfer->link);
	f->has_transfer = false;
	while (!list_empty(&handle->large_waiters) && !list_empty(&handle->transfers) &&
	       handle->up && !handle->conn.broken) {
		f = list_entry(handle->large_waiters.next, struct flight, link);
		list_remove(&f->link);
		f->place = PLACE_NONE;
		f->ops->ready(handle, f);
	}
}

bool transfer_touches(const struct flight *f)
{
	return f->has_transfer && f->transfer->direct && f->transfer->reads;
}

void transfer_stop(struct flight *f, enum kvd_status status)
{
	if (f->transfer->outcome == TRANSFER_ENDED && status != KVD_ERR_CANCELED)
		return;
	f->transfer->outcome = TRANSFER_ENDED;
	f->transfer->stopped = status;
}
