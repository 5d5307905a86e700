/* SPDX-License-Identifier: MIT */
/*
 * Size classes: which sizes of blocks the item memory hands out, and which of them an item takes.
 */
#ifndef KVD_SERVER_STORE_SIZE_CLASS_H
#define KVD_SERVER_STORE_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

#include "server/store/page_heap.h"

/* What slabs of small and of larger items take, where there is room. */
#define SLAB_BYTES_MIN (64u << 10)
#define SLAB_BYTES_MAX (256u << 10)

#define CLASS_STEP 16u /* bytes */
#define CLASS_BYTES_MIN 48u
#define CLASS_BYTES_MAX (32u << 10)
/* Blocks up to this size are in slabs of SLAB_BYTES_MIN and in magazines. */
#define CLASS_SMALL_MAX 4096u

#define MEM_CLASSES_MAX 160u
/* The class of overflow buckets; items of the same size have one of their own. */
#define CLASS_BUCKETS (MEM_CLASSES_MAX - 1)
/* Not a class: a span of its own. */
#define MEM_CLASS_LARGE UINT32_MAX

/* Bytes of a block of each class; 0: no such class. Filled in before main(). */
extern uint16_t size_class_bytes[MEM_CLASSES_MAX];
/* The class of each number of steps of bytes. */
extern uint8_t size_class_ids[CLASS_BYTES_MAX / CLASS_STEP + 1];

/* Bytes of a slab with blocks of @bytes, where there is room for a whole one. */
uint32_t size_class_slab_bytes(uint32_t bytes);

/* The number of the class of an item of @bytes; MEM_CLASS_LARGE if it takes a span of its own. */
static inline unsigned int mem_class(size_t bytes)
{
	if (bytes > CLASS_BYTES_MAX)
		return MEM_CLASS_LARGE;
	return size_class_ids[(bytes + CLASS_STEP - 1) / CLASS_STEP];
}

/* What a block of @bytes really takes. */
static inline size_t mem_class_bytes(size_t bytes)
{
	if (bytes > CLASS_BYTES_MAX)
		return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	return size_class_bytes[mem_class(bytes)];
}

#endif /* KVD_SERVER_STORE_SIZE_CLASS_H */
