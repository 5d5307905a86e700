/* SPDX-License-Identifier: MIT */
/*
 * Brings what the workers have noted of their operations (server/worker/trace.h) to the slow log
 * and to the sample (server/control/trace_log.h). The control thread's.
 */
#ifndef KVD_SERVER_CONTROL_TRACES_H
#define KVD_SERVER_CONTROL_TRACES_H

#include "server/control/net.h"

/*
 * Takes what the workers have noted, and logs what was slow. Called once a second, before each look
 * at a log, and before a client's number is forgotten.
 */
void traces_take(struct net *net);

/* Tells the workers the value of log.slow, which may be a new one. */
void traces_renew(struct net *net);

#endif /* KVD_SERVER_CONTROL_TRACES_H */
