/* SPDX-License-Identifier: MIT */
#include "server/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jemalloc/jemalloc.h>

#include "common/log.h"
#include "server/stat.h"

struct memory {
	extent_hooks_t hooks; /* first: a hook gets its address */
	pthread_mutex_t lock; /* guards next; the innermost lock, see server/DESIGN.md */
	uint8_t *next;	      /* what lies behind was never handed to jemalloc */
	uint8_t *start, *end;
	unsigned int arena;
};

/* What experimental.arenas_create_ext takes (jemalloc 5.3, arena_config_t; not in its header). */
struct arena_config {
	extent_hooks_t *extent_hooks;
	bool metadata_use_hooks;
};

/*
 * Extents are cut from the region front to back and never given back here: jemalloc retains and
 * merges what is freed.
 */
static void *extent_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t alignment,
			  bool *zero, bool *commit, unsigned int arena)
{
	struct memory *memory = (struct memory *)hooks;
	uint8_t *p = NULL;
	uintptr_t at;

	(void)arena;
	pthread_mutex_lock(&memory->lock);
	at = ((uintptr_t)memory->next + alignment - 1) & ~(uintptr_t)(alignment - 1);
	if (at <= (uintptr_t)memory->end && size <= (uintptr_t)memory->end - at &&
	    (!new_addr || (uintptr_t)new_addr == at)) {
		p = (uint8_t *)at;
		memory->next = p + size;
		*commit = true;
		*zero = false;
	}
	pthread_mutex_unlock(&memory->lock);
	return p;
}

/* False is "done" to jemalloc: neighbours in the region are split and merged freely. */
static bool extent_split(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a,
			 size_t size_b, bool committed, unsigned int arena)
{
	(void)hooks, (void)addr, (void)size, (void)size_a, (void)size_b, (void)committed;
	(void)arena;
	return false;
}

static bool extent_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b,
			 bool committed, unsigned int arena)
{
	(void)hooks, (void)a, (void)size_a, (void)b, (void)size_b, (void)committed, (void)arena;
	return false;
}

static int arena_set_decay(unsigned int arena, const char *what)
{
	char name[64];
	ssize_t now = 0;

	snprintf(name, sizeof(name), "arena.%u.%s", arena, what);
	return -mallctl(name, NULL, NULL, &now, sizeof(now));
}

static int arena_create(struct memory *memory)
{
	struct arena_config config = { &memory->hooks, false };
	size_t size = sizeof(memory->arena);
	int err;

	err = -mallctl("experimental.arenas_create_ext", &memory->arena, &size, &config,
		       sizeof(config));
	/* At once: with a delay, big freed extents would not serve small requests. */
	if (!err)
		err = arena_set_decay(memory->arena, "dirty_decay_ms");
	if (!err)
		err = arena_set_decay(memory->arena, "muzzy_decay_ms");
	if (err)
		log_error("memory: jemalloc refuses an arena (%s); kvd needs jemalloc 5.3 or later",
			  strerror(-err));
	return err;
}

int memory_create(struct memory **out, struct region *region)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	int err;

	*out = NULL;
	if (!memory)
		return -ENOMEM;
	memory->hooks.alloc = extent_alloc;
	memory->hooks.split = extent_split;
	memory->hooks.merge = extent_merge;
	memory->start = region_at(region, region->heap);
	memory->next = memory->start;
	memory->end = region_at(region, region->bytes - REGION_PAD);
	pthread_mutex_init(&memory->lock, NULL);
	err = arena_create(memory);
	if (err) {
		pthread_mutex_destroy(&memory->lock);
		free(memory);
		return err;
	}
	*out = memory;
	return 0;
}

void memory_destroy(struct memory *memory)
{
	char name[64];

	if (!memory)
		return;
	snprintf(name, sizeof(name), "arena.%u.destroy", memory->arena);
	mallctl(name, NULL, NULL, NULL, 0);
	pthread_mutex_destroy(&memory->lock);
	free(memory);
}

uint64_t memory_bytes(const struct memory *memory)
{
	return (uint64_t)(memory->end - memory->start);
}

int mem_cache_init(struct mem_cache *cache, struct memory *memory)
{
	size_t size = sizeof(cache->tcache);
	int err;

	*cache = (struct mem_cache){ .memory = memory, .flushed_at = UINT64_MAX };
	err = -mallctl("tcache.create", &cache->tcache, &size, NULL, 0);
	if (err)
		log_error("memory: jemalloc refuses a thread cache: %s", strerror(-err));
	return err;
}

void mem_cache_release(struct mem_cache *cache)
{
	if (!cache->memory)
		return;
	mallctl("tcache.destroy", NULL, NULL, &cache->tcache, sizeof(cache->tcache));
	cache->memory = NULL;
}

static int mem_flags(const struct mem_cache *cache, size_t bytes)
{
	int flags = MALLOCX_ARENA(cache->memory->arena) | MALLOCX_TCACHE(cache->tcache);

	return bytes == BUCKET_BYTES ? flags | MALLOCX_ALIGN(BUCKET_BYTES) : flags;
}

/*
 * Blocks this thread has set aside can serve other sizes once they are back in the arena. Not tried
 * again before something was freed: a full store must not cost every PUT a flush.
 */
static void *mem_alloc_flushed(struct mem_cache *cache, size_t bytes)
{
	void *p;

	if (cache->flushed_at == cache->freed_bytes)
		return NULL;
	mallctl("tcache.flush", NULL, NULL, &cache->tcache, sizeof(cache->tcache));
	p = mallocx(bytes, mem_flags(cache, bytes));
	if (!p)
		cache->flushed_at = cache->freed_bytes;
	return p;
}

void *mem_alloc(struct mem_cache *cache, size_t bytes)
{
	void *p = mallocx(bytes, mem_flags(cache, bytes));

	if (__builtin_expect(!p, 0)) {
		p = mem_alloc_flushed(cache, bytes);
		if (!p) {
			stat_add(&cache->failures, 1);
			return NULL;
		}
	}
	stat_add(&cache->allocated_bytes, mem_class(bytes));
	return p;
}

void mem_free(struct mem_cache *cache, void *p, size_t bytes)
{
	stat_add(&cache->freed_bytes, mem_class(bytes));
	sdallocx(p, bytes, mem_flags(cache, bytes));
}

size_t mem_class(size_t bytes)
{
	return nallocx(bytes, 0);
}
