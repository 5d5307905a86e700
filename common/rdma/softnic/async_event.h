/* SPDX-License-Identifier: MIT */
/* Asynchronous events of the device: async.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_ASYNC_EVENT_H
#define KVD_COMMON_RDMA_SOFTNIC_ASYNC_EVENT_H

#include <stdbool.h>
#include <sys/queue.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/softnic.h"

/* An asynchronous event that an object can cause. */
struct sn_async {
	struct device_async_event event;
	bool pending; /* in the context's list; under its async_lock */
	TAILQ_ENTRY(sn_async) entry;
};

TAILQ_HEAD(sn_async_list, sn_async);

void sn_async_push(struct sn_context *ctx, struct sn_async *async);
/* Takes back a pending event. Call it before the object that causes the event is freed. */
void sn_async_forget(struct sn_context *ctx, struct sn_async *async);
int sn_get_async_event(struct device *dev, struct device_async_event *event);

#endif /* KVD_COMMON_RDMA_SOFTNIC_ASYNC_EVENT_H */
