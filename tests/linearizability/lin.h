/* SPDX-License-Identifier: MIT */
/*
 * Is a history of concurrent operations linearizable, key by key?
 *
 * A thread records what it calls and what it gets in a log of its own; lin_check() takes all logs
 * together, splits them by key (a history is linearizable if it is so for each object alone:
 * Herlihy and Wing 1990) and looks for an order in which every operation takes effect at one
 * instant between its call and its return, and in which one item, used by one client at a time,
 * gives every answer that was recorded. How it looks for it is at the head of lin_search.c.
 *
 * The item is absent at first. It has a value and a version; the version grows with each change for
 * as long as the item lives, and starts anywhere in the next life.
 *
 *	kind		value, arg		OK means			else
 *	GET					found, value and version	NOT_FOUND
 *	PUT		written			version				-
 *	ADD		written			it was absent; version		EXISTS
 *	REPLACE		written			it was present; version		NOT_FOUND
 *	CAS		written, expected	arg was its version; version	EXISTS, NOT_FOUND
 *	DELETE					it was present			NOT_FOUND
 *	APPEND		piece			value is old, piece; version	NOT_FOUND
 *	PREPEND		piece			value is piece, old; version	NOT_FOUND
 *	INCR		result, delta		modulo 2^64; value, version	see below
 *	DECR		result, delta		0 at least; value, version	see below
 *	TOUCH					version, which stays		NOT_FOUND
 *	FLUSH					absent from now on		-
 *
 * INCR and DECR of what is absent answer NOT_FOUND, of what is no number NOT_NUMBER.
 *
 * Each may have had NO_EFFECT (no space, busy), and each may be UNKNOWN (timeout, connection lost):
 * such an operation may take effect at any time after its call, or never.
 *
 * Time is in nanoseconds of one monotonic clock that all threads share. Where a call and a return
 * have the same time, the two operations are taken to overlap.
 */
#ifndef KVD_TESTS_LINEARIZABILITY_LIN_H
#define KVD_TESTS_LINEARIZABILITY_LIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Operations pending on one key at a time: with known outcomes, and with unknown ones. */
#define LIN_PENDING_MAX 64
/* Defaults of struct lin_options: 40 MiB, and some minutes at worst. */
#define LIN_CONFIGS_MAX (1u << 18)
#define LIN_STEPS_MAX (UINT64_C(1) << 30)
/* Possible states that a result keeps. */
#define LIN_STATES_MAX 8
/* 2^61 divided by the golden ratio, or so: see struct lin_value. */
#define LIN_BASE UINT64_C(0x13c6ef372fe94f82)
/* When an operation with an unknown outcome returns. */
#define LIN_NEVER UINT64_MAX

/* clang-format off */
#define LIN_KIND_MAP(X) \
	X(GET) X(PUT) X(ADD) X(REPLACE) X(CAS) X(DELETE) X(APPEND) X(PREPEND) X(INCR) X(DECR) \
	X(TOUCH) X(FLUSH)
/* clang-format on */

#define LIN_STATUS_MAP(X) X(UNKNOWN) X(OK) X(NOT_FOUND) X(EXISTS) X(NOT_NUMBER) X(NO_EFFECT)

#define X(name) LIN_##name,
enum lin_kind { LIN_KIND_MAP(X) LIN_KINDS };
enum lin_status { LIN_STATUS_MAP(X) LIN_STATUSES };
#undef X

/*
 * What a value is, in place of its bytes b[0] to b[n - 1]: their polynomial hash, the sum of (b[i]
 * + 1) * LIN_BASE^(n - 1 - i) modulo 2^61 - 1, and n. So the hash of two values one after the other
 * is hash(a) * LIN_BASE^len(b) + hash(b), which the model computes for APPEND and PREPEND. What
 * consists of 1 to 20 digits and fits 64 bits is a number too, for INCR and DECR. Two values are
 * taken for one if hash and length are equal: no defence against an adversary, and 2^-61 times the
 * length otherwise.
 */
struct lin_value {
	uint64_t hash;
	uint64_t number; /* if is_number, else 0 */
	uint32_t len;
	bool is_number;
};

/* About 2 ns for a byte. */
struct lin_value lin_value(const void *bytes, size_t len);
/* The value that is @number in decimal, without leading zeros, as INCR and DECR write it. */
struct lin_value lin_number(uint64_t number);
/*
 * Old value and piece to new value; lin_append(v(a), v(b)) is lin_value() of a's bytes and then
 * b's.
 */
struct lin_value lin_append(struct lin_value old, struct lin_value piece);
struct lin_value lin_prepend(struct lin_value old, struct lin_value piece);
bool lin_same(const struct lin_value *a, const struct lin_value *b);

struct lin_op {
	uint64_t call_ns, return_ns;
	uint64_t version;	/* the answer's; 0: was not told, and can be any */
	uint64_t arg;		/* CAS: the version expected; INCR, DECR: the delta */
	struct lin_value value; /* of writes the argument; of GET, INCR and DECR the answer */
	uint32_t key;
	uint16_t client;
	uint8_t kind, status;
	bool mortal; /* PUT, ADD, REPLACE, CAS, TOUCH: with an expiry, so it may vanish by itself */
};

/* One thread's operations, in the order of its calls. No locks: it is that thread's alone. */
struct lin_log {
	struct lin_op *ops;
	size_t count, room;
	uint16_t client;
	bool failed; /* there was no memory: lin_check() refuses the log */
};

void lin_log_init(struct lin_log *log, uint16_t client);
void lin_log_release(struct lin_log *log);

/*
 * To be called before the operation starts, with call_ns, key, kind, arg, value and mortal set as
 * they apply; the rest is filled in. Returns its number in the log, for lin_return(), or -ENOMEM.
 * Until lin_return() its outcome is unknown, so a thread that dies leaves a right log. Several
 * operations of a log may be pending at once.
 */
int64_t lin_call(struct lin_log *log, const struct lin_op *op);

/*
 * To be called after the operation ended. @value: what GET found, what INCR or DECR made, else
 * NULL. With LIN_UNKNOWN it stays pending for ever, whatever @now_ns. A negative @index does
 * nothing.
 */
void lin_return(struct lin_log *log, int64_t index, uint64_t now_ns, enum lin_status status,
		uint64_t version, const struct lin_value *value);

struct lin_options {
	/*
	 * Any item may become absent at any instant (eviction), not only mortal ones. What vanished
	 * comes back by a write alone.
	 */
	bool vanish;
	/*
	 * For one key: configurations at a time (memory) and tried altogether (time). 0: default.
	 */
	uint32_t configs_max;
	uint64_t steps_max;
};

enum lin_verdict {
	LIN_RIGHT,
	LIN_WRONG,
	LIN_UNDECIDED, /* a maximum was exceeded: this is no pass */
};

/* What one key's item can be, as far as the answers so far tell. */
struct lin_state {
	struct lin_value value;
	uint64_t version;     /* exact, or the least that it can be; 0 if absent */
	uint64_t not_version; /* not exact: the one above the least that it can't be; 0: none */
	bool present, exact, mortal;
	/*
	 * Not exact: there was more than one not_version. Exact: and it may be one of those
	 * forgotten.
	 */
	bool doubtful;
};

/*
 * The logs have to stay as they are for as long as the result is used. Of several keys that are
 * wrong, the one with the lowest number is told.
 */
struct lin_result {
	enum lin_verdict verdict;
	const char *why; /* NULL if right */
	uint32_t key;	 /* the wrong or undecided one */
	/*
	 * Wrong: at its return there was no order left. Those of this key that returned before, so
	 * many, have one. Undecided: where it was given up. NULL: at the history's end.
	 */
	const struct lin_op *op;
	const struct lin_op *other; /* lin_check_versions(): the one that does not go with it */
	uint64_t returned_before;
	/* What the item could be right before that return, if @op was not in the order yet. */
	struct lin_state states[LIN_STATES_MAX];
	size_t states_count, states_kept;
	/* Of all keys: what it took. */
	uint64_t ops, steps;
	uint32_t keys, configs_peak;
	const struct lin_log *logs;
	size_t logs_count;
};

/*
 * @options may be NULL. Returns 0 and the verdict in @result; -EINVAL if a log holds what can't be
 * (a return before its call, a status that its kind does not have, a lost operation), -ENOMEM.
 */
int lin_check(const struct lin_log *logs, size_t count, const struct lin_options *options,
	      struct lin_result *result);

/*
 * Versions of all keys together: no two changes return the same one, and whoever sees a version
 * sees one key and one value with it. Returns as lin_check(); never undecided.
 */
int lin_check_versions(const struct lin_log *logs, size_t count, struct lin_result *result);

/*
 * The verdict in a line and, if it is not LIN_RIGHT, what goes with it: for who has to find the
 * bug.
 */
void lin_explain(FILE *out, const struct lin_result *result);

#endif /* KVD_TESTS_LINEARIZABILITY_LIN_H */
