/* SPDX-License-Identifier: MIT */
/*
 * A client thread of kvbench: does the operations of a workload over a connection of its own and
 * measures them, with its own random numbers and histograms.
 *
 * Threads: a struct client belongs to its thread while client_run() runs. Any thread may read its
 * atomic members. All threads share one struct load, of which only the atomic members change while
 * clients run.
 */
#ifndef KVD_BENCH_CLIENT_H
#define KVD_BENCH_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/db.h"
#include "bench/keys.h"
#include "bench/random.h"
#include "bench/workload.h"
#include "common/util/hist.h"

#define CLIENT_BATCH_MAX 1024
/* Lines printed about wrong values in one run of kvbench, and as many about failed operations. */
#define CLIENT_COMPLAINTS_MAX 10
/* The longest sleep of a thread that waits for its turn: then it checks whether to stop. */
#define CLIENT_NAP_NS UINT64_C(100000000)

/* What all clients share. */
struct load {
	const struct workload *workload;
	enum phase phase;
	struct db_target target;
	unsigned int batch; /* GETs posted together, 1 to CLIENT_BATCH_MAX */
	struct keys keys;
	_Atomic uint64_t next_record; /* of the load phase */
	_Atomic bool stop;
	_Atomic int wrong_shown, failures_shown;
};

struct operation_stats {
	struct hist latency; /* of those that succeeded, "not found" included */
	uint64_t not_found;
	uint64_t failed;
};

/* The key of a GET that is under way. */
struct read_slot {
	char key[WORKLOAD_KEY_MAX];
};

struct client {
	struct load *load;
	struct db *db;
	enum kvd_status status;	  /* of db_open(), or what ended the connection */
	char error[DB_ERROR_MAX]; /* in words */
	struct random random;
	struct key_chooser chooser;
	struct zipfian lengths;	  /* for fieldlengthdistribution=zipfian */
	uint64_t writer, counter; /* generation of the last record built */
	uint64_t now_ns;	  /* the last look at the clock */

	struct kvd_get_request *requests; /* load->batch, with their keys and values */
	struct read_slot *slots;
	unsigned int queued;
	uint8_t *values; /* load->batch times value_size, then the record to PUT */
	size_t value_size;
	uint32_t *field_lengths; /* of the record being built; NULL if constant */

	struct operation_stats stats[OPERATION_COUNT];
	uint64_t wrong;
	uint64_t quota;		       /* operations to do in the measured part; 0: no limit */
	_Atomic uint64_t done, failed; /* since the start of the part, for progress lines */
};

/* Prepares all but the connection. Each client has another @id. Returns 0 or -ENOMEM. */
int client_init(struct client *client, struct load *load, unsigned int id, uint64_t seed);
void client_release(struct client *client);

/* Connects. Returns false if that failed: status and error say why. */
bool client_connect(struct client *client);

/*
 * Does operations until @quota are done (0: no limit), until @deadline_ns (0: none), until
 * load->stop is set, or until the connection is lost; that sets load->stop and client->status.
 */
void client_run(struct client *client, uint64_t quota, uint64_t deadline_ns);

/* Drops all measurements. */
void client_reset(struct client *client);

#endif /* KVD_BENCH_CLIENT_H */
