/* SPDX-License-Identifier: MIT */
/* Keeps the copies of large items that clients READ, and frees the oldest. */
#include "server/net/copy.h"
#include "server/net/conn_thread.h"

static uint64_t copy_bytes(const struct item *item)
{
	return mem_class_bytes(item_bytes(item->key_len, item->value_len));
}

void copy_drop(struct worker *worker, struct conn *conn)
{
	if (!conn->copy)
		return;
	TAILQ_REMOVE(&worker->copies, conn, copy_entry);
	TAILQ_REMOVE(&conn->part->copies, conn, part_copy_entry);
	conn->part->copies_bytes -= copy_bytes(conn->copy);
	table_abandon(conn_thread(conn), conn->copy);
	conn->copy = NULL;
}

void copy_expire(struct worker *worker)
{
	struct conn *conn;

	while ((conn = TAILQ_FIRST(&worker->copies)) &&
	       worker->part.thread.now_ns - conn->copy_ns >= COPY_NS_MAX)
		copy_drop(worker, conn);
}

void copy_keep(struct worker *worker, struct conn *conn, struct item *item)
{
	struct tenant_part *part = conn->part;
	uint64_t bytes_max = memory_bytes(part->thread.cache.memory) / COPIES_SHARE /
			     worker->limits.workers;

	conn->copy = item;
	conn->copy_ns = worker->part.thread.now_ns;
	part->copies_bytes += copy_bytes(item);
	TAILQ_INSERT_TAIL(&worker->copies, conn, copy_entry);
	TAILQ_INSERT_TAIL(&part->copies, conn, part_copy_entry);
	while (part->copies_bytes > bytes_max && TAILQ_FIRST(&part->copies) != conn)
		copy_drop(worker, TAILQ_FIRST(&part->copies));
}
