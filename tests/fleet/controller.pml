/* SPDX-License-Identifier: MIT */
/*
 * The controller: rules 2b and 15, for three members, of which one may be absent at a time, two
 * processes that may be the controller, and an outage of etcd.
 *
 * A member that is up registers within W once etcd is back. "The last 10 minutes" of rule 15 are
 * the whole search.
 */

#define MEMBERS		3
#define ABSENT_MAX	1		/* max(1, N / 3) */
#define W		2		/* ticks */
#ifndef CRASHES
#define CRASHES		2
#endif
#ifndef LOSSES				/* of a lease that was kept alive */
#define LOSSES		2
#endif
#define ELECTIONS	3

bool etcd = true;
bool key[MEMBERS], up[MEMBERS];
bool has_rows[MEMBERS];			/* the rows that it had at first */
bool lost[MEMBERS];			/* in the map: it was lost lately */
byte leader;				/* the controller key: the election that made it; 0: absent */
byte elections;

byte mine[2];				/* the key that a process believes to have */
byte wait[2];
byte sent[2], sent_by[2], sent_taken[2];	/* a transaction takes the rows of member sent - 1 */
bool remembers[6];			/* what a controller saw itself: its own memory */

byte back;				/* by then all members that are up have registered */
byte crashes, losses, outages;
bool by_outage[MEMBERS];		/* ghost: it is up, and has no key because of the outage */
byte taken;				/* ghost */

#ifdef BUG_LOST_FORGOTTEN
#define was_lost(c, m)	remembers[3 * c + m]
#else
#define was_lost(c, m)	lost[m]
#endif
#define counts(c, m)	(!key[m] || was_lost(c, m) -> 1 : 0)
#ifdef BUG_LIMIT_IGNORED
#define may_take(c)	true
#else
#define may_take(c)	(counts(c, 0) + counts(c, 1) + counts(c, 2) <= ABSENT_MAX)
#endif
/* A transaction is executed later: it compares the map, the key of the member and its own. */
#ifdef BUG_CONTROLLER_KEY_NOT_COMPARED
#define is_leaders(c)	true
#else
#define is_leaders(c)	(sent_by[c] == leader)
#endif
#define leads(c)	(mine[c] != 0 && mine[c] == leader)

inline elect(c)
{
	elections++;
	leader = elections;
	mine[c] = leader;
	remembers[3 * c] = false; remembers[3 * c + 1] = false; remembers[3 * c + 2] = false
}

inline take_rows(c, m)
{
	has_rows[m] = false;
	lost[m] = true;
	remembers[3 * c + m] = true;
	taken++;
	assert(taken <= ABSENT_MAX);
	assert(!by_outage[m])			/* I7 */
}

inline send(c, m)
{
	sent[c] = m + 1;
	sent_by[c] = mine[c];
	sent_taken[c] = taken
}

inline execute(c, m)
{
	if
	:: is_leaders(c) && sent_taken[c] == taken && has_rows[m] && !key[m] -> take_rows(c, m)
	:: else
	fi;
	sent[c] = 0; sent_by[c] = 0; sent_taken[c] = 0
}

inline end_outage()
{
	etcd = true;
	by_outage[0] = key[0] && up[0]; by_outage[1] = key[1] && up[1];
	by_outage[2] = key[2] && up[2];
	key[0] = false; key[1] = false; key[2] = false;
	leader = 0;
	back = W;
#ifndef BUG_NO_WAIT_AFTER_OUTAGE	/* each process notices the outage itself */
	wait[0] = 2 * W;
	wait[1] = 2 * W
#endif
}

#define MEMBER(m)									\
	:: d_step { up[m] && crashes < CRASHES ->					\
		crashes++; up[m] = false; by_outage[m] = false }			\
	:: d_step { etcd && key[m] && !up[m] -> key[m] = false }			\
	:: d_step { etcd && key[m] && up[m] && losses < LOSSES -> losses++; key[m] = false }	\
	:: d_step { etcd && !key[m] && up[m] -> key[m] = true; by_outage[m] = false }	\
	:: d_step { etcd && leads(0) && wait[0] == 0 && has_rows[m] && !key[m] && may_take(0)	\
		&& sent[0] == 0 -> send(0, m) }						\
	:: d_step { etcd && sent[0] == m + 1 -> execute(0, m) }							\
	:: d_step { etcd && leads(1) && wait[1] == 0 && has_rows[m] && !key[m] && may_take(1)	\
		&& sent[1] == 0 -> send(1, m) }						\
	:: d_step { etcd && sent[1] == m + 1 -> execute(1, m) }

#define CONTROLLER(c)									\
	:: d_step { etcd && leader == 0 && elections < ELECTIONS -> elect(c) }		\
	:: d_step { mine[c] != 0 && mine[c] != leader -> mine[c] = 0 }

#define registered(m)	(key[m] || !up[m] || !by_outage[m])

init {
	d_step {
		key[0] = true; key[1] = true; key[2] = true;
		up[0] = true; up[1] = true; up[2] = true;
		has_rows[0] = true; has_rows[1] = true; has_rows[2] = true
	}
end_quiet:	/* nothing is left to happen */
	do
	MEMBER(0)
	MEMBER(1)
	MEMBER(2)
	CONTROLLER(0)
	CONTROLLER(1)
	:: d_step { etcd && leader != 0 -> leader = 0 }
	:: d_step { etcd && outages == 0 -> outages++; etcd = false }
	:: d_step { !etcd -> end_outage() }
	:: d_step { wait[0] + wait[1] + back > 0 &&
		(back != 1 || (registered(0) && registered(1) && registered(2))) ->
		wait[0] = (wait[0] > 0 -> wait[0] - 1 : 0);
		wait[1] = (wait[1] > 0 -> wait[1] - 1 : 0);
		back = (back > 0 -> back - 1 : 0) }
	od
}
