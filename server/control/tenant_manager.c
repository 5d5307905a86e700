/* SPDX-License-Identifier: MIT */
/* Executes TENANT requests, step by step. */
#include "server/control/tenant_manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/parse.h"
#include "server/control/conn_manager.h"
#include "server/control/query_text.h"
#include "server/control/user_tenants.h"
#include "server/worker/audit.h"
#include "server/worker/permit.h"

#define LINE_MAX_BYTES 256
static_assert(LINE_MAX_BYTES + sizeof(struct wire_response) <= WIRE_RESPONSE_MIN,
	      "a response has room for a line");

static void answer(struct conn *conn, enum wire_status status, const char *text)
{
	query_say(&conn->query, status, "%s", text);
	conn->query.cursor = 0;
	conn_manager_answered(conn);
}

/* The connection that asked for the change under way, if it still waits; or NULL. */
static struct conn *asker(struct net *net)
{
	struct client *client = conn_registry_find(&net->registry, net->command.asker);
	struct conn *conn = client ? client_conn(client) : NULL;

	return conn && conn->stage == CONN_LIVE ? conn : NULL;
}

static const char *state_name(enum tenant_state state)
{
	switch (state) {
	case TENANT_SERVES:
		return "serves";
	case TENANT_CLOSING:
		return "closing";
	case TENANT_WORKING:
		return "working";
	case TENANT_NONE:
		break;
	}
	return "none";
}

static uint32_t print_tenant(const struct tenant *tenant, char *line)
{
	const struct store *store = tenant->state == TENANT_WORKING ? NULL : tenant->now.store;
	int n = snprintf(line, LINE_MAX_BYTES,
			 "name=%s bytes=%" PRIu64 " state=%s connections=%" PRIu32, tenant->name,
			 tenant->bytes, state_name(tenant->state), tenant->conns_count);

	if (store)
		n += snprintf(
			line + n, LINE_MAX_BYTES - (size_t)n,
			" items=%" PRIu64 " item_memory_live_bytes=%" PRIu64 " evictions=%" PRIu64,
			store_items(store),
			table_sum(&store->table, offsetof(struct store_thread, stats.live_bytes)),
			table_sum(&store->table, offsetof(struct store_thread, stats.evictions)));
	n += snprintf(line + n, LINE_MAX_BYTES - (size_t)n, "\n");
	return (uint32_t)n;
}

/* The cursor is the first place wanted: 0 at the start of the list, and after its end. */
static void list(struct net *net, struct conn *conn)
{
	struct query *query = &conn->query;
	uint64_t place = query->arg < TENANTS_MAX ? query->arg : TENANTS_MAX;
	char line[LINE_MAX_BYTES];
	uint32_t len;

	query->len = 0;
	for (; place < TENANTS_MAX; place++) {
		len = net->tenants.list[place] ? print_tenant(net->tenants.list[place], line) : 0;
		if (len > query->size - query->len)
			break;
		memcpy(query->text + query->len, line, len);
		query->len += len;
	}
	query->status = WIRE_OK;
	query->cursor = place < TENANTS_MAX ? place : 0;
	conn_manager_answered(conn);
}

/* For the audit log. */
static const char *action_name(enum wire_tenant mode)
{
	return mode == WIRE_TENANT_CREATE ? "create tenant" :
	       mode == WIRE_TENANT_RESIZE ? "resize tenant" :
	       mode == WIRE_TENANT_DROP	  ? "drop tenant" :
					    "list tenants";
}

/* Answers the requests that need not wait for the change under way. */
static void answer_at_once(struct net *net)
{
	struct conn *conn, *next;

	for (conn = TAILQ_FIRST(&net->tenant_queries); conn; conn = next) {
		next = TAILQ_NEXT(conn, query_entry);
		if (client_is_admin(&conn->client) && conn->query.mode != WIRE_TENANT_LIST)
			continue;
		conn_manager_forget_query(conn);
		if (client_is_admin(&conn->client)) {
			list(net, conn);
			continue;
		}
		audit_admin(&conn->client, action_name(conn->query.mode), conn->query.tenant,
			    "the client is no administrator");
		answer(conn, WIRE_INVALID,
		       "tenants are for administrators: root and the server's own user, on the "
		       "Unix socket");
	}
}

/* Why a change is refused. */
struct refusal {
	enum wire_status status;
	char text[LINE_MAX_BYTES];
};

/* Returns false. */
static bool __attribute__((format(printf, 3, 4)))
refuse(struct refusal *refusal, enum wire_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(refusal->text, sizeof(refusal->text), format, args);
	va_end(args);
	refusal->status = status;
	return false;
}

static bool create_begin(struct net *net, const char *name, struct refusal *refusal)
{
	struct tenant_command *command = &net->command;
	char why[LINE_MAX_BYTES];

	if (!tenant_name_valid(name))
		return refuse(refusal, WIRE_INVALID, "a tenant's name has " TENANT_NAME_RULE);
	if (command->bytes < OPTION_TENANT_MIN || command->bytes > REGION_BYTES_MAX)
		return refuse(refusal, WIRE_INVALID, "a tenant has 16m to 512g of memory");
	if (tenants_find(&net->tenants, name))
		return refuse(refusal, WIRE_EXISTS, "there is already a tenant %s", name);
	command->tenant = tenants_add(&net->tenants, name, command->bytes, why, sizeof(why));
	if (!command->tenant)
		return refuse(refusal, WIRE_NO_SPACE, "%s", why);
	command->step = COMMAND_DETACHING;
	command->workers_left = 0;
	return true;
}

/* RESIZE and DROP: starts to take command->tenant out of service. */
static bool change_begin(struct net *net, struct refusal *refusal)
{
	struct tenant_command *command = &net->command;
	char why[LINE_MAX_BYTES];

	if (command->mode == WIRE_TENANT_RESIZE &&
	    (command->bytes < OPTION_TENANT_MIN || command->bytes > REGION_BYTES_MAX))
		return refuse(refusal, WIRE_INVALID, "a tenant has 16m to 512g of memory");
	if (command->mode == WIRE_TENANT_RESIZE &&
	    !tenants_reserve(&net->tenants, command->bytes, why, sizeof(why)))
		return refuse(refusal, WIRE_NO_SPACE,
			      "the old and the new store exist together while items are moved: "
			      "%s",
			      why);
	tenant_set_state(&net->tenants, command->tenant, TENANT_CLOSING);
	command->step = COMMAND_CLOSING;
	conn_manager_close_tenant(net, command->tenant);
	return true;
}

/* Whether users.file lets an administrator drop or resize the tenant. */
static bool users_allow(const struct net *net, const char *name, enum wire_tenant mode,
			struct refusal *refusal)
{
	const struct user *user = user_tenants_holder(net->users, name, mode == WIRE_TENANT_RESIZE);

	if (!user)
		return true;
	if (mode == WIRE_TENANT_RESIZE)
		return refuse(refusal, WIRE_INVALID,
			      "users.file sets its size, with user %s: change that, and "
			      "send kvd SIGHUP",
			      user->name);
	return refuse(refusal, WIRE_INVALID,
		      "it is the tenant of user %s in users.file: change that, send kvd SIGHUP, "
		      "and drop it then",
		      user->name);
}

/* RESIZE and DROP, by an administrator. */
static bool change_ask(struct net *net, const struct conn *conn, struct refusal *refusal)
{
	struct tenant_command *command = &net->command;
	const char *name = conn->query.tenant;

	command->tenant = tenants_find(&net->tenants, name);
	if (!command->tenant)
		return refuse(refusal, WIRE_NOT_FOUND, "there is no such tenant");
	if (command->tenant == net->tenants.list[0])
		return refuse(refusal, WIRE_INVALID,
			      "the tenant " TENANT_DEFAULT " has memory.size, and exists as long "
			      "as the server runs");
	if (conn->client.part->tenant == command->tenant)
		return refuse(refusal, WIRE_INVALID,
			      "this connection is in the tenant, and would be closed: ask from "
			      "another one");
	return users_allow(net, name, command->mode, refusal) && change_begin(net, refusal);
}

static bool start_failed(struct net *net, const char *name, const char *why, int err)
{
	net->start_err = err;
	if (err != -ECANCELED)
		log_error("tenant %s: can't be created: %s", name, why);
	return false;
}

static bool start_create(struct net *net, const char *name, uint64_t bytes)
{
	struct refusal refusal;

	net->command = (struct tenant_command){ .mode = WIRE_TENANT_CREATE, .bytes = bytes };
	return create_begin(net, name, &refusal) || start_failed(net, name, refusal.text, -ENOMEM);
}

static bool start_create_default(struct net *net)
{
	struct tenant *tenant = net->tenants.list[0];

	net->command = (struct tenant_command){
		.step = COMMAND_DETACHING,
		.mode = WIRE_TENANT_CREATE,
		.tenant = tenant,
		.bytes = tenant->bytes,
	};
	return true;
}

/* A tenant that can't be made again stays in its files. */
static bool start_kept(struct net *net, const struct kept_tenant *kept)
{
	struct refusal refusal;

	net->command = (struct tenant_command){
		.mode = WIRE_TENANT_CREATE,
		.bytes = kept->bytes,
	};
	if (create_begin(net, kept->name, &refusal))
		return true;
	log_warn("tenant %s: what is kept of it can't be used: %s", kept->name, refusal.text);
	return false;
}

/* Begins the next store of the start. False: there is none, or it can't be made. */
static bool start_begin(struct net *net)
{
	const struct user *user;

	if (net->tenants.list[0]->state == TENANT_WORKING) {
		kept_tenants_find(&net->kept, &net->env);
		return start_create_default(net);
	}
	while (net->kept.next < net->kept.count)
		if (start_kept(net, &net->kept.list[net->kept.next++]))
			return true;
	while (net->users && net->users_sized < net->users->count) {
		user = &net->users->list[net->users_sized++];
		if (user->memory && !tenants_find(&net->tenants, user->tenant))
			return start_create(net, user->tenant, user->memory);
	}
	/* A SIGHUP meanwhile may have changed the size of one that was made already. */
	net->users_sized = 0;
	net->starting = false;
	return false;
}

static const char *verb(enum wire_tenant mode)
{
	return mode == WIRE_TENANT_CREATE ? "created" :
	       mode == WIRE_TENANT_RESIZE ? "resized" :
					    "dropped";
}

/* A change that fails is tried again at the next SIGHUP. */
static void user_failed(const char *name, enum wire_tenant mode, const char *why)
{
	audit_admin(NULL, action_name(mode), name, why);
	log_error("users.file: the tenant %s can't be %s: %s; the next SIGHUP tries again", name,
		  verb(mode), why);
}

/* Once for a tenant: only administrators can make it. */
static void user_check(const struct net *net, const struct user *user)
{
	if (tenants_find(&net->tenants, user->tenant) ||
	    user_tenants_holder(net->users, user->tenant, true) ||
	    user_tenants_holder(net->users, user->tenant, false) != user)
		return;
	log_warn("users.file: user %s can't connect: there is no tenant %s, and no user with its "
		 "memory; give one, or create it (kvctl tenant create)",
		 user->name, user->tenant);
}

/* False: there is nothing to do, or it failed and is logged. */
static bool user_begin(struct net *net, const struct user *user)
{
	struct tenant *tenant = user->memory ? tenants_find(&net->tenants, user->tenant) : NULL;
	struct refusal refusal;
	bool begins;

	user_check(net, user);
	if (!user->memory || (tenant && tenant->bytes == user->memory))
		return false;
	net->command = (struct tenant_command){
		.mode = tenant ? WIRE_TENANT_RESIZE : WIRE_TENANT_CREATE,
		.tenant = tenant,
		.bytes = user->memory,
	};
	begins = tenant ? change_begin(net, &refusal) : create_begin(net, user->tenant, &refusal);
	if (!begins)
		user_failed(user->tenant, net->command.mode, refusal.text);
	return begins;
}

/* Begins the next change that users.file asks for. False: there is none. */
static bool users_begin(struct net *net)
{
	while (net->users && net->users_sized < net->users->count)
		if (user_begin(net, &net->users->list[net->users_sized++]))
			return true;
	return false;
}

static bool command_begin(struct net *net)
{
	struct tenant_command *command = &net->command;
	struct refusal refusal;
	struct conn *conn;
	bool begins;

	if (net->stopping || net->start_err)
		return false;
	if (net->starting)
		return start_begin(net);
	if (users_begin(net))
		return true;
	conn = TAILQ_FIRST(&net->tenant_queries);
	if (!conn)
		return false;
	conn_manager_forget_query(conn);
	*command = (struct tenant_command){
		.mode = (enum wire_tenant)conn->query.mode,
		.bytes = conn->query.arg,
		.asker = conn->client.number,
	};
	if (command->mode == WIRE_TENANT_CREATE)
		begins = create_begin(net, conn->query.tenant, &refusal);
	else
		begins = change_ask(net, conn, &refusal);
	audit_admin(&conn->client, action_name(command->mode), conn->query.tenant,
		    begins ? "begun" : refusal.text);
	if (!begins)
		answer(conn, refusal.status, refusal.text);
	return begins;
}

/* Makes the workers forget the tenant, once its connections have ended. */
static bool detach(struct net *net)
{
	struct tenant_command *command = &net->command;

	if (command->tenant->conns_count)
		return false;
	command->step = COMMAND_DETACHING;
	command->workers_left = net->worker_count;
	for (unsigned int i = 0; i < net->worker_count; i++) {
		struct tenant_part *part = command->tenant->now.parts[i];

		part->note = (struct note){ .part = part, .kind = NOTE_TENANT_DETACH };
		mailbox_send(&net->workers[i].mailbox, &part->note);
	}
	return true;
}

/* Why the change failed; @text has LINE_MAX_BYTES. */
static const char *failure(const struct net *net, char *text)
{
	const struct tenant_command *command = &net->command;

	switch (command->err) {
	case -ENOSPC:
		return "not all of its items fit, and nothing may be evicted "
		       "(memory.eviction = none): nothing was changed";
	case -E2BIG:
		snprintf(text, LINE_MAX_BYTES,
			 "it has a value of more than %.2f MiB, the most that memory.pull_share "
			 "(%u %%) of the new size allows: nothing was changed; choose a larger "
			 "size, or raise memory.pull_share",
			 (double)tenant_value_max(&net->env, command->bytes) / (1 << 20),
			 net->env.config->memory.pull_share);
		return text;
	case -ECANCELED:
		return "the server stops";
	case -ENOMEM:
		return "there is not enough memory: the log says what is missing";
	default:
		return strerror(-command->err);
	}
}

static void command_account(struct net *net)
{
	struct tenant_command *command = &net->command;
	struct tenant *tenant = command->tenant;
	bool goes = command->mode == WIRE_TENANT_DROP ||
		    (command->mode == WIRE_TENANT_CREATE && command->err);

	if (command->mode == WIRE_TENANT_RESIZE) {
		/* Gives back the memory of the store that is gone: the old one, or the new one. */
		tenants_unreserve(&net->tenants, command->err ? command->bytes : tenant->bytes);
		if (!command->err)
			tenant->bytes = command->bytes;
	}
	if (goes)
		tenants_remove(&net->tenants, tenant);
	else
		tenant_set_state(&net->tenants, tenant, TENANT_SERVES);
}

static void start_end(struct net *net, int err)
{
	struct tenant_command *command = &net->command;
	struct tenant *tenant = command->tenant;
	char text[LINE_MAX_BYTES], size[PARSE_FORMAT_MAX], longest[PARSE_FORMAT_MAX];

	command->err = err;
	if (err)
		start_failed(net, tenant->name, failure(net, text), err);
	else
		tenant_set_state(&net->tenants, tenant, TENANT_SERVES);
	if (!err && tenant != net->tenants.list[0])
		log_notice("tenant %s: %s, values of up to %s", tenant->name,
			   show_size(tenant->bytes, size),
			   show_size(tenant->now.store->region.geometry.value_max, longest));
	command->step = COMMAND_NONE;
}

static void command_end(struct net *net, int err)
{
	struct tenant_command *command = &net->command;
	char name[WIRE_TENANT_MAX + 1], text[LINE_MAX_BYTES];
	char used[PARSE_FORMAT_MAX], memory[PARSE_FORMAT_MAX];
	struct conn *conn = command->asker ? asker(net) : NULL;
	const char *why;

	command->err = err;
	why = failure(net, text);
	strcpy(name, command->tenant->name);
	command_account(net);
	if (err && !command->asker)
		user_failed(name, command->mode, why);
	else
		audit_admin(conn ? &conn->client : NULL, action_name(command->mode), name,
			    err ? why : "ok");
	if (err && command->asker)
		log_error("tenant %s: can't be %s: %s", name, verb(command->mode), why);
	else if (!err)
		log_notice("tenant %s: %s; %s of tenants.memory (%s) are in use", name,
			   verb(command->mode), show_size(net->tenants.used, used),
			   show_size(net->tenants.memory, memory));
	if (conn && err)
		answer(conn, err == -ENOMEM || err == -ENOSPC ? WIRE_NO_SPACE : WIRE_INVALID, why);
	else if (conn)
		answer(conn, WIRE_OK, "");
	command->step = COMMAND_NONE;
}

/* The job has ended, or could not be started. */
static void job_end(struct net *net, int err)
{
	if (net->starting)
		start_end(net, err);
	else
		command_end(net, err);
}

static bool job_begin(struct net *net)
{
	static const enum tenant_job_kind kinds[] = {
		[WIRE_TENANT_CREATE] = TENANT_JOB_CREATE,
		[WIRE_TENANT_RESIZE] = TENANT_JOB_RESIZE,
		[WIRE_TENANT_DROP] = TENANT_JOB_DESTROY,
	};
	struct tenant_command *command = &net->command;
	const struct tenant_job job = {
		.kind = kinds[command->mode],
		.tenant = command->tenant,
		.bytes = command->bytes,
	};
	int err;

	if (command->workers_left || net_job_runs(net) || net_devices_change(net))
		return false;
	tenant_set_state(&net->tenants, command->tenant, TENANT_WORKING);
	err = tenant_jobs_begin(&net->jobs, &job);
	if (!err) {
		command->step = COMMAND_WORKING;
		return true;
	}
	/* A drop must not fail for lack of a thread: this thread does it. */
	if (command->mode == WIRE_TENANT_DROP) {
		tenant_store_drop(command->tenant, &net->env);
		err = 0;
	}
	job_end(net, err);
	return true;
}

/* False: the command waits for something. */
static bool command_step(struct net *net)
{
	switch (net->command.step) {
	case COMMAND_NONE:
		return command_begin(net);
	case COMMAND_CLOSING:
		return detach(net);
	case COMMAND_DETACHING:
		return job_begin(net);
	case COMMAND_WORKING:
		if (net->jobs.runs)
			return false;
		job_end(net, net->jobs.job.err);
		return true;
	}
	return false;
}

void tenant_manager_run(struct net *net)
{
	answer_at_once(net);
	/* No change is under way then. */
	if (net_workers_leave(net))
		return;
	/* After a refused change the next one begins. */
	while (command_step(net) || (net->command.step == COMMAND_NONE && !net->stopping &&
				     !TAILQ_EMPTY(&net->tenant_queries)))
		;
}
