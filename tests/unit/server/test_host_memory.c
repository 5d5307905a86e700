/* SPDX-License-Identifier: MIT */
/*
 * Tests of the check of the host's memory (server/store/host_memory.h), with /proc and control
 * groups of either version in a folder of the test's own.
 */
#include "server/store/host_memory.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "tests/support/log_fixture.h"

#define GIB ((uint64_t)1 << 30)
#define MIB ((uint64_t)1 << 20)

/* Writes the file @path below the folder, and makes its folders. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *out;

	snprintf(full, sizeof(full), "%s%s", test_log_dir, path);
	for (char *at = full + strlen(test_log_dir) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0700);
		*at = '/';
	}
	out = fopen(full, "we");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
}

static void clear(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/proc %s/sys", test_log_dir, test_log_dir);
	assert_int_equal(system(command), 0);
}

/* A host of 16 GiB, of which 8 are free. */
static int setup(void **state)
{
	(void)state;
	put("/proc/meminfo", "MemTotal:       16777216 kB\n"
			     "MemFree:         1048576 kB\n"
			     "MemAvailable:    8388608 kB\n");
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_release();
	clear();
	return 0;
}

static void assert_limits(uint64_t now, const char *now_name, uint64_t ever, const char *ever_name)
{
	struct host_memory memory;

	host_memory_read(&memory, test_log_dir);
	if (memory.now.bytes != now || strcmp(memory.now.name, now_name) != 0)
		fail_msg("now %llu by %s", (unsigned long long)memory.now.bytes, memory.now.name);
	if (memory.ever.bytes != ever || strcmp(memory.ever.name, ever_name) != 0)
		fail_msg("ever %llu by %s", (unsigned long long)memory.ever.bytes,
			 memory.ever.name);
}

static void the_host(void **state)
{
	(void)state;
	assert_limits(8 * GIB, "MemAvailable of /proc/meminfo", 16 * GIB,
		      "MemTotal of /proc/meminfo");
}

static void nothing_known(void **state)
{
	struct host_memory memory;

	(void)state;
	clear();
	host_memory_read(&memory, test_log_dir);
	assert_true(memory.now.bytes == UINT64_MAX && memory.ever.bytes == UINT64_MAX);
	assert_int_equal(host_memory_check(&memory, 1ull << 50, 0, true), 0);
}

#define MOUNT_V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"

/* The group has no limit, the one above it 2 GiB, of which 1.5 are used, 0.25 by page cache. */
static void version_2(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/a.slice/kvd.service\n");
	put("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" MOUNT_V2);
	put("/sys/fs/cgroup/a.slice/kvd.service/memory.max", "max\n");
	put("/sys/fs/cgroup/a.slice/kvd.service/memory.high", "max\n");
	put("/sys/fs/cgroup/a.slice/kvd.service/memory.current", "1000\n");
	put("/sys/fs/cgroup/a.slice/memory.max", "2147483648\n");
	put("/sys/fs/cgroup/a.slice/memory.high", "max\n");
	put("/sys/fs/cgroup/a.slice/memory.current", "1610612736\n");
	put("/sys/fs/cgroup/a.slice/memory.stat",
	    "anon 1\nfile 777777777\ninactive_file 134217728\nactive_file 134217728\n");
	assert_limits(GIB / 2 + GIB / 4, "/sys/fs/cgroup/a.slice/memory.max", 2 * GIB,
		      "/sys/fs/cgroup/a.slice/memory.max");
	/* The group's own memory.high is lower than that. */
	put("/sys/fs/cgroup/a.slice/kvd.service/memory.high", "104857600\n");
	assert_limits(104857600 - 1000, "/sys/fs/cgroup/a.slice/kvd.service/memory.high", 104857600,
		      "/sys/fs/cgroup/a.slice/kvd.service/memory.high");
	/* More is used than the limit, which was lowered. */
	put("/sys/fs/cgroup/a.slice/kvd.service/memory.current", "904857600\n");
	assert_limits(0, "/sys/fs/cgroup/a.slice/kvd.service/memory.high", 104857600,
		      "/sys/fs/cgroup/a.slice/kvd.service/memory.high");
}

/* In a container with namespaces the group is the top of what is mounted. */
static void version_2_container(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", MOUNT_V2);
	put("/sys/fs/cgroup/memory.max", "209715200\n");
	put("/sys/fs/cgroup/memory.current", "9715200\n");
	assert_limits(200000000, "/sys/fs/cgroup/memory.max", 209715200,
		      "/sys/fs/cgroup/memory.max");
}

/* Version 1, beside an empty hierarchy of version 2; a container without namespaces. */
static void version_1(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "9:name=systemd:/\n"
				 "4:cpu,cpuacct:/docker/ab\n"
				 "3:memory:/docker/ab/in\n"
				 "0::/\n");
	put("/proc/self/mountinfo",
	    "31 23 0:27 /docker/ab /sys/fs/cgroup/cpu rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n"
	    "32 23 0:28 /docker/ab /sys/fs/cgroup/memory rw shared:6 - cgroup cgroup rw,memory\n"
	    "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "268435456\n");
	put("/sys/fs/cgroup/memory/memory.stat",
	    "inactive_file 5\ntotal_inactive_file 67108864\ntotal_active_file 0\n");
	put("/sys/fs/cgroup/memory/in/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/in/memory.usage_in_bytes", "4096\n");
	assert_limits(320 * MIB, "/sys/fs/cgroup/memory/memory.limit_in_bytes", 512 * MIB,
		      "/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

/* What containers and odd mounts show must not lead anywhere. */
static void odd_files(void **state)
{
	static const char *const cgroups[] = { "0::/../../x\n", "0::\n", "", "garbage\n",
					       "3:memory:\n" };
	static const char *const mounts[] = { MOUNT_V2, "", " - \n", "1 2 3 /a - cgroup2 x\n",
					      ("30 23 0:26 /elsewhere /sys/fs/cgroup rw - "
					       "cgroup2 cgroup2 rw\n") };

	(void)state;
	for (unsigned int i = 0; i < 5; i++)
		for (unsigned int j = 0; j < 5; j++) {
			put("/proc/self/cgroup", cgroups[i]);
			put("/proc/self/mountinfo", mounts[j]);
			put("/sys/fs/cgroup/memory.max", "max\n");
			assert_limits(8 * GIB, "MemAvailable of /proc/meminfo", 16 * GIB,
				      "MemTotal of /proc/meminfo");
		}
}

/* Both figures, where the limit comes from, and what to do. */
static void refused(void **state)
{
	struct host_memory memory;

	(void)state;
	host_memory_read(&memory, test_log_dir);
	assert_int_equal(host_memory_check(&memory, 7 * GIB, GIB, true), 0);
	assert_int_equal(test_log_lines(), 0);
	assert_int_equal(host_memory_check(&memory, 100 * GIB, GIB, false), -ENOMEM);
	assert_logged(" error memory.size: kvd needs 103424 MiB, 102400 MiB of "
		      "region and about 1024 MiB beside it, and can have 16384 "
		      "MiB at most, by MemTotal of /proc/meminfo: lower "
		      "memory.size, or raise that limit\n");
	/* More than is free now: refused if it must be filled now, else a warning. */
	assert_int_equal(host_memory_check(&memory, 8 * GIB, GIB, true), -ENOMEM);
	assert_logged(" error memory.size: kvd needs 9216 MiB, 8192 MiB of "
		      "region and about 1024 MiB beside it, and 8192 MiB are "
		      "available now, by MemAvailable of /proc/meminfo: lower "
		      "memory.size, or end what uses the rest\n");
	assert_int_equal(host_memory_check(&memory, 8 * GIB, GIB, false), 0);
	assert_logged(" warn memory.size: kvd needs 9216 MiB, ");
	assert_logged(", or kvd may be killed when it fills\n");
	/* To the byte. */
	assert_int_equal(host_memory_check(&memory, 7 * GIB + 1, GIB, true), -ENOMEM);
	assert_int_equal(host_memory_check(&memory, 15 * GIB, GIB, false), 0);
	assert_int_equal(host_memory_check(&memory, 15 * GIB + 1, GIB, false), -ENOMEM);
}

/*
 * The limit of one resource, in place of the process's: a limited address space is none in which
 * ASan could go on. 0: it is the process's.
 */
static uint64_t limited;
static int limited_resource;

/* ASan calls it before it has begun. */
__attribute__((no_sanitize("address", "undefined"))) int getrlimit(__rlimit_resource_t resource,
								   struct rlimit *limit)
{
	if (!limited || (int)resource != limited_resource)
		return (int)syscall(SYS_prlimit64, 0, resource, NULL, limit);
	limit->rlim_cur = limit->rlim_max = limited;
	return 0;
}

/* Whether a region of 1 GiB passes. */
static bool passes_with_limit(int resource, uint64_t bytes)
{
	struct host_memory memory;

	limited = bytes;
	limited_resource = resource;
	host_memory_read(&memory, test_log_dir);
	limited = 0;
	return !host_memory_check(&memory, GIB, MIB, true);
}

static void resource_limits(void **state)
{
	(void)state;
	/* In pages; of the address space, 100 MiB are used. */
	put("/proc/self/statm", "25600 1 1 1 0 1 0\n");
	assert_true(passes_with_limit(RLIMIT_AS, 2 * GIB));
	assert_false(passes_with_limit(RLIMIT_AS, GIB + 50 * MIB));
	assert_logged(", and can have 974 MiB at most, by RLIMIT_AS (ulimit -v), "
		      "less what is mapped already: lower ");
	assert_true(passes_with_limit(RLIMIT_FSIZE, GIB));
	assert_false(passes_with_limit(RLIMIT_FSIZE, GIB - 1));
	assert_logged(" error memory.size: the region has 1024 MiB, and this "
		      "process may make files of 1023 MiB at most (RLIMIT_");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_host),	 CASE(nothing_known), CASE(version_2), CASE(version_2_container),
		CASE(version_1), CASE(odd_files),     CASE(refused),   CASE(resource_limits),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
