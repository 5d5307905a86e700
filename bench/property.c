/* SPDX-License-Identifier: MIT */
/*
 * Lists YCSB's properties: see property.h. Names and defaults are YCSB's (CoreWorkload.java,
 * Client.java, Measurements.java and its OneMeasurement classes, ExponentialGenerator.java).
 * dataintegrity and status.interval have other defaults, and those under kvd are kvbench's own.
 */
#include "bench/property.h"

#include <string.h>

#include "bench/record.h"
#include "bench/workload.h"
#include "client/kvd.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static const char *const length_names[] = { "constant", "uniform", "zipfian", NULL };
static const char *const order_names[] = { "hashed", "ordered", NULL };

#define AT(field) offsetof(struct workload, field)
#define UINT(name, field, preset, min, max, help)                                                  \
	{                                                                                          \
		name, PROPERTY_UINT, AT(field), preset, (double)(min), (double)(max), NULL, help   \
	}
#define DURATION(name, unit, field, preset, min, max, help)                                        \
	{                                                                                          \
		name, PROPERTY_##unit, AT(field), preset, (double)(min), (double)(max), NULL, help \
	}
#define FRACTION(name, field, preset, max, help)                                                   \
	{                                                                                          \
		name, PROPERTY_FRACTION, AT(field), preset, 0, (double)(max), NULL, help           \
	}
#define BOOL(name, field, preset, help)                                                            \
	{                                                                                          \
		name, PROPERTY_BOOL, AT(field), preset, 0, 1, NULL, help                           \
	}
#define CHOICE(name, field, preset, choices, help)                                                 \
	{                                                                                          \
		name, PROPERTY_CHOICE, AT(field), preset, 0, 0, choices, help                      \
	}

/* clang-format off */
const struct property properties[] = {
	UINT("recordcount", record_count, "0", 0, WORKLOAD_RECORDS_MAX,
	     "records that load stores and run works on; must be given"),
	UINT("operationcount", operation_count, "0", 0, WORKLOAD_RECORDS_MAX,
	     "operations of run, all threads together; 0: until maxexecutiontime"),
	UINT("insertstart", insert_start, "0", 0, WORKLOAD_RECORDS_MAX,
	     "number of the first record to load"),
	UINT("insertcount", insert_count, NULL, 0, WORKLOAD_RECORDS_MAX,
	     "records to load; if not given, the rest of recordcount"),
	UINT("fieldcount", field_count, "10", 1, RECORD_FIELDS_MAX, "fields of a record"),
	UINT("fieldlength", field_length, "100", 0, KVD_VALUE_MAX, "bytes of a field, at most"),
	UINT("minfieldlength", field_length_min, "1", 0, KVD_VALUE_MAX,
	     "bytes of a field, at least; no effect with constant lengths"),
	CHOICE("fieldlengthdistribution", field_lengths, "constant", length_names,
	       "constant, uniform or zipfian"),
	CHOICE("requestdistribution", request_distribution, "uniform", distribution_names,
	       "uniform, zipfian, latest, sequential, hotspot, exponential"),
	CHOICE("insertorder", insert_order, "hashed", order_names,
	       "ordered: a key is user and the number; hashed: user and the number's hash"),
	UINT("zeropadding", zero_padding, "1", 0, WORKLOAD_PADDING_MAX,
	     "digits of the number in a key, at least"),
	FRACTION("readproportion", proportions[OPERATION_READ], "0.95", 1e9,
		 "weight of reads: one GET"),
	FRACTION("updateproportion", proportions[OPERATION_UPDATE], "0.05", 1e9,
		 "weight of updates: one PUT of a whole record"),
	FRACTION("insertproportion", proportions[OPERATION_INSERT], "0.0", 1e9,
		 "weight of inserts: one PUT of a new record"),
	FRACTION("readmodifywriteproportion", proportions[OPERATION_RMW], "0.0", 1e9,
		 "weight of read-modify-writes: a GET, then a PUT"),
	FRACTION("scanproportion", scan_proportion, "0.0", 1e9,
		 "weight of ordered scans: must be 0, kvd has none"),
	FRACTION("hotspotdatafraction", hotspot_data_fraction, "0.2", 1,
		 "share of the records that are hot"),
	FRACTION("hotspotopnfraction", hotspot_operation_fraction, "0.8", 1,
		 "share of the operations on hot records"),
	FRACTION("exponential.percentile", exponential_percentile, "95", 100,
		 "percent of the operations that use the newest records: exponential.frac"),
	FRACTION("exponential.frac", exponential_fraction, "0.8571428571", 1,
		 "share of the records that get exponential.percentile of the operations"),
	UINT("threadcount", threads, "1", 1, WORKLOAD_THREADS_MAX, "client threads, as -t"),
	UINT("target", target, "0", 0, 1e9,
	     "operations per second, all threads together; 0: no limit"),
	DURATION("maxexecutiontime", SECONDS, max_execution_s, "0", 0, 1e9,
		 "seconds, or a time like 5m, after which the measurement ends; 0: no limit"),
	BOOL("spin.sleep", spin_sleep, "false", "spin, not sleep, where target needs a pause"),
	BOOL("dataintegrity", check, "true",
	     "check every byte of every value read (YCSB: false)"),
	BOOL("status", status, "false", "print progress, as -s"),
	DURATION("status.interval", SECONDS, status_interval_s, "1", 1, 86400,
		 "seconds, or a time like 1m, between the lines of -s (YCSB: 10)"),
	{ "label", PROPERTY_TEXT, AT(label), "", 0, 0, NULL,
	  "text at the start of each line of -s" },

	DURATION("kvd.timeout_ms", MS, timeout_ms, "10000", 1, 3600000,
		 "timeout of an operation: milliseconds, or a time like 10s"),
	DURATION("kvd.connect_timeout_ms", MS, connect_timeout_ms, "5000", 1, 3600000,
		 "timeout of the connection: milliseconds, or a time like 5s"),
	{ "kvd.cache_bytes", PROPERTY_SIZE, AT(cache_bytes), "16m", 0, 0x1p40, NULL,
	  "-d kvd: bucket cache of each thread; 0 turns it off" },
	DURATION("kvd.spin_us", US, spin_us, "200", 0, 1000000,
		 "-d kvd: microseconds, or a time like 1ms, for which a call polls before it "
		 "sleeps"),
	UINT("kvd.get_tries", get_tries, "16", 1, 1000,
	     "-d kvd: reads of a changing item before the server is asked"),
	{ "kvd.warmup", PROPERTY_TIME, AT(warmup_ns), "0", 0, 86400e9, NULL,
	  "run: time before the measurement starts, like 5s or 500ms" },
	UINT("kvd.warmup_operations", warmup_operations, "0", 0, WORKLOAD_RECORDS_MAX,
	     "run: the warm-up in operations; with both, whichever ends first"),
	UINT("kvd.seed", seed, "0", 0, UINT64_C(1) << 53,
	     "seed of the random numbers; 0: another seed each time"),
};

/* YCSB's properties without effect, with the reason that -h prints. */
const struct property_idle properties_idle[] = {
	{ "workload", "|site.ycsb.workloads.CoreWorkload|com.yahoo.ycsb.workloads.CoreWorkload|",
	  "kvbench has only YCSB's CoreWorkload" },
	{ "table", "|usertable|", "there are no tables: two of them would share their keys" },
	{ "db", NULL, "the store is chosen by -d" },
	{ "fieldnameprefix", NULL, "the names of fields are not stored" },
	{ "fieldlengthhistogram", NULL,
	  "only used by fieldlengthdistribution=histogram, not supported" },
	{ "readallfields", "|true|false|", "a record is one value: all fields are read" },
	{ "readallfieldsbyname", "|true|false|", "a record is one value: all fields are read" },
	{ "writeallfields", "|true|false|", "a record is one value: all fields are written" },
	{ "minscanlength", NULL, "only used by scans, not supported" },
	{ "maxscanlength", NULL, "only used by scans, not supported" },
	{ "scanlengthdistribution", NULL, "only used by scans, not supported" },
	{ "maxscanrate", NULL, "only used by scans, not supported" },
	{ "scanoptimelimit", NULL, "only used by scans, not supported" },
	{ "discardscannedrecord", NULL, "only used by scans, not supported" },
	{ "core_workload_insertion_retry_limit", "|0|", "a failed insert is not tried again" },
	{ "core_workload_insertion_retry_interval", NULL, "a failed insert is not tried again" },
	{ "core_workload_insertion_keep_going_on_error", "|false|",
	  "a thread that loads stops at its first failed insert" },
	{ "measurementtype", "|hdrhistogram|histogram|hdrhistogram+histogram|",
	  "always a histogram; time series and raw values are not supported" },
	{ "measurement.interval", "|op|",
	  "time counts from the start of the call, not the intended start" },
	{ "measurement.trackjvm", NULL, "there is no JVM" },
	{ "measurement.histogram.verbose", NULL, "buckets are not printed" },
	{ "histogram.buckets", NULL, "the histogram covers every latency within 1.6 %" },
	{ "hdrhistogram.percentiles", NULL, "p50, p95, p99, p99.9 and the maximum are printed" },
	{ "hdrhistogram.fileoutput", "|false|", "histograms are not written to files" },
	{ "hdrhistogram.output.path", NULL, "histograms are not written to files" },
	{ "timeseries.granularity", NULL,
	  "only used by measurementtype=timeseries, not supported" },
	{ "reportlatencyforeacherror", "|false|", "failed operations are counted, not timed" },
	{ "latencytrackederrors", "||", "failed operations are counted, not timed" },
	{ "exporter", "|site.ycsb.measurements.exporter.TextMeasurementsExporter|",
	  "use --json for a format that scripts can read" },
	{ "exportfile", "||", "use --json and redirect the output" },
	{ "htrace.", NULL, "kvbench does not trace" },
};
/* clang-format on */

const size_t property_count = ARRAY_SIZE(properties);
const size_t property_idle_count = ARRAY_SIZE(properties_idle);

const struct property *property_find(const char *name)
{
	size_t i;

	for (i = 0; i < property_count; i++)
		if (!strcmp(properties[i].name, name))
			return &properties[i];
	return NULL;
}

const struct property_idle *property_idle_find(const char *name)
{
	const struct property_idle *idle;
	size_t i, len;

	for (i = 0; i < property_idle_count; i++) {
		idle = &properties_idle[i];
		len = strlen(idle->name);
		if (!strcmp(idle->name, name) ||
		    (idle->name[len - 1] == '.' && !strncmp(idle->name, name, len)))
			return idle;
	}
	return NULL;
}
