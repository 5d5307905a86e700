/* SPDX-License-Identifier: MIT */
/* Registered memory of fleets. */
#ifndef KVD_CLIENT_LIBKVD_REGISTER_H
#define KVD_CLIENT_LIBKVD_REGISTER_H

#include "client/libkvd/handle.h"

/*
 * Registers what the process has registered for the fleet with the device of @member, a new handle.
 * What fails is logged: values are copied there.
 */
void register_member(struct kvd *member);

#endif /* KVD_CLIENT_LIBKVD_REGISTER_H */
