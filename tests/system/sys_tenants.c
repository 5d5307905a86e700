/* SPDX-License-Identifier: MIT */
/*
 * A hostile client for the system test of tenants: it holds the true key and the true address of
 * another tenant's memory, and READs. It uses the device interface directly. Prints `ok` and `FAIL`
 * lines as tests/system/lib.sh does.
 *
 *	sys_tenants URL VICTIM ATTACKER		names of tenants; "" names none: default
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/checks.h"
#include "tests/support/raw_peer.h"

#define READ_BYTES 512u
#define UNTOUCHED 0x5a

static void greet_in(struct raw_peer *p, const char *tenant)
{
	raw_tenant = *tenant ? tenant : NULL;
	raw_greet(p);
}

static enum ibv_wc_status read_by(struct raw_peer *p, uint32_t rkey, uint64_t addr)
{
	memset(raw_data(p), UNTOUCHED, READ_BYTES);
	p->status = IBV_WC_GENERAL_ERR;
	if (raw_rdma(p, IBV_WR_RDMA_READ, addr, rkey, READ_BYTES))
		return IBV_WC_WR_FLUSH_ERR;
	while (!p->rdma_done)
		if (!raw_wait(p, raw_is_rdma_done))
			break;
	return p->status;
}

static bool got_nothing(const struct raw_peer *p)
{
	for (unsigned int i = 0; i < READ_BYTES; i++)
		if (raw_data(p)[i] != UNTOUCHED)
			return false;
	return true;
}

static bool reads_own(struct raw_peer *p)
{
	return read_by(p, p->welcome.rkey, p->welcome.region_addr) == IBV_WC_SUCCESS &&
	       !got_nothing(p);
}

/* By a queue pair that has done no wrong yet. */
static void attack(const char *what, const char *tenant, const uint32_t *rkey, const uint64_t *addr)
{
	enum ibv_wc_status status;
	struct raw_peer p;

	greet_in(&p, tenant);
	check(reads_own(&p), "%s: it READs its own memory", what);
	status = read_by(&p, rkey ? *rkey : p.welcome.rkey, addr ? *addr : p.welcome.region_addr);
	check(status == IBV_WC_REM_ACCESS_ERR, "%s: %s", what, ibv_wc_status_str(status));
	check(got_nothing(&p), "%s: it has not got a byte", what);
	status = read_by(&p, p.welcome.rkey, p.welcome.region_addr);
	check(status != IBV_WC_SUCCESS, "%s: its connection has ended: %s", what,
	      ibv_wc_status_str(status));
	raw_close(&p);
}

int main(int argc, char **argv)
{
	struct raw_peer victim, other;

	if (argc != 4)
		return EXIT_FAILURE;
	raw_url = argv[1];
	greet_in(&victim, argv[2]);
	greet_in(&other, argv[3]);
	check(victim.welcome.region_addr != other.welcome.region_addr &&
		      victim.welcome.geometry.incarnation != other.welcome.geometry.incarnation,
	      "each tenant has a region of its own");
	check(reads_own(&victim) && reads_own(&other), "and its clients READ that");
	attack("another tenant's key and address", argv[3], &victim.welcome.rkey,
	       &victim.welcome.region_addr);
	attack("another tenant's address", argv[3], NULL, &victim.welcome.region_addr);
	attack("another tenant's key", argv[3], &victim.welcome.rkey, NULL);
	check(reads_own(&victim) && reads_own(&other), "all others go on");
	raw_close(&other);
	raw_close(&victim);
	return check_status();
}
