/* SPDX-License-Identifier: MIT */
/* SIGHUP: see reload.h. */
#include "server/reload.h"

#include "common/util/log.h"
#include "server/audit_file.h"
#include "server/log_writer.h"
#include "server/option_change.h"
#include "server/worker/audit.h"

void reload(struct server *server)
{
	struct option_changes changes;
	struct config fresh;

	log_writer_reopen();
	audit_file_reopen();
	config_errors_to_log();
	if (config_read(&fresh, server->source)) {
		audit_admin(NULL, "reload", "configuration", "it has errors: the log has them");
		log_error("SIGHUP: the configuration has errors: kvd keeps the previous one");
		options_reread_files(server);
		return;
	}
	changes = options_take(server, &fresh, NULL);
	audit_admin(NULL, "reload", "configuration", "ok");
	log_notice("SIGHUP: configuration read: %u options taken over, %u need a restart",
		   changes.taken, changes.refused);
}
