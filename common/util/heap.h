/* SPDX-License-Identifier: MIT */
/*
 * The heap of what a program links as libkvd: malloc(3) and its kin, or functions that the program
 * gave instead, before the first allocation.
 *
 * Threads: any, as far as the program's functions allow it; heap_set() before other threads use it.
 */
#ifndef KVD_COMMON_UTIL_HEAP_H
#define KVD_COMMON_UTIL_HEAP_H

#include <stddef.h>

struct heap_functions {
	void *(*alloc)(void *user, size_t bytes);
	void *(*realloc)(void *user, void *memory, size_t bytes);
	void (*free)(void *user, void *memory);
	void *user;
};

/* From now on these are called. 0, or -EBUSY: memory has been allocated already. */
int heap_set(const struct heap_functions *functions);

/* As the functions of the C library; memory of heap_calloc() is zeroed. heap_free() takes NULL. */
void *heap_alloc(size_t bytes) __attribute__((malloc));
void *heap_calloc(size_t count, size_t bytes) __attribute__((malloc));
void *heap_realloc(void *memory, size_t bytes);
void heap_free(void *memory);

#endif /* KVD_COMMON_UTIL_HEAP_H */
