/* SPDX-License-Identifier: MIT */
/* SIGHUP: the log file is opened again, and the configuration read again. */
#ifndef KVD_SERVER_RELOAD_H
#define KVD_SERVER_RELOAD_H

#include "server/config/config.h"

/*
 * Has the log file opened again and reads the configuration from its source. Options that can
 * change while kvd runs are taken over into @config. The others that changed are named in the log
 * and keep their values, as all do if the source has errors. What fails is in the log.
 *
 * The control thread calls it. Other threads read @config meanwhile: what is taken over here only
 * the control thread may read from it.
 */
void reload(struct config *config, const struct config_source *source);

#endif /* KVD_SERVER_RELOAD_H */
