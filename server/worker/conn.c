/* SPDX-License-Identifier: MIT */
/* Creates connections, finds them by queue pair number, and reports those that failed. */
#include "server/worker/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/worker/snapshot.h"
#include "server/worker/tenant.h"
#include "server/worker/worker.h"

uint64_t conns_bytes(const struct config *config)
{
	static const enum device_kind kinds[] = { DEVICE_SOFTNIC, DEVICE_RDMA, DEVICE_RDMA_TCP,
						  DEVICE_RDMA_TLS };
	const struct ibv_qp_cap cap = {
		.max_send_wr = sq_depth_of(config->request.window, RESPONSE_SIGNAL_EVERY),
		.max_send_sge = 1,
		.max_inline_data = INLINE_WANTED,
	};
	uint64_t conns = config->server.max_connections + ADMIN_CONNECTIONS;
	uint64_t bytes, most = 0;
	const char *why;
	uint32_t chosen = nic_choose(config, &why);

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!(chosen & kinds[i]))
			continue;
		bytes = device_ops_of(kinds[i])->conn_bytes(&cap);
		most = bytes > most ? bytes : most;
	}
	return conns * (most + sizeof(struct conn));
}

const char *conn_device_name(const struct conn *conn)
{
	return conn->poller->nic->dev->name;
}

static unsigned long qp_num_hash(uint32_t qp_num)
{
	return qp_num * 0x9e3779b1ul; /* 2^32 / golden ratio: Knuth's multiplicative hashing */
}

static int conn_match(struct cds_lfht_node *node, const void *key)
{
	const struct conn *conn = caa_container_of(node, struct conn, node);

	return conn->qp_num == *(const uint32_t *)key;
}

struct conn *conn_lookup(struct poller *poller, uint32_t qp_num)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *node;
	struct conn *conn;

	cds_lfht_lookup(poller->conns, qp_num_hash(qp_num), conn_match, &qp_num, &iter);
	node = cds_lfht_iter_get_node(&iter);
	if (!node)
		return NULL;
	conn = caa_container_of(node, struct conn, node);
	return atomic_load_explicit(&conn->published, memory_order_acquire) ? conn : NULL;
}

void conn_table_add(struct conn *conn)
{
	atomic_store_explicit(&conn->published, true, memory_order_release);
	cds_lfht_add(conn->poller->conns, qp_num_hash(conn->qp_num), &conn->node);
}

void conn_table_remove(struct conn *conn)
{
	cds_lfht_del(conn->poller->conns, &conn->node);
}

/* The client can access nothing through the queue pair until HELLO (guarantee D). */
static int conn_create_qp(struct conn *conn)
{
	struct poller *poller = conn->poller;
	const struct device_ops *ops = conn->id->dev->ops;
	struct ibv_qp_init_attr attr = {
		.qp_context = conn,
		.send_cq = poller->cq,
		.recv_cq = poller->cq,
		.srq = poller->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = conn->sq_depth + MARKERS,
			.max_send_sge = 1,
			.max_inline_data = poller->inline_max,
		},
	};
	int access = poller->nic->windows ? IBV_ACCESS_MW_BIND : 0;
	int err = ops->create_qp(conn->id, poller->nic->pd, &attr, access);

	if (err == -EINVAL && poller->inline_max > sizeof(struct wire_response)) {
		/* The device has less room: responses without a buffer must still fit. */
		poller->inline_max = attr.cap.max_inline_data = sizeof(struct wire_response);
		err = ops->create_qp(conn->id, poller->nic->pd, &attr, access);
	}
	if (err)
		return err;
	conn->qp = conn->id->qp;
	conn->qp_num = conn->qp->qp_num;
	return 0;
}

bool peer_is_admin(const struct cm_peer *peer)
{
	return peer->uid_known && (!peer->uid || peer->uid == geteuid());
}

int conn_create(struct conn **out, struct poller *poller, struct tenant *tenant, struct cm_id *id,
		uint32_t serial, uint32_t window_max)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	unsigned int i;
	int err;

	*out = NULL;
	if (!conn)
		return -ENOMEM;
	conn->id = id;
	conn->poller = poller;
	conn->client.part = tenant->now.parts[poller->worker_number];
	conn->mrs = tenant->now.mrs[poller - poller->worker->pollers];
	conn->client.worker = poller->worker;
	conn->client.fleet = poller->worker->env->fleet;
	conn->client.kind = id->dev->kind;
	conn->serial = serial;
	conn->window = conn->window_next = conn->window_told = 1;
	stat_set(&conn->window_shown, conn->window);
	conn->sq_depth = poller_sq_depth(poller, window_max) - MARKERS;
	conn->sent_first = conn->sent_last = BUFFER_NONE;
	conn->pull_hold.client = &conn->client;
	TAILQ_INIT(&conn->deferred);
	for (i = 0; i < NOTE_KINDS; i++)
		conn->notes[i] = (struct note){ .conn = conn, .kind = (enum note_kind)i };
	err = id->dev->ops->query_peer(id, &conn->client.peer);
	conn->client.by_admin = !err && peer_is_admin(&conn->client.peer);
	if (!err)
		err = conn_create_qp(conn);
	if (err) {
		free(conn);
		return err;
	}
	id->context = conn;
	rcu_thread_online();
	conn_table_add(conn);
	rcu_thread_offline();
	*out = conn;
	return 0;
}

void conn_destroy(struct conn *conn)
{
	conn->id->dev->ops->destroy_id(conn->id);
	free(conn->query.text);
	free(conn->query.process);
	snapshot_drop(conn->query.stats);
	free(conn);
}

void conn_ends(struct conn *conn, const char *why)
{
	if (client_ends(&conn->client, CLIENT_FAILED))
		conn->why = why;
}

void conn_fail(struct conn *conn, const char *why)
{
	struct worker *worker = conn->poller->worker;

	if (conn->stopped)
		return;
	conn->stopped = true;
	conn_ends(conn, why);
	stat_add(&worker->stats.connections_failed, 1);
	log_ratelimited(LOG_WARN, 10, CONN_FMT ": closed: %s", CONN_ARG(conn), why);
	mailbox_send(worker->env->control, &conn->notes[NOTE_FAILED]);
}
