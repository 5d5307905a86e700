/* SPDX-License-Identifier: MIT */
/*
 * A server in this process: starts it in a thread, connects handles to it over softnic and stops
 * it.
 */
#include "tests/support/local_server.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/rdma/softnic/fault.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/server.h"

#define HANGS_NS 300000000000ull
/* Pieces of READs for each chance that others get to write in the middle of one. */
#define PIECES_PER_YIELD 509

static struct server server;
static pthread_t server_thread;
static char dir[32], path[64], url[80];
static int server_status;
static uint32_t server_fill = INDEX_FILL;

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "a server in this process: %s: %m\n", what);
		exit(EXIT_FAILURE);
	}
}

void local_server_init(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	log_init(LOG_WARN, NULL);
}

/* Yields after few of the pieces: after each, the tests would READ too little. */
static void between_pieces(void *arg)
{
	static _Thread_local unsigned int pieces;

	(void)arg;
	if (++pieces % PIECES_PER_YIELD == 0)
		sched_yield();
}

void local_server_tear(unsigned int bytes)
{
	fault_set(&(struct fault_plan){ .tear = bytes, .tear_hook = between_pieces });
}

void local_server_set_fill(uint32_t percent)
{
	server_fill = percent;
}

static void *server_thread_run(void *arg)
{
	(void)arg;
	server_status = server_run(&server);
	return NULL;
}

static void configure(struct config *config, const char *const *assignments)
{
	static const char *const common[] = { "server.workers=2", "server.pin=no",
					      "memory.hugepages=off",
					      "server.handshake_timeout=60s", NULL };
	const char *const *option;
	char listen[96];

	snprintf(dir, sizeof(dir), "/tmp/kvd-local-XXXXXX");
	must(mkdtemp(dir), "mkdtemp");
	snprintf(path, sizeof(path), "%s/kvd.sock", dir);
	snprintf(url, sizeof(url), "softnic://%s", path);
	snprintf(listen, sizeof(listen), "server.listen=%s", url);
	config_init(config);
	must(!config_set(config, listen), listen);
	for (option = common; *option; option++)
		must(!config_set(config, *option), *option);
	for (option = assignments; *option; option++)
		must(!config_set(config, *option), *option);
}

const char *local_server_begin(const char *const *assignments)
{
	memset(&server, 0, sizeof(server));
	configure(&server.config, assignments);
	must(!server_init(&server), "server_init");
	server.setup.options.fill = server_fill; /* the store is made when it runs */
	must(!pthread_create(&server_thread, NULL, server_thread_run, NULL), "pthread_create");
	return url;
}

bool local_server_end(void)
{
	kill(getpid(), SIGTERM);
	pthread_join(server_thread, NULL);
	server_release(&server);
	unlink(path);
	rmdir(dir);
	return !server_status;
}

struct kvd *local_server_open(const char *at, const struct kvd_options *options)
{
	uint64_t deadline = clock_ns() + HANGS_NS;
	const struct timespec pause = { 0, 1000000 };
	struct kvd_options patient;
	enum kvd_status status;
	struct kvd *kvd;

	kvd_options_init(&patient);
	patient.timeout_ms = patient.connect_timeout_ms = HANGS_NS / 1000000;
	while ((status = kvd_open(&kvd, at, options ? options : &patient)) == KVD_ERR_UNREACHABLE &&
	       clock_ns() < deadline)
		nanosleep(&pause, NULL);
	must(!status, kvd_error(NULL));
	return kvd;
}
