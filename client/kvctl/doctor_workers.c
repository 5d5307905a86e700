/* SPDX-License-Identifier: MIT */
/* The workers of servers on this host, and their CPUs: see doctor_workers.h. */
#include "client/kvctl/doctor_workers.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICE "/dev/infiniband/uverbs"
#define PROCESS_MAX 1024 /* bytes of the name of its folder */

/* Parses a list such as "0-7,16-23"; anything else is an empty set. */
static void cpus_parse(cpu_set_t *set, const char *text)
{
	CPU_ZERO(set);
	while (isdigit((unsigned char)*text)) {
		char *end;
		unsigned long from = strtoul(text, &end, 10), to = from;

		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		for (; from <= to && from < CPU_SETSIZE; from++)
			CPU_SET(from, set);
		text = *end == ',' ? end + 1 : end;
	}
}

static bool is_within(const char *cpus, const char *node_cpus)
{
	cpu_set_t set, node, both;

	cpus_parse(&set, cpus);
	cpus_parse(&node, node_cpus);
	CPU_AND(&both, &set, &node);
	return CPU_EQUAL(&both, &set);
}

static bool has_device(const char *process)
{
	char path[PROCESS_MAX + 8], target[sizeof(DEVICE)];
	struct dirent *entry;
	bool found = false;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/fd", process);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder)))
		found = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target)) >=
				(ssize_t)strlen(DEVICE) &&
			!memcmp(target, DEVICE, strlen(DEVICE));
	if (folder)
		closedir(folder);
	return found;
}

/* Reads /proc/PID/task/TID/status. */
static void allowed_read(const char *thread, char *cpus, size_t size)
{
	char path[PATH_MAX + 8], line[512];
	FILE *in;

	*cpus = '\0';
	snprintf(path, sizeof(path), "%s/status", thread);
	in = fopen(path, "re");
	while (in && fgets(line, sizeof(line), in))
		if (!strncmp(line, "Cpus_allowed_list:", 18))
			snprintf(cpus, size, "%s", line + 18 + strspn(line + 18, " \t"));
	if (in)
		fclose(in);
}

static void thread_look(struct doctor_workers *workers, const char *thread, const char *node_cpus)
{
	char comm[32], cpus[256];

	doctor_line_read(thread, "comm", comm, sizeof(comm));
	if (strncmp(comm, "worker-", 7) != 0)
		return;
	workers->count++;
	allowed_read(thread, cpus, sizeof(cpus));
	workers->away += !is_within(cpus, node_cpus);
}

static void threads_look(struct doctor_workers *workers, const char *process, const char *node_cpus)
{
	char path[PROCESS_MAX + 8], thread[PATH_MAX];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/task", process);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    snprintf(thread, sizeof(thread), "%s/%s", path, entry->d_name) <
			    (int)sizeof(thread))
			thread_look(workers, thread, node_cpus);
	if (folder)
		closedir(folder);
}

static bool server_look(struct doctor_workers *workers, const char *proc, const char *pid,
			const char *node_cpus)
{
	char process[PROCESS_MAX], comm[32];

	snprintf(process, sizeof(process), "%s/%s", proc, pid);
	doctor_line_read(process, "comm", comm, sizeof(comm));
	if (strcmp(comm, "kvd") != 0 || !has_device(process))
		return false;
	*workers = (struct doctor_workers){ .pid = (unsigned int)strtoul(pid, NULL, 10) };
	threads_look(workers, process, node_cpus);
	return true;
}

unsigned int doctor_workers_read(struct doctor_workers *list, unsigned int max, const char *proc,
				 const char *cpus)
{
	DIR *folder = opendir(proc);
	struct dirent *entry;
	unsigned int count = 0;

	while (folder && count < max && (entry = readdir(folder)))
		if (isdigit((unsigned char)entry->d_name[0]))
			count += server_look(&list[count], proc, entry->d_name, cpus);
	if (folder)
		closedir(folder);
	return count;
}

void doctor_check_workers(struct findings *findings, const char *device, const char *cpus,
			  const struct doctor_workers *list, unsigned int count)
{
	char fix[128];

	for (unsigned int i = 0; i < count; i++) {
		if (!list[i].away)
			continue;
		snprintf(fix, sizeof(fix), "sudo taskset -acp %s %u", cpus, list[i].pid);
		findings_add(findings, SEVERITY_WARNING, "numa", fix,
			     "%u of the %u workers of kvd, process %u, may run on CPUs that are "
			     "not of %s's NUMA node",
			     list[i].away, list[i].count, list[i].pid, device);
	}
}
