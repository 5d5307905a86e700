/* SPDX-License-Identifier: MIT */
/*
 * What of a store outlives its process, with memory.file: the region, in the file of that name, and
 * all that is needed to use it again, in a second file, FILE.state. Both are mapped and shared, so
 * their content is what the process stored last, however it ended, until the host restarts.
 *
 * Clients get a descriptor of the region's file for reading, by softnic. So it has no secret; the
 * key of the sums is in the other file.
 *
 *   KEEP-1. The file of the state is locked while a process uses the two, so no two processes do.
 *   KEEP-2. KEEP_CLEAN is stored last, by a process that has ended all changes, and removed before
 *	 the next one makes any. Only then are index and lists used as they are.
 *   KEEP-3. After any other end, these are trusted, since each is stored before an
 *	 item becomes valid: the page map and the descriptors of slabs, where they lead to an item
 *	 that verifies; items that verify; and the changes under way (struct keep_change).
 *   KEEP-4. A change that makes a key's item invalid before the new one is valid has noted how to
 *	 undo it. So a key whose change was not acknowledged has its old value or the new one.
 *   KEEP-5. What was kept is used only by a kvd of the same KEEP_LAYOUT and LAYOUT_ABI, on a host
 *	 that has not restarted since, and for a region of the same length and keys' hashes. Else
 *	 the files are made anew, which is logged with the reason.
 */
#ifndef KVD_SERVER_STORE_KEEP_H
#define KVD_SERVER_STORE_KEEP_H

#include "common/layout.h"
#include "server/store/store_options.h"

/* Raised by any change of what the file of the state has. */
#define KEEP_LAYOUT 3u

#define KEEP_PATH_BYTES 256
#define KEEP_THREADS_MAX 80u
/* Bytes of an item that are overwritten in place at most. */
#define KEEP_ITEM_BYTES 32768u
#define KEEP_TICKS 2048u
#define KEEP_FLUSHES_BYTES (32u << 10)
/* Items at a time that must not be served after a restart: all marks of a tenant. */
#define KEEP_STALE_MAX 65536u

enum keep_state {
	KEEP_INCOMPLETE, /* 0: the process that made the files never got to serve */
	KEEP_SERVES,	 /* a process uses the files, or was killed while it did */
	KEEP_CLEAN,	 /* KEEP-2 */
};

/* A change under way of an item that is invalid meanwhile. Its thread's own. */
struct keep_change {
	uint64_t new_at;  /* offset of the item that becomes valid; 0: there is no change */
	uint64_t old_at;  /* of the item that is valid until then; may be the same */
	uint64_t old_sum; /* its sum */
	uint64_t bytes;	  /* saved: all after the sum that the change overwrites */
	uint8_t saved[KEEP_ITEM_BYTES];
};

/* An item that the next process must not serve. */
struct keep_stale {
	uint64_t hash;
	_Atomic uint64_t version; /* 0: none */
};

struct keep_head {
	uint64_t magic;
	uint32_t layout, abi;
	_Atomic uint32_t state; /* enum keep_state */
	char boot[40];		/* names the time since the host started */
	uint64_t region_bytes;	/* of its address space */
	uint64_t extent_bytes;
	_Atomic uint32_t extents; /* that exist: EXTENT-5 */
	struct sum_key sum_key;
	/*
	 * While items are recovered: the incarnations that their sums were made with before, and
	 * since. Else both are the region's.
	 */
	uint64_t incarnation[2];
	uint64_t clock_base;	   /* table.clock_base: CLOCK_MONOTONIC_RAW goes on, too, */
	uint64_t sleep_start_ns;   /* and since when sleep of the host is added to it */
	_Atomic uint64_t version;  /* counter above which new versions have to be, too */
	_Atomic uint64_t flushing; /* table.flushing */
	uint64_t ticket;	   /* of the last flush */
	_Atomic uint64_t stale;	   /* noted so far: the next place is this modulo KEEP_STALE_MAX */

	/* Written once a second, and at the end. */
	uint32_t tick, tick_began_s[KEEP_TICKS];
	uint64_t tick_bytes;

	/* Written at the end: KEEP_CLEAN. */
	uint64_t items, live_bytes, expiring, overflow_buckets;
	uint32_t page_first, wider;
};

/* What the files had when they were opened. */
enum keep_found {
	KEEP_FOUND_NONE, /* the store begins empty */
	KEEP_FOUND_CLEAN,
	KEEP_FOUND_KILLED, /* or its region has to get another incarnation */
};

/* One store's. All zero but for region_fd and region_read_fd, -1: the store is not kept. */
struct keep {
	struct keep_head *head;	     /* NULL: the store is not kept */
	struct keep_change *changes; /* KEEP_THREADS_MAX; NULL: likewise */
	struct keep_stale *stale;    /* KEEP_STALE_MAX */
	void *flushes;		     /* KEEP_FLUSHES_BYTES, of server/store/maintenance.c */
	enum keep_found found;
	bool flushed;	      /* the flush under way at the kill has been finished */
	bool serves;	      /* the store is complete */
	bool clean;	      /* all that the next process needs is stored: KEEP-2 */
	uint64_t bytes, used; /* of the file of the state, and of what keep_map() has given out */
	int fd;		      /* of the file of the state, locked */
	int region_fd;	      /* for writing */
	int region_read_fd;
};

/*
 * Opens options->file, if that is set, and decides what is kept of it. Logs why a store begins
 * empty though there are files. Returns 0 or, after logging, a negative errno, with nothing to
 * close: EBUSY if another process uses the files, EPERM if another user may write to them, ENOSPC
 * if their file system has too little room.
 */
int keep_open(struct keep *keep, const struct store_options *options);
/* Unmaps and closes the files, which stay. */
void keep_close(struct keep *keep);

/*
 * Checks, without any effect, that keep_open() can succeed. Returns 0 or, after logging, a negative
 * errno.
 */
int keep_check(const struct store_options *options);
/*
 * Calls @found for each store that can be used again and whose file is called @prefix and then
 * @name; @bytes: of its region. Any thread.
 */
void keep_list(const char *prefix, void (*found)(const char *name, uint64_t bytes, void *context),
	       void *context);
/*
 * Writes to @path the name of @file with @suffix, or, since files of hugetlbfs can't be short, of
 * such a file in /dev/shm.
 */
void keep_beside(const char *file, const char *suffix, char path[KEEP_PATH_BYTES]);
/* Removes the files of a store that no process uses, if they exist. */
void keep_remove(const char *file);
/* Gives them the name @to, in place of the files there. A process may use them. Logs errors. */
void keep_rename(const char *file, const char *to);

/* Bytes that the file of the region has already. 0: there is none. */
uint64_t keep_present(const struct store_options *options);

/*
 * The next @bytes of the file of the state, or anonymous memory if the store is not kept: zeros, or
 * what an earlier process left there that asked for the same. Untouched anonymous pages cost
 * nothing. NULL: no memory. keep_unmap() takes NULL.
 */
void *keep_map(struct keep *keep, uint64_t bytes);
void keep_unmap(const struct keep *keep, void *p, uint64_t bytes);

/* Whether @path, which may not exist yet, is or will be on hugetlbfs. */
bool keep_is_hugetlb(const char *path);

/* The versions that the next process makes are above @counter, too. Any thread. */
static inline void keep_raise_version(const struct keep *keep, uint64_t counter)
{
	uint64_t version;

	if (!keep->head)
		return;
	version = atomic_load_explicit(&keep->head->version, memory_order_relaxed);
	while (version < counter &&
	       !atomic_compare_exchange_weak(&keep->head->version, &version, counter))
		;
}

/*
 * Notes that the item of this version is stale, by marks that the next process does not have; it
 * removes the item. At most KEEP_STALE_MAX such items exist. Any thread.
 */
void keep_note_stale(const struct keep *keep, uint64_t hash, uint64_t version);

/*
 * Notes a change that makes the item at @old invalid until the one at @new is valid, and overwrites
 * @bytes of what follows the old one's sum: KEEP-4. If the item is invalid already, by a change
 * that is noted, that stays noted until this one is. @change NULL: nothing is kept.
 */
static inline void keep_change_begin(struct keep_change *change, const uint8_t *base,
				     const struct item *old, uint64_t sum, const struct item *new,
				     uint64_t bytes)
{
	if (__builtin_expect(!change, 1))
		return;
	/* A killed thread has stored all that precedes its last instruction, so the compiler alone
	 * could change the order. */
	change->old_at = (uint64_t)((const uint8_t *)old - base);
	change->old_sum = sum;
	__builtin_memcpy(change->saved, (const uint8_t *)old + sizeof(old->sum), bytes);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&change->bytes, bytes, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&change->new_at, (uint64_t)((const uint8_t *)new - base),
			 __ATOMIC_RELEASE);
}

/* The change has ended, one way or the other. */
static inline void keep_change_end(struct keep_change *change)
{
	if (__builtin_expect(!change, 1))
		return;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&change->new_at, 0, __ATOMIC_RELEASE);
}

#endif /* KVD_SERVER_STORE_KEEP_H */
