/* SPDX-License-Identifier: MIT */
/*
 * A client that speaks kvd's protocol by the device interface instead of libkvd, so that it can
 * break the rules: for the system tests and the measurements of what one client does to others.
 *
 * One thread at a time for each peer. A step that can't go wrong in a test (opening the device,
 * memory, HELLO) prints a line `FAIL  STEP: CAUSE` and ends the process.
 */
#ifndef KVD_TESTS_SUPPORT_RAW_PEER_H
#define KVD_TESTS_SUPPORT_RAW_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"
#include "common/wire.h"

#define RAW_DEADLINE_NS 300000000000ull
#define RAW_PAUSE_US 200

#define RAW_SENDS 256
#define RAW_RECVS 64
#define RAW_RECV_BYTES 4096u
#define RAW_SEND_BYTES (64u << 10)
#define RAW_DATA_BYTES (2u << 20) /* that the server can pull */
#define RAW_MEMORY_BYTES (RAW_SEND_BYTES + RAW_RECVS * RAW_RECV_BYTES + RAW_DATA_BYTES)

struct raw_peer {
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct cm_channel *channel;
	struct cm_id *id;
	struct ibv_mr *mr;
	uint8_t *memory;   /* messages to send, receives, data */
	bool deaf;	   /* post no receives */
	uint8_t rnr_timer; /* how long the server waits before it sends again what found none */

	bool established, refused, closed;
	struct wire_reject reject;
	unsigned int responses; /* received since the last raw_send(); the last one: */
	struct wire_response response;
	uint8_t value[RAW_RECV_BYTES];
	unsigned int sends_done, rdma_done;
	enum ibv_wc_status status; /* of the last completion of a send or RDMA */
	struct wire_welcome welcome;
};

#define RAW_HELLO_BYTES (sizeof(struct wire_request) + sizeof(struct wire_hello))

/* The server that all peers of this process connect to. */
extern const char *raw_url;
/* The tenant that those connect to which are opened from now on; NULL: they name none. */
extern const char *raw_tenant;

extern const struct wire_connect raw_good_connect;
extern const struct wire_hello raw_good_hello;

/* Prints `FAIL  @what: cause` and ends the process; @err is an errno, negative or not. */
void raw_die(const char *what, int err) __attribute__((noreturn));

/* Bytes that the server can pull, RAW_DATA_BYTES. */
uint8_t *raw_data(const struct raw_peer *p);

/* Opens the device, without connecting. @deaf: posts no receives. */
void raw_open(struct raw_peer *p, bool deaf);
void raw_close(struct raw_peer *p);
/* Connects with this private data; returns when the server accepted, refused or closed. */
void raw_connect(struct raw_peer *p, const void *private_data, size_t bytes);
/* Opens and connects, without HELLO. */
void raw_start(struct raw_peer *p, bool deaf);
/* Connects, and sends HELLO as a good client does. */
void raw_greet(struct raw_peer *p);
/*
 * Greets with one receive, for the welcome: all other responses wait in the server's device, which
 * gives up after some seconds.
 */
void raw_greet_deaf(struct raw_peer *p);
/* Greets with this HELLO. False: the server closed the connection. */
bool raw_greet_with(struct raw_peer *p, const struct wire_hello *hello);

/* Takes connection events alone: a client that looks at no completion and serves no READ. */
void raw_poll_events(struct raw_peer *p);
/* Handles events and completions; on softnic it also makes the device work. */
void raw_poll(struct raw_peer *p);
/* Polls until @done; returns false if RAW_DEADLINE_NS passes first. */
bool raw_wait(struct raw_peer *p, bool (*done)(const struct raw_peer *));
bool raw_is_settled(const struct raw_peer *p);
bool raw_is_closed(const struct raw_peer *p);
bool raw_is_responded(const struct raw_peer *p);
bool raw_is_rdma_done(const struct raw_peer *p);

/* Sends the first @bytes of the send buffer; returns an errno if the queue pair is in error. */
int raw_send(struct raw_peer *p, size_t bytes);
/* Sends @bytes at @at of the send buffer. */
int raw_send_at(struct raw_peer *p, size_t at, size_t bytes);
int raw_rdma(struct raw_peer *p, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey,
	     uint32_t bytes);
/*
 * Writes a request to the send buffer: @head, a key and a value, whatever lengths @head has.
 * Returns its length.
 */
size_t raw_fill(struct raw_peer *p, const struct wire_request *head, size_t key_len,
		size_t value_len);
void raw_fill_hello(struct raw_peer *p, const struct wire_hello *hello);

#endif /* KVD_TESTS_SUPPORT_RAW_PEER_H */
