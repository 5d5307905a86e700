/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "tests/support/checks.h"
#include "tests/support/raw_read.h"

#define UNTOUCHED 0x5a

enum ibv_wc_status raw_read_by(struct raw_peer *p, uint32_t rkey, uint64_t addr)
{
	memset(raw_data(p), UNTOUCHED, RAW_READ_BYTES);
	p->closed = false;
	p->status = IBV_WC_GENERAL_ERR;
	if (raw_rdma(p, IBV_WR_RDMA_READ, addr, rkey, RAW_READ_BYTES))
		return IBV_WC_WR_FLUSH_ERR;
	while (!p->rdma_done)
		if (!raw_wait(p, raw_is_rdma_done) || p->closed)
			break;
	return p->status;
}

bool raw_got_nothing(const struct raw_peer *p)
{
	for (unsigned int i = 0; i < RAW_READ_BYTES; i++)
		if (raw_data(p)[i] != UNTOUCHED)
			return false;
	return true;
}

bool raw_reads_own(struct raw_peer *p)
{
	return raw_read_by(p, p->welcome.rkeys[0], p->welcome.region_addr) == IBV_WC_SUCCESS &&
	       !raw_got_nothing(p);
}

void raw_attack(const char *what, const uint32_t *rkey, const uint64_t *addr)
{
	enum ibv_wc_status status;
	struct raw_peer p;

	raw_greet(&p);
	check(raw_reads_own(&p), "%s: its own READ works before", what);
	status = raw_read_by(&p, rkey ? *rkey : p.welcome.rkeys[0],
			     addr ? *addr : p.welcome.region_addr);
	check(status == IBV_WC_REM_ACCESS_ERR, "%s: %s", what, ibv_wc_status_str(status));
	check(raw_got_nothing(&p), "%s: it has not got a byte", what);
	status = raw_read_by(&p, p.welcome.rkeys[0], p.welcome.region_addr);
	check(status != IBV_WC_SUCCESS, "%s: its connection has ended: %s", what,
	      ibv_wc_status_str(status));
	raw_close(&p);
}
