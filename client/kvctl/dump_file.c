/* SPDX-License-Identifier: MIT */
/* The format of dumps: see dump_file.h. */
#include "client/kvctl/dump_file.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t dump_body_sum(const void *head, size_t head_len, const void *value, size_t value_len)
{
	XXH3_state_t state;

	if (!value_len)
		return XXH3_64bits(head, head_len);
	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, head, head_len);
	XXH3_64bits_update(&state, value, value_len);
	return XXH3_64bits_digest(&state);
}

static uint64_t header_sum(const struct dump_header *header, const uint8_t *filter)
{
	return dump_body_sum(header, offsetof(struct dump_header, sum), filter,
			     (size_t)header->prefix_len + header->match_len);
}

void dump_header_seal(struct dump_header *header, const uint8_t *filter)
{
	memcpy(header->magic, DUMP_MAGIC, sizeof(header->magic));
	header->version = DUMP_VERSION;
	header->header_bytes = (uint32_t)sizeof(*header) + header->prefix_len + header->match_len;
	header->sum = header_sum(header, filter);
}

void dump_block_seal(struct dump_block *block)
{
	block->magic = DUMP_BLOCK_MAGIC;
	block->sum = XXH3_64bits(block, offsetof(struct dump_block, sum));
}

static uint64_t record_sum(const uint8_t *record, size_t head_len, const uint8_t *value,
			   size_t value_len)
{
	const size_t skip = sizeof(uint64_t);

	return dump_body_sum(record + skip, head_len - skip, value, value_len);
}

size_t dump_record_put(uint8_t *to, const struct dump_entry *entry)
{
	struct dump_record record = {
		.value_len = entry->value_len,
		.flags = entry->flags,
		.expires_s = entry->expires_s,
		.key_len = (uint16_t)entry->key_len,
	};
	const size_t head_len = sizeof(record) + entry->key_len;

	memcpy(to, &record, sizeof(record));
	memcpy(to + sizeof(record), entry->key, entry->key_len);
	record.sum = record_sum(to, head_len, entry->value, entry->value_len);
	memcpy(to, &record.sum, sizeof(record.sum));
	return head_len;
}

const char *dump_header_check_lengths(const struct dump_header *header)
{
	if (memcmp(header->magic, DUMP_MAGIC, sizeof(header->magic)) != 0)
		return "this is not a dump of kvd";
	if (header->version != DUMP_VERSION)
		return "this dump has another version of the format; use the kvctl that wrote it, "
		       "or a newer one";
	if (header->prefix_len > DUMP_FILTER_MAX || header->match_len > DUMP_FILTER_MAX ||
	    header->header_bytes !=
		    sizeof(*header) + (size_t)header->prefix_len + header->match_len)
		return "the header's lengths are wrong";
	return header->reserved ? "a reserved field of the header is not 0" : NULL;
}

const char *dump_header_check_sum(const struct dump_header *header, const uint8_t *filter)
{
	return header_sum(header, filter) == header->sum ? NULL : "the header's sum is wrong";
}

static const char *block_lengths_check(const struct dump_block *block)
{
	if (block->kind == DUMP_END)
		return block->bytes != sizeof(struct dump_end) || block->records ?
			       "the end's length is wrong" :
			       NULL;
	if (block->kind != DUMP_RECORDS)
		return "a block's kind is unknown";
	if (!block->records || block->bytes / DUMP_RECORD_MIN < block->records ||
	    block->bytes > DUMP_RECORD_MAX || (block->records > 1 && block->bytes > DUMP_BODY_MAX))
		return "a block's length is out of range";
	return NULL;
}

const char *dump_block_check(const struct dump_block *block, uint64_t offset, uint64_t before)
{
	if (block->magic != DUMP_BLOCK_MAGIC)
		return "no block begins here";
	if (XXH3_64bits(block, offsetof(struct dump_block, sum)) != block->sum)
		return "a block header's sum is wrong";
	if (block->reserved)
		return "a reserved field of a block is not 0";
	if (block->offset != offset)
		return "this block belongs to another place";
	if (block->before != before)
		return "this block does not follow the one before it";
	return block_lengths_check(block);
}

/* Decodes without trusting the lengths. Returns NULL, or what is wrong. */
static const char *record_check(struct dump_entry *entry, const uint8_t *body, size_t len,
				size_t *at)
{
	const uint8_t *from = body + *at;
	struct dump_record record;
	size_t head_len;

	if (len - *at < sizeof(record))
		return "a record is cut";
	memcpy(&record, from, sizeof(record));
	head_len = sizeof(record) + record.key_len;
	if (!record.key_len || record.key_len > KVD_KEY_MAX || record.value_len > KVD_VALUE_MAX)
		return "a record's lengths are out of range";
	if (len - *at < head_len + record.value_len)
		return "a record is longer than its block";
	if (record.sum != record_sum(from, head_len, from + head_len, record.value_len))
		return "a record's sum is wrong";
	if (record.reserved)
		return "a reserved field of a record is not 0";
	dump_record_get(entry, body, at);
	return NULL;
}

const char *dump_body_check(const struct dump_block *block, const uint8_t *body,
			    struct dump_end *counts, size_t *at)
{
	struct dump_end more = *counts;
	const char *why = NULL;
	struct dump_entry entry;
	uint32_t records = 0;

	*at = 0;
	while (block->kind == DUMP_RECORDS && !why && *at < block->bytes) {
		why = record_check(&entry, body, block->bytes, at);
		if (why)
			break;
		records++;
		more.records++;
		more.key_bytes += entry.key_len;
		more.value_bytes += entry.value_len;
	}
	if (!why && records != block->records)
		why = "a block's number of records is wrong";
	if (!why && dump_body_sum(body, block->bytes, NULL, 0) != block->body_sum)
		why = "a block's sum is wrong";
	if (why)
		return why;
	more.blocks += block->kind == DUMP_RECORDS;
	*counts = more;
	return NULL;
}

const char *dump_end_check(const uint8_t *body, const struct dump_end *counts)
{
	struct dump_end end;

	memcpy(&end, body, sizeof(end));
	if (end.blocks != counts->blocks || end.records != counts->records ||
	    end.key_bytes != counts->key_bytes || end.value_bytes != counts->value_bytes)
		return "the counts at the end do not match the file";
	return NULL;
}

void dump_record_get(struct dump_entry *entry, const uint8_t *body, size_t *at)
{
	struct dump_record record;

	memcpy(&record, body + *at, sizeof(record));
	*entry = (struct dump_entry){
		.key = body + *at + sizeof(record),
		.key_len = record.key_len,
		.value = body + *at + sizeof(record) + record.key_len,
		.value_len = record.value_len,
		.flags = record.flags,
		.expires_s = record.expires_s,
	};
	*at += sizeof(record) + record.key_len + record.value_len;
}
