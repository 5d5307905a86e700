/* SPDX-License-Identifier: MIT */
/* The heap: see heap.h. Nothing else in client/ and common/ calls malloc(3). */
#include "common/util/heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct heap_functions program; /* alloc is NULL: the C library's are used */
static atomic_bool used;

int heap_set(const struct heap_functions *functions)
{
	if (atomic_load(&used))
		return -EBUSY;
	program = *functions;
	return 0;
}

/* Only the first call writes: else all threads would write to one line of the cache. */
static void use(void)
{
	if (!atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store(&used, true);
}

void *heap_alloc(size_t bytes)
{
	use();
	return program.alloc ? program.alloc(program.user, bytes) : malloc(bytes);
}

void *heap_calloc(size_t count, size_t bytes)
{
	void *memory;

	use();
	if (!program.alloc)
		return calloc(count, bytes);
	if (__builtin_mul_overflow(count, bytes, &bytes))
		return NULL;
	memory = program.alloc(program.user, bytes);
	if (memory)
		memset(memory, 0, bytes);
	return memory;
}

void *heap_realloc(void *memory, size_t bytes)
{
	use();
	return program.alloc ? program.realloc(program.user, memory, bytes) :
			       realloc(memory, bytes);
}

void heap_free(void *memory)
{
	if (!program.alloc)
		free(memory);
	else if (memory)
		program.free(program.user, memory);
}
