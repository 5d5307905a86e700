/* SPDX-License-Identifier: MIT */
/*
 * How far a restore is, in a small file beside the dump, NAME.restore: so that one that was
 * interrupted goes on where it stopped. All blocks before the offset are in the server.
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
	uint64_t incarnation;	 /* of the server that it is restored to */
	uint64_t offset, before; /* of dump_reader_seek() */
	struct dump_end counts;	 /* likewise */
	struct store_counts stored;
	uint64_t sum; /* XXH3-64 of all before it */
};
static_assert(sizeof(struct restore_state) == 120, "file format");

/* Writes it for the dump @name: all of it, or nothing. 0 or a negative errno. */
int restore_state_write(const char *name, struct restore_state *state);
/* 0; -ENOENT: there is none; -EINVAL: it is damaged, or of something else; or another errno. */
int restore_state_read(const char *name, struct restore_state *state);
void restore_state_remove(const char *name);

#endif /* KVD_CLIENT_KVCTL_RESTORE_STATE_H */
