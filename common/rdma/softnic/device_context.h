/* SPDX-License-Identifier: MIT */
/* The opened device (context.c), and the file of the socket at which it listens (address.c). */
#ifndef KVD_COMMON_RDMA_SOFTNIC_DEVICE_CONTEXT_H
#define KVD_COMMON_RDMA_SOFTNIC_DEVICE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "common/rdma/device.h"
#include "common/rdma/softnic/async_event.h"
#include "common/rdma/softnic/life_word.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/unix_socket.h"

#define SN_PD_MAX 256
#define SN_MR_MAX 4096
#define SN_BARRED_MAX 16u /* the latest users whose files are refused */

TAILQ_HEAD(sn_qp_list, sn_qp);
TAILQ_HEAD(sn_cm_channel_list, sn_cm_channel);
TAILQ_HEAD(sn_channel_list, sn_channel);
TAILQ_HEAD(sn_map_list, sn_map);
LIST_HEAD(sn_file_list, sn_file);
LIST_HEAD(sn_qp_bucket, sn_qp);

/* The objects that a context counts, to bound them and to report at close those not destroyed. */
enum sn_object {
	SN_OBJECT_PD,
	SN_OBJECT_MR,
	SN_OBJECT_MW,
	SN_OBJECT_COMP_CHANNEL,
	SN_OBJECT_CQ,
	SN_OBJECT_SRQ,
	SN_OBJECT_QP,
	SN_OBJECT_CM_CHANNEL,
	SN_OBJECT_ID,
	SN_OBJECT_COUNT,
};

/* The numbers of queue pairs that are in use: qp_number.c. */
struct sn_qp_numbers {
	struct sn_qp_bucket *buckets;
	uint32_t bucket_count; /* a power of two, or 0 */
	uint32_t count;
	uint32_t next; /* the next queue pair gets it, if it is free */
};

struct sn_context {
	struct device dev;
	struct ibv_context verbs;
	struct ibv_device device;
	struct device_addr addr;
	enum device_role role;
	_Atomic bool dead;
	_Atomic int objects[SN_OBJECT_COUNT]; /* alive */
	int listen_fd;			      /* a server's; else -1 */
	struct unix_socket_file listen_file;

	pthread_mutex_t lock;
	struct sn_qp_list qps;
	struct sn_cm_channel_list cm_channels;
	struct sn_channel_list channels;
	struct sn_qp_numbers qp_numbers;
	uint32_t mr_next;
	uint32_t mr_tag;
	uint8_t *mw_slots; /* SN_MW_MAX: mw.c; NULL: no window was allocated yet */
	uint32_t mw_next;

	pthread_mutex_t mr_lock; /* held while a peer's READ is served, so that its MR stays */
	_Atomic(struct sn_mr *) mrs[SN_MR_MAX];
	_Atomic uint32_t mr_changes; /* of memory with a file; written under lock, read without */

	pthread_mutex_t file_lock;
	struct sn_file_list files; /* the peers' files that are read with preadv() */
	uint32_t file_count;
	uid_t barred[SN_BARRED_MAX]; /* users whose files are refused: sn_file_bar() */
	uint64_t barred_count;	     /* since the start */

	pthread_mutex_t map_lock;
	struct sn_map_list maps;

	struct sn_life life; /* a server's */

	pthread_mutex_t async_lock;
	struct sn_async_list async; /* pending events */
	struct sn_async fatal;
};

static inline struct sn_context *to_sn_context(struct ibv_context *verbs)
{
	return sn_container(verbs, struct sn_context, verbs);
}

static inline struct sn_context *dev_to_sn_context(struct device *dev)
{
	return sn_container(dev, struct sn_context, dev);
}

/* context.c */
/* Counts a new object: 0, or -ENOMEM at the object's limit. */
int sn_object_add(struct sn_context *ctx, enum sn_object object);
void sn_object_remove(struct sn_context *ctx, enum sn_object object);

/* address.c */
int sn_address_bind(struct sn_context *ctx);
/* 0 if there is a socket, -ECONNREFUSED, -EACCES. */
int sn_address_find(const struct device_addr *addr);
void sn_address_release(struct sn_context *ctx);

#endif /* KVD_COMMON_RDMA_SOFTNIC_DEVICE_CONTEXT_H */
