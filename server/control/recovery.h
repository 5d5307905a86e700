/* SPDX-License-Identifier: MIT */
/*
 * Recovers a device that has failed or was removed, while the server goes on with the others
 * (struct nic, enum nic_state). conn_manager notices the failure and closes the device's
 * connections. When the last one has ended, the workers stop polling the device, all that was on it
 * is released, and the server looks for it once a second: when its addresses can be listened at
 * again, it is set up as at the start. No data is lost, since data is in the region and not on the
 * device.
 *
 * All functions are for the control thread.
 */
#ifndef KVD_SERVER_CONTROL_RECOVERY_H
#define KVD_SERVER_CONTROL_RECOVERY_H

#include "server/control/net.h"

/*
 * Takes the next step for each failed device. Returns true if one serves again: its file
 * descriptors are new (struct nic, struct endpoint: watched). Blocks while the device is opened and
 * registers the region.
 */
bool recovery_run(struct net *net, uint64_t now_ns);

#endif /* KVD_SERVER_CONTROL_RECOVERY_H */
