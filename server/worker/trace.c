/* SPDX-License-Identifier: MIT */
/* Keeps the operations of a turn that were slow, or are in the sample, in a worker's ring. */
#include "server/worker/trace.h"

#include <errno.h>
#include <string.h>

#include "common/util/secret.h"
#include "common/wire.h"
#include "server/worker/client.h"

#define RING_BYTES (TRACE_ENTRIES * sizeof(struct trace_entry))

int trace_init(struct trace *trace, uint64_t slow_ns)
{
	trace->ring = secret_alloc(RING_BYTES);
	if (!trace->ring)
		return -ENOMEM;
	stat_set(&trace->slow_ns, slow_ns);
	return 0;
}

void trace_release(struct trace *trace)
{
	secret_free(trace->ring, RING_BYTES);
	trace->ring = NULL;
}

void trace_sample(struct trace *trace, uint64_t every, uint64_t now_ns)
{
	uint64_t now_every = stat_read(&trace->every);

	/* First, so that the worker does not end what was just begun. */
	stat_set(&trace->until_ns, now_ns + TRACE_SAMPLE_NS);
	if (!now_every || every < now_every)
		stat_set(&trace->every, every);
}

static struct trace_entry *entry_at(const struct trace *trace, uint64_t number)
{
	return &trace->ring[number % TRACE_ENTRIES];
}

bool trace_take(struct trace *trace, struct trace_entry *entry)
{
	/* Pairs with trace_keep(). */
	if (trace->tail == __atomic_load_n(&trace->head, __ATOMIC_ACQUIRE))
		return false;
	*entry = *entry_at(trace, trace->tail);
	/* Pairs with trace_add(): the place is free once the entry is copied. */
	__atomic_store_n(&trace->tail, trace->tail + 1, __ATOMIC_RELEASE);
	return true;
}

/* Ends the sample if no reader has asked for it of late. */
static void sample_expire(struct trace *trace, uint64_t now_ns)
{
	if (now_ns >= stat_read(&trace->until_ns))
		stat_set(&trace->every, 0);
}

/* Whether the operation, which arrived at @arrived_ns, is in the sample. */
static bool is_sampled(struct trace *trace, uint64_t used, uint64_t arrived_ns)
{
	const uint64_t every = stat_read(&trace->every);

	if (!every)
		return false;
	if (++trace->unsampled < every) {
		/* The next one that is may be far away. */
		sample_expire(trace, arrived_ns);
		return false;
	}
	trace->unsampled = 0;
	if (used < TRACE_SAMPLED_MAX)
		return true;
	stat_add(&trace->sampled_lost, 1);
	return false;
}

/* Bytes that the request stored, or its response found. */
static uint64_t value_len(const struct request *request, const struct wire_response *head)
{
	if (request->op == WIRE_PUT)
		return request->value_len;
	return !head->status && (request->op == WIRE_GET ||
				 (request->op == WIRE_TOUCH && request->flags & WIRE_F_VALUE)) ?
		       head->result :
		       0;
}

__attribute__((noinline)) void trace_add(struct trace *trace, const struct client *client,
					 const struct request *request,
					 const struct wire_response *head, uint64_t arrived_ns)
{
	/* Pairs with trace_take(). */
	const uint64_t used = trace->head - __atomic_load_n(&trace->tail, __ATOMIC_ACQUIRE) +
			      trace->pending;
	const bool sampled = is_sampled(trace, used, arrived_ns);
	struct trace_entry *entry;

	if (!sampled && !stat_read(&trace->slow_ns))
		return;
	if (!trace->oldest_ns || arrived_ns < trace->oldest_ns)
		trace->oldest_ns = arrived_ns;
	if (used == TRACE_ENTRIES) {
		trace->skipped++;
		return;
	}
	entry = entry_at(trace, trace->head + trace->pending++);
	entry->arrived_ns = arrived_ns;
	entry->client = client->number;
	entry->value_len = value_len(request, head);
	entry->key_len = (uint16_t)request->key_len;
	entry->op = (uint8_t)request->op;
	entry->status = head->status;
	entry->sampled = sampled;
	trace->sampled |= sampled;
	if (request->key)
		memcpy(entry->key, request->key,
		       request->key_len < TRACE_KEY_BYTES ? request->key_len : TRACE_KEY_BYTES);
}

/* Moves the entries that are kept to the ring's end. Returns how many there are. */
static uint64_t entries_keep(struct trace *trace, uint64_t now_ns)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < trace->pending; i++) {
		struct trace_entry *entry = entry_at(trace, trace->head + i);

		entry->took_ns = now_ns > entry->arrived_ns ? now_ns - entry->arrived_ns : 0;
		entry->slow = trace_is_slow(trace, entry->arrived_ns, now_ns);
		if (!entry->slow && !entry->sampled)
			continue;
		if (kept != i)
			*entry_at(trace, trace->head + kept) = *entry;
		kept++;
	}
	return kept;
}

void trace_keep(struct trace *trace, uint64_t now_ns)
{
	uint64_t kept = entries_keep(trace, now_ns);

	/* Pairs with trace_take(). */
	__atomic_store_n(&trace->head, trace->head + kept, __ATOMIC_RELEASE);
	if (trace_is_slow(trace, trace->oldest_ns, now_ns))
		stat_add(&trace->slow_lost, trace->skipped);
	if (trace->sampled)
		sample_expire(trace, now_ns);
	trace->sampled = false;
}
