/* SPDX-License-Identifier: MIT */
/*
 * Order and exactly-once of changes: rules 7, 11, 12 and 13, for changes 0, 1, ... of one key by
 * one handle, while the shard moves between two members.
 *
 * A shard that moves, or whose member has no word, is one that nobody serves for a while. The
 * asserted order is that in which the program began the changes. The last state must be one in
 * which each change is done or unknown: any other is an invalid end state.
 */

#ifndef CHANGES
#define CHANGES		3
#endif
#ifndef TURNS				/* of who serves the shard */
#define TURNS		3
#endif
#ifndef BREAKS				/* of connections */
#define BREAKS		1
#endif
#define GENERATIONS	4
#define NOBODY		2

mtype = { NEW, SENT, LOST, REFUSED, DONE, UNKNOWN };

/* The members. */
byte owner = 0;				/* of the map */
bool served = true;			/* by the owner */
bool gone[2];				/* the process has ended, and its records with it */
typedef record {
	bool executed[CHANGES];
	byte refused;			/* the newest generation with a refusal (11) */
};
record has[2];

/* The connections: a change and its generation, and answers. */
chan requests[2] = [CHANGES] of { byte, byte };
chan answers[2] = [CHANGES] of { byte, mtype };

/* The client. */
mtype state[CHANGES];
byte to[CHANGES], generation[CHANGES];	/* where a change was sent, and with what */
byte g = 1;
byte c_owner = 0;			/* of its map */

byte turns, breaks;
byte executions[CHANGES];		/* ghost */
byte c, h, i;
bool found;
mtype what;

inline execute(m, change)
{
	executions[change]++;
	assert(executions[change] == 1);	/* I6 */
	for (i : change + 1 .. CHANGES - 1) {
		assert(executions[i] == 0)	/* 11 */
	};
	i = 0;
	has[m].executed[change] = true;
	answers[m]!change,DONE
}

inline refuse(m, change, with)
{
	has[m].refused = (has[m].refused > with -> has[m].refused : with);
	answers[m]!change,REFUSED
}

#define serves(m)	(owner == m && served && !gone[m])

/* 7: what was executed is answered so, whoever serves the shard by now. */
#ifdef BUG_EXECUTED_REFUSED
#define is_executed(m, change)	(has[m].executed[change] && serves(m))
#else
#define is_executed(m, change)	has[m].executed[change]
#endif
/* 11: after a refusal at a generation all changes of it are refused. */
#ifdef BUG_LATER_CHANGE_EXECUTED
#define is_refused(m, with)	false
#else
#define is_refused(m, with)	(with <= has[m].refused)
#endif

inline handle(m)
{
	requests[m]?c,h;
	if
	:: is_executed(m, c) -> answers[m]!c,DONE
	:: else ->
		if
		:: serves(m) && !is_refused(m, h) -> execute(m, c)
		:: else -> refuse(m, c, h)
		fi
	fi;
	c = 0;
	h = 0
}

inline take_answer(m)
{
	answers[m]?c,what;
	state[c] = what;
	what = NEW;
	c = 0
}

/* A connection breaks: requests and answers on it are lost. */
inline lose(m)
{
	do
	:: nempty(requests[m]) -> requests[m]?c,h
	:: empty(requests[m]) -> break
	od;
	do
	:: nempty(answers[m]) -> answers[m]?c,_
	:: empty(answers[m]) -> break
	od;
	for (c : 0 .. CHANGES - 1) {
		if
		:: state[c] == SENT && to[c] == m -> state[c] = LOST
		:: else
		fi
	};
#ifdef BUG_REFUSALS_OF_CONNECTION
	has[m].refused = 0;
#endif
	c = 0;
	h = 0
}

/* A process ends; what it may have executed is unknown (12). */
inline end_process(m)
{
	lose(m);
	for (c : 0 .. CHANGES - 1) {
		if
		:: state[c] == LOST && to[c] == m ->
#ifdef BUG_UNKNOWN_RESENT
			state[c] = NEW
#else
			state[c] = UNKNOWN
#endif
		:: else
		fi
	};
	gone[m] = true;
	c = 0
}

#define outstanding(change)	(state[change] == SENT || state[change] == LOST)
#define final(change)		(state[change] == DONE || state[change] == UNKNOWN)

/*
 * 11: a change follows the ones before it: they are done, or were sent on the same connection.
 * While a refusal is known, and until all else has been answered, nothing is sent.
 */
#ifdef BUG_NEW_MAP_NOT_DRAINED
#define follows(earlier, m)	(final(earlier) || state[earlier] == SENT)
#else
#define follows(earlier, m)	(final(earlier) || (state[earlier] == SENT && to[earlier] == m))
#endif
#ifdef BUG_REFUSAL_NOT_DRAINED
#define blocks(earlier)		false
#else
#define blocks(earlier)		(state[earlier] == REFUSED)
#endif

inline check_send(change, m)
{
	found = false;
	for (c : 0 .. CHANGES - 1) {
		found = found || blocks(c) || (c < change && !follows(c, m)
#ifdef BUG_REFUSAL_NOT_DRAINED
			&& state[c] != REFUSED
#endif
			) || (c < change && state[c] == LOST)
	};
	c = 0
}

inline send(change, m)
{
	state[change] = SENT;
	to[change] = m;
	requests[m]!change,generation[change]
}

/* 12: to whom it was sent, with the number that it had. */
#ifdef BUG_RESENT_ELSEWHERE
#define resend_to(change)	c_owner
#else
#define resend_to(change)	to[change]
#endif

#define settled		(turns == TURNS && served && !gone[owner] && c_owner == owner)

/* All refusals are answered: the client raises its generation and sends again, in order. */
inline raise()
{
	g++;
	for (c : 0 .. CHANGES - 1) {
		if
		:: state[c] == REFUSED -> state[c] = NEW
		:: else
		fi
	};
	c = 0
}

#ifdef BUG_REFUSAL_NOT_DRAINED
#define drained		true
#else
#define drained		(!outstanding(0) && !outstanding(1) && !outstanding(CHANGES - 1))
#endif
#define any(what)	(state[0] == what || state[1] == what || state[CHANGES - 1] == what)

#define SEND(change)									\
	:: atomic { state[change] == NEW && !gone[c_owner] && (g < GENERATIONS || settled) ->	\
		check_send(change, c_owner);						\
		if									\
		:: !found -> generation[change] = g; send(change, c_owner)		\
		:: else									\
		fi;									\
		found = false }								\
	:: atomic { state[change] == LOST && !gone[resend_to(change)] &&		\
		(change == 0 || state[0] != LOST) && (change <= 1 || state[1] != LOST) ->	\
		send(change, resend_to(change)) }

#define MEMBER(m)									\
	:: atomic { nempty(requests[m]) -> handle(m) }					\
	:: atomic { nempty(answers[m]) -> take_answer(m) }				\
	:: atomic { breaks < BREAKS && (nempty(requests[m]) || nempty(answers[m])) ->	\
		breaks++; lose(m) }							\
	/* One process ends, and by rule 9 the other member gets the shard. */		\
	:: atomic { turns < TURNS && !gone[0] && !gone[1] && owner == m ->		\
		turns++; end_process(m); owner = 1 - m; served = false }

init {
	atomic {
		for (c : 0 .. CHANGES - 1) {
			state[c] = NEW
		};
		c = 0
	}
	do
	MEMBER(0)
	MEMBER(1)
	SEND(0)
	SEND(1)
#if CHANGES > 2
	SEND(2)
#endif
	:: atomic { any(REFUSED) && drained && (g < GENERATIONS - 1 || settled) -> raise() }
	/* The owner freezes; then it gives, or opens again; or it has no word for a while. */
	:: atomic { turns < TURNS && served -> turns++; served = false }
	:: atomic { !served && turns < TURNS && !gone[1 - owner] -> turns++; owner = 1 - owner }
	:: atomic { !served -> served = true }
	/* 13: a map comes with a refusal, or because a READ has seen a newer epoch. */
	:: atomic { c_owner != owner -> c_owner = owner }
	:: atomic { final(0) && final(1) && final(CHANGES - 1) -> break }
	od
}
