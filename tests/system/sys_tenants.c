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

#include "tests/support/checks.h"
#include "tests/support/raw_read.h"

static void greet_in(struct raw_peer *p, const char *tenant)
{
	raw_tenant = *tenant ? tenant : NULL;
	raw_greet(p);
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
	check(raw_reads_own(&victim) && raw_reads_own(&other), "and its clients READ that");
	/* raw_tenant is the attacker's. */
	raw_attack("another tenant's key and address", &victim.welcome.rkeys[0],
		   &victim.welcome.region_addr);
	raw_attack("another tenant's address", NULL, &victim.welcome.region_addr);
	raw_attack("another tenant's key", &victim.welcome.rkeys[0], NULL);
	check(raw_reads_own(&victim) && raw_reads_own(&other), "all others go on");
	raw_close(&other);
	raw_close(&victim);
	return check_status();
}
