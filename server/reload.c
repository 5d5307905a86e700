/* SPDX-License-Identifier: MIT */
/* SIGHUP: see reload.h. */
#include "server/reload.h"

#include <string.h>

#include "common/util/log.h"
#include "server/audit_file.h"
#include "server/log_writer.h"
#include "server/worker/audit.h"

struct reload {
	struct config *config;
	const struct config *fresh;
	unsigned int taken, refused;
};

/* Takes over an option that only the control thread uses. False: it needs a restart. */
static bool take_over(struct reload *reload, const struct config_change *change)
{
	if (!strcmp(change->section, "log") && !strcmp(change->key, "level")) {
		reload->config->log.level = reload->fresh->log.level;
		log_set_level((enum log_level)reload->fresh->log.level);
		return true;
	}
	if (!strcmp(change->section, "log") && !strcmp(change->key, "format")) {
		reload->config->log.format = reload->fresh->log.format;
		log_set_style((enum log_style)reload->fresh->log.format);
		return true;
	}
	if (!strcmp(change->section, "log") && !strcmp(change->key, "slow")) {
		reload->config->log.slow = reload->fresh->log.slow;
		return true;
	}
	if (!strcmp(change->section, "server") && !strcmp(change->key, "drain_timeout")) {
		reload->config->server.drain_timeout = reload->fresh->server.drain_timeout;
		return true;
	}
	if (!strcmp(change->section, "rdma") && !strcmp(change->key, "networks")) {
		strcpy(reload->config->rdma.networks, reload->fresh->rdma.networks);
		return true;
	}
	/* reload() takes over these sections whole, after all their options were compared. */
	return !strcmp(change->section, "tls") || !strcmp(change->section, "users");
}

static void option_changed(const struct config_change *change, void *context)
{
	struct reload *reload = context;

	if (take_over(reload, change)) {
		reload->taken++;
		log_notice("SIGHUP: %s.%s is now %s, it was %s", change->section, change->key,
			   change->to, change->from);
	} else {
		reload->refused++;
		log_warn("SIGHUP: %s.%s was changed from '%s' to '%s': restart kvd to apply it",
			 change->section, change->key, change->from, change->to);
	}
}

void reload(struct config *config, const struct config_source *source)
{
	struct config fresh;
	struct reload state = { .config = config, .fresh = &fresh };

	log_writer_reopen();
	audit_file_reopen();
	config_errors_to_log();
	if (config_read(&fresh, source)) {
		audit_admin(NULL, "reload", "configuration", "it has errors: the log has them");
		log_error("SIGHUP: the configuration has errors: kvd keeps the previous one");
		return;
	}
	config_compare(config, &fresh, option_changed, &state);
	config->tls = fresh.tls;
	config->users = fresh.users;
	audit_admin(NULL, "reload", "configuration", "ok");
	log_notice("SIGHUP: configuration read: %u options taken over, %u need a restart",
		   state.taken, state.refused);
}
