/* SPDX-License-Identifier: MIT */
/* The buffer for items that are longer than the ring: one is READ to it at a time, in pieces. */
#ifndef KVD_CLIENT_LARGE_H
#define KVD_CLIENT_LARGE_H

#include "client/handle.h"

/*
 * READs flight->large_bytes at large_offset to the buffer; or the flight waits until no other has
 * it, and then is ready. KVD_ERR_NO_MEMORY: it can't be made as long.
 */
enum kvd_status large_begin(struct kvd *handle, struct flight *flight);
/* READs what is not READ yet, as far as there is room for it. */
void large_read(struct kvd *handle, struct flight *flight);
/* The flight uses it no more: the next that waits for it is ready. */
void large_release(struct kvd *handle);
/*
 * The flight that has it ends early. @read: the entry of its last READ, or NULL: it must complete
 * first.
 */
void large_detach(struct kvd *handle, struct read *read);

#endif /* KVD_CLIENT_LARGE_H */
