/* SPDX-License-Identifier: MIT */
/*
 * Changes of memory.size while the server runs, up to memory.max: the region of the tenant
 * `default` gets extents (common/layout.h), or gives the last ones back.
 *
 *	grow	 a job maps the extents and registers them with the devices; each connection gets
 *		 its windows for them; then clients may READ them, and items are stored there
 *	shrink	 the maintenance thread empties the extents; new connections get no key of them;
 *		 the connections that may have one are closed, and clients connect again by
 *		 themselves; when they have ended, a job deregisters and unmaps the extents
 *
 * Beside tenants' jobs, one at a time. A change that fails is logged, and memory.size stays as it
 * was; one that is no longer wanted is ended. After a restart with memory.file the region has the
 * size that it had; then the change begins as soon as the server is ready.
 */
#ifndef KVD_SERVER_CONTROL_MEMORY_SIZE_H
#define KVD_SERVER_CONTROL_MEMORY_SIZE_H

#include "server/control/net.h"

/*
 * Whether memory.size can become @bytes, as far as that is known before; else @why, of @size bytes,
 * says what to do. The control thread.
 */
bool memory_size_check(const struct net *net, uint64_t bytes, char *why, size_t size);
/*
 * Continues the change under way, or begins one if the region does not have memory.size of
 * net->env.config. 0, or after a failure the size that the region keeps, to which the caller sets
 * memory.size. The control thread, after each wait for events; does not block.
 */
uint64_t memory_size_run(struct net *net);

#endif /* KVD_SERVER_CONTROL_MEMORY_SIZE_H */
