/* SPDX-License-Identifier: MIT */
/*
 * A device for one client handle that is no device: verbs that are done by a function of the test when
 * they are posted. The handle's queue pair, completion queue and connection are all here.
 */
#ifndef KVD_TESTS_SUPPORT_FAKE_H
#define KVD_TESTS_SUPPORT_FAKE_H

#include "client/handle.h"

struct fake {
	struct device device;
	struct ibv_context context;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_comp_channel comp_channel;
	struct cm_channel cm_channel;
	struct cm_id id;
	struct ibv_recv_wr recvs[RECVS];
	struct ibv_sge recv_sges[RECVS];
	unsigned int recv_first, recv_count;
	struct ibv_wc wcs[SENDS_MAX];
	unsigned int wc_count;

	/* The test's own: does a READ, or a SEND, which may be answered with fake_respond(). */
	enum ibv_wc_status (*read)(struct fake *fake, const struct ibv_send_wr *wr);
	enum ibv_wc_status (*send)(struct fake *fake, const struct ibv_send_wr *wr);
	void (*idle)(struct fake *fake); /* before a poll that would find nothing; or NULL */
	void (*close)(struct fake *fake);
};

/*
 * Gives @kvd the device. read, send and close are set. Ends the process if it can't.
 */
void fake_init(struct fake *fake, struct kvd *kvd, const char *name);

/* Puts the response, and its value unless it is in a copy, into the oldest receive buffer. */
void fake_respond(struct fake *fake, const struct wire_response *response, const uint8_t *value);

#endif /* KVD_TESTS_SUPPORT_FAKE_H */
