/* SPDX-License-Identifier: MIT */
/*
 * Writes a dump: to NAME.partial, in the folder of the final file, which gets the final name once
 * all of it is on the disk, or directly to a pipe or a device. If NAME is a symbolic link, the
 * final file is the one it leads to. An existing NAME.partial can be resumed.
 */
#ifndef KVD_CLIENT_KVCTL_DUMP_WRITER_H
#define KVD_CLIENT_KVCTL_DUMP_WRITER_H

#include <limits.h>

#include "client/kvctl/dump_file.h"

#define DUMP_PARTIAL ".partial"
#define DUMP_BODY_BYTES (256u << 10) /* a block is written once it has that many */

struct dump_writer {
	const char *name; /* as the caller gave it; NULL: the standard output */
	char *final;	  /* the file that it leads to; NULL: it is written directly */
	char *partial;	  /* its name until it is whole; NULL likewise */
	int fd;
	uint64_t offset;
	uint64_t before;	/* the sum that the next block has to name */
	uint64_t cursor;	/* what the next block says; the caller sets it */
	uint64_t clock_ns;	/* likewise: the server's clock, now */
	struct dump_end counts; /* of what was added; the caller counts `missing` */
	struct dump_block block;
	uint8_t *body;
	char why[2 * PATH_MAX]; /* what failed, and with which file */
};

/*
 * Begins a dump to @name, or to the standard output if that is NULL, and writes the header. An old
 * partial file is overwritten. 0, or a negative errno, and `why` is set: -EBUSY if another process
 * writes this dump, -EINVAL if @name is a folder or a terminal. Call dump_writer_release() in any
 * case.
 */
int dump_writer_begin(struct dump_writer *writer, const char *name,
		      const struct dump_header *header, const uint8_t *filter);

/*
 * Resumes the partial file of @name: truncates it after its last good block and takes that block's
 * cursor. *@header gets its header. It must be a regular file with a dump of the same filter and
 * incarnation as @header, else -EINVAL; -ENOENT: there is none.
 */
int dump_writer_resume(struct dump_writer *writer, const char *name, struct dump_header *header,
		       const uint8_t *filter);

/* Adds a record. 0, or a negative errno if a block could not be written, and `why` is set. */
int dump_writer_add(struct dump_writer *writer, const struct dump_entry *entry);

/* Writes what was added as a block. Returns as dump_writer_add(). */
int dump_writer_flush(struct dump_writer *writer);

/* Writes what was added and the end; a named file is synced and gets its final name. */
int dump_writer_end(struct dump_writer *writer);

/* Frees everything. A partial file stays. */
void dump_writer_release(struct dump_writer *writer);

#endif /* KVD_CLIENT_KVCTL_DUMP_WRITER_H */
