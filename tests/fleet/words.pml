/* SPDX-License-Identifier: MIT */
/*
 * Words, READs, failover and registration: rules 1 to 7 and 9, on one key of one shard.
 *
 * One process takes all steps, one guarded step at a time and in any order, so whatever takes no
 * step for a while is frozen. README.md says what is modelled, and why steps may be joined.
 *
 * A clock is a countdown in ticks. Margins are spent already: a word ends as late, and a wait is as
 * short, as clocks that are wrong by less than the margin allow.
 *
 * Ghosts judge the reads. Each state of the key (after a change, or emptied by a failover) has a
 * number, in the order in which the states took effect. `seen` is the newest state that an answer
 * has shown: a GET that starts now may return no older one.
 */

#ifdef PREDECESSOR			/* two processes of one member */
#define ID(p)		0
#define IDS		1
#else
#define ID(p)		(p)
#define IDS		2
#endif
#define NOBODY		2

#define W		2		/* ticks */
#ifndef EPOCHS				/* at this epoch the map changes no more */
#define EPOCHS		5
#endif
#ifndef PUTS
#define PUTS		1
#endif

/* etcd: a key for each member, and the map, which has one row. */
byte key[IDS];				/* the session that registered it; 0: absent */
byte session[IDS];
byte epoch, owner, since;
bool opens;				/* the row's flag open */
#ifdef PREDECESSOR
byte process;				/* the member's incarnation */
byte file_row, file_session, file_item;	/* a copy of memory.file, after a clean stop */
bool file_absent;
#endif

typedef member {
	bool started;
	byte mine;			/* the session of the key that it believes to have */
	byte map;			/* the epoch of the map that it knows */
	byte row;			/* `since` of the row that it has; 0: none */
	byte row_session;		/* the session in which it had it last */
	bool open;			/* it serves the row, by request at least */
	byte wait;
	byte e, end;			/* the word */
	bool late;			/* e is older than the last registration: no extension */
	byte extend_end;		/* what a good answer to the transaction of rule 4 gives */
	byte item;			/* the state of the key that its memory shows */
	bool absent;			/* which is that of no item */
	byte change, change_row;	/* a PUT in a worker, past its check */
	byte last_row;			/* ghost */
};
member m[2];

/* A client: its map, the word that it knows, and its READ. */
byte c_map, c_process, c_since;
bool c_open;
byte w_of, w_e, w_end;
mtype = { IDLE, POSTED, DONE };
mtype get;
byte g_process, g_floor, g_item;
bool g_absent;

byte newest, seen, opened, opened_state, puts, unused;	/* ghosts */

#ifdef BUG_CONTROLLER_COMPARES_MAP
bool seen_absent[IDS];
#define absent(id)	seen_absent[id]
#define note_absent(id)	seen_absent[id] = true
#else
#define absent(id)	(key[id] == 0)		/* 2b, at the instant of the transaction */
#define note_absent(id)	skip
#endif

#ifdef BUG_NO_MARGIN
#define WORD_TICKS	(W + 1)
#else
#define WORD_TICKS	W
#endif

#define see(state)	seen = (seen > state -> seen : state)
#define less(ticks)	ticks = (ticks > 0 -> ticks - 1 : 0)
#define owns(p)		(owner == ID(p))

/* 6: the row of the map and the word's e. */
#ifdef BUG_EPOCH_IGNORED
#define row_counts	(c_open && c_since <= w_e)
#else
#define row_counts	(c_open && c_since <= w_e && w_e <= c_map)
#endif

/* 6: by a clock that is read after the completion. */
#ifdef BUG_CLOCK_BEFORE_READ
#define in_time		true
#else
#define in_time		(w_end > 0)
#endif

/* 6: a READ is judged by the map and the word that were known when it was posted. */
#ifdef BUG_JUDGED_BY_NEW_MAP
#define may_post	(c_map != 0)
#else
#define may_post	(w_of == c_process && row_counts && in_time)
#endif

/* 7 */
#ifdef BUG_SERVER_IGNORES_END
#define serves(p)	(m[p].open)
#else
#define serves(p)	(m[p].open && m[p].end > 0)
#endif

/* 3: a grace period ends when no worker is in a change. */
#ifdef BUG_NO_GRACE_PERIOD
#define grace(p)	true
#else
#define grace(p)	(m[p].change == 0)
#endif

/* 3: which row of the map is the one that the member has. */
#ifdef BUG_SINCE_IGNORED
#define same_row(p)	(m[p].row != 0)
#else
#define same_row(p)	(m[p].row == since)
#endif
#ifdef BUG_SESSION_IGNORED
#define same_session(p)	true
#else
#define same_session(p)	(m[p].row_session == session[ID(p)])
#endif

/* 4: the transaction compares the member's own key. */
#ifdef BUG_EXTENDS_BY_ANY_KEY
#define own_key(p)	(key[ID(p)] != 0)
#else
#define own_key(p)	(key[ID(p)] == m[p].mine)
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
		   uses(m[0].change) || uses(m[1].change) || uses(g_floor) || uses(g_item)
		:: else ->
			squeezed(seen); squeezed(opened_state); squeezed(m[0].item);
			squeezed(m[1].item); squeezed(m[0].change); squeezed(m[1].change);
			squeezed(g_floor); squeezed(g_item);
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

/* 3: items become absent. If another owner has opened since, they are what its opening shows. */
inline drop(p)
{
	m[p].last_row = (m[p].row != 0 -> m[p].row : m[p].last_row);
	if
	:: opened > m[p].last_row -> m[p].item = opened_state
	:: else -> new_state(m[p].item)
	fi;
	m[p].absent = true;
	m[p].row = 0;
	m[p].open = false;
	m[p].wait = 0
}

/* 9: the wait begins when the row is first read. */
inline take(p)
{
	m[p].row = since;
#ifndef BUG_LEASE_TRUSTED
	m[p].wait = W
#endif
}

/* 5: in the newest map all open rows of a member are served: it opens them itself. */
inline store_e(p)
{
	m[p].e = m[p].map;
	m[p].late = false
}

/* The flag open of a row that its owner does not serve yet. */
#ifdef BUG_ASSIGNED_OPEN
#define closed_row	true
#else
#define closed_row	false
#endif

inline read_map(p)
{
	m[p].map = epoch;
	if
	:: owns(p) && same_row(p) -> m[p].row = since
	:: owns(p) && !same_row(p) -> drop(p); take(p)
	:: !owns(p) && m[p].row != 0 -> drop(p)
	:: else
	fi;
	store_e(p)
}

inline open_row(p)
{
	new_state(m[p].item);
	m[p].absent = true;
	m[p].open = true;
	opened = m[p].row;
	opened_state = newest
}

/* 2a: the row is READ, too, from then on. */
inline open_to_reads(p)
{
	epoch++;
	since = epoch;
	opens = true;
	m[p].row = epoch;
	m[p].map = epoch;
	store_e(p)
}

/*
 * 3: the transaction compares the map, so it is as if that was read at the same instant, and it
 * renews a row that can't be proven.
 */
inline enter(p)
{
	epoch++;
#ifdef BUG_EXTENDS_BEFORE_DROP
	skip;
#else
	if
	:: owns(p) && same_row(p) && same_session(p) -> m[p].row = since; m[p].map = epoch
	:: owns(p) && !(same_row(p) && same_session(p)) ->
		drop(p);
		since = epoch;
		opens = closed_row;
		take(p);
		m[p].map = epoch
	:: !owns(p) && m[p].row != 0 -> drop(p); m[p].map = epoch
	:: else -> m[p].map = epoch
	fi;
#ifndef BUG_E_NOT_RAISED
	m[p].late = true;
	store_e(p);
#endif
#endif
	session[ID(p)]++;
	key[ID(p)] = session[ID(p)];
	m[p].mine = session[ID(p)];
	m[p].row_session = session[ID(p)];
#ifdef PREDECESSOR
	process = p
#endif
}

/* 4: t0 and the transaction. Its answer comes later. */
inline extend(p)
{
	if
	:: own_key(p) -> m[p].extend_end = WORD_TICKS
	:: else -> m[p].mine = 0
	fi
}

inline end_extend(p)
{
	if
	:: !m[p].late ->
#ifdef BUG_LEASE_FROM_ANSWER
		m[p].end = WORD_TICKS
#else
		m[p].end = (m[p].end > m[p].extend_end -> m[p].end : m[p].extend_end)
#endif
	:: else
	fi;
	m[p].extend_end = 0
}

/* I1: at any instant at most one member acknowledges. */
#define alone(p)	(!serves(1 - p))

inline check_put(p)
{
	assert(alone(p));
	puts++;
	new_state(m[p].change);
	m[p].change_row = m[p].row
}

/* In the RCU section of its check. If the row has another owner by now, it took effect before. */
inline do_put(p)
{
	if
	:: opened > m[p].change_row
	:: else -> new_state(m[p].change)
	fi;
	m[p].item = m[p].change;
	m[p].absent = false;
	see(m[p].item);
	m[p].change = 0;
	m[p].change_row = 0
}

inline get_by_request(p)
{
	assert(alone(p));
	assert(m[p].item >= seen);		/* I4 */
	see(m[p].item)
}

inline forget_word()
{
	w_of = NOBODY;
	w_e = 0;
	w_end = 0
}

inline end_get()
{
	get = IDLE;
	g_process = 0;
	g_floor = 0;
	g_item = 0;
	g_absent = false;
	if
	:: w_end == 0 -> forget_word()
	:: else
	fi
}

inline fetch_map()
{
	c_map = epoch;
	c_since = since;
	c_open = opens;
#ifdef PREDECESSOR
	c_process = process
#else
	c_process = owner
#endif
}

inline read_word(p)
{
	w_of = p;
	w_e = m[p].e;
	w_end = m[p].end
}

inline post_get()
{
	get = POSTED;
	g_process = c_process;
	g_floor = seen
}

inline do_read()
{
	g_item = m[g_process].item;
	g_absent = m[g_process].absent
}

inline judge()
{
	if
	:: row_counts && in_time && w_of == g_process && c_process == g_process ->
		/* I2, I5. A miss may be what an opening since the GET began has made. */
		assert(g_item >= g_floor || (g_absent && opened_state >= g_floor));
		see(g_item)
	:: else
	fi;
	end_get()
}

#ifdef PREDECESSOR
/* A clean stop, and a start with the memory.file that it left: served rows are in it. */
inline restart(p)
{
	m[p].mine = 0; m[p].map = 0; m[p].e = 0; m[p].end = 0; m[p].late = false;
	m[p].extend_end = 0; m[p].change = 0; m[p].change_row = 0; m[p].wait = 0;
#ifdef BUG_WAIT_FORGOTTEN
	m[p].open = (m[p].row != 0);
#endif
	if
	:: m[p].open ->
		file_row = m[p].row;
		file_session = m[p].row_session;
		file_item = m[p].item;
		file_absent = m[p].absent
	:: else -> drop(p)
	fi;
	/* Connections to the process have ended. */
	if
	:: w_of == p -> forget_word()
	:: else
	fi;
	if
	:: get != IDLE && g_process == p -> end_get()
	:: else
	fi
}

inline start(p)
{
	m[p].started = true;
	m[p].row = file_row;
	m[p].last_row = file_row;
	m[p].row_session = file_session;
	m[p].item = file_item;
	m[p].absent = (file_row == 0 || file_absent);
	m[p].open = (file_row != 0)
}
#endif

inline tick()
{
	less(m[0].end); less(m[0].wait); less(m[0].extend_end);
	less(m[1].end); less(m[1].wait); less(m[1].extend_end);
	less(w_end);
	if
	:: w_end == 0 && get == IDLE -> forget_word()
	:: else
	fi
}

inline begin()
{
	epoch = 2; since = 2; opens = true;
	newest = 1; seen = 1; opened = 2;
	key[0] = 1; session[0] = 1;
	m[0].started = true; m[0].mine = 1; m[0].map = 2; m[0].e = 2;
	m[0].row = 2; m[0].row_session = 1; m[0].open = true; m[0].item = 1;
#ifndef PREDECESSOR
	key[1] = 1; session[1] = 1;
	m[1].started = true; m[1].mine = 1; m[1].row_session = 1; m[1].map = 2; m[1].e = 2;
	m[1].absent = true;
#endif
#ifdef RETURN				/* the row went on while member 0 was frozen */
	epoch = 3; since = 3; owner = 1;
	newest = 2; seen = 2; opened = 3; opened_state = 2;
	key[0] = 0;
	m[1].map = 3; m[1].e = 3; m[1].row = 3; m[1].open = true; m[1].item = 2;
#endif
	get = IDLE;
	w_of = NOBODY
}

#define STEPS(p)									\
	:: d_step { m[p].started && m[p].map < epoch -> read_map(p); squeeze() }	\
	:: d_step { m[p].mine != 0 && m[p].extend_end == 0 && m[p].end < WORD_TICKS -> extend(p) } \
	:: d_step { m[p].extend_end > 0 -> end_extend(p) }				\
	:: d_step { m[p].started && m[p].mine == 0 && key[ID(p)] == 0 && epoch < EPOCHS	\
		-> enter(p); squeeze() }						\
	:: d_step { m[p].row != 0 && !m[p].open && m[p].wait == 0 && grace(p)		\
		-> open_row(p); squeeze() }						\
	:: d_step { m[p].open && owns(p) && m[p].map == epoch && m[p].row == since &&	\
		!opens && own_key(p) && epoch < EPOCHS -> open_to_reads(p) }		\
	:: d_step { serves(p) && m[p].change == 0 && puts < PUTS -> check_put(p) }	\
	:: d_step { m[p].change != 0 -> do_put(p); squeeze() }				\
	:: d_step { serves(p) && m[p].item != seen -> get_by_request(p); squeeze() }	\
	/* etcd loses a lease, whether it was kept alive or not. */			\
	:: d_step { key[ID(p)] != 0 -> key[ID(p)] = 0; note_absent(ID(p)) }

init {
	d_step { begin() }
	do
	STEPS(0)
	STEPS(1)
#ifdef PREDECESSOR
	:: d_step { m[0].map != 0 -> restart(0); squeeze() }
	:: d_step { m[1].map != 0 -> restart(1); squeeze() }
	:: d_step { !m[1].started -> start(1) }
#else
	/* The controller gives an absent owner's row to the other member. */
	:: d_step { absent(owner) && epoch < EPOCHS -> 
		epoch++; since = epoch; owner = 1 - owner; opens = closed_row }
#endif

	:: d_step { get == IDLE && c_map != epoch -> fetch_map() }
	:: d_step { get == IDLE && c_map != 0 && m[c_process].end > 0 -> read_word(c_process) }
	:: d_step { get == IDLE && may_post -> post_get() }
#ifdef BUG_JUDGED_BY_NEW_MAP
	:: d_step { get == POSTED -> get = DONE; do_read(); squeeze() }
	:: d_step { get == DONE && m[g_process].end > 0 -> read_word(g_process) }
	:: d_step { get == DONE -> fetch_map() }
	:: d_step { get == DONE -> judge(); squeeze() }
#else
	:: d_step { get == POSTED -> do_read(); judge(); squeeze() }
#endif

	:: d_step { tick() }
	od
}
