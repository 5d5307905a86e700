/* SPDX-License-Identifier: MIT */
/* Files that peers passed: read with preadv(2) (file.c), or mapped (map.c). */
#ifndef KVD_COMMON_RDMA_SOFTNIC_PEER_FILE_H
#define KVD_COMMON_RDMA_SOFTNIC_PEER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/rdma/softnic/softnic.h"

#define SN_FILES_MAX 1024 /* peers' files open at once; file.c says when fewer */

struct stat;

/* A file of a server's that connections of a device have mapped. */
struct sn_map {
	TAILQ_ENTRY(sn_map) in_context; /* under the context's map_lock, like users */
	unsigned int users;
	int fd;
	ino_t ino; /* as a hint: another number is another file */
	uint64_t start;
	size_t length;
	void *base;
};

/* file.c */
/*
 * Whether the user at the other end of @sock may pass files. A user may not after sn_file_bar(),
 * which bars the user of a process that passed a file no kvd client passes, until SN_BARRED_MAX
 * other users are barred.
 */
bool sn_file_allowed(struct sn_context *ctx, int sock);
void sn_file_bar(struct sn_context *ctx, int sock);
/*
 * Takes a file that a peer passed; @fd stays the caller's. @is_first: the connection has no other
 * file. -EBADF: it is not memory; -EPERM: its length is not sealed; -EMFILE: SN_FILES_MAX are open.
 */
int sn_file_get(struct sn_context *ctx, int fd, bool is_first, struct sn_file **file);
void sn_file_put(struct sn_context *ctx, struct sn_file *file);
uint64_t sn_file_bytes(const struct sn_file *file);
/* The number of bytes read, at least 1 and maybe fewer than wanted, or a negative errno. */
int64_t sn_file_read(struct sn_context *ctx, const struct sn_file *file, uint64_t offset,
		     const struct iovec *to, unsigned int count);

/* map.c */
/*
 * The mapping of @length bytes of a file from @start on, both multiples of its page size, which is
 * @st's st_blksize. The connections of a device share it. 0 or a negative errno.
 */
int sn_map_get(struct sn_context *ctx, int fd, const struct stat *st, uint64_t start, size_t length,
	       struct sn_map **out);
void sn_map_put(struct sn_context *ctx, struct sn_map *map);

#endif /* KVD_COMMON_RDMA_SOFTNIC_PEER_FILE_H */
