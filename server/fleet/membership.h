/* SPDX-License-Identifier: MIT */
/*
 * One member of a fleet whose map is in etcd, as a state machine: it registers, keeps its lease and
 * its word, opens the shards that it gets, and is the controller if it is elected. It does no I/O
 * and reads no clock: membership_next() says what to ask etcd, membership_done() takes the answer,
 * and membership_changes() says what the server has to do. common/fleet/DESIGN.md has the rules;
 * here is where they are kept:
 *
 *   MEMBERSHIP-1. (FLEET-3) A shard that was served stays so only while the member's row has the
 *	 bits that it had then, or those that an own transaction of unknown outcome, which opens or
 *	 closes it, would give it, and the map has the session of this process's last registration.
 *	 Registration closes all other rows of the member.
 *   MEMBERSHIP-2. (FLEET-9) Any other shard is served only after its items were dropped, and 1.004
 *	 W and the margin after its row was first read, unless the row is `given`. Then the member
 *	 opens it. MEMBERSHIP-9 has the one exception.
 *   MEMBERSHIP-3. (FLEET-4) A word ends W less the margin after the calls that earned it were
 *	 begun: a keepalive, and a transaction that found the member's own key. There is none before
 *	 all workers had a turn since the last one, nor before what a registration drops is dropped.
 *   MEMBERSHIP-4. (FLEET-5) A word has the epoch of the newest map, whose view was published before
 *	 it. That is at least the epoch of the last registration. When a move has closed rows, a
 *	 word that lasts gets their epoch at once, and keeps its end.
 *   MEMBERSHIP-5. (FLEET-1) An etcd that was restored or replaced is noticed by its cluster ID, and
 *	 by a map with a lower epoch or revision: the member is fenced, that is its word ends, until
 *	 a map with another generation and a higher epoch than any before is there.
 *   MEMBERSHIP-6. (FLEET-15) The controller changes nothing for 2 W after the first answer of
 *	 etcd, and after the first one that follows W / 2 without: keys of other members, which
 *	 etcd was asked to keep until then, can't have ended meanwhile. After its election it waits
 *	 W / 5.
 *   MEMBERSHIP-7. (FLEET-8) A move is of shards that are served and open. L is the latest end of
 *	 all words until the map was read in which the member has closed them. They are frozen
 *	 after that by the server's clock, and are given by a transaction that compares the key by
 *	 which the target has confirmed.
 *   MEMBERSHIP-8. (FLEET-8) Frozen shards stay so, whatever becomes of the move, the registration
 *	 and the word, until a newer map was read: then no transaction that gives them can be
 *	 executed any more. One whose outcome is unknown is not sent again; the member opens the
 *	 rows, which decides.
 *   MEMBERSHIP-9. (FLEET-8) A member takes copies of shards whose rows another one has closed since
 *	 it has registered, while these rows do not change, and if nothing is left of them. It
 *	 serves them, with their items, at once when its own row is open and `given`. Else the view
 *	 ends it, then the copies are dropped; as a registration does with all.
 *   MEMBERSHIP-10. (FLEET-19) A process whose stores have outlived another one of the member
 *	 (memory.file) goes on as that one: with its incarnation, key, lease, session, map and
 *	 shards, as it had kept them before it published the last view and made the last call. To
 *	 etcd it is a process that was stopped for a while. It has no word at first, no move, and
 *	 what was frozen stays so until a newer map was read. If that map is of another history, or
 *	 what was kept is not known, it serves nothing until all items are dropped.
 *
 * What becomes of a move, at the member that gives (FLEET-8 in DESIGN.md has the reasons):
 *
 *			ASK	CLOSE		COPY		FROZEN		GIVE
 *	the mover fails	ends	ends		ends		ends, frozen	goes on
 *	key lost, stop,	ends	ends, both	ends		ends, frozen	ends, frozen
 *	fenced, adopted		rows proven
 *	not wanted now	ends	ends		ends		goes on		goes on
 *	target's key	-	-		-		-		ends, frozen
 *	differs
 *	not executed	-	sent again	-		-		sent again
 *	outcome unknown	-	sent again	-		-		ends, frozen
 *	W after FROZEN	-	-		-		ends, frozen	ends, frozen
 *
 *	"ends": the rows that are closed are opened by the ordinary transaction; the target is left
 *	out for a while if it may be its fault. "frozen": until a newer map is read.
 *
 * Threads: one.
 */
#ifndef KVD_SERVER_FLEET_MEMBERSHIP_H
#define KVD_SERVER_FLEET_MEMBERSHIP_H

#include "common/layout.h"
#include "server/fleet/accepts.h"
#include "server/fleet/fleet.h"
#include "server/fleet/registry.h"
#include "server/fleet/shards.h"

#define MEMBERSHIP_WAITS_MAX 160

struct membership_options {
	char id[FLEET_NAME_MAX];
	const char *urls; /* at which clients reach the member; stays */
	uint32_t weight;
	uint64_t incarnation; /* of this process; never 0 */
	uint64_t lease_ns;    /* W */
	bool keeps;	      /* the stores outlive the process: its lease is not revoked */
};

/* What the next process needs to go on as the same one: MEMBERSHIP-10. Beside the map. */
struct membership_kept {
	uint64_t cluster_id, incarnation;
	int64_t map_revision, lease, own;
	uint64_t registered_epoch, attempt_epoch;
	uint32_t session;
	uint32_t registering; /* 1: an own registration may have been executed */
	/* As in struct shards. */
	struct shard_set served, used, frozen, accepted, opening, closing;
	struct accepts accepts;
};

/* Of a process whose stores have items that outlived it. */
struct membership_past {
	const struct membership_kept *kept;
	struct fleet_map *map; /* NULL: it is not known what the process had */
};

/* For the statistics. */
struct membership_status {
	uint64_t end_ns; /* of the word */
	uint64_t registrations;
	uint64_t epoch;	  /* of the newest map, */
	uint32_t members; /* its members, */
	uint32_t shards;  /* and those of its shards that are the member's */
	uint32_t shards_served;
	bool controller;
	/* Moves from this member: */
	uint32_t moves_left;	      /* shards that should be elsewhere */
	uint64_t moved, moves_failed; /* shards that were given to others; moves that failed */
	char move_to[FLEET_NAME_MAX]; /* "": no move is under way */
	const char *move_state;	      /* in a word: "idle", "asks", "copies" ... */
	char move_why[MEMBERSHIP_WAITS_MAX]; /* why the last one failed; "": it did not */
	/* Why the member, or the controller, waits; "": neither does. */
	char waits[MEMBERSHIP_WAITS_MAX];
};

struct membership;

/*
 * @first is what a transaction has read of etcd just now: the map, which is there. @past: NULL if
 * the stores are empty. The maps of both become the membership's. NULL: no memory.
 */
struct membership *membership_create(const struct membership_options *options,
				     struct registry_result *first, struct membership_past *past,
				     uint64_t now_ns);
void membership_destroy(struct membership *member);

enum membership_next {
	MEMBERSHIP_CALL,  /* execute *@call, and hand the result to membership_done() */
	MEMBERSHIP_SLEEP, /* nothing to do until *@until_ns */
	MEMBERSHIP_ENDED, /* after membership_stop(): nothing to do any more */
};

/*
 * What is next. @now_ns is the server's clock, which counts sleep of the host; @now_s the time of
 * day, since 1970. *@call, and what it points to, stay until membership_done().
 */
enum membership_next membership_next(struct membership *member, uint64_t now_ns, uint64_t now_s,
				     struct registry_call *call, uint64_t *until_ns);
/*
 * @result of the call, which was begun after @sent_ns; @now_ns is read after the answer. Takes the
 * map out of @result. @why: etcd_why(), if there was no answer; for the log.
 */
void membership_done(struct membership *member, struct registry_result *result, const char *why,
		     uint64_t sent_ns, uint64_t now_ns);

/*
 * The move of shards to another member that is under way (FLEET-8), for the thread that copies the
 * items (server/fleet/mover.h).
 */
enum move_state {
	MOVE_NONE,
	MOVE_ASK,    /* connect to the target, and ask whether it would take shards */
	MOVE_CLOSE,  /* the rows are being closed: wait */
	MOVE_COPY,   /* begin at the target, copy; say membership_copied() when little is marked */
	MOVE_FROZEN, /* the view without the shards is published: copy the rest, end */
	MOVE_GIVE,   /* the rows are being given: wait */
};

struct membership_move {
	enum move_state state;
	uint64_t id;		    /* differs for each move of the process; 0: there was none */
	uint64_t generation, epoch; /* from MOVE_COPY on: in which the rows were closed */
	char target[FLEET_NAME_MAX];
	const char *urls; /* of the target, with commas; stays as the map does */
	const struct shard_set *shards;
};

/* The state now. What it points to stays until the next function that is called. */
void membership_move(const struct membership *member, struct membership_move *move);

/* What the thread says of move @id; another one than the present is ignored. */
/* MOVE_ASK: the target would take them. */
void membership_asked(struct membership *member, uint64_t id);
/* MOVE_COPY: all is copied but what was changed since, which is little. */
void membership_copied(struct membership *member, uint64_t id);
/* MOVE_FROZEN: the target has all. @own: the create_revision of its key, as END has it. */
void membership_confirmed(struct membership *member, uint64_t id, int64_t own);
/* The move can't go on, for a reason in words, which is copied: the shards are opened again. */
void membership_move_failed(struct membership *member, uint64_t id, const char *why);

/* What clients and other members want (fleet_wants_take()). */
void membership_want(struct membership *member, const struct fleet_wants *wants);

/* All workers had a turn that began after the last time that this was called. */
void membership_alive(struct membership *member);

/*
 * What the server has to do now, in this order: publish the view, wait for a grace period, begin to
 * drop, publish the word.
 */
struct membership_changes {
	const struct fleet_map *map;	/* of the view; NULL: the view stays */
	const struct shard_set *served; /* of the view, as all until `own` */
	const struct shard_set *frozen; /* NULL: none */
	const struct fleet_accept *accepts;
	uint32_t accept_count;
	int64_t own;
	bool takes;
	const struct shard_set *drop; /* NULL: nothing to drop */
	bool has_word;
	struct fleet_word word; /* without its sum; end_ns as now_ns counts, 0: it has ended */
};

/*
 * Call it after each of the functions above and below, and do what it says before the next one.
 * What the pointers point to stays until then. membership_dropped() says that no reader can see an
 * item that was to be dropped.
 */
void membership_changes(struct membership *member, struct membership_changes *changes);
void membership_dropped(struct membership *member);

/*
 * What the next process needs, to be kept before the server does what membership_changes() says.
 * Returns the map that belongs to it, which stays until the next function that is called.
 */
const struct fleet_map *membership_keep(const struct membership *member,
					struct membership_kept *kept);

/*
 * Ends the word; then membership_next() revokes the lease, so that others get the shards soon, but
 * not if the stores outlive the process: it may return.
 */
void membership_stop(struct membership *member);

void membership_status(const struct membership *member, struct membership_status *status);

#endif /* KVD_SERVER_FLEET_MEMBERSHIP_H */
