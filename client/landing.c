/* SPDX-License-Identifier: MIT */
/* How flights end. */
#include "client/landing.h"

#include "client/batch.h"
#include "client/large.h"
#include "client/read.h"

/* No flight's change of the key is outstanding any more: GETs of it may begin. */
static void change_end(struct kvd *handle, struct flight *f)
{
	struct list waiters;

	f->counted = false;
	handle->changes--;
	handle->change_filter[f->lookup.hash % (1 << CHANGE_FILTER_BITS)]--;
	if (list_empty(&handle->blocked) || handle->conn.broken)
		return;
	list_init(&waiters);
	list_move_all(&waiters, &handle->blocked);
	while (!list_empty(&waiters)) {
		f = list_entry(waiters.next, struct flight, link);
		list_remove(&f->link);
		f->place = PLACE_NONE;
		f->ops->begin(handle, f);
	}
}

void flight_end(struct kvd *handle, struct flight *f)
{
	f->place = PLACE_ENDED;
	if (handle->conn.fence == f) {
		handle->conn.fence = NULL;
		handle->attention = true;
	}
	if (f->counted)
		change_end(handle, f);
	if (f->left)
		--*f->left;
	else if (f->ended)
		f->ended(handle, f);
}

void flight_fail(struct kvd *handle, struct flight *f, enum kvd_status status)
{
	f->ops->fail(f, status);
	flight_end(handle, f);
}

static void request_detach(struct connection *conn, const struct flight *f)
{
	struct message *message = &conn->messages[f->message];
	struct batch *batch;
	unsigned int i;

	message->flight = NULL;
	if (!message->batch)
		return;
	batch = &conn->batches[f->message];
	for (i = 0; i < batch->count; i++)
		if (batch->flights[i] == f)
			batch->flights[i] = NULL;
}

void flight_detach(struct kvd *handle, struct flight *f)
{
	struct read *read = NULL;

	switch ((enum flight_place)f->place) {
	case PLACE_QUEUED:
		list_remove(&f->link);
		break;
	case PLACE_READING:
		read = read_of(&handle->conn, f);
		if (read)
			read->flight = NULL;
		break;
	case PLACE_SENT:
		request_detach(&handle->conn, f);
		break;
	case PLACE_NONE:
	case PLACE_ENDED:
		break;
	}
	f->place = PLACE_NONE;
	if (handle->large_flight == f)
		large_detach(handle, read);
}

void flight_cut(struct kvd *handle, struct flight *f, enum kvd_status status)
{
	flight_detach(handle, f);
	flight_fail(handle, f, status);
}
