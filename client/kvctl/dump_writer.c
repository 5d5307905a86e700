/* SPDX-License-Identifier: MIT */
/* Writing dumps: see dump_writer.h. */
#include "client/kvctl/dump_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/kvctl/dump_reader.h"
#include "client/kvctl/interrupt.h"

#define LINKS_MAX 40 /* as the kernel */

static int fail(struct dump_writer *writer, const char *what, int err)
{
	const char *name = writer->partial ? writer->partial :
			   writer->name	   ? writer->name :
					     "the standard output";

	snprintf(writer->why, sizeof(writer->why), "can't %s %s: %s", what, name, strerror(err));
	return -err;
}

static int refuse(struct dump_writer *writer, const char *why)
{
	snprintf(writer->why, sizeof(writer->why), "%s: %s", writer->partial, why);
	return -EINVAL;
}

/* Changes @iov. */
static int write_all(struct dump_writer *writer, struct iovec *iov, int count)
{
	while (count) {
		ssize_t written;
		size_t n;

		/* A pipe that nobody reads would block for ever, and SIGINT comes once. */
		if (interrupted() && !writer->partial)
			return fail(writer, "write", EINTR);
		written = writev(writer->fd, iov, count);
		n = written < 0 ? 0 : (size_t)written;
		if (written < 0 && (errno != EINTR || interrupted()))
			return fail(writer, "write", errno);
		writer->offset += n;
		for (; count && n >= iov->iov_len; iov++, count--)
			n -= iov->iov_len;
		if (count) {
			iov->iov_base = (uint8_t *)iov->iov_base + n;
			iov->iov_len -= n;
		}
	}
	return 0;
}

/* Writes a block: the collected @head_len bytes of its body, followed by @value. */
static int block_write(struct dump_writer *writer, enum dump_kind kind, const void *value,
		       size_t value_len)
{
	struct dump_block *block = &writer->block;
	const size_t head_len = block->bytes;
	struct iovec iov[] = {
		{ block, sizeof(*block) },
		{ writer->body, head_len },
		{ (void *)(uintptr_t)value, value_len },
	};
	int err;

	block->kind = (uint16_t)kind;
	block->bytes += (uint32_t)value_len;
	block->offset = writer->offset;
	block->before = writer->before;
	block->cursor = writer->cursor;
	block->body_sum = dump_body_sum(writer->body, head_len, value, value_len);
	if (!block->clock_ns)
		block->clock_ns = writer->clock_ns;
	dump_block_seal(block);
	writer->before = block->sum;
	err = write_all(writer, iov, 3);
	*block = (struct dump_block){ 0 };
	return err;
}

int dump_writer_flush(struct dump_writer *writer)
{
	if (!writer->block.records)
		return 0;
	writer->counts.blocks++;
	return block_write(writer, DUMP_RECORDS, NULL, 0);
}

/* A value that is longer than a block is not copied. */
int dump_writer_add(struct dump_writer *writer, const struct dump_entry *entry)
{
	const size_t bytes = sizeof(struct dump_record) + entry->key_len + entry->value_len;
	const bool alone = bytes > DUMP_BODY_BYTES;
	struct dump_block *block = &writer->block;
	int err;

	if (block->bytes + bytes > DUMP_BODY_BYTES) {
		err = dump_writer_flush(writer);
		if (err)
			return err;
	}
	if (!block->clock_ns)
		block->clock_ns = writer->clock_ns;
	block->bytes += (uint32_t)dump_record_put(writer->body + block->bytes, entry);
	block->records++;
	writer->counts.records++;
	writer->counts.key_bytes += entry->key_len;
	writer->counts.value_bytes += entry->value_len;
	if (alone) {
		writer->counts.blocks++;
		return block_write(writer, DUMP_RECORDS, entry->value, entry->value_len);
	}
	if (entry->value_len)
		memcpy(writer->body + block->bytes, entry->value, entry->value_len);
	block->bytes += entry->value_len;
	return 0;
}

static int writer_init(struct dump_writer *writer, const char *name)
{
	*writer = (struct dump_writer){ .name = name, .fd = -1 };
	writer->body = malloc(DUMP_BODY_BYTES);
	return writer->body ? 0 : fail(writer, "begin", ENOMEM);
}

/* Opens and locks the partial file: only one process at a time may write it. */
static int partial_open(struct dump_writer *writer, int flags)
{
	writer->fd = open(writer->partial, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (writer->fd < 0)
		return fail(writer, "open", errno);
	if (!flock(writer->fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK)
		return fail(writer, "lock", errno);
	refuse(writer, "another kvctl writes this dump");
	return -EBUSY;
}

/* The file that @name's symbolic links lead to; it need not exist. NULL: errno says why. */
static char *links_follow(const char *name)
{
	char *path = strdup(name), to[PATH_MAX];

	for (int links = 0; path; links++) {
		const ssize_t length = readlink(path, to, sizeof(to) - 1);
		char *next = NULL;

		if (length < 0)
			return path;
		to[length] = '\0';
		if (links == LINKS_MAX)
			errno = ELOOP;
		else if (*to == '/')
			next = strdup(to);
		else if (asprintf(&next, "%s/%s", dirname(path), to) < 0)
			next = NULL;
		free(path);
		path = next;
	}
	return NULL;
}

static int direct_open(struct dump_writer *writer)
{
	writer->fd = open(writer->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (writer->fd < 0)
		return fail(writer, "open", errno);
	if (!isatty(writer->fd))
		return 0;
	snprintf(writer->why, sizeof(writer->why), "%s is a terminal: name a file", writer->name);
	return -EINVAL;
}

/* Opens the partial file that will replace a regular file. @now: that file's status, or NULL. */
static int file_open(struct dump_writer *writer, const struct stat *now, int flags)
{
	struct stat end;

	writer->final = links_follow(writer->name);
	if (!writer->final)
		return fail(writer, "find", errno);
	/* Links of /proc lead to files that may have no name. */
	if (now &&
	    (stat(writer->final, &end) || end.st_dev != now->st_dev || end.st_ino != now->st_ino)) {
		snprintf(writer->why, sizeof(writer->why),
			 "%s is a file without a name: write to it by kvctl dump - >%s",
			 writer->name, writer->name);
		return -EINVAL;
	}
	if (asprintf(&writer->partial, "%s" DUMP_PARTIAL, writer->final) < 0) {
		writer->partial = NULL;
		return fail(writer, "open", ENOMEM);
	}
	return partial_open(writer, flags);
}

/* Anything but a regular file is written directly, by a new dump, and not replaced. */
static int target_open(struct dump_writer *writer, bool is_new)
{
	struct stat now;
	const bool there = !stat(writer->name, &now);

	if (!there || S_ISREG(now.st_mode))
		return file_open(writer, there ? &now : NULL, is_new ? O_CREAT : 0);
	if (is_new && !S_ISDIR(now.st_mode))
		return direct_open(writer);
	snprintf(writer->why, sizeof(writer->why),
		 is_new ? "%s is a folder: name a file in it" :
			  "%s is not a regular file: a dump to it can't be resumed",
		 writer->name);
	return -EINVAL;
}

int dump_writer_begin(struct dump_writer *writer, const char *name,
		      const struct dump_header *header, const uint8_t *filter)
{
	struct dump_header sealed = *header;
	struct iovec iov[2];
	int err = writer_init(writer, name);

	if (!err && !name)
		writer->fd = STDOUT_FILENO;
	else if (!err)
		err = target_open(writer, true);
	if (!err && writer->partial && ftruncate(writer->fd, 0))
		err = fail(writer, "empty", errno);
	if (err)
		return err;
	dump_header_seal(&sealed, filter);
	writer->before = sealed.sum;
	iov[0] = (struct iovec){ &sealed, sizeof(sealed) };
	iov[1] = (struct iovec){ (void *)(uintptr_t)filter, sealed.header_bytes - sizeof(sealed) };
	return write_all(writer, iov, 2);
}

static bool same_dump(const struct dump_reader *reader, const struct dump_header *header,
		      const uint8_t *filter)
{
	return reader->header.prefix_len == header->prefix_len &&
	       reader->header.match_len == header->match_len &&
	       !memcmp(reader->filter, filter, (size_t)header->prefix_len + header->match_len);
}

/* Finds the last good block, and truncates the file after it. */
static int partial_read(struct dump_writer *writer, struct dump_reader *reader,
			struct dump_header *header, const uint8_t *filter)
{
	struct dump_body body = { 0 };
	uint64_t offset;

	if (dump_reader_begin(reader, writer->fd, writer->partial) != DUMP_BLOCK) {
		snprintf(writer->why, sizeof(writer->why),
			 "%s; start the dump again without --resume; nothing is lost", reader->why);
		return -EINVAL;
	}
	if (reader->header.incarnation != header->incarnation)
		return refuse(writer,
			      "the server has restarted since this dump began, or it is another "
			      "one: start again without --resume");
	if (!same_dump(reader, header, filter))
		return refuse(writer, "this dump began with another prefix or pattern: give the "
				      "same, or start again without --resume");
	do {
		offset = reader->offset;
		writer->before = reader->before;
		writer->counts = reader->counts;
		if (offset > reader->header.header_bytes)
			writer->cursor = body.block.cursor;
	} while (dump_reader_next(reader, &body) == DUMP_BLOCK);
	dump_body_release(&body);
	writer->counts.missing = 0;
	writer->offset = offset;
	*header = reader->header;
	if (ftruncate(writer->fd, (off_t)offset) || lseek(writer->fd, (off_t)offset, SEEK_SET) < 0)
		return fail(writer, "cut", errno);
	return 0;
}

int dump_writer_resume(struct dump_writer *writer, const char *name, struct dump_header *header,
		       const uint8_t *filter)
{
	struct dump_reader *reader;
	int err = writer_init(writer, name);

	if (!err)
		err = target_open(writer, false);
	if (err)
		return err;
	reader = malloc(sizeof(*reader));
	if (!reader)
		return fail(writer, "read", ENOMEM);
	err = partial_read(writer, reader, header, filter);
	free(reader);
	return err;
}

/* The name must be on the disk, too. */
static int folder_sync(struct dump_writer *writer)
{
	char *copy = strdup(writer->final);
	int fd, err = 0;

	if (!copy)
		return fail(writer, "rename", ENOMEM);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	if (fd < 0)
		return fail(writer, "open the folder of", errno);
	if (fsync(fd) && errno != EINVAL)
		err = fail(writer, "sync the folder of", errno);
	close(fd);
	return err;
}

int dump_writer_end(struct dump_writer *writer)
{
	int err = dump_writer_flush(writer);

	if (err)
		return err;
	memcpy(writer->body, &writer->counts, sizeof(writer->counts));
	writer->block.bytes = sizeof(writer->counts);
	err = block_write(writer, DUMP_END, NULL, 0);
	if (err || !writer->final)
		return err;
	if (fsync(writer->fd))
		return fail(writer, "sync", errno);
	if (rename(writer->partial, writer->final))
		return fail(writer, "rename", errno);
	return folder_sync(writer);
}

void dump_writer_release(struct dump_writer *writer)
{
	if (writer->name && writer->fd >= 0)
		close(writer->fd);
	free(writer->final);
	free(writer->partial);
	free(writer->body);
}
