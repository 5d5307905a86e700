/* SPDX-License-Identifier: MIT */
/*
 * Huge pages: maps the region's memory in the largest pages that memory.hugepages allows and the
 * host has free, seals it, and logs what to configure where there are too few.
 */
#include "server/store/hugepages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/log.h"

/* Linux 5.14; libcs are older. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define GIB ((uint64_t)1 << 30)
#define REMEDY_MAX 384

/* Largest first: where there are too few pages of one size, the next is tried. */
enum { PAGES_1G, PAGES_2M, PAGES_NORMAL };

static const struct hugepage {
	uint64_t bytes;
	unsigned int memfd_flags;
	const char *name;
	const char *folder; /* below the hugepages folders of sysfs */
} hugepages[PAGES_NORMAL] = {
	{ 1 << 30, MFD_HUGETLB | MFD_HUGE_1GB, "1 GiB", "hugepages-1048576kB" },
	{ 2 << 20, MFD_HUGETLB | MFD_HUGE_2MB, "2 MiB", "hugepages-2048kB" },
};

static const char *const mode_names[] = {
	[HUGEPAGES_AUTO] = "auto", [HUGEPAGES_OFF] = "off",	    [HUGEPAGES_2M] = "2m",
	[HUGEPAGES_1G] = "1g",	   [HUGEPAGES_REQUIRE] = "require",
};

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/*
 * Touches all pages. mmap() reserves huge pages of the host, not of its nodes: if the nodes that
 * the mapping is bound to had too few, the first access to a missing one would be a SIGBUS.
 */
static int populate(const struct numa_policy *policy, void *base, uint64_t bytes)
{
	if (!policy->bound || !madvise(base, bytes, MADV_POPULATE_WRITE) || errno == EINVAL)
		return 0;
	return errno == EFAULT ? -ENOMEM : -errno;
}

static int map_file(struct mapping *mapping, unsigned int memfd_flags,
		    const struct numa_policy *policy)
{
	int err;

	if (ftruncate(mapping->fd, (off_t)mapping->bytes))
		return -errno;
	mapping->base = mmap(NULL, mapping->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mapping->fd,
			     0);
	if (mapping->base == MAP_FAILED) {
		mapping->base = NULL;
		return -errno;
	}
	err = numa_policy_apply(policy, mapping->base, mapping->bytes);
	if (!err && memfd_flags)
		err = populate(policy, mapping->base, mapping->bytes);
	if (!err &&
	    fcntl(mapping->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW))
		err = -errno;
	return err;
}

/*
 * Creates a memfd and maps it. Huge pages are reserved now, or allocated if bound to nodes; normal
 * pages are allocated at the first access.
 */
static int map(struct mapping *mapping, uint64_t bytes, uint64_t page_bytes,
	       unsigned int memfd_flags, const struct numa_policy *policy)
{
	int err;

	*mapping = (struct mapping){
		.bytes = round_up(bytes, page_bytes),
		.page_bytes = page_bytes,
	};
	mapping->fd = memfd_create("kvd-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_flags);
	if (mapping->fd < 0)
		return -errno;
	err = map_file(mapping, memfd_flags, policy);
	if (err)
		hugepages_unmap(mapping);
	return err;
}

void hugepages_unmap(struct mapping *mapping)
{
	if (mapping->base)
		munmap(mapping->base, mapping->bytes);
	if (mapping->fd >= 0)
		close(mapping->fd);
	mapping->base = NULL;
	mapping->fd = -1;
}

uint64_t hugepages_to_configure(uint64_t total, uint64_t available, uint64_t needed)
{
	/* Enough are free, but mapping them failed: they may be on other nodes. */
	if (available >= needed)
		available = 0;
	return total - available + needed;
}

static bool read_count(const char *folder, const char *name, uint64_t *count)
{
	char path[256];
	FILE *in;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	in = fopen(path, "re");
	if (!in)
		return false;
	ok = fscanf(in, "%" SCNu64, count) == 1;
	fclose(in);
	return ok;
}

/*
 * Writes to @free_text how many pages of the kind are free, and to @command the one that makes
 * @needed more available; empty if the host has no pages of this size. Both have REMEDY_MAX bytes.
 */
static void describe_pool(const struct hugepage *kind, int node, uint64_t needed, char *free_text,
			  char *command)
{
	char folder[128];
	uint64_t total, free, reserved = 0, wanted;

	if (node >= 0)
		snprintf(folder, sizeof(folder), "/sys/devices/system/node/node%d/hugepages/%s",
			 node, kind->folder);
	else
		snprintf(folder, sizeof(folder), "/sys/kernel/mm/hugepages/%s", kind->folder);
	if (!read_count(folder, "nr_hugepages", &total) ||
	    !read_count(folder, "free_hugepages", &free)) {
		snprintf(free_text, REMEDY_MAX, "this host has no pages of this size");
		command[0] = '\0';
		return;
	}
	read_count(folder, "resv_hugepages", &reserved); /* nodes have none */
	free -= reserved < free ? reserved : free;
	snprintf(free_text, REMEDY_MAX, "%" PRIu64 " of %" PRIu64 " pages are free%s", free, total,
		 node >= 0 ? " on the node" : "");
	wanted = hugepages_to_configure(total, free, needed);
	if (kind == &hugepages[PAGES_2M] && node < 0)
		snprintf(command, REMEDY_MAX, "sysctl vm.nr_hugepages=%" PRIu64, wanted);
	else
		snprintf(command, REMEDY_MAX, "echo %" PRIu64 " > %s/nr_hugepages", wanted, folder);
	if (kind == &hugepages[PAGES_1G])
		snprintf(command + strlen(command), REMEDY_MAX - strlen(command),
			 ", or boot with hugepagesz=1G hugepages=%" PRIu64, wanted);
}

/*
 * Logs, in one line, that huge pages are missing: an error if they are required, a warning if a
 * size was asked for, and with auto, where 4 KiB pages serve as well, a notice.
 */
static void log_shortage(enum hugepages_mode mode, const struct hugepage *kind, int err,
			 const struct numa_policy *policy, uint64_t bytes, const char *instead)
{
	bool optional = mode == HUGEPAGES_AUTO;
	uint64_t needed = round_up(bytes, kind->bytes) / kind->bytes;
	char free_text[REMEDY_MAX], command[REMEDY_MAX];
	const char *remedy = optional ? "optional: " : "to get them: ";

	describe_pool(kind, policy->node, needed, free_text, command);
	if (!command[0])
		remedy = optional ? "memory.hugepages = off avoids this notice" :
				    "choose another memory.hugepages";
	log_at(mode == HUGEPAGES_REQUIRE ? LOG_ERROR :
	       optional			 ? LOG_NOTICE :
					   LOG_WARN,
	       "region: memory.hugepages = %s: too few huge pages: %" PRIu64
	       " x %s needed (%s; %s); "
	       "%s; %s%s",
	       mode_names[mode], needed, kind->name, strerror(-err), free_text, instead, remedy,
	       command);
}

static int map_normal(struct mapping *mapping, uint64_t bytes, const struct numa_policy *policy)
{
	int err = map(mapping, bytes, (uint64_t)sysconf(_SC_PAGESIZE), 0, policy);

	if (err)
		log_error("region: can't map %" PRIu64 " bytes of memory: %s; lower memory.size",
			  bytes, strerror(-err));
	return err;
}

/* The size to try first, and in *@wanted the largest one whose shortage is logged. */
static int first_kind(enum hugepages_mode mode, uint64_t bytes, int *wanted)
{
	switch (mode) {
	case HUGEPAGES_AUTO:
	case HUGEPAGES_REQUIRE:
		*wanted = PAGES_2M;
		return bytes && bytes % GIB == 0 ? PAGES_1G : PAGES_2M;
	case HUGEPAGES_1G:
		return *wanted = PAGES_1G;
	case HUGEPAGES_2M:
		return *wanted = PAGES_2M;
	case HUGEPAGES_OFF:
		break;
	}
	return *wanted = PAGES_NORMAL;
}

int hugepages_map(struct mapping *mapping, uint64_t bytes, enum hugepages_mode mode,
		  const struct numa_policy *policy)
{
	int wanted, wanted_err = 0, err = -ENOMEM;
	int kind = first_kind(mode, bytes, &wanted);
	char instead[48];

	snprintf(instead, sizeof(instead), "using %ld KiB pages", sysconf(_SC_PAGESIZE) / 1024);
	for (; err && kind < PAGES_NORMAL; kind++) {
		err = map(mapping, bytes, hugepages[kind].bytes, hugepages[kind].memfd_flags,
			  policy);
		if (kind == wanted)
			wanted_err = err;
		else if (!err && wanted_err)
			strcpy(instead, "using 2 MiB pages");
	}
	if (err && mode == HUGEPAGES_REQUIRE)
		strcpy(instead, "they are required");
	if (wanted_err)
		log_shortage(mode, &hugepages[wanted], wanted_err, policy, bytes, instead);
	if (!err || mode == HUGEPAGES_REQUIRE)
		return err;
	return map_normal(mapping, bytes, policy);
}
