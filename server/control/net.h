/* SPDX-License-Identifier: MIT */
/* The network part of the server as a whole: its devices, its workers and its connections. */
#ifndef KVD_SERVER_CONTROL_NET_H
#define KVD_SERVER_CONTROL_NET_H

#include "common/util/cpu.h"
#include "server/control/accounts.h"
#include "server/control/conn_registry.h"
#include "server/control/conn_timer.h"
#include "server/control/endpoint.h"
#include "server/control/handshake.h"
#include "server/control/identity.h"
#include "server/control/kept_tenants.h"
#include "server/control/listener.h"
#include "server/control/logins.h"
#include "server/control/revoke.h"
#include "server/control/tenant_job.h"
#include "server/control/tenants.h"
#include "server/control/trace_log.h"
#include "server/worker/worker.h"

/*
 * How long requests are still executed before connections are closed because the server stops, or
 * their worker goes, so that those that have arrived get a response.
 */
#define RESPOND_NS 100000000ull

/* X(name, help): counted by the control thread. */
#define NET_STATS(X)                                                                               \
	X(connections, "connections open")                                                         \
	X(connections_total, "connections accepted since the start")                               \
	X(connections_rejected, "connections refused")                                             \
	X(connections_not_allowed,                                                                 \
	  "connections refused: no user of users.file, or none of rdma.networks, matches")         \
	X(connections_over_limit,                                                                  \
	  "connections refused beyond the connections of their user (users.file)")                 \
	X(connections_withdrawn,                                                                   \
	  "connections closed because users.file, read again, does not allow them any more")       \
	X(users, "users of users.file")                                                            \
	X(connections_expired,                                                                     \
	  "connections closed because HELLO, a TLS handshake of memcached's protocol, or the "     \
	  "answer to a probe did not arrive in time")                                              \
	X(connections_killed, "connections closed because a client asked for it")                  \
	X(connections_revoked, "connections closed because their client was revoked")              \
	X(access_errors, "connections closed because their client READ without the right to")      \
	X(connections_replaced, "connections closed because their client connected anew")          \
	X(identities, "clients whose connections are open and whose changes are executed once")    \
	X(identities_kept, "clients whose connections ended within server.identity_time")          \
	X(identities_evicted,                                                                      \
	  "clients forgotten before that time, to make room for others (limits.identities)")       \
	X(identities_refused, "connections without exactly-once execution, for lack of room")      \
	X(keepalive_probes, "probes of idle connections")                                          \
	X(srq_limits, "times a shared receive queue had less than an eighth of its receives left") \
	X(async_errors, "asynchronous errors reported by a device")                                \
	X(device_failures, "devices that failed or were removed")                                  \
	X(slow_requests, "requests that took longer than log.slow")

struct net_stats {
#define X(name, help) uint64_t name;
	NET_STATS(X)
#undef X
};

TAILQ_HEAD(query_list, conn);

/* The change of a tenant that is under way: server/control/tenant_manager.h. */
struct tenant_command {
	enum {
		COMMAND_NONE,
		COMMAND_CLOSING,   /* connections are closed */
		COMMAND_DETACHING, /* workers forget the tenant; waits for devices that change */
		COMMAND_WORKING,   /* the job runs */
	} step;
	enum wire_tenant mode;
	struct tenant *tenant;
	uint64_t bytes;
	uint64_t asker; /* number of the connection that asked; 0: `memory` of a user */
	unsigned int workers_left;
	int err;
};

/* The workers that come or go: server/control/worker_manager.h. */
struct worker_change {
	enum {
		WORKERS_STAY,
		WORKERS_ANSWERING, /* some leave: they get no new connections */
		WORKERS_CLOSING,   /* and those that they have are closed */
	} step;
	bool reserves;	     /* others set aside receives for more connections */
	uint64_t until_ns;   /* the step's end, by clock_ns() */
	uint64_t reserve_ns; /* ANSWERING: no longer if the others have no receives */
};

/* The change of memory.size that is under way: server/control/memory_size.h. */
struct memory_change {
	enum {
		MEMORY_STAYS,
		MEMORY_EXTENDING, /* the job runs */
		MEMORY_CLOSING,	  /* the maintenance thread empties extents */
		MEMORY_LEAVING,	  /* connections that may have keys of them end */
		MEMORY_CUTTING,	  /* the job runs */
	} step;
	uint32_t target;  /* extents */
	uint64_t warn_ns; /* of MEMORY_CLOSING: when the log says that it goes on */
};

struct net {
	struct worker_env env;
	struct endpoint endpoints[LISTEN_MAX];
	unsigned int endpoint_count;
	struct nic nics[NIC_MAX];
	unsigned int nic_count;
	struct worker *workers;	   /* WORKERS_MAX places */
	unsigned int worker_count; /* those that run, the first ones */
	unsigned int workers_made; /* those that run or have run, with what they have counted */
	/*
	 * Held by the control thread while it starts or ends a worker and changes the numbers
	 * above, and by another thread while it uses workers by them.
	 */
	pthread_mutex_t workers_lock;
	struct worker_change worker_change; /* the control thread's */
	struct mailbox mailbox;		    /* notes to the control thread */
	struct late_principals late_principals;
	struct tenants tenants;
	struct listeners listeners;
	struct handshakes handshakes;

	/* The control thread's: server/control/conn_manager.h. */
	uint64_t made_ns;			   /* by clock_ns(), at net_init() */
	struct net_stats stats;			   /* other threads may read them */
	struct conn *conns;			   /* all connections, linked by next and prev */
	LIST_HEAD(net_sessions, session) sessions; /* all sessions */
	/* Sessions whose client has to authenticate soon. */
	TAILQ_HEAD(locked_sessions, session) sessions_locked;
	unsigned int sessions_count[WORKERS_MAX]; /* of each worker */
	struct logins logins;
	int spare_fd;	     /* closed to refuse a connection when no descriptor is left */
	struct users *users; /* NULL: any client may connect */
	struct accounts accounts;
	struct conn_timers timers;
	struct query_list queries; /* connections whose HELLO, CLIENTS, KILL or REVOKE waits */
	struct query_list stats_queries;  /* connections whose STATS waits */
	struct query_list tenant_queries; /* connections whose TENANT waits */
	struct query_list config_queries; /* connections whose CONFIG waits */
	struct kept_tenants kept;	  /* of an earlier process, to be made while starting */
	bool answers_loaded;		  /* kept_identities.h */
	bool starting;			  /* the stores are being made: no client is served yet */
	int start_err;			  /* why `starting` failed; 0 */
	struct tenant_command command;
	struct memory_change memory;
	size_t users_sized; /* users whose memory was compared with their tenant's */
	struct tenant_jobs jobs;
	uint64_t stats_at_ns; /* no snapshot is made earlier */
	struct traces traces;
	struct conn_registry registry;
	struct identities identities;
	struct revoked revoked[REVOKED_MAX];
	uint32_t serial;	     /* of the last connection */
	uint32_t admins_count;	     /* connections beyond server.max_connections */
	bool events_left;	     /* EVENTS_AT_ONCE were taken: a device may have more */
	bool stopping;		     /* new connections are refused */
	bool stop_asked;	     /* SHUTDOWN came: the control loop stops the server */
	uint64_t taken[WORKERS_MAX]; /* each worker's mailbox.taken at the last net_alive() */

	/* The fleet's thread's: mailbox.taken + 1 when a worker was asked last; 0: never. */
	uint64_t turned[WORKERS_MAX];
};

/*
 * Opens the configured devices, before there is a store; @net is all zero. Returns 0 or a negative
 * errno after logging. net_release() releases what was set up, as after net_init().
 */
int net_open(struct net *net, const struct config *config);
/*
 * Sets up the devices and the workers; then tenant_manager_run() makes the stores. The caller fills
 * in config, store, store_options, stats_print and stats_source of @env. Returns 0 or a negative
 * errno after logging.
 */
int net_init(struct net *net, const struct worker_env *env);
/*
 * Checks, without changing anything, that a server could listen at the configured addresses; @warn:
 * warns of addresses in use. 0 or a negative errno after logging.
 */
int net_check(const struct config *config, bool warn);
/* Whether a device is one of RDMA. */
bool net_has_rdma(const struct net *net);
/* Whether a device has failed, and is not released yet. */
bool net_devices_change(const struct net *net);
/* Whether a job runs for a tenant or for memory.size, or its result has not been taken. */
static inline bool net_job_runs(const struct net *net)
{
	return net->jobs.runs || net->command.step == COMMAND_WORKING ||
	       net->memory.step == MEMORY_EXTENDING || net->memory.step == MEMORY_CUTTING;
}

/* Whether workers are being taken away. */
static inline bool net_workers_leave(const struct net *net)
{
	return net->worker_change.step != WORKERS_STAY;
}

/* Whether worker_manager_run() has something to do soon. */
static inline bool net_workers_change(const struct net *net)
{
	return net_workers_leave(net) || net->worker_change.reserves;
}

static inline bool net_has_clients(const struct net *net)
{
	return net->conns || !LIST_EMPTY(&net->sessions);
}

/* No worker may run and no connection may be left. */
void net_release(struct net *net);

/*
 * Starts the workers, then the listeners, when net->starting is false. 0 or a negative errno after
 * logging.
 */
int net_start(struct net *net);
/*
 * Whether each worker has finished a turn since the last call, or this is the first; wakes all of
 * them, so that sleeping ones finish a turn until the next call. Logs a worker that has not. The
 * control thread calls it now and then.
 */
bool net_alive(struct net *net);
/* What all workers have counted. The control thread, or another one that holds workers_lock. */
void net_commands(const struct net *net, struct command_counts *sums);
/* turn_wait() for each worker of @net, a struct net. */
void net_turns_wait(void *net);
/*
 * Reads the files of [tls] again, for new connections; if they can't be used, logs why and keeps
 * the old ones. The control thread calls it.
 */
void net_renew(struct net *net);
/*
 * Whether each worker of @net, a struct net, has had a turn that began after the last time that
 * this was true, or after the first call; then wakes all of them. The fleet's thread calls it.
 */
bool net_turned(void *net);
/* Stops the workers. */
void net_stop(struct net *net);

#endif /* KVD_SERVER_CONTROL_NET_H */
