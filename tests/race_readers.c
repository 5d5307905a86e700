/* SPDX-License-Identifier: MIT */
/*
 * Races through everything: a whole server in this process, handles that connect to it over softnic,
 * writers with values from none to some that are pulled and some longer than a slot can tell, warm
 * and cold readers. READs copy a few bytes at a time and yield the CPU in between now and then (the
 * device's fault plan): a whole copy is over too soon for a writer to meet it often. Every answer is
 * checked (tests/race.h). `race_readers -n 10000000` is the long form. With -u URL it races on a
 * server that runs already and that nobody else uses.
 */
#include <signal.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/softnic/fault.h"
#include "server/server.h"
#include "tests/race.h"

#define START_NS 20000000000ull
/* Pieces of READs for each chance that others get to write in the middle of one. */
#define PIECES_PER_YIELD 509

static struct server server;
static pthread_t server_thread;
static char dir[] = "/tmp/kvd-race-XXXXXX";
static char path[64], url[80];
static int server_status;

/* Few of the READs, or there would be few READs. */
static void between_pieces(void *arg)
{
	static _Thread_local unsigned int pieces;

	(void)arg;
	if (++pieces % PIECES_PER_YIELD == 0)
		sched_yield();
}

static void *serve(void *arg)
{
	(void)arg;
	server_status = server_run(&server);
	return NULL;
}

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "race_readers: %s: %m\n", what);
		exit(EXIT_FAILURE);
	}
}

static void configure(struct config *config)
{
	char socket[96];

	must(mkdtemp(dir), "mkdtemp");
	snprintf(path, sizeof(path), "%s/kvd.sock", dir);
	snprintf(url, sizeof(url), "softnic://%s", path);
	snprintf(socket, sizeof(socket), "softnic.socket=%s", path);
	config_init(config);
	/* A small index, so that some of the keys are in overflow buckets. */
	must(!config_set(config, socket) && !config_set(config, "server.device=softnic") &&
		     !config_set(config, "server.workers=2") &&
		     !config_set(config, "server.pin=no") &&
		     !config_set(config, "memory.size=256m") &&
		     !config_set(config, "memory.hugepages=off") &&
		     !config_set(config, "index.keys=30"),
	     "config");
}

/* The server takes its signals from a signalfd: every thread has to block them. */
static void server_start(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	log_init(LOG_WARN, NULL);
	configure(&server.config);
	must(!server_init(&server), "server_init");
	must(!pthread_create(&server_thread, NULL, serve, NULL), "pthread_create");
}

static bool server_stop(void)
{
	kill(getpid(), SIGTERM);
	pthread_join(server_thread, NULL);
	server_release(&server);
	unlink(path);
	rmdir(dir);
	return !server_status;
}

static struct kvd *open_handle(void *arg, unsigned int thread, const struct kvd_options *options)
{
	uint64_t deadline = clock_ns() + START_NS;
	const struct timespec pause = { 0, 1000000 };
	enum kvd_status status;
	struct kvd *kvd;

	(void)thread;
	/* The server may not listen yet. */
	while ((status = kvd_open(&kvd, arg, options)) == KVD_ERR_UNREACHABLE &&
	       clock_ns() < deadline)
		nanosleep(&pause, NULL);
	if (status)
		fprintf(stderr, "%s\n", kvd_error(NULL));
	return kvd;
}

int main(int argc, char **argv)
{
	struct race_options options = {
		.seed = 1, .seconds = 5, .writers = 2, .readers = 3, .tear = 48
	};
	struct race_side side = { .open = open_handle, .arg = url };
	bool ok;

	race_options_parse(&options, argc, argv);
	if (options.tear)
		fault_set(
			&(struct fault_plan){ .tear = options.tear, .tear_hook = between_pieces });
	if (options.url)
		snprintf(url, sizeof(url), "%s", options.url);
	else
		server_start();
	ok = race_run("race_readers", &options, &side);
	if (!options.url && !server_stop()) {
		printf("the server failed\n");
		ok = false;
	}
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
