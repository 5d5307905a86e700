/* SPDX-License-Identifier: MIT */
/*
 * The torture through everything: a server over softnic, one for each round in this process, with
 * two workers and a keeper that all make the index grow; or one that runs already, which is
 * tortured as it is. READs copy a few bytes at a time and yield in between (the device's fault
 * plan).
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/softnic/fault.h"
#include "server/server.h"
#include "tests/torture.h"

#define START_NS 20000000000ull
#define TEAR_BYTES 48
/* Pieces of READs for each chance that others get to write in the middle of one. */
#define PIECES_PER_YIELD 509
/* What index.fill may be. */
#define FILL_MIN 30
#define FILL_MAX 90

static struct server server;
static pthread_t server_thread;
static char dir[32], path[64], url[80];
static int server_status;

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "race_torture: %s: %m\n", what);
		exit(EXIT_FAILURE);
	}
}

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

static bool set(struct config *config, const char *option, const char *value)
{
	char text[128];

	snprintf(text, sizeof(text), "%s=%s", option, value);
	return !config_set(config, text);
}

static void configure(struct config *config, const struct torture_round *round)
{
	static const char *const evictions[] = { "none", "lru", "lfu" };
	uint32_t fill = round->fill < FILL_MIN ? FILL_MIN :
			round->fill > FILL_MAX ? FILL_MAX :
						 round->fill;
	char fill_text[16];

	snprintf(fill_text, sizeof(fill_text), "%u", fill);
	snprintf(dir, sizeof(dir), "/tmp/kvd-torture-XXXXXX");
	must(mkdtemp(dir), "mkdtemp");
	snprintf(path, sizeof(path), "%s/kvd.sock", dir);
	snprintf(url, sizeof(url), "softnic://%s", path);
	config_init(config);
	must(set(config, "softnic.socket", path) && set(config, "server.device", "softnic") &&
		     set(config, "server.workers", "2") && set(config, "server.pin", "no") &&
		     set(config, "memory.size", round->eviction ? "16m" : "64m") &&
		     set(config, "memory.hugepages", "off") &&
		     set(config, "memory.eviction", evictions[round->eviction]) &&
		     set(config, "index.keys", "0") && set(config, "index.fill", fill_text),
	     "config");
}

static void server_begin(const struct torture_round *round)
{
	memset(&server, 0, sizeof(server));
	configure(&server.config, round);
	must(!server_init(&server), "server_init");
	must(!pthread_create(&server_thread, NULL, serve, NULL), "pthread_create");
}

static struct kvd *server_open(unsigned int thread, const struct kvd_options *options)
{
	uint64_t deadline = clock_ns() + START_NS;
	const struct timespec pause = { 0, 1000000 };
	enum kvd_status status;
	struct kvd *kvd;

	(void)thread;
	/* The server may not listen yet. */
	while ((status = kvd_open(&kvd, url, options)) == KVD_ERR_UNREACHABLE &&
	       clock_ns() < deadline)
		nanosleep(&pause, NULL);
	if (status)
		fprintf(stderr, "%s\n", kvd_error(NULL));
	must(!status, "kvd_open");
	return kvd;
}

static bool server_flush(struct kvd *kvd)
{
	return kvd_flush_all(kvd) == KVD_OK;
}

static const char *server_end(void)
{
	kill(getpid(), SIGTERM);
	pthread_join(server_thread, NULL);
	server_release(&server);
	unlink(path);
	rmdir(dir);
	return server_status ? "the server failed" : NULL;
}

/* What the last round left would fill its memory. */
static void foreign_begin(const struct torture_round *round)
{
	struct kvd *kvd = server_open(0, NULL);

	(void)round;
	must(!kvd_flush_all(kvd), kvd_error(kvd));
	kvd_close(kvd);
}

static const char *foreign_end(void)
{
	return NULL;
}

/* The server takes its signals from a signalfd: every thread has to block them. */
static void block_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

const struct torture_side *torture_server(const struct torture_options *options)
{
	static const struct torture_side own = {
		.begin = server_begin,
		.open = server_open,
		.flush = server_flush,
		.end = server_end,
	};
	static const struct torture_side foreign = {
		.begin = foreign_begin,
		.open = server_open,
		.flush = server_flush,
		.end = foreign_end,
	};

	fault_set(&(struct fault_plan){ .tear = TEAR_BYTES, .tear_hook = between_pieces });
	log_init(LOG_WARN, NULL);
	if (options->url) {
		snprintf(url, sizeof(url), "%s", options->url);
		return &foreign;
	}
	block_signals();
	return &own;
}
