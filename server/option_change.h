/* SPDX-License-Identifier: MIT */
/*
 * Changes of options while the server runs, by SIGHUP (server/reload.h) and by CONFIG set
 * (server/config_command.h): both make them here, so an option that one can change the other can,
 * with the same effect.
 */
#ifndef KVD_SERVER_OPTION_CHANGE_H
#define KVD_SERVER_OPTION_CHANGE_H

#include "server/server.h"

/* How many options differed, and were taken over, or need a restart. */
struct option_changes {
	unsigned int taken, refused;
};

/*
 * Takes over the options of @fresh that are live into server->config, with their effect. Others
 * keep their values. Each change is logged. @asks: the client that asked for it, which gets into
 * the audit log; NULL: SIGHUP, which also reads the files of [tls] and [users] again, and ends what
 * CONFIG set has set (server->options_set). The control thread calls it.
 */
struct option_changes options_take(struct server *server, const struct config *fresh,
				   const struct client *asks);

/* Reads the files of [tls] and [users] again, for SIGHUP without a valid configuration. */
void options_reread_files(struct server *server);

#endif /* KVD_SERVER_OPTION_CHANGE_H */
