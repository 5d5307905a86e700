/* SPDX-License-Identifier: MIT */
/*
 * Parses YCSB properties into a workload. First each property is parsed by the tables of
 * property.c; then those that depend on each other are checked together.
 */
#include "bench/workload_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench/property.h"
#include "bench/record.h"
#include "bench/zipfian.h"
#include "client/kvd.h"
#include "common/util/parse.h"
#include "common/util/text.h"

#define NS_PER_S UINT64_C(1000000000)

#define WHERE_MAX 256

static int refuse(struct props *props, const struct prop *prop, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Sets props->error to "where: key=value: message"; without the first two if @prop is NULL. */
static int refuse(struct props *props, const struct prop *prop, const char *format, ...)
{
	char where[WHERE_MAX], message[256];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (prop)
		snprintf(props->error, sizeof(props->error), "%s: %.60s=%.60s: %s",
			 prop_where(prop, where, sizeof(where)), prop->key, prop->value, message);
	else
		snprintf(props->error, sizeof(props->error), "%s", message);
	text_mask(props->error, strlen(props->error));
	return -EINVAL;
}

static int parse_fraction(const char *text, double max, double *value, struct parse_why *why)
{
	char *end;
	double number = strtod(text, &end);

	/* Java's Double.parseDouble() drops blanks around the number, parseInt() does not. */
	while (isspace((unsigned char)*end))
		end++;
	if (end == text || *end) {
		snprintf(why->text, sizeof(why->text), "not a number");
		return -EINVAL;
	}
	if (!(number >= 0 && number <= max)) {
		snprintf(why->text, sizeof(why->text), "out of range: give 0 to %g", max);
		return -ERANGE;
	}
	*value = number;
	return 0;
}

/* In Java everything but "true" is false; here a misspelt word is refused. */
static int parse_java_bool(const char *text, bool *value, struct parse_why *why)
{
	if (strcasecmp(text, "true") && strcasecmp(text, "false")) {
		snprintf(why->text, sizeof(why->text), "give true or false");
		return -EINVAL;
	}
	*value = !strcasecmp(text, "true");
	return 0;
}

static int parse_choice(const char *text, const char *const *choices, unsigned int *value,
			struct parse_why *why)
{
	unsigned int i;
	int len;

	for (i = 0; choices[i]; i++) {
		if (!strcmp(choices[i], text)) {
			*value = i;
			return 0;
		}
	}
	len = snprintf(why->text, sizeof(why->text), "not supported by kvbench; give one of");
	for (i = 0; choices[i]; i++)
		len += snprintf(why->text + len, sizeof(why->text) - (size_t)len, "%s %s",
				i ? "," : "", choices[i]);
	return -EINVAL;
}

/* Parses a time, with a unit also of fractions of a second. */
static int parse_seconds(const char *text, uint64_t max, uint64_t *ns, struct parse_why *why)
{
	if (!*text || text[strspn(text, "0123456789")])
		return parse_time(text, 0, max, ns, why);
	if (parse_duration(text, NS_PER_S, 0, max / NS_PER_S, ns, why))
		return -EINVAL;
	*ns *= NS_PER_S;
	return 0;
}

static int property_parse(const struct property *property, const char *text, void *value,
			  struct parse_why *why)
{
	const uint64_t min = (uint64_t)property->min, max = (uint64_t)property->max;

	switch (property->type) {
	case PROPERTY_UINT:
		return parse_uint(text, min, max, value, why);
	case PROPERTY_SECONDS:
		return parse_duration(text, NS_PER_S, min, max, value, why);
	case PROPERTY_MS:
		return parse_duration(text, NS_PER_S / 1000, min, max, value, why);
	case PROPERTY_US:
		return parse_duration(text, NS_PER_S / 1000000, min, max, value, why);
	case PROPERTY_FRACTION:
		return parse_fraction(text, property->max, value, why);
	case PROPERTY_BOOL:
		return parse_java_bool(text, value, why);
	case PROPERTY_CHOICE:
		return parse_choice(text, property->choices, value, why);
	case PROPERTY_SIZE:
		return parse_size(text, min, max, value, why);
	case PROPERTY_TIME:
		return parse_seconds(text, max, value, why);
	case PROPERTY_TEXT:
		*(const char **)value = text;
		return 0;
	}
	return -EINVAL;
}

static bool ends_with_blank(const char *text)
{
	const size_t len = strlen(text);

	return len && isspace((unsigned char)text[len - 1]);
}

static int check_idle(struct props *props, const struct prop *prop,
		      const struct property_idle *idle)
{
	char value[128];

	snprintf(value, sizeof(value), "|%s|", prop->value);
	if (idle->values && !strstr(idle->values, value))
		return refuse(props, prop, "not supported: %s", idle->why);
	return 0;
}

/* Parses one property. */
static int take(struct workload *workload, struct props *props, const struct prop *prop)
{
	const struct property *property = property_find(prop->key);
	const struct property_idle *idle = property_idle_find(prop->key);
	struct parse_why why;

	if (idle)
		return check_idle(props, prop, idle);
	if (!strcmp(prop->key, "dotransactions"))
		return 0; /* checked with the phase */
	if (!property)
		return refuse(props, prop, "kvbench does not know this property; see kvbench -h");
	if (property_parse(property, prop->value, (char *)workload + property->offset, &why))
		return refuse(props, prop, "%s%s", why.text,
			      ends_with_blank(prop->value) ?
				      " (blanks after a value are part of it, as in Java)" :
				      "");
	return 0;
}

static void set_defaults(struct workload *workload)
{
	struct parse_why why;
	size_t i;

	memset(workload, 0, sizeof(*workload));
	workload->insert_count = WORKLOAD_COUNT_REST;
	for (i = 0; i < property_count; i++)
		if (properties[i].preset)
			property_parse(&properties[i], properties[i].preset,
				       (char *)workload + properties[i].offset, &why);
}

static int check_records(const struct workload *workload, struct props *props)
{
	if (!workload->record_count)
		return refuse(props, props_find(props, "recordcount"),
			      "recordcount is 0 or not given: how many records?");
	if (workload->insert_start >= workload->record_count ||
	    (workload->insert_count != WORKLOAD_COUNT_REST &&
	     workload->insert_count > workload->record_count - workload->insert_start))
		return refuse(props, props_find(props, "insertstart"),
			      "insertstart and insertcount reach beyond recordcount");
	if (workload->insert_count == 0)
		return refuse(props, props_find(props, "insertcount"), "no records");
	if (workload->field_lengths != LENGTH_CONSTANT &&
	    workload->field_length_min > workload->field_length)
		return refuse(props, props_find(props, "minfieldlength"),
			      "larger than fieldlength");
	if (workload_record_max(workload) > KVD_VALUE_MAX)
		return refuse(props, props_find(props, "fieldlength"),
			      "a record would have more than %u bytes", KVD_VALUE_MAX);
	return 0;
}

static int check_hotspot(const struct workload *workload, struct props *props)
{
	const uint64_t count = workload_load_count(workload);
	const uint64_t hot = (uint64_t)((double)count * workload->hotspot_data_fraction);

	if (workload->request_distribution != DISTRIBUTION_HOTSPOT)
		return 0;
	if (!hot && workload->hotspot_operation_fraction > 0)
		return refuse(props, props_find(props, "hotspotdatafraction"),
			      "no record would be hot, but operations should go to hot ones");
	if (hot == count && workload->hotspot_operation_fraction < 1)
		return refuse(props, props_find(props, "hotspotdatafraction"),
			      "every record would be hot, but operations should go to cold ones");
	return 0;
}

static int check_operations(const struct workload *workload, struct props *props)
{
	const double *p = workload->proportions;

	if (p[OPERATION_READ] + p[OPERATION_UPDATE] + p[OPERATION_INSERT] + p[OPERATION_RMW] <= 0)
		return refuse(props, NULL, "all proportions are 0: there is nothing to do");
	if (!workload->operation_count && !workload->max_execution_s)
		return refuse(props, props_find(props, "operationcount"),
			      "operationcount is 0 or not given, and so is maxexecutiontime: "
			      "the run would not end");
	if (workload->request_distribution == DISTRIBUTION_EXPONENTIAL &&
	    (workload->exponential_percentile >= 100 || workload->exponential_percentile <= 0 ||
	     workload->exponential_fraction <= 0))
		return refuse(props, props_find(props, "exponential.percentile"),
			      "exponential.percentile must lie between 0 and 100, "
			      "exponential.frac above 0");
	return check_hotspot(workload, props);
}

static int check_phase(enum phase phase, struct props *props)
{
	const struct prop *prop = props_find(props, "dotransactions");

	if (prop && !strcasecmp(prop->value, "true") != (phase == PHASE_RUN))
		return refuse(props, prop, "does not fit the command: load is false, run is true");
	return 0;
}

int workload_parse(struct workload *workload, enum phase phase, struct props *props)
{
	size_t i;
	int error;

	set_defaults(workload);
	for (i = 0; i < props->count; i++) {
		error = take(workload, props, &props->list[i]);
		if (error)
			return error;
	}
	if (workload->scan_proportion > 0)
		return refuse(props, props_find(props, "scanproportion"),
			      "ordered scans (YCSB's workload E) are not supported: kvd's keys "
			      "have no order");
	error = check_phase(phase, props);
	if (!error)
		error = check_records(workload, props);
	if (!error && phase == PHASE_RUN)
		error = check_operations(workload, props);
	return error;
}

void workload_help(FILE *out)
{
	size_t i;

	for (i = 0; i < property_count; i++)
		fprintf(out, "  %-26s [%s] %s\n", properties[i].name,
			properties[i].preset ? properties[i].preset : "-", properties[i].help);
	fprintf(out, "\nProperties of YCSB that are accepted and have no effect"
		     "\n(*: values that would have one are refused):\n");
	for (i = 0; i < property_idle_count; i++)
		fprintf(out, "  %-26s %s%s\n", properties_idle[i].name, properties_idle[i].why,
			properties_idle[i].values ? " *" : "");
	fprintf(out, "  dotransactions             must agree with the command: load or run *\n");
}
