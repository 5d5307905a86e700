/* SPDX-License-Identifier: MIT */
/* SIGHUP: see reload.h. */
#include "server/reload.h"

#include "common/util/log.h"
#include "server/audit_file.h"
#include "server/control/worker_manager.h"
#include "server/log_writer.h"
#include "server/option_change.h"
#include "server/worker/audit.h"

/* If their number can't change now, that option stays as it was. */
static void workers_reload(struct server *server, struct config *fresh)
{
	char why[WORKERS_WHY_MAX];

	if (worker_manager_set(&server->net, fresh, why, sizeof(why)))
		return;
	log_error("SIGHUP: server.workers stays %u, and does not become %u: %s; the next SIGHUP "
		  "tries again",
		  server->config.server.workers, fresh->server.workers, why);
	fresh->server.workers = server->config.server.workers;
}

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
	workers_reload(server, &fresh);
	changes = options_take(server, &fresh, NULL);
	audit_admin(NULL, "reload", "configuration", "ok");
	log_notice("SIGHUP: configuration read: %u options taken over, %u need a restart",
		   changes.taken, changes.refused);
}
