/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of keys and revocation: tries READs by keys that are not its own,
 * and reads without a pause while it is revoked. It uses the device interface directly. Prints `ok`
 * and `FAIL` lines as tests/system/lib.sh does.
 *
 *	sys_keys URL attack	READs by the keys of others, and of connections that have ended
 *	sys_keys URL revoke WHO	is revoked, as WHO, while it reads
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/util/clock.h"
#include "tests/support/checks.h"
#include "tests/support/raw_read.h"

#define READERS 3
#define READS_BEFORE 1000 /* of each reader, until it is revoked */
#define READS_AFTER 2000  /* that it tries then */
#define NEAR_KEYS 4	  /* next to one's own */
#define DEADLINE_NS 300000000000ull

static void attack_by(const char *what, uint32_t rkey, uint64_t addr)
{
	raw_attack(what, &rkey, &addr);
}

static void attacks(void)
{
	struct raw_peer victim, other;
	uint32_t rkey;
	uint64_t addr;

	raw_greet(&victim);
	raw_greet(&other);
	rkey = victim.welcome.rkeys[0];
	addr = victim.welcome.region_addr;
	check(rkey != other.welcome.rkeys[0], "each connection has a key of its own");
	check(raw_reads_own(&victim) && raw_reads_own(&other), "and READs by it");
	attack_by("the key of another connection", rkey, addr);
	for (uint32_t i = 1; i <= NEAR_KEYS; i++)
		attack_by("a key beside it", rkey + i * 0x100, addr);
	attack_by("the key that the window had before", rkey - 1, addr);
	check(raw_reads_own(&victim) && raw_reads_own(&other), "those whose keys they were go on");
	raw_close(&other);
	raw_close(&victim);
	attack_by("the key of a connection that has ended", rkey, addr);
}

struct reader {
	struct raw_peer peer;
	pthread_t thread;
	_Atomic unsigned int done;
	unsigned int tried_after, late; /* READs posted after revoke returned; that succeeded */
	enum ibv_wc_status status;	/* of the first that failed */
};

static _Atomic bool revoked; /* kvd_revoke() has returned */

/* One READ after the other, also by a queue pair that has failed. */
static void *reader_run(void *arg)
{
	struct reader *reader = arg;
	struct raw_peer *p = &reader->peer;
	uint64_t end = clock_ns() + DEADLINE_NS;

	while (reader->tried_after < READS_AFTER && clock_ns() < end) {
		bool after = atomic_load(&revoked);
		bool success = false;

		p->status = IBV_WC_GENERAL_ERR;
		if (!raw_rdma(p, IBV_WR_RDMA_READ, p->welcome.region_addr, p->welcome.rkeys[0],
			      RAW_READ_BYTES)) {
			while (!p->rdma_done && clock_ns() < end)
				raw_poll(p);
			success = p->rdma_done && p->status == IBV_WC_SUCCESS;
		}
		if (!success && !reader->status)
			reader->status = p->status;
		reader->tried_after += after;
		reader->late += after && success;
		atomic_fetch_add(&reader->done, success);
	}
	return NULL;
}

static bool readers_read(struct reader *readers)
{
	uint64_t end = clock_ns() + DEADLINE_NS;

	for (unsigned int i = 0; i < READERS; i++)
		while (atomic_load(&readers[i].done) < READS_BEFORE) {
			if (clock_ns() > end)
				return false;
			usleep(RAW_PAUSE_US);
		}
	return true;
}

static void revocation(const char *who)
{
	static struct reader readers[READERS];
	uint64_t closed = 0;
	enum kvd_status status;
	struct kvd *admin;
	uint64_t end;

	if (kvd_open(&admin, raw_url, NULL)) {
		check(false, "an administrator connects: %s", kvd_error(NULL));
		return;
	}
	for (unsigned int i = 0; i < READERS; i++)
		raw_greet(&readers[i].peer);
	for (unsigned int i = 0; i < READERS; i++)
		if (pthread_create(&readers[i].thread, NULL, reader_run, &readers[i]))
			raw_die("pthread_create", EAGAIN);
	check(readers_read(readers), "%d clients read", READERS);
	status = kvd_revoke(admin, who, &closed);
	atomic_store(&revoked, true);
	check(!status, "%s is revoked: %s", who, status ? kvd_error(admin) : "OK");
	check(closed == READERS, "%" PRIu64 " connections were closed", closed);
	for (unsigned int i = 0; i < READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		check(readers[i].tried_after == READS_AFTER && !readers[i].late,
		      "after %u READs, of %u that were posted after revoke returned %u succeeded; "
		      "%s",
		      atomic_load(&readers[i].done), readers[i].tried_after, readers[i].late,
		      ibv_wc_status_str(readers[i].status));
		raw_close(&readers[i].peer);
	}
	check(!kvd_ping(admin), "the administrator that revoked them goes on");
	/* Revoked connections are in the list until their teardown has ended. */
	end = clock_ns() + DEADLINE_NS;
	while ((status = kvd_revoke(admin, who, &closed)) == KVD_OK && clock_ns() < end)
		usleep(RAW_PAUSE_US);
	check(status == KVD_NOT_FOUND && !closed, "there is nobody left to revoke");
	kvd_close(admin);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return EXIT_FAILURE;
	raw_url = argv[1];
	if (strcmp(argv[2], "attack") == 0)
		attacks();
	else if (strcmp(argv[2], "revoke") == 0 && argc == 4)
		revocation(argv[3]);
	else
		return EXIT_FAILURE;
	return check_status();
}
