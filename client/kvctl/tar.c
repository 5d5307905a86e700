/* SPDX-License-Identifier: MIT */
/* Writes tar archives: see tar.h. */
#include "client/kvctl/tar.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#define BLOCK_BYTES 512u
/* zlib takes an unsigned int. */
#define PART_BYTES (1u << 20)

/* As POSIX has it: numbers are octal, with a zero after them. */
struct tar_head {
	char name[TAR_NAME_BYTES];
	char mode[8], uid[8], gid[8], size[12], mtime[12], sum[8];
	char type;
	char link[100];
	char magic[6], version[2];
	char rest[247];
};
static_assert(sizeof(struct tar_head) == BLOCK_BYTES, "a block");

bool tar_open(struct tar *tar, int fd, time_t time)
{
	*tar = (struct tar){ .gz = gzdopen(fd, "wb"), .time = time };
	return tar->gz;
}

static void bytes_write(struct tar *tar, const char *bytes, size_t len)
{
	for (size_t at = 0, part; at < len && !tar->failed; at += part) {
		part = len - at < PART_BYTES ? len - at : PART_BYTES;
		tar->failed = gzwrite(tar->gz, bytes + at, (unsigned int)part) != (int)part;
	}
}

/* The sum is that of all bytes, with blanks in its own place. */
static void head_sum(struct tar_head *head)
{
	const unsigned char *bytes = (const unsigned char *)head;
	unsigned int sum = 0;

	memset(head->sum, ' ', sizeof(head->sum));
	for (size_t i = 0; i < sizeof(*head); i++)
		sum += bytes[i];
	snprintf(head->sum, sizeof(head->sum), "%06o", sum);
}

void tar_add(struct tar *tar, const char *name, const char *text, size_t len)
{
	static const char zeros[BLOCK_BYTES];
	struct tar_head head = { .type = '0', .magic = "ustar", .version = { '0', '0' } };

	snprintf(head.name, sizeof(head.name), "%s", name);
	snprintf(head.mode, sizeof(head.mode), "%07o", 0600u);
	snprintf(head.uid, sizeof(head.uid), "%07o", 0u);
	snprintf(head.gid, sizeof(head.gid), "%07o", 0u);
	snprintf(head.size, sizeof(head.size), "%011zo", len);
	snprintf(head.mtime, sizeof(head.mtime), "%011llo", (unsigned long long)tar->time);
	head_sum(&head);
	bytes_write(tar, (const char *)&head, sizeof(head));
	bytes_write(tar, text, len);
	if (len % BLOCK_BYTES)
		bytes_write(tar, zeros, BLOCK_BYTES - len % BLOCK_BYTES);
}

bool tar_close(struct tar *tar)
{
	static const char end[2 * BLOCK_BYTES];
	int status;

	bytes_write(tar, end, sizeof(end));
	errno = 0;
	status = gzclose(tar->gz);
	if (status != Z_OK && !errno)
		errno = EIO;
	return status == Z_OK && !tar->failed;
}
