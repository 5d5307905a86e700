/* SPDX-License-Identifier: MIT */
/* kvctl info and ping: the connection to a server. */
#include <stdio.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/report.h"
#include "common/util/clock.h"

int command_info(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_info info;

	(void)arguments;
	kvd_info(db, &info);
	printf("device.kind %s\ndevice.name %s\ndevice.why %s\n", info.device_kind,
	       info.device_name, info.device_why);
	if (*info.device_link)
		printf("device.link %s\n", info.device_link);
	if (*info.tenant)
		printf("tenant %s\n", info.tenant);
	printf("incarnation %016llx\nregion_bytes %llu\nvalue_max %llu\n",
	       (unsigned long long)info.incarnation, (unsigned long long)info.region_bytes,
	       (unsigned long long)info.value_max);
	printf("window %u\nrequest_bytes %u\ncache_bytes %zu\n", info.window, info.request_bytes,
	       info.cache_bytes);
	printf("buckets %llu\nclock_error_ns %llu\naccess_rate %u\n",
	       (unsigned long long)info.buckets, (unsigned long long)info.clock_error_ns,
	       info.access_rate);
	return EX_OK;
}

int command_ping(struct kvd *db, const struct arguments *arguments)
{
	const uint64_t count = arguments->count.given ? arguments->count.number : 1;
	enum kvd_status status = KVD_OK;
	uint64_t i, start;

	for (i = 0; !status && i < count; i++) {
		start = clock_ns();
		status = kvd_ping(db);
		if (!status)
			printf("pong from %s: %.1f us\n", arguments->server,
			       (double)(clock_ns() - start) / 1e3);
	}
	return report(db, status);
}
