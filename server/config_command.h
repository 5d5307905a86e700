/* SPDX-License-Identifier: MIT */
/*
 * CONFIG requests (kvctl config), which the control thread executes: they print the options, change
 * those that are live (server/option_change.h), and write what was changed into the file of the
 * configuration (server/config/rewrite.h). For administrators.
 */
#ifndef KVD_SERVER_CONFIG_COMMAND_H
#define KVD_SERVER_CONFIG_COMMAND_H

#include "server/server.h"

/* Answers the requests that wait. Called after each wait for events; a rewrite waits for a disk. */
void config_command_run(struct server *server);

#endif /* KVD_SERVER_CONFIG_COMMAND_H */
