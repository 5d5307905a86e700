/* SPDX-License-Identifier: MIT */
/* The word that says whether a server's process is alive: life.c. */
#ifndef KVD_COMMON_RDMA_SOFTNIC_LIFE_WORD_H
#define KVD_COMMON_RDMA_SOFTNIC_LIFE_WORD_H

#include "common/rdma/softnic/softnic.h"

/* The word of a listening device. */
struct sn_life {
	union life_page *page;
	int fd; /* of the page; -1: there is none */
};

#define SN_LIFE_NONE ((struct sn_life){ .fd = -1 })

/*
 * Says that this process is alive, until the calling thread ends or calls sn_life_end(). A failure
 * is logged; then there is no word.
 */
void sn_life_begin(struct sn_life *life);
/* Call it in the thread that called sn_life_begin(). */
void sn_life_end(struct sn_life *life);
/* Passes our word to the peer, once. */
void do_sn_life_send(struct sn_qp *qp);
/* Takes the peer's word; @fd stays the caller's. */
int do_sn_life_take(struct sn_qp *qp, int fd);
void do_sn_life_release(struct sn_qp *qp);

#endif /* KVD_COMMON_RDMA_SOFTNIC_LIFE_WORD_H */
