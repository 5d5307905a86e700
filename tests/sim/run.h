/* SPDX-License-Identifier: MIT */
/*
 * One run of the simulation: a server, clients that do random operations on few keys, and somebody
 * a thread that disturbs them; then the judgement of what the clients saw.
 */
#ifndef KVD_TESTS_SIM_RUN_H
#define KVD_TESTS_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_CLIENTS_MAX 4
#define RUN_KEYS_MAX 8

/* clang-format off */
#define RUN_FEATURES(X)							\
	X(TEAR, "tear")		/* READs are torn in pieces */		\
	X(GROW, "grow")		/* the index grows */			\
	X(LARGE, "large")	/* values that the server READs */	\
	X(EVICT, "evict")	/* memory is full */			\
	X(BATCH, "batch")	/* several operations at a time */	\
	X(EXPIRE, "expire")	/* items with a time to live */		\
	X(CLOSE, "close")	/* handles closed in the middle */	\
	X(RESET, "reset")	/* connections get lost */		\
	X(RESTART, "restart")	/* the server is started again */
/* clang-format on */

enum run_feature {
#define X(name, text) RUN_##name##_NUMBER,
	RUN_FEATURES(X)
#undef X
		RUN_FEATURE_COUNT,
};

#define X(name, text) RUN_##name = 1 << RUN_##name##_NUMBER,
enum run_features { RUN_FEATURES(X) };
#undef X

struct run_params {
	uint64_t seed;	   /* of what the clients do */
	uint64_t schedule; /* the seed of the scheduler */
	uint32_t clients, ops, keys;
	uint32_t features;
	uint64_t disturbances; /* at most */
	bool broken;	       /* a client reports values that it got before: must be noticed */
};

/* Parameters that a seed stands for. */
void run_params_draw(struct run_params *params, uint64_t seed);

/* "tear" and so on. */
const char *run_feature_name(enum run_feature number);

/* Runs it and prints a line. Returns if nothing was wrong, or ends the process with status 1. */
void run(const struct run_params *params, bool verbose);

#endif /* KVD_TESTS_SIM_RUN_H */
