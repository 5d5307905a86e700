/* SPDX-License-Identifier: MIT */
/*
 * A client for tests/vm/two-hosts: GETs a key until it has expired, while its own machine or the
 * server's is stopped from outside, with all its clocks, and goes on. Somebody else makes the key
 * expire soon, with a TOUCH. Checks each result against what libkvd(3) promises for that (Expiry).
 * Prints `ok` and `FAIL` lines as tests/system/lib.sh does.
 *
 *	client	may return the key after it expired. That it expired is known when KEY.gone can be
 *		read, which somebody else PUTs before this machine goes on.
 *	server	may miss the key before it expired. That it had not is known from the server, which
 *		is asked after each miss.
 *
 * Either only until STALE_NS after the last response, and never after one.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"

#define PAUSE_US 2000
#define TTL_S 3600
/* So often there is a response while nothing happens: the handle knows the clock well then. */
#define PING_NS 100000000u
/* Misses, confirmed by the server, until the key is believed to have expired for good. */
#define MISSES 20
/* libkvd(3): 2.5 s after the last response, by this host's clock, a GET asks for another. */
#define STALE_NS 2500000000ull

struct watch {
	struct kvd *db;
	const char *key;
	char gone_key[100];
	char value[100];
	bool server_stops;
	/* The handle's requests so far; GETs do not wait for responses to access records. */
	uint64_t requests;
	uint64_t responded_ns; /* when the last response had arrived */
	unsigned int hits, late, early, misses;
	uint64_t late_age_ns;
	uint64_t slowest_ns; /* response: of calls that brought one, the longest */
};

static enum kvd_status get(struct watch *w, const char *key)
{
	enum kvd_status status = kvd_get(w->db, key, strlen(key), w->value, sizeof(w->value), NULL);

	if (status && status != KVD_NOT_FOUND)
		die("get", kvd_error(w->db));
	return status;
}

/* Whether there was a response since the last call, or since @began_ns. */
static bool responded(struct watch *w, uint64_t began_ns)
{
	struct kvd_stats stats;
	uint64_t requests;

	kvd_stats(w->db, &stats);
	requests = stats.requests - stats.access_messages;
	if (requests == w->requests)
		return false;
	w->requests = requests;
	w->responded_ns = clock_raw_ns();
	if (w->responded_ns - began_ns > w->slowest_ns)
		w->slowest_ns = w->responded_ns - began_ns;
	return true;
}

static void ping(struct watch *w)
{
	uint64_t began_ns = clock_raw_ns();

	if (kvd_ping(w->db))
		die("ping", kvd_error(w->db));
	responded(w, began_ns);
}

/* @gone: the key had expired before this GET, which began at @began_ns, and found it. */
static void hit(struct watch *w, bool gone, uint64_t began_ns)
{
	uint64_t age_ns = began_ns - w->responded_ns;
	bool asked = responded(w, began_ns);

	if (w->misses)
		die("get", "a key that had expired is there again");
	w->hits++;
	if (!gone)
		return;
	if (asked)
		die("get", "a key that had expired is returned although the server was asked");
	if (age_ns > STALE_NS)
		die("get", "a key that had expired is returned long after the last response");
	w->late++;
	w->late_age_ns = age_ns;
}

static void miss(struct watch *w, uint64_t began_ns)
{
	uint64_t age_ns = began_ns - w->responded_ns;
	bool asked = responded(w, began_ns);
	uint64_t ask_ns = clock_raw_ns();
	enum kvd_status status = kvd_get_by_request(w->db, w->key, strlen(w->key), w->value,
						    sizeof(w->value), NULL);

	if (status && status != KVD_NOT_FOUND)
		die("get by request", kvd_error(w->db));
	responded(w, ask_ns);
	if (status) {
		w->misses++;
		return;
	}
	if (!w->server_stops || w->misses)
		die("get", "a key is missed that the server has");
	if (asked)
		die("get", "a key is missed early although the server was asked");
	if (age_ns > STALE_NS)
		die("get", "a key is missed early long after the last response");
	w->early++;
}

int main(int argc, char **argv)
{
	const struct kvd_put_args args = { .ttl_s = TTL_S };
	uint64_t began_ns;
	struct watch w = { 0 };
	struct kvd_stats stats;
	bool gone;

	if (argc != 4) {
		fputs("usage: sys_paused URL KEY client|server\n", stderr);
		return 64;
	}
	w.db = must_open(argv[1]);
	w.key = argv[2];
	w.server_stops = !strcmp(argv[3], "server");
	snprintf(w.gone_key, sizeof(w.gone_key), "%s.gone", w.key);
	if (kvd_put(w.db, w.key, strlen(w.key), "mortal", 6, &args, NULL))
		die("put", kvd_error(w.db));
	responded(&w, clock_raw_ns());
	for (; w.misses < MISSES; usleep(PAUSE_US)) {
		gone = !w.server_stops && get(&w, w.gone_key) == KVD_OK;
		if (!gone && clock_raw_ns() - w.responded_ns > PING_NS)
			ping(&w);
		began_ns = clock_raw_ns();
		if (get(&w, w.key) == KVD_OK)
			hit(&w, gone, began_ns);
		else
			miss(&w, began_ns);
		if (w.hits == 1) {
			puts("found");
			fflush(stdout);
		}
	}
	kvd_stats(w.db, &stats);
	printf("ok    %u hits, late %u, up to %" PRIu64 " ms after a response; early misses %u; "
	       "slowest response %" PRIu64 " ms; jumps %" PRIu64 "\n",
	       w.hits, w.late, w.late_age_ns / 1000000, w.early, w.slowest_ns / 1000000,
	       stats.clock_jumps);
	kvd_close(w.db);
	return EXIT_SUCCESS;
}
