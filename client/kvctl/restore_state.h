/* SPDX-License-Identifier: MIT */
/*
 * The progress of a restore, in a small file next to the dump, NAME.restore, so that an interrupted
 * restore can be resumed. All blocks before the offset are in the server.
 */
#ifndef KVD_CLIENT_KVCTL_RESTORE_STATE_H
#define KVD_CLIENT_KVCTL_RESTORE_STATE_H

#include <assert.h>

#include "client/kvctl/dump_file.h"
#include "client/kvctl/store.h"

#define RESTORE_SUFFIX ".restore"
#define RESTORE_MAGIC "kvd rest"

struct restore_state {
	uint8_t magic[8];
	uint64_t dump;		 /* the sum of the header of the dump */
	uint64_t incarnation;	 /* of the server that gets the keys */
	uint64_t offset, before; /* arguments of dump_reader_seek() */
	struct dump_end counts;	 /* argument of dump_reader_seek() */
	struct store_counts stored;
	uint64_t sum; /* XXH3-64 of all before it */
};
static_assert(sizeof(struct restore_state) == 120, "file format");

/* Writes the state for the dump @name, atomically. 0 or a negative errno. */
int restore_state_write(const char *name, struct restore_state *state);
/* Reads the state. 0; -ENOENT: there is none; -EINVAL: it is no valid state; or another errno. */
int restore_state_read(const char *name, struct restore_state *state);
void restore_state_remove(const char *name);

#endif /* KVD_CLIENT_KVCTL_RESTORE_STATE_H */
