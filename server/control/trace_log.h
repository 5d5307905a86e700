/* SPDX-License-Identifier: MIT */
/*
 * What the workers have executed, as they noted it (server/worker/trace.h): the slow log, and the
 * sample of all operations for `kvctl monitor`. Each keeps its last records; an operation has a
 * number in each, so that readers see gaps where some were lost. server/control/traces.h fills
 * them. The control thread's.
 */
#ifndef KVD_SERVER_CONTROL_TRACE_LOG_H
#define KVD_SERVER_CONTROL_TRACE_LOG_H

#include "common/rdma/device.h"
#include "common/wire.h"
#include "server/config/option_table.h"
#include "server/users/user.h"
#include "server/worker/trace.h"

/* Records that are kept. */
#define TRACE_SLOW_MAX 128u
#define TRACE_SAMPLE_MAX 4096u

struct trace_record {
	struct trace_entry entry;
	uint64_t number;
	unsigned int worker;
	enum device_kind kind;
	/* Empty: the client was gone. */
	char address[DEVICE_PEER_MAX], tenant[WIRE_TENANT_MAX + 1];
	char user[USER_NAME_MAX + 1]; /* empty: it has none */
};

struct trace_log {
	struct trace_record *records; /* a ring */
	uint64_t size;
	uint64_t first, count; /* records from `first` on were put in, up to `count` */
	uint64_t next;	       /* the next operation's number */
};

struct traces {
	struct trace_record *memory; /* in no core dump: there are keys in it */
	struct trace_log slow, sample;
	/* What was counted before of each worker's losses. */
	uint64_t slow_lost[WORKERS_MAX], sampled_lost[WORKERS_MAX];
};

/* 0 or -ENOMEM after logging. */
int traces_init(struct traces *traces);
/* Accepts one of all zero. */
void traces_release(struct traces *traces);

/* Numbers the record, and keeps a copy of it. */
void trace_log_add(struct trace_log *log, struct trace_record *record);

/* The index of the first record whose operation has @number, or a later one. */
uint64_t trace_log_find(const struct trace_log *log, uint64_t number);
static inline const struct trace_record *trace_log_at(const struct trace_log *log, uint64_t index)
{
	return &log->records[index % log->size];
}

#endif /* KVD_SERVER_CONTROL_TRACE_LOG_H */
