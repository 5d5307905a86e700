/* SPDX-License-Identifier: MIT */
/*
 * The counters of the ports of an RDMA device, as the kernel has them in sysfs. Reading some asks
 * the device's firmware, which may take a millisecond.
 */
#ifndef KVD_SERVER_HTTP_PORTS_H
#define KVD_SERVER_HTTP_PORTS_H

#include "server/http/exposition.h"

/* Of a device; drivers have up to a hundred for a port. */
#define PORTS_MAX 8u
#define PORT_COUNTERS_MAX 128u

/* Writes the samples of device @name, in the folder @devices. A device that is away has none. */
void ports_write(struct exposition *out, const char *devices, const char *name);

#endif /* KVD_SERVER_HTTP_PORTS_H */
