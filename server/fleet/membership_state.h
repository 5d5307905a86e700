/* SPDX-License-Identifier: MIT */
/*
 * The state of a membership (membership.h), for the files that it is made of: membership_answers.c
 * has the registration, the word and what follows from answers; membership_calls.c what is asked of
 * etcd; membership_moves.c the move of shards to another member; membership_past.c what the next
 * process gets.
 */
#ifndef KVD_SERVER_FLEET_MEMBERSHIP_STATE_H
#define KVD_SERVER_FLEET_MEMBERSHIP_STATE_H

#include "server/fleet/accepts.h"
#include "server/fleet/controller.h"
#include "server/fleet/membership.h"

/* The map's and the controller's key, and the member's. */
#define COMPARES_MAX (CONTROLLER_COMPARES_MAX + 3)
static_assert(COMPARES_MAX <= REGISTRY_COMPARES_MAX, "fits a transaction");

#define READ_ALL                                                                                   \
	(REGISTRY_READ_MAP | REGISTRY_READ_OWN | REGISTRY_READ_MEMBERS | REGISTRY_READ_CONTROLLER)

enum call {
	CALL_NONE,
	CALL_LOOK,     /* not registered: whose the own key is, and the map */
	CALL_GRANT,    /* a lease */
	CALL_REGISTER, /* the own key, and the member in the map */
	CALL_KEEPALIVE,
	CALL_POLL,  /* is the own key there, and what else is new */
	CALL_OPEN,  /* shards that are served */
	CALL_CLOSE, /* shards that will be moved */
	CALL_GIVE,  /* them to another member */
	CALL_FLAGS, /* of members, as an administrator wants them */
	CALL_CAMPAIGN,
	CALL_ASSIGN, /* as controller */
	CALL_REVOKE,
};

/* The move from this member (MEMBERSHIP-8), and what is known of earlier ones. */
struct move {
	enum move_state state;
	uint64_t id;
	char target[FLEET_NAME_MAX];
	char urls[FLEET_URLS_MAX + 1]; /* of the target */
	struct shard_set shards;       /* until they are closed: those that may be */
	uint64_t epoch;		       /* in which they were closed */
	uint64_t last_end_ns;	       /* L: no word with an earlier epoch ends after it */
	bool copied;		       /* all but a little */
	uint64_t frozen_ns;
	int64_t target_own; /* the target's key, as it has confirmed */

	uint32_t left;	    /* shards of the member that should be elsewhere */
	uint64_t choose_ns; /* when to choose the next move, if the map stays */
	/* Members that get nothing until skip_ns, since a move to them has failed. */
	bool skip[FLEET_MEMBERS_MAX];
	uint64_t skip_ns, backoff_ns;
	uint64_t moved, failed;
	char why[MEMBERSHIP_WAITS_MAX]; /* the last one failed; "": it did not */
};

struct membership {
	struct membership_options options;
	uint64_t period_ns, margin_ns;
	uint64_t random;

	/* The newest map that etcd was seen to have. */
	uint64_t cluster_id;
	struct fleet_map *map;
	int64_t map_revision;
	uint32_t number; /* of the member in it; FLEET_NO_OWNER: it is not */
	bool fenced;
	const char *remedy;  /* while fenced: what an administrator does about it */
	bool map_is_useless; /* the one that was read last */
	bool view_is_old;    /* the view that is published is another map's */

	/* The registration. */
	int64_t lease;		   /* 0: none */
	uint64_t granted_ns;	   /* when it was asked for */
	int64_t own;		   /* the create_revision of the own key; 0: not registered */
	bool key_free;		   /* nobody is registered by this ID, so this process may */
	bool registering;	   /* an attempt with `lease` may have been executed, or be later */
	uint32_t session;	   /* of the last own registration; 0: there was none */
	uint64_t registered_epoch; /* of the map that showed it */
	uint64_t held_ns; /* since when another process is registered by this ID; 0: none is */
	bool held_is_logged;
	uint64_t registrations;

	/* The word. */
	bool alive;	  /* the workers had a turn since the last extension */
	uint64_t kept_ns; /* when the keepalive began that the next poll completes; 0: none */
	bool holds_word;  /* until what the registration drops is dropped */
	uint64_t end_ns;
	uint64_t last_end_ns; /* of all words, ever */
	bool word_is_new;

	struct shards shards;
	bool may_open; /* a shard may be served and closed */
	struct move move;
	struct accepts accepts;
	bool wants_flags;	  /* a change of members' flags, which is not made yet: */
	struct fleet_wants flags; /* its `what` and `id` */

	/* Of the view that was made last. */
	struct shard_set view_served;
	int64_t view_own;
	bool view_takes;

	/* The controller. */
	int64_t controller; /* the create_revision of its key, if that is the own; or 0 */
	bool campaigns;	    /* there was none */
	uint64_t elected_ns;
	struct controller_plan plan; /* to be carried out if plan.map is there */

	/* Calls. */
	enum call call;	  /* under way */
	uint64_t next_ns; /* of the next look, keepalive or poll */
	bool poll_is_due;
	bool look_is_wanted;	/* by another member: a poll soon */
	uint64_t polled_ns;	/* when the last poll began */
	uint64_t retry_ns;	/* of the other transactions */
	unsigned int conflicts; /* transactions in a row that lost against another member's */
	uint64_t seen_ns;	/* when the map was seen last to be the newest */
	uint64_t last_ns;	/* of the last answer; 0: none yet */
	uint64_t answered_ns;	/* of the first one, or the first after an outage */
	bool failing;
	uint64_t now_ns; /* when a function was called last that says it */
	uint64_t now_s;
	struct fleet_map *draft; /* that the call puts */
	struct registry_compare compares[COMPARES_MAX];
	bool stops;
};

static inline uint32_t number_in(const struct membership *m, const struct fleet_map *map)
{
	uint32_t number = fleet_map_find(map, m->options.id);

	return number < map->head->members ? number : FLEET_NO_OWNER;
}

static inline uint32_t session_in(const struct membership *m, const struct fleet_map *map)
{
	uint32_t number = number_in(m, map);

	return number == FLEET_NO_OWNER ? 0 : map->members[number]->session;
}

/* Follows a newer map, which becomes the membership's. */
void map_install(struct membership *m, struct fleet_map *map, int64_t revision, uint64_t now_ns);

/* MEMBERSHIP-10. Goes on from what was kept; its map becomes the membership's, or is freed. */
void past_take(struct membership *m, struct membership_past *past, uint64_t now_ns);

/*
 * Whether the map need not change for the member to register: this process was the last one that
 * did, has all its rows, and is not marked as away.
 */
bool call_keeps_map(const struct membership *m);
/* Makes *@call, and the map that it puts. False: it can't, or need not, be made now. */
bool call_make(struct membership *m, enum call what, uint64_t now_ns, struct registry_call *call);

/* Chooses a move, freezes its shards, or gives it up, as the time has come. */
void move_step(struct membership *m, uint64_t now_ns);
/* When move_step() has something to do, if nothing else happens. */
uint64_t move_next_ns(const struct membership *m);
/* After the newest map was followed. @moved: shards that it gives to another member. */
void move_follow(struct membership *m, uint32_t moved);
/* What has become of CALL_GIVE, but for a map that is followed. */
void move_not_given(struct membership *m, const char *why);
/* Ends the move, if there is one, for a reason that is not the target's. */
void move_end(struct membership *m, const char *why);
/* Forgets which members get nothing for a while. */
void move_forget(struct membership *m);
/* Whether @shard is part of the move, so that its row stays closed. */
bool move_has(const struct membership *m, uint32_t shard);
/* Chooses the shards to close, of those that should go to the target. False: there are none. */
bool move_choose(struct membership *m);
void move_status(const struct membership *m, struct membership_status *status);

#endif /* KVD_SERVER_FLEET_MEMBERSHIP_STATE_H */
