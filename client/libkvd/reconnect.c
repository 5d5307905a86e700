/* SPDX-License-Identifier: MIT */
/* The steps to a connection, and what becomes of flights between two connections. */
#include "client/libkvd/reconnect.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/libkvd/changes.h"
#include "client/libkvd/connect.h"
#include "client/libkvd/device.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/rpc.h"
#include "client/libkvd/transfer.h"
#include "common/sum.h"
#include "common/util/clock.h"
#include "common/util/log.h"

/* Tries until the pause is RECONNECT_PAUSE_NS_MAX. */
#define TRIES_MAX 7
static_assert((uint64_t)RECONNECT_PAUSE_NS_MIN << TRIES_MAX >= RECONNECT_PAUSE_NS_MAX,
	      "the longest pause is reached");

/* Uses the high bits of the product: so numbers that differ in low bits alone spread, too. */
uint64_t jitter_ns(uint64_t least_ns, uint64_t most_ns, unsigned int failures, uint64_t random)
{
	uint64_t most = least_ns << (failures < TRIES_MAX ? failures : TRIES_MAX);

	if (most > most_ns)
		most = most_ns;
	return (uint64_t)((unsigned __int128)(random * 0x9e3779b97f4a7c15u) * most >> 64);
}

uint64_t reconnect_pause_ns(unsigned int failures, uint64_t random)
{
	return jitter_ns(RECONNECT_PAUSE_NS_MIN, RECONNECT_PAUSE_NS_MAX, failures, random);
}

/* xorshift64 (Marsaglia, 2003). */
static uint64_t random_next(struct reconnect *reconnect)
{
	reconnect->random ^= reconnect->random << 13;
	reconnect->random ^= reconnect->random >> 7;
	reconnect->random ^= reconnect->random << 17;
	return reconnect->random;
}

static void pause_begin(struct kvd *handle)
{
	struct reconnect *reconnect = &handle->reconnect;

	reconnect->state = RECONNECT_PAUSE;
	reconnect->next_ns = clock_ns() +
			     reconnect_pause_ns(reconnect->failures, random_next(reconnect));
}

static void flight_close(struct kvd *handle, struct flight *f)
{
	flight_cut(handle, f, handle->conn.lost);
}

/* Ends everything: there will be no other connection. */
static void reconnect_close(struct kvd *handle)
{
	handle->closed = true;
	connection_let_go(handle);
	flight_detach(handle, &handle->clock_flight);
	flight_detach(handle, &handle->geometry_flight);
	flight_detach(handle, &handle->extents_flight);
	flight_detach(handle, &handle->word_flight);
	if (handle->member.home)
		handle->member.home->fleet_ops->lost(handle);
	each_flight(handle, flight_close);
	if (handle->submitted)
		handle->submitted->close(handle, handle->conn.lost);
	explicit_bzero(&handle->sum_key, sizeof(handle->sum_key));
}

/* Logs tries 1, 2, 4, ...: a server that stays away fills no log. kvd_open() logs its own. */
static void try_log(const struct kvd *handle)
{
	unsigned int tries = handle->reconnect.tries;

	if (!handle->reconnect.opening && !(tries & (tries - 1)))
		log_warn("try %u to connect to %s again failed: %s", tries, handle->dev->address,
			 handle->reconnect.why);
}

/* What was sent on the lost connection may have been executed. */
static void flight_refused(struct kvd *handle, struct flight *f)
{
	bool acted = flight_may_have_acted(f);

	handle->stats.unknown += acted;
	flight_cut(handle, f,
		   handle_error_set(handle, acted ? KVD_ERR_UNKNOWN : KVD_ERR_AUTH, "%s; %s",
				    handle->reconnect.why,
				    acted ? "a change was sent before, and not answered: it took "
					    "effect, did not, or still will; read the key to learn "
					    "which" :
					    "nothing was done"));
}

/*
 * A client that may not connect now may not a moment later either, so no operation waits for that.
 * The tries go on, so that later calls succeed once it may again. The server is not away.
 */
static void refused(struct kvd *handle)
{
	handle->reconnect.away = false;
	each_flight(handle, flight_refused);
	if (handle->submitted)
		handle->submitted->close(handle, KVD_ERR_AUTH);
}

static void try_failed(struct kvd *handle, enum kvd_status status)
{
	struct reconnect *reconnect = &handle->reconnect;

	handle_why_keep(handle);
	connection_drop(handle);
	/* The clock may be another server's, whose welcome was refused. */
	server_clock_forget(&handle->clock, clock_slept_ns());
	handle->conn.lost = reconnect->status = status;
	reconnect->tries++;
	try_log(handle);
	/* Another version will not change soon. */
	reconnect->failures = status == KVD_ERR_PROTOCOL ? TRIES_MAX : reconnect->failures + 1;
	if (reconnect->opening) {
		handle->closed = true;
		return;
	}
	pause_begin(handle);
	if (status == KVD_ERR_AUTH)
		refused(handle);
}

/* @begin_ns: when connect_timeout_ms starts. */
static void try_begin(struct kvd *handle, uint64_t begin_ns)
{
	struct reconnect *reconnect = &handle->reconnect;
	enum kvd_status status = KVD_OK;

	reconnect->state = RECONNECT_CONNECTING;
	if (reconnect->device_died) {
		status = device_renew(handle);
		begin_ns = clock_ns();
	}
	reconnect->next_ns = begin_ns + handle->options.connect_timeout_ms * 1000000ull;
	reconnect->device_died = status != KVD_OK;
	if (!status) {
		status = connect_start(handle);
		/* Only the device can have failed here. That of kvd_open() is new already. */
		reconnect->device_died = status == KVD_ERR_DEVICE && !reconnect->opening;
	}
	if (status)
		try_failed(handle, status);
}

void reconnect_first(struct kvd *handle)
{
	handle->reconnect.since_ns = clock_ns();
	handle->changes++;
	try_begin(handle, handle->reconnect.since_ns);
}

void reconnect_open(struct kvd *handle, uint64_t begin_ns)
{
	handle->reconnect.opening = true;
	try_begin(handle, begin_ns);
}

/* A lookup has no effect on the server, so it starts over at any point. */
static void lookup_lost(struct kvd *handle, struct flight *f)
{
	flight_detach(handle, f);
	f->phase = PHASE_PLAIN;
	f->place = PLACE_QUEUED;
	list_add(&handle->blocked, &f->link);
}

static void request_repeat(struct kvd *handle, struct flight *f)
{
	flight_detach(handle, f);
	f->phase = PHASE_PLAIN;
	f->sent = false;
	f->place = PLACE_QUEUED;
	list_add_first(&handle->requests, &f->link);
	handle->stats.resent++;
}

static void flight_unknown(struct kvd *handle, struct flight *f)
{
	handle->stats.unknown++;
	flight_cut(handle, f,
		   handle_error_set(handle, KVD_ERR_UNKNOWN,
				    "the connection to %s was lost before the response to a change "
				    "came, and the server %s: it took effect, did not, or still "
				    "will; read the key to learn which",
				    handle->dev->address,
				    handle->up ? "has restarted or forgot the change" :
						 "keeps no record of changes"));
}

/* Keeps the change for the next welcome, which decides whether it is sent again. */
static void change_keep(struct kvd *handle, struct flight *f)
{
	flight_detach(handle, f);
	f->phase = PHASE_PLAIN;
	f->place = PLACE_QUEUED;
	list_add(&handle->resends, &f->link);
	/* Whether the server READs the value depends on the next connection. */
	if (f->rpc.head.op == WIRE_PUT) {
		f->rpc.head.flags &= (uint16_t)~WIRE_F_PULL;
		f->rpc.head.pull_addr = 0;
		f->rpc.head.pull_rkey = 0;
	}
}

/* An operation that ends is unsent, or has no effect on the server. */
static void flight_away(struct kvd *handle, struct flight *f)
{
	if (flight_may_have_acted(f))
		return;
	handle->stats.away++;
	flight_cut(handle, f, KVD_ERR_AWAY);
}

void away_end(struct kvd *handle)
{
	uint64_t ms = (clock_ns() - handle->reconnect.since_ns) / 1000000,
		 before = handle->stats.away;

	each_flight(handle, flight_away);
	if (handle->submitted)
		handle->submitted->close(handle, KVD_ERR_AWAY);
	if (handle->stats.away == before)
		return;
	handle_error_set(
		handle, KVD_ERR_AWAY,
		"%s is away: no connection for %llu.%03llu s, %u tries failed; nothing was "
		"done: %s",
		handle->dev->address, (unsigned long long)ms / 1000, (unsigned long long)ms % 1000,
		handle->reconnect.tries, handle->reconnect.why);
}

static void flight_fails(struct kvd *handle, struct flight *f)
{
	flight_cut(handle, f,
		   handle_error_set(handle, KVD_ERR_DISCONNECTED,
				    "the connection to %s was lost before the response came; the "
				    "handle connects again by itself",
				    handle->dev->address));
}

static void flight_lost(struct kvd *handle, struct flight *f)
{
	/* The flight should end when its READs had completed. */
	if (f->has_transfer && f->transfer->outcome == TRANSFER_ENDED) {
		flight_cut(handle, f, f->transfer->stopped);
		return;
	}
	if (f->kind == FLIGHT_LOOKUP) {
		lookup_lost(handle, f);
		return;
	}
	/* The request keeps its turn, also that of a value's next part or a repeated touch. */
	if ((!f->sent && f->rpc.on_loss != LOSS_FAILS) ||
	    (f->sent && f->place == PLACE_QUEUED && f->phase == PHASE_PLAIN && !f->rpc.change))
		return;
	switch (f->rpc.on_loss) {
	case LOSS_REPEATS:
		request_repeat(handle, f);
		break;
	case LOSS_UNKNOWN:
		if (f->rpc.change) {
			change_keep(handle, f);
			break;
		}
		flight_unknown(handle, f);
		break;
	case LOSS_FAILS:
	case LOSS_SERVER:
		flight_fails(handle, f);
		break;
	}
}

/* In a child that got the handle by fork(2), the connection is the parent's. */
static bool may_reconnect(const struct kvd *handle)
{
	return handle->options.reconnect && handle->process == getpid();
}

void reconnect_lost(struct kvd *handle)
{
	struct reconnect *reconnect = &handle->reconnect;

	handle->up = false;
	/* A silent server was away before, and stays so. */
	reconnect->away = connection_is_silent(&handle->conn);
	handle->attention = reconnect->away;
	if (!may_reconnect(handle)) {
		reconnect_close(handle);
		return;
	}
	reconnect->opening = false;
	reconnect->incarnation = handle->geometry.incarnation;
	reconnect->status = handle->conn.lost;
	reconnect->since_ns = clock_ns();
	reconnect->tries = 0;
	if (connection_worked(&handle->conn))
		reconnect->failures = 0;
	/* Counts as a change of every key, for which lookups wait: see change_blocks(). */
	handle->changes++;
	/* First: before an operation ends, nothing may use its memory any more. */
	connection_let_go(handle);
	flight_detach(handle, &handle->clock_flight);
	flight_detach(handle, &handle->geometry_flight);
	flight_detach(handle, &handle->extents_flight);
	flight_detach(handle, &handle->word_flight);
	if (handle->member.home)
		handle->member.home->fleet_ops->lost(handle);
	each_flight(handle, flight_lost);
	connection_drop(handle);
	handle->served_bytes = 0;
	server_clock_forget(&handle->clock, clock_slept_ns());
	pause_begin(handle);
}

/* Another incarnation has another seed. All members of a fleet have that of its map. */
static void hash_anew(struct kvd *handle, struct lookup *l)
{
	const struct kvd *home = handle_home(handle);

	l->hash = key_hash(l->request->key, l->request->key_len, home->geometry.hash_seed);
}

static void change_count_anew(struct kvd *handle, struct flight *f)
{
	if (!f->counted && !f->touching)
		return;
	hash_anew(handle, &f->lookup);
	if (f->counted)
		handle->change_filter[f->lookup.hash % (1 << CHANGE_FILTER_BITS)]++;
	if (f->touching)
		handle->touch_filter[f->lookup.hash % (1 << TOUCH_FILTER_BITS)]++;
}

/* Lookups that wait for the connection, before they begin. */
static void blocked_hash_anew(struct kvd *handle)
{
	struct list *link;

	for (link = handle->blocked.next; link != &handle->blocked; link = link->next)
		hash_anew(handle, &list_entry(link, struct flight, link)->lookup);
}

static void reconnected_log(const struct kvd *handle)
{
	const struct reconnect *reconnect = &handle->reconnect;
	uint64_t ms = (clock_ns() - reconnect->since_ns) / 1000000;

	log_info("connected again to %s after %llu.%03llu s, %u tries failed%s%s",
		 handle->dev->address, (unsigned long long)ms / 1000, (unsigned long long)ms % 1000,
		 reconnect->tries, reconnect->tries ? ", the last one: " : "",
		 reconnect->tries ? reconnect->why : "");
}

/* What such a request names is another thing on another server. */
static void flight_other_server(struct kvd *handle, struct flight *f)
{
	if (f->kind == FLIGHT_RAW && f->rpc.on_loss == LOSS_SERVER)
		flight_fails(handle, f);
}

static void reconnect_done(struct kvd *handle)
{
	struct reconnect *reconnect = &handle->reconnect;

	if (reconnect->opening)
		return;
	if (reconnect->incarnation != handle->geometry.incarnation)
		each_flight(handle, flight_other_server);
	if (reconnect->incarnation) {
		reconnected_log(handle);
		handle->stats.reconnects++;
	}
	reconnect->away = false;
	handle->attention = true;
	handle->changes--;
	memset(handle->change_filter, 0, sizeof(handle->change_filter));
	memset(handle->touch_filter, 0, sizeof(handle->touch_filter));
	each_flight(handle, change_count_anew);
	blocked_hash_anew(handle);
	blocked_begin(handle);
	/* The server has no record of these. Last: their ends begin lookups, by the new hashes. */
	while (handle->sent.resend == handle->sent.next && !list_empty(&handle->resends))
		flight_unknown(handle, list_entry(handle->resends.next, struct flight, link));
}

static void hello_response(struct kvd *handle, struct flight *f, const struct response *response)
{
	f->status = hello_take(handle, response);
	f->place = PLACE_ENDED;
}

static const struct flight_ops hello_ops = { .response = hello_response };

static void hello_begin(struct kvd *handle)
{
	struct flight *f = &handle->clock_flight;

	handle->reconnect.state = RECONNECT_HELLO;
	f->ops = &hello_ops;
	f->kind = FLIGHT_OWN;
	f->status = KVD_OK;
	hello_post(handle, f);
}

/* *@moved: a step was taken. */
static enum kvd_status connecting(struct kvd *handle, bool *moved)
{
	struct reconnect *reconnect = &handle->reconnect;
	enum kvd_status status = connect_progress(handle, moved);

	/* The device was removed, or the route to the server uses another one. */
	reconnect->device_died = status == KVD_ERR_DEVICE && !reconnect->opening;
	if (!status && *moved)
		hello_begin(handle);
	return status;
}

static enum kvd_status hello_wait(struct kvd *handle, bool *moved)
{
	completions_poll(handle);
	if (!handle->up && !handle->conn.broken)
		events_poll(handle);
	*moved = handle->up;
	return handle->clock_flight.status;
}

static enum kvd_status too_late(struct kvd *handle)
{
	return handle_fail(handle, KVD_ERR_TIMEOUT, "no response from %s within connect_timeout_ms",
			   handle->dev->address);
}

static bool pausing(struct kvd *handle)
{
	if (clock_ns() < handle->reconnect.next_ns)
		return false;
	if (may_reconnect(handle))
		try_begin(handle, clock_ns());
	else
		reconnect_close(handle);
	return true;
}

bool reconnect_progress(struct kvd *handle)
{
	struct reconnect *reconnect = &handle->reconnect;
	enum kvd_status status;
	bool moved = false;

	if (handle->closed)
		return false;
	if (reconnect->state == RECONNECT_PAUSE)
		return pausing(handle);
	status = reconnect->state == RECONNECT_CONNECTING ? connecting(handle, &moved) :
							    hello_wait(handle, &moved);
	if (handle->conn.broken)
		status = handle->conn.lost;
	if (!status && !handle->up && clock_ns() >= reconnect->next_ns)
		status = too_late(handle);
	if (status) {
		handle->up = false;
		try_failed(handle, status);
		return true;
	}
	if (handle->up)
		reconnect_done(handle);
	return moved;
}

uint64_t reconnect_next_ns(const struct kvd *handle)
{
	return handle->closed ? UINT64_MAX : handle->reconnect.next_ns;
}
