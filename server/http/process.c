/* SPDX-License-Identifier: MIT */
#include "server/http/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull
#define NS_PER_US 1000ull

static uint64_t time_ns(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_usec * NS_PER_US;
}

static void cpu_write(struct exposition *out)
{
	struct labels user = { 0 }, system = { 0 };
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	exposition_family(out, "process_cpu_seconds_total", METRIC_COUNTER,
			  "CPU time of the process, in user mode and in the kernel");
	exposition_ns(out, NULL, time_ns(&usage.ru_utime) + time_ns(&usage.ru_stime));
	exposition_family(out, "kvd_cpu_seconds_total", METRIC_COUNTER,
			  "CPU time of the process, by mode");
	exposition_ns(out, label_add(&user, "mode", "user"), time_ns(&usage.ru_utime));
	exposition_ns(out, label_add(&system, "mode", "system"), time_ns(&usage.ru_stime));
}

static void memory_write(struct exposition *out)
{
	FILE *file = fopen("/proc/self/statm", "re");
	uint64_t size = 0, resident = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
	int found;

	if (!file)
		return;
	found = fscanf(file, "%" SCNu64 " %" SCNu64, &size, &resident);
	fclose(file);
	if (found != 2)
		return;
	exposition_one(out, "process_virtual_memory_bytes", METRIC_GAUGE, "address space in use",
		       size * page);
	exposition_one(out, "process_resident_memory_bytes", METRIC_GAUGE,
		       "memory in use, the region included", resident * page);
}

/* Linux 6.2 and later say it at once. */
static uint64_t descriptors_count(void)
{
	static const char path[] = "/proc/self/fd";
	uint64_t count = 0;
	struct stat st;
	DIR *folder;

	if (!stat(path, &st) && st.st_size)
		return (uint64_t)st.st_size;
	folder = opendir(path);
	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	/* Not ".", "..", and the folder itself. */
	return count > 3 ? count - 3 : 0;
}

static void descriptors_write(struct exposition *out)
{
	struct rlimit limit;

	exposition_one(out, "process_open_fds", METRIC_GAUGE, "open file descriptors",
		       descriptors_count());
	if (!getrlimit(RLIMIT_NOFILE, &limit))
		exposition_one(out, "process_max_fds", METRIC_GAUGE,
			       "file descriptors that may be open", limit.rlim_cur);
}

void process_write(struct exposition *out, uint64_t started_unix_ns)
{
	exposition_family(out, "process_start_time_seconds", METRIC_GAUGE,
			  "start of the process, in seconds since 1970");
	exposition_ns(out, NULL, started_unix_ns);
	cpu_write(out);
	memory_write(out);
	descriptors_write(out);
}
