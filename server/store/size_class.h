/* SPDX-License-Identifier: MIT */
/*
 * Size classes: the sizes of blocks that the item memory allocates, and the class of an item's
 * size.
 */
#ifndef KVD_SERVER_STORE_SIZE_CLASS_H
#define KVD_SERVER_STORE_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "server/store/page_heap.h"

/* Bytes of a whole slab of small, and of larger, blocks. */
#define SLAB_BYTES_MIN (64u << 10)
#define SLAB_BYTES_MAX (256u << 10)

#define CLASS_STEP ITEM_ALIGN
#define CLASS_BYTES_MIN 40u
#define CLASS_BYTES_MAX (32u << 10)
/* Blocks up to this size are in slabs of SLAB_BYTES_MIN, and magazines keep some. */
#define CLASS_SMALL_MAX 4096u

#define MEM_CLASSES_MAX 160u
/* The class of overflow buckets; items of that size have another. */
#define CLASS_BUCKETS (MEM_CLASSES_MAX - 1)
/* Not a class: each large item has a span of its own. */
#define MEM_CLASS_LARGE UINT32_MAX

/* Bytes of a block of each class; 0: no such class. Filled in before main(). */
extern uint16_t size_class_bytes[MEM_CLASSES_MAX];
/* The class of items of at most CLASS_STEP * i bytes. Filled in before main(). */
extern uint8_t size_class_ids[CLASS_BYTES_MAX / CLASS_STEP + 1];

/* Bytes of a whole slab of blocks of @bytes. */
uint32_t size_class_slab_bytes(uint32_t bytes);

/* The class of an item of @bytes; MEM_CLASS_LARGE if it takes a span. */
static inline unsigned int mem_class(size_t bytes)
{
	if (bytes > CLASS_BYTES_MAX)
		return MEM_CLASS_LARGE;
	return size_class_ids[(bytes + CLASS_STEP - 1) / CLASS_STEP];
}

/* Bytes of the block, or of the pages, that an item of @bytes takes. */
static inline size_t mem_class_bytes(size_t bytes)
{
	if (bytes > CLASS_BYTES_MAX)
		return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	return size_class_bytes[mem_class(bytes)];
}

#endif /* KVD_SERVER_STORE_SIZE_CLASS_H */
