/* SPDX-License-Identifier: MIT */
/*
 * The handshake: the messages by which two ends become a connection.
 *
 *	connecting end			listening end
 *	connect()  -- CONNECT --------> CONNECT_REQUEST
 *					accept(): makes the shared memory
 *	ESTABLISHED <- ACCEPT, memfd --
 *		   -- READY ----------> ESTABLISHED
 *
 * or REJECT instead of ACCEPT. Afterwards the socket carries wake-ups and files (link.h); when it
 * ends, the connection ends. A peer that sends nothing, or a malformed message, occupies one of
 * SN_HALF_OPEN_MAX places until its deadline or until a new connection needs the place.
 */
#include "common/rdma/softnic/cm.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/timer.h"
#include "common/util/log.h"
#include "common/util/unix_socket.h"

#define ACCEPT_MAX 64 /* connections that one call accepts */

static uint8_t reads_or_most(uint8_t reads)
{
	return reads && reads < SN_READS_MAX ? reads : SN_READS_MAX;
}

static uint8_t reads_least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static int param_check(const struct cm_param *param, unsigned int private_max)
{
	if (param->private_len > private_max || (param->private_len && !param->private_data) ||
	    param->retry_count > 7 || param->rnr_retry_count > 7 || param->min_rnr_timer < 1 ||
	    param->min_rnr_timer > 31)
		return -EINVAL;
	return 0;
}

static void message_fill(struct link_message *message, enum link_message_type type,
			 const void *private_data, uint8_t private_len)
{
	*message = (struct link_message){
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = (uint8_t)type,
		.private_len = private_len,
	};
	if (private_len)
		memcpy(message->private_data, private_data, private_len);
}

/* Checks a peer's message of the handshake: 0, -EPROTO, or -EPROTONOSUPPORT. */
static int message_check(const struct link_message *message, int length, unsigned int private_max)
{
	if (length != (int)sizeof(*message) || message->magic != LINK_MAGIC)
		return -EPROTO;
	if (message->version != LINK_VERSION)
		return -EPROTONOSUPPORT;
	if (message->private_len > private_max || message->reserved)
		return -EPROTO;
	return 0;
}

static void id_log_peer(const struct sn_id *id)
{
	struct ucred cred;

	if (log_enabled(LOG_DEBUG) && !unix_socket_peer(id->sock, &cred))
		log_debug("softnic: connection from process %d, user %u, group %u", cred.pid,
			  cred.uid, cred.gid);
}

/* We can't accept connections just now: stop watching the listener for a while. */
static bool do_accept_pause(struct sn_id *listener)
{
	do_sn_id_unwatch(listener);
	do_sn_id_set_timer(listener, &listener->retry, SN_DELAY_PAUSE);
	return false;
}

/* False if no connection is left to accept, or after a failure. */
static bool do_accept_one(struct sn_id *listener)
{
	struct sn_cm_channel *channel = sn_id_channel(listener);
	struct sn_id *id;
	int sock;

	if (channel->unreported >= SN_UNREPORTED_MAX)
		return do_accept_pause(listener);
	sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (sock < 0) {
		if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
			return false;
		log_ratelimited(LOG_ERROR, 1,
				"softnic: can't accept a connection: %m; if the limit of open "
				"files is reached, raise it (ulimit -n, LimitNOFILE=)");
		return do_accept_pause(listener);
	}
	id = do_sn_id_create(channel, SN_ID_HALF_OPEN);
	if (!id) {
		link_drop_socket(sock, true);
		return do_accept_pause(listener);
	}
	id->sock = sock;
	id_log_peer(id);
	if (do_sn_id_watch(id, EPOLLIN | EPOLLRDHUP)) {
		do_sn_id_free(id);
		return false;
	}
	do_sn_id_set_timer(id, &id->deadline, SN_DELAY_HANDSHAKE);
	return true;
}

/*
 * Other events of the same batch may point to ids of this channel, so only an id that is not
 * watched yet is freed here. The timer, which is served last, frees places.
 */
static void do_accept(struct sn_id *listener)
{
	struct sn_cm_channel *channel = sn_id_channel(listener);
	unsigned int count;

	for (count = 0; count < ACCEPT_MAX && do_accept_one(listener); count++)
		;
	if (channel->half_open_count > SN_HALF_OPEN_MAX)
		do_sn_id_set_timer(listener, &listener->retry, SN_DELAY_SOON);
}

/* Takes a half-open peer's connect request, if it has sent one. */
static void do_take_connect(struct sn_id *id)
{
	int length = link_receive(id->sock, &id->message, NULL);
	int ret;

	if (length == -EAGAIN)
		return;
	ret = length > 0 ? message_check(&id->message, length, CM_PRIVATE_MAX_CONNECT) :
			   -ECONNRESET;
	if (!ret && id->message.type != LINK_MESSAGE_CONNECT)
		ret = -EPROTO;
	/* The client gave up while its request waited. */
	if (!ret && link_hung_up(id->sock))
		ret = -ECONNRESET;
	do_sn_id_unwatch(id);
	if (ret) {
		struct link_message reject;

		if (ret == -EPROTONOSUPPORT) {
			message_fill(&reject, LINK_MESSAGE_REJECT, NULL, 0);
			link_send(id->sock, &reject, -1);
		}
		if (ret != -ECONNRESET)
			log_ratelimited(
				LOG_WARN, 10, "softnic: refused a connection: %s",
				ret == -EPROTO ?
					"its connect request is malformed; is it a kvd client?" :
					"its kvd has another version; use the same on both sides");
		shutdown(id->sock, SHUT_RDWR);
		do_sn_id_set_timer(id, &id->deadline, SN_DELAY_SOON); /* freed by the timer */
		return;
	}
	do_sn_id_opened(id, SN_ID_REQUESTED);
	do_sn_id_cancel_timer(id, &id->deadline);
	id->responder_resources = reads_or_most(id->message.initiator_depth);
	id->initiator_depth = reads_or_most(id->message.responder_resources);
	do_sn_id_event(id, CM_CONNECT_REQUEST);
}

/* Takes the peer's READY: it has mapped the memory. */
static void do_take_ready(struct sn_id *id)
{
	struct link_message message;
	int length = link_receive(id->sock, &message, NULL);
	int ret;

	if (length == -EAGAIN)
		return;
	ret = length > 0 ? message_check(&message, length, 0) : -ECONNRESET;
	if (!ret && message.type != LINK_MESSAGE_READY)
		ret = -EPROTO;
	if (!ret)
		ret = do_sn_id_watch(id, EPOLLRDHUP);
	if (!ret && id->cm.qp)
		ret = sn_qp_establish(to_sn_qp(id->cm.qp));
	if (ret) {
		do_sn_id_end(id, CM_DISCONNECTED, ret);
		return;
	}
	do_sn_id_cancel_timer(id, &id->deadline);
	id->state = SN_ID_ESTABLISHED;
	id->message.private_len = 0;
	do_sn_id_event(id, CM_ESTABLISHED);
}

static int do_join(struct sn_id *id, int fd)
{
	struct sn_qp *qp = id->cm.qp ? to_sn_qp(id->cm.qp) : NULL;
	struct link_message ready;
	struct sn_attach attach = {
		.sock = id->sock,
		.is_active = true,
		.rnr_retry = id->rnr_retry,
		.min_rnr_timer = id->min_rnr_timer,
		.line = id->message.line,
	};
	int ret;

	if (!qp)
		return -EINVAL;
	if (attach.line >= LINK_LINES) {
		log_ratelimited(LOG_ERROR, 1,
				"softnic: refused the server's connection memory: its words begin "
				"at line %u, which must be less than %zu",
				attach.line, LINK_LINES);
		return -EPROTO;
	}
	id->responder_resources = reads_or_most(id->message.initiator_depth);
	id->initiator_depth = reads_or_most(id->message.responder_resources);
	attach.reads_max = id->initiator_depth;
	ret = link_map(&attach.shared, fd);
	if (ret)
		return ret;
	ret = sn_qp_attach(qp, &attach);
	if (ret) {
		link_unmap(attach.shared);
		return ret;
	}
	message_fill(&ready, LINK_MESSAGE_READY, NULL, 0);
	ret = link_send(id->sock, &ready, -1);
	if (!ret)
		sn_qp_announce(qp);
	if (!ret)
		ret = do_sn_id_watch(id, EPOLLRDHUP);
	if (!ret)
		ret = sn_qp_establish(qp);
	return ret;
}

/* Takes the listening end's ACCEPT or REJECT. */
static void do_take_response(struct sn_id *id)
{
	int fd = -1;
	int length = link_receive(id->sock, &id->message, &fd);
	int ret;

	if (length == -EAGAIN)
		return;
	ret = length > 0 ? message_check(&id->message, length, LINK_PRIVATE_MAX) : -ECONNRESET;
	if (!ret && id->message.type == LINK_MESSAGE_REJECT) {
		do_sn_id_end(id, CM_REJECTED, 0);
	} else if (!ret && id->message.type == LINK_MESSAGE_ACCEPT && fd >= 0) {
		ret = do_join(id, fd);
		if (!ret) {
			do_sn_id_cancel_timer(id, &id->deadline);
			id->state = SN_ID_ESTABLISHED;
			do_sn_id_event(id, CM_ESTABLISHED);
		}
	} else if (!ret) {
		ret = -EPROTO;
	}
	if (ret) {
		do_sn_id_end(id, CM_UNREACHABLE, ret);
	}
	if (fd >= 0)
		link_drop_file(fd, false);
}

void do_sn_handshake(struct sn_id *id, uint32_t events)
{
	(void)events;
	switch (id->state) {
	case SN_ID_LISTENING:
		do_accept(id);
		break;
	case SN_ID_HALF_OPEN:
		do_take_connect(id);
		break;
	case SN_ID_ACCEPTED:
		do_take_ready(id);
		break;
	case SN_ID_WAITING:
		do_take_response(id);
		break;
	case SN_ID_ESTABLISHED:
		do_sn_id_end(id, CM_DISCONNECTED, 0);
		break;
	default:
		do_sn_id_unwatch(id);
	}
}

void do_sn_handshake_due(struct sn_id *id)
{
	switch (id->state) {
	case SN_ID_LISTENING:
		if (!id->watched)
			do_sn_id_watch(id, EPOLLIN);
		break;
	case SN_ID_HALF_OPEN:
		do_sn_id_free(id);
		break;
	case SN_ID_ACCEPTED:
		do_sn_id_end(id, CM_DISCONNECTED, -ETIMEDOUT);
		break;
	case SN_ID_RETRYING:
		if (id->deadline.when_ns) {
			do_sn_handshake_connect(id);
			break;
		}
		/* fall through */
	case SN_ID_WAITING:
		do_sn_id_end(id, CM_UNREACHABLE, -ETIMEDOUT);
		break;
	default:
		break;
	}
}

/* Connects to the listener and sends it the message that is in the id. */
void do_sn_handshake_connect(struct sn_id *id)
{
	int ret = unix_socket_connect(id->ctx->addr.path, SOCK_SEQPACKET, &id->sock);

	if (ret == -EAGAIN) {
		id->state = SN_ID_RETRYING;
		do_sn_id_set_timer(id, &id->retry, SN_DELAY_RETRY);
		return;
	}
	do_sn_id_cancel_timer(id, &id->retry);
	if (!ret)
		ret = link_send(id->sock, &id->message, -1);
	if (!ret) {
		id->state = SN_ID_WAITING;
		ret = do_sn_id_watch(id, EPOLLIN | EPOLLRDHUP);
	}
	if (ret) {
		log_debug("softnic: can't connect to %s: %s", id->ctx->addr.path,
			  strerrordesc_np(-ret));
		/* A stopped server leaves no file: like a file without a listener. */
		do_sn_id_end(id, CM_UNREACHABLE, ret == -ENOENT ? -ECONNREFUSED : ret);
	}
}

int sn_connect(struct cm_id *cm, const struct cm_param *param)
{
	struct sn_id *id = to_sn_id(cm);
	struct sn_cm_channel *channel = sn_id_channel(id);
	int ret = fault_check(FAULT_connect, id->ctx);

	if (!ret)
		ret = param_check(param, CM_PRIVATE_MAX_CONNECT);
	if (ret)
		return ret;
	pthread_mutex_lock(&channel->lock);
	if (id->state != SN_ID_NEW || !cm->qp) {
		ret = -EINVAL;
		goto unlock;
	}
	message_fill(&id->message, LINK_MESSAGE_CONNECT, param->private_data, param->private_len);
	id->message.qp_num = cm->qp->qp_num;
	id->message.responder_resources = reads_or_most(param->responder_resources);
	id->message.initiator_depth = reads_or_most(param->initiator_depth);
	id->rnr_retry = param->rnr_retry_count;
	id->min_rnr_timer = param->min_rnr_timer;
	do_sn_id_set_timer(id, &id->deadline, SN_DELAY_HANDSHAKE);
	do_sn_handshake_connect(id);
unlock:
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

static int do_accept_join(struct sn_id *id, const struct cm_param *param)
{
	struct sn_qp *qp = to_sn_qp(id->cm.qp);
	uint8_t responder = reads_least(reads_or_most(param->responder_resources),
					id->responder_resources);
	uint8_t initiator = reads_least(reads_or_most(param->initiator_depth), id->initiator_depth);
	struct sn_attach attach = {
		.sock = id->sock,
		.rnr_retry = param->rnr_retry_count,
		.min_rnr_timer = param->min_rnr_timer,
		.reads_max = initiator,
		.line = qp->verbs.qp_num % LINK_LINES,
	};
	struct link_message message;
	int fd;
	int ret;

	ret = link_create(&attach.shared, &fd);
	if (ret)
		return ret;
	ret = sn_qp_attach(qp, &attach);
	if (ret) {
		link_unmap(attach.shared);
		goto close_fd;
	}
	id->responder_resources = responder;
	id->initiator_depth = initiator;
	message_fill(&message, LINK_MESSAGE_ACCEPT, param->private_data, param->private_len);
	message.qp_num = qp->verbs.qp_num;
	message.responder_resources = responder;
	message.initiator_depth = initiator;
	message.line = (uint8_t)attach.line;
	if (sn_file_allowed(id->ctx, id->sock))
		unix_socket_let_files(id->sock, true);
	/* Both ends watch the socket, and notice its end. */
	if (link_send(id->sock, &message, fd))
		shutdown(id->sock, SHUT_RDWR);
	sn_qp_announce(qp);
close_fd:
	close(fd);
	return ret;
}

/* Whether the id can be accepted or rejected. */
static int do_request_check(const struct sn_id *id)
{
	if (id->state == SN_ID_REQUESTED)
		return 0;
	return id->state == SN_ID_ACCEPTED || id->state == SN_ID_DONE ? -ENOTCONN : -EINVAL;
}

int sn_accept(struct cm_id *cm, const struct cm_param *param)
{
	struct sn_id *id = to_sn_id(cm);
	struct sn_cm_channel *channel = sn_id_channel(id);
	int ret = fault_check(FAULT_accept, id->ctx);

	if (!ret)
		ret = param_check(param, CM_PRIVATE_MAX_ACCEPT);
	if (ret)
		return ret;
	pthread_mutex_lock(&channel->lock);
	ret = cm->qp ? do_request_check(id) : -EINVAL;
	if (!ret)
		ret = do_accept_join(id, param);
	if (!ret) {
		id->state = SN_ID_ACCEPTED;
		do_sn_id_set_timer(id, &id->deadline, SN_DELAY_HANDSHAKE);
		ret = do_sn_id_watch(id, EPOLLIN | EPOLLRDHUP);
	}
	pthread_mutex_unlock(&channel->lock);
	return ret;
}

int sn_reject(struct cm_id *cm, const void *private_data, uint8_t private_len)
{
	struct sn_id *id = to_sn_id(cm);
	struct sn_cm_channel *channel = sn_id_channel(id);
	struct link_message message;
	int ret = fault_check(FAULT_reject, id->ctx);

	if (ret)
		return ret;
	if (private_len > CM_PRIVATE_MAX_REJECT || (private_len && !private_data))
		return -EINVAL;
	pthread_mutex_lock(&channel->lock);
	ret = do_request_check(id);
	if (!ret) {
		message_fill(&message, LINK_MESSAGE_REJECT, private_data, private_len);
		if (link_send(id->sock, &message, -1))
			shutdown(id->sock, SHUT_RDWR);
		id->state = SN_ID_DONE;
	}
	pthread_mutex_unlock(&channel->lock);
	return ret;
}
