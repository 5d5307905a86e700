/* SPDX-License-Identifier: MIT */
/* read(2) and write(2) until all is done. Any thread; they block as those do. */
#ifndef KVD_COMMON_UTIL_WHOLE_IO_H
#define KVD_COMMON_UTIL_WHOLE_IO_H

#include <stdbool.h>
#include <stddef.h>

/* Writes @count bytes. Returns 0 or a negative errno: then some may be written. */
int write_whole(int fd, const void *bytes, size_t count);
/* Reads @count bytes. False: the file is shorter, or can't be read. */
bool read_whole(int fd, void *bytes, size_t count);

#endif /* KVD_COMMON_UTIL_WHOLE_IO_H */
