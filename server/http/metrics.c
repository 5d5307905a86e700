/* SPDX-License-Identifier: MIT */
#include "server/http/metrics.h"

#include <stdio.h>
#include <string.h>

void metrics_family(struct exposition *out, const char *prefix,
		    const struct metrics_names *statistic, enum metric_type type)
{
	static const char total[] = "_total";
	size_t length = strlen(statistic->name), end = sizeof(total) - 1;
	bool ends = length > end && !strcmp(statistic->name + length - end, total);
	char name[EXPOSITION_NAME_MAX];

	snprintf(name, sizeof(name), "kvd_%s%s%s", prefix, statistic->name,
		 type == METRIC_COUNTER && !ends ? total : "");
	exposition_family(out, name, type, statistic->help);
}

bool metrics_listed(const char *name, const char *const *list)
{
	while (*list && strcmp(name, *list) != 0)
		list++;
	return *list;
}

void metrics_write(struct exposition *out, const struct metrics_source *source,
		   struct gathered *gathered, const struct census_report *report, bool starts)
{
	metrics_server(out, source, report);
	if (starts)
		return;
	gather(gathered, &source->net->tenants);
	metrics_store(out, gathered, report);
	metrics_worker(out, source, gathered);
}
