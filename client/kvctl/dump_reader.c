/* SPDX-License-Identifier: MIT */
/* Reading dumps: see dump_reader.h. */
#include "client/kvctl/dump_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/kvctl/interrupt.h"

#define BODY_BYTES_FIRST 65536u

static enum dump_result fail(struct dump_reader *reader, enum dump_result result, uint64_t offset,
			     const char *why)
{
	snprintf(reader->why, sizeof(reader->why), "%s, byte %" PRIu64 ": %s", reader->name, offset,
		 why);
	return result;
}

static enum dump_result cut(struct dump_reader *reader)
{
	return fail(reader, DUMP_CUT, reader->offset,
		    "the file ends here, before the dump does: it was cut, or not written to its "
		    "end");
}

/* DUMP_BLOCK: all @len bytes were read. At the end of the file *@got is how many were read. */
static enum dump_result read_all(struct dump_reader *reader, void *to, size_t len, size_t *got)
{
	*got = 0;
	while (*got < len) {
		const ssize_t n = read(reader->fd, (uint8_t *)to + *got, len - *got);

		if (n < 0 && errno == EINTR && !interrupted())
			continue;
		if (n < 0) {
			const int err = errno;

			fail(reader, DUMP_FAILED, reader->offset, strerror(err));
			errno = err;
			return DUMP_FAILED;
		}
		if (!n)
			return cut(reader);
		*got += (size_t)n;
		reader->offset += (uint64_t)n;
	}
	return DUMP_BLOCK;
}

void dump_body_release(struct dump_body *body)
{
	free(body->bytes);
	*body = (struct dump_body){ 0 };
}

/* Makes room for @bytes; the old content is lost. */
static bool body_room(struct dump_body *body, size_t bytes)
{
	if (bytes <= body->size && body->size / 4 <= bytes + DUMP_BODY_MAX)
		return true;
	if (bytes < BODY_BYTES_FIRST)
		bytes = BODY_BYTES_FIRST;
	free(body->bytes);
	body->bytes = malloc(bytes);
	body->size = body->bytes ? bytes : 0;
	return body->bytes;
}

enum dump_result dump_reader_begin(struct dump_reader *reader, int fd, const char *name)
{
	struct dump_header *header = &reader->header;
	enum dump_result result;
	const char *why;
	struct stat st;
	size_t got;

	*reader = (struct dump_reader){ .fd = fd, .name = name };
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		reader->bytes = (uint64_t)st.st_size;
	result = read_all(reader, header, sizeof(*header), &got);
	if (result == DUMP_CUT && memcmp(header, DUMP_MAGIC, got < 8 ? got : 8) != 0)
		return fail(reader, DUMP_DAMAGED, 0, "this is not a dump of kvd");
	if (result != DUMP_BLOCK)
		return result;
	why = dump_header_check_lengths(header);
	if (why)
		return fail(reader, DUMP_DAMAGED, 0, why);
	result = read_all(reader, reader->filter, header->header_bytes - sizeof(*header), &got);
	if (result != DUMP_BLOCK)
		return result;
	why = dump_header_check_sum(header, reader->filter);
	if (why)
		return fail(reader, DUMP_DAMAGED, 0, why);
	reader->before = header->sum;
	return DUMP_BLOCK;
}

/* Nothing may follow the end block. */
static enum dump_result end_check(struct dump_reader *reader, const struct dump_body *body,
				  uint64_t offset)
{
	const char *why = NULL;
	uint8_t byte;
	size_t got;

	if (!reader->skipped)
		why = dump_end_check(body->bytes, &reader->counts);
	if (why)
		return fail(reader, DUMP_DAMAGED, offset, why);
	memcpy(&reader->counts.missing, body->bytes + offsetof(struct dump_end, missing),
	       sizeof(reader->counts.missing));
	switch (read_all(reader, &byte, 1, &got)) {
	case DUMP_CUT:
		reader->why[0] = '\0';
		return DUMP_IS_DONE;
	case DUMP_BLOCK:
		return fail(reader, DUMP_DAMAGED, reader->offset - 1,
			    "there are bytes after the end of the dump");
	default:
		return DUMP_FAILED;
	}
}

enum dump_result dump_reader_next(struct dump_reader *reader, struct dump_body *body)
{
	const uint64_t offset = reader->offset;
	struct dump_block *block = &body->block;
	enum dump_result result;
	const char *why;
	size_t got, at;

	result = read_all(reader, block, sizeof(*block), &got);
	if (result != DUMP_BLOCK)
		return result;
	why = dump_block_check(block, offset, reader->before);
	if (why)
		return fail(reader, DUMP_DAMAGED, offset, why);
	if (reader->bytes && reader->bytes - reader->offset < block->bytes) {
		reader->offset = reader->bytes;
		return cut(reader);
	}
	if (!body_room(body, block->bytes)) {
		fail(reader, DUMP_FAILED, offset, "no memory for this block");
		errno = ENOMEM;
		return DUMP_FAILED;
	}
	result = read_all(reader, body->bytes, block->bytes, &got);
	if (result != DUMP_BLOCK)
		return result;
	why = dump_body_check(block, body->bytes, &reader->counts, &at);
	reader->before = block->sum;
	if (why && block->kind == DUMP_RECORDS) {
		reader->skipped++;
		return fail(reader, DUMP_SKIPPED, offset + sizeof(*block) + at, why);
	}
	if (why)
		return fail(reader, DUMP_DAMAGED, offset + sizeof(*block), why);
	return block->kind == DUMP_END ? end_check(reader, body, offset) : DUMP_BLOCK;
}

bool dump_reader_seek(struct dump_reader *reader, uint64_t offset, uint64_t before,
		      const struct dump_end *counts)
{
	if (lseek(reader->fd, (off_t)offset, SEEK_SET) < 0) {
		fail(reader, DUMP_FAILED, offset, strerror(errno));
		return false;
	}
	reader->offset = offset;
	reader->before = before;
	reader->counts = *counts;
	return true;
}
