/* SPDX-License-Identifier: MIT */
/*
 * Size classes: computes the sizes of blocks, and the table that finds the class of an item's size.
 */
#include "server/store/size_class.h"

#include <assert.h>

/*
 * Up to 256 bytes, classes are 8 bytes apart; up to 512, 16. Above, a class's blocks have the
 * largest size of which a certain number fits a slab, and that number falls by about 1/22 from
 * class to class: 145 classes. The percentage of full slabs' memory that is lost, over all
 * multiples of ITEM_ALIGN (other sizes lose up to 7 bytes more), as
 * tests/unit/server/test_memory.c prints it:
 *
 *	   bytes	classes	average	worst
 *	   40 -   512	     44	    0.7	  3.3
 *	  513 -  1024	     17	    1.8	  4.2
 *	 1025 -  2048	     22	    1.6	  3.9
 *	 2049 -  4096	     16	    2.2	  5.9
 *	 4097 -  8192	     22	    1.6	  4.3
 *	 8193 - 16384	     16	    2.3	  5.9
 *	16385 - 32768	      8	    4.5	 11.1
 *	32769 - 65536	  spans	    4.1	 11.1
 *	65537 -   2^20	  spans	    0.6	  5.9
 *
 * A value of 4 KiB with a short key has its own class, 4160, which loses 0.4 % for 4144 bytes.
 */
#define CLASS_FINE_MAX 256u /* bytes */
#define CLASS_LINEAR_MAX 512u
#define CLASS_STEP_LINEAR 16u
#define CLASS_SHRINK 22u

uint16_t size_class_bytes[MEM_CLASSES_MAX];
uint8_t size_class_ids[CLASS_BYTES_MAX / CLASS_STEP + 1];
static unsigned int classes_count;

uint32_t size_class_slab_bytes(uint32_t bytes)
{
	return bytes <= CLASS_SMALL_MAX ? SLAB_BYTES_MIN : SLAB_BYTES_MAX;
}

static void class_add(uint32_t bytes)
{
	assert(classes_count < CLASS_BUCKETS);
	size_class_bytes[classes_count++] = (uint16_t)bytes;
}

/* Classes for blocks larger than @from, up to @to. */
static void classes_add(uint32_t from, uint32_t to)
{
	uint32_t slab = size_class_slab_bytes(to), blocks = slab / from, last = from, bytes;

	while (last < to) {
		blocks -= blocks > CLASS_SHRINK * 2 && last > from ? blocks / CLASS_SHRINK : 1;
		bytes = slab / blocks / CLASS_STEP * CLASS_STEP;
		if (bytes > last)
			class_add(bytes);
		last = bytes;
	}
	assert(last == to);
}

/* Before main(): mem_class() is also used without a struct memory. */
__attribute__((constructor)) static void classes_make(void)
{
	unsigned int class_id = 0;

	for (uint32_t bytes = CLASS_BYTES_MIN; bytes <= CLASS_FINE_MAX; bytes += CLASS_STEP)
		class_add(bytes);
	for (uint32_t bytes = CLASS_FINE_MAX; bytes < CLASS_LINEAR_MAX;)
		class_add(bytes += CLASS_STEP_LINEAR);
	classes_add(CLASS_LINEAR_MAX, CLASS_SMALL_MAX);
	classes_add(CLASS_SMALL_MAX, CLASS_BYTES_MAX);
	size_class_bytes[CLASS_BUCKETS] = BUCKET_BYTES;
	for (uint32_t step = 0; step <= CLASS_BYTES_MAX / CLASS_STEP; step++) {
		if (step * CLASS_STEP > size_class_bytes[class_id])
			class_id++;
		size_class_ids[step] = (uint8_t)class_id;
	}
}
