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

/*
 * The bytes of one READ. Makes the ring longer if nothing is READ to it; if that fails it stays as
 * it is.
 */
static uint32_t piece_choose(struct kvd *handle, const struct transfer *t)
{
	const struct connection *conn = &handle->conn;
	uint32_t piece;

	if (t->now)
		return PIECE_NOW;
	if (!t->direct && conn->ring.bytes < RING_BYTES_LARGE && conn->read_tail == conn->read_head)
		ring_resize(handle, RING_BYTES_LARGE);
	if (!t->direct)
		piece = (uint32_t)(conn->ring.bytes / RING_SHARE);
	else
		piece = handle->dev->kind == DEVICE_SOFTNIC ? PIECE_SOFTNIC : PIECE_VERBS;
	return piece < handle->message_max / 2 ? piece : handle->message_max / 2;
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

/* How many bytes one READ from the item's byte @at on has. */
static uint64_t piece_at(const struct flight *f, uint64_t at)
{
	const struct transfer *t = f->transfer;
	uint64_t head = 0, in_value, bytes;
	size_t left;

	if (!t->direct)
		return t->piece - at % t->piece;
	if (at < t->head_bytes)
		head = t->head_bytes - at;
	in_value = at + head - t->head_bytes;
	bytes = t->piece - in_value % t->piece;
	memory_at(f->mem, value_at(t, in_value, &bytes), &left);
	return head + (bytes < left ? bytes : left);
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
	t->limit = t->head_bytes + t->size;
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

	if (!t->direct && !t->now && handle->conn.ring.bytes < RING_BYTES_LARGE)
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

/* Adds a READ: header and key go to the ring at @ring_at, the rest to the caller's memory. */
static void direct_add(struct kvd *handle, struct flight *f, uint32_t ring_at, uint32_t bytes)
{
	struct connection *conn = &handle->conn;
	struct ibv_send_wr *wr = &conn->read_wrs[conn->chain_count];
	struct ibv_sge *sge = conn->read_sges[conn->chain_count];
	struct transfer *t = f->transfer;
	uint32_t head = t->posted ? 0 : t->head_bytes;
	uint64_t in_value = bytes - head;
	uint8_t *to;
	size_t left;

	chain_add(handle, f, t->offset + t->posted, &conn->ring, ring_at, bytes);
	if (bytes == head)
		return;
	if (head) {
		sge->length = head;
		wr->num_sge = 2;
		sge++;
	}
	to = value_at(t, t->posted + head - t->head_bytes, &in_value);
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
	uint32_t in_ring = t->direct && t->posted ? 0 : t->direct ? t->head_bytes : bytes;
	uint32_t *at = &t->ring_at[(t->first + t->reads) % TRANSFER_READS_MAX];

	*at = 0;
	if (!chain_room(conn) || (in_ring && !ring_take(conn, in_ring, at))) {
		if (!t->reads)
			read_wait(handle, f, in_ring);
		return false;
	}
	if (t->direct)
		direct_add(handle, f, *at, bytes);
	else
		chain_add(handle, f, t->offset + t->posted, &conn->ring, *at, bytes);
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
		t->piece = piece_choose(handle, t);
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
	return item_value_len(item) > t->size ? TRANSFER_FOUND : TRANSFER_GOING;
}

static void head_take(const struct kvd *handle, struct flight *f, const uint8_t *head,
		      uint64_t bytes)
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
	value_sum_begin(&t->sum, &handle->sum_key);
}

/* Copies a part of the value from the ring at @from to the caller, and hashes it. */
static void copy_and_sum(struct transfer *t, uint64_t at, const uint8_t *from, uint64_t bytes)
{
	uint64_t done, part;
	uint8_t *to;

	for (done = 0; done < bytes; done += part) {
		part = bytes - done < COPY_BYTES ? bytes - done : COPY_BYTES;
		to = value_at(t, at + done, &part);
		memcpy(to, from + done, part);
		value_sum_add(&t->sum, to, part);
	}
}

/* Takes the item's bytes from @at to @end, which have arrived; those in the ring are at @ring. */
static void value_take(struct transfer *t, uint64_t at, uint64_t end, const uint8_t *ring)
{
	uint64_t from = at < t->head_bytes ? t->head_bytes : at;
	uint64_t in_value = from - t->head_bytes, bytes;

	if (end > t->limit)
		end = t->limit;
	if (end <= from)
		return;
	bytes = end - from;
	if (t->direct)
		value_sum_add(&t->sum, value_at(t, in_value, &bytes), end - from);
	else
		copy_and_sum(t, in_value, ring + (from - at), end - from);
}

/*
 * Copies what follows the READ that has arrived, to one of the caller's pieces after another. If it
 * can't, READs follow.
 */
static void value_copy(struct kvd *handle, struct flight *f)
{
	struct transfer *t = f->transfer;
	uint64_t at, bytes, end = t->arrived + TRANSFER_NOW_BYTES;
	uint8_t *to;
	int64_t got;

	if (end > t->limit)
		end = t->limit;
	for (at = t->arrived; at < end; at += (uint64_t)got) {
		bytes = end - at;
		to = value_at(t, at - t->head_bytes, &bytes);
		got = read_now(handle, t->offset + at, to, (uint32_t)bytes, &t->sum);
		if (got <= 0) {
			t->now = false;
			t->piece = 0;
			return;
		}
		f->reads++;
		handle->stats.reads++;
		handle->stats.read_bytes += (uint64_t)got;
		if (t->direct)
			handle->stats.direct_bytes += (uint64_t)got;
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
	if (t->outcome == TRANSFER_GOING) {
		value_take(t, at, at + bytes, ring);
		if (t->now && t->arrived < t->limit)
			value_copy(handle, f);
		if (t->arrived >= t->limit)
			t->outcome = value_sum_end(&t->sum) ==
						     item_long(&t->front.item)->value_sum ?
					     TRANSFER_FOUND :
					     TRANSFER_STALE;
	}
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
