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
/* The most operations of a thread under way together: the maximum of kvd_options.depth. */
#define CLIENT_DEPTH_MAX 1024
/* Threads with registered memory: each registers its own, and a URL takes 64 (client/kvd.h). */
#define CLIENT_REGISTERED_MAX 64
/* Lines that a run prints about wrong values, and the same number about failed operations. */
#define CLIENT_COMPLAINTS_MAX 10
/* The longest sleep of a thread that waits for its turn: then it checks whether to stop. */
#define CLIENT_NAP_NS UINT64_C(100000000)

/* What all clients share. */
struct load {
	const struct workload *workload;
	enum phase phase;
	struct db_target target;
	unsigned int batch; /* GETs posted together, 1 to CLIENT_BATCH_MAX */
	bool registered;    /* values are in memory that the store's device may access */
	struct keys keys;
	_Atomic uint64_t next_record; /* of the load phase */
	_Atomic bool stop;
	_Atomic int wrong_shown, failures_shown;
};

struct operation_stats {
	struct hist latency; /* of operations that succeeded, "not found" included */
	uint64_t not_found;
	uint64_t failed;
};

/* The key of a GET that is under way. */
struct read_slot {
	char key[WORKLOAD_KEY_MAX];
};

/* An operation of the workload that is under way together with others, and what it submitted. */
struct place {
	struct kvd_op op; /* comes first */
	enum operation operation;
	uint64_t number;    /* INSERT: of the record */
	uint64_t start_ns;  /* when the operation of the workload was submitted */
	uint64_t submit_ns; /* when `op` was submitted: later for a read-modify-write's PUT */
	bool failed;	    /* the GET of a read-modify-write */
	uint8_t *value;
	char key[WORKLOAD_KEY_MAX];
};

/* All operations of a thread that are under way; used by under_way.c. */
struct under_way {
	unsigned int free_count, ready, busy;
	bool insert_waits; /* the next operation is an INSERT that got no number yet */
	struct place *places;
	struct place **free;
	struct kvd_op **list; /* to be submitted: `ready` of them */
	struct kvd_op **done;
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

	/* For sequential operations, or batches of GETs */
	struct kvd_get_request *requests; /* load->batch, with their keys and values */
	struct read_slot *slots;
	unsigned int queued;
	struct under_way under_way; /* replaces `requests` if the depth is above 1 */

	/* One buffer for each GET of a batch and one to PUT, or one for each operation */
	uint8_t *values;
	size_t values_bytes, value_size, value_stride;
	struct kvd_mem *memory;	 /* load->registered: with the values */
	uint32_t *field_lengths; /* of the record being built; NULL if constant */

	struct operation_stats stats[OPERATION_COUNT];
	uint64_t wrong;
	uint64_t quota;		       /* operations to do in the measured part; 0: no limit */
	_Atomic uint64_t done, failed; /* since the start of the part, for progress lines */
};

/* Prepares all but the connection. @id differs for each client. Returns 0 or -ENOMEM. */
int client_setup(struct client *client, struct load *load, unsigned int id, uint64_t seed);
void client_teardown(struct client *client);

/* Connects. Returns false if that failed: status and error say why. */
bool client_connect(struct client *client);

/*
 * Does operations until @quota are done (0: no limit), until @deadline_ns (0: none), until
 * load->stop is set, or until the connection is lost; that sets load->stop and client->status.
 */
void client_run(struct client *client, uint64_t quota, uint64_t deadline_ns);

/* Drops all measurements. */
void client_reset(struct client *client);

/* The functions below are shared with under_way.c. */

/* Whether to start another operation after @done of client_run(). */
bool client_goes_on(const struct client *client, uint64_t done, uint64_t quota,
		    uint64_t deadline_ns);
/* When the operation after @done others may start by the property target, or the run ends. */
uint64_t client_turn(const struct client *client, uint64_t start_ns, uint64_t done,
		     uint64_t deadline_ns);
/* Sleeps until @until_ns, but at most CLIENT_NAP_NS. */
void client_nap(struct client *client, uint64_t until_ns);
enum operation client_choose(struct client *client);
/* Builds a new record for @key at @record, of value_size bytes. Returns its length. */
size_t client_build_next(struct client *client, void *record, const char *key, size_t key_len);
/* Records and checks one GET that took @ns. */
void client_read_done(struct client *client, const struct kvd_get_request *request, uint64_t ns);
/* Counts and prints an operation that ended with an error. */
void client_failed(struct client *client, enum operation operation, const void *key, size_t key_len,
		   enum kvd_status status);
/* Counts an operation for the progress lines. */
void client_count_done(struct client *client, uint64_t operations);

#endif /* KVD_BENCH_CLIENT_H */
