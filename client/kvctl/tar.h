/* SPDX-License-Identifier: MIT */
/*
 * Writes a compressed archive of small files: POSIX's ustar format within gzip's, by zlib.
 * (libarchive would bring libxml2 and ICU, 40 MB, to each host that has kvctl.)
 */
#ifndef KVD_CLIENT_KVCTL_TAR_H
#define KVD_CLIENT_KVCTL_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* Of a file's name in the archive, its zero included. */
#define TAR_NAME_BYTES 100

struct tar {
	void *gz;
	time_t time; /* of all files */
	bool failed;
};

/* Writes to @fd, which tar_close() closes. False: no memory; @fd is still open. */
bool tar_open(struct tar *tar, int fd, time_t time);
/* Adds a file, whose name is shorter than TAR_NAME_BYTES. Errors are for tar_close(). */
void tar_add(struct tar *tar, const char *name, const char *text, size_t len);
/* False: not all could be written; errno says why. */
bool tar_close(struct tar *tar);

#endif /* KVD_CLIENT_KVCTL_TAR_H */
