/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of the reader of dumps: whatever is in a file, the reader neither leaves its memory
 * nor hands out a block that breaks the format's rules. A fuzzer can't guess sums, so each input is
 * read twice: as it is, and with the sums put right wherever a header or a record seems to be.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "client/kvctl/dump_reader.h"
#include "tests/fuzz/fuzz.h"

#define BYTES_MAX (1u << 16)

static int file = -1;

static void check_block(const struct dump_body *body)
{
	struct dump_entry entry;
	uint32_t records = 0;
	size_t at = 0;

	while (at < body->block.bytes) {
		dump_record_get(&entry, body->bytes, &at);
		must(entry.key_len >= 1 && entry.key_len <= KVD_KEY_MAX);
		must(entry.value_len <= KVD_VALUE_MAX);
		must(at <= body->block.bytes);
		touch(entry.key, entry.key_len);
		touch(entry.value, entry.value_len);
		records++;
	}
	must(records == body->block.records);
}

static void read_file(const uint8_t *data, size_t size)
{
	struct dump_body body = { 0 };
	struct dump_reader reader;
	struct dump_end counts = { 0 };
	enum dump_result result;

	must(!ftruncate(file, 0) && pwrite(file, data, size, 0) == (ssize_t)size);
	must(!lseek(file, 0, SEEK_SET));
	result = dump_reader_begin(&reader, file, "input");
	must(reader.header.prefix_len <= DUMP_FILTER_MAX || result != DUMP_BLOCK);
	while (result == DUMP_BLOCK || result == DUMP_SKIPPED) {
		result = dump_reader_next(&reader, &body);
		if (result != DUMP_BLOCK)
			continue;
		check_block(&body);
		counts.records += body.block.records;
		must(reader.offset <= size);
	}
	must(result == DUMP_IS_DONE ? !*reader.why : !!*reader.why);
	must(counts.records == reader.counts.records);
	dump_body_release(&body);
}

static void records_mend(uint8_t *body, size_t len)
{
	const size_t skip = sizeof(uint64_t);
	struct dump_record record;
	size_t at = 0, bytes;

	while (len - at >= sizeof(record)) {
		memcpy(&record, body + at, sizeof(record));
		bytes = sizeof(record) + record.key_len + (size_t)record.value_len;
		if (bytes > len - at)
			return;
		record.sum = dump_body_sum(body + at + skip, bytes - skip, NULL, 0);
		memcpy(body + at, &record, sizeof(record));
		at += bytes;
	}
}

static void blocks_mend(uint8_t *data, size_t size, size_t at, uint64_t before)
{
	struct dump_block block;

	while (size - at >= sizeof(block)) {
		memcpy(&block, data + at, sizeof(block));
		block.offset = at;
		block.before = before;
		if (block.bytes <= size - at - sizeof(block)) {
			records_mend(data + at + sizeof(block), block.bytes);
			block.body_sum = dump_body_sum(data + at + sizeof(block), block.bytes, NULL,
						       0);
		}
		dump_block_seal(&block);
		before = block.sum;
		memcpy(data + at, &block, sizeof(block));
		if (block.bytes > size - at - sizeof(block))
			return;
		at += sizeof(block) + block.bytes;
	}
}

static void mend(uint8_t *data, size_t size)
{
	struct dump_header header;

	if (size < sizeof(header))
		return;
	memcpy(&header, data, sizeof(header));
	if (sizeof(header) + header.prefix_len + header.match_len > size)
		return;
	dump_header_seal(&header, data + sizeof(header));
	memcpy(data, &header, sizeof(header));
	blocks_mend(data, size, header.header_bytes, header.sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (file < 0)
		file = memfd_create("dump", MFD_CLOEXEC);
	if (size > BYTES_MAX)
		return 0;
	read_file(data, size);
	copy = exact_copy(data, size);
	mend(copy, size);
	read_file(copy, size);
	free(copy);
	return 0;
}
