/* SPDX-License-Identifier: MIT */
/*
 * A fake device for one client handle: a function of the test does each work request when it is
 * posted. The handle's queue pair, completion queue and connection are all here.
 */
#ifndef KVD_TESTS_SUPPORT_FAKE_DEVICE_H
#define KVD_TESTS_SUPPORT_FAKE_DEVICE_H

#include "client/handle.h"

struct fake_device {
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

	/* The test's functions: do a READ, or a SEND, to which fake_device_respond() may respond. */
	enum ibv_wc_status (*read)(struct fake_device *fake, const struct ibv_send_wr *wr);
	enum ibv_wc_status (*send)(struct fake_device *fake, const struct ibv_send_wr *wr);
	void (*idle)(
		struct fake_device *fake); /* before a poll of an empty completion queue; or NULL */
	void (*close)(struct fake_device *fake);
};

/*
 * Gives @kvd the device; read, send and close are set before. Ends the process if that fails.
 */
void fake_device_init(struct fake_device *fake, struct kvd *kvd, const char *name);

/* Puts the response, and its value unless it is in a copy, into the oldest receive buffer. */
void fake_device_respond(struct fake_device *fake, const struct wire_response *response,
			 const uint8_t *value);

#endif /* KVD_TESTS_SUPPORT_FAKE_DEVICE_H */
