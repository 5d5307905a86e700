/* SPDX-License-Identifier: MIT */
/* The device of a handle, which it shares with others of its URL: client/libkvd/shared.h. */
#ifndef KVD_CLIENT_LIBKVD_DEVICE_H
#define KVD_CLIENT_LIBKVD_DEVICE_H

#include "client/libkvd/handle.h"

/*
 * Opens the device that leads to @url, or takes that of other handles with this URL. For verbs it
 * resolves the name, the address and the route. Waits up to connect_timeout_ms. A failure leaves
 * the handle as it was.
 */
enum kvd_status device_get(struct kvd *handle, const char *url);

/* Frees all that is registered with the device, except memory that the caller registered. */
void device_buffers_release(struct kvd *handle);

/*
 * Replaces a device that has died, on which the handle has no connection any more. If that fails,
 * since the device is not back, say, the handle keeps the dead one, without buffers.
 */
enum kvd_status device_renew(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_DEVICE_H */
