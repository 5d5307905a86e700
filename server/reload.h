/* SPDX-License-Identifier: MIT */
/* SIGHUP: reopens the log files and rereads the configuration. */
#ifndef KVD_SERVER_RELOAD_H
#define KVD_SERVER_RELOAD_H

#include "server/server.h"

/*
 * Reopens the log files and rereads the configuration from its source, and the files that it names
 * in [tls] and [users]. Live options are taken over, also those that CONFIG set has set: what the
 * source says counts, as after a start. Other changed options keep their values, and the log names
 * them. If the source has errors, all options keep their values. Errors are logged.
 *
 * For the control thread.
 */
void reload(struct server *server);

#endif /* KVD_SERVER_RELOAD_H */
