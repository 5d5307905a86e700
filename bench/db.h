/* SPDX-License-Identifier: MIT */
/*
 * The stores that kvbench and kvtrace can drive: one interface with a backend for each.
 *
 *	-d kvd		libkvd
 *	-d memcached	memcached's text protocol over TCP or a Unix socket
 *	-d redis	Redis's RESP2 over TCP or a Unix socket
 *
 * Statuses, GET requests and counters are those of client/kvd.h, so the backend for kvd converts
 * nothing. Everything above this interface is the same for every store: keys, values, threads,
 * checks and the clock.
 *
 * Threads: a connection belongs to one thread at a time.
 */
#ifndef KVD_BENCH_DB_H
#define KVD_BENCH_DB_H

#include <stddef.h>
#include <stdio.h>

#include "client/kvd.h"

#define DB_ERROR_MAX 512

struct db_backend;

/* One connection. A backend's own struct begins with it. */
struct db {
	const struct db_backend *backend;
};

/* One PUT or DELETE. A DELETE has no value. */
struct db_change {
	const void *key;
	size_t key_len;
	const void *value;
	size_t value_len;
};

struct db_backend {
	const char *name;	   /* the argument of -d */
	const char *urls;	   /* the URLs it takes, for people */
	const char *prefix;	   /* what such a URL begins with; NULL: libkvd parses them */
	size_t key_max;		   /* bytes of the longest key */
	const char *memory_option; /* the option that gives its server more memory */

	/* On failure *@db is NULL and @error (DB_ERROR_MAX bytes) says why. */
	enum kvd_status (*open)(struct db **db, const char *url, const struct kvd_options *options,
				char *error);
	void (*close)(struct db *db);
	/* Sends @count GETs together. Sets the status of each. */
	void (*get)(struct db *db, struct kvd_get_request *requests, size_t count);
	/*
	 * Sends @count PUTs or DELETEs, together if the store can. Returns KVD_OK if all succeeded;
	 * else the status of one that failed, and any of the others may have failed, too.
	 */
	enum kvd_status (*put)(struct db *db, const struct db_change *changes, size_t count);
	enum kvd_status (*remove)(struct db *db, const struct db_change *changes, size_t count);
	/*
	 * Writes the server's statistics to @text as lines of "name value". A backend that is not
	 * kvd's gives four of them, by the names that kvd has for them: items, evictions,
	 * cpu_user_us and cpu_system_us.
	 */
	enum kvd_status (*server_stats)(struct db *db, char *text, size_t size);
	/* This connection's counters, also after it was lost. Those the store lacks stay 0. */
	void (*stats)(const struct db *db, struct kvd_stats *stats);
	void (*info)(const struct db *db, struct kvd_info *info);
	/* One line about the last failure, "" if there is none. */
	const char *(*error)(const struct db *db);

	/*
	 * Asynchronous operations, and memory from and to which values move without a copy: as
	 * kvd_submit(), kvd_wait() for one operation, and kvd_alloc(). NULL: the store lacks them.
	 */
	enum kvd_status (*submit)(struct db *db, struct kvd_op *const ops[], size_t count);
	size_t (*wait)(struct db *db, struct kvd_op **done, size_t max, uint32_t timeout_ms);
	enum kvd_status (*alloc)(struct db *db, size_t bytes, void **addr, struct kvd_mem **mem);
};

extern const struct db_backend db_kvd, db_memcached, db_redis;

/* The store, and its address. */
struct db_target {
	const struct db_backend *backend;
	const char *url;
	unsigned int depth; /* kvd: operations under way at a time, of load, run, put, delete */
};

/*
 * Fills @target from the arguments of -d and -a. NULL stands for an option that is not given: the
 * backend is kvd then, and the URL that of the environment variable KVD_URL, or for kvd without it
 * the default (kvd_default_url()). Returns 0, or -EINVAL with the reason in @error (DB_ERROR_MAX
 * bytes): no such backend, no URL, or one that is not for this backend.
 */
int db_target_parse(struct db_target *target, const char *name, const char *url, char *error);

/* Prints the backends and their URLs, a line each, for --help. */
void db_help(FILE *out);

/*
 * Prints why connecting to @target failed. Returns -EINVAL if its URL is wrong, -ENOMEM, else
 * -ENOTCONN.
 */
int db_connect_failed(const struct db_target *target, enum kvd_status status, const char *error);

/* Whether a connection that returned @status is lost. */
static inline int db_status_is_fatal(enum kvd_status status)
{
	return status == KVD_ERR_TIMEOUT || status == KVD_ERR_DISCONNECTED ||
	       status == KVD_ERR_DEVICE || status == KVD_ERR_PROTOCOL || status == KVD_ERR_AWAY;
}

static inline enum kvd_status db_open(struct db **db, const struct db_target *target,
				      const struct kvd_options *options, char *error)
{
	return target->backend->open(db, target->url, options, error);
}

static inline void db_close(struct db *db)
{
	if (db)
		db->backend->close(db);
}

static inline void db_get(struct db *db, struct kvd_get_request *requests, size_t count)
{
	db->backend->get(db, requests, count);
}

static inline enum kvd_status db_put(struct db *db, const struct db_change *changes, size_t count)
{
	return db->backend->put(db, changes, count);
}

static inline enum kvd_status db_delete(struct db *db, const struct db_change *changes,
					size_t count)
{
	return db->backend->remove(db, changes, count);
}

static inline enum kvd_status db_server_stats(struct db *db, char *text, size_t size)
{
	return db->backend->server_stats(db, text, size);
}

static inline void db_stats(const struct db *db, struct kvd_stats *stats)
{
	db->backend->stats(db, stats);
}

static inline void db_info(const struct db *db, struct kvd_info *info)
{
	db->backend->info(db, info);
}

static inline const char *db_error(const struct db *db)
{
	return db->backend->error(db);
}

#endif /* KVD_BENCH_DB_H */
