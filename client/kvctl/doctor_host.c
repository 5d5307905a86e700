/* SPDX-License-Identifier: MIT */
/* Reads the facts of this host: see doctor_host.h. */
#include "client/kvctl/doctor_host.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util/memlock.h"

void doctor_line_read(const char *root, const char *path, char *line, size_t size)
{
	char name[PATH_MAX];
	FILE *in;

	*line = '\0';
	snprintf(name, sizeof(name), "%s/%s", root, path);
	in = fopen(name, "re");
	if (!in)
		return;
	if (!fgets(line, (int)size, in))
		*line = '\0';
	line[strcspn(line, "\n")] = '\0';
	fclose(in);
}

static uint64_t number_read(const char *root, const char *path, const char *format)
{
	char line[64];
	uint64_t number = 0;
	unsigned int hex;

	doctor_line_read(root, path, line, sizeof(line));
	if (*format == 'x')
		return sscanf(line, "%x", &hex) == 1 ? hex : 0;
	return sscanf(line, "%" SCNu64, &number) == 1 ? number : 0;
}

static void netdev_read(struct doctor_host *host, const char *sys, const char *name)
{
	struct doctor_netdev *netdev = &host->netdev[host->netdevs];
	char path[PATH_MAX];

	if (host->netdevs == DOCTOR_NETDEVS_MAX || *name == '.' || strlen(name) >= IFNAMSIZ)
		return;
	host->netdevs++;
	strcpy(netdev->name, name);
	snprintf(path, sizeof(path), "class/net/%s/flags", name);
	netdev->up = number_read(sys, path, "x") & IFF_UP;
	snprintf(path, sizeof(path), "class/net/%s/type", name);
	netdev->ethernet = number_read(sys, path, "d") == ARPHRD_ETHER;
	snprintf(path, sizeof(path), "class/net/%s/mtu", name);
	netdev->mtu = (uint32_t)number_read(sys, path, "d");
}

static void netdevs_read(struct doctor_host *host, const char *sys)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/class/net", sys);
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		netdev_read(host, sys, entry->d_name);
	closedir(folder);
}

static bool has_entry(const char *root, const char *path)
{
	char name[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *folder;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	folder = opendir(name);
	if (!folder)
		return false;
	while (!found && (entry = readdir(folder)))
		found = entry->d_name[0] != '.';
	closedir(folder);
	return found;
}

static bool is_there(const char *root, const char *path)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/%s", root, path);
	return !access(name, F_OK);
}

/* Whether a line of the file contains @word. */
static bool file_has(const char *root, const char *path, const char *word)
{
	char name[PATH_MAX], line[4096];
	bool found = false;
	FILE *in;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	in = fopen(name, "re");
	while (in && !found && fgets(line, sizeof(line), in))
		found = strstr(line, word);
	if (in)
		fclose(in);
	return found;
}

/* Whether this process may use the kernel's connection management. */
static bool cm_is_usable(const char *dev)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/infiniband/rdma_cm", dev);
	return !access(name, R_OK | W_OK);
}

static void modules_read(struct doctor_host *host, const struct doctor_roots *roots)
{
	char release[128], path[192];

	doctor_line_read(roots->proc, "sys/kernel/osrelease", release, sizeof(release));
	snprintf(path, sizeof(path), "%s/modules.dep", release);
	host->rdma_present = has_entry(roots->sys, "class/infiniband");
	host->cm_usable = cm_is_usable(roots->dev);
	host->rxe_loaded = is_there(roots->sys, "module/rdma_rxe");
	host->ucm_loaded = is_there(roots->sys, "module/rdma_ucm") ||
			   is_there(roots->sys, "class/misc/rdma_cm");
	host->rxe_available = host->rxe_loaded ||
			      (*release && file_has(roots->modules, path, "/rdma_rxe.ko"));
}

static void meminfo_read(struct doctor_host *host, const char *proc)
{
	char name[PATH_MAX], line[128];
	FILE *in;

	snprintf(name, sizeof(name), "%s/meminfo", proc);
	in = fopen(name, "re");
	while (in && fgets(line, sizeof(line), in)) {
		sscanf(line, "HugePages_Total: %" SCNu64, &host->hugepages);
		sscanf(line, "HugePages_Free: %" SCNu64, &host->hugepages_free);
		sscanf(line, "Hugepagesize: %" SCNu64, &host->hugepage_kib);
	}
	if (in)
		fclose(in);
}

static uint64_t limit_bytes(rlim_t limit)
{
	return limit == RLIM_INFINITY ? UINT64_MAX : limit;
}

void doctor_host_read(struct doctor_host *host, const struct doctor_roots *roots)
{
#define CLOCKS "devices/system/clocksource/clocksource0/"
	struct rlimit limit;

	memset(host, 0, sizeof(*host));
	netdevs_read(host, roots->sys);
	modules_read(host, roots);
	meminfo_read(host, roots->proc);
	doctor_line_read(roots->sys, CLOCKS "current_clocksource", host->clock,
			 sizeof(host->clock));
	doctor_line_read(roots->sys, CLOCKS "available_clocksource", host->clocks,
			 sizeof(host->clocks));
	host->memlock_lifted = memlock_is_lifted();
	if (!getrlimit(RLIMIT_MEMLOCK, &limit)) {
		host->memlock_soft = limit_bytes(limit.rlim_cur);
		host->memlock_hard = limit_bytes(limit.rlim_max);
	}
}

const struct doctor_netdev *doctor_netdev_find(const struct doctor_host *host, const char *name)
{
	for (unsigned int i = 0; i < host->netdevs; i++)
		if (!strcmp(host->netdev[i].name, name))
			return &host->netdev[i];
	return NULL;
}
