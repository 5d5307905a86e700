/* SPDX-License-Identifier: MIT */
/*
 * The fleet that a server is a member of, as its workers know it. A file names its map, which does
 * not change; or it is in etcd (server/fleet/membership.h), and a thread publishes views of it.
 *
 *   OWNER-1. A keyed request (GET, PUT, DELETE, ARITH, TOUCH) is executed only by the member that
 *	 owns the key's shard, and serves it, before the end of its word by a clock that was read
 *	 after the request arrived. Any other answers MOVED or AWAY, with the epoch of its map,
 *	 before anything of the request is done: no value is pulled (member_admit() in
 *	 server/worker/member.h). What takes several turns is checked again in each, and changes
 *	 nothing if it is refused then. A SCAN finds the keys that the member serves; after the
 *	 end it answers AWAY. What was executed before is answered as it was then.
 *   OWNER-2. A refusal is the answer to a numbered change, and is recorded like any other: sent
 *	 again, the change gets the same answer, and is not executed (ANSWER-3).
 *   OWNER-3. A refusal costs its client what the request would have: so a client can't send those
 *	 beyond its limits (PERMIT-2).
 *   OWNER-4. All stores of all members hash keys with the seed of the map, so a key has one shard.
 *   OWNER-5. Every client that may connect gets the map, by MAP; its seed, too, which the welcome
 *	 of a client that may not READ leaves out.
 *   OWNER-6. When fleet_publish() returns, each turn of a worker that began before has ended: what
 *	 was admitted by the last view is done or refused. Until then the end is not put off.
 *   OWNER-7. The items of a shard that is copied to the server (FLEET-8) are stored only while the
 *	 view says that it accepts them: its row is closed, and has the `since` of the move that
 *	 the connection has begun. Each request is checked again in each piece, as in OWNER-1.
 *   OWNER-8. While a shard is frozen, that is this server has sent all that it has of it to another
 *	 member and waits to learn whether that owns it, requests for its keys are answered MOVED,
 *	 and no flush and no scan is answered.
 *
 * A server in no fleet has no struct fleet, and looks at one pointer for each request.
 */
#ifndef KVD_SERVER_FLEET_FLEET_H
#define KVD_SERVER_FLEET_FLEET_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/fleet/map.h"

/* Moves to this server at a time. */
#define FLEET_ACCEPTS_MAX 4u

/* The shards of a move to this server: those whose rows were closed in @epoch, and still are so. */
struct fleet_accept {
	uint64_t epoch;
	uint64_t shards[FLEET_SHARDS / 64];
};

/* What workers know of the fleet at one time; does not change. */
struct fleet_view {
	struct fleet_map *map;
	uint32_t member; /* the server's number in the map; FLEET_NO_OWNER: it is not in it */
	uint32_t shards; /* that it owns */
	uint64_t served[FLEET_SHARDS / 64]; /* its shards that it serves: a bit for each */
	uint64_t frozen[FLEET_SHARDS / 64]; /* OWNER-8; not in `served` */
	bool freezes;			    /* some shard is frozen */
	struct fleet_accept accepts[FLEET_ACCEPTS_MAX];
	uint32_t accept_count;
	/* The create_revision of the server's key in etcd; 0: it is not registered. */
	int64_t own;
	bool takes; /* it would take shards of another member now */
};

/* What clients and other members ask of the fleet's thread, which answers by the next views. */
struct fleet_wants {
	bool look; /* at etcd, at once */
	/* To accept shards: FLEET-8. 0: nothing. */
	uint64_t accept_generation, accept_epoch;
	/* WIRE_FLEET. @id: of the member */
	bool change;
	enum wire_fleet what;
	char id[FLEET_NAME_MAX];
};

/* Guarded by its lock. */
struct fleet_inbox {
	pthread_mutex_t lock;
	struct fleet_wants wants;
	void (*wake)(void *thread); /* tells the fleet's thread that something is wanted */
	void *thread;
};

struct fleet {
	/* Read by fleet_view(), in an RCU read-side section; replaced by fleet_publish(). */
	struct fleet_view *view;
	/*
	 * Until when the server serves, by its clock (store_clock_ns()), which counts sleep of the
	 * host: one that was suspended has no valid word. UINT64_MAX: always.
	 */
	_Atomic uint64_t end_ns;
	/*
	 * Waits until each worker has ended the turn that it is in: OWNER-6. A grace period is not
	 * enough, since a worker that lacks memory may wait for one in the middle of a request.
	 * NULL: there are no workers.
	 */
	void (*turns_wait)(void *workers);
	void *workers;
	struct fleet_inbox *inbox; /* what is wanted; NULL: the map does not change */
	/* Of the last view in which some member has FLEET_MEMBER_BALANCES; 0: there was none. */
	_Atomic uint64_t balanced_epoch;
	uint64_t hash_seed;	 /* of the map; constant */
	char id[FLEET_NAME_MAX]; /* the member's name; constant */
};

/*
 * Makes @fleet from the file at @path; @member is the server's name in it, "" if none was given.
 * Returns 0, or a negative errno after logging.
 */
int fleet_open(struct fleet *fleet, const char *path, const char member[FLEET_NAME_MAX + 1]);
/*
 * Makes @fleet of a map that does not change, in which @id is the server's name: it serves all its
 * shards, always. 0, and the map is the fleet's; or -ENOMEM.
 */
int fleet_fix(struct fleet *fleet, struct fleet_map *map, const char id[FLEET_NAME_MAX]);
/*
 * Writes the names of the members, as many as fit in @size bytes, each after a space; then " ..."
 * if there are more. Returns @text.
 */
const char *fleet_members_text(const struct fleet_map *map, char *text, size_t size);
/* Logs what the server is in the fleet. */
void fleet_announce(const struct fleet *fleet);
/* Of one that was opened, or is all zero; no other thread uses it. */
void fleet_close(struct fleet *fleet);

/* A view that owns @map and serves nothing. NULL: no memory, and @map is still the caller's. */
struct fleet_view *fleet_view_make(struct fleet_map *map, const char id[FLEET_NAME_MAX]);
void fleet_view_free(struct fleet_view *view);
/*
 * Replaces the view, and frees the last one when no worker executes anything by it any more
 * (OWNER-6). One thread, which is no RCU reader.
 */
void fleet_publish(struct fleet *fleet, struct fleet_view *view);

/*
 * Asks the fleet's thread: for a look at etcd; to accept the shards that were closed in @epoch; for
 * a change of the fleet. A later call replaces an earlier one of its kind that was not taken. Any
 * thread; does not wait. The map is in etcd.
 */
void fleet_want_look(const struct fleet *fleet);
void fleet_want_accept(const struct fleet *fleet, uint64_t generation, uint64_t epoch);
void fleet_want_change(const struct fleet *fleet, enum wire_fleet what,
		       const char id[FLEET_NAME_MAX]);
/* Takes what is wanted; a zeroed *@wants: nothing. The fleet's thread. */
void fleet_wants_take(const struct fleet *fleet, struct fleet_wants *wants);

/* The shards of the move that began in @epoch, or NULL: they are not accepted (OWNER-7). */
static inline const struct fleet_accept *fleet_view_accept(const struct fleet_view *view,
							   uint64_t epoch)
{
	for (uint32_t i = 0; i < view->accept_count; i++)
		if (view->accepts[i].epoch == epoch)
			return &view->accepts[i];
	return NULL;
}

/* Whether the row is of a shard that another member than @member has closed in @epoch. */
static inline bool fleet_row_moves(uint64_t row, uint32_t member, uint64_t epoch)
{
	const uint32_t owner = fleet_row_owner(row);

	return fleet_row_since(row) == epoch && !(row & FLEET_OPEN) && owner != member &&
	       owner != FLEET_NO_OWNER;
}

static inline bool fleet_shards_have(const uint64_t shards[FLEET_SHARDS / 64], uint32_t shard)
{
	return shards[shard / 64] >> shard % 64 & 1;
}

/* The view, until the thread passes a quiescent state: rcu_dereference(), but inline. */
static inline const struct fleet_view *fleet_view(const struct fleet *fleet)
{
	return __atomic_load_n(&fleet->view, __ATOMIC_CONSUME);
}

/* Whether some member of @map has FLEET_MEMBER_BALANCES. */
bool fleet_map_balances(const struct fleet_map *map);

static inline bool fleet_view_serves(const struct fleet_view *view, uint32_t shard)
{
	return fleet_shards_have(view->served, shard);
}

static inline void fleet_view_serve(struct fleet_view *view, uint32_t shard)
{
	view->served[shard / 64] |= 1ull << shard % 64;
}

#endif /* KVD_SERVER_FLEET_FLEET_H */
