/* SPDX-License-Identifier: MIT */
/* Grants: files that a peer may read. The owner's side is grant.c, the reader's side read.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_FILE_GRANT_H
#define KVD_COMMON_RDMA_SOFTNIC_FILE_GRANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/softnic.h"

#define SN_GRANTS_QUEUED 16384 /* bytes on the way to the peer; beyond that no GRANT is sent */
#define SN_NOW_BYTES 65536u    /* of a file, by one system call: stays in the CPU's L2 cache */
#define SN_COPY_LINES 4	       /* lines that are copied without a call */
#define SN_LIFE_READS 64       /* READs by the life word until the socket is looked at, too */

/* A file of the peer's that we may read: a server's is mapped, a client's is open. */
struct sn_grant {
	uint32_t rkey; /* 0: none */
	uint64_t addr;
	uint64_t length;
	const uint8_t *memory; /* where we mapped addr; NULL: it is not mapped */
	struct sn_map *map;
	struct sn_file *file;
	uint64_t file_offset; /* of addr */
};

/* read.c */
enum sn_read_path {
	SN_READ_MAPPED,	 /* source.memory is set */
	SN_READ_FILE,	 /* source.file is set */
	SN_READ_SERVED,	 /* the peer has to serve the READ */
	SN_READ_REFUSED, /* the peer does not allow the READ */
	SN_READ_LOST,	 /* the queue pair is in error now */
};

struct sn_source {
	const uint8_t *memory;
	const struct sn_file *file;
	uint64_t offset;
};

enum sn_read_path do_sn_read_resolve(struct sn_qp *qp, uint32_t rkey, uint64_t addr,
				     uint32_t length, struct sn_source *source);
/*
 * Whether the memory of that key may still be READ. If so, all bytes copied before are those that
 * the peer had registered: the peer writes to the memory again only after it has deregistered it
 * or closed its end.
 */
bool do_sn_read_stands(struct sn_qp *qp, uint32_t rkey);
/*
 * Executes the READs at the head of a chain that only need copying. Then *@wr is the first request
 * that was not executed. Returns how many were.
 */
unsigned int do_sn_read_chain(struct sn_qp *qp, struct ibv_send_wr **wr);
int do_sn_grant_take(struct sn_qp *qp, const struct link_message *message, int fd);
/* do_sn_grant_take() for the side that accepts. -EPROTO: the peer broke the protocol. */
int do_sn_grant_open(struct sn_qp *qp, const struct link_message *message, int fd);
/* Gives back the files whose grants the peer has revoked. */
void do_sn_grants_review(struct sn_qp *qp);
void do_sn_grants_release(struct sn_qp *qp);
const uint8_t *sn_read_source(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, uint64_t length);
bool sn_fill(struct ibv_qp *qp, uint64_t addr, uint32_t left);
int64_t sn_read_now(struct ibv_qp *qp, uint32_t rkey, uint64_t addr, void *to, uint32_t bytes,
		    struct value_sum *sum);
void sn_read_copy(void *to, const uint8_t *from, size_t length);

/* grant.c */
/* Grants the peer the files that it may map, and revokes the others. ctx->lock is held. */
void do_sn_grants_update(struct sn_qp *qp);
/* Revokes one key, of a queue pair of any thread. ctx->lock is held. */
void do_sn_grant_revoke(struct sn_qp *qp, uint32_t rkey);
/*
 * Whether the side that connects may send another GRANT: it may send LINK_GRANTS_MAX, and one more
 * for each of its SENDs that was taken. Both sides count, since each GRANT costs the other side
 * some system calls.
 */
bool do_sn_grant_allowed(const struct sn_qp *qp);
void sn_grants_update(struct sn_qp *qp);

#endif /* KVD_COMMON_RDMA_SOFTNIC_FILE_GRANT_H */
