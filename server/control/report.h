/* SPDX-License-Identifier: MIT */
/* The control thread's half of REPORT (common/PROTOCOL.md): what administrators look for. */
#ifndef KVD_SERVER_CONTROL_REPORT_H
#define KVD_SERVER_CONTROL_REPORT_H

#include "server/control/net.h"

/* Fills in the answer to the query of @conn, a REPORT. */
void report_answer(struct net *net, struct conn *conn, struct query *query);

#endif /* KVD_SERVER_CONTROL_REPORT_H */
