/* SPDX-License-Identifier: MIT */
/*
 * Huge pages: maps the region's memory in the largest pages that memory.hugepages allows and the
 * host has free, seals it, and logs what to configure where there are too few.
 */
#include "server/store/hugepages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/large_page.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "server/store/host_memory.h"
#include "server/store/prefault.h"

#define GIB ((uint64_t)1 << 30)
#define REMEDY_MAX 384
#define FOLDER_MAX 128

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

static uint64_t mapped_bytes(const struct mapping *mapping)
{
	return mapping->count * mapping->extent_bytes;
}

static bool is_huge(const struct mapping *mapping)
{
	return mapping->page_bytes != (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Whether prefaulting makes large pages of normal ones. */
static bool makes_large(const struct mapping *mapping, const struct store_options *options)
{
	return !is_huge(mapping) && options->hugepages != HUGEPAGES_OFF;
}

static uint8_t *extent_base(const struct mapping *mapping, unsigned int k)
{
	return mapping->base + k * mapping->extent_bytes;
}

static int populate(struct mapping *mapping, unsigned int k, const struct store_options *options,
		    const struct numa_policy *policy)
{
	struct extent *extent = &mapping->extents[k];
	struct prefault prefault = {
		.base = extent_base(mapping, k),
		.offset = extent->offset,
		.bytes = mapping->extent_bytes,
		.page_bytes = mapping->page_bytes,
		.fd = extent->fd,
		.large = makes_large(mapping, options),
		.nodes = policy->interleaved,
		.cancel = options->cancel,
		.pauses = options->pauses,
	};
	uint64_t start = clock_ns();
	int err = prefault_run(&prefault);

	mapping->large_err = prefault.large_err;
	mapping->prefault_ms += (uint32_t)((clock_ns() - start) / 1000000u);
	return err;
}

/* The descriptor for clients: none can write to the region by it (guarantee D). */
static int seal(struct extent *extent, const struct keep *keep)
{
	if (!keep->head)
		return fcntl(extent->fd, F_ADD_SEALS,
			     F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) ?
			       -errno :
			       0;
	close(extent->fd);
	extent->fd = fcntl(keep->region_read_fd, F_DUPFD_CLOEXEC, 0);
	return extent->fd < 0 ? -errno : 0;
}

/* The file of an extent, for writing. Returns a descriptor or a negative errno. */
static int extent_open(const struct mapping *mapping, const struct keep *keep)
{
	unsigned int flags = 0;
	int fd, err;

	if (keep->head) {
		fd = fcntl(keep->region_fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	for (int kind = 0; kind < PAGES_NORMAL; kind++)
		if (mapping->page_bytes == hugepages[kind].bytes)
			flags = hugepages[kind].memfd_flags;
	fd = memfd_create("kvd-region", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)mapping->extent_bytes)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/* Makes the addresses of an extent reserved ones, and closes its file. */
static void extent_unmap(struct mapping *mapping, unsigned int k)
{
	struct extent *extent = &mapping->extents[k];

	/* In one call: no other mapping gets these addresses. */
	mmap(extent_base(mapping, k), mapping->extent_bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	if (extent->fd >= 0)
		close(extent->fd);
	*extent = (struct extent){ .fd = -1 };
}

/*
 * Huge pages are reserved now, or allocated if bound to nodes; normal pages are allocated at the
 * first access. With options->prefault all pages are allocated now.
 */
static int extent_fill(struct mapping *mapping, unsigned int k, const struct store_options *options,
		       const struct numa_policy *policy, const struct keep *keep)
{
	/*
	 * mmap() reserves huge pages of the host, not of its nodes: if the nodes that the mapping
	 * is bound to had too few, the first access to a missing page would be a SIGBUS.
	 */
	bool now = options->prefault || (is_huge(mapping) && policy->bound);
	struct extent *extent = &mapping->extents[k];
	uint8_t *base = extent_base(mapping, k);
	int err;

	if (mmap(base, mapping->extent_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 extent->fd, (off_t)extent->offset) == MAP_FAILED)
		return -errno;
	if (!options->dump && madvise(base, mapping->extent_bytes, MADV_DONTDUMP))
		return -errno;
	err = numa_policy_apply(policy, base, mapping->extent_bytes);
	if (!err && now)
		err = populate(mapping, k, options, policy);
	return err ? err : seal(extent, keep);
}

static void count_large(struct mapping *mapping)
{
	mapping->large_bytes = prefault_large_bytes(mapping->base, mapped_bytes(mapping));
}

/* Maps extents until there are @count. On an error some of them may have been. */
static int extents_map(struct mapping *mapping, unsigned int count,
		       const struct store_options *options, const struct numa_policy *policy,
		       const struct keep *keep)
{
	int err = 0;

	while (!err && mapping->count < count) {
		unsigned int k = mapping->count++;
		struct extent *extent = &mapping->extents[k];

		*extent = (struct extent){ .fd = extent_open(mapping, keep) };
		if (extent->fd < 0)
			return extent->fd;
		if (keep->head)
			extent->offset = k * mapping->extent_bytes;
		err = extent_fill(mapping, k, options, policy, keep);
	}
	if (!err && options->prefault && makes_large(mapping, options))
		count_large(mapping);
	return err;
}

/* Reserves the addresses of all extents, aligned so that each can have large pages. */
static int reserve(struct mapping *mapping)
{
	size_t align = mapping->page_bytes > LARGE_PAGE_BYTES ? mapping->page_bytes :
								LARGE_PAGE_BYTES;
	size_t before;
	uint8_t *room = mmap(NULL, mapping->bytes_max + align, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (room == MAP_FAILED)
		return -errno;
	before = -(uintptr_t)room & (align - 1);
	if (before)
		munmap(room, before);
	munmap(room + before + mapping->bytes_max, align - before);
	mapping->base = room + before;
	return 0;
}

/* Sets up the mapping and maps @count extents with pages of @page_bytes. */
static int map(struct mapping *mapping, uint64_t page_bytes, unsigned int count,
	       const struct store_options *options, const struct numa_policy *policy,
	       const struct keep *keep)
{
	int err;

	*mapping = (struct mapping){
		.bytes_max = round_up(store_bytes_max(options), page_bytes),
		.extent_bytes = round_up(store_extent_bytes(options), page_bytes),
		.page_bytes = page_bytes,
	};
	err = reserve(mapping);
	if (!err)
		err = extents_map(mapping, count, options, policy, keep);
	if (err)
		hugepages_unmap(mapping);
	return err;
}

static unsigned int extents_at_start(const struct store_options *options)
{
	return (unsigned int)(options->bytes / store_extent_bytes(options));
}

void hugepages_unmap(struct mapping *mapping)
{
	while (mapping->count)
		extent_unmap(mapping, --mapping->count);
	if (mapping->base)
		munmap(mapping->base, mapping->bytes_max);
	mapping->base = NULL;
}

/*
 * Frees what the file of a store that is kept has after the extents. It matters for the memory
 * alone: no item there verifies (EXTENT-4).
 */
static void give_back(const struct mapping *mapping, const struct keep *keep)
{
	uint64_t from = mapped_bytes(mapping);

	if (from < mapping->bytes_max &&
	    fallocate(keep->region_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
		      (off_t)(mapping->bytes_max - from)))
		log_warn("memory.file: can't give back memory of the file: %m; a restart of kvd "
			 "tries it again");
}

void hugepages_cut(struct mapping *mapping, const struct keep *keep, unsigned int count)
{
	while (mapping->count > count)
		extent_unmap(mapping, --mapping->count);
	if (mapping->large_bytes)
		count_large(mapping);
	if (keep->head)
		give_back(mapping, keep);
}

uint64_t hugepages_to_configure(uint64_t total, uint64_t available, uint64_t needed)
{
	/* Enough pages are free, but mapping them failed: they may be on other nodes. */
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

/* The sysfs folder of the pool of @node; -1: of the host's. */
static void pool_folder(const struct hugepage *kind, int node, char folder[FOLDER_MAX])
{
	if (node >= 0)
		snprintf(folder, FOLDER_MAX, "/sys/devices/system/node/node%d/hugepages/%s", node,
			 kind->folder);
	else
		snprintf(folder, FOLDER_MAX, "/sys/kernel/mm/hugepages/%s", kind->folder);
}

/* Whether @needed pages are free and not reserved, or the kernel may allocate them. */
static bool pool_has(const struct hugepage *kind, int node, uint64_t needed)
{
	uint64_t free = 0, reserved = 0, more = 0, surplus = 0;
	char folder[FOLDER_MAX];

	pool_folder(kind, node, folder);
	read_count(folder, "free_hugepages", &free);
	/* Nodes have no resv_hugepages and no nr_overcommit_hugepages: these count as 0. */
	read_count(folder, "resv_hugepages", &reserved);
	read_count(folder, "nr_overcommit_hugepages", &more);
	read_count(folder, "surplus_hugepages", &surplus);
	free -= reserved < free ? reserved : free;
	return free + (more > surplus ? more - surplus : 0) >= needed;
}

/*
 * Writes to @free_text how many pages of the kind are free, and to @command the command that makes
 * @needed pages available; "" if the host has no pages of this size. Both have REMEDY_MAX bytes.
 */
static void describe_pool(const struct hugepage *kind, int node, uint64_t needed, char *free_text,
			  char *command)
{
	char folder[FOLDER_MAX];
	uint64_t total, free, reserved = 0, wanted;

	pool_folder(kind, node, folder);
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
 * Logs, in one line, that huge pages are missing: an error if they are required, a warning if the
 * option names their size, and a notice with auto.
 */
static void log_shortage(const struct store_options *options, const struct hugepage *kind, int err,
			 const struct numa_policy *policy, const char *instead)
{
	enum hugepages_mode mode = options->hugepages;
	bool optional = mode == HUGEPAGES_AUTO;
	uint64_t needed = round_up(options->bytes, kind->bytes) / kind->bytes;
	char free_text[REMEDY_MAX], command[REMEDY_MAX];
	const char *remedy = optional ? "optional: " : "to get them: ";

	describe_pool(kind, policy->node, needed, free_text, command);
	if (!command[0])
		remedy = optional ? "memory.hugepages = off avoids this notice" :
				    "choose another memory.hugepages";
	else if (optional && !options->prefault)
		remedy = "optional: memory.prefault = yes, or ";
	log_at(mode == HUGEPAGES_REQUIRE ? LOG_ERROR :
	       optional			 ? LOG_NOTICE :
					   LOG_WARN,
	       "region: memory.hugepages = %s: too few huge pages: %" PRIu64
	       " x %s needed (%s; %s); "
	       "%s; %s%s",
	       mode_names[mode], needed, kind->name, strerror(-err), free_text, instead, remedy,
	       command);
}

static int check_normal(const struct store_options *options)
{
	uint64_t beside = options->bytes_beside + options->bytes / STORE_BESIDE;
	uint64_t present = keep_present(options);
	struct host_memory memory;

	host_memory_read(&memory, "");
	return host_memory_check(&memory, present < options->bytes ? options->bytes - present : 0,
				 beside, options->prefault);
}

static int map_normal(struct mapping *mapping, const struct store_options *options,
		      const struct numa_policy *policy)
{
	const struct keep none = { .head = NULL };
	int err = check_normal(options);
	char size[PARSE_FORMAT_MAX];

	if (err)
		return err;
	err = map(mapping, (uint64_t)sysconf(_SC_PAGESIZE), extents_at_start(options), options,
		  policy, &none);
	if (err && err != -ECANCELED)
		log_error("region: can't get %s of memory%s%s: %s; lower memory.size",
			  show_size(options->bytes, size), policy->bound ? " on NUMA " : "",
			  policy->bound ? policy->text : "", strerror(-err));
	return err;
}

/* Describes the pages that replace missing huge pages. False: they are as good. */
static bool describe_normal(const struct mapping *mapping, const struct store_options *options,
			    char *text, size_t size)
{
	uint64_t possible = mapped_bytes(mapping) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
	long kib = sysconf(_SC_PAGESIZE) / 1024;
	char large[PARSE_FORMAT_MAX];
	size_t at;

	if (possible && mapping->large_bytes >= possible) {
		snprintf(text, size, "using transparent huge pages");
		return options->hugepages != HUGEPAGES_AUTO;
	}
	if (mapping->large_bytes)
		at = (size_t)snprintf(text, size, "using transparent huge pages for %s, else ",
				      show_size(mapping->large_bytes, large));
	else
		at = (size_t)snprintf(text, size, "using ");
	at += (size_t)snprintf(text + at, size - at, "%ld KiB pages", kib);
	if (mapping->large_err)
		snprintf(text + at, size - at, " (the kernel makes no large ones: %s)",
			 strerror(-mapping->large_err));
	return true;
}

/*
 * The size to try first; *@wanted is the largest size whose shortage is logged. Extents that are
 * not a multiple of 1 GiB get smaller pages: rounded up, a tenant of 16 MiB would take 1 GiB.
 */
static int first_kind(const struct store_options *options, int *wanted)
{
	uint64_t bytes = store_extent_bytes(options);
	int largest = bytes && bytes % GIB == 0 ? PAGES_1G : PAGES_2M;

	switch (options->hugepages) {
	case HUGEPAGES_AUTO:
	case HUGEPAGES_REQUIRE:
		*wanted = PAGES_2M;
		return largest;
	case HUGEPAGES_1G:
		return *wanted = largest;
	case HUGEPAGES_2M:
		return *wanted = PAGES_2M;
	case HUGEPAGES_OFF:
		break;
	}
	return *wanted = PAGES_NORMAL;
}

/*
 * Tries huge pages, the largest kind first. *@missing is the kind whose shortage must be logged,
 * with the error in *@missing_err; NULL if there is none.
 */
static int map_huge(struct mapping *mapping, const struct store_options *options,
		    const struct numa_policy *policy, const struct hugepage **missing,
		    int *missing_err)
{
	const struct keep none = { .head = NULL };
	int wanted, err = -ENOMEM;
	int kind = first_kind(options, &wanted);

	*missing = NULL;
	for (; err && err != -ECANCELED && kind < PAGES_NORMAL; kind++) {
		err = map(mapping, hugepages[kind].bytes, extents_at_start(options), options,
			  policy, &none);
		if (err && kind == wanted) {
			*missing = &hugepages[kind];
			*missing_err = err;
		}
	}
	return err;
}

/* Maps the file of a store that is kept, with the pages that its file system has. */
static int map_kept(struct mapping *mapping, const struct store_options *options,
		    const struct numa_policy *policy, const struct keep *keep)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned int count = atomic_load(&keep->head->extents);
	char size[PARSE_FORMAT_MAX];
	struct statfs fs;
	int err;

	*mapping = (struct mapping){ .base = NULL };
	err = fstatfs(keep->region_fd, &fs) ? -errno : 0;
	if (!err && fs.f_type == HUGETLBFS_MAGIC)
		page_bytes = (uint64_t)fs.f_bsize;
	else if (!err)
		err = check_normal(options);
	if (!err && options->bytes_max && store_extent_bytes(options) % page_bytes) {
		log_error("memory.file: %s has pages of %s: memory.max must be a multiple of %u of "
			  "them",
			  options->file, show_size(page_bytes, size), EXTENTS_MAX);
		return -EINVAL;
	}
	/* The file has the length of all extents: clients that map one see zeros at worst. */
	if (!err &&
	    ftruncate(keep->region_fd, (off_t)round_up(store_bytes_max(options), page_bytes)))
		err = -errno;
	if (!err)
		err = map(mapping, page_bytes, count, options, policy, keep);
	if (!err) {
		/* What a kill has left of extents that did not exist yet, or any more: EXTENT-5. */
		give_back(mapping, keep);
		return 0;
	}
	hugepages_unmap(mapping);
	if (err != -ECANCELED)
		log_error("memory.file: can't map %s: %s; is there room for memory.size in its "
			  "file system?",
			  options->file, strerror(-err));
	return err;
}

int hugepages_map(struct mapping *mapping, const struct store_options *options,
		  const struct numa_policy *policy, const struct keep *keep)
{
	const struct hugepage *missing;
	char instead[192] = "using 2 MiB pages";
	int missing_err = 0, err;

	if (keep->head)
		return map_kept(mapping, options, policy, keep);
	err = map_huge(mapping, options, policy, &missing, &missing_err);
	if (err == -ECANCELED)
		return err;
	if (err && options->hugepages == HUGEPAGES_REQUIRE) {
		log_shortage(options, missing, missing_err, policy, "they are required");
		return err;
	}
	if (err) {
		err = map_normal(mapping, options, policy);
		if (err)
			return err;
		if (!describe_normal(mapping, options, instead, sizeof(instead)))
			missing = NULL;
	}
	if (missing)
		log_shortage(options, missing, missing_err, policy, instead);
	return 0;
}

int hugepages_check(const struct store_options *options, const struct numa_policy *policy)
{
	int wanted, kind = first_kind(options, &wanted);

	if (options->file)
		return keep_is_hugetlb(options->file) ? 0 : check_normal(options);
	for (; kind < PAGES_NORMAL; kind++)
		if (pool_has(&hugepages[kind], policy->node,
			     round_up(options->bytes, hugepages[kind].bytes) /
				     hugepages[kind].bytes))
			return 0;
	if (options->hugepages != HUGEPAGES_REQUIRE)
		return check_normal(options);
	log_shortage(options, &hugepages[wanted], -ENOMEM, policy, "they are required");
	return -ENOMEM;
}

/* Whether the host has the memory for @bytes more, as it was checked at the start. */
static int check_added(const struct mapping *mapping, const struct store_options *options,
		       const struct numa_policy *policy, uint64_t bytes)
{
	char free_text[REMEDY_MAX], command[REMEDY_MAX], size[PARSE_FORMAT_MAX];
	uint64_t needed = bytes / mapping->page_bytes;
	struct host_memory memory;

	for (int kind = 0; kind < PAGES_NORMAL; kind++) {
		if (mapping->page_bytes != hugepages[kind].bytes)
			continue;
		if (options->file || pool_has(&hugepages[kind], policy->node, needed))
			return 0;
		describe_pool(&hugepages[kind], policy->node, needed, free_text, command);
		log_error("region: can't add %s: too few huge pages: %" PRIu64
			  " x %s needed (%s); to get them: %s",
			  show_size(bytes, size), needed, hugepages[kind].name, free_text, command);
		return -ENOMEM;
	}
	host_memory_read(&memory, "");
	return host_memory_check(&memory, bytes, bytes / STORE_BESIDE, options->prefault);
}

int hugepages_extend(struct mapping *mapping, const struct store_options *options,
		     const struct numa_policy *policy, const struct keep *keep, unsigned int count)
{
	uint64_t bytes = (count - mapping->count) * mapping->extent_bytes;
	const uint32_t prefault_ms = mapping->prefault_ms;
	const unsigned int before = mapping->count;
	char size[PARSE_FORMAT_MAX];
	int err;

	err = check_added(mapping, options, policy, bytes);
	if (err)
		return err;
	err = extents_map(mapping, count, options, policy, keep);
	if (!err)
		return 0;
	hugepages_cut(mapping, keep, before);
	mapping->prefault_ms = prefault_ms;
	if (err != -ECANCELED)
		log_error("region: can't add %s%s%s: %s; the region keeps its size",
			  show_size(bytes, size), policy->bound ? " on NUMA " : "",
			  policy->bound ? policy->text : "", strerror(-err));
	return err;
}
