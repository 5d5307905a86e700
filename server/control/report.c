/* SPDX-License-Identifier: MIT */
/* Writes what a REPORT asks for as text: of the slow log and the sample, a line each. */
#include "server/control/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "server/control/query_text.h"
#include "server/control/traces.h"
#include "server/users/user.h"
#include "server/worker/audit.h"
#include "server/worker/conn.h"

#define NS_PER_S 1000000000u
#define NS_PER_US 1000u
/* A byte of a key may become %XX. */
#define KEY_TEXT_BYTES (3 * TRACE_KEY_BYTES + 1)
#define LINE_MAX_BYTES 896
static_assert(LINE_MAX_BYTES + sizeof(struct wire_response) <= WIRE_RESPONSE_MIN,
	      "a response has room for a line");

/* A key is for those that could GET it. */
static bool sees_key(const struct conn *conn, const struct trace_record *record)
{
	const struct user *user = client_user(&conn->client);

	return (!user || user_reads_all(user)) &&
	       !strcmp(conn->client.part->tenant->name, record->tenant);
}

/* Printable ASCII but blank and '%' stands for itself: a line has no other blanks. */
static void print_key(const struct trace_entry *entry, char text[KEY_TEXT_BYTES])
{
	const uint32_t len = entry->key_len < TRACE_KEY_BYTES ? entry->key_len : TRACE_KEY_BYTES;

	for (uint32_t i = 0; i < len; i++) {
		const uint8_t byte = entry->key[i];

		if (byte > ' ' && byte < 0x7f && byte != '%')
			*text++ = (char)byte;
		else
			text += sprintf(text, "%%%02X", byte);
	}
	*text = '\0';
}

/* Returns the line's length. */
static uint32_t print_record(const struct conn *conn, const struct trace_record *record,
			     char line[LINE_MAX_BYTES])
{
	const struct trace_entry *entry = &record->entry;
	const time_t arrived_s = (time_t)(entry->arrived_ns / NS_PER_S);
	char key[KEY_TEXT_BYTES] = "";
	struct tm tm;
	int n;

	gmtime_r(&arrived_s, &tm);
	n = snprintf(line, LINE_MAX_BYTES,
		     "number=%" PRIu64 " time=%d-%02d-%02dT%02d:%02d:%02d.%06" PRIu64
		     "Z took_us=%" PRIu64 " op=%s status=%s value_bytes=%" PRIu64
		     " worker=%u id=%" PRIu64,
		     record->number, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
		     tm.tm_min, tm.tm_sec, entry->arrived_ns % NS_PER_S / NS_PER_US,
		     entry->took_ns / NS_PER_US, wire_op_name(entry->op),
		     wire_status_name(entry->status), entry->value_len, record->worker,
		     entry->client);
	if (*record->address) {
		const char *scheme = device_scheme(record->kind);

		n += snprintf(line + n, LINE_MAX_BYTES - (size_t)n, " way=%.*s addr=%s",
			      (int)strcspn(scheme, ":"), scheme, record->address);
	}
	if (*record->user)
		n += snprintf(line + n, LINE_MAX_BYTES - (size_t)n, " user=%s", record->user);
	if (*record->tenant)
		n += snprintf(line + n, LINE_MAX_BYTES - (size_t)n, " tenant=%s", record->tenant);
	n += snprintf(line + n, LINE_MAX_BYTES - (size_t)n, " key_bytes=%u", entry->key_len);
	if (entry->key_len && sees_key(conn, record)) {
		print_key(entry, key);
		n += snprintf(line + n, LINE_MAX_BYTES - (size_t)n, " key=%s", key);
	}
	line[n++] = '\n';
	return (uint32_t)n;
}

/* Writes the records from @number on, as many as fit. Returns the next one's number. */
static uint64_t print_log(const struct conn *conn, struct query *query, const struct trace_log *log,
			  uint64_t number)
{
	uint64_t index = trace_log_find(log, number);
	char line[LINE_MAX_BYTES];
	uint32_t len;

	for (; index < log->count; index++) {
		len = print_record(conn, trace_log_at(log, index), line);
		if (len > query->size - query->len)
			break;
		memcpy(query->text + query->len, line, len);
		query->len += len;
		number = trace_log_at(log, index)->number + 1;
	}
	return number;
}

static void answer_slow(struct net *net, const struct conn *conn, struct query *query)
{
	const struct trace_log *log = &net->traces.slow;
	const uint64_t next = print_log(conn, query, log, query->arg);

	query->cursor = trace_log_find(log, next) < log->count ? next : 0;
}

/* A sample's cursor is never 0: the reader asks from there on. */
static void answer_sample(struct net *net, const struct conn *conn, struct query *query)
{
	const struct trace_log *log = &net->traces.sample;
	const uint64_t now_ns = store_clock_ns(net->env.store);

	for (unsigned int i = 0; i < net->worker_count; i++)
		trace_sample(&net->workers[i].trace, query->every, now_ns);
	/* From now on; a cursor may be an earlier process's. */
	if (!query->arg || query->arg > log->next) {
		audit_admin(&conn->client, "REPORT", "sample of operations", "ok");
		query->cursor = log->next;
		return;
	}
	query->cursor = print_log(conn, query, log, query->arg);
}

/* The kernel, then each mapping's size, access and file; no addresses: they are secret. */
static void process_write(FILE *out)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long begin, end;
	char line[512], access[8];
	struct utsname system;
	int path;

	if (!uname(&system))
		fprintf(out, "kernel %s\n", system.release);
	while (file && fgets(line, sizeof(line), file)) {
		path = 0;
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%lx-%lx %7s %*x %*s %*u %n", &begin, &end, access, &path) == 3)
			fprintf(out, "%lu %s %s\n", end - begin, access, path ? line + path : "");
	}
	if (file)
		fclose(file);
}

/* False: no memory. */
static bool process_take(struct query *query)
{
	FILE *out;

	free(query->process);
	query->process = NULL;
	out = open_memstream(&query->process, &query->process_bytes);
	if (out)
		process_write(out);
	return out && !fclose(out);
}

/* The connection keeps the text until it has the last page: all pages show the same moment. */
static void answer_process(struct query *query)
{
	if ((!query->arg || !query->process) && !process_take(query)) {
		query->status = WIRE_BUSY;
		return;
	}
	query->cursor = query_page(query, query->process, query->process_bytes, query->arg);
	if (query->cursor)
		return;
	free(query->process);
	query->process = NULL;
}

static void answer_log(const struct net *net, struct query *query)
{
	uint64_t at = query->arg;

	if (!net->env.log_read)
		return;
	query->len = (uint32_t)net->env.log_read(&at, query->text, query->size);
	/* The next page may be empty. */
	query->cursor = query->len ? at : 0;
}

/*
 * What the server says of itself is not for each client of a server that has no users, as CONFIG is
 * not. False: it is refused.
 */
static bool shows_itself(const struct conn *conn, struct query *query)
{
	if (client_is_admin(&conn->client))
		return true;
	audit_admin(&conn->client, "REPORT", "", "the client is no administrator");
	query_say(query, WIRE_NOT_ALLOWED,
		  "the server's log and its process are for administrators: root and the server's "
		  "own user, on the Unix socket, or users of users.file with the right 'admin'");
	return false;
}

void report_answer(struct net *net, struct conn *conn, struct query *query)
{
	traces_take(net);
	switch ((enum wire_report)query->mode) {
	case WIRE_REPORT_SLOW:
		answer_slow(net, conn, query);
		break;
	case WIRE_REPORT_RESET:
		net->traces.slow.first = net->traces.slow.count;
		audit_admin(&conn->client, "REPORT", "slow log emptied", "ok");
		break;
	case WIRE_REPORT_SAMPLE:
		answer_sample(net, conn, query);
		break;
	case WIRE_REPORT_LOG:
		if (shows_itself(conn, query))
			answer_log(net, query);
		break;
	case WIRE_REPORT_PROCESS:
		if (shows_itself(conn, query))
			answer_process(query);
		break;
	}
}
