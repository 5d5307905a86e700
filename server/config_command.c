/* SPDX-License-Identifier: MIT */
/* Executes CONFIG requests: see config_command.h. */
#include "server/config_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tls/tls.h"
#include "common/util/log.h"
#include "server/config/rewrite.h"
#include "server/control/admission.h"
#include "server/control/conn_manager.h"
#include "server/control/memory_size.h"
#include "server/control/nic_address.h"
#include "server/control/query_text.h"
#include "server/control/worker_manager.h"
#include "server/option_change.h"
#include "server/users/users.h"
#include "server/worker/audit.h"

/* Requests executed between two waits for events. */
#define COMMANDS_AT_ONCE 4

/* What refuses a client that is no administrator. */
static const char no_admin[] = "CONFIG is for administrators: root and the server's own user, on "
			       "the Unix socket, or users of users.file with the right 'admin'";

static_assert(sizeof(((struct config_errors *)0)->text) + sizeof(struct wire_response) <=
		      WIRE_RESPONSE_MIN,
	      "a response has room for an error");

/* Logs a refusal, and answers it. */
static void refuse(struct conn *conn, const char *action, const char *target, const char *why)
{
	log_notice("%s by %s: refused: %s", action, conn->client.principal->name, why);
	audit_admin(&conn->client, action, target, why);
	query_say(&conn->query, WIRE_INVALID, "%s", why);
}

/*
 * The cursor has the version of the options in its upper half, and where the page begins in the
 * lower one, so that pages of different versions are not put together.
 */
static void get(const struct server *server, struct query *query)
{
	const uint32_t version = server->options_version, at = (uint32_t)query->arg;
	char *text = NULL;
	size_t length = 0;
	uint64_t next;
	FILE *out;

	if (at && query->arg >> 32 != version) {
		query->status = WIRE_BUSY;
		return;
	}
	out = open_memstream(&text, &length);
	if (out)
		config_list(&server->config, out);
	if (!out || fclose(out)) {
		query->status = WIRE_BUSY;
	} else if (at > length) {
		query_say(query, WIRE_INVALID, "the cursor is beyond the end of the options");
	} else {
		next = query_page(query, text, length, at);
		if (next)
			query->cursor = (uint64_t)version << 32 | next;
	}
	free(text);
}

/*
 * Checks that the files of [users] can be used, as SIGHUP would. What is wrong with a file is for
 * the log, since it may quote a part of a line.
 */
static int users_check(const struct config *fresh, struct config_errors *errors)
{
	struct users *users;

	if (!admission_load(&users, fresh)) {
		users_put(users);
		return 0;
	}
	snprintf(errors->text, sizeof(errors->text),
		 "config set: users.file = %s can't be used: kvd's log says why",
		 fresh->users.file);
	return -EINVAL;
}

/* Whether TLS, where the server serves by it, can use the files of [tls]; else logs why not. */
static bool tls_is_good(const struct config *fresh)
{
	const uint32_t kinds = listen_list_kinds(fresh->server.listen);
	const struct tls_files files = nic_address_tls(fresh);
	struct tls_context *context = NULL;
	char why[TLS_WHY_MAX] = "no memory";

	if (!(kinds & (DEVICE_RDMA_TLS | LISTEN_MEMCACHED_TLS)))
		return true;
	if (!tls_context_make(&context, &files, NULL, why)) {
		tls_context_put(context);
		return true;
	}
	log_error("[tls]: %s", why);
	return false;
}

/* Likewise the files of [tls]. */
static int tls_check(const struct config *fresh, struct config_errors *errors)
{
	if (tls_is_good(fresh) && !http_check(fresh, false))
		return 0;
	strcpy(errors->text, "config set: the files of [tls] can't be used: kvd's log says why");
	return -EINVAL;
}

static int memory_check(const struct server *server, const struct config *fresh,
			struct config_errors *errors)
{
	char why[256];

	if (memory_size_check(&server->net, fresh->memory.size, why, sizeof(why)))
		return 0;
	snprintf(errors->text, sizeof(errors->text), "config set: %s", why);
	return -EINVAL;
}

/* Parses the lines of @text into @fresh, marks them, and checks the result. 0, or -EINVAL. */
static int set_parse(const struct server *server, char *text, struct config *fresh,
		     bool set[OPTION_COUNT], struct config_errors *errors)
{
	const struct config *now = &server->config;
	const char *assignment;
	int err = 0;

	config_errors_keep(errors);
	while (!err && (assignment = strsep(&text, "\n")))
		err = config_set_live(fresh, assignment, server->source->file, set);
	if (!err)
		err = config_check(fresh);
	config_errors_keep(NULL);
	if (!err && strcmp(fresh->users.file, now->users.file) != 0)
		err = users_check(fresh, errors);
	if (!err && memcmp(&fresh->tls, &now->tls, sizeof(now->tls)) != 0)
		err = tls_check(fresh, errors);
	if (!err && fresh->memory.size != now->memory.size)
		err = memory_check(server, fresh, errors);
	return err;
}

/* The one option whose change can fail, so it comes first. */
static int workers_set(struct server *server, const struct config *fresh,
		       struct config_errors *errors)
{
	char why[WORKERS_WHY_MAX];

	if (worker_manager_set(&server->net, fresh, why, sizeof(why)))
		return 0;
	snprintf(errors->text, sizeof(errors->text), "config set: server.workers = %u: %s",
		 fresh->server.workers, why);
	return -EINVAL;
}

/* Writes lines as a list, for the audit log; @list has twice the bytes of @text. */
static void lines_join(char *list, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n') {
			*list++ = ',';
			*list++ = ' ';
		} else {
			*list++ = *text;
		}
	}
	*list = '\0';
}

static void set(struct server *server, struct conn *conn)
{
	char text[KEY_MAX + 1], asked[2 * sizeof(text)];
	bool marks[OPTION_COUNT] = { false };
	struct query *query = &conn->query;
	struct config fresh = server->config;
	struct config_errors errors;
	uint32_t length = query->len < KEY_MAX ? query->len : KEY_MAX;

	memcpy(text, query->text, length);
	text[length] = '\0';
	lines_join(asked, text);
	query->len = 0;
	if (strlen(text) < length) {
		refuse(conn, "CONFIG set", asked, "config set: a value has a zero byte: remove it");
		return;
	}
	if (set_parse(server, text, &fresh, marks, &errors) ||
	    workers_set(server, &fresh, &errors)) {
		refuse(conn, "CONFIG set", asked, errors.text);
		return;
	}
	options_take(server, &fresh, &conn->client);
	for (unsigned int i = 0; i < OPTION_COUNT; i++)
		server->options_set[i] |= marks[i];
}

/* Whether -o sets the option of this number, too: then it does so after the next start. */
static bool is_assigned(const struct config_source *source, unsigned int number)
{
	unsigned int i = 0;

	while (i < source->count && !config_assigns(source->assignments[i], number))
		i++;
	return i < source->count;
}

/* Forgets the options that were written. Returns how many stay, since -o overrides the file. */
static unsigned int set_forget(struct server *server)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < OPTION_COUNT; i++) {
		server->options_set[i] &= is_assigned(server->source, i);
		kept += server->options_set[i];
	}
	return kept;
}

static void rewrite(struct server *server, struct conn *conn)
{
	const char *file = server->source->file;
	struct query *query = &conn->query;
	unsigned int changed, kept;
	struct config_errors errors;
	int err;

	if (!file) {
		refuse(conn, "CONFIG rewrite", "",
		       "kvd was started without a file: start it with -c FILE");
		return;
	}
	config_errors_keep(&errors);
	err = config_rewrite(file, &server->config, server->options_set, &changed);
	config_errors_keep(NULL);
	if (err) {
		refuse(conn, "CONFIG rewrite", file, errors.text);
		return;
	}
	kept = set_forget(server);
	log_notice("CONFIG rewrite by %s: %s: %u options written", conn->client.principal->name,
		   file, changed);
	audit_admin(&conn->client, "CONFIG rewrite", file, "ok");
	query_say(query, WIRE_OK, "%s: %u options written\n", file, changed);
	if (kept)
		query_say(
			query, WIRE_OK,
			"%s: %u options written; kvd was started with -o for %u of those that were "
			"set, which overrides the file: change it, too\n",
			file, changed, kept);
}

static void execute(struct server *server, struct conn *conn)
{
	static const char *const actions[] = {
		[WIRE_CONFIG_GET] = "CONFIG get",
		[WIRE_CONFIG_SET] = "CONFIG set",
		[WIRE_CONFIG_REWRITE] = "CONFIG rewrite",
	};
	struct query *query = &conn->query;

	query->status = WIRE_OK;
	query->cursor = 0;
	if (!client_is_admin(&conn->client)) {
		audit_admin(&conn->client, actions[query->mode], "",
			    "the client is no administrator");
		query_say(query, WIRE_NOT_ALLOWED, "%s", no_admin);
		return;
	}
	switch ((enum wire_config)query->mode) {
	case WIRE_CONFIG_GET:
		query->len = 0;
		get(server, query);
		break;
	case WIRE_CONFIG_SET:
		set(server, conn);
		break;
	case WIRE_CONFIG_REWRITE:
		query->len = 0;
		rewrite(server, conn);
		break;
	}
}

void config_command_run(struct server *server)
{
	struct query_list *queries = &server->net.config_queries;
	struct conn *conn;

	for (unsigned int i = 0; i < COMMANDS_AT_ONCE && (conn = TAILQ_FIRST(queries)); i++) {
		conn_manager_forget_query(conn);
		execute(server, conn);
		/* The client may have lost its right to connect by a change of [users]. */
		if (conn->stage == CONN_LIVE)
			conn_manager_answered(conn);
	}
	if (!TAILQ_EMPTY(queries))
		server->net.events_left = true;
}
