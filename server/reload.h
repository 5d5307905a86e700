/* SPDX-License-Identifier: MIT */
/* SIGHUP: reopens the log file and rereads the configuration. */
#ifndef KVD_SERVER_RELOAD_H
#define KVD_SERVER_RELOAD_H

#include "server/config/config.h"

/*
 * Reopens the log file and rereads the configuration from its source. Options that can change while
 * kvd runs are taken over into @config. Other changed options keep their values, and the log names
 * them. If the source has errors, all options keep their values. Errors are logged.
 *
 * For the control thread. Other threads read @config meanwhile: only the control thread may read
 * the options that this function takes over.
 */
void reload(struct config *config, const struct config_source *source);

#endif /* KVD_SERVER_RELOAD_H */
