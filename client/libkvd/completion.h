/* SPDX-License-Identifier: MIT */
/* Completions: takes them from the device and gives them to the READs and requests they end. */
#ifndef KVD_CLIENT_LIBKVD_COMPLETION_H
#define KVD_CLIENT_LIBKVD_COMPLETION_H

#include "client/libkvd/handle.h"

/* Takes in those that have arrived; returns how many. */
unsigned int completions_poll(struct kvd *handle);

#endif /* KVD_CLIENT_LIBKVD_COMPLETION_H */
