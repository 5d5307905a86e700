/* SPDX-License-Identifier: MIT */
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

/* Largest first: what can't be had is tried with the next. */
enum { PAGES_1G, PAGES_2M, PAGES_NORMAL };

static const struct hugepage {
	uint64_t bytes;
	unsigned int memfd_flags;
	const char *name;
	const char *folder; /* in a folder of sysfs named hugepages */
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
 * Hugepages are reserved on the host and not on the nodes: where the nodes that the mapping is bound
 * to have too few, the first touch would be a SIGBUS. So they are taken now.
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

/* Makes a file of memory and maps it. Pages are reserved (huge) or touched on first use (normal). */
static int map(struct mapping *mapping, uint64_t bytes, uint64_t page_bytes,
	       unsigned int memfd_flags, const struct numa_policy *policy)
{
	int err;

	mapping->page_bytes = page_bytes;
	mapping->bytes = round_up(bytes, page_bytes);
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
	/* Enough of them, and yet they were not given: they may be on other nodes. */
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

/* What is there of a size of hugepages, and the command to have @needed more, as texts. */
static void describe_pool(const struct hugepage *kind, int node, uint64_t needed, char *free_text,
			  char *remedy)
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
		snprintf(remedy, REMEDY_MAX, "no command helps: choose another memory.hugepages");
		return;
	}
	read_count(folder, "resv_hugepages", &reserved); /* nodes have none */
	free -= reserved < free ? reserved : free;
	snprintf(free_text, REMEDY_MAX, "%" PRIu64 " of %" PRIu64 " pages are free%s", free, total,
		 node >= 0 ? " on the node" : "");
	wanted = hugepages_to_configure(total, free, needed);
	if (kind == &hugepages[PAGES_2M] && node < 0)
		snprintf(remedy, REMEDY_MAX, "to have them: sysctl vm.nr_hugepages=%" PRIu64,
			 wanted);
	else
		snprintf(remedy, REMEDY_MAX, "to have them: echo %" PRIu64 " > %s/nr_hugepages",
			 wanted, folder);
	if (kind == &hugepages[PAGES_1G])
		snprintf(remedy + strlen(remedy), REMEDY_MAX - strlen(remedy),
			 ", or boot with hugepagesz=1G hugepages=%" PRIu64, wanted);
}

/* The one line about hugepages that were wanted and could not be had. */
static void log_shortage(enum hugepages_mode mode, const struct hugepage *kind, int err,
			 const struct numa_policy *policy, uint64_t bytes, const char *instead)
{
	uint64_t needed = round_up(bytes, kind->bytes) / kind->bytes;
	char free_text[REMEDY_MAX], remedy[REMEDY_MAX];

	describe_pool(kind, policy->node, needed, free_text, remedy);
	log_at(mode == HUGEPAGES_REQUIRE ? LOG_ERROR : LOG_WARN,
	       "region: memory.hugepages = %s: can't have %" PRIu64 " x %s (%s; %s); %s; %s",
	       mode_names[mode], needed, kind->name, strerror(-err), free_text, instead, remedy);
}

static int map_normal(struct mapping *mapping, uint64_t bytes, const struct numa_policy *policy)
{
	int err = map(mapping, bytes, (uint64_t)sysconf(_SC_PAGESIZE), 0, policy);

	if (err)
		log_error("region: can't map %" PRIu64 " bytes: %s; lower memory.size", bytes,
			  strerror(-err));
	return err;
}

/* The first size to try, and the largest whose absence is worth a word. */
static int first_kind(enum hugepages_mode mode, uint64_t bytes, int *told)
{
	switch (mode) {
	case HUGEPAGES_AUTO:
	case HUGEPAGES_REQUIRE:
		*told = PAGES_2M;
		return bytes && bytes % GIB == 0 ? PAGES_1G : PAGES_2M;
	case HUGEPAGES_1G:
		return *told = PAGES_1G;
	case HUGEPAGES_2M:
		return *told = PAGES_2M;
	case HUGEPAGES_OFF:
		break;
	}
	return *told = PAGES_NORMAL;
}

int hugepages_map(struct mapping *mapping, uint64_t bytes, enum hugepages_mode mode,
		  const struct numa_policy *policy)
{
	int told, told_err = 0, err = -ENOMEM;
	int kind = first_kind(mode, bytes, &told);
	const char *instead = "using normal pages";

	for (; err && kind < PAGES_NORMAL; kind++) {
		err = map(mapping, bytes, hugepages[kind].bytes, hugepages[kind].memfd_flags,
			  policy);
		if (kind == told)
			told_err = err;
		else if (!err && told_err)
			instead = "using pages of 2 MiB";
	}
	if (err && mode == HUGEPAGES_REQUIRE)
		instead = "they are required";
	if (told_err)
		log_shortage(mode, &hugepages[told], told_err, policy, bytes, instead);
	if (!err || mode == HUGEPAGES_REQUIRE)
		return err;
	return map_normal(mapping, bytes, policy);
}
