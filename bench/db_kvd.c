/* SPDX-License-Identifier: MIT */
/*
 * The backend for kvd: passes every operation on to libkvd.
 */
#include "bench/db.h"

#include <stdbool.h>
#include <stdlib.h>

struct kvd_db {
	struct db db;
	struct kvd *handle;
	uint32_t depth;
};

/* Changes that are submitted together. */
#define SUBMIT_MAX 64

static struct kvd *handle_of(const struct db *db)
{
	return ((const struct kvd_db *)db)->handle;
}

static enum kvd_status kvd_db_open(struct db **db, const char *url,
				   const struct kvd_options *options, char *error)
{
	struct kvd_db *kvd = calloc(1, sizeof(*kvd));
	enum kvd_status status = KVD_ERR_NO_MEMORY;

	*db = NULL;
	*error = '\0';
	if (!kvd)
		return status;
	kvd->db.backend = &db_kvd;
	kvd->depth = options->depth;
	status = kvd_open(&kvd->handle, url, options);
	if (!status) {
		*db = &kvd->db;
		return KVD_OK;
	}
	snprintf(error, DB_ERROR_MAX, "%s", kvd_error(NULL));
	free(kvd);
	return status;
}

static void kvd_db_close(struct db *db)
{
	kvd_close(handle_of(db));
	free(db);
}

static void kvd_db_get(struct db *db, struct kvd_get_request *requests, size_t count)
{
	if (count == 1)
		requests->status = kvd_get(handle_of(db), requests->key, requests->key_len,
					   requests->value, requests->value_size, &requests->item);
	else
		kvd_get_many(handle_of(db), requests, count);
}

/* Waits for all changes; returns the status of one that failed, if any did. */
static enum kvd_status changes_wait(struct kvd *handle)
{
	struct kvd_op *done[SUBMIT_MAX];
	enum kvd_status status = KVD_OK;
	size_t i, n;

	while (kvd_outstanding(handle)) {
		n = kvd_wait(handle, done, SUBMIT_MAX, SUBMIT_MAX, UINT32_MAX);
		for (i = 0; i < n; i++)
			if (done[i]->status)
				status = done[i]->status;
	}
	return status;
}

static enum kvd_status changes_submit(struct kvd *handle, const struct db_change *changes,
				      size_t count, bool remove)
{
	struct kvd_op ops[SUBMIT_MAX], *list[SUBMIT_MAX];
	enum kvd_status status;
	size_t i;

	for (i = 0; i < count; i++) {
		list[i] = &ops[i];
		if (remove)
			kvd_prep_delete(&ops[i], changes[i].key, changes[i].key_len);
		else
			kvd_prep_put(&ops[i], changes[i].key, changes[i].key_len, changes[i].value,
				     changes[i].value_len, NULL);
	}
	status = kvd_submit(handle, list, count);
	return status ? status : changes_wait(handle);
}

static enum kvd_status changes_do(struct db *db, const struct db_change *changes, size_t count,
				  bool remove)
{
	const struct kvd_db *kvd = (const struct kvd_db *)db;
	bool together = kvd->depth > 1 && count > 1;
	enum kvd_status status = KVD_OK;
	size_t i, n;

	for (i = 0; !status && i < count; i += n) {
		n = !together ? 1 : count - i < SUBMIT_MAX ? count - i : SUBMIT_MAX;
		if (together)
			status = changes_submit(kvd->handle, changes + i, n, remove);
		else if (remove)
			status = kvd_delete(kvd->handle, changes[i].key, changes[i].key_len);
		else
			status = kvd_put(kvd->handle, changes[i].key, changes[i].key_len,
					 changes[i].value, changes[i].value_len, NULL, NULL);
	}
	return status;
}

static enum kvd_status kvd_db_put(struct db *db, const struct db_change *changes, size_t count)
{
	return changes_do(db, changes, count, false);
}

static enum kvd_status kvd_db_delete(struct db *db, const struct db_change *changes, size_t count)
{
	return changes_do(db, changes, count, true);
}

static enum kvd_status kvd_db_server_stats(struct db *db, char *text, size_t size)
{
	return kvd_server_stats(handle_of(db), text, size, NULL);
}

static void kvd_db_stats(const struct db *db, struct kvd_stats *stats)
{
	kvd_stats(handle_of(db), stats);
}

static void kvd_db_info(const struct db *db, struct kvd_info *info)
{
	kvd_info(handle_of(db), info);
}

static const char *kvd_db_error(const struct db *db)
{
	return kvd_error(handle_of(db));
}

static enum kvd_status kvd_db_submit(struct db *db, struct kvd_op *const ops[], size_t count)
{
	return kvd_submit(handle_of(db), ops, count);
}

static size_t kvd_db_wait(struct db *db, struct kvd_op **done, size_t max, uint32_t timeout_ms)
{
	return kvd_wait(handle_of(db), done, max, 1, timeout_ms);
}

static enum kvd_status kvd_db_alloc(struct db *db, size_t bytes, void **addr, struct kvd_mem **mem)
{
	return kvd_alloc(handle_of(db), bytes, addr, mem);
}

const struct db_backend db_kvd = {
	.name = "kvd",
	.urls = "rdma://HOST:PORT, rdma+tcp://HOST:PORT, rdma+tls://HOST:PORT or softnic:///PATH, "
		"fleet://HOST:PORT,HOST:PORT/NAME",
	.key_max = KVD_KEY_MAX,
	.memory_option = "memory.size",
	.open = kvd_db_open,
	.close = kvd_db_close,
	.get = kvd_db_get,
	.put = kvd_db_put,
	.remove = kvd_db_delete,
	.server_stats = kvd_db_server_stats,
	.stats = kvd_db_stats,
	.info = kvd_db_info,
	.error = kvd_db_error,
	.submit = kvd_db_submit,
	.wait = kvd_db_wait,
	.alloc = kvd_db_alloc,
};
