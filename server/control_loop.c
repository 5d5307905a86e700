/* SPDX-License-Identifier: MIT */
/*
 * The control thread's loop: it waits for connection events, asynchronous events, signals and the
 * workers' notes, and wakes up once a second for the clock and the deadlines.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/stat.h"
#include "server/config_command.h"
#include "server/control/conn_manager.h"
#include "server/control/memory_size.h"
#include "server/control/recovery.h"
#include "server/control/session_manager.h"
#include "server/control/tenant_manager.h"
#include "server/control/traces.h"
#include "server/control/worker_manager.h"
#include "server/detach.h"
#include "server/notify.h"
#include "server/reload.h"
#include "server/server.h"
#include "server/worker/audit.h"

#define TICK_MS 1000
#define TICK_FLUSHING_MS 10 /* while connections or workers end */
#define EVENTS_MAX 16
#define NS_PER_MS 1000000ull

/*
 * Health checks of the workers within the timeout of systemd's watchdog. One may fail: a busy
 * machine may keep a worker from running for a while.
 */
#define HEALTH_PER_WATCHDOG 4

/* How long closing all connections may take at the end. */
#define FORCE_NS 5000000000ull
#define FORCE_S (FORCE_NS / 1000000000ull)

/* Sources of epoll events; an event has the number of the device, too. */
enum source { SOURCE_CM, SOURCE_ASYNC, SOURCE_MAILBOX, SOURCE_SIGNAL, SOURCE_LISTENER };

struct loop {
	struct server *server;
	int epoll_fd;
	int signal_fd;
	uint64_t health_ns; /* how often to ask; 0: nobody wants to know */
	uint64_t health_at_ns;
};

static int loop_add(struct loop *loop, int fd, enum source source, unsigned int index)
{
	struct epoll_event event = {
		.events = EPOLLIN,
		.data.u64 = (uint64_t)source << 32 | index,
	};

	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Watches the descriptors that are new. Closing one removed it from epoll. */
static int loop_watch_devices(struct loop *loop)
{
	struct net *net = &loop->server->net;
	struct endpoint *endpoint;
	struct nic *nic;
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < net->endpoint_count; i++) {
		endpoint = &net->endpoints[i];
		if (endpoint->watched || !endpoint->channel)
			continue;
		err = loop_add(loop, endpoint->channel->fd, SOURCE_CM, i);
		endpoint->watched = !err;
	}
	for (i = 0; !err && i < net->nic_count; i++) {
		nic = &net->nics[i];
		if (nic->watched || !nic->dev)
			continue;
		err = loop_add(loop, nic->dev->verbs->async_fd, SOURCE_ASYNC, i);
		nic->watched = !err;
	}
	return err;
}

/*
 * Once they listen: before, a socket looks like one whose peer has hung up. Those of TLS are for
 * the thread of handshakes.
 */
static int loop_watch_listeners(struct loop *loop)
{
	struct net *net = &loop->server->net;
	struct listeners *listeners = &net->listeners;
	int err = 0;

	for (unsigned int i = 0; !err && i < listeners->count; i++)
		if (!listener_is_tls(&listeners->list[i]))
			err = loop_add(loop, listeners->list[i].fd, SOURCE_LISTENER, i);
	return err ? err : handshakes_start(&net->handshakes, listeners, &net->mailbox);
}

static int loop_add_all(struct loop *loop)
{
	struct server *server = loop->server;
	int err;

	err = loop_add(loop, loop->signal_fd, SOURCE_SIGNAL, 0);
	if (!err)
		err = loop_add(loop, server->net.mailbox.event_fd, SOURCE_MAILBOX, 0);
	return err ? err : loop_watch_devices(loop);
}

static int loop_init(struct loop *loop, struct server *server)
{
	sigset_t signals;
	int err;

	loop->server = server;
	loop->health_ns = notify_watchdog_ns() / HEALTH_PER_WATCHDOG;
	if (loop->health_ns && loop->health_ns < NS_PER_MS)
		loop->health_ns = NS_PER_MS; /* what epoll_wait() counts in */
	if (server->http && (!loop->health_ns || loop->health_ns > HTTP_ALIVE_NS))
		loop->health_ns = HTTP_ALIVE_NS;
	loop->health_at_ns = 0;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	err = loop->epoll_fd < 0 || loop->signal_fd < 0 ? -errno : loop_add_all(loop);
	if (err)
		log_error("the control thread can't wait for events: %s%s", strerror(-err),
			  err == -EMFILE ? ": " ADVICE_OPEN_FILES : "");
	return err;
}

static void loop_release(struct loop *loop)
{
	if (loop->signal_fd >= 0)
		close(loop->signal_fd);
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
}

/* Begins to stop; a second call ends all waiting. */
static void stop(struct server *server)
{
	uint64_t now = clock_ns();

	server->net.stopping = true;
	http_set_phase(server->http, HTTP_STOPS);
	tenant_jobs_cancel(&server->net.jobs);
	if (server->drain_until_ns) {
		server->respond_until_ns = server->drain_until_ns = 1;
		return;
	}
	notify_send("STOPPING=1\nSTATUS=executing the requests that have arrived");
	server->respond_until_ns = now + RESPOND_NS;
	server->drain_until_ns = now + server->config.server.drain_timeout;
}

/* After SHUTDOWN. Unlike a second signal, a second SHUTDOWN does not end the waiting. */
static void stop_if_asked(struct server *server)
{
	if (server->net.stop_asked && !server->net.stopping)
		stop(server);
}

static void ready_tell(const struct server *server)
{
	if (server->net.stopping || !server->ready)
		return;
	notify_send("READY=1\nSTATUS=serving on %s with %u workers",
		    server->net.nics[0].dev->address, server->net.worker_count);
}

static void take_signals(struct loop *loop)
{
	struct server *server = loop->server;
	struct signalfd_siginfo info;

	while (read(loop->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			if (server->ready)
				notify_reloading();
			reload(server);
			ready_tell(server);
			continue;
		}
		log_notice("signal %u: stopping", info.ssi_signo);
		stop(server);
	}
}

static void dispatch(struct loop *loop, uint64_t data)
{
	struct server *server = loop->server;
	uint32_t number = (uint32_t)data;

	switch ((enum source)(data >> 32)) {
	case SOURCE_CM:
		conn_manager_cm_events(&server->net, &server->net.endpoints[number]);
		break;
	case SOURCE_ASYNC:
		conn_manager_async_events(&server->net, &server->net.nics[number]);
		break;
	case SOURCE_MAILBOX:
		conn_manager_read_mail(&server->net);
		break;
	case SOURCE_SIGNAL:
		take_signals(loop);
		break;
	case SOURCE_LISTENER:
		session_manager_accept(&server->net, &server->net.listeners.list[number]);
		break;
	}
}

/* Handles events beyond the bound of the last call, whether or not their fd is readable. */
static void take_events_left(struct server *server)
{
	unsigned int i;

	server->net.events_left = false;
	for (i = 0; i < server->net.endpoint_count; i++)
		conn_manager_cm_events(&server->net, &server->net.endpoints[i]);
	for (i = 0; i < server->net.nic_count; i++)
		conn_manager_async_events(&server->net, &server->net.nics[i]);
}

/* Waits for events or the next tick, and handles the events. */
static int loop_wait(struct loop *loop)
{
	struct server *server = loop->server;
	struct epoll_event events[EVENTS_MAX];
	int i, n, timeout_ms = TICK_MS;

	if (server->drain_until_ns || conn_manager_flushing(&server->net) ||
	    net_workers_change(&server->net))
		timeout_ms = TICK_FLUSHING_MS;
	if (loop->health_ns && timeout_ms > (int)(loop->health_ns / NS_PER_MS))
		timeout_ms = (int)(loop->health_ns / NS_PER_MS);
	timeout_ms = conn_manager_wait_ms(&server->net, timeout_ms);
	if (server->net.events_left)
		timeout_ms = 0;

	n = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, timeout_ms);
	if (n < 0 && errno != EINTR) {
		log_error("the control thread can't wait for events: epoll_wait: %m; kvd stops");
		return -errno;
	}
	if (server->net.events_left)
		take_events_left(server);
	for (i = 0; i < n; i++)
		dispatch(loop, events[i].data.u64);
	return 0;
}

/* Whether the server has stopped; closes all connections when it is time to. */
static bool stopping_done(struct server *server, uint64_t now)
{
	if (!server->drain_until_ns)
		return false;
	if (!server->force_until_ns) {
		if (now < server->respond_until_ns ||
		    (now < server->drain_until_ns && conn_manager_pulling(&server->net)))
			return false;
		server->force_until_ns = now + FORCE_NS;
		conn_manager_close_all(&server->net);
	}
	if (net_has_clients(&server->net) && now > server->force_until_ns)
		log_error("%llu connections did not close within %llu s: kvd stops anyway",
			  (unsigned long long)server->net.stats.connections, FORCE_S);
	return !net_has_clients(&server->net) || now > server->force_until_ns;
}

/* Supervisors restart kvd if a worker is stuck, and not only if this thread is. */
static void health_check(struct loop *loop, uint64_t now)
{
	if (!loop->health_ns || now < loop->health_at_ns)
		return;
	loop->health_at_ns = now + loop->health_ns;
	if (!net_alive(&loop->server->net))
		return;
	notify_send("WATCHDOG=1");
	http_alive(loop->server->http, now);
}

/* After a change of memory.size that failed, the option says what the region has. */
static void memory_size_follow(struct server *server)
{
	uint64_t bytes = server->ready ? memory_size_run(&server->net) : 0;

	if (!bytes)
		return;
	stat_set(&server->config.memory.size, bytes);
	server->options_version++;
}

/* Begins to serve once all stores exist. */
static int start(struct server *server)
{
	struct net *net = &server->net;
	int err;

	if (net->stopping)
		return 0;
	if (net->starting)
		return net->start_err;
	err = net_start(net);
	if (!err)
		err = server_join(server);
	if (err)
		return err;
	log_notice("ready: %u workers", net->worker_count);
	log_echo_errors(false);
	server->ready = true;
	http_set_phase(server->http, HTTP_SERVES);
	ready_tell(server);
	detach_ready();
	return 0;
}

static int loop_run(struct loop *loop)
{
	struct server *server = loop->server;
	uint64_t now = clock_ns(), tick = 0;
	int err = 0;

	while (!err && !stopping_done(server, now)) {
		err = loop_wait(loop);
		now = clock_ns();
		conn_manager_answer(&server->net, now);
		stop_if_asked(server);
		config_command_run(server);
		worker_manager_run(&server->net, now);
		tenant_manager_run(&server->net);
		memory_size_follow(server);
		conn_manager_expire(&server->net, now);
		if (!err && !server->ready) {
			err = start(server);
			if (!err && server->ready)
				err = loop_watch_listeners(loop);
		}
		if (server->ready) {
			health_check(loop, now);
			if (recovery_run(&server->net, now))
				err = loop_watch_devices(loop);
		}
		if (now - tick >= TICK_MS * 1000000ull) {
			tick = now;
			http_tick(server->http);
			/* No worker runs yet, but this thread does. */
			if (!server->ready)
				http_alive(server->http, now);
			conn_manager_arm_srq_limits(&server->net);
			tenants_tick(&server->net.tenants);
			audit_tick(now);
			traces_take(&server->net);
		}
	}
	return err;
}

int server_run(struct server *server)
{
	struct loop loop;
	int err;

	/*
	 * Offline except while it changes the tables of connections (server/worker/conn.h): its
	 * work may take long, and no grace period waits for it.
	 */
	rcu_register_thread();
	rcu_thread_offline();
	conn_manager_init(&server->net);
	err = loop_init(&loop, server);
	if (!err)
		err = http_start(server->http);
	if (!err) {
		tenant_manager_run(&server->net);
		err = loop_run(&loop);
	}
	http_stop(server->http);
	server_leave(server);
	net_stop(&server->net);
	conn_manager_free_all(&server->net);
	rcu_thread_online();
	rcu_unregister_thread();
	loop_release(&loop);
	return err;
}
