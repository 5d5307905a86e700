/* SPDX-License-Identifier: MIT */
/*
 * Connections on verbs: channels, ids and the calls that connect and disconnect them, on librdmacm.
 * event.c handles its events.
 */
#include "common/rdma/verbs/verbs.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "common/util/heap.h"
#include "common/util/log.h"

int verbs_create_cm_channel(struct device *dev, struct cm_channel **channel)
{
	struct verbs_channel *vc = heap_calloc(1, sizeof(*vc));
	int err;

	if (!vc)
		return -ENOMEM;
	vc->rdma = rdma_create_event_channel();
	if (!vc->rdma) {
		err = verbs_errno();
		log_error("%s: can't create a channel for connection events: %m; load the "
			  "module rdma_ucm and check the permissions of /dev/infiniband/rdma_cm",
			  dev->name);
		goto err_free;
	}
	err = verbs_fd_nonblocking(vc->rdma->fd);
	if (err)
		goto err_channel;
	vc->channel.dev = dev;
	vc->channel.fd = vc->rdma->fd;
	*channel = &vc->channel;
	return 0;

err_channel:
	rdma_destroy_event_channel(vc->rdma);
err_free:
	heap_free(vc);
	return err;
}

void verbs_destroy_cm_channel(struct cm_channel *channel)
{
	struct verbs_channel *vc = verbs_channel_of(channel);

	if (!channel)
		return;
	rdma_destroy_event_channel(vc->rdma);
	heap_free(vc);
}

int verbs_id_alloc(struct cm_channel *channel, struct verbs_id **vid)
{
	struct verbs_id *fresh = heap_calloc(1, sizeof(*fresh));

	if (!fresh)
		return -ENOMEM;
	fresh->id.dev = channel->dev;
	fresh->id.channel = channel;
	pthread_mutex_init(&fresh->lock, NULL);
	*vid = fresh;
	return 0;
}

void verbs_id_attach(struct verbs_id *vid, struct rdma_cm_id *rdma)
{
	vid->rdma = rdma;
	rdma->context = vid;
}

static void id_free(struct verbs_id *vid)
{
	pthread_mutex_destroy(&vid->lock);
	heap_free(vid);
}

void verbs_destroy_id(struct cm_id *id)
{
	struct verbs_id *vid = verbs_id_of(id);

	if (!id)
		return;
	verbs_destroy_qp(id);
	if (rdma_destroy_id(vid->rdma))
		log_ratelimited(
			LOG_ERROR, 1,
			"%s: can't destroy a connection: %m; it is leaked until this process ends",
			id->dev->name);
	id_free(vid);
}

/* Takes the id from open() and moves it to the channel; -EAGAIN if it was taken before. */
static int open_id_take(struct verbs_id *vid)
{
	struct verbs_device *vd = verbs_device_of(vid->id.dev);
	struct rdma_cm_id *rdma = atomic_exchange(&vd->open_id, NULL);
	int err;

	if (!rdma)
		return -EAGAIN;
	verbs_id_attach(vid, rdma);
	err = verbs_error(rdma_migrate_id(rdma, verbs_channel_of(vid->id.channel)->rdma));
	if (err)
		rdma_destroy_id(rdma);
	return err;
}

/* Creates an rdma_cm_id, attached before its first event can come. */
static int id_create(struct verbs_id *vid)
{
	struct rdma_cm_id *rdma;

	if (rdma_create_id(verbs_channel_of(vid->id.channel)->rdma, &rdma, vid, RDMA_PS_TCP))
		return verbs_errno();
	verbs_id_attach(vid, rdma);
	return 0;
}

static int id_bind(struct verbs_id *vid)
{
	struct verbs_device *vd = verbs_device_of(vid->id.dev);
	int err = open_id_take(vid);

	if (err != -EAGAIN)
		return err;
	err = id_create(vid);
	if (err)
		return err;
	err = verbs_error(rdma_bind_addr(vid->rdma, (struct sockaddr *)&vd->addr));
	if (err)
		rdma_destroy_id(vid->rdma);
	return err;
}

int verbs_listen(struct cm_channel *channel, int backlog, struct cm_id **id)
{
	struct verbs_id *vid;
	int err;

	if (verbs_device_of(channel->dev)->role != DEVICE_LISTEN)
		return -EINVAL;
	err = verbs_id_alloc(channel, &vid);
	if (err)
		return err;
	err = id_bind(vid);
	if (err)
		goto err_id;
	err = verbs_error(rdma_listen(vid->rdma, backlog));
	if (err)
		goto err_rdma;
	*id = &vid->id;
	return 0;

err_rdma:
	rdma_destroy_id(vid->rdma);
err_id:
	id_free(vid);
	errno = -err;
	log_error("%s: can't listen at %s: %m", channel->dev->name, channel->dev->address);
	return err;
}

static int id_resolve(struct verbs_id *vid)
{
	struct verbs_device *vd = verbs_device_of(vid->id.dev);
	int err = open_id_take(vid);

	vid->state = VERBS_ID_READY;
	if (err != -EAGAIN)
		return err;
	vid->state = VERBS_ID_RESOLVING;
	err = id_create(vid);
	if (err)
		return err;
	err = verbs_error(
		rdma_resolve_addr(vid->rdma, NULL, (struct sockaddr *)&vd->addr, vd->timeout_ms));
	if (err)
		rdma_destroy_id(vid->rdma);
	return err;
}

int verbs_create_id(struct cm_channel *channel, struct cm_id **id)
{
	struct verbs_id *vid;
	int err;

	if (verbs_device_of(channel->dev)->role != DEVICE_CONNECT)
		return -EINVAL;
	err = verbs_id_alloc(channel, &vid);
	if (err)
		return err;
	err = id_resolve(vid);
	if (err)
		goto err_id;
	*id = &vid->id;
	return 0;

err_id:
	id_free(vid);
	errno = -err;
	log_error("%s: can't prepare a connection to %s: %m; check the host's route to it",
		  channel->dev->name, channel->dev->address);
	return err;
}

static struct rdma_conn_param conn_param(const struct verbs_id *vid)
{
	return (struct rdma_conn_param){
		.private_data = vid->param.private_data,
		.private_data_len = vid->param.private_len,
		.responder_resources = vid->responder_resources,
		.initiator_depth = vid->initiator_depth,
		.flow_control = 1,
		.retry_count = vid->param.retry_count,
		.rnr_retry_count = vid->param.rnr_retry_count,
		.srq = vid->id.qp->srq != NULL,
		.qp_num = vid->id.qp->qp_num,
	};
}

int verbs_id_connect(struct verbs_id *vid)
{
	struct rdma_conn_param param;
	int err;

	if (!vid->id.qp) {
		vid->state = VERBS_ID_CLOSED;
		return -EINVAL;
	}
	param = conn_param(vid);
	err = verbs_error(rdma_connect(vid->rdma, &param));
	vid->state = err ? VERBS_ID_CLOSED : VERBS_ID_CONNECTING;
	return err;
}

static void param_keep(struct verbs_id *vid, const struct cm_param *param)
{
	struct verbs_device *vd = verbs_device_of(vid->id.dev);

	vid->param = verbs_param_copy(&vd->port, param);
	vid->param.private_data = vid->private_data;
	if (param->private_len)
		memcpy(vid->private_data, param->private_data, param->private_len);
	vid->responder_resources = verbs_reads_limit(param->responder_resources,
						     vd->port.responder_resources_max);
	vid->initiator_depth = verbs_reads_limit(param->initiator_depth,
						 vd->port.initiator_depth_max);
}

static int do_connect(struct verbs_id *vid, const struct cm_param *param)
{
	switch (vid->state) {
	case VERBS_ID_RESOLVING:
		param_keep(vid, param);
		vid->connect_wanted = true;
		return 0;
	case VERBS_ID_READY:
		param_keep(vid, param);
		return verbs_id_connect(vid);
	case VERBS_ID_CLOSED:
		return vid->resolve_error ? vid->resolve_error : -ENOTCONN;
	default:
		return -EISCONN;
	}
}

int verbs_connect(struct cm_id *id, const struct cm_param *param)
{
	struct verbs_id *vid = verbs_id_of(id);
	int err;

	if (vid->passive || !id->qp || !verbs_param_valid(param, CM_PRIVATE_MAX_CONNECT))
		return -EINVAL;
	pthread_mutex_lock(&vid->lock);
	err = do_connect(vid, param);
	pthread_mutex_unlock(&vid->lock);
	if (err) {
		errno = -err;
		log_ratelimited(LOG_ERROR, 1, "%s: can't connect to %s: %m", id->dev->name,
				id->dev->address);
	}
	return err;
}

static int do_accept(struct verbs_id *vid, const struct cm_param *param)
{
	struct rdma_conn_param conn;
	int err;

	if (vid->state != VERBS_ID_READY)
		return -ENOTCONN;
	vid->param = verbs_param_copy(verbs_port_of(vid->id.dev), param);
	vid->param.private_data = param->private_data;
	/* Until now these were the most that the peer and our device allow. */
	vid->responder_resources = verbs_reads_limit(param->responder_resources,
						     vid->responder_resources);
	vid->initiator_depth = verbs_reads_limit(param->initiator_depth, vid->initiator_depth);
	err = verbs_qp_connect(vid);
	if (err)
		return err;
	conn = conn_param(vid);
	err = verbs_error(rdma_accept(vid->rdma, &conn));
	vid->param.private_data = NULL;
	vid->state = err ? VERBS_ID_CLOSED : VERBS_ID_CONNECTING;
	if (err) {
		errno = -err;
		/* The peer may have gone: peers decide how often this happens, so limit it. */
		log_ratelimited(LOG_WARN, 1,
				"%s: can't accept a connection: %m; its client must connect again",
				vid->id.dev->address);
		verbs_qp_error(vid);
	}
	return err;
}

int verbs_accept(struct cm_id *id, const struct cm_param *param)
{
	struct verbs_id *vid = verbs_id_of(id);
	int err;

	if (!vid->passive || !id->qp || !verbs_param_valid(param, CM_PRIVATE_MAX_ACCEPT))
		return -EINVAL;
	pthread_mutex_lock(&vid->lock);
	err = do_accept(vid, param);
	pthread_mutex_unlock(&vid->lock);
	return err;
}

int verbs_reject(struct cm_id *id, const void *private_data, uint8_t private_len)
{
	struct verbs_id *vid = verbs_id_of(id);
	int err = -ENOTCONN;

	if (!vid->passive || private_len > CM_PRIVATE_MAX_REJECT)
		return -EINVAL;
	pthread_mutex_lock(&vid->lock);
	if (vid->state == VERBS_ID_READY) {
		err = verbs_error(rdma_reject(vid->rdma, private_data, private_len));
		vid->state = VERBS_ID_CLOSED;
	}
	pthread_mutex_unlock(&vid->lock);
	return err;
}

int verbs_query_peer(struct cm_id *id, struct cm_peer *peer)
{
	const struct sockaddr *addr = rdma_get_peer_addr(verbs_id_of(id)->rdma);
	bool ipv6 = addr->sa_family == AF_INET6;
	char host[DEVICE_PEER_MAX - 10]; /* without brackets and port */
	char port[6];

	*peer = (struct cm_peer){ 0 };
	if (getnameinfo(addr, ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), host,
			sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return -EINVAL;
	snprintf(peer->address, sizeof(peer->address), ipv6 ? "[%s]:%s" : "%s:%s", host, port);
	return 0;
}

int verbs_disconnect(struct cm_id *id)
{
	struct verbs_id *vid = verbs_id_of(id);
	int err;

	pthread_mutex_lock(&vid->lock);
	err = verbs_qp_error(vid);
	/*
	 * rdma_disconnect() fails with EINVAL while the connection is being made: then event.c
	 * rejects or disconnects the peer when its response comes.
	 */
	if (vid->state == VERBS_ID_CONNECTING || vid->state == VERBS_ID_CONNECTED)
		rdma_disconnect(vid->rdma);
	else if (vid->passive && vid->state == VERBS_ID_READY)
		rdma_reject(vid->rdma, NULL, 0);
	vid->state = VERBS_ID_CLOSED;
	pthread_mutex_unlock(&vid->lock);
	return err;
}
