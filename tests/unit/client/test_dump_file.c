/* SPDX-License-Identifier: MIT */
/*
 * The format of dumps (client/kvctl/dump_file.h), its reader and its writer: what is written is
 * read; and a file that was cut at any byte, or has any bit flipped, never gives a record that was
 * not written, nor looks complete. The file that says how far a restore is, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/kvctl/dump_reader.h"
#include "client/kvctl/dump_writer.h"
#include "client/kvctl/restore_state.h"

#define INCARNATION 0x1122334455667788ull
#define CLOCK_NS 1700000000123456789ull
#define LARGE (3u << 20)

static char folder[] = "/tmp/test_dump.XXXXXX";
static char name[100], partial[120], state_name[120], state_new[140];

static struct dump_header header = {
	.incarnation = INCARNATION,
	.clock_ns = CLOCK_NS,
	.wall_ns = CLOCK_NS + 7,
	.prefix_len = 3,
	.match_len = 2,
};
static const uint8_t filter[] = "pre*x";
static uint8_t large[LARGE];

/* Record @n of those that the tests write: binary keys, values of 0 B and more. */
static struct dump_entry entry_of(unsigned int n, uint8_t *key)
{
	struct dump_entry entry = { .key = key, .key_len = 2 + n % 7, .value = large };

	memset(key, (int)n, entry.key_len);
	key[1] = 0;
	entry.value = large + n;
	entry.value_len = n * 3;
	entry.flags = n * 0x01010101;
	entry.expires_s = n % 2 ? 1800000000 + n : 0;
	return entry;
}

static void assert_entries_equal(const struct dump_entry *a, const struct dump_entry *b)
{
	assert_int_equal(a->key_len, b->key_len);
	assert_int_equal(a->value_len, b->value_len);
	assert_memory_equal(a->key, b->key, a->key_len);
	assert_memory_equal(a->value, b->value, a->value_len);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->expires_s, b->expires_s);
}

/* Writes records @first to @last - 1, in blocks of at most @each. */
static void add(struct dump_writer *writer, unsigned int first, unsigned int last,
		unsigned int each)
{
	uint8_t key[KVD_KEY_MAX];

	for (unsigned int n = first; n < last; n++) {
		struct dump_entry entry = entry_of(n, key);

		writer->cursor = n;
		assert_int_equal(dump_writer_add(writer, &entry), 0);
		if ((n + 1) % each)
			continue;
		/* A value that is longer than a block. */
		writer->cursor = n + 1;
		entry = (struct dump_entry){
			.key = (const uint8_t *)"L",
			.key_len = 1,
			.value = large,
			.value_len = DUMP_BODY_BYTES,
		};
		assert_int_equal(dump_writer_add(writer, &entry), 0);
	}
}

static int fresh(void **state)
{
	(void)state;
	unlink(name);
	unlink(partial);
	return 0;
}

static struct dump_writer *begin(struct dump_writer *writer)
{
	assert_int_equal(dump_writer_begin(writer, name, &header, filter), 0);
	writer->clock_ns = CLOCK_NS + 5;
	return writer;
}

static void end(struct dump_writer *writer)
{
	assert_int_equal(dump_writer_end(writer), 0);
	dump_writer_release(writer);
	assert_int_equal(access(partial, F_OK), -1);
	assert_int_equal(access(name, F_OK), 0);
}

static uint8_t *file_read(const char *from, size_t *len)
{
	const int fd = open(from, O_RDONLY);
	uint8_t *bytes;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	*len = (size_t)st.st_size;
	bytes = malloc(*len);
	assert_int_equal(read(fd, bytes, *len), *len);
	close(fd);
	return bytes;
}

/*
 * Reads a file of @bytes to where it ends or is bad, and checks that its records are a begin of
 * records 0, 1, ... Returns the last result. *@records: how many there were.
 */
static enum dump_result read_back(int fd, unsigned int *records, struct dump_reader *reader)
{
	struct dump_body body = { 0 };
	enum dump_result result = dump_reader_begin(reader, fd, "file");
	uint8_t key[KVD_KEY_MAX];

	*records = 0;
	while (result == DUMP_BLOCK && (result = dump_reader_next(reader, &body)) == DUMP_BLOCK) {
		for (size_t at = 0; at < body.block.bytes; ++*records) {
			struct dump_entry got, want = entry_of(*records, key);

			dump_record_get(&got, body.bytes, &at);
			assert_entries_equal(&got, &want);
		}
	}
	dump_body_release(&body);
	return result;
}

static void what_is_written_is_read(void **state)
{
	struct dump_body body = { 0 };
	struct dump_writer writer;
	struct dump_reader reader;
	struct dump_entry got, want;
	uint8_t key[KVD_KEY_MAX];
	unsigned int n = 0, blocks = 0;
	int fd;

	(void)state;
	add(begin(&writer), 0, 1000, 500);
	assert_int_equal(access(name, F_OK), -1);
	writer.counts.missing = 3;
	end(&writer);
	fd = open(name, O_RDONLY);
	assert_int_equal(dump_reader_begin(&reader, fd, name), DUMP_BLOCK);
	assert_int_equal(reader.header.incarnation, INCARNATION);
	assert_int_equal(reader.header.wall_ns, CLOCK_NS + 7);
	assert_memory_equal(reader.filter, filter, 5);
	while (dump_reader_next(&reader, &body) == DUMP_BLOCK) {
		assert_int_equal(body.block.clock_ns, CLOCK_NS + 5);
		blocks++;
		for (size_t at = 0; at < body.block.bytes;) {
			dump_record_get(&got, body.bytes, &at);
			if (got.value_len == DUMP_BODY_BYTES) {
				assert_int_equal(body.block.cursor, n);
				assert_int_equal(body.block.records, 1);
				continue;
			}
			assert_in_range(body.block.cursor, n, n + body.block.records);
			want = entry_of(n++, key);
			assert_entries_equal(&got, &want);
		}
	}
	assert_string_equal(reader.why, "");
	assert_int_equal(n, 1000);
	assert_int_equal(reader.counts.records, 1002);
	assert_int_equal(reader.counts.blocks, blocks);
	assert_int_equal(reader.counts.missing, 3);
	dump_body_release(&body);
	close(fd);
}

static void an_empty_dump(void **state)
{
	struct dump_writer writer;
	struct dump_reader reader;
	unsigned int records;
	int fd;

	(void)state;
	end(begin(&writer));
	fd = open(name, O_RDONLY);
	assert_int_equal(read_back(fd, &records, &reader), DUMP_IS_DONE);
	assert_int_equal(records, 0);
	close(fd);
}

/* The longest key, and a value of many blocks, which is not copied. */
static void long_keys_and_values(void **state)
{
	static uint8_t key[KVD_KEY_MAX];
	struct dump_entry want = { .key = key,
				   .key_len = KVD_KEY_MAX,
				   .value = large,
				   .value_len = LARGE },
			  got;
	struct dump_body body = { 0 };
	struct dump_writer writer;
	struct dump_reader reader;
	size_t at = 0;
	int fd;

	(void)state;
	begin(&writer);
	assert_int_equal(dump_writer_add(&writer, &want), 0);
	end(&writer);
	fd = open(name, O_RDONLY);
	assert_int_equal(dump_reader_begin(&reader, fd, name), DUMP_BLOCK);
	assert_int_equal(dump_reader_next(&reader, &body), DUMP_BLOCK);
	dump_record_get(&got, body.bytes, &at);
	assert_entries_equal(&got, &want);
	assert_int_equal(dump_reader_next(&reader, &body), DUMP_IS_DONE);
	dump_body_release(&body);
	close(fd);
}

/* A file of three small blocks, for the tests that damage it. */
static uint8_t *small_file(size_t *len)
{
	struct dump_writer writer;

	begin(&writer);
	for (unsigned int n = 0; n < 9; n += 3) {
		add(&writer, n, n + 3, 100);
		assert_int_equal(dump_writer_flush(&writer), 0);
	}
	end(&writer);
	return file_read(name, len);
}

static int memory_file(const uint8_t *bytes, size_t len)
{
	const int fd = memfd_create("dump", 0);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static void cut_at_every_byte(void **state)
{
	unsigned int records, last = 0;
	struct dump_reader reader;
	uint8_t *bytes;
	size_t len, i;
	int fd;

	(void)state;
	bytes = small_file(&len);
	for (i = 0; i < len; i++) {
		fd = memory_file(bytes, i);
		assert_int_equal(read_back(fd, &records, &reader), DUMP_CUT);
		assert_non_null(strstr(reader.why, "file, byte "));
		assert_true(records >= last);
		last = records;
		close(fd);
	}
	fd = memory_file(bytes, len);
	assert_int_equal(read_back(fd, &records, &reader), DUMP_IS_DONE);
	assert_int_equal(records, 9);
	assert_int_equal(last, 9);
	close(fd);
	free(bytes);
}

static void each_bit_flipped(void **state)
{
	struct dump_reader reader;
	enum dump_result result;
	unsigned int records;
	uint8_t *bytes;
	size_t len, i;
	int fd;

	(void)state;
	bytes = small_file(&len);
	for (i = 0; i < len * 8; i++) {
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		fd = memory_file(bytes, len);
		result = read_back(fd, &records, &reader);
		if (result != DUMP_DAMAGED && result != DUMP_SKIPPED && result != DUMP_CUT)
			fail_msg("bit %zu: result %d", i, result);
		close(fd);
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	free(bytes);
}

/* Also with good sums blocks stay where they were: none is lost, repeated or moved. */
static void blocks_in_another_order(void **state)
{
	struct dump_block first, second;
	struct dump_reader reader;
	unsigned int records;
	uint8_t *bytes;
	size_t len, at, one, two;
	int fd;

	(void)state;
	bytes = small_file(&len);
	at = sizeof(header) + 5;
	memcpy(&first, bytes + at, sizeof(first));
	one = sizeof(first) + first.bytes;
	memcpy(&second, bytes + at + one, sizeof(second));
	two = sizeof(second) + second.bytes;
	/* Without the first one. */
	memmove(bytes + at, bytes + at + one, len - at - one);
	fd = memory_file(bytes, len - one);
	assert_int_equal(read_back(fd, &records, &reader), DUMP_DAMAGED);
	assert_non_null(strstr(reader.why, "belongs to another place"));
	close(fd);
	/* The right offset, for comparison. */
	second.offset = at;
	dump_block_seal(&second);
	memcpy(bytes + at, &second, sizeof(second));
	fd = memory_file(bytes, at + two);
	assert_int_equal(read_back(fd, &records, &reader), DUMP_DAMAGED);
	assert_non_null(strstr(reader.why, "does not follow"));
	close(fd);
	free(bytes);
}

static void bytes_behind_the_end(void **state)
{
	struct dump_reader reader;
	unsigned int records;
	uint8_t *bytes;
	size_t len;
	int fd;

	(void)state;
	bytes = small_file(&len);
	bytes = realloc(bytes, len + 1);
	bytes[len] = 0;
	fd = memory_file(bytes, len + 1);
	assert_int_equal(read_back(fd, &records, &reader), DUMP_DAMAGED);
	assert_non_null(strstr(reader.why, "after the end"));
	close(fd);
	free(bytes);
}

/* A damaged body is told, and what follows it can be read. */
static void a_damaged_block_is_skipped(void **state)
{
	struct dump_body body = { 0 };
	struct dump_reader reader;
	uint8_t *bytes;
	size_t len;
	char where[40];
	int fd;

	(void)state;
	bytes = small_file(&len);
	bytes[sizeof(header) + 5 + sizeof(struct dump_block) + sizeof(struct dump_record)] ^= 1;
	fd = memory_file(bytes, len);
	assert_int_equal(dump_reader_begin(&reader, fd, "file"), DUMP_BLOCK);
	assert_int_equal(dump_reader_next(&reader, &body), DUMP_SKIPPED);
	snprintf(where, sizeof(where), "file, byte %zu: a record's sum",
		 sizeof(header) + 5 + sizeof(struct dump_block));
	assert_non_null(strstr(reader.why, where));
	assert_int_equal(dump_reader_next(&reader, &body), DUMP_BLOCK);
	assert_int_equal(dump_reader_next(&reader, &body), DUMP_BLOCK);
	assert_int_equal(dump_reader_next(&reader, &body), DUMP_IS_DONE);
	assert_int_equal(reader.skipped, 1);
	assert_int_equal(reader.counts.records, 6);
	dump_body_release(&body);
	close(fd);
	free(bytes);
}

/* A hostile file: right sums, but lengths that lead out of it. */
static void lengths_that_lie(void **state)
{
	struct {
		uint8_t *bytes;
		size_t len;
	} file;
	struct dump_record record;
	struct dump_block block;
	struct dump_reader reader;
	unsigned int records, i;
	const size_t at = sizeof(header) + 5;
	int fd;

	(void)state;
	file.bytes = small_file(&file.len);
	for (i = 0; i < 5; i++) {
		memcpy(&block, file.bytes + at, sizeof(block));
		if (i == 0)
			block.bytes = UINT32_MAX;
		if (i == 1)
			block.bytes = DUMP_RECORD_MAX, block.records = 1;
		if (i == 2)
			block.bytes = 0;
		if (i == 3)
			block.records = block.bytes;
		if (i == 4)
			block.kind = 3;
		dump_block_seal(&block);
		fd = memory_file(file.bytes, at);
		lseek(fd, 0, SEEK_END);
		assert_int_equal(write(fd, &block, sizeof(block)), sizeof(block));
		lseek(fd, 0, SEEK_SET);
		assert_int_equal(read_back(fd, &records, &reader),
				 i == 1 ? DUMP_CUT : DUMP_DAMAGED);
		close(fd);
	}
	/* A record that is longer than its block. */
	memcpy(&block, file.bytes + at, sizeof(block));
	memcpy(&record, file.bytes + at + sizeof(block), sizeof(record));
	record.value_len = KVD_VALUE_MAX;
	memcpy(file.bytes + at + sizeof(block), &record, sizeof(record));
	block.body_sum = dump_body_sum(file.bytes + at + sizeof(block), block.bytes, NULL, 0);
	dump_block_seal(&block);
	memcpy(file.bytes + at, &block, sizeof(block));
	fd = memory_file(file.bytes, file.len);
	assert_int_equal(read_back(fd, &records, &reader), DUMP_SKIPPED);
	assert_non_null(strstr(reader.why, "longer than its block"));
	assert_int_equal(records, 0);
	close(fd);
	free(file.bytes);
}

#define REFUSED(why, expected)                                                                     \
	do {                                                                                       \
		const char *text = why;                                                            \
		assert_non_null(text);                                                             \
		if (!strstr(text, expected))                                                       \
			fail_msg("'%s', not '%s'", text, expected);                                \
	} while (0)

/* What sums do not find, since whoever wrote it made them: each field alone. */
static void header_fields(void **state)
{
	struct dump_header good = header, bad;
	static uint8_t filters[2 * DUMP_FILTER_MAX];

	(void)state;
	good.prefix_len = good.match_len = DUMP_FILTER_MAX;
	dump_header_seal(&good, filters);
	assert_null(dump_header_check_lengths(&good));
	bad = good;
	bad.magic[7]++;
	REFUSED(dump_header_check_lengths(&bad), "not a dump of kvd");
	bad = good;
	bad.version++;
	REFUSED(dump_header_check_lengths(&bad), "another version");
	bad = good;
	bad.prefix_len++, bad.header_bytes++;
	REFUSED(dump_header_check_lengths(&bad), "lengths");
	bad = good;
	bad.match_len++, bad.header_bytes++;
	REFUSED(dump_header_check_lengths(&bad), "lengths");
	bad = good;
	bad.header_bytes++;
	REFUSED(dump_header_check_lengths(&bad), "lengths");
	bad = good;
	bad.reserved = 1;
	REFUSED(dump_header_check_lengths(&bad), "reserved");
}

static const char *sealed_check(struct dump_block block)
{
	dump_block_seal(&block);
	return dump_block_check(&block, 0, 0);
}

static void block_fields(void **state)
{
	struct dump_block block = { .kind = DUMP_END, .bytes = sizeof(struct dump_end) };

	(void)state;
	assert_null(sealed_check(block));
	block.reserved = 1;
	REFUSED(sealed_check(block), "reserved");
	block.reserved = 0;
	block.records = 1;
	REFUSED(sealed_check(block), "end's length");
	block.records = 0;
	block.bytes++;
	REFUSED(sealed_check(block), "end's length");
	block = (struct dump_block){ .kind = DUMP_RECORDS };
	REFUSED(sealed_check(block), "length is out of range");
	block.bytes = 2 * DUMP_RECORD_MIN;
	block.records = 2;
	assert_null(sealed_check(block));
	block.bytes--;
	REFUSED(sealed_check(block), "length is out of range");
	block.bytes = DUMP_BODY_MAX;
	assert_null(sealed_check(block));
	block.bytes++;
	REFUSED(sealed_check(block), "length is out of range");
	block.records = 1;
	block.bytes = DUMP_RECORD_MAX;
	assert_null(sealed_check(block));
	block.bytes++;
	REFUSED(sealed_check(block), "length is out of range");
	dump_block_seal(&block);
	block.magic++;
	REFUSED(dump_block_check(&block, 0, 0), "no block");
}

/* Checks a body of @len bytes that begins with @record; its sums are right. */
static const char *record_check(struct dump_record record, size_t len)
{
	static uint8_t body[sizeof(record) + KVD_KEY_MAX + 1];
	struct dump_block block = { .kind = DUMP_RECORDS, .bytes = (uint32_t)len, .records = 1 };
	struct dump_end counts = { 0 };
	size_t at, sum_len = sizeof(record) + record.key_len + record.value_len;

	memcpy(body, &record, sizeof(record));
	if (sum_len <= sizeof(body))
		record.sum = dump_body_sum(body + 8, sum_len - 8, NULL, 0);
	memcpy(body, &record, sizeof(record));
	block.body_sum = dump_body_sum(body, len, NULL, 0);
	return dump_body_check(&block, body, &counts, &at);
}

static void record_fields(void **state)
{
	const size_t size = sizeof(struct dump_record);

	(void)state;
	assert_null(record_check((struct dump_record){ .key_len = 1 }, size + 1));
	assert_null(
		record_check((struct dump_record){ .key_len = KVD_KEY_MAX }, size + KVD_KEY_MAX));
	REFUSED(record_check((struct dump_record){ .key_len = 1 }, size - 1), "is cut");
	REFUSED(record_check((struct dump_record){ .key_len = 1 }, size), "longer than its block");
	REFUSED(record_check((struct dump_record){ .key_len = 0 }, size), "out of range");
	REFUSED(record_check((struct dump_record){ .key_len = KVD_KEY_MAX + 1 },
			     size + KVD_KEY_MAX + 1),
		"out of range");
	REFUSED(record_check((struct dump_record){ .key_len = 1, .value_len = KVD_VALUE_MAX + 1 },
			     size + 1),
		"out of range");
	REFUSED(record_check((struct dump_record){ .key_len = 1, .reserved = 1 }, size + 1),
		"reserved");
}

static void counts_at_the_end(void **state)
{
	struct dump_end good = { 1, 2, 3, 4, 0 }, bad;
	uint8_t body[sizeof(good)];

	(void)state;
	memcpy(body, &good, sizeof(good));
	assert_null(dump_end_check(body, &good));
	for (unsigned int i = 0; i < 4; i++) {
		bad = good;
		(&bad.blocks)[i]++;
		REFUSED(dump_end_check(body, &bad), "counts");
	}
}

/* Interrupted at any byte, with noise of a crash after it, and gone on with. */
static void resumed_at_every_byte(void **state)
{
	struct dump_header same = header;
	struct dump_writer writer;
	struct dump_reader reader;
	unsigned int records;
	uint8_t *bytes;
	size_t len, i;
	int fd, err;

	(void)state;
	bytes = small_file(&len);
	for (i = 0; i <= len; i++) {
		fd = open(partial, O_CREAT | O_TRUNC | O_WRONLY, 0600);
		assert_int_equal(write(fd, bytes, i), i);
		/* More than what is written over it, so that it has to be cut off. */
		assert_int_equal(write(fd, large, 2 * len), 2 * len);
		close(fd);
		same = header;
		err = dump_writer_resume(&writer, name, &same, filter);
		if (i < sizeof(header) + 5) {
			assert_int_equal(err, -EINVAL);
			dump_writer_release(&writer);
			continue;
		}
		assert_int_equal(err, 0);
		assert_int_equal(writer.counts.records % 3, 0);
		/* Of the last block that is there. */
		assert_int_equal(writer.cursor,
				 writer.counts.records ? writer.counts.records - 1 : 0);
		add(&writer, (unsigned int)writer.counts.records, 9, 100);
		end(&writer);
		fd = open(name, O_RDONLY);
		assert_int_equal(read_back(fd, &records, &reader), DUMP_IS_DONE);
		assert_int_equal(records, 9);
		close(fd);
	}
	free(bytes);
}

static void what_can_not_be_resumed(void **state)
{
	struct dump_header other = header;
	struct dump_writer writer, second;

	(void)state;
	assert_int_equal(dump_writer_resume(&writer, name, &other, filter), -ENOENT);
	assert_non_null(strstr(writer.why, partial));
	dump_writer_release(&writer);

	begin(&writer);
	assert_int_equal(dump_writer_begin(&second, name, &header, filter), -EBUSY);
	assert_non_null(strstr(second.why, "another kvctl"));
	dump_writer_release(&second);
	dump_writer_release(&writer);

	other.incarnation++;
	assert_int_equal(dump_writer_resume(&writer, name, &other, filter), -EINVAL);
	assert_non_null(strstr(writer.why, "the server has restarted"));
	dump_writer_release(&writer);
	other = header;
	assert_int_equal(dump_writer_resume(&writer, name, &other, (const uint8_t *)"prf*x"),
			 -EINVAL);
	assert_non_null(strstr(writer.why, "another prefix"));
	dump_writer_release(&writer);
}

/* The file that it leads to is replaced, whether it is there or not yet; the link stays. */
static void a_link_stays(void **state)
{
	char link[120], far[140];
	struct dump_writer writer;
	struct stat now;

	(void)state;
	snprintf(link, sizeof(link), "%s.link", name);
	snprintf(far, sizeof(far), "%s.far", name);
	assert_int_equal(symlink("dump", link), 0);
	assert_int_equal(symlink(link, far), 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(dump_writer_begin(&writer, far, &header, filter), 0);
		assert_string_equal(writer.partial, partial);
		end(&writer);
		assert_int_equal(lstat(far, &now), 0);
		assert_true(S_ISLNK(now.st_mode));
		assert_int_equal(lstat(link, &now), 0);
		assert_true(S_ISLNK(now.st_mode));
		assert_int_equal(lstat(name, &now), 0);
		assert_true(S_ISREG(now.st_mode));
	}
	unlink(far);
	unlink(link);
	assert_int_equal(symlink("dump.link", link), 0);
	assert_int_equal(dump_writer_begin(&writer, link, &header, filter), -ELOOP);
	dump_writer_release(&writer);
	unlink(link);
}

/* A file that was removed has no name, at which another one could take its place. */
static void a_file_without_a_name(void **state)
{
	const int fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	struct dump_writer writer;
	char path[64];

	(void)state;
	assert_true(fd >= 0);
	unlink(name);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(dump_writer_begin(&writer, path, &header, filter), -EINVAL);
	assert_non_null(strstr(writer.why, "a file without a name"));
	dump_writer_release(&writer);
	close(fd);
}

/* No file with the final name, and the error says which file could not be written. */
static void a_full_disk(void **state)
{
	struct rlimit old, small = { 0 };
	struct dump_writer writer;
	int err = 0;

	(void)state;
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	small.rlim_cur = DUMP_BODY_BYTES / 2;
	begin(&writer);
	setrlimit(RLIMIT_FSIZE, &small);
	for (unsigned int n = 0; n < 1000 && !err; n++) {
		struct dump_entry entry = {
			.key = large, .key_len = 5, .value = large, .value_len = 1000
		};

		err = dump_writer_add(&writer, &entry);
	}
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(err, -EFBIG);
	assert_non_null(strstr(writer.why, partial));
	dump_writer_release(&writer);
	assert_int_equal(access(name, F_OK), -1);
}

static struct restore_state state_at(uint64_t offset)
{
	return (struct restore_state){ .dump = 1, .incarnation = INCARNATION, .offset = offset };
}

static void assert_state_is_at(uint64_t offset)
{
	struct restore_state read;

	assert_int_equal(restore_state_read(name, &read), 0);
	assert_int_equal(read.offset, offset);
	assert_int_equal(access(state_new, F_OK), -1);
}

/* However little of it is written, the one before stays, and nothing is left of it. */
static void a_state_is_whole(void **state)
{
	struct restore_state one = state_at(1), two = state_at(2), none;
	int before = dup(0), after;
	struct rlimit old, small;

	(void)state;
	close(before);
	assert_int_equal(restore_state_read(name, &none), -ENOENT);
	assert_int_equal(restore_state_write(name, &one), 0);
	assert_state_is_at(1);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	for (size_t bytes = 0; bytes < sizeof(two); bytes++) {
		small.rlim_cur = bytes;
		setrlimit(RLIMIT_FSIZE, &small);
		assert_in_range(-restore_state_write(name, &two), 1, 4095);
		setrlimit(RLIMIT_FSIZE, &old);
		assert_state_is_at(1);
	}
	assert_int_equal(restore_state_write(name, &two), 0);
	assert_state_is_at(2);
	for (size_t bytes = 0; bytes < sizeof(two); bytes++) {
		assert_int_equal(restore_state_write(name, &two), 0);
		assert_int_equal(truncate(state_name, (off_t)bytes), 0);
		none = two; /* what is missing would fit */
		assert_int_equal(restore_state_read(name, &none), -EINVAL);
	}
	restore_state_remove(name);
	assert_int_equal(restore_state_read(name, &none), -ENOENT);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
}

static int group_setup(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	for (unsigned int i = 0; i < LARGE; i++)
		large[i] = (uint8_t)(i * 2654435761u >> 13);
	if (!mkdtemp(folder))
		return -1;
	snprintf(name, sizeof(name), "%s/dump", folder);
	snprintf(partial, sizeof(partial), "%s" DUMP_PARTIAL, name);
	snprintf(state_name, sizeof(state_name), "%s" RESTORE_SUFFIX, name);
	snprintf(state_new, sizeof(state_new), "%s.new", state_name);
	return 0;
}

static int group_teardown(void **state)
{
	fresh(state);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_written_is_read, fresh),
		cmocka_unit_test_setup(an_empty_dump, fresh),
		cmocka_unit_test_setup(long_keys_and_values, fresh),
		cmocka_unit_test_setup(cut_at_every_byte, fresh),
		cmocka_unit_test_setup(each_bit_flipped, fresh),
		cmocka_unit_test_setup(blocks_in_another_order, fresh),
		cmocka_unit_test_setup(bytes_behind_the_end, fresh),
		cmocka_unit_test_setup(a_damaged_block_is_skipped, fresh),
		cmocka_unit_test_setup(lengths_that_lie, fresh),
		cmocka_unit_test(header_fields),
		cmocka_unit_test(block_fields),
		cmocka_unit_test(record_fields),
		cmocka_unit_test(counts_at_the_end),
		cmocka_unit_test_setup(resumed_at_every_byte, fresh),
		cmocka_unit_test_setup(what_can_not_be_resumed, fresh),
		cmocka_unit_test_setup(a_link_stays, fresh),
		cmocka_unit_test_setup(a_file_without_a_name, fresh),
		cmocka_unit_test_setup(a_full_disk, fresh),
		cmocka_unit_test_setup(a_state_is_whole, fresh),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
