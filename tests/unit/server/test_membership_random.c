/* SPDX-License-Identifier: MIT */
/*
 * Members of a fleet (server/fleet/membership.h) under random faults: calls are slow, lost,
 * executed late or with an unknown outcome; leases end, clocks drift, processes freeze, die, start
 * twice, and go on with what a dead one has kept; etcd is down, restored and adopted; and
 * members are drained, balanced, and join, while a model of the mover copies items, late, with
 * failures at any point. After each step the invariants 1, 2 and 4 of common/fleet/DESIGN.md
 * hold; an item is lost only by a failover, and one that was removed does not return. At the end,
 * without faults, all shards are served, and where they should be. Then rules are broken, one at
 * a time, by changing the members' state or what they are told: some run has to notice each.
 *
 * Reads are judged as in tests/fleet/words.pml: each state of a key (after a PUT, or emptied by a
 * failover) has a number, in the order in which the states took effect; `seen` is the newest one
 * that an answer has shown, and no later read may show an older one.
 *
 *	KVD_TEST_SEEDS=100	that many runs, and nothing else; KVD_TEST_SEED=7: that one
 *	KVD_TEST_BUG=3		with that rule broken
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
#include <unistd.h>

#include <cmocka.h>

#include "common/util/heap.h"
#include "common/util/splitmix.h"
#include "server/fleet/map_edit.h"
#include "server/fleet/membership_state.h"
#include "server/fleet/moves.h"
#include "tests/support/etcd_model.h"

#define MS 1000000ull
#define W_NS (500 * MS)
#define RUN_NS (60 * W_NS)
#define CALM_NS (12 * W_NS)
/* Until all is where it should be: a third of the shards in moves of 512, each takes W and more. */
#define SETTLE_NS (150 * W_NS)
#define IDS_MAX 5
#define PROCESSES_MAX 8
#define CLIENTS 3
#define PENDING_MAX 64
#define LEASES_MAX 4096
#define COPIES_MAX 256
/* Connections of a move: each has the keys that are its number, modulo this. */
#define TENANTS 2
/* The second of the time of day: losses are forgotten (CONTROLLER-4) after 3 W, not 600 s. */
#define DAY_NS (W_NS / 200)
/* A run takes 0.3 s, and more with a sanitizer. */
#ifdef __has_feature /* clang's; it has none of GCC's macros */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
#define SEEDS 4
#define PLANTED false
#else
#define SEEDS 15
#define PLANTED true
#endif
/* Some of these runs notice each bug. */
#define SEEDS_MAX 200
/* Keys, each in another shard; those of a group mostly move together. */
#define KEYS 32
#define GROUP 2
#define SHARD(key)                                                                                 \
	((uint32_t)(key) / GROUP * (FLEET_SHARDS / KEYS * GROUP) + 5 +                             \
	 3 * ((uint32_t)(key) % GROUP))

/* A broken rule. */
enum bug {
	BUG_NONE,
	BUG_LEASE_FROM_ANSWER, /* MEMBERSHIP-3: a word ends W after the answer */
	BUG_NO_WAIT,	       /* MEMBERSHIP-2: a new owner serves at once */
	BUG_WORD_BEFORE_DROP,  /* MEMBERSHIP-3: what a registration drops is still there */
	BUG_SESSION_IGNORED,   /* MEMBERSHIP-1: another process has registered between */
	BUG_E_NOT_RAISED,      /* MEMBERSHIP-4: a word names the map of an earlier registration */
	BUG_VIEW_AFTER_WORD,   /* MEMBERSHIP-4: workers have an older map than the word */
	BUG_L_IGNORED,	       /* MEMBERSHIP-7: frozen while clients may still READ */
	BUG_REMOVAL_UNMARKED,  /* MOVING-1: a removal marks nothing */
	BUG_TARGET_UNCOMPARED, /* MEMBERSHIP-7: the target has registered again */
	BUG_THAWED,	       /* MEMBERSHIP-8: the map was read unchanged */
	BUG_FROZEN_SERVED,     /* MEMBERSHIP-8 */
	BUG_ACCEPT_SURVIVES,   /* MEMBERSHIP-9: a registration */
	BUG_ACCEPT_AGAIN,      /* MEMBERSHIP-9: of rows that were closed before it */
	BUG_COPY_KEPT,	       /* MEMBERSHIP-9: of a row that was not given */
	BUG_KEPT_LATE,	       /* MEMBERSHIP-10: what is kept is older than the view */
	BUGS,
};
static enum bug bug;
/* The status of a process that has noticed one. */
#define FOUND 3

/* What a server shows of the keys. */
struct memory {
	uint32_t state[KEYS];
	bool absent[KEYS];
	uint32_t turn[KEYS];	   /* when it began to serve the key's shard; 0: never */
	bool copy[KEYS];	   /* it is a copy of another member's, or was given to one */
	uint64_t copy_epoch[KEYS]; /* in which its row was closed; 0: it was given */
};

/* What moves the shards of a process. */
struct mover {
	uint64_t id; /* of its move; 0: it has none */
	struct process *target;
	uint64_t life; /* of the target */
	bool begun[TENANTS];
	bool marked[KEYS];
	bool refused;
	unsigned int asked;    /* how often */
	uint64_t connected_ns; /* when the next connection can begin */
	uint64_t step_ns, arrive_ns;
	unsigned int under_way;
	int64_t confirmed; /* on its way back; 0: not yet */
};

/* An item, or that there is none, on its way to the member that gets it. */
struct copy {
	struct process *from, *to; /* to: NULL: free */
	uint64_t from_life, life, move, epoch, arrive_ns;
	int key;
	uint32_t state;
	bool absent;
};

/* A call on its way. */
struct pending {
	struct registry_call *call; /* NULL: free */
	uint64_t execute_ns;
	struct process *caller; /* NULL: does not wait any more */
	bool is_last;		/* the caller's lease ends as soon as it is executed */
	bool is_give;
};

struct process {
	struct membership *m; /* NULL: there is none */
	struct membership_options options;
	int id;
	uint64_t life;	     /* another for each process */
	double rate, offset; /* of its clock */
	struct membership_kept kept;
	struct fleet_map *kept_map; /* NULL: it keeps nothing */
	struct fleet_map *map;
	struct shard_set served, frozen, dropping;
	struct fleet_accept accepts[FLEET_ACCEPTS_MAX];
	uint32_t accept_count;
	int64_t own;
	bool takes;
	struct fleet_word word;
	struct memory memory;
	struct mover mover;
	uint64_t frozen_ns, cut_ns; /* until when it makes no step; no call reaches etcd */
	uint64_t dropped_ns;	    /* when the drop is done; 0: there is none */
	uint64_t registrations;	    /* when it had the last word */

	bool calls, has_result;
	uint64_t sent_ns, answer_ns; /* by its clock; by the world's */
	bool answer_lost;
	struct registry_result result;
};

/* What a process that has ended leaves. */
struct file {
	struct membership_kept kept;
	struct fleet_map *map; /* NULL: there is none, or another process goes on with it */
	struct memory memory;
	double rate, offset;
};

struct client {
	struct fleet_map *map;
	struct fleet_word words[PROCESSES_MAX];
};

static struct world {
	uint64_t now_ns;
	uint64_t seed, random;
	int ids;
	struct etcd_model etcd, backup;
	uint64_t lease_end_ns[LEASES_MAX];
	uint64_t down_ns; /* until when etcd is down */
	bool restored;
	uint64_t generation;
	struct pending pending[PENDING_MAX];
	struct copy copies[COPIES_MAX]; /* in the order in which they were sent */
	struct process processes[PROCESSES_MAX];
	uint64_t incarnations, lives;
	struct client clients[CLIENTS];
	struct file files[IDS_MAX];

	/* Ghosts, for each key. */
	uint32_t newest[KEYS], seen[KEYS], turn[KEYS], turn_state[KEYS];
	bool turn_given[KEYS];
	uint32_t last[KEYS]; /* what its owner has */
	bool last_absent[KEYS];
	/* How often what happened. */
	unsigned int puts, removals, gets, reads, hits, serves, restores, returns, kept_keys;
	unsigned int closes, give_calls, gives, gives_late, keys_given;
	/* In some runs little fails but moves, of which there are many. */
	bool moves;
	/* The key that was copied or given last, and its owner: what clients ask for most. */
	int hot;
	struct process *hot_at;
	unsigned int fault_rate, move_fault_rate;
} w;

static void violated(const char *what, int line)
{
	if (bug) {
		printf("bug %d: seed %" PRIu64 ", line %d: %s\n", bug, w.seed, line, what);
		fflush(stdout);
		_exit(FOUND);
	}
	print_error("line %d: %s\n", line, what);
	fail();
}

#define check(condition) (void)((condition) || (violated(#condition, __LINE__), 0))

static uint64_t below(uint64_t limit)
{
	return splitmix_next(&w.random) % limit;
}

static bool one_in(uint64_t n)
{
	return !below(n);
}

static uint64_t clock_of(const struct process *p)
{
	return (uint64_t)(p->offset + (double)w.now_ns * p->rate);
}

static bool has_word(const struct process *p)
{
	return p->m && clock_of(p) < p->word.end_ns;
}

static void new_state(int key, uint32_t *state)
{
	*state = ++w.newest[key];
}

/* Invariant 1. */
static void check_alone(void)
{
	struct shard_set served = { 0 };

	for (struct process *p = w.processes; p < w.processes + PROCESSES_MAX; p++)
		for (uint32_t i = 0; i < FLEET_SHARDS / 64 && has_word(p); i++) {
			check(!(served.bits[i] & p->served.bits[i]));
			served.bits[i] |= p->served.bits[i];
		}
}

static void begin_to_serve(struct process *p, int key)
{
	check(p->memory.absent[key]);
	/* What had an owner is given with its items, or waited for. */
	check(!(p->map->rows[SHARD(key)] & FLEET_GIVEN) || !w.turn[key]);
	p->memory.turn[key] = ++w.turn[key];
	p->memory.copy[key] = false;
	new_state(key, &p->memory.state[key]);
	w.turn_state[key] = w.last[key] = w.newest[key];
	w.last_absent[key] = true;
	w.turn_given[key] = false;
	w.serves++;
}

/* The member serves what it has copied: exactly what the owner had before (FLEET-8). */
static void serve_copy(struct process *p, int key)
{
	struct memory *memory = &p->memory;

	check(memory->absent[key] == w.last_absent[key]);
	check(memory->absent[key] || memory->state[key] == w.last[key]);
	memory->state[key] = w.last[key];
	memory->copy[key] = false;
	memory->turn[key] = ++w.turn[key];
	w.turn_given[key] = true;
	w.hot = key;
	w.hot_at = p;
	w.keys_given++;
}

/* The epoch of the closing by which copies of @shard are accepted; 0: none are. */
static uint64_t accepted_epoch(const struct process *p, uint32_t shard)
{
	for (uint32_t i = 0; i < p->accept_count; i++)
		if (fleet_shards_have(p->accepts[i].shards, shard))
			return p->accepts[i].epoch;
	return 0;
}

/* What becomes of a key as the view changes. */
static void key_apply(struct process *p, int key, bool served, bool accepted)
{
	uint64_t row = p->map->rows[SHARD(key)];
	bool serves = shard_set_has(&p->served, SHARD(key)) ||
		      shard_set_has(&p->frozen, SHARD(key));

	if (serves && !served && accepted)
		serve_copy(p, key);
	else if (serves && !served)
		begin_to_serve(p, key);
	else if (served && !serves && row & FLEET_GIVEN &&
		 fleet_row_owner(row) != fleet_map_find(p->map, p->options.id)) {
		p->memory.copy[key] = true;
		p->memory.copy_epoch[key] = 0;
	}
}

static void view_apply(struct process *p, const struct membership_changes *changes)
{
	const struct process before = *p;

	fleet_map_free(p->map);
	p->map = etcd_model_map_copy(changes->map);
	p->served = *changes->served;
	p->frozen = changes->frozen ? *changes->frozen : (struct shard_set){ 0 };
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++) {
		check(!(p->served.bits[i] & p->frozen.bits[i]));
		if (bug == BUG_FROZEN_SERVED)
			p->served.bits[i] |= p->frozen.bits[i];
	}
	memcpy(p->accepts, changes->accepts, sizeof(p->accepts));
	p->accept_count = changes->accept_count;
	p->own = changes->own;
	p->takes = changes->takes;
	for (int key = 0; key < KEYS; key++)
		key_apply(p, key,
			  shard_set_has(&before.served, SHARD(key)) ||
				  shard_set_has(&before.frozen, SHARD(key)),
			  accepted_epoch(&before, SHARD(key)));
}

static void drop_end(struct process *p)
{
	for (int key = 0; key < KEYS; key++) {
		if (!shard_set_has(&p->dropping, SHARD(key)))
			continue;
		check(!shard_set_has(&p->served, SHARD(key)));
		check(!accepted_epoch(p, SHARD(key)));
		if (bug == BUG_COPY_KEPT && p->memory.copy[key])
			continue;
		/* What was given, and half a copy, are no state of the key. */
		if (p->memory.copy[key] || (w.turn[key] > p->memory.turn[key] && w.turn_given[key]))
			p->memory.state[key] = 0;
		else if (w.turn[key] > p->memory.turn[key])
			p->memory.state[key] = w.turn_state[key];
		else
			new_state(key, &p->memory.state[key]);
		p->memory.absent[key] = true;
		p->memory.copy[key] = false;
	}
	p->dropped_ns = 0;
	membership_dropped(p->m);
}

/* FLEET-3, FLEET-5 */
static void word_check(struct process *p, const struct fleet_word *word)
{
	uint32_t number = fleet_map_find(p->map, p->options.id);

	check(word->generation == p->map->head->generation);
	check(word->epoch == p->map->head->epoch);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		if (fleet_row_owner(p->map->rows[i]) == number && p->map->rows[i] & FLEET_OPEN)
			check(shard_set_has(&p->served, i));
	if (p->m->registrations == p->registrations)
		return;
	p->registrations = p->m->registrations;
	for (int key = 0; key < KEYS; key++)
		check(p->memory.absent[key] || shard_set_has(&p->served, SHARD(key)) ||
		      shard_set_has(&p->frozen, SHARD(key)) ||
		      /* Copies that were accepted since do no harm until they are dropped. */
		      (p->memory.copy[key] && p->memory.copy_epoch[key] > p->m->registered_epoch));
}

static void keep(struct process *p)
{
	if (!p->options.keeps)
		return;
	fleet_map_free(p->kept_map);
	p->kept_map = etcd_model_map_copy(membership_keep(p->m, &p->kept));
}

static void apply(struct process *p)
{
	struct membership_changes changes;

	membership_changes(p->m, &changes);
	if (bug != BUG_KEPT_LATE || !p->kept_map || one_in(100))
		keep(p);
	if (changes.map && bug != BUG_VIEW_AFTER_WORD)
		view_apply(p, &changes);
	if (changes.drop) {
		check(!p->dropped_ns);
		p->dropping = *changes.drop;
		p->dropped_ns = w.now_ns + 1 + below(one_in(4) ? 2 * W_NS : 50 * MS);
	}
	if (changes.has_word) {
		if (bug == BUG_E_NOT_RAISED && p->m->registrations > 1 && p->word.epoch)
			changes.word.epoch = p->word.epoch;
		if (changes.word.end_ns)
			word_check(p, &changes.word);
		p->word = changes.word;
	}
	if (changes.map && bug == BUG_VIEW_AFTER_WORD)
		view_apply(p, &changes);
	/* As time passes words only end. */
	if (changes.map || changes.has_word)
		check_alone();
}

static void process_end(struct process *p)
{
	struct client *client;

	for (client = w.clients; client < w.clients + CLIENTS; client++)
		client->words[p - w.processes].end_ns = 0;
	for (int i = 0; i < PENDING_MAX; i++)
		if (w.pending[i].caller == p)
			w.pending[i].caller = NULL;
	registry_result_release(&p->result);
	if (p->kept_map) {
		fleet_map_free(w.files[p->id].map);
		w.files[p->id] = (struct file){
			.kept = p->kept,
			.map = p->kept_map,
			.memory = p->memory,
			.rate = p->rate,
			.offset = p->offset,
		};
	}
	membership_destroy(p->m);
	fleet_map_free(p->map);
	*p = (struct process){ 0 };
}

static void process_stop(struct process *p)
{
	membership_stop(p->m);
	apply(p);
	if (p->dropped_ns && one_in(2)) {
		drop_end(p);
		apply(p);
	}
	process_end(p);
}

/* Goes on with what another process has kept. */
static void process_return(struct process *p, struct registry_result *first)
{
	struct file *file = &w.files[p->id];
	struct membership_past past = { .kept = &file->kept, .map = file->map };

	const uint32_t number = fleet_map_find(first->map, p->options.id);

	if (bug == BUG_SESSION_IGNORED && number < first->map->head->members)
		file->kept.session = first->map->members[number]->session;
	p->rate = file->rate;
	p->offset = file->offset;
	p->memory = file->memory;
	file->map = NULL;
	p->m = membership_create(&p->options, first, &past, clock_of(p));
	p->options.incarnation = p->m->options.incarnation;
	/* What it had served or accepted it has. */
	for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
		p->served.bits[i] = file->kept.served.bits[i] & ~file->kept.frozen.bits[i];
	p->frozen = file->kept.frozen;
	p->accept_count = file->kept.accepts.count;
	memcpy(p->accepts, file->kept.accepts.all, sizeof(p->accepts));
	for (int key = 0; key < KEYS; key++)
		w.kept_keys += shard_set_has(&p->m->shards.served, SHARD(key)) &&
			       !p->memory.absent[key];
	w.returns++;
}

static void process_start(int id, bool from_file)
{
	const struct registry_call read = { .kind = REGISTRY_TXN, .reads = { 0, READ_ALL } };
	struct registry_result first;
	struct process *p = w.processes;

	while (p < w.processes + PROCESSES_MAX && p->m)
		p++;
	/* One that starts between restoring and adopting can't know that. */
	if (p == w.processes + PROCESSES_MAX || w.now_ns < w.down_ns || w.restored)
		return;
	*p = (struct process){
		.id = id,
		.rate = 0.998 + 0.004 * (double)below(1001) / 1000,
		.offset = (double)(1 + below(1000)) * 1e9,
		.options = { .urls = "softnic:///m", .weight = 1, .lease_ns = W_NS },
	};
	p->options.keeps = one_in(2);
	p->options.incarnation = ++w.incarnations;
	p->life = ++w.lives;
	snprintf(p->options.id, sizeof(p->options.id), "m%d", id);
	for (int key = 0; key < KEYS; key++)
		p->memory.absent[key] = true;
	etcd_model_execute(&w.etcd, &read, &first);
	if (from_file && w.files[id].map) {
		p->options.keeps = true;
		process_return(p, &first);
	} else {
		p->m = membership_create(&p->options, &first, NULL, clock_of(p));
	}
	registry_result_release(&first);
	if (bug == BUG_NO_WAIT)
		p->m->shards.wait_ns = 1;
	apply(p);
}

/* Calls. */

static void execute(struct pending *pending)
{
	struct registry_call *call = pending->call;
	struct process *p = pending->caller;
	struct registry_result result;

	etcd_model_execute(&w.etcd, call, &result);
	check(result.lease < LEASES_MAX);
	if (result.outcome == ETCD_SUCCEEDED && call->kind == REGISTRY_GRANT)
		w.lease_end_ns[result.lease] = w.now_ns + W_NS;
	if (result.outcome == ETCD_SUCCEEDED && call->kind == REGISTRY_KEEPALIVE)
		w.lease_end_ns[call->lease] = w.now_ns + W_NS;
	if (result.outcome == ETCD_SUCCEEDED && pending->is_give) {
		w.gives++;
		w.gives_late += !p;
	}
	if (pending->is_last)
		etcd_model_end(&w.etcd, call->lease);
	if (p && !p->answer_lost) {
		p->result = result;
		p->has_result = true;
	} else {
		registry_result_release(&result);
	}
	etcd_model_call_free(call);
	*pending = (struct pending){ 0 };
}

static bool target_lives(const struct mover *mover)
{
	return mover->target && mover->target->m && mover->target->life == mover->life;
}

/* Often late, and the target's lease ends before it, which changes nothing in the map. */
static void give_begin(struct process *p, uint64_t *there_ns)
{
	if (one_in(2))
		*there_ns = one_in(2) ? W_NS / 2 + below(W_NS / 4) : below(W_NS / 4);
	if (one_in(6) && target_lives(&p->mover))
		etcd_model_end(&w.etcd, p->mover.target->m->lease);
}

static void call_begin(struct process *p, const struct registry_call *call, bool calm)
{
	const bool is_give = p->m->call == CALL_GIVE;
	uint64_t there_ns = below(4 * MS), back_ns = below(4 * MS);
	bool lost = !calm && (w.now_ns < p->cut_ns || one_in(40));
	struct pending *pending = w.pending;

	p->calls = true;
	p->sent_ns = clock_of(p);
	p->answer_lost = !calm && one_in(40);
	if (!calm && one_in(20))
		there_ns = below(3 * W_NS / 2);
	if (!calm && one_in(20))
		back_ns = below(W_NS / 2);
	if (!calm && is_give)
		give_begin(p, &there_ns);
	/* Then what gives the shards up may be late, too. */
	if (!calm && p->m->call == CALL_OPEN && w.moves && one_in(2))
		there_ns = below(W_NS / 2);
	if (w.now_ns + there_ns < w.down_ns)
		there_ns = one_in(8) ? w.down_ns - w.now_ns + below(W_NS) : UINT64_MAX / 2;
	p->answer_ns = w.now_ns + there_ns + back_ns;
	if (p->answer_lost || lost || there_ns + back_ns > W_NS / 2)
		p->answer_ns = w.now_ns + W_NS / 2;
	if (lost || there_ns == UINT64_MAX / 2)
		return;
	while (pending < w.pending + PENDING_MAX && pending->call)
		pending++;
	check(pending < w.pending + PENDING_MAX);
	w.closes += p->m->call == CALL_CLOSE;
	w.give_calls += is_give;
	*pending = (struct pending){
		.call = etcd_model_call_copy(call),
		.execute_ns = w.now_ns + there_ns,
		.caller = p,
		.is_last = !calm && p->m->call == CALL_POLL && back_ns > W_NS / 8 && one_in(4),
		.is_give = is_give,
	};
	/* The target is compared last. */
	if (bug == BUG_TARGET_UNCOMPARED && is_give)
		pending->call->compare_count--;
}

static void call_end(struct process *p)
{
	bool is_txn = p->m->call != CALL_GRANT && p->m->call != CALL_KEEPALIVE &&
		      p->m->call != CALL_REVOKE;
	bool is_poll = p->m->call == CALL_POLL, is_give = p->m->call == CALL_GIVE;
	const struct shard_set accepted = p->m->shards.accepted;
	const struct accepts accepts = p->m->accepts;
	uint64_t registrations = p->m->registrations;

	if (!p->has_result)
		p->result = (struct registry_result){
			.outcome = is_txn ? ETCD_UNKNOWN : ETCD_NOT_EXECUTED,
			.err = -ETIMEDOUT,
		};
	for (int i = 0; i < PENDING_MAX; i++)
		if (w.pending[i].caller == p)
			w.pending[i].caller = NULL;
	p->calls = p->has_result = false;
	if (bug == BUG_LEASE_FROM_ANSWER && p->m->kept_ns)
		p->m->kept_ns = clock_of(p);
	if (bug == BUG_SESSION_IGNORED && p->m->session && p->result.map)
		p->m->session = session_in(p->m, p->result.map);
	membership_done(p->m, &p->result, "model", p->sent_ns, clock_of(p));
	if (bug == BUG_WORD_BEFORE_DROP)
		p->m->holds_word = false;
	if (bug == BUG_THAWED && is_give)
		p->m->retry_ns = clock_of(p) + W_NS / 2;
	if (bug == BUG_THAWED && is_poll && p->result.outcome == ETCD_SUCCEEDED &&
	    p->m->move.state < MOVE_FROZEN)
		shards_thaw(&p->m->shards);
	if (bug == BUG_ACCEPT_SURVIVES && p->m->registrations > registrations && accepts.count) {
		p->m->accepts = accepts;
		p->m->shards.accepted = accepted;
		for (uint32_t i = 0; i < FLEET_SHARDS / 64; i++)
			p->m->shards.to_drop.bits[i] &= ~accepted.bits[i];
		p->m->holds_word = shards_drops(&p->m->shards);
	}
	if (bug == BUG_ACCEPT_AGAIN)
		p->m->registered_epoch = 0;
	registry_result_release(&p->result);
	apply(p);
}

/* The mover. */

/* The process that a move goes to, by its URL: one that is well, if there are two. */
static struct process *target_find(const char id[FLEET_NAME_MAX])
{
	struct process *found = NULL;

	for (struct process *p = w.processes; p < w.processes + PROCESSES_MAX; p++)
		if (p->m && !memcmp(p->options.id, id, FLEET_NAME_MAX) &&
		    (!found || has_word(p) || one_in(2)))
			found = p;
	return found;
}

static void copy_send(struct process *p, const struct membership_move *move, int key)
{
	struct mover *mover = &p->mover;
	struct copy *copy = w.copies;

	while (copy < w.copies + COPIES_MAX && copy->to)
		copy++;
	if (copy == w.copies + COPIES_MAX)
		return;
	if (mover->arrive_ns < w.now_ns)
		mover->arrive_ns = w.now_ns;
	mover->arrive_ns += below(one_in(30) ? W_NS / 2 : 10 * MS);
	*copy = (struct copy){
		.from = p,
		.to = mover->target,
		.from_life = p->life,
		.life = mover->life,
		.move = mover->id,
		.epoch = move->epoch,
		.arrive_ns = mover->arrive_ns,
		.key = key,
		.state = p->memory.state[key],
		.absent = p->memory.absent[key],
	};
	mover->marked[key] = false;
	mover->under_way++;
	w.hot = key;
	w.hot_at = p;
}

/* OWNER-7 */
static void copy_store(const struct copy *copy)
{
	struct memory *memory = &copy->to->memory;
	struct mover *mover = &copy->from->mover;
	bool is_there = copy->to->m && copy->to->life == copy->life;
	bool accepted = is_there && accepted_epoch(copy->to, SHARD(copy->key)) == copy->epoch;

	if (copy->from->m && copy->from->life == copy->from_life && mover->id == copy->move) {
		mover->under_way--;
		mover->refused |= !accepted;
	}
	if (!accepted)
		return;
	memory->copy[copy->key] = true;
	memory->copy_epoch[copy->key] = copy->epoch;
	memory->absent[copy->key] = copy->absent;
	memory->state[copy->key] = copy->absent ? 0 : copy->state;
}

/* Copies of one connection arrive in their order; those that a member has sent who died, too. */
static void copies_arrive(void)
{
	int left = 0;

	for (int i = 0; i < COPIES_MAX && w.copies[i].to; i++)
		if (w.now_ns >= w.copies[i].arrive_ns && w.now_ns >= w.copies[i].to->frozen_ns)
			copy_store(&w.copies[i]);
		else
			w.copies[left++] = w.copies[i];
	while (left < COPIES_MAX && w.copies[left].to)
		w.copies[left++] = (struct copy){ 0 };
}

static void mover_fail(struct process *p, const char *why)
{
	membership_move_failed(p->m, p->mover.id, why);
	apply(p);
}

/* True: both connections have begun. */
static bool mover_begins(struct process *p, const struct membership_move *move)
{
	const struct fleet_wants wants = { .accept_generation = move->generation,
					   .accept_epoch = move->epoch };
	struct mover *mover = &p->mover;
	struct process *target = mover->target;
	int tenant = 0;
	bool accepted = false;

	while (tenant < TENANTS && mover->begun[tenant])
		tenant++;
	if (tenant == TENANTS)
		return true;
	if (w.now_ns < mover->connected_ns)
		return false;
	for (uint32_t i = 0; i < target->accept_count; i++)
		accepted |= target->accepts[i].epoch == move->epoch;
	if (!accepted) {
		membership_want(target->m, &wants);
		apply(target);
		if (mover->asked++ > 80)
			mover_fail(p, "busy");
		return false;
	}
	mover->begun[tenant] = true;
	mover->connected_ns = w.now_ns + below(20 * MS);
	/* Between its connections it registers again. */
	if (w.moves && !tenant && one_in(6)) {
		etcd_model_end(&w.etcd, target->m->lease);
		mover->connected_ns = w.now_ns + W_NS / 2;
	}
	for (int key = tenant; key < KEYS; key += TENANTS)
		mover->marked[key] = shard_set_has(move->shards, SHARD(key));
	return tenant == TENANTS - 1;
}

/* Sends what is marked. Returns how much is left. */
static unsigned int mover_copies(struct process *p, const struct membership_move *move)
{
	unsigned int left = 0, sent = 0;

	for (int key = 0; key < KEYS; key++) {
		if (!p->mover.marked[key] || !shard_set_has(move->shards, SHARD(key)))
			continue;
		if (sent < 2 && one_in(2)) {
			copy_send(p, move, key);
			sent++;
		}
		left += p->mover.marked[key];
	}
	return left;
}

static void mover_ends(struct process *p, const struct membership_move *move)
{
	struct mover *mover = &p->mover;
	bool accepted = false;

	if (mover->confirmed) {
		membership_confirmed(p->m, mover->id, mover->confirmed);
		apply(p);
		return;
	}
	for (uint32_t i = 0; i < mover->target->accept_count; i++)
		accepted |= mover->target->accepts[i].epoch == move->epoch;
	if (accepted && mover->target->own)
		mover->confirmed = mover->target->own;
	else
		mover_fail(p, "not accepted");
}

static void mover_asks(struct process *p)
{
	if (p->mover.target->takes && has_word(p->mover.target)) {
		membership_asked(p->m, p->mover.id);
		apply(p);
	} else if (one_in(3)) {
		mover_fail(p, "takes nothing");
	}
}

static void mover_work(struct process *p, const struct membership_move *move)
{
	unsigned int left;

	switch (move->state) {
	case MOVE_ASK:
		mover_asks(p);
		break;
	case MOVE_COPY:
		if (!mover_begins(p, move))
			mover_copies(p, move);
		else if (mover_copies(p, move) <= 2) {
			membership_copied(p->m, p->mover.id);
			apply(p);
		}
		break;
	case MOVE_FROZEN:
		left = mover_copies(p, move);
		if (!left && !p->mover.under_way)
			mover_ends(p, move);
		break;
	default:
		break;
	}
}

static void mover_step(struct process *p, bool calm)
{
	struct mover *mover = &p->mover;
	struct membership_move move;

	membership_move(p->m, &move);
	if (move.state == MOVE_NONE || move.id != mover->id) {
		*mover = (struct mover){ .arrive_ns = mover->arrive_ns };
		if (move.state == MOVE_NONE)
			return;
		mover->id = move.id;
		mover->target = target_find(move.target);
		mover->life = mover->target ? mover->target->life : 0;
	}
	if (w.now_ns < mover->step_ns)
		return;
	mover->step_ns = w.now_ns + below(!calm && one_in(30) ? W_NS / 2 : 10 * MS);
	if (!target_lives(mover) || mover->refused || (!calm && one_in(1000)))
		mover_fail(p, "model");
	else if (w.now_ns >= mover->target->frozen_ns)
		mover_work(p, &move);
}

static void process_step(struct process *p, bool calm)
{
	struct registry_call call;
	uint64_t until_ns = 0;

	if (!p->m || w.now_ns < p->frozen_ns)
		return;
	if (p->dropped_ns && w.now_ns >= p->dropped_ns) {
		drop_end(p);
		apply(p);
	}
	if (p->calls && w.now_ns >= p->answer_ns)
		call_end(p);
	mover_step(p, calm);
	if (p->calls)
		return;
	if (calm || !one_in(10))
		membership_alive(p->m);
	/* As if it had waited: a run is too short for its backoff. */
	if (!calm && w.moves && p->m->move.backoff_ns && one_in(30))
		move_forget(p->m);
	if (bug == BUG_L_IGNORED)
		p->m->move.last_end_ns = 0;
	if (membership_next(p->m, clock_of(p), w.now_ns / DAY_NS, &call, &until_ns) ==
	    MEMBERSHIP_CALL)
		call_begin(p, &call, calm);
	apply(p);
}

/* Clients. */

static void change(struct process *p, int key, bool removes)
{
	new_state(key, &p->memory.state[key]);
	p->memory.absent[key] = removes;
	w.seen[key] = w.last[key] = p->memory.state[key];
	w.last_absent[key] = removes;
	if (!removes || bug != BUG_REMOVAL_UNMARKED)
		p->mover.marked[key] = true;
	w.puts += !removes;
	w.removals += removes;
}

static void request(struct process *p, int key)
{
	uint32_t state = p->memory.state[key];

	if (!has_word(p) || !shard_set_has(&p->served, SHARD(key)))
		return;
	if (one_in(2)) {
		change(p, key, one_in(3));
		return;
	}
	check(state >= w.seen[key]); /* invariant 4 */
	w.seen[key] = state;
	w.gets++;
}

/* FLEET-6: the client's row and word, and the clock after the READ. */
static void client_read(struct client *client, struct process *p, int key)
{
	const struct fleet_word *word = &client->words[p - w.processes];
	uint64_t row = client->map->rows[SHARD(key)];
	uint32_t state = p->memory.state[key];

	if (!p->m || fleet_map_find(client->map, p->options.id) != fleet_row_owner(row) ||
	    !(row & FLEET_OPEN) || word->generation != client->map->head->generation ||
	    fleet_row_since(row) > word->epoch || word->epoch > client->map->head->epoch ||
	    clock_of(p) >= word->end_ns)
		return;
	/* Invariant 2. A miss may be what another owner has begun with. */
	check(state >= w.seen[key] || (p->memory.absent[key] && w.turn_state[key] >= w.seen[key]));
	if (state > w.seen[key])
		w.seen[key] = state;
	w.reads++;
	w.hits += !p->memory.absent[key];
}

static void client_step(struct client *client)
{
	struct process *p = w.hot_at;

	if (!p || !p->m || one_in(2))
		p = &w.processes[below(PROCESSES_MAX)];
	if (!p->m)
		return;
	switch (below(8)) {
	case 0:
		if (client->map && p->map->head->epoch <= client->map->head->epoch)
			break;
		/* One that is content with its old map. */
		if (client == w.clients && client->map && !one_in(100))
			break;
		fleet_map_free(client->map);
		client->map = etcd_model_map_copy(p->map);
		break;
	case 1:
		client->words[p - w.processes] = p->word;
		break;
	case 2:
	case 3:
		request(p, one_in(2) ? w.hot : (int)below(KEYS));
		break;
	default:
		for (int key = 0; client->map && key < KEYS; key++)
			client_read(client, p, key);
	}
}

/* Faults. */

static int processes_of(int id)
{
	int n = 0;

	for (int i = 0; i < PROCESSES_MAX; i++)
		n += w.processes[i].m && w.processes[i].id == id;
	return n;
}

/* Without another cluster ID, a member that has seen nothing newer can't know. */
static bool backup_is_known(void)
{
	for (int i = 0; i < PROCESSES_MAX; i++)
		if (w.processes[i].m && w.processes[i].m->map_revision <= w.backup.map_revision)
			return false;
	return true;
}

static void etcd_restore(void)
{
	bool same = backup_is_known() && one_in(2);

	etcd_model_copy(&w.etcd, &w.backup);
	if (!same)
		w.etcd.cluster_id = 100 + below(1000000);
	for (int i = 0; i < PENDING_MAX; i++) {
		etcd_model_call_free(w.pending[i].call);
		w.pending[i] = (struct pending){ 0 };
	}
	/* Leases of the backup begin again. */
	for (int64_t i = 1; i <= w.etcd.leases; i++)
		w.lease_end_ns[i] = w.now_ns + W_NS;
	w.restored = true;
	w.restores++;
}

/* What an administrator may want, of any member. */
static void flags_want(enum wire_fleet what)
{
	struct process *p = &w.processes[below(PROCESSES_MAX)];
	struct fleet_wants wants = { .change = true, .what = what };

	snprintf(wants.id, sizeof(wants.id), "m%d", (int)below((uint64_t)w.ids));
	if (!p->m || w.now_ns < p->frozen_ns)
		return;
	membership_want(p->m, &wants);
	apply(p);
}

/* A process ends, or stops, and the next one may start at once, or with old memory. */
static void process_replace(struct process *p, bool stops)
{
	const int id = p->id;

	if (!p->m)
		return;
	if (one_in(2))
		etcd_model_end(&w.etcd, p->m->lease);
	if (stops)
		process_stop(p);
	else
		process_end(p);
	if (one_in(2))
		process_start(id, !one_in(4));
}

static void fault(void)
{
	struct process *p = &w.processes[below(PROCESSES_MAX)];

	switch (below(14)) {
	case 0:
	case 1:
		p->frozen_ns = w.now_ns + below(2 * W_NS);
		break;
	case 2:
	case 3:
		p->cut_ns = w.now_ns + below(3 * W_NS);
		break;
	case 4:
	case 5:
	case 6:
		if (p->m)
			etcd_model_end(&w.etcd, p->m->lease);
		break;
	case 7:
	case 8:
		process_replace(p, one_in(2));
		break;
	case 9:
		process_start((int)below((uint64_t)w.ids), one_in(2));
		break;
	case 10:
		if (one_in(3))
			w.down_ns = w.now_ns + below(3 * W_NS);
		break;
	case 11:
		if (!w.restored)
			etcd_model_copy(&w.backup, &w.etcd);
		break;
	case 12:
		if (one_in(6) && !w.restored && w.backup.map)
			etcd_restore();
		break;
	case 13:
		if (w.restored && one_in(3)) {
			etcd_model_adopt(&w.etcd, ++w.generation);
			fleet_map_free(w.backup.map);
			w.backup.map = NULL;
			w.restored = false;
		}
		break;
	}
}

/* A member loses its key, or dies, while it moves shards to another, or while that gets them. */
static void fault_of_move(void)
{
	const enum move_state least = one_in(3) ? MOVE_COPY : MOVE_FROZEN;
	const uint64_t first = below(PROCESSES_MAX);
	struct process *p = NULL, *victim;

	for (uint64_t i = 0; i < PROCESSES_MAX; i++) {
		p = &w.processes[(first + i) % PROCESSES_MAX];
		if (p->m && p->m->move.state >= least)
			break;
	}
	if (!p->m || p->m->move.state < least)
		return;
	victim = target_lives(&p->mover) && !one_in(3) ? p->mover.target : p;
	switch (below(8)) {
	case 0:
		process_replace(victim, false);
		break;
	case 1:
		victim->frozen_ns = w.now_ns + below(W_NS);
		break;
	case 2:
		victim->cut_ns = w.now_ns + below(2 * W_NS);
		break;
	default:
		etcd_model_end(&w.etcd, victim->m->lease);
	}
}

static void world_step(bool calm)
{
	w.now_ns += MS + below(calm ? 20 * MS : 7 * MS);
	for (int64_t i = 1; i <= w.etcd.leases; i++)
		if (w.etcd.lives[i] && w.now_ns >= w.lease_end_ns[i] && w.now_ns >= w.down_ns)
			etcd_model_end(&w.etcd, i);
	for (int i = 0; i < PENDING_MAX; i++)
		if (w.pending[i].call && w.now_ns >= w.pending[i].execute_ns &&
		    w.now_ns >= w.down_ns)
			execute(&w.pending[i]);
	copies_arrive();
	for (int i = 0; i < PROCESSES_MAX; i++)
		process_step(&w.processes[i], calm);
	for (int i = 0; i < CLIENTS; i++)
		client_step(&w.clients[i]);
	if (!calm && one_in(w.fault_rate))
		fault();
	if (!calm && one_in(w.move_fault_rate))
		fault_of_move();
	if (!calm && one_in(w.moves ? 60 : 100))
		flags_want((enum wire_fleet)below(WIRE_FLEET_MAX + 1));
	for (int id = 0; id < w.ids; id++)
		if (!processes_of(id) && (calm || one_in(100)))
			process_start(id, one_in(2));
}

static bool is_settled(void)
{
	const struct fleet_map *map = w.etcd.map;

	for (uint32_t i = 0; i < map->head->members; i++)
		if (map->members[i]->flags & FLEET_MEMBER_BALANCES)
			return false;
	for (struct process *p = w.processes; p < w.processes + PROCESSES_MAX; p++)
		if (p->m && p->m->move.state != MOVE_NONE)
			return false;
	return !moves_left(map, UINT32_MAX);
}

static void settle(void)
{
	uint64_t end_ns = w.now_ns + SETTLE_NS;

	while (!is_settled() && w.now_ns < end_ns)
		world_step(true);
	check(is_settled());
}

/* Drained members have nothing, and the others their share, if they were balanced. */
static void check_placed(bool balanced)
{
	const struct fleet_map *map = w.etcd.map;
	uint32_t has[IDS_MAX] = { 0 }, takers = 0;

	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		has[fleet_row_owner(map->rows[i])]++;
	for (uint32_t i = 0; i < map->head->members; i++)
		takers += !(map->members[i]->flags & FLEET_MEMBER_DRAINED);
	for (uint32_t i = 0; takers && i < map->head->members; i++)
		if (map->members[i]->flags & FLEET_MEMBER_DRAINED)
			check(!has[i]);
		else
			check(!balanced || (has[i] >= FLEET_SHARDS / takers &&
					    has[i] <= FLEET_SHARDS / takers + 1));
}

/* All is well again: all shards are served, by those that should have them. */
static void calm_down(void)
{
	const bool balances = one_in(2);
	uint64_t end_ns;
	uint32_t served = 0;

	w.moves = false;
	w.down_ns = 0;
	for (struct process *p = w.processes; p < w.processes + PROCESSES_MAX; p++) {
		p->frozen_ns = p->cut_ns = 0;
		/* Room for those that are not there. */
		if (p->m && !p->m->own && processes_of(p->id) > 1)
			process_end(p);
	}
	if (w.restored)
		etcd_model_adopt(&w.etcd, ++w.generation);
	w.restored = false;
	end_ns = w.now_ns + CALM_NS;
	while (w.now_ns < end_ns)
		world_step(true);
	settle();
	for (unsigned int i = 0; balances && is_settled(); i++) {
		check(i < 1000);
		flags_want(WIRE_FLEET_REBALANCE);
		world_step(true);
	}
	settle();
	check_placed(balances);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		check(w.etcd.map->rows[i] & FLEET_OPEN);
	/* The last given ones are known to their owner a poll later. */
	end_ns = w.now_ns + W_NS;
	while (w.now_ns < end_ns)
		world_step(true);
	for (int i = 0; i < PROCESSES_MAX; i++)
		if (has_word(&w.processes[i]))
			for (uint32_t k = 0; k < FLEET_SHARDS / 64; k++)
				served += (uint32_t)__builtin_popcountll(
					w.processes[i].served.bits[k]);
	check(served == FLEET_SHARDS);
}

static void world_end(void)
{
	for (int i = 0; i < PROCESSES_MAX; i++)
		process_end(&w.processes[i]);
	for (int i = 0; i < CLIENTS; i++)
		fleet_map_free(w.clients[i].map);
	for (int i = 0; i < IDS_MAX; i++)
		fleet_map_free(w.files[i].map);
	for (int i = 0; i < PENDING_MAX; i++)
		etcd_model_call_free(w.pending[i].call);
	etcd_model_release(&w.etcd);
	etcd_model_release(&w.backup);
}

static void run(uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.random = seed * 0x9e3779b97f4a7c15ull;
	w.now_ns = 1000 * MS;
	w.generation = 1;
	w.ids = 3 + (int)below(3);
	w.moves = seed % 3;
	w.move_fault_rate = 60u << below(4);
	w.fault_rate = w.moves ? 300u << below(4) : 20u << below(4);
	etcd_model_init(&w.etcd, w.generation);
	for (int id = 0; id < w.ids; id++)
		process_start(id, false);
	while (w.now_ns < RUN_NS)
		world_step(false);
	if (!bug) {
		printf("seed %" PRIu64 ": epoch %" PRIu64 ", %u serves, %u puts, %u gets, %u "
		       "reads, %u hits, %u restores; %u returns with %u keys; %u closings, %u "
		       "GIVEs, %u executed, %u of them late, %u keys given\n",
		       seed, w.etcd.map->head->epoch & 0xfffff, w.serves, w.puts, w.gets, w.reads,
		       w.hits, w.restores, w.returns, w.kept_keys, w.closes, w.give_calls, w.gives,
		       w.gives_late, w.keys_given);
		calm_down();
	}
	world_end();
}

static void test_random(void **state)
{
	const char *seeds = getenv("KVD_TEST_SEEDS"), *one = getenv("KVD_TEST_SEED");
	const char *broken = getenv("KVD_TEST_BUG");
	uint64_t count = seeds ? strtoull(seeds, NULL, 10) : SEEDS;

	(void)state;
	if (one) {
		bug = broken ? (enum bug)atoi(broken) : BUG_NONE;
		run(strtoull(one, NULL, 10));
		return;
	}
	for (uint64_t seed = 1; seed <= count; seed++)
		run(seed);
}

/* Whether a run with this seed notices the bug. */
static bool notices(uint64_t seed)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		run(seed);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(!WEXITSTATUS(status) || WEXITSTATUS(status) == FOUND);
	return WEXITSTATUS(status);
}

static void test_bugs(void **state)
{
	/* A run that has noticed it; later ones are tried, too. */
	static const uint64_t first[BUGS] = {
		[BUG_LEASE_FROM_ANSWER] = 336, [BUG_NO_WAIT] = 9,
		[BUG_WORD_BEFORE_DROP] = 11,   [BUG_SESSION_IGNORED] = 197,
		[BUG_L_IGNORED] = 101,	       [BUG_REMOVAL_UNMARKED] = 2,
		[BUG_TARGET_UNCOMPARED] = 32,  [BUG_THAWED] = 13,
		[BUG_FROZEN_SERVED] = 4,       [BUG_ACCEPT_SURVIVES] = 4,
		[BUG_ACCEPT_AGAIN] = 602,      [BUG_COPY_KEPT] = 2,
		[BUG_KEPT_LATE] = 16,
	};

	const bool planted = PLANTED && !getenv("KVD_TEST_SEEDS") && !getenv("KVD_TEST_SEED");

	(void)state;
	for (bug = BUG_NONE + 1; planted && bug < BUGS; bug++) {
		uint64_t seed = first[bug];

		while (seed <= first[bug] + SEEDS_MAX && !notices(seed))
			seed++;
		assert_true(seed <= first[bug] + SEEDS_MAX);
	}
	bug = BUG_NONE;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_bugs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
