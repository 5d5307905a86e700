/* SPDX-License-Identifier: MIT */
/* Opens, checks and makes the files of a store that outlives its process. */
#include "server/store/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/sum.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/trusted_file.h"

#define KEEP_MAGIC 0x316570656564766bull /* "kvdeep1" */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define STATE_SUFFIX ".state"
/* Where the state of a region on hugetlbfs is, whose files can't be short. */
#define STATE_FOLDER "/dev/shm"
#define PATH_BYTES KEEP_PATH_BYTES

#define UNIT 4096u
/* The page map has 16 bytes for each page, and descriptors of slabs 256 for every fourth. */
#define STATE_SHARE 48u
/* The head, changes, stale items, pins, flushes, and what each of them is rounded up by. */
#define STATE_BYTES_MIN ((uint64_t)5 << 20)

static_assert(sizeof(struct keep_head) + sizeof(struct keep_change) * KEEP_THREADS_MAX +
			      sizeof(struct keep_stale) * KEEP_STALE_MAX + (1u << 20) <=
		      STATE_BYTES_MIN,
	      "room for pins and flushes");

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/*
 * The file system of @path, which may not exist yet. Returns 0 or a negative errno: EINVAL if the
 * path names no folder.
 */
static int file_system(const char *path, struct statfs *fs)
{
	char folder[PATH_BYTES];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash)
		return -EINVAL;
	slash[1] = '\0';
	return statfs(folder, fs) ? -errno : 0;
}

bool keep_is_hugetlb(const char *path)
{
	struct statfs fs;

	return !file_system(path, &fs) && fs.f_type == HUGETLBFS_MAGIC;
}

/* Of a region of these options, which is whole pages of a file on hugetlbfs. */
static uint64_t state_bytes_for(const struct store_options *options)
{
	struct statfs fs;
	uint64_t bytes = store_bytes_max(options);

	if (!file_system(options->file, &fs) && fs.f_type == HUGETLBFS_MAGIC)
		bytes = round_up(bytes, (uint64_t)fs.f_bsize);
	return round_up(STATE_BYTES_MIN + bytes / STATE_SHARE, UNIT);
}

void keep_beside(const char *file, const char *suffix, char path[KEEP_PATH_BYTES])
{
	if (keep_is_hugetlb(file))
		snprintf(path, PATH_BYTES, STATE_FOLDER "%s%s", strrchr(file, '/'), suffix);
	else
		snprintf(path, PATH_BYTES, "%s%s", file, suffix);
}

static void state_path(const char *path, char state[PATH_BYTES])
{
	keep_beside(path, STATE_SUFFIX, state);
}

static int boot_id(char boot[40])
{
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC), err = 0;
	ssize_t n;

	memset(boot, 0, 40);
	if (fd < 0)
		return -errno;
	n = read(fd, boot, 36);
	if (n != 36)
		err = n < 0 ? -errno : -EIO;
	close(fd);
	return err;
}

/* Opens a file of the store. Returns a descriptor or, after logging, a negative errno. */
static int file_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600), err;
	const char *wrong;

	if (fd < 0) {
		err = -errno;
		if (err != -ENOENT)
			log_error("memory.file: can't open %s: %s%s", path, strerror(-err),
				  err == -ELOOP ? "; it must not be a symbolic link" : "");
		return err;
	}
	wrong = trusted_file_check(fd, true);
	if (wrong) {
		log_error("memory.file: %s can't be used: %s", path, wrong);
		close(fd);
		return -EPERM;
	}
	return fd;
}

static uint64_t file_bytes(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : (uint64_t)st.st_size;
}

uint64_t keep_present(const struct store_options *options)
{
	struct stat st;

	if (!options->file || stat(options->file, &st))
		return 0;
	return (uint64_t)st.st_blocks * 512u;
}

/* Why what the head says can't be used by any store; NULL: it can. */
static const char *head_refuse(const struct keep_head *head, char why[PARSE_WHY_MAX])
{
	char boot[40];

	if (head->magic != KEEP_MAGIC)
		return "the file of its state is not one of kvd's";
	if (head->layout != KEEP_LAYOUT || head->abi != LAYOUT_ABI) {
		snprintf(why, PARSE_WHY_MAX,
			 "it is of a kvd with layout %" PRIu32 ".%" PRIu32 ", this one has %u.%u",
			 head->abi, head->layout, LAYOUT_ABI, KEEP_LAYOUT);
		return why;
	}
	if (boot_id(boot) || memcmp(boot, head->boot, sizeof(boot)) != 0)
		return "the host has been restarted since";
	if (atomic_load(&head->state) == KEEP_INCOMPLETE)
		return "the kvd that made it ended before it was complete";
	return NULL;
}

/* Why what it says can't be used for a region of these options; NULL: it can. */
static const char *size_refuse(const struct keep_head *head, const struct store_options *options,
			       char why[PARSE_WHY_MAX])
{
	char size[PARSE_FORMAT_MAX];
	uint32_t extents;

	if (head->region_bytes != store_bytes_max(options) ||
	    head->extent_bytes != store_extent_bytes(options)) {
		snprintf(why, PARSE_WHY_MAX, "%s was %s",
			 head->extent_bytes == head->region_bytes ? "memory.size" : "memory.max",
			 show_size(head->region_bytes, size));
		return why;
	}
	extents = atomic_load(&head->extents);
	if (!extents || extents > head->region_bytes / head->extent_bytes)
		return "the file of its state is damaged";
	if (atomic_load(&head->state) == KEEP_SERVES && options->recover == RECOVER_COLD)
		return "the last kvd was killed, and memory.recover is cold";
	return NULL;
}

/* *@renew: clients must not take the region for the one that they knew. */
static const char *region_refuse(int fd, const struct keep_head *head,
				 const struct store_options *options, bool *renew)
{
	struct superblock super;
	const struct geometry *g = &super.geometry;

	if (fd < 0)
		return "there is no region, only its state";
	if (file_bytes(fd) < store_bytes_max(options) ||
	    pread(fd, &super, sizeof(super), 0) != sizeof(super))
		return "the region is shorter than its state says";
	if (super.magic != LAYOUT_MAGIC || super.abi != LAYOUT_ABI)
		return "the region has no superblock of this kvd";
	if (options->hash_seed && g->hash_seed != options->hash_seed)
		return "the keys' hashes are of another fleet, or of none";
	if (!super.word.generation != !options->in_fleet)
		return options->in_fleet ? "the last kvd was in no fleet" :
					   "the last kvd was a member of a fleet";
	if (options->fleet_generation && super.word.generation != options->fleet_generation)
		return "fleet.file was another one";
	if (g->value_max > options->value_max)
		return "limits.max_value was higher";
	if (g->incarnation != head->incarnation[0] && g->incarnation != head->incarnation[1])
		return "the region is another one than that of its state";
	*renew = g->value_max != options->value_max;
	return NULL;
}

/* Decides what is kept: a store that was not stopped, or stopped cleanly, or nothing. */
static void decide(struct keep *keep, const struct store_options *options)
{
	struct keep_head head;
	char text[PARSE_WHY_MAX];
	bool renew = false;
	const char *why;

	if (keep->region_fd < 0 && !file_bytes(keep->fd))
		return;
	if (pread(keep->fd, &head, sizeof(head), 0) != sizeof(head))
		why = "the file of its state is too short";
	else
		why = head_refuse(&head, text);
	if (!why)
		why = size_refuse(&head, options, text);
	if (!why)
		why = region_refuse(keep->region_fd, &head, options, &renew);
	if (!why && file_bytes(keep->fd) != keep->bytes)
		why = "the file of its state has another length";
	if (why)
		log_warn("memory.file: %s is not used: %s; the store begins empty", options->file,
			 why);
	else if (atomic_load(&head.state) == KEEP_CLEAN && !renew)
		keep->found = KEEP_FOUND_CLEAN;
	else
		keep->found = KEEP_FOUND_KILLED;
}

/* Fails now rather than by a signal at the first access to a page that the file system lacks. */
static int file_allocate(int fd, uint64_t bytes, const char *path)
{
	char size[PARSE_FORMAT_MAX];
	int err = 0;

	if (fallocate(fd, 0, 0, (off_t)bytes))
		err = -errno;
	if (err)
		log_error("memory.file: no room for %s in %s: %s; enlarge its file system (of "
			  "tmpfs: mount -o remount,size=...) or lower memory.size",
			  show_size(bytes, size), path, strerror(-err));
	return err;
}

/* Makes a new file of the region: mappings of an earlier one keep theirs. */
static int region_make(struct keep *keep, const struct store_options *options)
{
	if (keep->region_fd >= 0)
		close(keep->region_fd);
	keep->region_fd = -1;
	if (unlink(options->file) && errno != ENOENT) {
		int err = -errno;

		log_error("memory.file: can't remove the old %s: %m", options->file);
		return err;
	}
	keep->region_fd = file_open(options->file, O_RDWR | O_CREAT | O_EXCL);
	return keep->region_fd < 0 ? keep->region_fd : 0;
}

static int state_make(struct keep *keep, const char *path)
{
	if (ftruncate(keep->fd, 0)) {
		int err = -errno;

		log_error("memory.file: can't empty %s: %m", path);
		return err;
	}
	return file_allocate(keep->fd, keep->bytes, path);
}

static int state_map(struct keep *keep, const struct store_options *options)
{
	void *p = mmap(NULL, keep->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, keep->fd, 0);
	int err;

	if (p == MAP_FAILED)
		return -errno;
	keep->head = p;
	keep->used = round_up(sizeof(*keep->head), UNIT);
	keep->changes = keep_map(keep, sizeof(*keep->changes) * KEEP_THREADS_MAX);
	keep->flushes = keep_map(keep, KEEP_FLUSHES_BYTES);
	keep->stale = keep_map(keep, sizeof(*keep->stale) * KEEP_STALE_MAX);
	if (madvise(p, keep->bytes, MADV_DONTDUMP))
		return -errno;
	if (keep->found != KEEP_FOUND_NONE)
		return 0;
	err = boot_id(keep->head->boot);
	keep->head->magic = KEEP_MAGIC;
	keep->head->layout = KEEP_LAYOUT;
	keep->head->abi = LAYOUT_ABI;
	keep->head->region_bytes = store_bytes_max(options);
	keep->head->extent_bytes = store_extent_bytes(options);
	atomic_store(&keep->head->extents,
		     (uint32_t)(options->bytes / store_extent_bytes(options)));
	return err;
}

/* Opens and locks the state, and opens the region: KEEP-1. */
static int files_open(struct keep *keep, const struct store_options *options, const char *state)
{
	keep->fd = file_open(state, O_RDWR | O_CREAT);
	if (keep->fd < 0) {
		if (keep->fd == -ENOENT)
			log_error("memory.file: can't make %s: its folder does not exist", state);
		return keep->fd;
	}
	if (flock(keep->fd, LOCK_EX | LOCK_NB)) {
		log_error("memory.file: %s is in use by another kvd: stop it, or choose another "
			  "file",
			  options->file);
		return -EBUSY;
	}
	keep->region_fd = file_open(options->file, O_RDWR);
	return keep->region_fd < 0 && keep->region_fd != -ENOENT ? keep->region_fd : 0;
}

static int files_make(struct keep *keep, const struct store_options *options, const char *state)
{
	int err = 0;

	if (keep->found == KEEP_FOUND_NONE) {
		err = state_make(keep, state);
		if (!err)
			err = region_make(keep, options);
	}
	if (!err) {
		keep->region_read_fd = file_open(options->file, O_RDONLY);
		err = keep->region_read_fd < 0 ? keep->region_read_fd : 0;
	}
	if (err)
		return err;
	err = state_map(keep, options);
	if (err)
		log_error("memory.file: can't map %s: %s", state, strerror(-err));
	return err;
}

int keep_open(struct keep *keep, const struct store_options *options)
{
	char state[PATH_BYTES];
	int err;

	*keep = (struct keep){ .fd = -1, .region_fd = -1, .region_read_fd = -1 };
	if (!options->file)
		return 0;
	keep->bytes = state_bytes_for(options);
	state_path(options->file, state);
	err = files_open(keep, options, state);
	if (!err) {
		decide(keep, options);
		err = files_make(keep, options, state);
	}
	if (err)
		keep_close(keep);
	return err;
}

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void keep_close(struct keep *keep)
{
	if (keep->head) {
		if (keep->clean)
			atomic_store(&keep->head->state, KEEP_CLEAN);
		munmap(keep->head, keep->bytes);
	}
	keep->head = NULL;
	keep->changes = NULL;
	keep->flushes = NULL;
	keep->stale = NULL;
	fd_close(&keep->region_read_fd);
	fd_close(&keep->region_fd);
	/* Last: the lock. */
	fd_close(&keep->fd);
}

/* The bytes of the region of a store whose state is there. 0: none that can be used. */
static uint64_t state_bytes(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char why[PARSE_WHY_MAX];
	struct keep_head head;
	bool fits;

	if (fd < 0)
		return 0;
	fits = !trusted_file_check(fd, true) && pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	       !head_refuse(&head, why);
	close(fd);
	return fits ? atomic_load(&head.extents) * head.extent_bytes : 0;
}

/* The part of a file's name that follows @base and precedes the suffix. False: it has none. */
static bool name_between(const char *entry, const char *base, char name[PATH_BYTES])
{
	size_t begin = strlen(base), length = strlen(entry), end = strlen(STATE_SUFFIX);

	if (length <= begin + end || strncmp(entry, base, begin) != 0 ||
	    strcmp(entry + length - end, STATE_SUFFIX) != 0)
		return false;
	snprintf(name, PATH_BYTES, "%.*s", (int)(length - begin - end), entry + begin);
	return true;
}

void keep_list(const char *prefix, void (*found)(const char *name, uint64_t bytes, void *context),
	       void *context)
{
	char state[PATH_BYTES], path[2 * PATH_BYTES], name[PATH_BYTES];
	const struct dirent *entry;
	uint64_t bytes;
	char *slash;
	DIR *dir;

	state_path(prefix, state);
	state[strlen(state) - strlen(STATE_SUFFIX)] = '\0';
	slash = strrchr(state, '/');
	*slash = '\0';
	dir = opendir(slash == state ? "/" : state);
	while (dir && (entry = readdir(dir))) {
		if (!name_between(entry->d_name, slash + 1, name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", state, entry->d_name);
		bytes = state_bytes(path);
		if (bytes)
			found(name, bytes, context);
	}
	if (dir)
		closedir(dir);
}

void keep_remove(const char *file)
{
	char state[PATH_BYTES];

	state_path(file, state);
	unlink(state);
	unlink(file);
}

void keep_rename(const char *file, const char *to)
{
	char state[PATH_BYTES], to_state[PATH_BYTES];

	state_path(file, state);
	state_path(to, to_state);
	if (rename(state, to_state) || rename(file, to))
		log_error("memory.file: can't rename %s to %s: %m; after a restart the store is "
			  "empty",
			  file, to);
}

/* Whether the file system of @path is one of memory, and can have @bytes more. */
static int room_check(const char *path, uint64_t bytes)
{
	char size[PARSE_FORMAT_MAX], room[PARSE_FORMAT_MAX];
	struct statfs fs;
	int err;

	if (path[0] != '/') {
		log_error("memory.file: %s is not the path of a file from the root, like "
			  "/dev/shm/kvd",
			  path);
		return -EINVAL;
	}
	err = file_system(path, &fs);
	if (err) {
		log_error("memory.file: can't use the folder of %s: %s", path, strerror(-err));
		return err;
	}
	/* Devices and softnic pin, or pass on, only pages of memory. */
	if (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC) {
		log_error("memory.file: %s is on a disk: choose a file on tmpfs, like "
			  "/dev/shm/kvd, or on hugetlbfs",
			  path);
		return -EINVAL;
	}
	/* Without limit: size=0 of tmpfs. */
	if (!fs.f_blocks || (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= bytes)
		return 0;
	log_error("memory.file: %s needs %s, and its file system has %s left: enlarge it (of "
		  "tmpfs: mount -o remount,size=...) or lower memory.size",
		  path, show_size(bytes, size),
		  show_size((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize, room));
	return -ENOSPC;
}

int keep_check(const struct store_options *options)
{
	uint64_t needed, present = keep_present(options);

	if (!options->file)
		return 0;
	needed = options->bytes;
	if (!keep_is_hugetlb(options->file))
		needed += state_bytes_for(options);
	return room_check(options->file, present < needed ? needed - present : 0);
}

void keep_note_stale(const struct keep *keep, uint64_t hash, uint64_t version)
{
	struct keep_stale *stale;

	if (!keep->head)
		return;
	stale = &keep->stale[atomic_fetch_add(&keep->head->stale, 1) % KEEP_STALE_MAX];
	atomic_store(&stale->version, 0);
	stale->hash = hash;
	atomic_store(&stale->version, version);
}

void *keep_map(struct keep *keep, uint64_t bytes)
{
	void *p;

	if (!keep->head) {
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		return p == MAP_FAILED ? NULL : p;
	}
	if (bytes > keep->bytes - keep->used)
		return NULL;
	p = (uint8_t *)keep->head + keep->used;
	keep->used += round_up(bytes, UNIT);
	return p;
}

void keep_unmap(const struct keep *keep, void *p, uint64_t bytes)
{
	if (p && !keep->head)
		munmap(p, bytes);
}
