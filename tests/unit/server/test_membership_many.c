/* SPDX-License-Identifier: MIT */
/*
 * A fleet of many members (server/fleet/membership.h), their controller, an etcd that has a cost,
 * and clients that only have a map and the words of the members that they use: in one process, by
 * a queue of events, from a seed. Members die, return, freeze, and are cut from etcd, one by one
 * and as racks; they join, drain and balance; etcd is away for a minute, and all leases end.
 *
 * After each event that could break them the invariants 1, 2, 4 and 8 of common/fleet/DESIGN.md
 * hold; test_membership_random.c has more faults, and more of what a move does, with 5 members.
 * Reads are judged as there: each shard stands for a key, whose states are numbered. At the end,
 * without faults, all shards are served. Then rules are broken: a run has to notice each.
 *
 *	KVD_TEST_SEED=7 [KVD_TEST_BUG=3]	that run, of 100 members, or KVD_TEST_MEMBERS
 *	KVD_TEST_SCALE=1000			prints a column of common/fleet/SCALE.md, for
 *						that many members; KVD_TEST_LEASE_S=10: that lease
 *	KVD_TEST_LONG=1				1,000 members, more seeds
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/heap.h"
#include "common/util/splitmix.h"
#include "server/fleet/map_gzip.h"
#include "server/fleet/membership_state.h"
#include "server/fleet/moves.h"
#include "tests/support/etcd_model.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

/*
 * What etcd costs. CPU as measured with etcd 3.4 and its JSON gateway on one core of an AMD EPYC:
 * 0.41 ms a keepalive, 0.64 a poll, 1.85 one that reads a map of 216 KiB, 11.5 a transaction that
 * puts one, whether its compares are true or not.
 */
#define ETCD_SERVERS 3u
#define ETCD_CORES 8u /* of each */
#define ETCD_KEEPALIVE_NS (410 * US)
#define ETCD_TXN_NS (640 * US)
#define ETCD_READ_PS 5500u /* for each byte of a map, compressed, that is read, */
#define ETCD_PUT_PS 49000u /* and that is put */
#define GZIP_PS 12000u	   /* for each byte of a map that a member compresses, */
#define GUNZIP_PS 3000u	   /* and that it gets */
#define GZIP_LOOKS 64u	   /* changes of the map until its compressed length is looked at again */
#define ETCD_COMMIT_NS (10 * MS) /* of a group of changes */
#define ETCD_COMMITS_MAX 64u	 /* in a group */
#define ETCD_LINK_PS 800u	 /* for each byte: 10 Gbit/s */
#define ETCD_LOG_PS 5000u	 /* for each byte of the log: 200 MB/s */
#define NET_NS (200 * US)	 /* one way, at most */

#define CLIENT_SHARDS 16u /* that a client uses */
#define CLIENTS_MAX 10000u
#define SPARE 32u /* processes beside the members': they join */
#define URLS "rdma://member-000.example:7700"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif
#ifdef SANITIZED
#define MEMBERS 30u
#define PLANTED false
#else
#define MEMBERS 60u
#define PLANTED true
#endif
#define FAULTS 60u
#define FAULTS_LONG 120u
/* Some of these runs notice each bug. */
#define BUG_MEMBERS 40u
#define BUG_SEEDS 20

/* A broken rule. */
enum bug {
	BUG_NONE,
	BUG_NO_WAIT,	     /* MEMBERSHIP-2: a new owner serves at once */
	BUG_EPOCH_IGNORED,   /* FLEET-6: a client's READ counts in any epoch */
	BUG_TWO_CONTROLLERS, /* FLEET-2: what assigns compares nothing, and nobody is deposed */
	BUG_SESSION_IGNORED, /* MEMBERSHIP-1: another process has registered between */
	BUG_L_IGNORED,	     /* MEMBERSHIP-7: frozen while clients may still READ */
	BUGS,
};
static enum bug bug;
/* The status of a process that has noticed one. */
#define FOUND 3

/* The state of a key, with its number above. */
#define ABSENT 1u

struct process {
	struct membership *m; /* NULL: there is none */
	struct membership_options options;
	unsigned int id;
	double rate, offset;	     /* of its clock */
	const struct fleet_map *map; /* the membership's */
	struct shard_set served, frozen, dropping;
	struct fleet_accept accepts[FLEET_ACCEPTS_MAX];
	uint32_t accept_count;
	int64_t own;
	bool takes;
	struct fleet_word word;
	uint64_t frozen_ns, cut_ns; /* until when it makes no step; no call reaches etcd */
	uint64_t wakes;		    /* the number of the wake-up that counts */

	uint64_t call; /* the number of the one under way; 0: none */
	enum call what;
	uint64_t sent_ns; /* by its clock */

	uint64_t move; /* whose mover runs; 0: none */
	struct process *target;
	uint64_t incarnation; /* of the target */
	unsigned int asked;

	/* The memory: for each shard's key. */
	uint32_t state[FLEET_SHARDS], turn[FLEET_SHARDS];
	struct shard_set copy; /* it is another member's, or was given to one */
	uint16_t list[FLEET_SHARDS];
	uint32_t listed; /* those that are served */
};

/* A map that clients have. */
struct snapshot {
	uint64_t generation, epoch;
	unsigned int clients;
	struct snapshot *next; /* an older one */
	uint64_t rows[FLEET_SHARDS];
};

struct client {
	struct snapshot *map;
	uint16_t shards[CLIENT_SHARDS];
	/* The word of the shard's owner, by the client's map. */
	struct fleet_word words[CLIENT_SHARDS];
	uint64_t at[CLIENT_SHARDS]; /* whose it is: the incarnation */
};

/* A call that is under way, or left alone. */
struct visit {
	struct registry_call *call;
	struct process *caller;
	uint64_t number; /* of the caller's call: it waits while it has that */
	bool writes;
	struct registry_result result;
	struct visit *next;
};

enum event_kind {
	WAKE,
	ARRIVE,
	EXECUTE,
	COMMIT,
	ANSWER,
	TIMEOUT,
	LEASE,
	DROPPED,
	MOVER,
	CLIENT,
	FROM_FILE,
	RETURNS
};

struct event {
	uint64_t at_ns, number; /* in the order in which they were made */
	enum event_kind kind;
	uint64_t value;
	void *what;
};

/* What etcd had to do. */
struct load {
	uint64_t keepalives, txns, commits, puts, map_reads,
		lost; /* compares that failed of puts */
	uint64_t in_bytes, out_bytes;
};

static struct world {
	uint64_t now_ns, w_ns;
	uint64_t seed, random;
	struct event *events; /* a heap */
	size_t event_count, events_max;
	uint64_t numbers;

	struct etcd_model etcd;
	uint64_t *lease_end_ns;
	int64_t leases_max;
	uint64_t down_ns; /* until when etcd is not reached */
	uint64_t cores_ns[ETCD_SERVERS][ETCD_CORES], links_ns[ETCD_SERVERS];
	struct visit *commits, **commits_end; /* that wait */
	bool commits_now;
	struct load load;
	size_t gzip_bytes; /* of the map */

	unsigned int members, processes_max, ids;
	struct process *processes;
	uint64_t incarnations;
	struct process file; /* what a stopped process has left; m: NULL: nothing */
	struct client *clients;
	unsigned int client_count;
	struct snapshot *snapshots;
	/* Ghosts. */
	uint32_t newest[FLEET_SHARDS], seen[FLEET_SHARDS], turn[FLEET_SHARDS];
	uint32_t turn_state[FLEET_SHARDS], last[FLEET_SHARDS];
	bool turn_given[FLEET_SHARDS];
	struct process *server[FLEET_SHARDS]; /* who has served it last */
	uint64_t rows[FLEET_SHARDS], epoch;   /* of the map in etcd */
	uint64_t moved_ns; /* when this window of W began, and what moved in it */
	unsigned int moved;
	uint64_t lost_end_ns; /* figures: no restart at random */
	bool calm;
	/* How often what happened. */
	uint64_t puts, reads, refusals, fetches, words, serves, given, extensions;
	uint64_t cpu_ns; /* of memberships */
	unsigned int faults, dead;
} w;

static void violated(const char *what, int line)
{
	if (bug) {
		printf("bug %d: seed %" PRIu64 ", %u members, %" PRIu64 " s, line %d: %s\n", bug,
		       w.seed, w.members, w.now_ns / S, line, what);
		fflush(stdout);
		_exit(FOUND);
	}
	print_error("seed %" PRIu64 ", line %d, at %" PRIu64 " ms: %s\n", w.seed, line,
		    w.now_ns / MS, what);
	fail();
}

#define check(condition) (void)((condition) || (violated(#condition, __LINE__), 0))

static bool is_long(void)
{
	return getenv("KVD_TEST_LONG") != NULL;
}

static uint64_t below(uint64_t limit)
{
	return splitmix_next(&w.random) % limit;
}

static bool one_in(uint64_t n)
{
	return !below(n);
}

/* Events. */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void event_add(uint64_t at_ns, enum event_kind kind, void *what, uint64_t value)
{
	struct event event = { at_ns, ++w.numbers, kind, value, what };
	size_t at = w.event_count++;

	if (at == w.events_max) {
		w.events_max = 2 * at + 1024;
		w.events = realloc(w.events, w.events_max * sizeof(*w.events));
		assert_non_null(w.events);
	}
	for (; at && is_before(&event, &w.events[(at - 1) / 2]); at = (at - 1) / 2)
		w.events[at] = w.events[(at - 1) / 2];
	w.events[at] = event;
}

static struct event event_take(void)
{
	const struct event first = w.events[0], last = w.events[--w.event_count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < w.event_count) {
		if (child + 1 < w.event_count && is_before(&w.events[child + 1], &w.events[child]))
			child++;
		if (!is_before(&w.events[child], &last))
			break;
		w.events[at] = w.events[child];
		at = child;
	}
	w.events[at] = last;
	return first;
}

static uint64_t clock_of(const struct process *p)
{
	return (uint64_t)(p->offset + (double)w.now_ns * p->rate);
}

/* When the clock of @p shows @clock_ns. */
static uint64_t world_ns(const struct process *p, uint64_t clock_ns)
{
	const uint64_t now_ns = clock_of(p);

	if (clock_ns <= now_ns)
		return w.now_ns;
	if (clock_ns - now_ns > 3600 * S)
		return UINT64_MAX;
	return w.now_ns + (uint64_t)((double)(clock_ns - now_ns) / p->rate) + 1;
}

static bool has_word(const struct process *p)
{
	return p->m && clock_of(p) < p->word.end_ns;
}

static bool answers(const struct process *p, uint32_t shard)
{
	return p && has_word(p) && shard_set_has(&p->served, shard);
}

/* What a server has. */

/* Invariant 1, for what @p serves: words only end by themselves. */
static void check_alone(struct process *p)
{
	if (!has_word(p))
		return;
	for (uint32_t i = 0; i < p->listed; i++) {
		const uint16_t shard = p->list[i];

		check(w.server[shard] == p || !answers(w.server[shard], shard));
		w.server[shard] = p;
	}
}

static uint32_t state_new(uint32_t shard, uint32_t absent)
{
	return ++w.newest[shard] << 1 | absent;
}

static bool was_accepted(const struct process *p, uint32_t shard)
{
	for (uint32_t i = 0; i < p->accept_count; i++)
		if (fleet_shards_have(p->accepts[i].shards, shard))
			return true;
	return false;
}

static void serve_empty(struct process *p, uint32_t shard)
{
	check(p->state[shard] & ABSENT);
	/* What had an owner is given with its items, or waited for. */
	check(!(p->map->rows[shard] & FLEET_GIVEN) || !w.turn[shard]);
	p->state[shard] = w.last[shard] = state_new(shard, ABSENT);
	w.turn_state[shard] = w.newest[shard];
	w.turn_given[shard] = false;
	w.serves++;
}

/* Exactly what the owner had before (FLEET-8). */
static void serve_given(struct process *p, uint32_t shard)
{
	check(p->state[shard] == w.last[shard]);
	w.turn_given[shard] = true;
	w.given++;
}

static void serve(struct process *p, uint32_t shard, bool accepted)
{
	if (accepted)
		serve_given(p, shard);
	else
		serve_empty(p, shard);
	shard_set_remove(&p->copy, shard);
	p->turn[shard] = ++w.turn[shard];
}

static void unserve(struct process *p, uint32_t shard)
{
	const uint64_t row = p->map->rows[shard];

	if (row & FLEET_GIVEN && fleet_row_owner(row) != p->m->number)
		shard_set_add(&p->copy, shard);
}

static void view_apply(struct process *p, const struct membership_changes *changes)
{
	const struct shard_set before = p->served, frozen = p->frozen;

	p->map = changes->map;
	p->served = *changes->served;
	p->frozen = changes->frozen ? *changes->frozen : (struct shard_set){ 0 };
	p->listed = 0;
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++) {
		const uint64_t had = before.bits[i] | frozen.bits[i];
		const uint64_t has = p->served.bits[i] | p->frozen.bits[i];

		for (uint64_t left = has & ~had; left; left &= left - 1) {
			const uint32_t shard = 64 * i + (uint32_t)__builtin_ctzll(left);

			serve(p, shard, was_accepted(p, shard));
		}
		for (uint64_t left = had & ~has; left; left &= left - 1)
			unserve(p, 64 * i + (uint32_t)__builtin_ctzll(left));
		for (uint64_t left = p->served.bits[i]; left; left &= left - 1)
			p->list[p->listed++] = (uint16_t)(64 * i + (uint32_t)__builtin_ctzll(left));
	}
	memcpy(p->accepts, changes->accepts, sizeof(p->accepts));
	p->accept_count = changes->accept_count;
	p->own = changes->own;
	p->takes = changes->takes;
}

static void drop(struct process *p, uint32_t shard)
{
	const bool other = w.turn[shard] > p->turn[shard];

	check(!shard_set_has(&p->served, shard));
	/* What was given, and half a copy, are no state of the key. */
	if (shard_set_has(&p->copy, shard) || (other && w.turn_given[shard]))
		p->state[shard] = ABSENT;
	else if (other)
		p->state[shard] = w.turn_state[shard] << 1 | ABSENT;
	else
		p->state[shard] = state_new(shard, ABSENT);
	shard_set_remove(&p->copy, shard);
}

static void drop_end(struct process *p)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(&p->dropping, i))
			drop(p, i);
	membership_dropped(p->m);
}

/* FLEET-5: open rows in the map of the word are served. */
static void word_check(const struct process *p)
{
	check(p->word.epoch == p->map->head->epoch);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (fleet_row_owner(p->map->rows[i]) == p->m->number &&
		    p->map->rows[i] & FLEET_OPEN)
			check(shard_set_has(&p->served, i));
}

static void mover_wake(struct process *p);

static void apply(struct process *p)
{
	struct membership_changes changes;

	membership_changes(p->m, &changes);
	if (changes.map)
		view_apply(p, &changes);
	if (changes.drop) {
		p->dropping = *changes.drop;
		event_add(w.now_ns + 1 + below(50 * MS), DROPPED, p, p->options.incarnation);
	}
	if (changes.has_word) {
		w.extensions += changes.word.end_ns > p->word.end_ns;
		p->word = changes.word;
		/* Dear: some of those that come with a map. */
		if (changes.word.end_ns && changes.map && one_in(4))
			word_check(p);
	}
	if (changes.map || changes.has_word)
		check_alone(p);
	mover_wake(p);
}

/* etcd. */

static void gzip_look(void)
{
	void *all = map_gzip(w.etcd.map, &w.gzip_bytes);

	assert_non_null(all);
	heap_free(all);
}

/* Rule 2, FLEET-1, invariant 8: after a map was put. */
static void map_check(const struct visit *request)
{
	const struct fleet_map *map = w.etcd.map;
	unsigned int changed = 0, away = 0;

	check(map->head->epoch == w.epoch + 1);
	w.epoch = map->head->epoch;
	if (w.epoch % GZIP_LOOKS == 0)
		gzip_look();
	for (uint32_t i = 0; i < FLEET_SHARDS; i++) {
		if (map->rows[i] == w.rows[i])
			continue;
		changed++;
		away += fleet_row_owner(map->rows[i]) != fleet_row_owner(w.rows[i]) &&
			map->rows[i] & FLEET_OPEN;
		check(fleet_row_since(map->rows[i]) == w.epoch);
		w.rows[i] = map->rows[i];
	}
	check(away <= MOVE_SHARDS_MAX);
	check(changed <= FLEET_SHARDS / 2 || request->call->put_member);
	if (w.now_ns - w.moved_ns > w.w_ns) {
		w.moved_ns = w.now_ns;
		w.moved = 0;
	}
	/* Each member gives one move in W, and receives FLEET_ACCEPTS_MAX at a time. */
	w.moved += away;
	check(w.moved <= 2 * w.processes_max * MOVE_SHARDS_MAX);
}

static void lease_keep(int64_t lease)
{
	if (lease >= w.leases_max) {
		w.leases_max = 2 * lease + 64;
		w.lease_end_ns = realloc(w.lease_end_ns, (size_t)w.leases_max * sizeof(uint64_t));
		assert_non_null(w.lease_end_ns);
	}
	w.lease_end_ns[lease] = w.now_ns + w.w_ns;
}

static size_t answer_bytes(const struct registry_result *result)
{
	/* Of JSON: 4 bytes for 3. */
	return 200 + (result->map ? w.gzip_bytes * 4 / 3 : 0) + result->member_count * 150u;
}

static bool waits(const struct visit *request)
{
	return request->caller->m && request->caller->call == request->number;
}

static void request_free(struct visit *request)
{
	registry_result_release(&request->result);
	etcd_model_call_free(request->call);
	heap_free(request);
}

static unsigned int server_of(const struct visit *request)
{
	return (unsigned int)(request->caller - w.processes) % ETCD_SERVERS;
}

/* The core that is free first works for @ns. Returns until when. */
static uint64_t core_work(unsigned int server, uint64_t ns)
{
	uint64_t *core = w.cores_ns[server];

	for (unsigned int i = 1; i < ETCD_CORES; i++)
		if (w.cores_ns[server][i] < *core)
			core = &w.cores_ns[server][i];
	*core = (*core > w.now_ns ? *core : w.now_ns) + ns;
	return *core;
}

static void request_execute(struct visit *request)
{
	const struct registry_call *call = request->call;
	const unsigned int server = server_of(request);
	uint64_t at_ns = w.now_ns;
	size_t bytes;

	if (call->kind == REGISTRY_GRANT || call->kind == REGISTRY_KEEPALIVE)
		etcd_model_execute(&w.etcd, call, &request->result);
	else if (w.now_ns < w.down_ns && !request->writes)
		request->result.outcome = ETCD_UNKNOWN;
	else
		etcd_model_execute(&w.etcd, call, &request->result);
	if (request->result.outcome == ETCD_SUCCEEDED && call->put_map)
		map_check(request);
	if (request->result.outcome == ETCD_COMPARE_FAILED && request->writes)
		w.load.lost++;
	if (request->result.lease) {
		lease_keep(request->result.lease);
		event_add(w.now_ns + w.w_ns, LEASE, NULL, (uint64_t)request->result.lease);
	}
	if (call->kind == REGISTRY_KEEPALIVE && request->result.outcome == ETCD_SUCCEEDED)
		lease_keep(call->lease);
	if (!waits(request)) {
		request_free(request);
		return;
	}
	bytes = answer_bytes(&request->result);
	w.load.out_bytes += bytes;
	if (request->result.map) {
		w.load.map_reads++;
		at_ns = core_work(server, w.gzip_bytes * ETCD_READ_PS / 1000);
	}
	if (w.links_ns[server] < at_ns)
		w.links_ns[server] = at_ns;
	w.links_ns[server] += bytes * ETCD_LINK_PS / 1000;
	at_ns = request->result.map ? request->result.map->bytes * GUNZIP_PS / 1000 : 0;
	/* A late answer, and the lease ends as soon as it was kept. */
	if (!w.calm && one_in(100)) {
		at_ns += below(w.w_ns / 2);
		if (one_in(2) && request->caller->what == CALL_POLL)
			etcd_model_end(&w.etcd, call->lease);
	}
	event_add(w.links_ns[server] + below(NET_NS) + at_ns, ANSWER, request, 0);
}

static void commit_begin(void)
{
	uint64_t ns = ETCD_COMMIT_NS;
	unsigned int count = 0;

	if (w.commits_now || !w.commits)
		return;
	for (struct visit *r = w.commits; r && count < ETCD_COMMITS_MAX; r = r->next, count++)
		ns += r->call->put_map ? w.gzip_bytes * ETCD_LOG_PS / 1000 : 0;
	w.commits_now = true;
	event_add(w.now_ns + ns, COMMIT, NULL, count);
}

static void commit_end(uint64_t count)
{
	w.commits_now = false;
	while (count--) {
		struct visit *request = w.commits;

		w.commits = request->next;
		if (!w.commits)
			w.commits_end = &w.commits;
		w.load.commits++;
		if (request->caller)
			request_execute(request);
		else {
			etcd_model_end(&w.etcd, request->call->lease);
			request_free(request);
		}
	}
	commit_begin();
}

static void commit_add(struct visit *request)
{
	request->next = NULL;
	*w.commits_end = request;
	w.commits_end = &request->next;
	commit_begin();
}

/* A lease ends: etcd commits that, too. */
static void lease_look(int64_t lease)
{
	const struct registry_call revoke = { .kind = REGISTRY_REVOKE, .lease = lease };
	struct visit *request;

	if (!w.etcd.lives[lease])
		return;
	if (w.now_ns < w.lease_end_ns[lease]) {
		event_add(w.lease_end_ns[lease], LEASE, NULL, (uint64_t)lease);
		return;
	}
	request = heap_calloc(1, sizeof(*request));
	request->call = etcd_model_call_copy(&revoke);
	commit_add(request);
}

static void request_arrive(struct visit *request)
{
	const struct registry_call *call = request->call;
	const bool txn = call->kind == REGISTRY_TXN;
	const size_t bytes = call->put_map ? w.gzip_bytes : 0;
	uint64_t ns = txn ? ETCD_TXN_NS : ETCD_KEEPALIVE_NS;

	w.load.keepalives += call->kind == REGISTRY_KEEPALIVE;
	w.load.txns += txn;
	w.load.puts += call->put_map != NULL;
	w.load.in_bytes += 400 + bytes * 4 / 3;
	ns += bytes * ETCD_PUT_PS / 1000;
	event_add(core_work(server_of(request), ns), EXECUTE, request, 0);
}

static void request_worked(struct visit *request)
{
	if (request->writes)
		commit_add(request);
	else if (waits(request))
		request_execute(request);
	else
		request_free(request);
}

static void call_begin(struct process *p, const struct registry_call *call)
{
	struct visit *request = heap_calloc(1, sizeof(*request));
	const bool lost = w.now_ns < p->cut_ns || (!w.calm && one_in(200));
	const uint64_t pack_ns = call->put_map ? call->put_map->bytes * GZIP_PS / 1000 : 0;

	p->call = ++w.numbers;
	p->what = p->m->call;
	p->sent_ns = clock_of(p);
	request->call = etcd_model_call_copy(call);
	request->caller = p;
	request->number = p->call;
	request->writes = call->kind == REGISTRY_GRANT || call->kind == REGISTRY_REVOKE ||
			  call->put_map || call->put_member || call->put_controller;
	if (bug == BUG_TWO_CONTROLLERS && p->what == CALL_ASSIGN)
		request->call->compare_count = 0;
	if (bug == BUG_L_IGNORED)
		p->m->move.last_end_ns = 0;
	event_add(world_ns(p, p->sent_ns + w.w_ns / 2), TIMEOUT, p, p->call);
	if (lost || w.now_ns < w.down_ns)
		request_free(request);
	else if (!w.calm && one_in(100)) /* late, perhaps after its caller has given up */
		event_add(w.now_ns + below(w.w_ns), ARRIVE, request, 0);
	else
		event_add(w.now_ns + below(NET_NS) + pack_ns, ARRIVE, request, 0);
}

/* Members. */

static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static void process_step(struct process *p)
{
	struct registry_call call;
	uint64_t until_ns = 0, cpu_ns;
	enum membership_next next;

	if (p->call || w.now_ns < p->frozen_ns)
		return;
	if (bug == BUG_L_IGNORED)
		p->m->move.last_end_ns = 0;
	membership_alive(p->m);
	cpu_ns = cpu_now();
	next = membership_next(p->m, clock_of(p), S + w.now_ns / (w.lost_end_ns ? S : w.w_ns / 200),
			       &call, &until_ns);
	w.cpu_ns += cpu_now() - cpu_ns;
	if (next == MEMBERSHIP_CALL)
		call_begin(p, &call);
	else if (next == MEMBERSHIP_SLEEP && world_ns(p, until_ns) != UINT64_MAX)
		event_add(world_ns(p, until_ns), WAKE, p, ++p->wakes);
	apply(p);
}

static void call_end(struct process *p, struct registry_result *result)
{
	const bool was_controller = p->m->controller;
	const int64_t controller = p->m->controller;
	uint64_t cpu_ns;

	p->call = 0;
	if (bug == BUG_SESSION_IGNORED && p->m->session && result->map)
		p->m->session = session_in(p->m, result->map);
	cpu_ns = cpu_now();
	membership_done(p->m, result, "model", p->sent_ns, clock_of(p));
	w.cpu_ns += cpu_now() - cpu_ns;
	if (bug == BUG_TWO_CONTROLLERS && was_controller)
		p->m->controller = controller;
	registry_result_release(result);
	apply(p);
	process_step(p);
}

static void answer(struct visit *request)
{
	if (!waits(request)) {
		request_free(request);
	} else if (w.now_ns < request->caller->frozen_ns) {
		event_add(request->caller->frozen_ns, ANSWER, request, 0);
	} else {
		call_end(request->caller, &request->result);
		request_free(request);
	}
}

static void timeout(struct process *p, uint64_t number)
{
	const bool is_txn = p->what != CALL_GRANT && p->what != CALL_KEEPALIVE &&
			    p->what != CALL_REVOKE;
	struct registry_result result = {
		.outcome = is_txn ? ETCD_UNKNOWN : ETCD_NOT_EXECUTED,
		.err = -ETIMEDOUT,
	};

	if (!p->m || p->call != number)
		return;
	if (w.now_ns < p->frozen_ns)
		event_add(p->frozen_ns, TIMEOUT, p, number);
	else
		call_end(p, &result);
}

static void process_end(struct process *p)
{
	membership_destroy(p->m);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (w.server[i] == p)
			w.server[i] = NULL;
	memset(p, 0, offsetof(struct process, state));
	memset(p->turn, 0, sizeof(p->turn));
	p->copy = (struct shard_set){ 0 };
	p->listed = 0;
}

/* A process of member @id. NULL: there is no room, or etcd is not there. */
static struct process *process_start(unsigned int id)
{
	const struct registry_call read = { .kind = REGISTRY_TXN, .reads = { 0, READ_ALL } };
	struct process *p = w.processes;
	struct registry_result first;

	while (p < w.processes + w.processes_max && p->m)
		p++;
	if (p == w.processes + w.processes_max || w.now_ns < w.down_ns)
		return NULL;
	p->id = id;
	p->rate = 0.998 + 0.004 * (double)below(1001) / 1000;
	p->offset = (double)(1 + below(1000)) * 1e9;
	p->options = (struct membership_options){
		.urls = URLS,
		.weight = 1,
		.lease_ns = w.w_ns,
		.incarnation = ++w.incarnations,
	};
	snprintf(p->options.id, sizeof(p->options.id), "member-%u", id);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		p->state[i] = ABSENT;
	etcd_model_execute(&w.etcd, &read, &first);
	w.load.out_bytes += answer_bytes(&first);
	w.load.map_reads++;
	p->m = membership_create(&p->options, &first, NULL, clock_of(p));
	registry_result_release(&first);
	if (bug == BUG_NO_WAIT)
		p->m->shards.wait_ns = 1;
	apply(p);
	event_add(w.now_ns + below(w.w_ns / 4), WAKE, p, ++p->wakes);
	return p;
}

static struct process *process_of(const char id[FLEET_NAME_MAX])
{
	struct process *found = NULL;

	for (struct process *p = w.processes; p < w.processes + w.processes_max; p++)
		if (p->m && !memcmp(p->options.id, id, FLEET_NAME_MAX) && (!found || has_word(p)))
			found = p;
	return found;
}

/* The mover: its copies are made when the shards are frozen. */

static bool target_lives(const struct process *p)
{
	return p->target && p->target->m && p->target->options.incarnation == p->incarnation;
}

static void mover_wake(struct process *p)
{
	const struct move *move = &p->m->move;

	if (move->state == MOVE_NONE || p->move == move->id)
		return;
	p->move = move->id;
	p->target = process_of(move->target);
	p->incarnation = p->target ? p->target->options.incarnation : 0;
	p->asked = 0;
	event_add(w.now_ns + below(5 * MS), MOVER, p, move->id);
}

static bool target_accepts(const struct process *p, uint64_t epoch)
{
	for (uint32_t i = 0; i < p->target->accept_count; i++)
		if (p->target->accepts[i].epoch == epoch)
			return true;
	return false;
}

static void copy_all(struct process *p, const struct membership_move *move)
{
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (shard_set_has(move->shards, i)) {
			p->target->state[i] = p->state[i];
			shard_set_add(&p->target->copy, i);
		}
}

static void mover_asks_again(struct process *p, const struct membership_move *move)
{
	const struct fleet_wants wants = { .accept_generation = move->generation,
					   .accept_epoch = move->epoch };

	membership_want(p->target->m, &wants);
	apply(p->target);
	process_step(p->target);
	if (p->asked++ > 80)
		membership_move_failed(p->m, move->id, "busy");
}

static void mover_works(struct process *p, const struct membership_move *move)
{
	switch (move->state) {
	case MOVE_ASK:
		if (p->target->takes && has_word(p->target))
			membership_asked(p->m, move->id);
		else
			membership_move_failed(p->m, move->id, "takes nothing");
		break;
	case MOVE_COPY:
		if (target_accepts(p, move->epoch))
			membership_copied(p->m, move->id);
		else
			mover_asks_again(p, move);
		break;
	case MOVE_FROZEN:
		if (!target_accepts(p, move->epoch) || !p->target->own) {
			membership_move_failed(p->m, move->id, "not accepted");
			break;
		}
		copy_all(p, move);
		membership_confirmed(p->m, move->id, p->target->own);
		break;
	default:
		break;
	}
}

static void mover_step(struct process *p, uint64_t id)
{
	struct membership_move move;

	if (!p->m)
		return;
	membership_move(p->m, &move);
	if (move.id != id || p->move != id)
		return;
	if (move.state == MOVE_NONE) {
		p->move = 0;
		return;
	}
	event_add(w.now_ns + 10 * MS + below(10 * MS), MOVER, p, id);
	if (w.now_ns < p->frozen_ns || move.state == MOVE_GIVE || move.state == MOVE_CLOSE)
		return;
	if (!target_lives(p))
		membership_move_failed(p->m, id, "the target has died");
	else if (w.now_ns < p->target->frozen_ns)
		return;
	else
		mover_works(p, &move);
	apply(p);
	process_step(p);
}

/* Clients. */

static void snapshot_put(struct snapshot *snapshot)
{
	struct snapshot **at = &w.snapshots;

	if (!snapshot || --snapshot->clients)
		return;
	while (*at != snapshot)
		at = &(*at)->next;
	*at = snapshot->next;
	heap_free(snapshot);
}

/* FLEET-13: the client gets the map of @p. */
static void client_fetch(struct client *client, const struct process *p)
{
	const struct fleet_head *head = p->map->head;
	struct snapshot *map = w.snapshots;

	while (map && map->epoch != head->epoch)
		map = map->next;
	if (!map) {
		map = heap_calloc(1, sizeof(*map));
		map->generation = head->generation;
		map->epoch = head->epoch;
		memcpy(map->rows, p->map->rows, sizeof(map->rows));
		map->next = w.snapshots;
		w.snapshots = map;
	}
	map->clients++;
	snapshot_put(client->map);
	client->map = map;
	w.fetches++;
}

/* Members' numbers are those of the order in which they have registered. */
static struct process *owner_find(uint32_t number)
{
	const struct fleet_map *map = w.etcd.map;
	struct process *p;

	if (number >= map->head->members)
		return NULL;
	/* Where it mostly is. */
	p = &w.processes[(unsigned int)atoi(map->members[number]->id + strlen("member-")) %
			 w.processes_max];
	if (p->m && !memcmp(p->options.id, map->members[number]->id, FLEET_NAME_MAX))
		return p;
	return process_of(map->members[number]->id);
}

/* FLEET-6: the client's row and word, and the clock after the READ. */
static void client_read(const struct client *client, unsigned int i, struct process *p)
{
	const uint32_t shard = client->shards[i];
	const struct fleet_word *word = &client->words[i];
	const uint64_t row = client->map->rows[shard];
	const uint32_t state = p->state[shard] >> 1;

	if (p->options.incarnation != client->at[i] || !(row & FLEET_OPEN) ||
	    word->generation != client->map->generation || clock_of(p) >= word->end_ns)
		return;
	if (bug != BUG_EPOCH_IGNORED &&
	    (fleet_row_since(row) > word->epoch || word->epoch > client->map->epoch))
		return;
	/* Invariant 2. A miss may be what another owner has begun with. */
	check(state >= w.seen[shard] ||
	      (p->state[shard] & ABSENT && w.turn_state[shard] >= w.seen[shard]));
	if (state > w.seen[shard])
		w.seen[shard] = state;
	w.reads++;
}

static void client_request(struct client *client, unsigned int i, struct process *p)
{
	const uint32_t shard = client->shards[i];

	if (!answers(p, shard)) {
		w.refusals++;
		if (p->map->head->epoch > client->map->epoch)
			client_fetch(client, p);
		return;
	}
	check(p->state[shard] >> 1 >= w.seen[shard]); /* invariant 4 */
	if (one_in(2)) {
		p->state[shard] = w.last[shard] = state_new(shard, 0);
		w.puts++;
	}
	w.seen[shard] = p->state[shard] >> 1;
}

static void client_use(struct client *client, unsigned int i)
{
	struct process *p = owner_find(fleet_row_owner(client->map->rows[client->shards[i]]));
	struct fleet_word *word = &client->words[i];

	if (!p) { /* away: another member may know more */
		p = &w.processes[below(w.members)];
		if (p->m && w.now_ns >= p->frozen_ns && p->map->head->epoch > client->map->epoch)
			client_fetch(client, p);
		return;
	}
	client_read(client, i, p);
	/* The memory of a frozen member is readable. */
	if (p->options.incarnation != client->at[i] || clock_of(p) + w.w_ns / 2 >= word->end_ns ||
	    one_in(8)) {
		*word = p->word;
		client->at[i] = p->options.incarnation;
		w.words++;
		if (word->epoch > client->map->epoch && w.now_ns >= p->frozen_ns &&
		    bug != BUG_EPOCH_IGNORED)
			client_fetch(client, p);
	}
	if (w.now_ns >= p->frozen_ns && one_in(4))
		client_request(client, i, p);
}

static void client_step(struct client *client)
{
	event_add(w.now_ns + w.w_ns / 4 + below(w.w_ns / 4), CLIENT, client, 0);
	if (!client->map) {
		struct process *p = &w.processes[below(w.members)];

		if (p->m && p->map->head->members)
			client_fetch(client, p);
		return;
	}
	for (unsigned int i = 0; i < CLIENT_SHARDS; i++)
		client_use(client, i);
}

static void clients_start(unsigned int count)
{
	w.client_count = count;
	w.clients = heap_calloc(count, sizeof(*w.clients));
	for (struct client *client = w.clients; client < w.clients + count; client++) {
		for (unsigned int i = 0; i < CLIENT_SHARDS; i++)
			client->shards[i] = (uint16_t)below(FLEET_SHARDS);
		event_add(w.now_ns + below(w.w_ns), CLIENT, client, 0);
	}
}

/* The world. */

static void file_read(bool last);

static void event_run(const struct event *event)
{
	struct process *p = event->what;

	switch (event->kind) {
	case WAKE:
		if (!p->m || p->wakes != event->value)
			break;
		if (w.now_ns < p->frozen_ns)
			event_add(p->frozen_ns, WAKE, p, event->value);
		else
			process_step(p);
		break;
	case ARRIVE:
		request_arrive(event->what);
		break;
	case EXECUTE:
		request_worked(event->what);
		break;
	case COMMIT:
		commit_end(event->value);
		break;
	case ANSWER:
		answer(event->what);
		break;
	case TIMEOUT:
		timeout(p, event->value);
		break;
	case LEASE:
		lease_look((int64_t)event->value);
		break;
	case DROPPED:
		if (!p->m || p->options.incarnation != event->value)
			break;
		drop_end(p);
		apply(p);
		process_step(p);
		break;
	case MOVER:
		mover_step(p, event->value);
		break;
	case CLIENT:
		client_step(event->what);
		break;
	case FROM_FILE:
		file_read(event->value);
		break;
	case RETURNS:
		if (!process_start((unsigned int)event->value))
			event_add(w.now_ns + w.w_ns, RETURNS, NULL, event->value);
		break;
	}
}

static void world_run(uint64_t until_ns)
{
	while (w.event_count && w.events[0].at_ns <= until_ns) {
		const struct event event = event_take();

		w.now_ns = event.at_ns;
		event_run(&event);
	}
	w.now_ns = until_ns;
}

static void world_begin(uint64_t seed, unsigned int members, uint64_t lease_ns)
{
	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.random = seed * 0x9e3779b97f4a7c15ull;
	w.now_ns = S;
	w.w_ns = lease_ns;
	w.members = w.ids = members;
	w.processes_max = members + SPARE;
	w.commits_end = &w.commits;
	w.processes = calloc(w.processes_max, sizeof(*w.processes));
	assert_non_null(w.processes);
	etcd_model_init(&w.etcd, 1);
	w.epoch = w.etcd.map->head->epoch;
	gzip_look();
	memcpy(w.rows, w.etcd.map->rows, sizeof(w.rows));
}

static void world_end(void)
{
	while (w.event_count) {
		const struct event event = event_take();

		if (event.kind == ARRIVE || event.kind == EXECUTE || event.kind == ANSWER)
			request_free(event.what);
	}
	while (w.commits) {
		struct visit *next = w.commits->next;

		request_free(w.commits);
		w.commits = next;
	}
	for (unsigned int i = 0; i < w.client_count; i++)
		snapshot_put(w.clients[i].map);
	for (unsigned int i = 0; i < w.processes_max; i++)
		membership_destroy(w.processes[i].m);
	membership_destroy(w.file.m);
	etcd_model_release(&w.etcd);
	heap_free(w.clients);
	free(w.processes);
	free(w.lease_end_ns);
	free(w.events);
}

/* How many shards are answered for. */
static uint32_t shards_answered(void)
{
	uint32_t count = 0;

	for (struct process *p = w.processes; p < w.processes + w.processes_max; p++)
		if (has_word(p) && w.now_ns >= p->frozen_ns)
			count += p->listed;
	return count;
}

/* Figures. */

static unsigned int registered(void)
{
	unsigned int count = 0;

	for (struct process *p = w.processes; p < w.processes + w.processes_max; p++)
		count += p->m && p->m->own;
	return count;
}

static bool all_served(void)
{
	return shards_answered() == FLEET_SHARDS;
}

static bool all_registered(void)
{
	return registered() >= w.members;
}

static double seconds_until(bool (*is_reached)(void), unsigned int most_s)
{
	const uint64_t begin_ns = w.now_ns;

	while (!is_reached() && w.now_ns - begin_ns < most_s * S)
		world_run(w.now_ns + 20 * MS);
	return (double)(w.now_ns - begin_ns) / 1e9;
}

static void load_print(const char *when, double s)
{
	const struct load *load = &w.load;

	printf("%-22s %7.2f s: %6.0f requests/s, %6" PRIu64 " maps put, %6" PRIu64
	       " in vain, %7" PRIu64 " read, %7.2f MB/s in, %7.2f out; %8" PRIu64
	       " maps to clients, %" PRIu64 " refusals\n",
	       when, s, (double)(load->keepalives + load->txns) / s, load->puts, load->lost,
	       load->map_reads, (double)load->in_bytes / s / 1e6, (double)load->out_bytes / s / 1e6,
	       w.fetches, w.refusals);
	fflush(stdout);
	w.load = (struct load){ 0 };
	w.fetches = w.refusals = w.words = 0;
}

static void shares_print(void)
{
	uint32_t most = 0, least = FLEET_SHARDS;

	for (struct process *p = w.processes; p < w.processes + w.members; p++) {
		most = p->listed > most ? p->listed : most;
		least = p->listed < least ? p->listed : least;
	}
	printf("shards of a member: %u to %u\n", least, most);
}

static void want(struct process *p, enum wire_fleet what, unsigned int id)
{
	struct fleet_wants wants = { .change = true, .what = what };

	snprintf(wants.id, sizeof(wants.id), "member-%u", id);
	membership_want(p->m, &wants);
	apply(p);
	process_step(p);
}

static void kill_some(unsigned int first, unsigned int count)
{
	for (unsigned int i = first; i < first + count; i++)
		process_end(&w.processes[i]);
}

/* Whether all members have their shares; asks for a balance again until then. */
static bool all_balanced(void)
{
	const struct fleet_map *map = w.etcd.map;
	uint32_t has[FLEET_MEMBERS_MAX] = { 0 }, most = 0, least = FLEET_SHARDS;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		has[fleet_row_owner(map->rows[i])]++;
	for (uint32_t i = 0; i < map->head->members; i++) {
		if (map->members[i]->flags & FLEET_MEMBER_BALANCES)
			return false;
		most = has[i] > most ? has[i] : most;
		least = has[i] < least ? has[i] : least;
	}
	if (most > least + 1)
		want(&w.processes[1], WIRE_FLEET_REBALANCE, 1);
	return most <= least + 1;
}

static void run_scale(unsigned int members, uint64_t lease_ns)
{
	double s;

	world_begin(1, members, lease_ns);
	w.calm = true;
	w.lost_end_ns = 1;
	for (unsigned int i = 0; i < members; i++)
		process_start(i);
	s = seconds_until(all_registered, 900);
	load_print("registered", s);
	s = seconds_until(all_served, 900);
	load_print("served", s);
	shares_print();
	s = seconds_until(all_balanced, 3600);
	load_print("balanced", s);
	shares_print();
	clients_start(CLIENTS_MAX);
	world_run(w.now_ns + 10 * w.w_ns);
	load_print("clients come", 10 * (double)w.w_ns / 1e9);
	w.cpu_ns = w.extensions = 0;
	world_run(w.now_ns + 10 * w.w_ns);
	printf("an extension: %.1f us of CPU of a member\n",
	       (double)w.cpu_ns / (double)w.extensions / 1e3);
	gzip_look();
	printf("the map: %zu bytes, %zu in etcd; a membership: %zu\n", w.etcd.map->bytes,
	       w.gzip_bytes, sizeof(struct membership));
	printf("words READ: %.0f/s\n", (double)w.words / 10 / ((double)w.w_ns / 1e9));
	load_print("rest", 10 * (double)w.w_ns / 1e9);
	process_start(members);
	world_run(w.now_ns + 5 * w.w_ns);
	load_print("one joins", 5 * (double)w.w_ns / 1e9);
	kill_some(members - 1, 1);
	world_run(w.now_ns + 100 * MS);
	s = seconds_until(all_served, 900);
	load_print("loss of 1", s + 0.1);
	world_run(w.now_ns + 5 * w.w_ns);
	load_print("after", 5 * (double)w.w_ns / 1e9);
	if (members >= 100) {
		kill_some(10, 30);
		world_run(w.now_ns + 100 * MS);
		s = seconds_until(all_served, 900);
		load_print("loss of 30", s + 0.1);
		world_run(w.now_ns + 5 * w.w_ns);
		load_print("after", 5 * (double)w.w_ns / 1e9);
	}
	w.down_ns = w.now_ns + 60 * S;
	world_run(w.down_ns);
	load_print("outage", 60);
	s = seconds_until(all_served, 900);
	load_print("after an outage", s);
	world_run(w.now_ns + 5 * w.w_ns);
	load_print("after", 5 * (double)w.w_ns / 1e9);
	world_end();
}

/* Faults. */

static struct process *any_process(void)
{
	return &w.processes[below(w.processes_max)];
}

/* What a clean stop of @p leaves. */
static void file_write(struct process *p)
{
	if (!p->m || p->call || w.file.m)
		return;
	membership_stop(p->m);
	apply(p);
	etcd_model_end(&w.etcd, p->m->lease);
	w.file = *p;
	w.file.m = heap_alloc(sizeof(*w.file.m));
	*w.file.m = *p->m;
	w.file.m->map = etcd_model_map_copy(p->m->map);
	w.file.m->plan.map = w.file.m->draft = NULL;
	process_end(p);
	event_add(w.now_ns + 1, FROM_FILE, NULL, 0);
	/* Later with what the file has still, while the map may have the same rows. */
	event_add(w.now_ns + 2 * w.w_ns, FROM_FILE, NULL, 1);
}

/* A membership as it is in a process that starts with that memory. */
static struct membership *membership_resume(const struct membership *from,
					    const struct membership_options *options)
{
	struct membership *m = heap_calloc(1, sizeof(*m));

	m->options = *options;
	m->period_ns = from->period_ns;
	m->margin_ns = from->margin_ns;
	m->random = options->incarnation;
	m->cluster_id = from->cluster_id;
	m->map = etcd_model_map_copy(from->map);
	m->map_revision = from->map_revision;
	m->number = from->number;
	m->session = from->session;
	m->shards = from->shards;
	m->accepts = from->accepts;
	shards_thaw(&m->shards);
	accepts_end(&m->accepts, &m->shards);
	/* A wait begins again; what it serves it has. */
	memset(m->shards.wait_until_ns, 0, sizeof(m->shards.wait_until_ns));
	m->shards.waiting = 0;
	m->view_is_old = true;
	return m;
}

static void file_read(bool last)
{
	struct process *p = process_of(w.file.options.id);

	if (p) {
		etcd_model_end(&w.etcd, p->m->lease);
		process_end(p);
	}
	p = process_start(w.file.id);
	if (p) {
		membership_destroy(p->m);
		p->m = membership_resume(w.file.m, &p->options);
		p->served = p->m->shards.served;
		p->copy = w.file.copy;
		memcpy(p->state, w.file.state, sizeof(p->state));
		memcpy(p->turn, w.file.turn, sizeof(p->turn));
		apply(p);
	}
	if (!last)
		return;
	membership_destroy(w.file.m);
	w.file.m = NULL;
}

static void fault_of(struct process *p, unsigned int kind)
{
	const unsigned int id = p->id;

	if (!p->m)
		return;
	switch (kind) {
	case 0:
		p->frozen_ns = w.now_ns + below(3 * w.w_ns);
		break;
	case 1:
		p->cut_ns = w.now_ns + below(3 * w.w_ns);
		break;
	case 2:
		etcd_model_end(&w.etcd, p->m->lease);
		break;
	case 3:
		if (one_in(2))
			etcd_model_end(&w.etcd, p->m->lease);
		process_end(p);
		event_add(w.now_ns + below(3 * w.w_ns), RETURNS, NULL, id);
		break;
	}
}

static void flags_want(void)
{
	struct process *p = any_process();

	if (p->m && w.now_ns >= p->frozen_ns)
		want(p, (enum wire_fleet)below(WIRE_FLEET_MAX + 1), (unsigned int)below(w.members));
}

static void fault(void)
{
	const unsigned int kind = (unsigned int)below(4);
	const uint64_t first = below(w.members);
	struct process *p;

	switch (below(16)) {
	case 0: /* a rack */
		for (uint64_t i = 0; i < w.members / 33; i++)
			fault_of(&w.processes[(first + i) % w.members], kind);
		break;
	case 1:
		if (one_in(3))
			w.down_ns = w.now_ns + below(5 * w.w_ns);
		break;
	case 2: /* for good, but for the calm */
		if (w.dead < w.members / 20) {
			p = any_process();
			w.dead += p->m != NULL;
			process_end(p);
		}
		break;
	case 3:
		if (w.ids < w.members + SPARE / 4)
			process_start(w.ids++);
		break;
	case 4:
	case 5:
		file_write(any_process());
		break;
	case 6:
	case 7:
		flags_want();
		break;
	default:
		fault_of(any_process(), kind);
	}
	w.faults++;
}

/* All is well again: all shards are served, and open. */
static void calm_down(void)
{
	const uint64_t most_ns = w.now_ns + 200 * w.w_ns;
	uint32_t open = 0;

	w.calm = true;
	for (struct process *p = w.processes; p < w.processes + w.processes_max; p++)
		p->cut_ns = 0;
	while (open < FLEET_SHARDS && w.now_ns < most_ns) {
		world_run(w.now_ns + w.w_ns);
		open = 0;
		for (uint32_t i = 0; i < FLEET_SHARDS; i++)
			open += (w.rows[i] & FLEET_OPEN) != 0;
	}
	check(open == FLEET_SHARDS);
	while (!all_served() && w.now_ns < most_ns)
		world_run(w.now_ns + w.w_ns / 10);
	check(all_served());
}

static void run(uint64_t seed, unsigned int members)
{
	const unsigned int faults = bug || is_long() ? FAULTS_LONG : FAULTS;
	const uint64_t cpu_ns = cpu_now();

	world_begin(seed, members, 2 * S);
	for (unsigned int i = 0; i < members; i++)
		process_start(i);
	w.calm = true;
	seconds_until(all_served, 300);
	check(all_served());
	w.calm = false;
	clients_start(10 * members);
	for (unsigned int i = 0; i < faults; i++) {
		world_run(w.now_ns + below(w.w_ns / 2));
		fault();
	}
	if (!bug) {
		calm_down();
		printf("seed %" PRIu64 ": %u members, %" PRIu64 " s, epoch %" PRIu64
		       ": %u faults, %" PRIu64 " serves, %" PRIu64 " given, %" PRIu64
		       " puts, %" PRIu64 " reads, %" PRIu64 " refusals; %.0f member-seconds in a "
		       "CPU second\n",
		       seed, members, w.now_ns / S, w.epoch, w.faults, w.serves, w.given, w.puts,
		       w.reads, w.refusals,
		       (double)members * (double)w.now_ns / (double)(cpu_now() - cpu_ns));
		fflush(stdout);
	}
	world_end();
}

static unsigned int number_of(const char *name, unsigned int otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned int)atoi(text) : otherwise;
}

static void test_many(void **state)
{
	const unsigned int members = number_of("KVD_TEST_MEMBERS", is_long() ? 1000 : MEMBERS);
	const unsigned int seed = number_of("KVD_TEST_SEED", 0);

	(void)state;
	if (getenv("KVD_TEST_SCALE")) {
		run_scale(number_of("KVD_TEST_SCALE", 3), number_of("KVD_TEST_LEASE_S", 2) * S);
		return;
	}
	bug = (enum bug)number_of("KVD_TEST_BUG", BUG_NONE);
	for (uint64_t i = 1; !seed && i <= (is_long() ? 10 : 1); i++)
		run(i, members);
	if (seed)
		run(seed, members);
}

/* Whether a run with this seed notices the bug. */
static bool notices(uint64_t seed, unsigned int members)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		run(seed, members);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(!WEXITSTATUS(status) || WEXITSTATUS(status) == FOUND);
	return WEXITSTATUS(status);
}

static void test_bugs(void **state)
{
	const bool planted = PLANTED && !getenv("KVD_TEST_SCALE") && !getenv("KVD_TEST_SEED");
	const unsigned int members = is_long() ? 1000 : BUG_MEMBERS;

	(void)state;
	for (bug = BUG_NONE + 1; planted && bug < BUGS; bug++) {
		uint64_t seed = 1;

		while (seed <= BUG_SEEDS && !notices(seed, members))
			seed++;
		assert_true(seed <= BUG_SEEDS);
	}
	bug = BUG_NONE;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_bugs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
