/* SPDX-License-Identifier: MIT */
/* Takes over options: see option_change.h. */
#include "server/option_change.h"

#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "server/control/conn_manager.h"
#include "server/control/traces.h"
#include "server/worker/audit.h"

struct take {
	struct server *server;
	const struct config *fresh;
	const struct client *asks;
	bool tls, users; /* an option of the section has changed */
	struct option_changes changes;
};

/* The values are cut: a line of the audit log has room for them. */
static void change_audit(const struct take *take, const struct config_change *change)
{
	char target[512];

	snprintf(target, sizeof(target), "%s.%s = %.200s, was %.200s", change->section, change->key,
		 change->to, change->from);
	audit_admin(take->asks, "CONFIG set", target, "ok");
}

static void option_changed(const struct config_change *change, void *context)
{
	struct take *take = context;
	const bool was_set = take->server->options_set[change->option];

	if (!change->live) {
		take->changes.refused++;
		log_warn("SIGHUP: %s.%s was changed from '%s' to '%s': restart kvd to apply it",
			 change->section, change->key, change->from, change->to);
		return;
	}
	take->changes.taken++;
	take->tls |= !strcmp(change->section, "tls");
	take->users |= !strcmp(change->section, "users");
	config_take(&take->server->config, take->fresh, change->option);
	if (!take->asks) {
		log_notice("SIGHUP: %s.%s is now %s, it was %s%s", change->section, change->key,
			   change->to, change->from, was_set ? ", set by kvctl config set" : "");
		return;
	}
	log_notice("CONFIG set by %s: %s.%s is now %s, it was %s", take->asks->principal->name,
		   change->section, change->key, change->to, change->from);
	change_audit(take, change);
}

/* The lines about the changes are of the new style, and there by the old level or the new one. */
static void log_begin(const struct config *config, const struct config *fresh)
{
	const uint32_t old = config->log.level, new = fresh->log.level;

	log_set_level((enum log_level)(old > new ? old : new));
	log_set_style((enum log_style)fresh->log.format);
}

/* What other modules have of the options. */
static void effects(struct server *server, bool tls, bool users)
{
	const struct config *config = &server->config;

	log_set_level((enum log_level)config->log.level);
	conn_manager_renew_options(&server->net);
	traces_renew(&server->net);
	if (tls) {
		net_renew(&server->net);
		server_renew_tls(server);
	}
	if (users)
		conn_manager_renew_users(&server->net);
	http_renew(server->http, config, tls);
}

struct option_changes options_take(struct server *server, const struct config *fresh,
				   const struct client *asks)
{
	struct take take = { .server = server, .fresh = fresh, .asks = asks };

	log_begin(&server->config, fresh);
	config_compare(&server->config, fresh, option_changed, &take);
	effects(server, !asks || take.tls, !asks || take.users);
	server->options_version++;
	if (!asks)
		memset(server->options_set, 0, sizeof(server->options_set));
	return take.changes;
}

void options_reread_files(struct server *server)
{
	effects(server, true, true);
}
