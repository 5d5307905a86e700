/* SPDX-License-Identifier: MIT */
/* kvctl info and ping: the connection to a server. */
#include <stdio.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/json.h"
#include "client/kvctl/report.h"
#include "common/util/clock.h"

static void info_json(const struct kvd_info *info)
{
	char incarnation[17];
	struct json json;

	snprintf(incarnation, sizeof(incarnation), "%016llx",
		 (unsigned long long)info->incarnation);
	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_text(&json, "device.kind", info->device_kind);
	json_text(&json, "device.name", info->device_name);
	json_text(&json, "device.why", info->device_why);
	if (*info->device_link)
		json_text(&json, "device.link", info->device_link);
	if (*info->tenant)
		json_text(&json, "tenant", info->tenant);
	json_text(&json, "incarnation", incarnation);
	json_number(&json, "region_bytes", info->region_bytes);
	json_number(&json, "value_max", info->value_max);
	json_number(&json, "window", info->window);
	json_number(&json, "request_bytes", info->request_bytes);
	json_number(&json, "cache_bytes", info->cache_bytes);
	json_number(&json, "buckets", info->buckets);
	json_number(&json, "clock_error_ns", info->clock_error_ns);
	json_number(&json, "access_rate", info->access_rate);
	json_close(&json, '}');
	json_end(&json);
}

static void ping_json(uint64_t took_ns)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_double(&json, "us", (double)took_ns / 1e3, 1);
	json_close(&json, '}');
	json_end(&json);
}

int command_info(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_info info;

	kvd_info(db, &info);
	if (arguments->json.given) {
		info_json(&info);
		return EX_OK;
	}
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
	uint64_t i, start, took_ns;

	for (i = 0; !status && i < count && !interrupted(); i++) {
		start = clock_ns();
		status = kvd_ping(db);
		took_ns = clock_ns() - start;
		if (!status && arguments->json.given)
			ping_json(took_ns);
		else if (!status)
			report_result("pong from %s: %.1f us", arguments->server,
				      (double)took_ns / 1e3);
	}
	return report(db, status);
}
