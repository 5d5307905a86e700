/* SPDX-License-Identifier: MIT */
#include "server/memcached/meta_run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/stat.h"
#include "server/memcached/marks.h"

/* An answer's line but the key in it: "VA", numbers, an opaque, letters. */
#define LINE_BESIDE_KEY 512u
#define NS_PER_S 1000000000ull

/* What the marks of an item, and this command, say of it. */
struct told {
	bool won, was_won, stale;
	bool used;	/* before this command */
	uint32_t age_s; /* since its last use, at least */
};

/* A line that is written piece by piece; there is always room. */
struct line {
	char text[SESSION_ANSWER_MAX];
	uint32_t len;
};

static void __attribute__((format(printf, 2, 3)))
line_add(struct line *line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line->len += (uint32_t)vsnprintf(line->text + line->len, sizeof(line->text) - line->len,
					 format, args);
	va_end(args);
}

static void line_key(struct line *line, const struct mc_command *command)
{
	line_add(line, " k%.*s%s", (int)command->key_text_len, (const char *)command->key_text,
		 mc_has(command, 'b') ? " b" : "");
}

static void line_opaque(struct line *line, const struct mc_command *command)
{
	line_add(line, " %.*s", (int)command->opaque_len, (const char *)command->opaque);
}

/* Seconds until the item of the result expires, rounded down; -1: it does not. */
static int64_t seconds_left(const struct action *action)
{
	uint64_t now_ns = client_thread(&action->session->client)->now_ns;
	uint64_t end_ns = action->head.expires * NS_PER_S;

	if (!action->head.expires)
		return -1;
	return end_ns > now_ns ? (int64_t)((end_ns - now_ns) / NS_PER_S) : 0;
}

static void line_time(struct line *line, const struct action *action)
{
	line_add(line, " t%" PRId64, seconds_left(action));
}

static void line_version(struct line *line, const struct action *action)
{
	line_add(line, " c%" PRIu64, action->head.version);
}

/* A flag of an answer that is not about an item: false, it is another one. */
static bool line_plain(struct line *line, const struct mc_command *command, char flag)
{
	if (flag == 'k')
		line_key(line, command);
	else if (flag == 'O')
		line_opaque(line, command);
	else
		return false;
	return true;
}

/* The line that answers without an item: a code, the key, the opaque. */
static void answer_code(const struct action *action, const char *code, bool quiet)
{
	const struct mc_command *command = action->command;
	struct line line = { .len = 0 };

	if (quiet && mc_has(command, 'q'))
		return;
	line_add(&line, "%s", code);
	for (uint32_t i = 0; i < command->flag_count; i++)
		(void)line_plain(&line, command, command->flags[i]);
	line_add(&line, "\r\n");
	output_bytes(action->session->sockets, line.text, line.len);
}

static struct tenant *tenant_of(const struct action *action)
{
	return action->session->client.part->tenant;
}

static struct mark_item mark_item_of(const struct action *action)
{
	return (struct mark_item){
		.key = action->command->key,
		.key_len = action->command->key_len,
		.hash = action->hash,
		.version = action->head.version,
	};
}

/* Deletes the item of a mark that was taken away: MARK-2. */
static void victim_delete(const struct action *action, const struct mark_item *victim)
{
	const struct table_change change = {
		.key = victim->key,
		.key_len = victim->key_len,
		.if_version = true,
		.version = victim->version,
	};

	if (!victim->key)
		return;
	(void)table_delete(client_thread(&action->session->client), victim->hash, &change);
	free((void *)victim->key);
}

/* Marks the item of the result. Returns the marks it had; *@made: false, there is no memory. */
static unsigned int mark(const struct action *action, unsigned int bits, bool *made)
{
	struct marks *marks = marks_of(tenant_of(action), true);
	const struct mark_item item = mark_item_of(action);
	struct mark_item victim;
	unsigned int before;

	*made = false;
	if (!marks)
		return 0;
	before = marks_add(marks, &item, bits, &victim, made);
	if (bits & MARK_STALE)
		keep_note_stale(&client_thread(&action->session->client)->table->region->keep,
				item.hash, item.version);
	victim_delete(action, &victim);
	return before;
}

/* The marks of the item of the result, before this command. */
static unsigned int marks_before(const struct action *action)
{
	struct marks *marks = marks_of(tenant_of(action), false);

	return marks ? marks_get(marks, action->head.version) : 0;
}

/*
 * Whether the client is to store the item anew: it is the first one that sees it stale, or about
 * to expire.
 */
static void item_tell(const struct action *action, struct told *told)
{
	const struct mc_command *command = action->command;
	unsigned int bits = marks_before(action);
	int64_t left = seconds_left(action);
	bool wins, made;

	told->stale = bits & MARK_STALE;
	told->was_won = bits & MARK_WON;
	wins = told->stale ||
	       (mc_has(command, 'R') && left >= 0 && left < command->recache_exptime);
	if (!wins || told->was_won)
		return;
	told->was_won = mark(action, MARK_WON, &made) & MARK_WON;
	told->won = !told->was_won;
}

/* How the item was used before this command, as far as its access field tells. */
static void use_tell(const struct action *action, struct told *told)
{
	const struct store_thread *thread = client_thread(&action->session->client);
	const struct mc_command *command = action->command;
	struct access_told access;
	struct item_ref ref;
	uint32_t len;

	if (!mc_has(command, 'h') && !mc_has(command, 'l'))
		return;
	if (lookup_get_part(client_thread(&action->session->client), action->hash, command->key,
			    command->key_len, 0, NULL, 0, &ref, &len))
		return;
	access = access_time_tell(thread, ref.front.item.access);
	told->used = access.uses;
	/* The tick of the last use has passed by that time. */
	told->age_s = access.age ? access_time_age_s(thread, access.age - 1) : 0;
}

/* The flags of the answer to a mg that found an item. */
static void line_item(struct line *line, const struct action *action, const struct told *told)
{
	const struct mc_command *command = action->command;

	for (uint32_t i = 0; i < command->flag_count; i++)
		switch (command->flags[i]) {
		case 's':
			line_add(line, " s%" PRIu64, action->head.result);
			break;
		case 't':
			line_time(line, action);
			break;
		case 'c':
			line_version(line, action);
			break;
		case 'f':
			line_add(line, " f%" PRIu32, action->head.item_flags);
			break;
		case 'h':
			line_add(line, " h%d", told->used);
			break;
		case 'l':
			line_add(line, " l%" PRIu32, told->age_s);
			break;
		default:
			(void)line_plain(line, command, command->flags[i]);
		}
	if (told->was_won)
		line_add(line, " Z");
	if (told->stale)
		line_add(line, " X");
	if (told->won)
		line_add(line, " W");
}

static void get_count(const struct action *action, bool hit)
{
	struct mc_counters *counters = session_counters(action->session);

	stat_add(&counters->get_hits, hit);
	if (mc_has(action->command, 'T')) {
		stat_add(&counters->cmd_touch, 1);
		stat_add(hit ? &counters->touch_hits : &counters->touch_misses, 1);
		return;
	}
	stat_add(&counters->cmd_get, 1);
	stat_add(&counters->get_misses, !hit);
}

/* Answers a mg whose item is in action->head. */
static enum action_next get_answer(struct action *action, const struct told *told)
{
	const struct mc_command *command = action->command;
	struct line line = { .len = 0 };

	if (mc_has(command, 'v')) {
		line_add(&line, "VA %" PRIu64, action->head.result);
		line_item(&line, action, told);
		line_add(&line, "\r\n");
		return action_send_value(action, line.text, line.len, NULL);
	}
	line_add(&line, "HD");
	line_item(&line, action, told);
	line_add(&line, "\r\n");
	output_bytes(action->session->sockets, line.text, line.len);
	return ACTION_DONE;
}

/* Stores an empty item for a mg that missed, N, and lets its client store the value. */
static enum action_next vivify(struct action *action)
{
	int64_t ttl = action_ttl(action->command->vivify_exptime);
	struct told told = { .won = true };
	struct request *request = &action->request;
	enum action_next next;
	bool made;

	request->op = WIRE_PUT;
	request->flags = 0;
	request->mode = WIRE_ADD;
	/* No item lives for less than a second. */
	request->ttl = ttl == MC_EXPIRED ? 1 : (uint32_t)ttl;
	next = action_run(action);
	if (next != ACTION_DONE)
		return next;
	/* Another client was first: its item is found now. */
	if (action->head.status == WIRE_EXISTS)
		return ACTION_AGAIN;
	if (action->head.status) {
		action_refuse(action);
		return ACTION_DONE;
	}
	stat_add(&session_counters(action->session)->cmd_set, 1);
	(void)mark(action, MARK_WON, &made);
	action->head.result = action->head.item_flags = 0;
	action->gap = LINE_BESIDE_KEY + action->command->key_text_len;
	return get_answer(action, &told);
}

static void get_request(struct action *action, int64_t *ttl)
{
	const struct mc_command *command = action->command;

	*ttl = mc_has(command, 'T') ? action_ttl(command->exptime) : 0;
	if (mc_has(command, 'T') && *ttl != MC_EXPIRED) {
		action->request.op = WIRE_TOUCH;
		action->request.flags = WIRE_F_VALUE;
		action->request.ttl = (uint32_t)*ttl;
	}
	action->request.no_use = mc_has(command, 'u');
	action->no_value = !mc_has(command, 'v');
}

bool meta_get_ahead(struct session *session, const struct mc_command *command, uint64_t number,
		    size_t received)
{
	struct action action;
	int64_t ttl;

	action_init(&action, session, command, WIRE_GET, (uint32_t)received, 0);
	get_request(&action, &ttl);
	return action_ahead(&action, number);
}

static enum action_next get(struct action *action)
{
	const struct mc_command *command = action->command;
	const struct marks *marks;
	struct told told = { 0 };
	enum action_next next;
	int64_t ttl;

	/* A PUT that takes several turns. */
	if (action->session->work)
		return vivify(action);
	use_tell(action, &told);
	get_request(action, &ttl);
	next = action_read(action, LINE_BESIDE_KEY + command->key_text_len);
	if (next != ACTION_DONE)
		return next;
	if (action->head.status == WIRE_NOT_FOUND) {
		get_count(action, false);
		if (mc_has(command, 'N'))
			return vivify(action);
		answer_code(action, "EN", true);
		return ACTION_DONE;
	}
	if (action->head.status) {
		action_refuse(action);
		return ACTION_DONE;
	}
	/* MARK-3 */
	marks = action->foreign ? NULL : marks_of(tenant_of(action), false);
	if (marks && marks_pending(marks, action->hash))
		return ACTION_AGAIN;
	if (ttl == MC_EXPIRED && action->foreign) {
		next = action_expire(action);
		if (next != ACTION_DONE)
			return next;
	}
	get_count(action, true);
	if (!action->foreign)
		item_tell(action, &told);
	if (ttl == MC_EXPIRED && !action->foreign)
		(void)action_expire(action);
	return get_answer(action, &told);
}

/* The version of the key's item now, and when it expires; 0: there is none. */
static uint64_t version_now(const struct action *action, uint32_t *expires)
{
	const struct mc_command *command = action->command;
	struct item_ref ref;
	uint32_t len;

	if (lookup_get_part(client_thread(&action->session->client), action->hash, command->key,
			    command->key_len, 0, NULL, 0, &ref, &len))
		return 0;
	*expires = ref.front.item.expires;
	return ref.front.item.version;
}

/* Whether a ms with I stores a value that is stale: it was made from an older one. */
static bool is_older(const struct mc_command *command, uint64_t version)
{
	return mc_has(command, 'I') && command->mode == WIRE_CAS && command->cas < version;
}

void meta_put_request(struct action *action, const uint8_t *block)
{
	const struct mc_command *command = action->command;
	struct request *request = &action->request;
	int64_t ttl = action_ttl(command->exptime);
	uint32_t expires;
	int64_t left;

	request->mode = command->mode;
	request->value = block;
	request->value_len = command->value_len;
	request->item_flags = command->client_flags;
	request->version = command->cas;
	request->ttl = ttl == MC_EXPIRED ? 1 : (uint32_t)ttl;
	if (mc_has(command, 'C') &&
	    (command->mode == WIRE_APPEND || command->mode == WIRE_PREPEND)) {
		request->version = 0;
		request->expects = true;
		request->expected = command->cas;
	}
	if (!mc_has(command, 'I') || !is_older(command, version_now(action, &expires)))
		return;
	/* The item keeps its time. */
	action->head.expires = expires;
	request->mode = WIRE_SET;
	left = seconds_left(action);
	request->ttl = left < 0 ? 0 : left ? (uint32_t)left : 1;
}

static const char *put_code(const struct action *action)
{
	switch ((enum wire_status)action->head.status) {
	case WIRE_OK:
		return "HD";
	case WIRE_EXISTS:
		return action->command->mode == WIRE_ADD ? "NS" : "EX";
	case WIRE_NOT_FOUND:
		return action->command->mode == WIRE_CAS ? "NF" : "NS";
	default:
		return NULL;
	}
}

void meta_put_done(struct action *action)
{
	const struct mc_command *command = action->command;
	const char *code = put_code(action);
	struct line line = { .len = 0 };

	action_count_put(action);
	if (!code) {
		action_refuse(action);
		return;
	}
	if (!action->head.status && mc_has(command, 'q'))
		return;
	if (action->head.status)
		action->head.version = 0;
	line_add(&line, "%s", code);
	for (uint32_t i = 0; i < command->flag_count; i++)
		if (command->flags[i] == 'c')
			line_version(&line, action);
		else
			(void)line_plain(&line, command, command->flags[i]);
	line_add(&line, "\r\n");
	output_bytes(action->session->sockets, line.text, line.len);
}

void meta_stale_begin(struct session *session, uint64_t hash)
{
	struct marks *marks = marks_of(session->client.part->tenant, true);

	if (marks)
		marks_begin(marks, session->client.worker->number, hash);
}

/* Without memory for the mark the item is deleted. */
void meta_stale_end(struct action *action, unsigned int bits, bool stored)
{
	struct marks *marks = marks_of(tenant_of(action), false);
	bool made = false;

	if (stored)
		(void)mark(action, bits, &made);
	if (stored && !made)
		(void)action_expire(action);
	if (marks)
		marks_end(marks, action->session->client.worker->number);
}

/* Runs a change whose item is stale as soon as it is found. */
static enum action_next run_stale(struct action *action, unsigned int bits)
{
	enum action_next next;

	meta_stale_begin(action->session, action->hash);
	next = action_run(action);
	meta_stale_end(action, bits, next == ACTION_DONE && !action->head.status);
	return next;
}

static enum action_next put(struct action *action, const uint8_t *block)
{
	enum action_next next;
	unsigned int won;

	meta_put_request(action, block);
	if (action->request.mode == action->command->mode) {
		next = action_run(action);
	} else {
		action->head.version = version_now(action, &action->head.expires);
		won = marks_before(action) & MARK_WON;
		next = run_stale(action, MARK_STALE | won);
	}
	if (next == ACTION_DONE)
		meta_put_done(action);
	return next;
}

/* The time to live that flag T asks for, once the change has been made. */
static enum action_next touch_after(struct action *action)
{
	int64_t ttl = action_ttl(action->command->exptime);
	struct wire_response head = action->head;
	enum action_next next;

	if (ttl == MC_EXPIRED)
		return action_expire(action);
	memset(&action->request, 0, sizeof(action->request));
	action->request.op = WIRE_TOUCH;
	action->request.key = action->command->key;
	action->request.key_len = action->command->key_len;
	action->request.ttl = (uint32_t)ttl;
	next = action_run(action);
	head.expires = action->head.status ? head.expires : action->head.expires;
	action->head = head;
	return next;
}

static enum action_next erase(struct action *action)
{
	const struct mc_command *command = action->command;
	struct mc_counters *counters = session_counters(action->session);
	struct request *request = &action->request;
	enum action_next next;

	if (mc_has(command, 'I')) {
		/* An append of nothing: the same value with another version. */
		request->op = WIRE_PUT;
		request->mode = WIRE_APPEND;
		request->value = command->key;
		request->expects = mc_has(command, 'C');
		request->expected = command->cas;
		next = run_stale(action, MARK_STALE);
	} else {
		request->flags = mc_has(command, 'C') ? WIRE_F_IF_VERSION : 0;
		request->version = command->cas;
		next = action_run(action);
	}
	if (next != ACTION_DONE)
		return next;
	if (action->head.status == WIRE_NOT_FOUND) {
		stat_add(&counters->delete_misses, 1);
		answer_code(action, "NF", false);
	} else if (action->head.status == WIRE_EXISTS) {
		answer_code(action, "EX", false);
	} else if (action->head.status) {
		action_refuse(action);
	} else {
		stat_add(&counters->delete_hits, 1);
		if (mc_has(command, 'I') && mc_has(command, 'T'))
			(void)touch_after(action);
		answer_code(action, "HD", true);
	}
	return ACTION_DONE;
}

static void arith_request(struct action *action)
{
	const struct mc_command *command = action->command;
	struct request *request = &action->request;
	int64_t ttl;

	request->mode = command->mode;
	request->delta = command->delta;
	request->expects = mc_has(command, 'C');
	request->expected = command->cas;
	if (!mc_has(command, 'N'))
		return;
	ttl = action_ttl(command->vivify_exptime);
	request->flags = WIRE_F_CREATE;
	request->initial = command->initial;
	request->ttl = ttl == MC_EXPIRED ? 1 : (uint32_t)ttl;
}

static void arith_answer(const struct action *action)
{
	const struct mc_command *command = action->command;
	struct line line = { .len = 0 };
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, action->head.result);

	if (mc_has(command, 'q'))
		return;
	if (mc_has(command, 'v'))
		line_add(&line, "VA %d", n);
	else
		line_add(&line, "HD");
	for (uint32_t i = 0; i < command->flag_count; i++)
		if (command->flags[i] == 't')
			line_time(&line, action);
		else if (command->flags[i] == 'c')
			line_version(&line, action);
		else
			(void)line_plain(&line, command, command->flags[i]);
	line_add(&line, mc_has(command, 'v') ? "\r\n%s\r\n" : "\r\n", digits);
	output_bytes(action->session->sockets, line.text, line.len);
}

static enum action_next arith(struct action *action)
{
	enum action_next next;

	arith_request(action);
	next = action_run(action);
	if (next != ACTION_DONE)
		return next;
	if (action->head.status == WIRE_NOT_FOUND) {
		action_count_arith(action);
		answer_code(action, "NF", false);
	} else if (action->head.status == WIRE_EXISTS) {
		answer_code(action, "EX", false);
	} else if (action->head.status) {
		action_refuse(action);
	} else {
		next = mc_has(action->command, 'T') ? touch_after(action) : ACTION_DONE;
		if (next != ACTION_DONE)
			return next;
		action_count_arith(action);
		arith_answer(action);
	}
	return ACTION_DONE;
}

/* me: what the server knows of the item. */
static enum action_next debug(struct action *action)
{
	const struct store_thread *thread = client_thread(&action->session->client);
	const struct mc_command *command = action->command;
	struct line line = { .len = 0 };
	struct access_told access;
	struct item_ref ref;
	uint32_t len;

	action->request.flags = WIRE_F_NO_VALUE;
	action->head.status = (uint8_t)action_admit(action);
	if (action->head.status) {
		action_refuse(action);
		return ACTION_DONE;
	}
	if (lookup_get_part(client_thread(&action->session->client), action->hash, command->key,
			    command->key_len, 0, NULL, 0, &ref, &len)) {
		output_line(action->session->sockets, "EN");
		return ACTION_DONE;
	}
	access = access_time_tell(thread, ref.front.item.access);
	action->head.expires = ref.front.item.expires;
	line_add(&line, "ME %.*s", (int)command->key_text_len, (const char *)command->key_text);
	line_add(&line, " exp=%" PRId64, seconds_left(action));
	line_add(&line, " la=%" PRIu32, access.age ? access_time_age_s(thread, access.age - 1) : 0);
	line_add(&line, " cas=%" PRIu64 " fetch=%s", ref.front.item.version,
		 access.uses ? "yes" : "no");
	len = (uint32_t)item_bytes_for(command->key_len, item_value_len(&ref.front.item),
				       item_flags(&ref.front.item));
	line_add(&line, " cls=%zu size=%" PRIu32 "\r\n", mem_class_bytes(len), len);
	output_bytes(action->session->sockets, line.text, line.len);
	return ACTION_DONE;
}

enum action_next meta_run(struct session *session, const struct mc_command *command,
			  const uint8_t *block, uint32_t received, uint64_t until_ns)
{
	static const enum wire_op ops[] = {
		[MC_META_GET] = WIRE_GET,	[MC_META_PUT] = WIRE_PUT,
		[MC_META_DELETE] = WIRE_DELETE, [MC_META_ARITH] = WIRE_ARITH,
		[MC_META_DEBUG] = WIRE_GET,
	};
	struct action action;

	action_init(&action, session, command, ops[command->op], received, until_ns);
	if (!session->work && !action.paid)
		stat_add(&session_counters(session)->cmd_meta, 1);
	/* A value finds its own room. */
	if (command->op == MC_META_GET)
		return get(&action);
	if (!output_room(session, SESSION_ANSWER_MAX))
		return ACTION_CLOGGED;
	switch (command->op) {
	case MC_META_PUT:
		return put(&action, block);
	case MC_META_DELETE:
		return erase(&action);
	case MC_META_ARITH:
		return arith(&action);
	default:
		return debug(&action);
	}
}
