/* SPDX-License-Identifier: MIT */
/*
 * How flights end. A flight is in one place at a time (enum flight_place), which leads to it: a
 * list, an entry of the FIFO of READs, a message. One that ends early is detached from there. The
 * READ or request then completes for nobody: its memory and buffers are the handle's, and are free
 * when it does.
 */
#ifndef KVD_CLIENT_LANDING_H
#define KVD_CLIENT_LANDING_H

#include "client/handle.h"

/* Takes the flight from where it is. It may be ended then. */
void flight_detach(struct kvd *handle, struct flight *flight);
/* Ends it with @status, which is an error. */
void flight_fail(struct kvd *handle, struct flight *flight, enum kvd_status status);
/* Both: it ends early, with @status. */
void flight_cut(struct kvd *handle, struct flight *flight, enum kvd_status status);
/* Its results are written: ends it. */
void flight_end(struct kvd *handle, struct flight *flight);

#endif /* KVD_CLIENT_LANDING_H */
