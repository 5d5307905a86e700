/* SPDX-License-Identifier: MIT */
/* Opens a fleet, and runs operations at its members. */
#include "client/libkvd/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/libkvd/engine.h"
#include "client/libkvd/fleet_links.h"
#include "client/libkvd/fleet_refresh.h"
#include "client/libkvd/fleet_word.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/get.h"
#include "client/libkvd/message.h"
#include "client/libkvd/op.h"
#include "client/libkvd/word.h"
#include "common/util/clock.h"
#include "common/util/heap.h"

/* Events of the descriptor that are taken at once. */
#define EVENTS_MAX 32
/* URLs of members in a fleet's, at most. */
#define SEEDS_MAX 64u

static const struct {
	const char *scheme;
	enum device_kind kind;
} schemes[] = {
	{ "fleet://", DEVICE_RDMA },
	{ "fleet+tcp://", DEVICE_RDMA_TCP },
	{ "fleet+tls://", DEVICE_RDMA_TLS },
	{ "fleet+softnic://", DEVICE_SOFTNIC },
};
#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

/* What follows the scheme of a fleet's URL, or NULL. */
static const char *url_kind(const char *url, enum device_kind *kind)
{
	size_t i, length;

	for (i = 0; i < SCHEMES; i++) {
		length = strlen(schemes[i].scheme);
		if (!strncmp(url, schemes[i].scheme, length)) {
			*kind = schemes[i].kind;
			return url + length;
		}
	}
	return NULL;
}

bool fleet_is_url(const char *url)
{
	enum device_kind kind;

	return url && url_kind(url, &kind);
}

/* The shard has no owner. */
static void flight_unowned(struct kvd *home, struct flight *f)
{
	home->stats.away++;
	refresh_want(home);
	flight_fail(home, f,
		    handle_error_set(home, KVD_ERR_AWAY,
				     "no member of the fleet %.*s has the key's shard yet; nothing "
				     "was done",
				     (int)FLEET_NAME_MAX, home->fleet->name));
}

/* Begins a flight at the member that owns its key. */
static inline void flight_send(struct kvd *home, struct flight *f, struct fleet_link *link)
{
	struct kvd *member;

	if (!link) {
		flight_unowned(home, f);
		return;
	}
	member = link->handle ? link->handle : link_handle(home, link);
	if (!member) {
		flight_fail(home, f, handle_error_set(home, KVD_ERR_AWAY, "%s", link->why));
		return;
	}
	if (member->closed) {
		flight_fail(home, f, member_failed(member, handle_closed(member)));
		return;
	}
	if (!member->up && link_is_away(link))
		refresh_want(home);
	f->at = member;
	member->member.flights++;
	link_activate(home->fleet, link);
	if (f->op)
		op_begin(member, f);
	else
		lookup_begin(member, f);
}

/* A lookup of a synchronous call need not have an op. */
static bool flight_is_ping(const struct flight *f)
{
	return f->kind == FLIGHT_CHANGE && f->op->op == KVD_OP_PING;
}

static struct fleet_link *flight_link(const struct kvd *home, const struct flight *f)
{
	const struct fleet *fleet = home->fleet;

	/* A PING has no key: any member will do. */
	if (flight_is_ping(f))
		return list_empty(&fleet->active) ?
			       fleet->links[0] :
			       list_entry(fleet->active.next, struct fleet_link, entry);
	return fleet_owner(fleet, f->lookup.hash);
}

/* A PING has no key. */
static bool flight_is_held(const struct kvd *home, const struct flight *f)
{
	return !flight_is_ping(f) && fleet_holds(home->fleet, f->lookup.hash);
}

/* Lets a submitted operation wait for the next map. One that was refused has ended. */
static void flight_wait(struct flight *f, struct list *list)
{
	f->at = NULL;
	f->sent = false;
	f->direct = false;
	f->place = PLACE_QUEUED;
	list_add(list, &f->link);
}

static void fleet_begin(struct kvd *home, struct flight *f)
{
	struct fleet_link *link = flight_link(home, f);

	if (flight_is_held(home, f)) {
		flight_wait(f, &home->fleet->waiting);
		return;
	}
	/* Without memory for batches requests go alone. */
	if (link && link->handle && !link->handle->conn.batches)
		link->handle->conn.batches = heap_calloc(MESSAGES_MAX, sizeof(struct batch));
	flight_send(home, f, link);
}

static bool fleet_ended(struct kvd *member, struct flight *f)
{
	struct kvd *home = member->member.home;
	uint32_t shard = fleet_shard(f->lookup.hash);

	member->member.flights--;
	if (f->op->status != KVD_ERR_MOVED)
		return false;
	refresh_refused(home, f);
	if (member->member.refused_first)
		home->fleet->frozen[shard / 64] |= 1ull << shard % 64;
	flight_wait(f, &home->fleet->refused);
	return true;
}

/* Makes the flight, which was refused, as it was before it began. */
static void flight_again(struct kvd *home, struct flight *f, unsigned int *left)
{
	uint8_t part = f->lookup.part;

	if (f->op) {
		op_flight(f, f->op, left, f->start_ns);
		op_prepare(home, f);
	} else {
		flight_init_lookup(f, left, f->lookup.request);
		f->ops = &get_ops;
		f->lookup.part = part;
		lookup_prepare(home, &f->lookup);
	}
	f->at = NULL;
}

static bool is_frozen(const struct fleet *fleet, const struct flight *f)
{
	uint32_t shard = fleet_shard(f->lookup.hash);

	return fleet->frozen[shard / 64] >> shard % 64 & 1;
}

/* Sends those of the waiters whose shards are frozen, or those whose are not. */
static void waiters_send_some(struct kvd *home, struct list *waiters, bool frozen)
{
	void (*ended)(struct kvd *, struct flight *);
	struct list *at, *next;
	struct flight *f;

	for (at = waiters->next; at != waiters; at = next) {
		next = at->next;
		f = list_entry(at, struct flight, link);
		if (is_frozen(home->fleet, f) != frozen)
			continue;
		list_remove(&f->link);
		ended = f->ended;
		flight_again(home, f, NULL);
		f->ended = ended;
		fleet_begin(home, f);
	}
}

/*
 * Sends what has waited for the map, in the order of submission of each shard. Changes that follow
 * a refused one are refused, too (FLEET-11), so those that may be refused again come last.
 */
static void waiters_send(struct kvd *home)
{
	struct list waiters;

	list_init(&waiters);
	list_move_all(&waiters, &home->fleet->refused);
	list_move_all(&waiters, &home->fleet->waiting);
	waiters_send_some(home, &waiters, false);
	waiters_send_some(home, &waiters, true);
}

static void fleet_post(struct kvd *home)
{
	struct list *at, *next;

	for (at = home->fleet->active.next; at != &home->fleet->active; at = next) {
		next = at->next;
		engine_post(list_entry(at, struct fleet_link, entry)->handle);
	}
}

/* A member whose connection has nothing in flight needs no look until it is used again. */
static bool link_is_idle(const struct fleet *fleet, const struct fleet_link *link)
{
	const struct kvd *handle = link->handle;

	return !handle->member.flights && !handle->attention && !handle->conn.outstanding &&
	       handle->conn.read_tail == handle->conn.read_head &&
	       !(fleet->refresh.state == REFRESH_FETCH && fleet->refresh.asked == handle);
}

static unsigned int fleet_progress(struct kvd *home)
{
	struct fleet *fleet = home->fleet;
	struct fleet_link *link;
	struct list *at, *next;
	unsigned int n = 0;

	for (at = fleet->active.next; at != &fleet->active; at = next) {
		next = at->next;
		link = list_entry(at, struct fleet_link, entry);
		n += engine_progress(link->handle);
		if (link->handle->member.flights && link_is_away(link))
			refresh_want(home);
		if (link_is_idle(fleet, link)) {
			link->active = false;
			list_remove(&link->entry);
		}
	}
	if (fleet->refresh.wanted && fleet->map && refresh_progress(home)) {
		waiters_send(home);
		home->attention = true;
	}
	return n;
}

static uint64_t fleet_next_ns(const struct kvd *home)
{
	const struct fleet *fleet = home->fleet;
	uint64_t next_ns = refresh_next_ns(fleet), other_ns;
	const struct list *at;

	for (at = fleet->active.next; at != &fleet->active; at = at->next) {
		other_ns = engine_next_ns(list_entry(at, struct fleet_link, entry)->handle);
		if (other_ns < next_ns)
			next_ns = other_ns;
	}
	return next_ns;
}

static void fleet_arm(struct kvd *home)
{
	struct list *at;
	struct kvd *handle;

	for (at = home->fleet->active.next; at != &home->fleet->active; at = at->next) {
		handle = list_entry(at, struct fleet_link, entry)->handle;
		if (handle->conn.cq && ibv_req_notify_cq(handle->conn.cq, 0))
			handle_fail(handle, KVD_ERR_DEVICE, "device %s: ibv_req_notify_cq",
				    handle->dev->name);
	}
}

/* The members that have events are looked at, even those where nothing flies: one may be lost. */
static void fleet_disarm(struct kvd *home)
{
	struct epoll_event events[EVENTS_MAX];
	int i, n = epoll_wait(home->epoll_fd, events, EVENTS_MAX, 0);
	struct ibv_cq *cq;
	struct kvd *member;
	uint64_t count;

	for (i = 0; i < n; i++) {
		member = events[i].data.ptr;
		if (!member) {
			(void)!read(home->timer_fd, &count, sizeof(count));
			continue;
		}
		while (member->conn.comp_channel &&
		       !member->dev->ops->get_cq_event(member->conn.comp_channel, &cq))
			;
		member->events_ns = 0;
		if (member->member.link)
			link_activate(home->fleet, member->member.link);
	}
}

static enum kvd_status fleet_welcome(struct kvd *handle, const struct wire_welcome *welcome)
{
	struct member *member = &handle->member;
	struct kvd *home = member->home;

	const struct fleet_word word = {
		.generation = welcome->fleet_generation,
		.epoch = welcome->fleet_epoch,
		.end_ns = welcome->fleet_end_ns,
	};

	member->refused_epoch = 0;
	member->word_clock = false;
	memcpy(member->id, welcome->fleet_member, sizeof(member->id));
	if (member->link && memcmp(member->id, member->link->id, sizeof(member->id)))
		return handle_fail(handle, KVD_ERR_PROTOCOL,
				   "the server at %s is not the member %.*s of the fleet %.*s: "
				   "check the URLs in fleet.file",
				   handle->dev->address, (int)FLEET_NAME_MAX, member->link->id,
				   (int)FLEET_NAME_MAX, home->fleet->name);
	word_take(handle, &word);
	return KVD_OK;
}

static void fleet_judge(struct kvd *member)
{
	struct kvd *home = member->member.home;

	if (!member->member.link)
		return;
	member_judge(home->fleet, member);
	if (!word_fits(home->fleet, &member->member.word))
		refresh_want(home);
}

static enum kvd_status call_status(const struct flight *f)
{
	return f->lookup.request->status;
}

static bool is_released(struct kvd *home, const void *arg)
{
	return !flight_is_held(home, arg);
}

static bool round_over(struct kvd *home, const void *arg)
{
	return home->fleet->refresh.rounds != *(const uint64_t *)arg;
}

/* Begins those flights of the call that have not ended. */
static void call_send(struct kvd *home, struct flight *flights, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (flights[i].at)
			link_activate(home->fleet, flights[i].at->member.link);
		if (flights[i].place == PLACE_ENDED || flights[i].at)
			continue;
		if (flight_is_held(home, &flights[i]) &&
		    !engine_wait(home, is_released, &flights[i], &home->deadline_ns)) {
			flight_fail(home, &flights[i], timeout_fail(home, &flights[i]));
			continue;
		}
		flight_send(home, &flights[i], flight_link(home, &flights[i]));
	}
	home->attention = true;
}

/* A flight of a call has ended at its member. Returns whether that refused it. */
static inline bool flight_arrived(struct kvd *home, struct flight *f)
{
	struct kvd *member = f->at;

	f->at = NULL;
	member->member.flights--;
	handle_bounce_age(member);
	if (member->access.due)
		access_settle(member);
	if (call_status(f) > KVD_NOT_FOUND)
		member_failed(member, call_status(f));
	if (call_status(f) != KVD_ERR_MOVED)
		return false;
	refresh_refused(home, f);
	return true;
}

/* How many flights were refused; they can be sent again. */
static unsigned int call_moved(struct kvd *home, struct flight *flights, unsigned int count,
			       unsigned int *left)
{
	unsigned int i, moved = 0;

	for (i = 0; i < count; i++) {
		if (!flights[i].at || !flight_arrived(home, &flights[i]))
			continue;
		flight_again(home, &flights[i], left);
		moved++;
	}
	return moved;
}

/* Runs the flights, of which those that are at a member have begun. */
static void call_run(struct kvd *home, struct flight *flights, unsigned int count,
		     unsigned int *left)
{
	home->calls = flights;
	home->call_count = count;
	call_send(home, flights, count);
	engine_run(home, flights, count, left);
}

static void fleet_call(struct kvd *home, struct flight *flights, unsigned int count,
		       unsigned int *left)
{
	unsigned int i;

	for (;;) {
		if (*left)
			call_run(home, flights, count, left);
		home->call_count = 0;
		*left = call_moved(home, flights, count, left);
		if (!*left)
			return;
		/* If the answers came at once, no clock was read. */
		if (!home->deadline_ns)
			home->deadline_ns = clock_ns() + home->options.timeout_ms * 1000000ull;
		if (fleet_map_wait(home, home->deadline_ns))
			continue;
		for (i = 0; i < count; i++)
			if (flights[i].place != PLACE_ENDED)
				flight_fail(home, &flights[i], timeout_fail(home, &flights[i]));
		return;
	}
}

static const struct kvd *fleet_any(const struct kvd *home, uint64_t *incarnation)
{
	const struct fleet *fleet = home->fleet;
	const struct kvd *handle, *any = NULL;
	uint32_t i;

	for (i = 0; i < fleet->map->head->members; i++) {
		handle = fleet->links[i]->handle;
		if (!handle)
			continue;
		*incarnation += handle->geometry.incarnation;
		if (!any || (handle->up && !any->up))
			any = handle;
	}
	return any;
}

static void fleet_name(const struct kvd *home, char name[FLEET_NAME_MAX], enum device_kind *kind)
{
	memcpy(name, home->fleet->name, FLEET_NAME_MAX);
	*kind = home->fleet->kind;
}

static struct kvd *fleet_next(struct kvd *home, uint32_t *at)
{
	const struct fleet *fleet = home->fleet;
	struct kvd *handle = NULL;

	while (!handle && *at < fleet->map->head->members)
		handle = fleet->links[(*at)++]->handle;
	return handle;
}

static void fleet_stats_add(const struct kvd *home, struct kvd_stats *stats)
{
	const struct fleet *fleet = home->fleet;
	uint32_t i;

	stats_sum(stats, &fleet->closed);
	for (i = 0; i < fleet->map->head->members; i++)
		if (fleet->links[i]->handle)
			stats_sum(stats, &fleet->links[i]->handle->stats);
}

static const struct fleet_ops fleet_ops = {
	.progress = fleet_progress,
	.post = fleet_post,
	.next_ns = fleet_next_ns,
	.arm = fleet_arm,
	.disarm = fleet_disarm,
	.begin = fleet_begin,
	.holds = flight_is_held,
	.ended = fleet_ended,
	.call = fleet_call,
	.any = fleet_any,
	.name = fleet_name,
	.next = fleet_next,
	.stats_add = fleet_stats_add,
	.lost = fetch_lost,
	.welcome = fleet_welcome,
	.judge = fleet_judge,
	.word_read = fleet_word_read,
	.word_clock = fleet_word_clock,
	.want = refresh_want,
};

static enum kvd_status url_refuse(struct kvd *home, const char *url, const char *why)
{
	return handle_fail(home, KVD_ERR_INVALID,
			   "%.200s: %s; a fleet's URL is like fleet://HOST:PORT,HOST:PORT/NAME",
			   url, why);
}

/* Splits the URL: *@seeds gets a copy of the list of members, the fleet its name. */
static enum kvd_status url_parse(struct kvd *home, const char *url, char **seeds)
{
	struct fleet *fleet = home->fleet;
	const char *list = url_kind(url, &fleet->kind), *slash = strrchr(list, '/');
	size_t length;

	if (!slash || slash == list)
		return url_refuse(home, url, "it has no name of a fleet, or no member");
	length = strlen(slash + 1);
	if (length > sizeof(fleet->name))
		return url_refuse(home, url, "the name of the fleet is too long");
	memcpy(fleet->name, slash + 1, length);
	if (!wire_tenant_length(fleet->name))
		return url_refuse(home, url,
				  "the name of the fleet has letters, digits, '-', '_' and '.'");
	*seeds = heap_alloc((size_t)(slash - list) + 1);
	if (!*seeds)
		return handle_fail(home, KVD_ERR_NO_MEMORY, "out of memory");
	memcpy(*seeds, list, (size_t)(slash - list));
	(*seeds)[slash - list] = '\0';
	return KVD_OK;
}

static bool seed_ended(struct kvd *seed, const void *arg)
{
	(void)arg;
	return seed->up || seed->closed;
}

static bool fetch_ended(struct kvd *seed, const void *arg)
{
	(void)seed;
	return ((const struct refresh *)arg)->state != REFRESH_FETCH;
}

/* Gets the map from the member at @url. */
static enum kvd_status seed_ask(struct kvd *home, const char *url, uint64_t end_ns)
{
	struct refresh *refresh = &home->fleet->refresh;
	struct fleet_map *map;
	enum kvd_status status;
	struct kvd *seed = member_make(home, url, true, &status);

	if (!seed)
		return status;
	if (!seed_ended(seed, NULL))
		engine_wait(seed, seed_ended, NULL, &end_ns);
	status = seed->closed ? seed->conn.lost : KVD_OK;
	if (!status && seed->up) {
		fetch_begin(home, seed);
		engine_wait(seed, fetch_ended, refresh, &end_ns);
		status = refresh->status;
	} else {
		member_failed(seed, status);
	}
	map = refresh->map;
	if (!map && !status)
		status = handle_error_set(home, KVD_ERR_TIMEOUT,
					  "no map from %s within connect_timeout_ms",
					  seed->dev->address);
	refresh->map = NULL;
	if (refresh->state == REFRESH_FETCH)
		fetch_lost(seed);
	refresh->state = REFRESH_IDLE;
	refresh->failures = 0;
	if (!status)
		status = fleet_adopt(home, map, seed);
	if (!seed->member.link)
		kvd_close(seed);
	return status;
}

/* Asks members, beginning with a random one, until one has answered. */
static enum kvd_status seeds_ask(struct kvd *home, char *seeds, uint64_t end_ns)
{
	const char *scheme = device_scheme(home->fleet->kind), *list[SEEDS_MAX];
	enum kvd_status status = KVD_ERR_INVALID;
	char url[FLEET_URLS_MAX + 1], *seed;
	uint64_t now_ns = clock_ns();
	unsigned int i, count = 0, first;

	while ((seed = strsep(&seeds, ","))) {
		if (!*seed)
			continue;
		if (count == SEEDS_MAX || strlen(scheme) + strlen(seed) >= sizeof(url))
			return url_refuse(home, seed, "too many members, or too long a URL");
		list[count++] = seed;
	}
	if (!count)
		return url_refuse(home, scheme, "it names no member");
	first = (unsigned int)(home->reconnect.random % count);
	for (i = 0; i < count; i++, now_ns = clock_ns()) {
		strcpy(url, scheme);
		strcat(url, list[(first + i) % count]);
		status = seed_ask(home, url,
				  now_ns + (end_ns > now_ns ? (end_ns - now_ns) / (count - i) : 0));
		if (!status)
			break;
	}
	return status;
}

enum kvd_status fleet_connect(struct kvd *home, const char *url, uint64_t end_ns)
{
	enum kvd_status status;
	char *seeds = NULL;

	home->fleet = heap_calloc(1, sizeof(*home->fleet));
	if (!home->fleet)
		return handle_fail(home, KVD_ERR_NO_MEMORY, "out of memory");
	home->fleet_ops = &fleet_ops;
	list_init(&home->fleet->active);
	list_init(&home->fleet->refused);
	list_init(&home->fleet->waiting);
	/* Members have limits of their own. */
	home->geometry.value_max = VALUE_MAX;
	status = url_parse(home, url, &seeds);
	if (!status && submitted_fd(home) < 0)
		status = KVD_ERR_NO_MEMORY;
	if (!status)
		status = seeds_ask(home, seeds, end_ns);
	heap_free(seeds);
	return status;
}

void fleet_release(struct kvd *home)
{
	struct fleet *fleet = home->fleet;
	uint32_t i;

	if (!fleet)
		return;
	for (i = 0; fleet->map && i < fleet->map->head->members; i++) {
		if (fleet->links[i]->handle)
			kvd_close(fleet->links[i]->handle);
		heap_free(fleet->links[i]);
	}
	heap_free(fleet->links);
	for (i = 0; i < SCANS_MAX; i++)
		heap_free(fleet->scans[i]);
	heap_free(fleet->refresh.bytes);
	fleet_map_free(fleet->refresh.map);
	fleet_map_free(fleet->map);
	heap_free(fleet);
	home->fleet = NULL;
}

static bool is_settled(struct kvd *home, const void *arg)
{
	(void)arg;
	return list_empty(&home->waiting) && list_empty(&home->fleet->refused) &&
	       list_empty(&home->fleet->waiting);
}

enum kvd_status fleet_settle(struct kvd *home)
{
	if (is_settled(home, NULL) || engine_wait(home, is_settled, NULL, &home->deadline_ns))
		return KVD_OK;
	return timeout_fail(home, NULL);
}

bool fleet_map_wait(struct kvd *home, uint64_t until_ns)
{
	uint64_t round = home->fleet->refresh.rounds;

	refresh_want(home);
	return engine_wait(home, round_over, &round, &until_ns);
}

uint64_t fleet_epoch(const struct kvd *home)
{
	return home->fleet->map->head->epoch;
}

enum kvd_status member_epoch(struct kvd *member, uint64_t *epoch)
{
	struct rpc rpc = {
		.on_loss = LOSS_REPEATS,
		.head = { .op = WIRE_MAP, .offset = EPOCH_ONLY },
	};
	struct response response;
	enum kvd_status status;

	member->deadline_ns = 0;
	status = rpc_call(member, &rpc, &response);
	if (status)
		return member_failed(member, status);
	*epoch = response.epoch;
	/* So it is asked for the map before others. */
	if (*epoch > member->member.refused_epoch)
		member->member.refused_epoch = *epoch;
	return KVD_OK;
}

uint32_t fleet_members(const struct kvd *home)
{
	return home->fleet->map->head->members;
}

struct kvd *fleet_member(struct kvd *home, uint32_t number)
{
	struct fleet_link *link = home->fleet->links[number];
	struct kvd *handle = link_handle(home, link);

	if (!handle)
		handle_error_set(home, link->status, "%s", link->why);
	return handle;
}

enum kvd_status fleet_each(struct kvd *home, enum kvd_status (*call)(struct kvd *member), bool all)
{
	enum kvd_status status = KVD_OK, one;
	struct kvd *member;
	uint32_t i;

	for (i = 0; i < fleet_members(home) && (all || !status); i++) {
		member = fleet_member(home, i);
		one = member ? call(member) : KVD_ERR_DISCONNECTED;
		if (one && !status)
			status = member ? member_failed(member, one) : one;
	}
	return status;
}
