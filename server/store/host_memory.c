/* SPDX-License-Identifier: MIT */
/* Host memory: reads /proc/meminfo, the control groups' files and the resource limits. */
#include "server/store/host_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util/log.h"

#define LINE_BYTES 1024

/* Deeper control groups, which are not met in practice, are ignored. */
#define GROUP_DEPTH_MAX 32

/* The files of one version of control groups. */
struct group_files {
	const char *limits[2];
	const char *usage;
	const char *page_cache[2]; /* lines of memory.stat: what the kernel can drop */
};

static const struct group_files version1 = {
	{ "memory.limit_in_bytes", NULL },
	"memory.usage_in_bytes",
	{ "total_inactive_file", "total_active_file" },
};

/* Above memory.high the kernel slows the process down until it hardly runs. */
static const struct group_files version2 = {
	{ "memory.max", "memory.high" },
	"memory.current",
	{ "inactive_file", "active_file" },
};

static void limit_lower(struct host_limit *limit, uint64_t bytes, const char *name)
{
	if (bytes >= limit->bytes)
		return;
	limit->bytes = bytes;
	snprintf(limit->name, sizeof(limit->name), "%s", name);
}

static FILE *open_in(const char *folder, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return NULL;
	return fopen(path, "re");
}

/* Reads a file that holds one number; false for a file that says "max" or is missing. */
static bool read_number(const char *folder, const char *name, uint64_t *number)
{
	FILE *in = open_in(folder, name);
	bool ok;

	if (!in)
		return false;
	ok = fscanf(in, "%" SCNu64, number) == 1;
	fclose(in);
	return ok;
}

/* The number after @key and an optional colon; 0 if the file has no such line. */
static uint64_t read_key(const char *folder, const char *name, const char *key)
{
	FILE *in = open_in(folder, name);
	char line[LINE_BYTES];
	uint64_t number = 0;
	size_t length = strlen(key);

	while (in && fgets(line, sizeof(line), in))
		if (!strncmp(line, key, length) && strchr(": ", line[length]) &&
		    sscanf(line + length, "%*[: ]%" SCNu64, &number) == 1)
			break;
	if (in)
		fclose(in);
	return number;
}

static void read_host(struct host_memory *memory, const char *root)
{
	char proc[PATH_MAX];
	uint64_t total, available;

	snprintf(proc, sizeof(proc), "%s/proc", root);
	total = read_key(proc, "meminfo", "MemTotal") * 1024;
	available = read_key(proc, "meminfo", "MemAvailable") * 1024;
	if (total)
		limit_lower(&memory->ever, total, "MemTotal of /proc/meminfo");
	if (available)
		limit_lower(&memory->now, available, "MemAvailable of /proc/meminfo");
}

/* Considers one group's limits. @folder begins with @root_length bytes of a test's root. */
static void read_group(struct host_memory *memory, const char *folder, size_t root_length,
		       const struct group_files *files)
{
	uint64_t limit, usage = 0, cache = 0;
	char name[HOST_MEMORY_NAME_MAX];

	read_number(folder, files->usage, &usage);
	for (int i = 0; i < 2; i++)
		cache += read_key(folder, "memory.stat", files->page_cache[i]);
	usage -= cache < usage ? cache : usage;
	for (int i = 0; i < 2 && files->limits[i]; i++) {
		if (!read_number(folder, files->limits[i], &limit))
			continue;
		snprintf(name, sizeof(name), "%s/%s", folder + root_length, files->limits[i]);
		limit_lower(&memory->ever, limit, name);
		limit_lower(&memory->now, limit > usage ? limit - usage : 0, name);
	}
}

/*
 * The path of the process's group in the hierarchy of the memory controller, as in
 * /proc/self/cgroup: lines of `number:controllers:path`, with no controllers for version 2.
 */
static bool group_path(const char *root, bool v1, char path[LINE_BYTES])
{
	char proc[PATH_MAX], line[LINE_BYTES], controllers[LINE_BYTES];
	bool found = false;
	FILE *in;

	snprintf(proc, sizeof(proc), "%s/proc/self", root);
	in = open_in(proc, "cgroup");
	while (in && !found && fgets(line, sizeof(line), in)) {
		controllers[0] = '\0';
		if (sscanf(line, "%*u:%1023[^:]:%1023[^\n]", controllers, path) != 2 &&
		    sscanf(line, "%*u::%1023[^\n]", path) != 1)
			continue;
		found = v1 ? !!strstr(controllers, "memory") : !controllers[0];
	}
	if (in)
		fclose(in);
	return found;
}

/* The mount of a hierarchy: the group at its top, and the folder. From /proc/self/mountinfo. */
struct group_mount {
	char top[LINE_BYTES];
	char folder[LINE_BYTES];
};

static bool mount_is(const char *line, bool v1, struct group_mount *mount)
{
	const char *rest = strstr(line, " - ");
	char type[32], options[LINE_BYTES];

	if (!rest || sscanf(rest, " - %31s %*s %1023s", type, options) != 2 ||
	    sscanf(line, "%*s %*s %*s %1023s %1023s", mount->top, mount->folder) != 2)
		return false;
	return v1 ? !strcmp(type, "cgroup") && strstr(options, "memory") : !strcmp(type, "cgroup2");
}

static bool group_mount(const char *root, bool v1, struct group_mount *mount)
{
	char proc[PATH_MAX], line[LINE_BYTES];
	bool found = false;
	FILE *in;

	snprintf(proc, sizeof(proc), "%s/proc/self", root);
	in = open_in(proc, "mountinfo");
	while (in && !found && fgets(line, sizeof(line), in))
		found = mount_is(line, v1, mount);
	if (in)
		fclose(in);
	return found;
}

/* The process's group and all above it, up to the mount. */
static void read_groups(struct host_memory *memory, const char *root, bool v1)
{
	char path[LINE_BYTES], folder[PATH_MAX];
	const char *below = path;
	struct group_mount mount;
	size_t top, shortest;

	if (!group_path(root, v1, path) || !group_mount(root, v1, &mount))
		return;
	/* In a container the mount may begin at the container's group. */
	top = strlen(mount.top);
	if (top > 1 && !strncmp(path, mount.top, top) && (!path[top] || path[top] == '/'))
		below = path + top;
	else if (top > 1 || !strcmp(path, "/"))
		below = "";
	shortest = (size_t)snprintf(folder, sizeof(folder), "%s%s", root, mount.folder);
	if (snprintf(folder + shortest, sizeof(folder) - shortest, "%s", below) >=
	    (int)(sizeof(folder) - shortest))
		return;
	for (int depth = 0; depth < GROUP_DEPTH_MAX; depth++) {
		read_group(memory, folder, strlen(root), v1 ? &version1 : &version2);
		if (strlen(folder) <= shortest)
			return;
		*strrchr(folder, '/') = '\0';
	}
}

static void read_resource_limits(struct host_memory *memory, const char *root)
{
	struct rlimit limit;
	char proc[PATH_MAX];
	uint64_t used = 0;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY)
		memory->file_max = limit.rlim_cur;
	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return;
	snprintf(proc, sizeof(proc), "%s/proc/self", root);
	read_number(proc, "statm", &used);
	used *= (uint64_t)sysconf(_SC_PAGESIZE);
	limit_lower(&memory->ever, limit.rlim_cur > used ? limit.rlim_cur - used : 0,
		    "RLIMIT_AS (ulimit -v), less what is mapped already");
}

void host_memory_read(struct host_memory *memory, const char *root)
{
	*memory = (struct host_memory){ .now.bytes = UINT64_MAX,
					.ever.bytes = UINT64_MAX,
					.file_max = UINT64_MAX };
	read_host(memory, root);
	read_groups(memory, root, true);
	read_groups(memory, root, false);
	read_resource_limits(memory, root);
}

static uint64_t mib(uint64_t bytes)
{
	return bytes >> 20;
}

int host_memory_check(const struct host_memory *memory, uint64_t bytes, uint64_t beside, bool now)
{
	uint64_t needed = bytes + beside;

	if (bytes > memory->file_max) {
		log_error("memory.size: the region has %" PRIu64 " MiB, and this process may make "
			  "files of %" PRIu64 " MiB at most (RLIMIT_FSIZE): lower memory.size, or "
			  "raise that limit (ulimit -f)",
			  mib(bytes), mib(memory->file_max));
		return -ENOMEM;
	}
	if (needed > memory->ever.bytes) {
		log_error("memory.size: kvd needs %" PRIu64 " MiB, %" PRIu64 " MiB of region and "
			  "about %" PRIu64 " MiB beside it, and can have %" PRIu64
			  " MiB at most, by %s: lower memory.size, or raise that limit",
			  mib(needed), mib(bytes), mib(beside), mib(memory->ever.bytes),
			  memory->ever.name);
		return -ENOMEM;
	}
	if (needed <= memory->now.bytes)
		return 0;
	log_at(now ? LOG_ERROR : LOG_WARN,
	       "memory.size: kvd needs %" PRIu64 " MiB, %" PRIu64
	       " MiB of region and about %" PRIu64 " MiB beside it, and %" PRIu64
	       " MiB are available now, by %s: lower memory.size, or %s",
	       mib(needed), mib(bytes), mib(beside), mib(memory->now.bytes), memory->now.name,
	       now ? "end what uses the rest" : "kvd may be killed when it fills");
	return now ? -ENOMEM : 0;
}
