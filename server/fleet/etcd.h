/* SPDX-License-Identifier: MIT */
/*
 * A client of etcd, of version 3.4 or later, for the fleet: reads, transactions and leases by its
 * JSON gateway. Its rules:
 *
 *   ETCD-1. Reads are linearizable: a read that begins after a change was answered sees it,
 *	     whichever member of etcd is asked.
 *   ETCD-2. A transaction is sent to one endpoint, once. If nobody can know whether it was, or
 *	     will be, executed, its outcome is ETCD_UNKNOWN, and no call tries it again. A read
 *	     tells whether it was executed until then. It may still be executed later, by a member
 *	     that was stopped, say, until something that it compares has changed. So each
 *	     transaction compares what it changes; then, of several attempts that compare the same
 *	     revision, at most one is executed.
 *   ETCD-3. Whatever a peer sends, memory (ETCD_REPLY_MAX, ETCD_VALUES_MAX) and time (each call's
 *	     timeout_ms) are bounded.
 *
 * Endpoints: a call asks the one that answered last, for options.try_ms. If that one does not
 * answer, or answers that it can't serve now, the call asks the next one, each once; and later
 * calls begin there. So only one call waits for an endpoint that is down. The last endpoint that
 * is left has the rest of the call's time.
 *
 * Errors of the calls, with a text in etcd_why():
 *
 *	-EHOSTUNREACH	no endpoint accepts a connection, or its name is not known
 *	-ETIMEDOUT	no answer within the time
 *	-ECONNRESET	the connection broke before the answer
 *	-EAGAIN		etcd can't serve now: it has no leader, or too much to do
 *	-EKEYREJECTED	TLS: one end refused the other's certificate, or does not speak it; but
 *			a certificate that etcd refuses may also break the connection
 *	-EACCES		user, password or rights; or the file of the user can't be used
 *	-EPROTO		not an etcd, one that is too old, or a broken answer
 *	-EMSGSIZE	the answer is larger than ETCD_REPLY_MAX
 *	-EINVAL		the request is not valid, or too large, for this module or for etcd
 *	-ENOENT		there is no such lease
 *	-ENOSPC		etcd's database is full
 *	-ECANCELED	etcd_interrupt()
 *	-ENOMEM
 *
 * With several endpoints, it is the error of the one that was asked last. Nothing is logged here.
 *
 * Cost, with etcd 3.4 and its data in memory, on loopback, the 2 cores of an Intel Xeon shared with
 * other work, 2026-11-29 (calls a second, median, CPU time in kvd):
 *
 *				http://				https://, both certificates
 *	transaction		2,112	0.45 ms	 0.07 ms	1,234	0.72 ms	 0.11 ms
 *	keepalive		3,173	0.30 ms	 0.06 ms	1,533	0.57 ms	 0.11 ms
 *	read			2,561	0.35 ms	 0.06 ms	1,387	0.59 ms	 0.10 ms
 *	PUT of 132 KiB		  137	6.7 ms	 0.2 ms		  118	7.8 ms	 0.4 ms
 *	read of 132 KiB		  228	4.2 ms	 3.2 ms		  211	4.6 ms	 3.4 ms
 *
 * jansson takes most of the last row. A handle holds 0.5 MiB after small calls, 0.7 MiB after those
 * of 132 KiB, and 0.7 MiB more with TLS. libcurl and its libraries add 2.5 MiB of shared pages.
 *
 * Threads: a handle is used by one thread, whose calls block; any thread may call etcd_interrupt().
 * The process must ignore SIGPIPE. To resolve a name libcurl starts a thread, which inherits the
 * signal mask.
 */
#ifndef KVD_SERVER_FLEET_ETCD_H
#define KVD_SERVER_FLEET_ETCD_H

#include "server/fleet/etcd_call.h"
#include "server/fleet/etcd_request.h"
#include "server/fleet/etcd_response.h"

/*
 * Checks the options and the files that they name, and makes a handle; connects to nobody. 0, or
 * -ENOMEM, or -EINVAL: an option or a file can't be used. @why then says which, why and what to do,
 * without a full stop. Call it after tls_memory_protect().
 */
int etcd_open(struct etcd **etcd, const struct etcd_options *options, char why[ETCD_WHY_MAX]);
/* Closes the connections. May be NULL. No thread may be in etcd_interrupt(). */
void etcd_close(struct etcd *etcd);

/*
 * Ends the call in progress, if there is one, with -ECANCELED, and all later ones, until
 * etcd_resume(). Any thread; it does not block.
 */
void etcd_interrupt(struct etcd *etcd);
void etcd_resume(struct etcd *etcd);

/* The last call's error, or 0. */
int etcd_error(const struct etcd *etcd);
/*
 * Why the last call failed: which endpoint, what failed, and what to do about it, without a full
 * stop; "" if it succeeded. Printable; valid until the next call.
 */
const char *etcd_why(const struct etcd *etcd);
/*
 * The URL of an endpoint; and which one is asked first: that @number, modulo how many there are,
 * and after a failure another one.
 */
const char *etcd_url(const struct etcd *etcd, unsigned int endpoint);
unsigned int etcd_current(const struct etcd *etcd);
void etcd_prefer(struct etcd *etcd, uint64_t number);

/*
 * Reads a key, or with @prefix all keys that begin with @key, all at one revision (ETCD-1). 0 with
 * @answer, which has one range, empty if there is no such key; the caller releases it. Or an error.
 */
int etcd_get(struct etcd *etcd, const char *key, bool prefix, unsigned int timeout_ms,
	     struct etcd_answer *answer);

enum etcd_outcome {
	ETCD_SUCCEEDED,	     /* all compares were true, and the branch @success was executed */
	ETCD_COMPARE_FAILED, /* one was not, and the branch @failure was executed */
	/*
	 * Nothing was executed, or will be: no endpoint was reached, or etcd refused it before it
	 * did anything. etcd_error() says which.
	 */
	ETCD_NOT_EXECUTED,
	/*
	 * The transaction was sent, and there is no definite answer. Read before anything else is
	 * done, and mind ETCD-2.
	 */
	ETCD_UNKNOWN,
};

/*
 * Executes a transaction, once at most (ETCD-2). After the first two outcomes @answer has a range
 * for each operation of the branch, and the caller releases it; else it is zeroed, and etcd_error()
 * and etcd_why() say why.
 */
enum etcd_outcome etcd_txn(struct etcd *etcd, const struct etcd_txn *txn, unsigned int timeout_ms,
			   struct etcd_answer *answer);

/*
 * Grants a lease of @ttl_s seconds; etcd may make it longer (*granted_s), but has no shorter one
 * than 1.5 times its election timeout. 0 or an error: then a lease may have been granted that
 * nobody knows, which ends by itself.
 */
int etcd_lease_grant(struct etcd *etcd, int64_t ttl_s, unsigned int timeout_ms, int64_t *lease,
		     int64_t *granted_s);
/*
 * Lets a lease begin again. 0 with what it has left, or an error, -ENOENT if it has ended. Success
 * does not prove that the keys of the lease are there.
 */
int etcd_lease_keepalive(struct etcd *etcd, int64_t lease, unsigned int timeout_ms, int64_t *ttl_s);
/* The whole seconds that a lease has left. 0 or an error, -ENOENT if it has ended. */
int etcd_lease_ttl(struct etcd *etcd, int64_t lease, unsigned int timeout_ms, int64_t *ttl_s);
/* Ends a lease, and with it its keys. 0 or an error, -ENOENT if it had ended, or this call did. */
int etcd_lease_revoke(struct etcd *etcd, int64_t lease, unsigned int timeout_ms);

/* How the endpoint is, from itself alone: no other one is asked. 0 or an error. */
int etcd_status(struct etcd *etcd, unsigned int endpoint, unsigned int timeout_ms,
		struct etcd_status *status);

#endif /* KVD_SERVER_FLEET_ETCD_H */
