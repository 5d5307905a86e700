/* SPDX-License-Identifier: MIT */
/* Metrics of the process, by the names that all exporters of Prometheus give them. */
#ifndef KVD_SERVER_HTTP_PROCESS_H
#define KVD_SERVER_HTTP_PROCESS_H

#include "server/http/exposition.h"

/* @started_unix_ns: since 1970. */
void process_write(struct exposition *out, uint64_t started_unix_ns);

#endif /* KVD_SERVER_HTTP_PROCESS_H */
