/* SPDX-License-Identifier: MIT */
/*
 * Memory for OpenSSL that no core dump contains: OpenSSL keeps decoded keys, traffic secrets and
 * decrypted data in its heap, and its own "secure heap" is for private keys alone. Blocks are
 * powers of two, cut from chunks, and overwritten when they are freed; chunks are kept. Larger
 * allocations have pages of their own. A thread keeps a few blocks of each size, so that workers,
 * which take and give back OpenSSL's buffers with each record of memcached+tls://, do not wait for
 * each other; the rest is under one lock.
 *
 * Why not an arena of jemalloc, whose extent hooks mark the pages: it takes 40 lines less, and 16
 * to 21 % of the handshakes that a CPU makes per second, client and server together (medians of 5,
 * of the last line 3, 2 cores of an Intel Xeon, jemalloc 5.3.0, 2026-11-23):
 *
 *					both certificates   resumed   pre-shared key
 *	jemalloc's malloc, in dumps		      666     1,316	       2,486
 *	these blocks				      627     1,223	       2,344
 *	an arena, MALLOCX_TCACHE_NONE		      507	965	       1,960
 *	with a tcache of its own and a lock	      542     1,043	       2,060
 *	dirty_decay_ms 0			      306	554		 987
 *
 * The automatic caches of threads can't be used: they mix the blocks of arenas. kvctl, which has
 * no jemalloc, would start in 3.7 instead of 2.5 ms (kvctl -V, median of 1,000); with jemalloc
 * linked statically in 3.2 ms, and be 800 KiB larger. libkvd must not have it at all: a library
 * does not choose its program's malloc().
 */
#include "common/tls/tls.h"

#include <pthread.h>
#include <string.h>

#include <openssl/crypto.h>

#include "common/util/secret.h"

#ifdef __SANITIZE_ADDRESS__
/* The leak checker finds leaks of OpenSSL's objects only in the heap that it knows. */
bool tls_memory_protect(void)
{
	return true;
}
#else

#define CHUNK_BYTES ((size_t)256 << 10)
#define BLOCK_MIN_SHIFT 5u /* 32 bytes, with the header */
#define CLASSES 12u	   /* up to 64 KiB */
#define CLASS_BYTES(class) ((size_t)1 << (BLOCK_MIN_SHIFT + (class)))

/* Header of a block; its size is malloc(3)'s alignment. */
struct block {
	size_t room; /* bytes after this header */
	union {
		unsigned int class; /* CLASSES: pages of its own */
		struct block *next; /* of a free block */
	};
};

_Static_assert(sizeof(struct block) == 16, "what follows is aligned as by malloc(3)");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *free_blocks[CLASSES];
static char *chunk;
static size_t chunk_left;

/* Blocks of a size that a thread keeps: a stream has a buffer for each direction. */
#define KEPT_MAX 4u

struct kept_blocks {
	struct block *first;
	unsigned int count;
};

static _Thread_local struct kept_blocks kept[CLASSES];
static pthread_key_t kept_key; /* of threads that keep blocks */
static bool kept_key_made;

static unsigned int class_of(size_t bytes)
{
	unsigned int class = 0;

	while (class < CLASSES && CLASS_BYTES(class) < bytes)
		class ++;
	return class;
}

/* The rest of the previous chunk, less than 64 KiB, stays unused. The lock is held. */
static struct block *do_cut(size_t bytes)
{
	struct block *block;

	if (chunk_left < bytes) {
		char *fresh = secret_alloc(CHUNK_BYTES);

		if (!fresh)
			return NULL;
		chunk = fresh;
		chunk_left = CHUNK_BYTES;
	}
	block = (struct block *)chunk;
	chunk += bytes;
	chunk_left -= bytes;
	return block;
}

static struct block *kept_take(struct kept_blocks *of)
{
	struct block *block = of->first;

	of->first = block->next;
	of->count--;
	return block;
}

static struct block *block_take(unsigned int class, size_t bytes)
{
	struct block *block;

	if (kept[class].count) {
		block = kept_take(&kept[class]);
		block->room = bytes;
		return block;
	}
	pthread_mutex_lock(&lock);
	block = free_blocks[class];
	if (block)
		free_blocks[class] = block->next;
	else
		block = do_cut(CLASS_BYTES(class));
	pthread_mutex_unlock(&lock);
	if (block)
		block->room = bytes;
	return block;
}

static void block_give(struct block *block, unsigned int class)
{
	struct kept_blocks *mine = &kept[class];

	if (kept_key_made && mine->count < KEPT_MAX) {
		/* Again after each kept_end(): other destructors may free memory after it. */
		if (!mine->count)
			pthread_setspecific(kept_key, kept);
		block->next = mine->first;
		mine->first = block;
		mine->count++;
		return;
	}
	pthread_mutex_lock(&lock);
	block->next = free_blocks[class];
	free_blocks[class] = block;
	pthread_mutex_unlock(&lock);
}

/* The thread ends. */
static void kept_end(void *own)
{
	struct kept_blocks *mine = own;
	struct block *block;

	pthread_mutex_lock(&lock);
	for (unsigned int class = 0; class < CLASSES; class ++)
		while (mine[class].count) {
			block = kept_take(&mine[class]);
			block->next = free_blocks[class];
			free_blocks[class] = block;
		}
	pthread_mutex_unlock(&lock);
}

static void *memory_alloc(size_t bytes, const char *file, int line)
{
	struct block *block;
	unsigned int class;

	(void)file, (void)line;
	if (!bytes || bytes > SIZE_MAX / 2)
		return NULL;
	class = class_of(bytes + sizeof(*block));
	if (class < CLASSES) {
		block = block_take(class, bytes);
	} else {
		block = secret_alloc(bytes + sizeof(*block));
		if (block)
			block->room = bytes;
	}
	if (!block)
		return NULL;
	block->class = class;
	return block + 1;
}

static void memory_free(void *memory, const char *file, int line)
{
	struct block *block;
	unsigned int class;

	(void)file, (void)line;
	if (!memory)
		return;
	block = (struct block *)memory - 1;
	class = block->class;
	if (class == CLASSES) {
		secret_free(block, block->room + sizeof(*block));
		return;
	}
	explicit_bzero(memory, block->room);
	block_give(block, class);
}

static void *memory_realloc(void *memory, size_t bytes, const char *file, int line)
{
	size_t room = memory ? ((struct block *)memory - 1)->room : 0;
	void *longer;

	if (!bytes) {
		memory_free(memory, file, line);
		return NULL;
	}
	if (bytes <= room)
		return memory;
	longer = memory_alloc(bytes, file, line);
	if (!longer)
		return NULL;
	if (memory)
		memcpy(longer, memory, room);
	memory_free(memory, file, line);
	return longer;
}

bool tls_memory_protect(void)
{
	/* Without a key no thread keeps blocks. */
	kept_key_made = kept_key_made || !pthread_key_create(&kept_key, kept_end);
	return CRYPTO_set_mem_functions(memory_alloc, memory_realloc, memory_free);
}

#endif
