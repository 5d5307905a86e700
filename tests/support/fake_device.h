/* SPDX-License-Identifier: MIT */
/*
 * A fake device for one client handle, for tests that decide what each verb does: a function of
 * the test carries out each work request when it is posted, in the same thread. The handle's queue
 * pair, completion queue and connection are members of the device.
 */
#ifndef KVD_TESTS_SUPPORT_FAKE_DEVICE_H
#define KVD_TESTS_SUPPORT_FAKE_DEVICE_H

#include "client/libkvd/handle.h"

/*
 * The handle's timeouts, and of waits: a bound against hanging, which no machine is too slow for. A
 * case that wants an operation to time out sets a shorter one.
 */
#define FAKE_TIMEOUT_MS 300000

struct fake_device {
	struct device device;
	struct ibv_context context;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_comp_channel comp_channel;
	struct cm_channel cm_channel;
	struct cm_id id;
	struct ibv_recv_wr recvs[MESSAGES_MAX];
	struct ibv_sge recv_sges[MESSAGES_MAX];
	unsigned int recv_first, recv_count;
	struct ibv_wc wcs[SENDS_MAX];
	unsigned int wc_count;
	bool hold_reads; /* READs complete when fake_device_release() is called */
	struct ibv_wc held[SENDS_MAX];
	unsigned int held_count;
	uint64_t mr_max; /* bytes of one registration; 0: any */
	/*
	 * The next events of connection management, taken from the first on. With none, a try to
	 * connect gets no answer.
	 */
	struct cm_event events[4];
	unsigned int event_count;
	unsigned int connects; /* tries to connect */
	bool notify; /* requested: the next completion makes the channel's descriptor readable */

	/* The test's functions. @send may call fake_device_respond(). */
	enum ibv_wc_status (*read)(struct fake_device *fake, const struct ibv_send_wr *wr);
	enum ibv_wc_status (*send)(struct fake_device *fake, const struct ibv_send_wr *wr);
	/* READs at once, as device_ops.read_now(); may be NULL: it can't. */
	int64_t (*read_now)(struct fake_device *fake, uint64_t addr, void *to, uint32_t bytes,
			    struct value_sum *sum);
	/* As device_ops.fill() where the peer waits; may be NULL: it does not. */
	void (*fill)(struct fake_device *fake, uint64_t addr, uint32_t left);
	/* Called when the handle tries to connect; may be NULL. */
	void (*connect)(struct fake_device *fake);
	/* Called when an empty completion queue is polled; may be NULL. */
	void (*idle)(struct fake_device *fake);
	/* Called just before the device takes a request for a notification; may be NULL. */
	void (*before_notify)(struct fake_device *fake);
	void (*close)(struct fake_device *fake);
};

/*
 * Makes @fake the device of @kvd. The caller has set @fake's read, send and close. Exits the
 * process on failure.
 */
void fake_device_init(struct fake_device *fake, struct kvd *kvd, const char *name);

/* Writes the response and its value into the oldest receive buffer and completes it. */
void fake_device_respond(struct fake_device *fake, const struct wire_response *response,
			 const uint8_t *value);

/* All that a work request READs or sends. */
uint32_t fake_device_bytes(const struct ibv_send_wr *wr);
/* The handle gets this event of connection management. */
void fake_device_event(struct fake_device *fake, enum cm_event_type type, int status);

/* Breaks the connection: all that is outstanding is flushed. */
void fake_device_lose(struct fake_device *fake);

/* Completes the READs that were held back. */
void fake_device_release(struct fake_device *fake);

#endif /* KVD_TESTS_SUPPORT_FAKE_DEVICE_H */
