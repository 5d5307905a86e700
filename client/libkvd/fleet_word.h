/* SPDX-License-Identifier: MIT */
/* READs of the words of a fleet's members: client/libkvd/word.h says what these are. */
#ifndef KVD_CLIENT_LIBKVD_FLEET_WORD_H
#define KVD_CLIENT_LIBKVD_FLEET_WORD_H

#include "client/libkvd/handle.h"

/* As in struct fleet_ops. */
void fleet_word_read(struct kvd *member);
void fleet_word_clock(struct kvd *member);

#endif /* KVD_CLIENT_LIBKVD_FLEET_WORD_H */
