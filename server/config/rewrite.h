/* SPDX-License-Identifier: MIT */
/*
 * Writes changed options into the file of the configuration, for CONFIG rewrite, as a user would
 * edit it.
 *
 *   REWRITE-1. The file is read again. Only options that are given, and whose value in it differs,
 *	 change; every other byte stays, comments and the order of lines included.
 *   REWRITE-2. `key = value` is replaced where it stands, with the lines on which a list goes on.
 *	 A comment after the value stays after it, or gets a line of its own above or below. An
 *	 option that the file does not have follows the last one of its section, or [section]; a
 *	 section that it does not have is added at the end. New lines end as the first one does.
 *   REWRITE-3. At each moment the file's name is that of the old or of the new file, both whole,
 *	 even if the host crashes. The new one has the owner and the mode of the old one. If the
 *	 file is changed meanwhile, or would not be read as it should, it stays as it was.
 */
#ifndef KVD_SERVER_CONFIG_REWRITE_H
#define KVD_SERVER_CONFIG_REWRITE_H

#include <stdbool.h>

#include "server/config/config.h"

/*
 * Writes the options that @set marks, as they are in @config, into the file at @path, which may be
 * a symbolic link. *@changed gets the number of those that were written; 0: the file has them all.
 * Returns 0, or a negative errno after config_report(). Blocks for the file system.
 */
int config_rewrite(const char *path, const struct config *config, const bool set[OPTION_COUNT],
		   unsigned int *changed);

#endif /* KVD_SERVER_CONFIG_REWRITE_H */
