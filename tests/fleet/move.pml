/* SPDX-License-Identifier: MIT */
/*
 * A shard that moves with its items, and flush: rules 2, 8, 10 and 14, on one key of one shard.
 *
 * Words, ticks and ghosts are those of words.pml. What that model shows is simpler here: a word is
 * extended in one step, and a READ takes effect and is judged in one step. State 0 of the key is
 * wrong wherever it is seen: no item, where there should be one.
 */

#define NOBODY		2
#ifndef W
#define W		1		/* ticks */
#endif
#ifndef EPOCHS				/* at this epoch the map changes no more */
#define EPOCHS		5
#endif
#ifndef PUTS
#define PUTS		2
#endif
#ifndef FLUSHES				/* that a client begins */
#define FLUSHES		1
#endif
#ifndef ATTEMPTS
#define ATTEMPTS	2
#endif

/* etcd: a key for each member, and the map, which has one row. */
byte key[2], session[2];		/* 0: absent; else the session that registered it */
byte epoch, owner, since;
bool opens;				/* the row's flag open */
bool given;				/* the row's flag given: its last owner has handed it over */

mtype = { IDLE, CLOSING, COPYING, FROZEN, CONFIRMED, GIVING };

typedef member {
	byte mine;			/* the session of the key that it believes to have */
	byte map;			/* the epoch of the map that it knows */
	byte row, row_session;		/* `since` of the row that it has; 0: none */
	bool open;			/* it serves the row: no wait (9) is left */
	byte wait;
	byte e, end;			/* the word */
	bool late;			/* e is older than the last registration: no extension */
	byte item;			/* the state of the key that its memory shows */
	bool absent;			/* which is that of no item */
	byte change, change_row;	/* a PUT or DELETE in a worker, past its check */
	byte version;			/* the counter of versions */
	/* As the owner that gives. */
	mtype move;
	byte attempt;
	byte l;				/* L: the largest end that was stored with e < E1 */
	bool dirty;
	byte target;			/* the session in which the other confirmed */
	/* As the one that receives. */
	byte closed;			/* `since` of the other's row, if that is closed in its map */
	byte copy;			/* the attempt of its copies; 0: none */
	/* Ghosts. */
	byte last_row;
	bool gave;
};
member m[2];

/* A message with a copy, and a transaction that gives: each may arrive late. */
byte x_closed, x_attempt, x_item;
bool x_absent;
byte x_to = NOBODY;
byte t_map, t_session, t_target;
byte t_of = NOBODY;

/* A client: its map, the word that it knows; and a client that flushes. */
byte c_map, c_process, c_since;
bool c_open;
byte w_of, w_e, w_end;
byte f_map, f_from;
byte z_end, z_item;			/* an earlier owner that has no key, but still a word */
bool f_done[2];
byte flushes;

byte newest, seen, opened, opened_state, puts, unused;	/* ghosts */
byte version;

#define see(state)	seen = (seen > state -> seen : state)
#define less(ticks)	ticks = (ticks > 0 -> ticks - 1 : 0)
#define owns(p)		(owner == p)
#define key_good(p)	(m[p].mine != 0 && key[p] == m[p].mine)
#define frozen(p)	(m[p].move == FROZEN || m[p].move == CONFIRMED || gives(p))

/* 8 (5): from sending until the outcome is known it answers nothing. */
#ifdef BUG_ANSWERS_WHILE_GIVING
#define gives(p)	false
#else
#define gives(p)	(m[p].move == GIVING)
#endif

/* 7 */
#define serves(p)	(m[p].open && m[p].end > 0 && !frozen(p))

#ifdef BUG_NO_GRACE_PERIOD
#define grace(p)	true
#else
#define grace(p)	(m[p].change == 0)
#endif

/* A row that its owner waits for (9) is not handed over. */
#ifdef BUG_HANDED_OVER_WAITING
#define may_close(p)	(m[p].row == since)
#define may_store(p)	(m[p].row == 0 || m[p].open || m[p].move == CLOSING)
#else
#define may_close(p)	(m[p].open)
#define may_store(p)	(m[p].row == 0 || m[p].open)
#endif

/* 6 */
#ifdef BUG_EPOCH_IGNORED
#define row_counts	(c_open && c_since <= w_e)
#else
#define row_counts	(c_open && c_since <= w_e && w_e <= c_map)
#endif

/* Only the order of states counts: numbers that nothing uses go. */
#define squeezed(state)	state = (state > unused -> state - 1 : state)
#define uses(state)	(state == unused)

inline squeeze()
{
	unused = newest;
	do
	:: unused == 0 -> break
	:: else ->
		if
		:: uses(seen) || uses(opened_state) || uses(m[0].item) || uses(m[1].item) ||
		   uses(m[0].change) || uses(m[1].change) || uses(x_item) || uses(f_from) ||
		   uses(z_item)
		:: else ->
			squeezed(seen); squeezed(opened_state); squeezed(m[0].item);
			squeezed(m[1].item); squeezed(m[0].change); squeezed(m[1].change);
			squeezed(x_item); squeezed(f_from); squeezed(z_item);
			newest--
		fi;
		unused--
	od;
	unused = 0
}

inline new_state(where)
{
	newest++;
	where = newest
}

/* 8: half a copy, or none. */
inline discard(p)
{
	m[p].item = (m[p].copy != 0 -> 0 : m[p].item);
	m[p].absent = true;
	m[p].copy = 0
}

/* The member has the row no more: its items become absent (3, 8). */
inline drop(p)
{
	m[p].last_row = (m[p].row != 0 -> m[p].row : m[p].last_row);
	if
	:: m[p].gave || m[p].copy != 0 || m[p].item == 0 -> m[p].item = 0
	:: else ->
		if
		:: opened > m[p].last_row -> m[p].item = opened_state
		:: else -> new_state(m[p].item)
		fi
	fi;
	m[p].gave = false;
	m[p].copy = 0;
	m[p].absent = true;
	m[p].row = 0;
	m[p].open = false;
	m[p].wait = 0;
	end_move(p)
}

inline end_move(p)
{
	m[p].move = IDLE;
	m[p].l = 0;
	m[p].dirty = false;
	m[p].target = 0
}

/* 8 (3) */
inline begin_copy(p)
{
	m[p].move = COPYING;
	m[p].attempt++;
	m[p].dirty = true;
	m[p].target = 0
}

/* 5; and 8 (2): with E1, all ends that were stored before are known. */
inline store_e(p)
{
	if
	:: may_store(p) ->
#ifdef BUG_E_NOT_STORED
		if
		:: m[p].move != CLOSING -> m[p].e = m[p].map
		:: else
		fi;
#else
		m[p].e = m[p].map;
#endif
		m[p].late = false;
		if
		:: m[p].move == CLOSING -> m[p].l = m[p].end; begin_copy(p)
		:: else
		fi
	:: else
	fi
}

/* A row that is new to the member: handed over with its items (8), or to be waited for (9). */
#ifdef BUG_GIVEN_NOT_IN_ROW
#define with_items(p)	(m[p].copy != 0)
#else
#define with_items(p)	(m[p].copy != 0 && given)
#endif

inline take(p)
{
	if
	:: with_items(p) ->
		m[p].open = true;
		m[p].copy = 0
	:: else ->
#ifndef FLUSH
		assert(!given);			/* I7: a hand-over loses nothing */
#endif
#ifdef BUG_COPY_KEPT
		m[p].wait = W
#else
		drop(p);
		m[p].wait = W
#endif
	fi;
	m[p].row = since
}

inline read_map(p)
{
	m[p].map = epoch;
	m[p].closed = (!owns(p) && !opens -> since : 0);
	if
	:: owns(p) && m[p].row == since && m[p].move == GIVING ->
		begin_copy(p)			/* its transaction has failed, since the map changed */
	:: owns(p) && m[p].row != since && m[p].row != 0 -> drop(p); take(p)
	:: owns(p) && m[p].row != since && m[p].row == 0 -> take(p)
	:: !owns(p) && m[p].row != 0 -> drop(p)
	:: else
	fi;
	store_e(p)
}

/* 9 */
inline open_row(p)
{
#ifdef BUG_COPY_KEPT
	if
	:: m[p].copy != 0 -> m[p].copy = 0
	:: else -> new_state(m[p].item); m[p].absent = true
	fi;
#else
	new_state(m[p].item);
	m[p].absent = true;
#endif
	m[p].open = true;
	m[p].version = version;			/* 10: new, and growing if clocks are right */
	opened = m[p].row;
	opened_state = newest;
	store_e(p)
}

inline extend(p)
{
	if
	:: key_good(p) && !m[p].late -> m[p].end = W
	:: !key_good(p) -> m[p].mine = 0
	:: else
	fi
}

/* 3, as in words.pml; copies and attempts end with a session (8). */
inline enter(p)
{
	epoch++;
	m[p].map = epoch;
	m[p].closed = (!owns(p) && !opens -> since : 0);
	if
	:: owns(p) && m[p].row == since && m[p].row_session == session[p] ->
		if
		:: opens -> end_move(p)
		:: else -> m[p].move = CLOSING
		fi
	:: owns(p) && !(m[p].row == since && m[p].row_session == session[p]) ->
		drop(p);
		since = epoch;
		given = false;
		m[p].row = since;
		m[p].wait = W
	:: !owns(p) && m[p].row != 0 -> drop(p)
	:: else -> discard(p)
	fi;
	m[p].late = true;
	store_e(p);
	session[p]++;
	key[p] = session[p];
	m[p].mine = session[p];
	m[p].row_session = session[p]
}

inline check_put(p)
{
	assert(!serves(1 - p));			/* I1 */
	puts++;
	new_state(m[p].change);
	m[p].change_row = m[p].row
}

/* In the RCU section of its check. If the row has been opened by another, it took effect before. */
inline do_put(p, removes)
{
	if
	:: opened > m[p].change_row
	:: else -> new_state(m[p].change)
	fi;
	m[p].item = m[p].change;
	m[p].absent = removes;
	if
	:: opened <= m[p].change_row ->
		m[p].version++;
		assert(m[p].version > version);	/* I3 */
		version = m[p].version
	:: else
	fi;
#ifdef BUG_REMOVAL_NOT_DIRTY
	m[p].dirty = m[p].dirty || (m[p].move != IDLE && !removes);
#else
	m[p].dirty = m[p].dirty || m[p].move != IDLE;
#endif
	see(m[p].item);
	m[p].change = 0;
	m[p].change_row = 0
}

inline get_by_request(p)
{
	assert(!serves(1 - p));			/* I1 */
	assert(m[p].item >= seen);
	see(m[p].item)
}

/* 8 (1), (2). */
inline close(p)
{
	epoch++;
	since = epoch;
	opens = false;
	given = false;
	m[p].map = epoch;
	m[p].row = epoch;
	m[p].move = CLOSING
}

inline abort(p)
{
	epoch++;
	since = epoch;
	opens = true;
	m[p].map = epoch;
	m[p].row = epoch;
	end_move(p);
	store_e(p)
}

inline send_copy(p)
{
	x_to = 1 - p;
	x_closed = m[p].row;
	x_attempt = m[p].attempt;
	x_item = m[p].item;
	x_absent = m[p].absent;
	m[p].dirty = false
}

inline receive_copy(p)
{
	if
#ifdef BUG_OLD_ATTEMPT_COPIED
	:: m[p].row == 0 && x_closed == m[p].closed ->
#else
#ifdef BUG_COPY_NOT_OF_ROW
	:: m[p].row == 0 && x_attempt == m[1 - p].attempt ->
#else
	:: m[p].row == 0 && x_closed == m[p].closed && x_attempt == m[1 - p].attempt ->
#endif
#endif
		m[p].item = x_item;
		m[p].absent = x_absent;
		m[p].copy = m[1 - p].attempt
	:: else
	fi;
	x_to = NOBODY;
	x_closed = 0;
	x_attempt = 0;
	x_item = 0;
	x_absent = false
}

inline confirm(p)
{
	m[p].move = CONFIRMED;
	m[p].target = m[1 - p].mine;
#ifndef BUG_VERSION_NOT_CARRIED
	m[1 - p].version = (m[1 - p].version > m[p].version -> m[1 - p].version : m[p].version)
#endif
}

inline send_give(p)
{
	m[p].move = GIVING;
	t_of = p;
	t_map = m[p].map;
	t_session = m[p].mine;
	t_target = m[p].target
}

#ifdef BUG_TARGET_NOT_COMPARED
#define target_good	true
#else
#define target_good	(key[1 - t_of] == t_target)
#endif
#define giver_good	(key[t_of] == t_session)

inline end_give()
{
	t_of = NOBODY;
	t_map = 0;
	t_session = 0;
	t_target = 0
}

inline do_give()
{
	if
	:: epoch == t_map && giver_good && target_good ->	/* 1, 2a */
		epoch++;
		since = epoch;
		opens = true;
		given = true;
		m[t_of].gave = true;
		owner = 1 - t_of
	:: else
	fi;
	end_give()
}

inline forget_word()
{
	w_of = NOBODY;
	w_e = 0;
	w_end = 0
}

inline read_word(p)
{
	w_of = p;
	w_e = m[p].e;
	w_end = m[p].end
}

inline fetch_map()
{
	c_map = epoch;
	c_since = since;
	c_process = owner;
	c_open = opens
}

inline get_by_read(p)
{
	assert(m[p].item >= seen);		/* I2, I5 */
	see(m[p].item)
}

/* 14: a member aborts copies, flushes, and answers with the epoch of its word. */
#ifdef BUG_FLUSH_ANSWERS_MAP
#define flush_epoch(p)	m[p].map
#else
#define flush_epoch(p)	m[p].e
#endif
#ifdef BUG_FLUSH_WHILE_GIVING
#define may_flush(p)	true
#else
#define may_flush(p)	(m[p].move != GIVING)
#endif

inline flush(p)
{
	if
	:: m[p].row != 0 && m[p].open -> new_state(m[p].item); m[p].absent = true
	:: m[p].row != 0 && !m[p].open
	:: else -> discard(p)
	fi;
#ifndef BUG_FLUSH_KEEPS_COPIES
	if
	:: m[p].move == COPYING || m[p].move == FROZEN || m[p].move == CONFIRMED -> begin_copy(p)
	:: else
	fi;
	if
	:: m[1 - p].move == COPYING || m[1 - p].move == FROZEN || m[1 - p].move == CONFIRMED ->
		begin_copy(1 - p)
	:: else
	fi;
#endif
	if
	:: flush_epoch(p) == f_map -> f_done[p] = true
	:: else -> f_map = 0; f_done[0] = false; f_done[1] = false; f_from = 0
	fi
}

inline tick()
{
	less(m[0].end); less(m[0].wait); less(m[0].l);
	less(m[1].end); less(m[1].wait); less(m[1].l);
	less(w_end);
	less(z_end);
	if
	:: w_end == 0 -> forget_word()
	:: else
	fi
}

inline begin()
{
	epoch = 2; since = 2; opens = true;
	newest = 1; seen = 1; opened = 2;
	version = 1;
	key[0] = 1; session[0] = 1; key[1] = 1; session[1] = 1;
	m[0].mine = 1; m[0].map = 2; m[0].e = 2; m[0].row = 2; m[0].row_session = 1;
	m[0].open = true; m[0].item = 1; m[0].version = 1; m[0].move = IDLE;
	m[1].mine = 1; m[1].map = 2; m[1].e = 2; m[1].row_session = 1; m[1].absent = true;
	m[1].move = IDLE;
	/* The client knows member 1 as the owner before. */
	c_map = 1; c_process = 1; c_since = 1; c_open = true;
	w_of = NOBODY;
#ifdef FAILOVER
	/* Member 0 has just read that it has the row of a member that is away. */
	m[0].open = false; m[0].wait = W; m[0].e = 1; m[0].item = 2; m[0].absent = true;
	newest = 2; opened = 1;
	z_end = W; z_item = 1
#endif
}

#define knows_map(p)	(m[p].map == epoch && epoch < EPOCHS && key_good(p))

#define STEPS(p)									\
	:: d_step { m[p].map < epoch -> read_map(p); squeeze() }			\
	:: d_step { m[p].mine != 0 && m[p].end < W -> extend(p) }			\
	:: d_step { m[p].mine == 0 && key[p] == 0 && epoch < EPOCHS -> enter(p); squeeze() }	\
	:: d_step { m[p].row != 0 && !m[p].open && m[p].wait == 0 && grace(p)		\
		-> open_row(p); squeeze() }						\
	:: d_step { serves(p) && m[p].change == 0 && puts < PUTS -> check_put(p) }	\
	:: d_step { m[p].change != 0 -> do_put(p, false); squeeze() }			\
	:: d_step { m[p].change != 0 -> do_put(p, true); squeeze() }			\
	:: d_step { serves(p) && m[p].item != seen -> get_by_request(p); squeeze() }	\
	:: d_step { key[p] != 0 -> key[p] = 0 }						\
	/* A move. */									\
	:: d_step { knows_map(p) && may_close(p) && opens && owns(p) && m[p].move == IDLE &&	\
		m[1 - p].row == 0 && grace(1 - p) && key[1 - p] != 0 && m[p].attempt < ATTEMPTS	\
		-> close(p) }								\
	:: d_step { m[p].move == CLOSING && m[p].attempt < ATTEMPTS -> store_e(p) }	\
	:: d_step { m[p].dirty && x_to == NOBODY -> send_copy(p) }			\
	:: d_step { x_to == p -> receive_copy(p); squeeze() }				\
	:: d_step { m[p].move == COPYING && l_passed(p) -> m[p].move = FROZEN }		\
	:: d_step { m[p].move == FROZEN && grace(p) && !m[p].dirty && x_to == NOBODY &&	\
		m[1 - p].copy == m[p].attempt && m[1 - p].mine != 0 -> confirm(p) }	\
	:: d_step { m[p].move == CONFIRMED && t_of == NOBODY -> send_give(p) }		\
	:: d_step { t_of == p -> do_give() }						\
	:: d_step { t_of == p -> end_give() }						\
	:: d_step { owns(p) && m[p].row == since && !opens && m[p].open && knows_map(p) -> abort(p) } \
	THAW(p)

/* An outcome is known when the map has changed, not when it was read unchanged. */
#ifdef BUG_UNCHANGED_MAP_IS_OUTCOME
#define THAW(p)	:: d_step { m[p].move == GIVING && m[p].map == epoch && m[p].attempt < ATTEMPTS \
			-> begin_copy(p) }
#else
#define THAW(p)
#endif

/* 8 (4) */
#ifdef BUG_L_IGNORED
#define l_passed(p)	true
#else
#define l_passed(p)	(m[p].l == 0)
#endif

init {
	d_step { begin() }
	do
	STEPS(0)
	STEPS(1)
	/* 2b */
	:: d_step { key[owner] == 0 && epoch < EPOCHS ->
		epoch++; since = epoch; owner = 1 - owner; opens = true; given = false }

#ifdef FAILOVER
	:: d_step { z_end > 0 && z_item != seen -> assert(z_item >= seen); see(z_item); squeeze() }
#endif
#ifdef FLUSH
	:: d_step { f_map == 0 && flushes < FLUSHES -> flushes++; f_map = epoch; f_from = newest }
	:: d_step { f_map != 0 && !f_done[0] && may_flush(0) -> flush(0); squeeze() }
	:: d_step { f_map != 0 && !f_done[1] && may_flush(1) -> flush(1); squeeze() }
	:: d_step { f_done[0] && f_done[1] ->
		see(f_from + 1);
		f_map = 0; f_done[0] = false; f_done[1] = false; f_from = 0; squeeze() }
#endif
	:: d_step { c_map != epoch -> fetch_map() }
	:: d_step { m[c_process].end > 0 -> read_word(c_process) }
	:: d_step { w_of == c_process && row_counts && w_end > 0 && m[c_process].item != seen ->
		get_by_read(c_process); squeeze() }

	:: d_step { tick() }
	od
}
