/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous events. Each object has a place for each event that it can cause, and an event that
 * is pending is in the device's list. So none is lost, however many connections end at once before
 * the program takes an event, and one that happens again meanwhile is reported once.
 */
#include "common/rdma/softnic/async_event.h"

#include <errno.h>
#include <unistd.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"

void sn_async_push(struct sn_context *ctx, struct sn_async *async)
{
	static const uint64_t one = 1;

	pthread_mutex_lock(&ctx->async_lock);
	if (!async->pending) {
		if (TAILQ_EMPTY(&ctx->async))
			(void)!write(ctx->verbs.async_fd, &one, sizeof(one));
		TAILQ_INSERT_TAIL(&ctx->async, async, entry);
		async->pending = true;
	}
	pthread_mutex_unlock(&ctx->async_lock);
}

static void do_async_remove(struct sn_context *ctx, struct sn_async *async)
{
	uint64_t count;

	TAILQ_REMOVE(&ctx->async, async, entry);
	async->pending = false;
	if (TAILQ_EMPTY(&ctx->async))
		(void)!read(ctx->verbs.async_fd, &count, sizeof(count));
}

void sn_async_forget(struct sn_context *ctx, struct sn_async *async)
{
	pthread_mutex_lock(&ctx->async_lock);
	if (async->pending)
		do_async_remove(ctx, async);
	pthread_mutex_unlock(&ctx->async_lock);
}

int sn_get_async_event(struct device *dev, struct device_async_event *event)
{
	struct sn_context *ctx = dev_to_sn_context(dev);
	int ret = fault_check(FAULT_get_async_event, ctx);
	struct sn_async *async;

	if (ret)
		return ret;
	pthread_mutex_lock(&ctx->async_lock);
	async = TAILQ_FIRST(&ctx->async);
	if (async) {
		*event = async->event;
		do_async_remove(ctx, async);
	}
	pthread_mutex_unlock(&ctx->async_lock);
	return async ? 0 : -EAGAIN;
}
