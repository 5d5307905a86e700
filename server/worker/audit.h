/* SPDX-License-Identifier: MIT */
/*
 * The audit log: which clients connected, which were refused, and what was done to the server as a
 * whole. Each event is one line, a JSON object with ts and event:
 *
 *	{"ts":"2026-11-21T00:18:00.123456Z","event":"closed","connection":385,"way":"softnic",
 *	"principal":"user=ops","user":"ops","address":"pid:4711","uid":1000,"reason":"killed"}
 *
 * No line contains a key, a value or a password. A client can't fill a disk: audit_limit.h.
 *
 * Threads: any thread, at any time. No function waits, except for a lock that is held while a line
 * is counted.
 */
#ifndef KVD_SERVER_WORKER_AUDIT_H
#define KVD_SERVER_WORKER_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/log_line.h"
#include "server/worker/client.h"

/* The longest line: eight texts fit, which are cut. */
#define AUDIT_LINE_MAX 3072

/*
 * From now on @sink gets each line, which ends in a newline. NULL: there is no audit log; first the
 * lines of how many were left out are written. Before other threads start, and after they ended.
 */
void audit_set_sink(void (*sink)(const char *line, size_t length));

/* The client may connect; it has authenticated by a password. */
void audit_opened(struct client *client);
void audit_authenticated(const struct client *client);

/*
 * The client's connection has ended, if it was opened: as client_ends() was told or, if @why is not
 * NULL, because of that.
 */
void audit_closed(const struct client *client, const char *why);

/* A connection is refused for @reason, which ends at a '\r'. */
void audit_refused(enum device_kind kind, const struct cm_peer *peer, const char *reason);

/* The client gave a wrong password, or one of a user that it can't be now. */
void audit_login_failed(const struct client *client, const char *reason);

/*
 * @client asked for @action, such as "KILL", on @target, which may be empty; @result: "ok", or why
 * it was not done. NULL: the server does it, because of a signal or of users.file.
 */
void audit_admin(const struct client *client, const char *action, const char *target,
		 const char *result);

/* Writes how many lines were left out in the seconds that are over. Once a second. */
void audit_tick(uint64_t now_ns);

/* Makes the line that says how many were lost. Returns its length. */
size_t audit_lost(char line[LOG_LINE_MAX], uint64_t lost);

#endif /* KVD_SERVER_WORKER_AUDIT_H */
