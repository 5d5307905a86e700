/* SPDX-License-Identifier: MIT */
/*
 * Members of a fleet (server/fleet/membership.h) under random faults: calls are slow, lost,
 * executed late or with an unknown outcome; leases end, clocks drift, processes freeze, die, and
 * start twice or with an old copy of their memory; etcd is down, restored and adopted. After each
 * step the invariants 1, 2 and 4 of common/fleet/DESIGN.md hold, and at the end, without faults,
 * all shards are served. Then rules are broken, one at a time, by changing the members' state or
 * what they are told: some run has to notice each.
 *
 * Reads are judged as in tests/fleet/words.pml: each state of a key (after a PUT, or emptied by a
 * failover) has a number, in the order in which the states took effect; `seen` is the newest one
 * that an answer has shown, and no later read may show an older one.
 *
 *	KVD_TEST_SEEDS=100	how many runs; KVD_TEST_SEED=7 that run alone
 *	KVD_TEST_BUG=3		with that rule broken
 */
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

#include "server/fleet/map_edit.h"
#include "server/fleet/membership.c"
#include "tests/support/etcd_model.h"

#define MS 1000000ull
#define W_NS (2000 * MS)
#define RUN_NS (60 * W_NS / 2)
#define CALM_NS (12 * W_NS)
#define IDS_MAX 5
#define PROCESSES_MAX 8
#define CLIENTS 3
#define PENDING_MAX 64
/* The second of the time of day: losses are forgotten (CONTROLLER-4) after 6 s instead of 600. */
#define DAY_NS (10 * MS)
/* A run takes 0.4 s, and 15 s with a sanitizer or without optimizing. */
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_THREAD__)
#define SEEDS 1
#define PLANTED false
#else
#define SEEDS 6
#define PLANTED true
#endif
/* Some of these runs notice each bug. */
#define SEEDS_MAX 60
/* Keys, each in another shard. */
#define KEYS 32
#define SHARD(key) ((uint32_t)(key) * (FLEET_SHARDS / KEYS) + 5)

/* A broken rule. */
enum bug {
	BUG_NONE,
	BUG_LEASE_FROM_ANSWER, /* MEMBERSHIP-3: a word ends W after the answer */
	BUG_NO_WAIT,	       /* MEMBERSHIP-2: a new owner serves at once */
	BUG_WORD_BEFORE_DROP,  /* MEMBERSHIP-3: what a registration drops is still there */
	BUG_SESSION_IGNORED,   /* MEMBERSHIP-1: another process has registered between */
	BUG_E_NOT_RAISED,      /* MEMBERSHIP-4: a word names the map of an earlier registration */
	BUG_VIEW_AFTER_WORD,   /* MEMBERSHIP-4: workers have an older map than the word */
	BUGS,
};
static enum bug bug;

static void violated(const char *what, int line)
{
	if (bug)
		_exit(1); /* found */
	print_error("line %d: %s\n", line, what);
	fail();
}

#define check(condition) (void)((condition) || (violated(#condition, __LINE__), 0))

/* What a server shows of the keys. */
struct memory {
	uint32_t state[KEYS];
	bool absent[KEYS];
	uint32_t turn[KEYS]; /* when it began to serve the key's shard; 0: never */
};

/* A call on its way. */
struct pending {
	struct registry_call *call; /* NULL: free */
	uint64_t execute_ns;
	struct process *caller; /* NULL: does not wait any more */
};

struct process {
	struct membership *m; /* NULL: there is none */
	struct membership_options options;
	int id;
	double rate, offset; /* of its clock */
	struct fleet_map *map;
	struct shard_set served, dropping;
	struct fleet_word word;
	struct memory memory;
	uint64_t frozen_ns, cut_ns; /* until when it makes no step; no call reaches etcd */
	uint64_t dropped_ns;	    /* when the drop is done; 0: there is none */
	uint64_t registrations;	    /* when it had the last word */

	bool calls, has_result;
	uint64_t sent_ns, answer_ns; /* by its clock; by the world's */
	bool answer_lost;
	struct registry_result result;
};

/* What a clean stop leaves. */
struct file {
	struct membership *m;
	struct memory memory;
};

struct client {
	struct fleet_map *map;
	struct fleet_word words[PROCESSES_MAX];
};

static struct world {
	uint64_t now_ns;
	uint64_t random;
	int ids;
	struct etcd_model etcd, backup;
	uint64_t lease_end_ns[ETCD_MODEL_LEASES];
	uint64_t down_ns; /* until when etcd is down */
	bool restored;
	uint64_t generation;
	struct pending pending[PENDING_MAX];
	struct process processes[PROCESSES_MAX];
	uint64_t incarnations;
	struct client clients[CLIENTS];
	struct file files[IDS_MAX];

	/* Ghosts, for each key. */
	uint32_t newest[KEYS], seen[KEYS], turn[KEYS], turn_state[KEYS];
	/* How often what happened. */
	unsigned int puts, gets, reads, hits, serves, losses, restores, failovers;
} w;

static uint64_t below(uint64_t limit)
{
	uint64_t z = w.random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % limit;
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
	for (int i = 0; i < PROCESSES_MAX; i++)
		for (int j = 0; j < i && has_word(&w.processes[i]); j++)
			for (uint32_t k = 0; k < FLEET_SHARDS / 64 && has_word(&w.processes[j]);
			     k++)
				check(!(w.processes[i].served.bits[k] &
					w.processes[j].served.bits[k]));
}

static void begin_to_serve(struct process *p, int key)
{
	check(p->memory.absent[key]);
	p->memory.turn[key] = ++w.turn[key];
	new_state(key, &p->memory.state[key]);
	w.turn_state[key] = w.newest[key];
	w.serves++;
}

static void view_apply(struct process *p, const struct membership_changes *changes)
{
	struct shard_set before = p->served;

	fleet_map_free(p->map);
	p->map = etcd_model_map_copy(changes->map);
	p->served = *changes->served;
	for (int key = 0; key < KEYS; key++)
		if (shard_set_has(&p->served, SHARD(key)) && !shard_set_has(&before, SHARD(key)))
			begin_to_serve(p, key);
}

static void drop_end(struct process *p)
{
	for (int key = 0; key < KEYS; key++) {
		if (!shard_set_has(&p->dropping, SHARD(key)))
			continue;
		check(!shard_set_has(&p->served, SHARD(key)));
		if (w.turn[key] > p->memory.turn[key])
			p->memory.state[key] = w.turn_state[key];
		else
			new_state(key, &p->memory.state[key]);
		p->memory.absent[key] = true;
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
		check(p->memory.absent[key] || shard_set_has(&p->served, SHARD(key)));
}

static void apply(struct process *p)
{
	struct membership_changes changes;

	membership_changes(p->m, &changes);
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
	membership_destroy(p->m);
	fleet_map_free(p->map);
	*p = (struct process){ 0 };
}

static struct membership *membership_copy(const struct membership *m)
{
	struct membership *copy = heap_alloc(sizeof(*copy));

	*copy = *m;
	copy->map = etcd_model_map_copy(m->map);
	copy->plan.map = NULL;
	copy->draft = NULL;
	return copy;
}

/* The memory of a process that has stopped is kept. */
static void process_stop(struct process *p)
{
	struct file *file = &w.files[p->id];

	membership_stop(p->m);
	apply(p);
	if (p->dropped_ns)
		drop_end(p);
	membership_destroy(file->m);
	file->m = membership_copy(p->m);
	file->memory = p->memory;
	if (one_in(2))
		etcd_model_end(&w.etcd, p->m->lease);
	process_end(p);
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
	p->options.incarnation = ++w.incarnations;
	snprintf(p->options.id, sizeof(p->options.id), "m%d", id);
	for (int key = 0; key < KEYS; key++)
		p->memory.absent[key] = true;
	etcd_model_execute(&w.etcd, &read, &first);
	p->m = membership_create(&p->options, &first);
	registry_result_release(&first);
	if (from_file && w.files[id].m &&
	    w.files[id].m->map->head->generation == w.etcd.map->head->generation &&
	    w.files[id].m->cluster_id == w.etcd.cluster_id) {
		membership_destroy(p->m);
		p->m = membership_copy(w.files[id].m);
		p->m->options = p->options;
		p->m->own = p->m->lease = p->m->controller = 0;
		p->m->last_ns = p->m->answered_ns = p->m->next_ns = p->m->retry_ns = 0;
		p->m->registering = p->m->stops = p->m->key_free = false;
		p->m->call = CALL_NONE;
		p->m->campaigns = p->m->holds_word = p->m->poll_is_due = false;
		p->m->held_ns = 0;
		p->m->view_is_old = true;
		p->memory = w.files[id].memory;
		/* A wait begins again; what it serves it has. */
		for (uint32_t i = 0; i < FLEET_SHARDS; i++)
			p->m->shards.wait_until_ns[i] = 0;
		p->m->shards.waiting = 0;
		p->served = p->m->shards.served;
	}
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
	if (result.outcome == ETCD_SUCCEEDED && call->kind == REGISTRY_GRANT)
		w.lease_end_ns[result.lease] = w.now_ns + W_NS;
	if (result.outcome == ETCD_SUCCEEDED && call->kind == REGISTRY_KEEPALIVE)
		w.lease_end_ns[call->lease] = w.now_ns + W_NS;
	if (p && !p->answer_lost) {
		p->result = result;
		p->has_result = true;
	} else {
		registry_result_release(&result);
	}
	etcd_model_call_free(call);
	*pending = (struct pending){ 0 };
}

static void call_begin(struct process *p, const struct registry_call *call, bool calm)
{
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
	*pending = (struct pending){
		.call = etcd_model_call_copy(call),
		.execute_ns = w.now_ns + there_ns,
		.caller = p,
	};
}

static void call_end(struct process *p)
{
	bool is_txn = p->m->call != CALL_GRANT && p->m->call != CALL_KEEPALIVE &&
		      p->m->call != CALL_REVOKE;

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
	registry_result_release(&p->result);
	apply(p);
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
	if (p->calls)
		return;
	if (calm || !one_in(10))
		membership_alive(p->m);
	if (membership_next(p->m, clock_of(p), w.now_ns / DAY_NS, &call, &until_ns) ==
	    MEMBERSHIP_CALL)
		call_begin(p, &call, calm);
	apply(p);
}

/* Clients. */

static void request(struct process *p, int key)
{
	uint32_t *state = &p->memory.state[key];

	if (!has_word(p) || !shard_set_has(&p->served, SHARD(key)))
		return;
	if (one_in(2)) {
		new_state(key, state);
		p->memory.absent[key] = false;
		w.seen[key] = *state;
		w.puts++;
		return;
	}
	check(*state >= w.seen[key]); /* invariant 4 */
	w.seen[key] = *state;
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
	struct process *p = &w.processes[below(PROCESSES_MAX)];

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
		request(p, (int)below(KEYS));
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
		w.losses++;
		break;
	case 7:
		if (p->m)
			process_end(p);
		break;
	case 8:
		if (p->m)
			process_stop(p);
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

static void world_step(bool calm)
{
	w.now_ns += MS + below(7 * MS);
	for (int64_t i = 1; i <= w.etcd.leases; i++)
		if (w.etcd.lives[i] && w.now_ns >= w.lease_end_ns[i] && w.now_ns >= w.down_ns)
			etcd_model_end(&w.etcd, i);
	for (int i = 0; i < PENDING_MAX; i++)
		if (w.pending[i].call && w.now_ns >= w.pending[i].execute_ns &&
		    w.now_ns >= w.down_ns)
			execute(&w.pending[i]);
	for (int i = 0; i < PROCESSES_MAX; i++)
		process_step(&w.processes[i], calm);
	check_alone();
	for (int i = 0; i < CLIENTS; i++)
		client_step(&w.clients[i]);
	if (!calm && one_in(60))
		fault();
	for (int id = 0; id < w.ids; id++)
		if (!processes_of(id) && (calm || one_in(300)))
			process_start(id, one_in(2));
}

/* All is well again, and all shards are served. */
static void calm_down(void)
{
	uint64_t end_ns;
	uint32_t served = 0;

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
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		check(w.etcd.map->rows[i] & FLEET_OPEN);
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
		membership_destroy(w.files[i].m);
	for (int i = 0; i < PENDING_MAX; i++)
		etcd_model_call_free(w.pending[i].call);
	etcd_model_release(&w.etcd);
	etcd_model_release(&w.backup);
}

static void run(uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.random = seed * 0x9e3779b97f4a7c15ull;
	w.now_ns = 1000 * MS;
	w.generation = 1;
	w.ids = 3 + (int)below(3);
	etcd_model_init(&w.etcd, w.generation);
	for (int id = 0; id < w.ids; id++)
		process_start(id, false);
	while (w.now_ns < RUN_NS)
		world_step(false);
	calm_down();
	if (!bug)
		printf("seed %" PRIu64 ": epoch %" PRIu64
		       ", %u serves, %u puts, %u gets, %u reads, %u hits, "
		       "%u restores\n",
		       seed, w.etcd.map->head->epoch & 0xfffff, w.serves, w.puts, w.gets, w.reads,
		       w.hits, w.restores);
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
	return !WIFEXITED(status) || WEXITSTATUS(status);
}

static void test_bugs(void **state)
{
	/* A run that has noticed it; later ones are tried, too. */
	static const uint64_t first[BUGS] = {
		[BUG_LEASE_FROM_ANSWER] = 46, [BUG_SESSION_IGNORED] = 5
	};

	(void)state;
	for (bug = BUG_NONE + 1; PLANTED && bug < BUGS; bug++) {
		uint64_t seed = first[bug];

		while (seed <= first[bug] + SEEDS_MAX && !notices(seed))
			seed++;
		printf("bug %d: seed %" PRIu64 "\n", bug, seed);
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
