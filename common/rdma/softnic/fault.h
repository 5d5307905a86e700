/* SPDX-License-Identifier: MIT */
/*
 * The fault plan of the software device: which calls fail or misbehave, and when. It is for tests,
 * which set it through this header or, for whole programs, in the environment:
 *
 *	KVD_SOFTNIC_FAULTS="seed=7,fail=create_qp:3,tear=64,drop=5,delay=200us,kill=1000"
 *
 *	seed=N		the seed of random choices (delay, what happens between torn pieces)
 *	fail=CALL:N	the N-th CALL fails with ENOMEM
 *	tear=BYTES	a READ of mapped memory copies this many bytes at a time, one of a file
 *			in each poll
 *	drop=N		the N-th ibv_post_send() loses its connection, as if the peer had died
 *	delay=TIME	what a peer sends waits up to TIME before it is seen
 *	kill=N		the device of the N-th call of any kind dies; one that is opened
 *			later works
 *	stall=CALL:N:TIME the N-th CALL takes this long, as on a slow device or network
 *	reuse=1		a queue pair gets the lowest number that is free, so that numbers are
 *			used again at once
 *	mr_max=BYTES	the longest memory region that the device says it can register, and does
 *	late=TIME	a signaled send request that is done completes up to TIME later, those of
 *			a queue pair in their order
 *	reorder=1	a poll takes what is in its CQ in a random order of the queue pairs, the
 *			completions of each one in their order
 *	lose=N:TIME	the N-th completion with success does not come, and nothing else of its
 *			queue pair: after TIME that fails with IBV_WC_RETRY_EXC_ERR, as when the
 *			network has failed. What it had sent before may have been executed.
 *
 * Each may be given once.
 *
 * take_file is a client's file that came with a GRANT, and read_file a preadv(2) of one.
 *
 * The environment is read when the first device is opened; a plan that does not parse fails the
 * open. There is one plan per process. Without a plan the cost is one predictable branch per call.
 */
#ifndef KVD_COMMON_RDMA_SOFTNIC_FAULT_H
#define KVD_COMMON_RDMA_SOFTNIC_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAULT_ENV "KVD_SOFTNIC_FAULTS"

/* clang-format off */
#define FAULT_CALLS(X)		\
	X(open)			\
	X(query)		\
	X(get_async_event)	\
	X(alloc_mem)		\
	X(alloc_pd)		\
	X(reg_mr)		\
	X(alloc_mw)		\
	X(take_file)		\
	X(read_file)		\
	X(create_comp_channel)	\
	X(create_cq)		\
	X(get_cq_event)		\
	X(create_srq)		\
	X(modify_srq)		\
	X(create_qp)		\
	X(modify_qp)		\
	X(query_qp)		\
	X(create_cm_channel)	\
	X(cm_get_event)		\
	X(listen)		\
	X(create_id)		\
	X(connect)		\
	X(accept)		\
	X(reject)		\
	X(query_peer)		\
	X(disconnect)		\
	X(post_send)		\
	X(post_recv)		\
	X(post_srq_recv)	\
	X(poll_cq)		\
	X(req_notify_cq)
/* clang-format on */

enum fault_call {
#define FAULT_ENUM(name) FAULT_##name,
	FAULT_CALLS(FAULT_ENUM)
#undef FAULT_ENUM
		FAULT_CALL_COUNT,
};

/* What a plan does, by its keys in the form above. */
/* clang-format off */
#define FAULT_KINDS(X)		\
	X(fail)			\
	X(tear)			\
	X(drop)			\
	X(delay)		\
	X(kill)			\
	X(stall)		\
	X(late)			\
	X(reorder)		\
	X(lose)
/* clang-format on */

enum fault_kind {
#define FAULT_ENUM(name) FAULT_KIND_##name,
	FAULT_KINDS(FAULT_ENUM)
#undef FAULT_ENUM
		FAULT_KIND_COUNT,
};

struct fault_plan {
	uint64_t seed;
	enum fault_call fail_call;
	uint64_t fail_at;  /* which fail_call fails, counted from 1; 0 = none */
	int fail_errno;	   /* positive; 0 = ENOMEM */
	uint32_t tear;	   /* bytes; 0 = READs are whole */
	uint64_t drop_at;  /* which post_send, counted from 1; 0 = none */
	uint64_t delay_ns; /* at most; 0 = none */
	uint64_t kill_at;  /* which call of any kind, counted from 1; 0 = none */
	enum fault_call stall_call;
	uint64_t stall_at; /* which stall_call takes long, counted from 1; 0 = none */
	uint64_t stall_ns; /* how long */
	uint64_t reuse;	   /* 1: numbers of queue pairs are used again at once */
	uint64_t mr_max;   /* bytes of a memory region, at most; 0 = no limit */
	uint64_t late_ns;  /* at most; 0 = none */
	uint64_t reorder;  /* 1: completions of the queue pairs are mixed */
	uint64_t lose_at;  /* which completion, counted from 1; 0 = none */
	uint64_t lose_ns;  /* until its queue pair fails */
	/*
	 * Called between the pieces of a torn READ, with locks of the reader's queue pair held: it
	 * may write the memory that is being read, but must not call this device. NULL: the thread
	 * yields there at random.
	 */
	void (*tear_hook)(void *arg);
	void *tear_arg;
};

/* "create_qp" and so on. */
const char *fault_call_name(enum fault_call call);

/*
 * Puts a plan in force, with all counts at 0. Threads that are inside the device may use fields of
 * the previous plan until their calls return.
 */
void fault_set(const struct fault_plan *plan);

/* Ends the plan; the counts stay readable. */
void fault_reset(void);

/* Parses the form above. On -EINVAL @why (@why_size bytes) is a whole sentence. */
int fault_parse(struct fault_plan *plan, const char *text, char *why, size_t why_size);

/* How often @call was called under the plan. */
uint64_t fault_count(enum fault_call call);

/* How often the plan has done this: a plan that did nothing tests nothing. */
uint64_t fault_kind_count(enum fault_kind kind);

/* How many completions with success the queue pairs had under the plan. */
uint64_t fault_completions_count(void);

/* Sets the environment's plan, the first time it is called. 0 or -EINVAL. */
int fault_init(void);

/* The functions below are for the device itself. */

extern _Atomic bool fault_active;

struct sn_context;

/* context.c: ends the device, as IBV_EVENT_DEVICE_FATAL reports. */
void sn_context_kill(struct sn_context *ctx);
bool sn_context_is_dead(const struct sn_context *ctx);

/* Counts the call; returns the negative errno that it must fail with, or 0. @ctx: NULL for open. */
int fault_hit(enum fault_call call, struct sn_context *ctx);

static inline bool fault_on(void)
{
	return __builtin_expect(atomic_load_explicit(&fault_active, memory_order_relaxed), 0);
}

static inline int fault_check(enum fault_call call, struct sn_context *ctx)
{
	return fault_on() ? fault_hit(call, ctx) : 0;
}

/* Whether the current post_send() loses its connection. */
bool fault_drops(void);

/* Whether a queue pair gets the lowest number that is free. */
bool fault_reuses(void);

/* The longest memory region, in bytes. */
uint64_t fault_mr_max(void);

/* A random delay, in nanoseconds, for what the peer just sent. */
uint64_t fault_delay_ns(void);

/* Whether completions come late or get lost: then nothing completes inside of a post. */
bool fault_defers(void);

/* A random time, in nanoseconds, by which a completion is late. */
uint64_t fault_late_ns(void);

/* Counts a completion; returns after how many nanoseconds its queue pair fails; 0: it does not. */
uint64_t fault_loses_ns(void);

/* Whether polls take completions in a random order of the queue pairs. */
bool fault_reorders(void);

/* Picks one of @count completions: a poll takes next from its queue pair. */
uint32_t fault_pick(uint32_t count);

/* The bytes of @length that a READ of a file takes in one poll. */
uint32_t fault_part(uint32_t length);

/* Copies as a READ does under the plan. */
void fault_copy(void *to, const void *from, size_t length);

#endif /* KVD_COMMON_RDMA_SOFTNIC_FAULT_H */
