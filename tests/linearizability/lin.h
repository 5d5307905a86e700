/* SPDX-License-Identifier: MIT */
/*
 * The linearizability checker: decides whether a recorded history of concurrent operations is
 * linearizable, key by key. Its names begin with lin_.
 *
 * Each thread records its calls and their results in its own log. lin_check() merges all logs,
 * splits them by key (a history is linearizable if that of each object is: Herlihy and Wing 1990)
 * and searches an order of the operations in which each takes effect at one instant between its
 * call and its return, and in which one item that is used by one client at a time gives every
 * recorded result. The head of lin_search.c describes the search.
 *
 * The item is absent at first. It has a value and a version. The version grows with each change
 * while the item exists; a new item, after a delete or expiry, may start with any version.
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
 *	RANGE					version and length		NOT_FOUND
 *	FLUSH					absent from now on		-
 *
 * RANGE reads a part of the value. The checker has no bytes of values, so it judges what a RANGE
 * says of the whole one: its version and value.len.
 *
 * INCR and DECR return NOT_FOUND if the item is absent, NOT_NUMBER if its value is no number.
 *
 * Each may also have NO_EFFECT (no space, busy) or be UNKNOWN (timeout, connection lost). An
 * unknown operation may take effect at any time after its call, or never.
 *
 * Time is in nanoseconds of one monotonic clock that all threads share. If a call
 * and a return have the same time, the two operations overlap.
 */
#ifndef KVD_TESTS_LINEARIZABILITY_LIN_H
#define KVD_TESTS_LINEARIZABILITY_LIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Limit of pending operations on one key: of those with known results, and of those without. */
#define LIN_PENDING_MAX 64
/* Defaults of struct lin_options: at most 40 MiB and a few minutes. */
#define LIN_CONFIGS_MAX (1u << 18)
#define LIN_STEPS_MAX (UINT64_C(1) << 30)
/* Possible states that struct lin_result shows. */
#define LIN_STATES_MAX 8
/* About 2^61 / golden ratio: the base of the hash in struct lin_value. */
#define LIN_BASE UINT64_C(0x13c6ef372fe94f82)
/* The return time of an operation with an unknown result. */
#define LIN_NEVER UINT64_MAX

/* clang-format off */
#define LIN_KIND_MAP(X) \
	X(GET) X(PUT) X(ADD) X(REPLACE) X(CAS) X(DELETE) X(APPEND) X(PREPEND) X(INCR) X(DECR) \
	X(TOUCH) X(RANGE) X(FLUSH)
/* clang-format on */

#define LIN_STATUS_MAP(X) X(UNKNOWN) X(OK) X(NOT_FOUND) X(EXISTS) X(NOT_NUMBER) X(NO_EFFECT)

#define X(name) LIN_##name,
enum lin_kind { LIN_KIND_MAP(X) LIN_KINDS };
enum lin_status { LIN_STATUS_MAP(X) LIN_STATUSES };
#undef X

/*
 * Stands for a value of bytes b[0] to b[n - 1]: their polynomial hash, the sum of (b[i] + 1) *
 * LIN_BASE^(n - 1 - i) modulo 2^61 - 1, and n. The hash of two concatenated values is hash(a) *
 * LIN_BASE^len(b) + hash(b), which the model computes for APPEND and PREPEND. A value of 1 to 20
 * digits that fits 64 bits is also a number, for INCR and DECR. Two values count as equal if hash
 * and length are: for different ones the probability is 2^-61 times the length, unless an
 * adversary chose them.
 */
struct lin_value {
	uint64_t hash;
	uint64_t number; /* if is_number, else 0 */
	uint32_t len;
	bool is_number;
};

/* Makes a value from bytes; takes about 2 ns a byte. */
struct lin_value lin_value(const void *bytes, size_t len);
/* Makes the value that INCR and DECR write: @number in decimal, without leading zeros. */
struct lin_value lin_number(uint64_t number);
/* Concatenate: lin_append(v(a), v(b)) is lin_value() of a's bytes followed by b's. */
struct lin_value lin_append(struct lin_value old, struct lin_value piece);
struct lin_value lin_prepend(struct lin_value old, struct lin_value piece);
bool lin_same(const struct lin_value *a, const struct lin_value *b);

struct lin_op {
	uint64_t call_ns, return_ns;
	uint64_t version; /* in the response; 0: it had none */
	uint64_t arg;	  /* CAS: expected version; INCR, DECR: delta */
	/* GET, INCR, DECR: the result; RANGE: the length alone; others: the argument. */
	struct lin_value value;
	uint32_t key;
	uint16_t client;
	uint8_t kind, status;
	bool mortal; /* PUT, ADD, REPLACE, CAS, TOUCH: with an expiry: the item may vanish */
};

/* One thread's operations, in the order of its calls. Only that thread uses it: no locks. */
struct lin_log {
	struct lin_op *ops;
	size_t count, room;
	uint16_t client;
	bool failed; /* out of memory: lin_check() refuses the log */
};

void lin_log_init(struct lin_log *log, uint16_t client);
void lin_log_release(struct lin_log *log);

/*
 * Records a call. Call it before the operation starts, with call_ns, key, kind and, where they
 * apply, arg, value and mortal set. Returns the operation's index in the log, for lin_return(), or
 * -ENOMEM. The result is unknown until lin_return(), so the log of a thread that ends is valid. A
 * log may have several operations pending.
 */
int64_t lin_call(struct lin_log *log, const struct lin_op *op);

/*
 * Records a return. Call it after the operation ended. @value: the result of GET, INCR, DECR or
 * RANGE, else NULL. With LIN_UNKNOWN the operation stays pending and @now_ns is ignored. A negative
 * @index does nothing.
 */
void lin_return(struct lin_log *log, int64_t index, uint64_t now_ns, enum lin_status status,
		uint64_t version, const struct lin_value *value);

struct lin_options {
	/*
	 * Any item, not only a mortal one, may become absent at any instant (eviction). Only a
	 * write brings it back.
	 */
	bool vanish;
	/*
	 * Limits for one key: configurations at the same time (memory) and steps in total (time).
	 * 0: default.
	 */
	uint32_t configs_max;
	uint64_t steps_max;
};

enum lin_verdict {
	LIN_RIGHT,
	LIN_WRONG,
	LIN_UNDECIDED, /* a limit was exceeded: not a pass */
};

/* A possible state of one key's item, after the responses so far. */
struct lin_state {
	struct lin_value value;
	uint64_t version;     /* exact, or the lower bound; 0 if absent */
	uint64_t not_version; /* not exact: one above the bound that is ruled out; 0: none */
	bool present, exact, mortal;
	/*
	 * Not exact: more versions than not_version were ruled out. Exact: the version may be one
	 * of those, which were not kept.
	 */
	bool doubtful;
};

/*
 * The logs must not change while the result is in use. If several keys are wrong, the result is
 * that of the lowest one.
 */
struct lin_result {
	enum lin_verdict verdict;
	const char *why; /* NULL if right */
	uint32_t key;	 /* the wrong or undecided one */
	/*
	 * Wrong: the first operation of the key at whose return there is no order; there is one
	 * for the @returned_before operations that returned before it. Undecided: where the search
	 * stopped; NULL: at the end of the history.
	 */
	const struct lin_op *op;
	const struct lin_op *other; /* lin_check_versions(): the one that contradicts @op */
	uint64_t returned_before;
	/* The item's possible states before that return, with @op not yet in the order. */
	struct lin_state states[LIN_STATES_MAX];
	size_t states_count, states_kept;
	/* Cost of the check of all keys. */
	uint64_t ops, steps;
	uint32_t keys, configs_peak;
	const struct lin_log *logs;
	size_t logs_count;
};

/*
 * Checks whether the logs are linearizable. @options may be NULL. Returns 0 and the verdict in
 * @result; -EINVAL if a log is invalid (a return before its call, a status that the kind does not
 * have, an operation missing for lack of memory); -ENOMEM.
 */
int lin_check(const struct lin_log *logs, size_t count, const struct lin_options *options,
	      struct lin_result *result);

/*
 * Checks the versions of all keys together: no two changes return the same version, and all
 * responses with the same version have the same key and value. Returns as lin_check(); the verdict
 * is never LIN_UNDECIDED.
 */
int lin_check_versions(const struct lin_log *logs, size_t count, struct lin_result *result);
/* Likewise for a fleet, in which keys of different members may have one version. */
int lin_check_fleet_versions(const struct lin_log *logs, size_t count, struct lin_result *result);

/*
 * Prints the verdict in a line and, if it is not LIN_RIGHT, the operations and possible states that
 * it is based on, to find the bug.
 */
void lin_explain(FILE *out, const struct lin_result *result);

#endif /* KVD_TESTS_LINEARIZABILITY_LIN_H */
