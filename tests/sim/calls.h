/* SPDX-License-Identifier: MIT */
/* What a simulation does to the connections of its server. */
#ifndef KVD_TESTS_SIM_CALLS_H
#define KVD_TESTS_SIM_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* Connections that it can choose from. */
#define SIM_ACCEPTED_MAX 64

/* Shuts a connection that the server has accepted, as if the other side were gone. */
bool sim_reset_one(uint64_t random);

#endif /* KVD_TESTS_SIM_CALLS_H */
