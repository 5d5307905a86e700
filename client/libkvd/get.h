/* SPDX-License-Identifier: MIT */
/*
 * GETs: by READs (client/libkvd/get.c), and of large items or by request
 * (client/libkvd/get_large.c).
 */
#ifndef KVD_CLIENT_LIBKVD_GET_H
#define KVD_CLIENT_LIBKVD_GET_H

#include "client/libkvd/handle.h"
#include "client/libkvd/lookup.h"

/* Counts a GET that ended. A value too long for the caller's buffer is a hit: the key was found. */
static inline void get_count(struct kvd *handle, enum kvd_status status)
{
	handle->stats.gets++;
	if (status == KVD_OK || status == KVD_ERR_BUFFER)
		handle->stats.hits++;
	else
		handle->stats.misses += status == KVD_NOT_FOUND;
}

/* Counts a lookup of no value that ended. */
void exists_count(struct kvd *handle, enum kvd_status status);

/* Hashes the key, and prefetches what is cached of it: before lookup_begin(). */
static inline void lookup_prepare(struct kvd *handle, struct lookup *l)
{
	l->hash = key_hash(l->request->key, l->request->key_len, handle->geometry.hash_seed);
	bcache_prefetch(&handle->cache, l->hash);
}

/* Starts the lookup, unless it must wait for an earlier change of the same key. */
void lookup_begin(struct kvd *handle, struct flight *f);
/* Asks for the server's clock, unless that is under way; it moves on the clock_waiters. */
void clock_ask(struct kvd *handle);
/* Does the next steps of the lookup that are possible now; ends it if it is done. */
void lookup_step(struct kvd *handle, struct flight *f);

/*
 * Does the lookups of up to GETS_MAX requests, as part of a call. Each request gets its status.
 * @offsets: PART_RANGE: where their ranges begin. Returns KVD_OK, or why some were not done.
 */
enum kvd_status lookups_call(struct kvd *handle, struct kvd_get_request *requests,
			     unsigned int count, enum lookup_part part, const size_t *offsets);

/* What FLIGHT_LOOKUP and FLIGHT_GET of a synchronous call do. */
extern const struct flight_ops get_ops;

/* Let the server do the GET, and the GET and touch. */
void get_request(struct kvd *handle, struct flight *f);
void touch_request(struct kvd *handle, struct flight *f);
void get_response(struct kvd *handle, struct flight *f, const struct response *response);
/* Whether the value is READ to memory that the caller registered. */
bool value_is_direct(struct kvd *handle, struct flight *f);
/* READs the item at @offset in pieces: at most @bytes; 0: as many as its header says. */
void item_transfer(struct kvd *handle, struct flight *f, uint64_t offset, uint64_t bytes);
/* PHASE_LARGE: what the flight waited for has come; its READ has completed. */
void large_ready(struct kvd *handle, struct flight *f);
void large_done(struct kvd *handle, struct flight *f);

#endif /* KVD_CLIENT_LIBKVD_GET_H */
