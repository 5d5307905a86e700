/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a device that has failed, or was removed, while the server goes on with the
 * others (struct nic, enum nic_state). conn_manager notices it and closes its connections. When the
 * last one has ended the workers stop to poll it, all that was on it is released, and it is looked
 * for once a second: when its addresses can be listened at again it is set up as at the start. No
 * data is lost by that, since it is in the region and not on the device.
 *
 * Control thread.
 */
#ifndef KVD_SERVER_CONTROL_RECOVERY_H
#define KVD_SERVER_CONTROL_RECOVERY_H

#include "server/control/net.h"

/*
 * Goes one step on with each device that has failed. Returns true if one serves again: its file
 * descriptors are new ones (struct nic, struct endpoint: watched). Blocks for as long as the device
 * takes to be opened and to register the region.
 */
bool recovery_run(struct net *net, uint64_t now_ns);

#endif /* KVD_SERVER_CONTROL_RECOVERY_H */
