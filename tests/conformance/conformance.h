/* SPDX-License-Identifier: MIT */
/*
 * What the conformance cases share: the suite checks on verbs and softnic alike that a device
 * behaves as common/rdma/device.h says and as kvd relies on. conformance_device.c runs the cases;
 * they are in the other files of this folder.
 *
 * Each case runs in its own process: a failed check ends that process, a hang is killed, and a leak
 * report is about that one case. Both ends of a connection are in that process, most often in one
 * thread, so waiting for one end also polls the other: softnic serves a READ of memory that is not
 * shared only while the memory's owner polls.
 */
#ifndef KVD_TESTS_CONFORMANCE_CONFORMANCE_H
#define KVD_TESTS_CONFORMANCE_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/rdma/device.h"

/* How long to wait for what must happen, a bound against hanging, and for what must not happen. */
#define SUITE_WAIT_MS 300000
#define SUITE_QUIET_MS 50

/*
 * How often the fd may be readable without a notification in SUITE_QUIET_MS: softnic checks once a
 * millisecond whether a message has waited too long for its receive. Without any sleep it would be
 * thousands.
 */
#define SPURIOUS_MAX (2 * SUITE_QUIET_MS)

#define SIDE_STASH_MAX 1024 /* completions that were polled and not yet returned by side_wc() */
#define SIDE_MEM_BYTES (64 * 1024) /* unless the options say otherwise */
#define SIDE_RECV_BYTES 4096
#define SIDE_NAME_MAX 16

#define array_len(array) (sizeof(array) / sizeof((array)[0]))

/* What this run tests. */
struct suite {
	enum device_kind kind;
	const struct device_ops *ops;
	const char *program; /* this program, to start again as a peer process */
	const char *dir;     /* for sockets */
	bool pairs;	     /* the connecting sides use create_channel_pair() */
};

extern struct suite suite;

struct suite_case {
	const char *name;
	void (*run)(void);
	unsigned int kinds; /* of enum device_kind, and MANY_IDS */
};

#define RDMA_DEVICES DEVICES_VERBS
#define ALL_DEVICES (RDMA_DEVICES | DEVICE_SOFTNIC)
/* The connecting side has more than one id at a time: not for channel pairs. */
#define MANY_IDS (1u << 8)

extern const struct suite_case data_cases[], mem_cases[], order_cases[], access_cases[], mw_cases[],
	rnr_cases[], cq_cases[], cm_cases[], state_cases[], load_cases[], peer_cases[];

/* Prints what failed and ends the case. */
void suite_fail(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			suite_fail(__FILE__, __LINE__, "%s", #condition);                          \
	} while (0)

#define CHECK_INT(is, should)                                                                      \
	do {                                                                                       \
		long long is_ = (long long)(is), should_ = (long long)(should);                    \
		if (is_ != should_)                                                                \
			suite_fail(__FILE__, __LINE__, "%s is %lld, not %s (%lld)", #is, is_,      \
				   #should, should_);                                              \
	} while (0)

#define CHECK_OK(call) CHECK_INT(call, 0)

int64_t suite_now_us(void);
void suite_sleep_us(unsigned int us);
/* A fresh address, for the next server of this process. */
struct device_addr suite_listen_addr(void);
/* The environment variable that names the file of the key that both ends have. */
#define SUITE_PSK "KVD_TLS_PSK"
/* What the URL says, with them. */
struct device_addr suite_addr(const char *url);
/* The credentials of both ends, where they need some. */
struct tls_files suite_tls(void);
/* The address that a client connects to in order to reach @dev, a listening device. */
struct device_addr suite_connect_addr(const struct device *dev);

/* How a connection is made. Copy PAIR_DEFAULTS and change what the case tests. */
struct pair_options {
	uint32_t send_wr, recv_wr;
	uint32_t sges;
	uint32_t inline_bytes;
	int cqe;
	int sig_all;
	int server_access, client_access; /* of the queue pairs */
	int mem_access;
	size_t mem_bytes;
	bool server_fd; /* the server's memory is a memfd, which softnic shares */
	struct cm_param param;
};

extern const struct pair_options PAIR_DEFAULTS;

/* What each end sends to the other in its private data. */
struct hello {
	uint64_t addr;
	uint32_t rkey;
	uint32_t length;
};

/* One end: a device with one of everything. */
struct side {
	char name[SIDE_NAME_MAX];
	struct device *dev;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct cm_channel *cm;
	struct cm_id *listener;
	struct cm_id *id;
	struct ibv_qp_cap cap; /* granted */
	uint8_t *mem;
	size_t mem_bytes;
	int mem_fd;
	struct ibv_mr *mr;
	struct hello remote; /* the other end's memory */
	struct side *other;  /* to poll while we wait; NULL if another thread or process polls it */
	struct ibv_wc stash[SIDE_STASH_MAX];
	unsigned int stash_head, stash_tail;
};

struct pair {
	struct side server, client;
};

void side_open(struct side *side, const char *name, const struct device_addr *addr,
	       enum device_role role, const struct pair_options *options);
void side_close(struct side *side);
void side_listen(struct side *side);
void side_create_qp(struct side *side, struct cm_id *id, int access,
		    const struct pair_options *options);
/* create_id, create_qp, connect; the response comes later, as an event. */
void side_connect(struct side *side, const struct pair_options *options);
/* Takes the next event, which must be a connect request, and accepts it. */
void side_accept(struct side *side, const struct pair_options *options);
/* The other end's hello, from an event of either end. */
void side_hello_read(struct side *side, const struct cm_event *event);
void side_destroy_id(struct side *side);

struct cm_event side_event(struct side *side, enum cm_event_type type);
void side_event_none(struct side *side);
struct device_async_event side_async(struct side *side, enum ibv_event_type type);
/* True if an event of @type comes within @wait_ms; all others are dropped. */
bool side_async_seen(struct side *side, enum ibv_event_type type, int wait_ms);

/* Moves completions to the stash of @side and of its other end. */
void side_poll(struct side *side);
struct ibv_wc side_wc(struct side *side);
bool side_wc_within(struct side *side, struct ibv_wc *wc, int wait_ms);
/* The next completion, which must have this id and status. */
struct ibv_wc side_wc_is(struct side *side, uint64_t wr_id, enum ibv_wc_status status);
void side_wc_none(struct side *side);
/* Whether the completion channel's fd becomes readable within @wait_ms. */
bool side_readable(struct side *side, int wait_ms);
/* Takes a notification, which must come. */
void side_notified(struct side *side);
/* Waits until the queue pair is in the error state. */
void side_qp_in_error(struct side *side);

/* Post functions return what the verb returned. Memory is named by its offset in side->mem. */
int recv_post(struct side *side, uint64_t wr_id, size_t offset, uint32_t len);
int send_post(struct side *side, uint64_t wr_id, size_t offset, uint32_t len, unsigned int flags);
int read_post(struct side *side, uint64_t wr_id, size_t offset, uint32_t len,
	      uint64_t remote_offset, unsigned int flags);
/* A READ of any remote address and key, right or wrong; offset and len are local. */
int read_post_raw(struct side *side, uint64_t wr_id, size_t offset, uint32_t len, uint64_t addr,
		  uint32_t rkey);

/* Both ends are opened and the server listens; then they connect; pair_open() does both. */
void pair_listen(struct pair *pair, const struct pair_options *options);
void pair_connect(struct pair *pair, const struct pair_options *options);
void pair_open(struct pair *pair, const struct pair_options *options);
void pair_close(struct pair *pair);
/* A message each way, to show that the connection works. */
void pair_ping(struct pair *pair);

void mem_fill(struct side *side, size_t offset, size_t len, unsigned int seed);
void mem_check(struct side *side, size_t offset, size_t len, unsigned int seed);

/* A peer in its own process: this program with `--peer @role`. */
struct peer {
	pid_t pid;
	int out; /* the read end of its stdout */
};

void peer_start(struct peer *peer, const char *role, const char *url);
void peer_line(struct peer *peer, char *line, size_t size);
void peer_kill(struct peer *peer, int signal);
/* Waits until it ends, which must be by @signal or, if that is 0, with status 0. */
void peer_wait(struct peer *peer, int signal);
int peer_main(const char *role, const char *url);

#endif /* KVD_TESTS_CONFORMANCE_CONFORMANCE_H */
