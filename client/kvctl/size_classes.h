/* SPDX-License-Identifier: MIT */
/* The size classes of a server's memory, from its statistics "size_class.N.NAME", as a table. */
#ifndef KVD_CLIENT_KVCTL_SIZE_CLASSES_H
#define KVD_CLIENT_KVCTL_SIZE_CLASSES_H

#include <stddef.h>
#include <stdint.h>

#define SIZE_CLASSES_MAX 256u /* more than a server has */
#define SIZE_CLASS_ROW_BYTES 96u
#define SIZE_CLASSES_HEADING                                                                       \
	"ITEM BYTES     SLABS      MEMORY        USED        FREE  FULL %     EVICTED"

struct size_class_row {
	uint64_t item_bytes; /* N: the size of a block */
	uint64_t slabs, bytes, used, free, evictions;
};

struct size_classes {
	struct size_class_row rows[SIZE_CLASSES_MAX]; /* by memory, the largest first */
	unsigned int count;
};

/* Reads the size classes from the text of kvd_server_stats(). */
void size_classes_read(struct size_classes *classes, const char *stats);
/* Writes a row of the table, below SIZE_CLASSES_HEADING, to @text, and returns it. */
const char *size_class_text(char text[SIZE_CLASS_ROW_BYTES], const struct size_class_row *row);

#endif /* KVD_CLIENT_KVCTL_SIZE_CLASSES_H */
