/* SPDX-License-Identifier: MIT */
/*
 * The verbs device: common/rdma/device.h for InfiniBand, RoCE, iWARP and Soft-RoCE, on libibverbs
 * and librdmacm.
 */
#include "common/rdma/verbs/verbs.h"

const struct device_ops verbs_ops = {
	.name = "rdma",
	VERBS_OBJECTS,
	.open = verbs_open,
	.close = verbs_close,
	.create_qp = verbs_create_qp,
	.destroy_qp = verbs_destroy_qp,
	.create_cm_channel = verbs_create_cm_channel,
	.destroy_cm_channel = verbs_destroy_cm_channel,
	.cm_get_event = verbs_cm_get_event,
	.listen = verbs_listen,
	.create_id = verbs_create_id,
	.connect = verbs_connect,
	.accept = verbs_accept,
	.reject = verbs_reject,
	.query_peer = verbs_query_peer,
	.disconnect = verbs_disconnect,
	.destroy_id = verbs_destroy_id,
};
