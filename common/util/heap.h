/* SPDX-License-Identifier: MIT */
/*
 * The heap of libkvd in a program: malloc(3) and its kin, or functions that the program set
 * instead, before the first allocation.
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

/* Uses these functions from now on. 0, or -EBUSY: memory has been allocated already. */
int heap_set(const struct heap_functions *functions);

/* Like the functions of the C library; heap_calloc() zeroes memory. heap_free() accepts NULL. */
void *heap_alloc(size_t bytes) __attribute__((malloc));
void *heap_calloc(size_t count, size_t bytes) __attribute__((malloc));
void *heap_realloc(void *memory, size_t bytes);
void heap_free(void *memory);

#endif /* KVD_COMMON_UTIL_HEAP_H */
