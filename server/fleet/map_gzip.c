/* SPDX-License-Identifier: MIT */
#include "server/fleet/map_gzip.h"

#include <zlib.h>

#include "common/util/heap.h"

/* As deflateInit2() and inflateInit2() have it: the largest window, and gzip's head and tail. */
#define WINDOW_BITS (15 + 16)
#define MEMORY_LEVEL 9
/* The last 4 bytes are the length of what is compressed, the least byte first. */
#define LENGTH_BYTES 4u

void *map_gzip(const struct fleet_map *map, size_t *bytes)
{
	z_stream stream = {
		.next_in = (Bytef *)map->head,
		.avail_in = (uInt)map->bytes,
	};
	size_t size;
	void *to;

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return NULL;
	size = deflateBound(&stream, map->bytes);
	to = heap_alloc(size);
	stream.next_out = to;
	stream.avail_out = (uInt)size;
	if (to && deflate(&stream, Z_FINISH) != Z_STREAM_END) {
		heap_free(to);
		to = NULL;
	}
	*bytes = stream.total_out;
	deflateEnd(&stream);
	return to;
}

static size_t length_of(const uint8_t *from, size_t bytes)
{
	const uint8_t *at;

	if (bytes < LENGTH_BYTES)
		return 0;
	at = from + bytes - LENGTH_BYTES;
	return at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

static const char *inflate_to(void *to, size_t size, const void *from, size_t bytes)
{
	z_stream stream = {
		.next_in = (Bytef *)from,
		.avail_in = (uInt)bytes,
		.next_out = to,
		.avail_out = (uInt)size,
	};
	int status;

	if (inflateInit2(&stream, WINDOW_BITS) != Z_OK)
		return "out of memory";
	status = inflate(&stream, Z_FINISH);
	inflateEnd(&stream);
	if (status == Z_MEM_ERROR)
		return "out of memory";
	if (status != Z_STREAM_END || stream.avail_in || stream.avail_out)
		return "not compressed by gzip, or damaged";
	return NULL;
}

const char *map_gunzip(struct fleet_map **map, const void *from, size_t bytes)
{
	const size_t size = length_of(from, bytes);
	const char *error;
	void *to;

	*map = NULL;
	if (!size || size > FLEET_MAP_BYTES_MAX)
		return "not compressed by gzip, or longer than any map";
	to = heap_alloc(size);
	if (!to)
		return "out of memory";
	error = inflate_to(to, size, from, bytes);
	if (!error)
		error = fleet_map_make(map, to, size);
	heap_free(to);
	return error;
}
