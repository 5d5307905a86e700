/* SPDX-License-Identifier: MIT */
/*
 * Manages the sessions of clients of memcached's protocol for the control thread: admits them,
 * gives each to a worker, closes them. server/memcached/session.h has the life of a session. All
 * functions are for the control thread; none blocks.
 */
#ifndef KVD_SERVER_CONTROL_SESSION_MANAGER_H
#define KVD_SERVER_CONTROL_SESSION_MANAGER_H

#include "server/control/net.h"
#include "server/control/revoke.h"

/* Takes connections, a bounded number; net->events_left says that there may be more. */
void session_manager_accept(struct net *net, struct listener *listener);
/* Handles a note of a session: NOTE_SESSION_ASKS, NOTE_SESSION_ENDED. */
void session_manager_note(struct net *net, const struct note *note);
/* Admits the clients whose TLS handshakes are done, and reports those that failed. */
void session_manager_handshakes(struct net *net);
/* Takes NOTE_PASSWORD_DONE. */
void session_manager_password_checked(struct net *net);
/*
 * Closes sessions whose client has not authenticated within server.handshake_timeout, and answers
 * logins that have waited for their time. @now_ns: by clock_ns().
 */
void session_manager_expire(struct net *net, uint64_t now_ns);
/* Starts to close a session, as client_ends() has it. */
void session_manager_close(struct session *session, enum client_end end);
/* Starts to close all sessions, or all of the tenant. */
void session_manager_close_all(struct net *net);
void session_manager_close_tenant(struct net *net, const struct tenant *tenant);
/*
 * Makes the sessions of worker @first and those after it end once they have executed what has
 * arrived and their clients have taken the answers; or starts to close them.
 */
void session_manager_finish_workers(struct net *net, unsigned int first);
void session_manager_close_workers(struct net *net, unsigned int first);
/* Starts to close the sessions that match; returns how many are left. */
unsigned int session_manager_revoke(struct net *net, const struct revoke *revoke);
/*
 * Gives each session its user of @users, a newer reading of the file, or closes it, as
 * conn_manager_renew_users(). True: an old user must be put after a grace period, by
 * session_manager_put_users().
 */
bool session_manager_renew_users(struct net *net, struct users *users);
void session_manager_put_users(struct net *net);
/* Frees all sessions that are left. No worker may run. */
void session_manager_free_all(struct net *net);

#endif /* KVD_SERVER_CONTROL_SESSION_MANAGER_H */
