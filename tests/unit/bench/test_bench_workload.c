/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvbench's workloads: YCSB's defaults and keys, properties that are refused with their
 * names, and real property files: kvd's own and, if ../shared/ycsb exists, YCSB's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/workload_parse.h"

static struct props props;
static struct workload workload;

/* Parses the properties in @text, one a line. Returns whether they are valid. */
static int parsed(enum phase phase, const char *text)
{
	props_release(&props);
	assert_int_equal(props_parse(&props, text, strlen(text), "file"), 0);
	return workload_parse(&workload, phase, &props) == 0;
}

/* Asserts that @line is refused with an error that contains @word and the place. */
static void refused(const char *line, const char *word)
{
	char text[256];

	snprintf(text, sizeof(text), "recordcount=1000\noperationcount=1000\n%s\n", line);
	assert_false(parsed(PHASE_RUN, text));
	if (!strstr(props.error, word) || !strstr(props.error, "file:"))
		fail_msg("%s: the error has no %s or no place: %s", line, word, props.error);
}

static void accepted(const char *line)
{
	char text[256];

	snprintf(text, sizeof(text), "recordcount=1000\noperationcount=1000\n%s\n", line);
	if (!parsed(PHASE_RUN, text))
		fail_msg("%s: %s", line, props.error);
}

static void defaults_equal_ycsb(void **state)
{
	(void)state;
	assert_true(parsed(PHASE_RUN, "recordcount=5\noperationcount=7"));
	assert_int_equal(workload.record_count, 5);
	assert_int_equal(workload.operation_count, 7);
	assert_int_equal(workload_load_count(&workload), 5);
	assert_int_equal(workload.field_count, 10);
	assert_int_equal(workload.field_length, 100);
	assert_int_equal(workload.field_lengths, LENGTH_CONSTANT);
	assert_int_equal(workload.request_distribution, DISTRIBUTION_UNIFORM);
	assert_int_equal(workload.insert_order, ORDER_HASHED);
	assert_int_equal(workload.zero_padding, 1);
	assert_true(workload.proportions[OPERATION_READ] == 0.95);
	assert_true(workload.proportions[OPERATION_UPDATE] == 0.05);
	assert_true(workload.proportions[OPERATION_INSERT] == 0);
	assert_true(workload.proportions[OPERATION_RMW] == 0);
	assert_true(workload.hotspot_data_fraction == 0.2);
	assert_true(workload.hotspot_operation_fraction == 0.8);
	assert_int_equal(workload.threads, 1);
	assert_true(workload.check); /* unlike YCSB */
	assert_int_equal(workload.cache_bytes, 16 << 20);
	assert_int_equal(workload_record_max(&workload), 1032);
}

static void values_are_parsed(void **state)
{
	(void)state;
	assert_true(
		parsed(PHASE_RUN,
		       "recordcount=100\noperationcount=7\ninsertstart=20\ninsertcount=30\n"
		       "readproportion=0.25 \nreadmodifywriteproportion=1\ndataintegrity=FALSE\n"
		       "kvd.cache_bytes=1m\nkvd.warmup=2\nkvd.timeout_ms=9\ntarget=50\n"
		       "fieldlengthdistribution=zipfian\nlabel=x y\nrequestdistribution=latest"));
	assert_int_equal(workload.insert_start, 20);
	assert_int_equal(workload_load_count(&workload), 30);
	assert_true(workload.proportions[OPERATION_READ] == 0.25);
	assert_true(workload.proportions[OPERATION_RMW] == 1);
	assert_false(workload.check);
	assert_int_equal(workload.cache_bytes, 1 << 20);
	assert_true(workload.warmup_ns == UINT64_C(2000000000));
	assert_int_equal(workload.timeout_ms, 9);
	assert_int_equal(workload.target, 50);
	assert_int_equal(workload.field_lengths, LENGTH_ZIPFIAN);
	assert_string_equal(workload.label, "x y");
	assert_int_equal(workload.request_distribution, DISTRIBUTION_LATEST);
	assert_int_equal(workload_record_max(&workload), 32 + 10 * 104);
}

static void unsupported_properties_are_refused_by_name(void **state)
{
	(void)state;
	refused("scanproportion=0.95", "scanproportion");
	refused("workload=site.ycsb.workloads.TimeSeriesWorkload", "TimeSeriesWorkload");
	refused("fieldlengthdistribution=histogram", "histogram");
	/* Of what it quotes, nothing controls a terminal. */
	refused("requestdistribution=\33c\302\233", "=?c??: ");
	refused("requestdistribution=zipf", "not supported by kvbench; give one of uniform, ");
	refused("table=other", "table");
	/* Names that only begin like one without effect. */
	refused("tables=usertable", "does not know");
	refused("dbname=x", "does not know");
	refused("htrac=x", "does not know");
	refused("measurementtype=timeseries", "measurementtype");
	refused("measurementtype=hdr", "measurementtype");
	refused("measurement.interval=both", "measurement.interval");
	refused("hdrhistogram.fileoutput=true", "hdrhistogram.fileoutput");
	refused("exportfile=/tmp/x", "exportfile");
	refused("core_workload_insertion_retry_limit=3", "core_workload_insertion_retry_limit");
	refused("recordcuont=1", "recordcuont");
	refused("redis.host=x", "redis.host");
	refused("=1", "does not know");
}

static void properties_without_effect_are_accepted(void **state)
{
	(void)state;
	accepted("workload=com.yahoo.ycsb.workloads.CoreWorkload");
	accepted("workload=site.ycsb.workloads.CoreWorkload");
	accepted("table=usertable");
	accepted("maxscanlength=1000");
	accepted("measurementtype=histogram");
	accepted("histogram.buckets=1000");
	accepted("hdrhistogram.percentiles=50,99");
	accepted("readallfields=false");
	accepted("writeallfields=true");
	accepted("fieldnameprefix=f");
	accepted("htrace.span.receiver.classes=none");
	accepted("scanproportion=0.0");
	accepted("dotransactions=true");
}

static void bad_values_are_refused(void **state)
{
	(void)state;
	refused("recordcount=12x", "12x");
	refused("recordcount=12 ", "blanks");
	refused("recordcount=-1", "-1");
	refused("recordcount=99999999999999999999", "recordcount");
	refused("fieldcount=0", "fieldcount");
	refused("fieldcount=1001", "fieldcount");
	refused("zeropadding=1001", "zeropadding");
	refused("threadcount=0", "threadcount");
	refused("readproportion=a", "not a number");
	refused("readproportion=", "not a number");
	refused("readproportion=0.5x", "not a number");
	accepted("readproportion=\\ 0.5 ");
	refused("readproportion=-0.1", "readproportion");
	refused("readproportion=nan", "readproportion");
	refused("hotspotdatafraction=1.5", "out of range: give 0 to 1");
	accepted("hotspotdatafraction=1");
	refused("dataintegrity=yes", "give true or false");
	refused("kvd.warmup=2x", "kvd.warmup");
	refused("kvd.spin_us=1000001", "kvd.spin_us");
	refused("kvd.spin_us=2s", "out of range: give 0 to 1s");
	refused("kvd.timeout_ms=5us", "out of range: give 1ms to 1h");
	refused("kvd.timeout_ms=1001us", "not a multiple of 1ms");
	refused("maxexecutiontime=1500ms", "not a multiple of 1s");
	refused("dotransactions=false", "dotransactions");
}

static void contradictions_are_refused(void **state)
{
	(void)state;
	assert_false(parsed(PHASE_LOAD, "operationcount=1"));
	assert_non_null(strstr(props.error, "recordcount"));
	assert_false(parsed(PHASE_RUN, "recordcount=1"));
	assert_non_null(strstr(props.error, "operationcount"));
	assert_true(parsed(PHASE_RUN, "recordcount=1\nmaxexecutiontime=1"));
	assert_true(parsed(PHASE_LOAD, "recordcount=1"));
	refused("insertstart=1000", "insertstart");
	refused("insertstart=1\ninsertcount=1000", "insertcount");
	accepted("insertstart=1\ninsertcount=999");
	refused("fieldlengthdistribution=uniform\nminfieldlength=101", "minfieldlength");
	refused("fieldlength=1073741824", "fieldlength");
	refused("requestdistribution=hotspot\nhotspotdatafraction=0", "hotspotdatafraction");
	refused("requestdistribution=hotspot\nhotspotdatafraction=1", "hotspotdatafraction");
	/* As they are if no operation needs what there is none of. */
	accepted("requestdistribution=hotspot\nhotspotdatafraction=0\nhotspotopnfraction=0");
	accepted("requestdistribution=hotspot\nhotspotdatafraction=1\nhotspotopnfraction=1");
	accepted("hotspotdatafraction=0");
	refused("requestdistribution=exponential\nexponential.percentile=100", "exponential");
	refused("requestdistribution=exponential\nexponential.percentile=0", "exponential");
	refused("requestdistribution=exponential\nexponential.percentile=50\nexponential.frac=0",
		"exponential");
	accepted("requestdistribution=exponential\nexponential.percentile=99.9");
	accepted("exponential.percentile=100");
	refused("insertcount=0", "no records");
	accepted("fieldlengthdistribution=uniform\nminfieldlength=100");
	accepted("minfieldlength=101");
	accepted("fieldcount=1\nfieldlength=1073741792"); /* 2^30 less the header */
	refused("fieldcount=1\nfieldlength=1073741793", "fieldlength");
	assert_false(parsed(PHASE_RUN, "recordcount=1\noperationcount=1\nreadproportion=0\n"
				       "updateproportion=0"));
	assert_non_null(strstr(props.error, "nothing to do"));
}

/* The longest key that a run makes: what a store must take. */
static void longest_keys(void **state)
{
	(void)state;
	accepted("");
	assert_int_equal(workload_key_max(&workload), 4 + 19);
	accepted("zeropadding=40");
	assert_int_equal(workload_key_max(&workload), 4 + 40);
	accepted("insertorder=ordered\nzeropadding=7");
	assert_int_equal(workload_key_max(&workload), 4 + 7);
}

static void expect_key(uint64_t number, const char *want)
{
	char key[WORKLOAD_KEY_MAX];
	size_t len = workload_key(&workload, number, key);

	assert_int_equal(len, strlen(want));
	assert_memory_equal(key, want, len);
}

/* The hashed keys are those of YCSB's own CoreWorkload.buildKeyName(). */
static void keys_equal_ycsb(void **state)
{
	(void)state;
	assert_true(parsed(PHASE_LOAD, "recordcount=1000"));
	expect_key(0, "user6284781860667377211");
	expect_key(1, "user8517097267634966620");
	expect_key(2, "user1820151046732198393");
	expect_key(999, "user2071219101098386137");
	expect_key(1000000, "user1011632231655643464");
	expect_key(UINT64_C(1) << 40, "user6908947124047430886");
	assert_true(parsed(PHASE_LOAD, "recordcount=1000\nzeropadding=22"));
	expect_key(0, "user0006284781860667377211");
	assert_true(parsed(PHASE_LOAD, "recordcount=1000\ninsertorder=ordered"));
	expect_key(0, "user0");
	expect_key(1234567890123, "user1234567890123");
	assert_true(parsed(PHASE_LOAD, "recordcount=1000\ninsertorder=ordered\nzeropadding=8"));
	expect_key(5, "user00000005");
	expect_key(123456789, "user123456789");
	assert_true(parsed(PHASE_LOAD, "recordcount=1000\nzeropadding=1000"));
	assert_int_equal(workload_key(&workload, 1, (char[WORKLOAD_KEY_MAX]){ 0 }), 1004);
}

/* Loads @folder/@name. Returns -1 if there is no such file, else whether it is valid. */
static int file_taken(const char *folder, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (access(path, R_OK))
		return -1;
	props_release(&props);
	if (props_load(&props, path))
		fail_msg("%s", props.error);
	return workload_parse(&workload, PHASE_RUN, &props) == 0;
}

static void expect_mix(double read, double update, double insert, double rmw, unsigned int dist)
{
	assert_true(workload.proportions[OPERATION_READ] == read);
	assert_true(workload.proportions[OPERATION_UPDATE] == update);
	assert_true(workload.proportions[OPERATION_INSERT] == insert);
	assert_true(workload.proportions[OPERATION_RMW] == rmw);
	assert_int_equal(workload.request_distribution, dist);
}

static void check_folder(const char *folder)
{
	assert_int_equal(file_taken(folder, "workloada"), 1);
	expect_mix(0.5, 0.5, 0, 0, DISTRIBUTION_ZIPFIAN);
	assert_int_equal(file_taken(folder, "workloadb"), 1);
	expect_mix(0.95, 0.05, 0, 0, DISTRIBUTION_ZIPFIAN);
	assert_int_equal(file_taken(folder, "workloadc"), 1);
	expect_mix(1, 0, 0, 0, DISTRIBUTION_ZIPFIAN);
	assert_int_equal(file_taken(folder, "workloadd"), 1);
	expect_mix(0.95, 0, 0.05, 0, DISTRIBUTION_LATEST);
	assert_int_equal(file_taken(folder, "workloadf"), 1);
	expect_mix(0.5, 0, 0, 0.5, DISTRIBUTION_ZIPFIAN);
}

static void own_files(void **state)
{
	(void)state;
	check_folder("bench/workloads");
}

static void files_of_ycsb(void **state)
{
	(void)state;
	if (access("../shared/ycsb/workloada", R_OK))
		skip();
	check_folder("../shared/ycsb");
	assert_int_equal(file_taken("../shared/ycsb", "workloade"), 0);
	assert_non_null(strstr(props.error, "scanproportion"));
	assert_non_null(strstr(props.error, "workloade:"));
	assert_int_equal(file_taken("../shared/ycsb", "workload_template"), 1);
	expect_mix(0.95, 0.05, 0, 0, DISTRIBUTION_ZIPFIAN);
	assert_int_equal(workload.record_count, 1000000);
}

static int release(void **state)
{
	(void)state;
	props_release(&props);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_equal_ycsb),
		cmocka_unit_test(values_are_parsed),
		cmocka_unit_test(unsupported_properties_are_refused_by_name),
		cmocka_unit_test(properties_without_effect_are_accepted),
		cmocka_unit_test(bad_values_are_refused),
		cmocka_unit_test(contradictions_are_refused),
		cmocka_unit_test(longest_keys),
		cmocka_unit_test(keys_equal_ycsb),
		cmocka_unit_test(own_files),
		cmocka_unit_test(files_of_ycsb),
	};

	return cmocka_run_group_tests(tests, NULL, release);
}
