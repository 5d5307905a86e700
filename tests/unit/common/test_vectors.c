/* SPDX-License-Identifier: MIT */
/*
 * Tests of the protocol documents against the code: every number, every table of fields and every
 * test vector in common/PROTOCOL.md and common/rdma/softnic/PROTOCOL.md must match the code, byte
 * by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/fleet/map.h"
#include "common/rdma/softnic/cm.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/send_queue.h"
#include "common/rdma/softnic/timer.h"
#include "common/sum.h"
#include "common/wire.h"
#include "server/config/option_table.h"
#include "server/store/chain.h"
#include "server/worker/answers.h"
#include "tests/support/vectors.h"

static const char *const paths[] = { "common/PROTOCOL.md", "common/rdma/softnic/PROTOCOL.md" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define F(type, member, text)                                                                      \
	{                                                                                          \
		text, offsetof(struct type, member), sizeof(((struct type *)0)->member)            \
	}
#define R(number, text)                                                                            \
	{                                                                                          \
		number, text                                                                       \
	}
#define FIELDS(anchor, type, ...)                                                                  \
	do {                                                                                       \
		static const struct field fields[] = { __VA_ARGS__ };                              \
		assert_fields(anchor, fields, COUNT(fields), sizeof(struct type));                 \
	} while (0)
#define ROWS(anchor, ...)                                                                          \
	do {                                                                                       \
		static const struct named rows[] = { __VA_ARGS__ };                                \
		assert_rows(anchor, rows, COUNT(rows));                                            \
	} while (0)

/* The limits of two options, from server/config/option_table.h. */
static uint64_t window_option_max, buffer_option_min, buffer_option_max;

static void options_load(void)
{
#define X(section, key, kind, change, preset, min, max, help)                                      \
	if (!strcmp(#key, "window"))                                                               \
		window_option_max = max;                                                           \
	if (!strcmp(#key, "buffer")) {                                                             \
		buffer_option_min = min;                                                           \
		buffer_option_max = max;                                                           \
	}
	OPTIONS_request(X)
#undef X
}

static void the_numbers_match_the_code(void **state)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{ "wire_abi", WIRE_ABI },
		{ "layout_abi", LAYOUT_ABI },
		{ "magic", WIRE_MAGIC },
		{ "region_magic", LAYOUT_MAGIC },
		{ "key_max", KEY_MAX },
		{ "value_max", VALUE_MAX },
		{ "item_short_max", ITEM_SHORT_MAX },
		{ "piece_bytes", PIECE_BYTES },
		{ "region_max", REGION_BYTES_MAX },
		{ "extents_max", EXTENTS_MAX },
		{ "region_pad", REGION_PAD },
		{ "response_min", WIRE_RESPONSE_MIN },
		{ "response_max", WIRE_RESPONSE_MAX },
		{ "request_min", WIRE_REQUEST_MIN },
		{ "request_max", WIRE_RESPONSE_MAX },
		{ "window_granted_max", window_option_max },
		{ "window_max", WIRE_WINDOW_MAX },
		{ "window_lapse_ms", WIRE_WINDOW_LAPSE_MS },
		{ "window_lapsed", WIRE_WINDOW_LAPSED },
		{ "access_max", WIRE_ACCESS_MAX },
		{ "access_rate_max", WIRE_ACCESS_RATE_MAX },
		{ "flushes_later_max", WIRE_FLUSHES_LATER_MAX },
		{ "flushes_owner_max", WIRE_FLUSHES_OWNER_MAX },
		{ "batch_max", WIRE_BATCH_MAX },
		{ "ttl_max", WIRE_TTL_MAX },
		{ "segments", SEGMENTS_MAX },
		{ "level_max", 32 }, /* geometry_check(): see the_geometry_matches_the_code */
		{ "chain_max", CHAIN_MAX },
		{ "map_magic", FLEET_MAP_MAGIC },
		{ "shards", FLEET_SHARDS },
		{ "members_max", FLEET_MEMBERS_MAX },
		{ "urls_max", FLEET_URLS_MAX },
		{ "epoch_max", FLEET_EPOCH_MAX },
		{ "no_owner", FLEET_NO_OWNER },
		{ "link_magic", LINK_MAGIC },
		{ "link_version", LINK_VERSION },
		{ "link_bytes", LINK_BYTES },
		{ "link_lines", LINK_LINES },
		{ "side_bytes", sizeof(struct link_side) },
		{ "ring_bytes", RING_BYTES },
		{ "ring_unit", RING_UNIT },
		{ "piece_max", LINK_PIECE_MAX },
		{ "fill_min", LINK_FILL_MIN },
		{ "message_max", SN_MESSAGE_MAX },
		{ "grants", LINK_GRANTS_MAX },
		{ "life_bytes", LINK_LIFE_BYTES },
		{ "life_mask", LINK_LIFE_MASK },
		{ "private_max", CM_PRIVATE_MAX_CONNECT },
		{ "half_open_max", SN_HALF_OPEN_MAX },
		{ "handshake_ms", SN_HANDSHAKE_MS },
		{ "connect_retry_ms", SN_RETRY_MS },
	};
	unsigned int i;

	(void)state;
	for (i = 0; i < COUNT(numbers); i++)
		assert_number(numbers[i].name, numbers[i].value);
	assert_int_equal(numbers_count(), COUNT(numbers));
	assert_true(buffer_option_min == WIRE_REQUEST_MIN);
	assert_true(buffer_option_max == WIRE_RESPONSE_MAX);
	assert_true(window_option_max <= WIRE_WINDOW_MAX);
}

static void the_tables_of_the_handshake_match_the_code(void **state)
{
	(void)state;
	FIELDS("**Connect request**", wire_connect, F(wire_connect, magic, "magic"),
	       F(wire_connect, abi, "ABI"), F(wire_connect, reserved, "reserved"),
	       F(wire_connect, tenant, "tenant"));
	FIELDS("**Reject**", wire_reject, F(wire_reject, magic, "magic"),
	       F(wire_reject, abi, "ABI"), F(wire_reject, reason, "reason"),
	       F(wire_reject, text, "text"));
	ROWS("| 16 | 96 | text |", R(WIRE_REJECT_VERSION, "version"), R(WIRE_REJECT_FULL, "full"),
	     R(WIRE_REJECT_STOPPING, "stopping"), R(WIRE_REJECT_ERROR, "error"),
	     R(WIRE_REJECT_USER, "user"), R(WIRE_REJECT_LIMIT, "limit"),
	     R(WIRE_REJECT_TENANT, "tenant"));
	FIELDS("### HELLO and welcome", wire_hello, F(wire_hello, magic, "magic"),
	       F(wire_hello, abi, "ABI"), F(wire_hello, response_bytes, "receive buffer"),
	       F(wire_hello, identity, "identity"), F(wire_hello, change_next, "next change"));
	FIELDS("has the *welcome* as its value", wire_welcome, F(wire_welcome, magic, "magic"),
	       F(wire_welcome, abi, "ABI"), F(wire_welcome, window, "window"),
	       F(wire_welcome, request_bytes, "request_bytes"), F(wire_welcome, extents, "extents"),
	       F(wire_welcome, region_addr, "address"), F(wire_welcome, by_request, "by request"),
	       F(wire_welcome, reserved, "reserved"), F(wire_welcome, access_rate, "access rate"),
	       F(wire_welcome, access_delay_ms, "access delay"),
	       F(wire_welcome, change_last, "last change"), F(wire_welcome, answers, "answers"),
	       F(wire_welcome, identity_known, "known"),
	       F(wire_welcome, fleet_generation, "generation"),
	       F(wire_welcome, fleet_epoch, "epoch"), F(wire_welcome, fleet_end_ns, "end"),
	       F(wire_welcome, fleet_member, "member"), F(wire_welcome, geometry, "geometry"),
	       F(wire_welcome, sum_key, "sum key"), F(wire_welcome, extent_bytes, "extent size"),
	       F(wire_welcome, rkeys, "rkeys"));
}

static void the_tables_of_requests_match_the_code(void **state)
{
	unsigned int i;
	struct named ops[WIRE_OP_MAX];

	(void)state;
	FIELDS("\n## Requests\n", wire_request, F(wire_request, op, "op"),
	       F(wire_request, mode, "mode"), F(wire_request, key_len, "key length"),
	       F(wire_request, value_len, "value length"), F(wire_request, id, "id"),
	       F(wire_request, arg32,
		 "item flags / first line / length / keys max / count / every"),
	       F(wire_request, arg64,
		 "version / pin / delta / cursor / ticket / client / offset / bytes / epoch / "
		 "segment / counter"),
	       F(wire_request, arg_addr, "pull address / initial / generation"),
	       F(wire_request, pull_rkey, "pull rkey"), F(wire_request, ttl, "ttl"),
	       F(wire_request, flags, "flags"), F(wire_request, access_count, "access count"),
	       F(wire_request, change, "change / use"));
	for (i = 0; i < WIRE_OP_MAX; i++)
		ops[i] = (struct named){ i + 1, wire_op_name((enum wire_op)(i + 1)) };
	assert_rows("| 44 | 4 | change / use |", ops, WIRE_OP_MAX);
	ROWS("| 21 | FLEET |", R((unsigned int)__builtin_ctz(WIRE_F_PULL), "pull"),
	     R((unsigned int)__builtin_ctz(WIRE_F_IF_VERSION), "if-version"),
	     R((unsigned int)__builtin_ctz(WIRE_F_VALUE), "value"),
	     R((unsigned int)__builtin_ctz(WIRE_F_CREATE), "create"),
	     R((unsigned int)__builtin_ctz(WIRE_F_VALUES), "values"),
	     R((unsigned int)__builtin_ctz(WIRE_F_PIN), "pin"),
	     R((unsigned int)__builtin_ctz(WIRE_F_LOW), "low"),
	     R((unsigned int)__builtin_ctz(WIRE_F_NO_VALUE), "no-value"),
	     R((unsigned int)__builtin_ctz(WIRE_F_USES), "uses"),
	     R((unsigned int)__builtin_ctz(WIRE_F_GETS), "gets"),
	     R((unsigned int)__builtin_ctz(WIRE_F_RESUME), "resume"));
	FIELDS("\n### Batches\n", wire_batched, F(wire_batched, op, "op"),
	       F(wire_batched, mode, "mode"), F(wire_batched, key_len, "key length"),
	       F(wire_batched, value_len, "value length"), F(wire_batched, flags, "flags"),
	       F(wire_batched, arg32, "item flags"), F(wire_batched, ttl, "ttl"));
}

static void the_tables_of_responses_match_the_code(void **state)
{
	(void)state;
	FIELDS("\n## Responses\n", wire_response, F(wire_response, op, "op"),
	       F(wire_response, status, "status"), F(wire_response, flags, "flags"),
	       F(wire_response, id, "id"), F(wire_response, value_len, "value length"),
	       F(wire_response, arg32, "item flags / next line / entries"),
	       F(wire_response, version, "version / epoch / ticket"),
	       F(wire_response, slot, "slot / value sum"),
	       F(wire_response, arg64, "result / cursor"), F(wire_response, clock_ns, "clock"),
	       F(wire_response, expires, "expires"), F(wire_response, window, "window"),
	       F(wire_response, tick, "tick"));
	ROWS("| 54 | 2 | tick |", R(WIRE_OK, "ok"), R(WIRE_NOT_FOUND, "not found"),
	     R(WIRE_INVALID, "invalid"), R(WIRE_TOO_LARGE, "too large"),
	     R(WIRE_NO_SPACE, "no space"), R(WIRE_PROTOCOL, "protocol"), R(WIRE_BUSY, "busy"),
	     R(WIRE_EXISTS, "exists"), R(WIRE_NOT_A_NUMBER, "not a number"),
	     R(WIRE_UNKNOWN, "unknown"), R(WIRE_NOT_ALLOWED, "not allowed"), R(WIRE_LIMIT, "limit"),
	     R(WIRE_MOVED, "moved"), R(WIRE_AWAY, "away"));
	FIELDS("its value is a *result* for each", wire_result, F(wire_result, op, "op"),
	       F(wire_result, status, "status"), F(wire_result, flags, "flags"),
	       F(wire_result, expires, "expires"), F(wire_result, version, "version / epoch"),
	       F(wire_result, slot, "slot / value sum"),
	       F(wire_result, result, "result / item flags, value length"));
	FIELDS("**SCAN**: entries", wire_entry, F(wire_entry, version, "version"),
	       F(wire_entry, value_len, "value length"), F(wire_entry, value_sent, "value sent"),
	       F(wire_entry, item_flags, "item flags"), F(wire_entry, expires, "expires"),
	       F(wire_entry, key_len, "key length"), F(wire_entry, use, "use"),
	       F(wire_entry, uses, "uses"), F(wire_entry, age, "age"));
	ROWS("An entry's *use* tells that:", R(WIRE_USE_NORMAL, "normal"), R(WIRE_USE_LOW, "low"),
	     R(WIRE_USE_PINNED, "pinned"));
}

static void the_tables_of_the_region_match_the_code(void **state)
{
	static const struct field superblock[] = {
		F(superblock, magic, "magic"),	     F(superblock, abi, "ABI"),
		F(superblock, reserved, "reserved"), F(superblock, geometry, "geometry"),
		F(superblock, clock_s, "clock"),     F(superblock, items, "items"),
		F(superblock, word, "word"),
	};

	(void)state;
	assert_fields("**Superblock**", superblock, COUNT(superblock),
		      offsetof(struct superblock, zero));
	FIELDS("\n### Words\n", fleet_word, F(fleet_word, generation, "generation"),
	       F(fleet_word, epoch, "epoch"), F(fleet_word, end_ns, "end"),
	       F(fleet_word, sum, "sum"));
	FIELDS("\n### Geometry\n", geometry, F(geometry, incarnation, "incarnation"),
	       F(geometry, region_bytes, "region size"), F(geometry, hash_seed, "hash seed"),
	       F(geometry, value_max, "max_value"), F(geometry, level_base, "level_base"),
	       F(geometry, level, "level"), F(geometry, split, "split"),
	       F(geometry, segments, "segments"), F(geometry, sum, "sum"));
	FIELDS("\n### Buckets\n", bucket, F(bucket, sum, "sum"), F(bucket, overflow, "overflow"),
	       F(bucket, level, "level"), F(bucket, lock, "lock"), F(bucket, epoch, "epoch"),
	       F(bucket, slots, "slots"));
	FIELDS("\n### Items\n", item, F(item, sum, "sum"), F(item, version, "version"),
	       F(item, expires, "expires"), F(item, access, "access time"),
	       F(item, lengths, "lengths"));
	FIELDS("**After the header of a long item**", item_long,
	       F(item_long, value_len, "value length"), F(item_long, flags, "flags"),
	       F(item_long, value_sum, "value sum"));
}

static void the_tables_of_a_map_match_the_code(void **state)
{
	static const struct field member[] = {
		F(fleet_member, id, "name"),
		F(fleet_member, lost_s, "lost"),
		F(fleet_member, session, "session"),
		F(fleet_member, flags, "flags"),
		F(fleet_member, weight, "weight"),
		F(fleet_member, urls_len, "urls length"),
		{ "urls", offsetof(struct fleet_member, urls), 0 },
	};

	(void)state;
	FIELDS("**Head of a map**", fleet_head, F(fleet_head, magic, "magic"),
	       F(fleet_head, generation, "generation"), F(fleet_head, epoch, "epoch"),
	       F(fleet_head, hash_seed, "hash seed"), F(fleet_head, name, "name"),
	       F(fleet_head, members, "members"), F(fleet_head, member_bytes, "member bytes"),
	       F(fleet_head, lease_ns, "lease"), F(fleet_head, sum, "sum"));
	assert_fields("**Member of a map**", member, COUNT(member), sizeof(struct fleet_member));
	ROWS("| 48 | 0 | urls |", R((unsigned int)__builtin_ctz(FLEET_MEMBER_AWAY), "away"),
	     R((unsigned int)__builtin_ctz(FLEET_MEMBER_DRAINED), "drained"),
	     R((unsigned int)__builtin_ctz(FLEET_MEMBER_BALANCES), "balances"));
}

static void the_tables_of_softnic_match_the_code(void **state)
{
	(void)state;
	FIELDS("or a *wake-up*", link_message, F(link_message, magic, "magic"),
	       F(link_message, version, "version"), F(link_message, type, "type"),
	       F(link_message, private_len, "private length"),
	       F(link_message, qp_num, "queue pair"),
	       F(link_message, responder_resources, "responder resources"),
	       F(link_message, initiator_depth, "initiator depth"),
	       F(link_message, grant_slot, "grant slot"), F(link_message, line, "line"),
	       F(link_message, grant_rkey, "grant rkey"), F(link_message, reserved, "reserved"),
	       F(link_message, grant_addr, "grant address"),
	       F(link_message, grant_length, "grant length"),
	       F(link_message, grant_offset, "grant offset"),
	       F(link_message, private_data, "private data"), F(link_message, pad, "padding"));
	ROWS("| 244 | 4 | padding |", R(LINK_MESSAGE_CONNECT, "CONNECT"),
	     R(LINK_MESSAGE_ACCEPT, "ACCEPT"), R(LINK_MESSAGE_REJECT, "REJECT"),
	     R(LINK_MESSAGE_READY, "READY"), R(LINK_MESSAGE_GRANT, "GRANT"),
	     R(LINK_MESSAGE_LIFE, "LIFE"));
	FIELDS("\n## The shared memory\n", link_shared, F(link_shared, header, "header"),
	       F(link_shared, request[LINK_PASSIVE], "requests 0"),
	       F(link_shared, request[LINK_ACTIVE], "requests 1"),
	       F(link_shared, response[LINK_PASSIVE], "responses 0"),
	       F(link_shared, response[LINK_ACTIVE], "responses 1"));
	FIELDS("A side's words, 4 bytes each", link_side, F(link_side, bell, "bell"),
	       F(link_side, request_head, "request_head"),
	       F(link_side, request_tail, "request_tail"),
	       F(link_side, response_head, "response_head"),
	       F(link_side, response_tail, "response_tail"), F(link_side, acked, "acked"),
	       F(link_side, rnr_count, "rnr_count"), F(link_side, rnr_send, "rnr_send"),
	       F(link_side, error, "error"), F(link_side, closed, "closed"),
	       F(link_side, serves, "serves"), F(link_side, follows, "follows"),
	       F(link_side, pad0, "unused"), F(link_side, wake, "wake"),
	       F(link_side, pad1, "unused"), F(link_side, fill, "fill"),
	       F(link_side, pad2, "unused"), F(link_side, granted, "granted"));
	ROWS("| 128 | 64 | granted |", R(LINK_ERROR_GONE, "gone"),
	     R(LINK_ERROR_TOO_LONG, "too long"), R(LINK_ERROR_OPERATION, "operation"),
	     R(LINK_ERROR_ACCESS, "access"));
	FIELDS("**Record of a request ring**", link_request, F(link_request, opcode, "opcode"),
	       F(link_request, reserved, "reserved"), F(link_request, length, "length"),
	       F(link_request, total, "total"), F(link_request, reserved2, "reserved"));
	FIELDS("**Data of a READ record**", link_read, F(link_read, addr, "address"),
	       F(link_read, rkey, "rkey"), F(link_read, length, "length"));
	FIELDS("**Record of a response ring**", link_response, F(link_response, status, "status"),
	       F(link_response, length, "length"), F(link_response, reserved, "reserved"));
	ROWS("\n## Wake-ups\n", R((unsigned int)__builtin_ctz(LINK_WAKE_EVENT), "event"),
	     R((unsigned int)__builtin_ctz(LINK_WAKE_ACK), "ack"),
	     R((unsigned int)__builtin_ctz(LINK_WAKE_ROOM), "room"));
}

/* The example that the vectors describe. */
#define INCARNATION 0x0123456789abcdefull
#define SEED 0xfedcba9876543210ull
#define REGION_BYTES (64ull << 20)
#define NAME "name"
#define NAME_LEN 4u
#define VALUE "Ada"
#define VALUE_LEN 3u
#define FLAGS 7u
#define VERSION 0x2a01ull
#define CLOCK_NS 1800000000000000000ull
#define WINDOW 8
#define EXPIRES 1800000061u
#define ITEM_OFFSET 0x3a98760ull
#define HOME_OFFSET 0x4880ull
#define OVERFLOW_OFFSET 0x3f80080ull
#define LONG_OFFSET 0x2000000ull
#define RKEY 0x1001u
#define REGION_ADDR 0x7f0000000000ull
#define PULL_ADDR 0x7fffa0001000ull
#define PULL_RKEY 0x2002u
#define GENERATION 0x1122334455667788ull
#define EPOCH 7u

static struct vector vector;
static struct sum_key sum_key;

/* A message, composed of its parts. */
struct message {
	uint8_t bytes[VECTOR_BYTES_MAX];
	size_t len;
};

static void add(struct message *message, const void *part, size_t len)
{
	assert_true(len <= sizeof(message->bytes) - message->len);
	if (len)
		memcpy(message->bytes + message->len, part, len);
	message->len += len;
}

static void assert_vector(const char *name, const void *bytes, size_t len)
{
	vector_load(&vector, name);
	if (vector.len != len)
		fail_msg("%s has %zu bytes instead of %zu", name, vector.len, len);
	assert_memory_equal(vector.bytes, bytes, len);
}

static uint64_t name_hash(void)
{
	return key_hash(NAME, NAME_LEN, SEED);
}

static uint64_t name_slot(void)
{
	return slot_make(hash_tag(name_hash()), ITEM_OFFSET,
			 item_bytes_for(NAME_LEN, VALUE_LEN, FLAGS));
}

/* An item with a value sum; its value is PHOTO_BYTES bytes of 0x5a. */
#define PHOTO "photo"
#define PHOTO_LEN 5
#define PHOTO_BYTES 100
#define PHOTO_OFFSET 0x3b00000ull
#define PART_OFFSET 60

static uint64_t photo_slot(void)
{
	return slot_make(0xbeef, PHOTO_OFFSET, item_bytes_for(PHOTO_LEN, PHOTO_BYTES, 0));
}

static uint64_t long_slot(void)
{
	return slot_make(0xcafe, LONG_OFFSET, item_bytes_for(5, 1u << 20, 0));
}

static struct geometry geometry_make(void)
{
	struct geometry g = {
		.incarnation = INCARNATION,
		.region_bytes = REGION_BYTES,
		.hash_seed = SEED,
		.value_max = 1u << 20,
		.level_base = 6,
		.level = 7,
		.split = 5,
		.segments = { sizeof(struct superblock) },
	};
	unsigned int k;

	for (k = 1; k <= 12; k++)
		g.segments[k] = sizeof(struct superblock) + ((uint64_t)BUCKET_BYTES << (5 + k));
	g.sum = geometry_sum(&g);
	return g;
}

static void the_hashes_match_the_code(void **state)
{
	uint64_t numbers[64];
	uint8_t bytes[KEY_MAX];
	unsigned int i, count = vector_numbers("hash", numbers, COUNT(numbers));

	(void)state;
	assert_int_equal(count, 12 * 4);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(37 * i + 11);
	for (i = 0; i < count; i += 4) {
		assert_in_range(numbers[i], 1, sizeof(bytes));
		assert_true(numbers[i + 1] == XXH3_64bits(bytes, numbers[i]));
		assert_true(numbers[i + 2] == key_hash(bytes, numbers[i], SEED));
		assert_true(numbers[i + 3] == sum_bytes(&sum_key, bytes, numbers[i]));
	}
}

static void the_geometry_matches_the_code(void **state)
{
	struct geometry g = geometry_make();
	uint64_t numbers[64];
	unsigned int i, count = vector_numbers("places", numbers, COUNT(numbers));

	(void)state;
	assert_vector("sum-key", &sum_key, sizeof(sum_key));
	assert_vector("geometry", &g, sizeof(g));
	assert_null(geometry_check(&g));
	assert_int_equal(count, 9 * 3);
	assert_true(numbers[0] == name_hash());
	for (i = 0; i < count; i += 3) {
		assert_true(numbers[i + 1] == geometry_home(&g, numbers[i]));
		assert_true(numbers[i + 2] == geometry_bucket_offset(&g, numbers[i + 1]));
	}
	/* level_max: a geometry with the next level is refused. */
	g.level = 33;
	g.sum = geometry_sum(&g);
	assert_string_equal(geometry_check(&g), "index level out of range");
	g.level = 32;
	g.sum = geometry_sum(&g);
	assert_string_not_equal(geometry_check(&g), "index level out of range");
}

static void the_slots_match_the_code(void **state)
{
	uint64_t numbers[64];
	unsigned int i, count = vector_numbers("slots", numbers, COUNT(numbers));

	(void)state;
	assert_int_equal(count, 4 * 4);
	assert_true(numbers[0] == name_slot());
	for (i = 0; i < count; i += 4) {
		uint64_t slot = slot_make((uint16_t)numbers[i + 1], numbers[i + 3],
					  numbers[i + 2] * SLOT_UNIT);

		assert_true(numbers[i] == slot);
		assert_true(slot_tag(slot) == numbers[i + 1]);
		assert_true(slot_bytes(slot) == numbers[i + 2] * SLOT_UNIT);
		assert_true(slot_is_long(slot) == (numbers[i + 2] == 4095));
		assert_true(slot_offset(slot) == numbers[i + 3]);
	}
}

static void assert_bucket(const char *name, struct bucket *bucket, uint64_t offset)
{
	bucket->level = 7;
	bucket->epoch = 6;
	bucket->sum = bucket_sum(bucket, &sum_key, INCARNATION, offset, HOME_OFFSET);
	assert_vector(name, bucket, sizeof(*bucket));
	assert_true(vector_number(&vector, "incarnation") == INCARNATION);
	assert_true(vector_number(&vector, "offset") == offset);
	assert_true(vector_number(&vector, "home") == HOME_OFFSET);
}

static void the_buckets_match_the_code(void **state)
{
	struct geometry g = geometry_make();
	struct bucket home = {
		.overflow = OVERFLOW_OFFSET / BUCKET_BYTES,
		.lock = 1,
		.slots = { name_slot(), 0, photo_slot() },
	};
	struct bucket overflow = { .slots = { long_slot() } };

	(void)state;
	assert_true(geometry_bucket_offset(&g, geometry_home(&g, name_hash())) == HOME_OFFSET);
	assert_bucket("bucket", &home, HOME_OFFSET);
	assert_bucket("overflow bucket", &overflow, OVERFLOW_OFFSET);
}

/* Seals the item, whose key and value are there, and compares it. */
static void assert_item(const char *name, struct item *item, uint64_t offset)
{
	item_value_sum_make(item, &sum_key);
	item->sum = item_sum(item, &sum_key, INCARNATION, offset);
	assert_vector(name, item, item_bytes(item));
	assert_true(vector_number(&vector, "incarnation") == INCARNATION);
	assert_true(vector_number(&vector, "offset") == offset);
	assert_true(vector_number(&vector, "body") == item_body_sum(item, &sum_key));
}

static void the_items_match_the_code(void **state)
{
	union {
		struct item item;
		uint8_t bytes[sizeof(union item_front) + PHOTO_LEN + PHOTO_BYTES];
	} u = {
		.item = {
			.version = VERSION,
			.expires = EXPIRES,
			.access = 0x1234,
		},
	};

	(void)state;
	item_set_lengths(&u.item, NAME_LEN, VALUE_LEN, FLAGS);
	memcpy(item_key(&u.item), NAME VALUE, NAME_LEN + VALUE_LEN);
	assert_item("item", &u.item, ITEM_OFFSET);
	item_set_lengths(&u.item, NAME_LEN, VALUE_LEN, 0);
	memcpy(item_key(&u.item), NAME VALUE, NAME_LEN + VALUE_LEN);
	assert_item("item without flags", &u.item, ITEM_OFFSET);
	item_set_lengths(&u.item, PHOTO_LEN, PHOTO_BYTES, FLAGS);
	memcpy(item_key(&u.item), PHOTO, PHOTO_LEN);
	memset(item_value(&u.item), 0x5a, PHOTO_BYTES);
	assert_item("long item", &u.item, PHOTO_OFFSET);
}

static void the_private_data_matches_the_code(void **state)
{
	const struct wire_connect connect = { WIRE_MAGIC, WIRE_ABI, 0, "" };
	const struct wire_connect named = { WIRE_MAGIC, WIRE_ABI, 0, "alpha-1" };
	const struct wire_reject reject = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.reason = WIRE_REJECT_FULL,
		.text = "server.max_connections is reached",
	};

	(void)state;
	assert_vector("connect", &connect, sizeof(connect));
	assert_vector("connect to a tenant", &named, sizeof(named));
	assert_int_equal(wire_tenant_length(named.tenant), 7);
	assert_vector("reject", &reject, sizeof(reject));
}

/* Asserts that the vector is this request and that the server's parser accepts it. */
static void assert_request(const char *name, const struct wire_request *head, const void *body,
			   size_t len)
{
	struct message message = { .len = 0 };
	struct request request;

	add(&message, head, sizeof(*head));
	add(&message, body, len);
	assert_vector(name, message.bytes, message.len);
	assert_null(wire_request_parse(&request, vector.bytes, vector.len));
	assert_int_equal(request.op, head->op);
}

/* Checks a response and the client's parser. */
static void assert_response(const char *name, const struct wire_response *head, const void *body,
			    size_t len)
{
	struct message message = { .len = 0 };
	struct response response;

	add(&message, head, sizeof(*head));
	add(&message, body, len);
	assert_vector(name, message.bytes, message.len);
	assert_null(wire_response_parse(&response, vector.bytes, vector.len));
	assert_int_equal(response.op, head->op);
}

#define CHANGE ((1ull << 32) + 3)
static const struct wire_hello hello = {
	.magic = WIRE_MAGIC,
	.abi = WIRE_ABI,
	.response_bytes = 4096,
	.identity = { 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac,
		      0xad, 0xae, 0xaf },
	.change_next = CHANGE + 2,
};
static const struct wire_request hello_head = { .op = WIRE_HELLO,
						.id = 1,
						.value_len = sizeof(hello) };

static void hello_matches_the_code(void **state)
{
	const struct wire_response head = {
		.op = WIRE_HELLO,
		.id = 1,
		.value_len = sizeof(struct wire_welcome),
		.clock_ns = CLOCK_NS + 1,
	};
	const struct wire_welcome welcome = {
		.magic = WIRE_MAGIC,
		.abi = WIRE_ABI,
		.window = 8,
		.request_bytes = 2048,
		.extents = 2,
		.region_addr = REGION_ADDR,
		.access_rate = 4,
		.access_delay_ms = 100,
		.change_last = CHANGE - 1,
		.answers = ANSWERS_MAX,
		.identity_known = 1,
		.fleet_generation = GENERATION,
		.fleet_epoch = EPOCH,
		.fleet_end_ns = UINT64_MAX,
		.fleet_member = "a",
		.geometry = geometry_make(),
		.sum_key = sum_key,
		.extent_bytes = REGION_BYTES / 2,
		.rkeys = { RKEY, RKEY + 1 },
	};

	(void)state;
	assert_request("hello", &hello_head, &hello, sizeof(hello));
	assert_response("welcome", &head, &welcome, sizeof(welcome));
}

static void puts_match_the_code(void **state)
{
	const struct wire_request put = {
		.op = WIRE_PUT,
		.id = 2,
		.key_len = NAME_LEN,
		.value_len = VALUE_LEN,
		.item_flags = FLAGS,
		.ttl = 60,
		.flags = WIRE_F_GETS,
		.access_count = 1,
		.change = (uint32_t)CHANGE,
	};
	const struct wire_request pull = {
		.op = WIRE_PUT,
		.id = 4,
		.key_len = 5,
		.value_len = 1u << 20,
		.pull_addr = PULL_ADDR,
		.pull_rkey = PULL_RKEY,
		.flags = WIRE_F_PULL,
	};
	const struct wire_response done = {
		.op = WIRE_PUT,
		.id = 2,
		.version = VERSION,
		.slot = name_slot(),
		.clock_ns = CLOCK_NS + 2,
		.window = WINDOW,
		.expires = EXPIRES,
	};
	struct wire_response repeated = done;
	struct message body = { .len = 0 };
	const struct wire_gets gets = { .hits = 5, .misses = 2 };
	const struct wire_access record = wire_access_make(name_hash(), 64);

	(void)state;
	repeated.flags = WIRE_R_REPEATED;
	repeated.clock_ns = CLOCK_NS + 6;
	add(&body, NAME VALUE, NAME_LEN + VALUE_LEN);
	add(&body, &gets, sizeof(gets));
	add(&body, &record, sizeof(record));
	assert_request("put", &put, body.bytes, body.len);
	assert_response("put response", &done, NULL, 0);
	assert_response("put response repeated", &repeated, NULL, 0);
	assert_request("put with pull", &pull, "photo", 5);
}

static void gets_match_the_code(void **state)
{
	const struct wire_request get = { .op = WIRE_GET, .id = 3, .key_len = NAME_LEN };
	const struct wire_response found = {
		.op = WIRE_GET,
		.id = 3,
		.value_len = VALUE_LEN,
		.item_flags = FLAGS,
		.version = VERSION,
		.result = VALUE_LEN,
		.clock_ns = CLOCK_NS + 3,
		.window = WINDOW,
		.expires = EXPIRES,
	};
	const struct wire_request get_part = {
		.op = WIRE_GET, .id = 5, .key_len = PHOTO_LEN, .offset = PART_OFFSET
	};
	const struct wire_request get_range = {
		.op = WIRE_GET, .id = 5, .key_len = PHOTO_LEN, .offset = PART_OFFSET, .length = 16
	};
	struct wire_response part = {
		.op = WIRE_GET,
		.id = 5,
		.value_len = PHOTO_BYTES - PART_OFFSET,
		.item_flags = FLAGS,
		.version = VERSION,
		.result = PHOTO_BYTES,
		.clock_ns = CLOCK_NS + 4,
		.window = WINDOW,
		.expires = EXPIRES,
	};
	uint8_t photo[PHOTO_BYTES];
	struct value_sum sum;

	(void)state;
	memset(photo, 0x5a, sizeof(photo));
	value_sum_begin(&sum, &sum_key);
	value_sum_add(&sum, photo, sizeof(photo));
	part.value_sum = value_sum_end(&sum);
	assert_request("get", &get, NAME, NAME_LEN);
	assert_response("get response", &found, VALUE, VALUE_LEN);
	assert_request("get of a range", &get_range, PHOTO, PHOTO_LEN);
	assert_request("get of a part", &get_part, PHOTO, PHOTO_LEN);
	assert_response("get response with a part", &part, photo + PART_OFFSET, part.value_len);
}

static void the_other_requests_match_the_code(void **state)
{
	const struct wire_request delete = {
		.op = WIRE_DELETE,
		.id = 6,
		.key_len = NAME_LEN,
		.version = VERSION,
		.flags = WIRE_F_IF_VERSION,
	};
	const struct wire_entry entry = {
		.version = VERSION,
		.value_len = VALUE_LEN,
		.value_sent = VALUE_LEN,
		.item_flags = FLAGS,
		.expires = EXPIRES,
		.key_len = NAME_LEN,
	};
	const struct wire_response scanned = {
		.op = WIRE_SCAN,
		.id = 7,
		.value_len = sizeof(entry) + NAME_LEN + VALUE_LEN,
		.entries = 1,
		.cursor = 0x4000000000000000,
		.clock_ns = CLOCK_NS + 5,
		.window = WINDOW,
	};
	struct message body = { .len = 0 };
	struct scan_entry parsed;
	size_t at = 0;

	(void)state;
	assert_request("delete", &delete, NAME, NAME_LEN);
	add(&body, &entry, sizeof(entry));
	add(&body, NAME VALUE, NAME_LEN + VALUE_LEN);
	assert_response("scan response", &scanned, body.bytes, body.len);
	assert_null(wire_entry_parse(&parsed, body.bytes, body.len, &at));
	assert_int_equal(at, body.len);
}

static void batches_match_the_code(void **state)
{
	const struct request requests[] = {
		{ .op = WIRE_PUT,
		  .key = (const uint8_t *)NAME,
		  .key_len = NAME_LEN,
		  .value = (const uint8_t *)VALUE,
		  .value_len = VALUE_LEN,
		  .item_flags = FLAGS,
		  .ttl = 60 },
		{ .op = WIRE_ARITH,
		  .flags = WIRE_F_CREATE,
		  .key = (const uint8_t *)"visits",
		  .key_len = 6,
		  .delta = 2,
		  .initial = 1 },
		{ .op = WIRE_GET, .key = (const uint8_t *)NAME, .key_len = NAME_LEN },
	};
	const struct wire_result results[] = {
		{ .op = WIRE_PUT, .expires = EXPIRES, .version = VERSION, .slot = name_slot() },
		{ .op = WIRE_ARITH, .status = WIRE_NOT_A_NUMBER },
		{ .op = WIRE_GET,
		  .expires = EXPIRES,
		  .version = VERSION,
		  .item_flags = FLAGS,
		  .value_len = VALUE_LEN },
	};
	struct wire_request head = { .op = WIRE_BATCH, .id = 8, .count = COUNT(requests) };
	const struct wire_response response = {
		.op = WIRE_BATCH,
		.id = 8,
		.entries = COUNT(results),
		.value_len = sizeof(results) + VALUE_LEN,
		.clock_ns = CLOCK_NS + 6,
		.window = WINDOW,
	};
	struct message body = { .len = 0 };
	struct response parsed;
	size_t at = 0;

	(void)state;
	for (unsigned int i = 0; i < COUNT(requests); i++) {
		wire_batched_write(&requests[i], body.bytes + body.len);
		body.len += wire_batched_bytes(&requests[i]);
	}
	head.value_len = (uint32_t)body.len;
	assert_request("batch", &head, body.bytes, body.len);
	body.len = 0;
	add(&body, results, sizeof(results));
	add(&body, VALUE, VALUE_LEN);
	assert_response("batch response", &response, body.bytes, body.len);
	for (unsigned int i = 0; i < COUNT(results); i++) {
		assert_null(wire_result_parse(&parsed, body.bytes, body.len, &at));
		assert_int_equal(parsed.op, results[i].op);
		assert_int_equal(parsed.status, results[i].status);
	}
	assert_int_equal(parsed.item_flags, FLAGS);
	assert_int_equal(parsed.value_len, VALUE_LEN);
	assert_memory_equal(parsed.value, VALUE, VALUE_LEN);
	assert_int_equal(at, body.len);
}

static uint8_t *map_member_add(uint8_t *to, const char *name, uint32_t weight, const char *urls)
{
	struct fleet_member head = { .weight = weight, .urls_len = (uint32_t)strlen(urls) };

	strcpy(head.id, name);
	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), urls, head.urls_len);
	return to + fleet_member_bytes(&head);
}

/* Of the fleet that the vectors describe. fleet_map_free() frees it. */
static struct fleet_map *map_make(void)
{
	static uint64_t words[(sizeof(struct fleet_head) + 256) / 8 + FLEET_SHARDS];
	struct fleet_head *head = (struct fleet_head *)words;
	uint8_t *first = (uint8_t *)(head + 1), *end;
	struct fleet_map *map;
	size_t bytes;

	memset(words, 0, sizeof(words));
	end = map_member_add(first, "a", 1, "rdma://10.0.0.1:7471");
	end = map_member_add(end, "b", 2, "rdma://10.0.0.2:7471,rdma+tcp://10.0.0.2:7472");
	*head = (struct fleet_head){
		.magic = FLEET_MAP_MAGIC,
		.generation = GENERATION,
		.epoch = EPOCH,
		.hash_seed = SEED,
		.name = "demo",
		.members = 2,
		.member_bytes = (uint32_t)(end - first),
		.lease_ns = 2000000000,
	};
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		((uint64_t *)end)[i] = fleet_row(i % 3 != 0, i != 5, i == 5 ? EPOCH : 1);
	bytes = sizeof(*head) + head->member_bytes + FLEET_SHARDS * sizeof(uint64_t);
	head->sum = fleet_map_sum(head, bytes);
	assert_null(fleet_map_make(&map, words, bytes));
	return map;
}

static void a_move_matches_the_code(void **state)
{
	const struct wire_request end = {
		.op = WIRE_MOVE,
		.mode = WIRE_MOVE_END,
		.id = 10,
		.counter = VERSION >> 8,
	};
	const struct wire_response ended = {
		.op = WIRE_MOVE,
		.id = 10,
		.epoch = EPOCH,
		.result = 12345,
		.clock_ns = CLOCK_NS + 9,
		.window = WINDOW,
	};
	const struct wire_request copy = {
		.op = WIRE_PUT,
		.mode = WIRE_COPY,
		.id = 11,
		.key_len = NAME_LEN,
		.value_len = VALUE_LEN,
		.item_flags = FLAGS,
		.version = VERSION,
		.ttl = 60,
		.use = wire_use_pack(WIRE_USE_NORMAL, 3, 32),
	};

	(void)state;
	assert_request("move end", &end, NULL, 0);
	assert_response("move end response", &ended, NULL, 0);
	assert_request("copy", &copy, NAME VALUE, NAME_LEN + VALUE_LEN);
}

static void a_fleet_matches_the_code(void **state)
{
	struct fleet_map *map = map_make();
	const struct wire_request ask = { .op = WIRE_MAP, .id = 9, .offset = map->bytes - 8 };
	const struct wire_response part = {
		.op = WIRE_MAP,
		.id = 9,
		.value_len = 8,
		.epoch = EPOCH,
		.result = map->bytes,
		.clock_ns = CLOCK_NS + 7,
		.window = WINDOW,
	};
	const struct wire_response moved = {
		.op = WIRE_PUT,
		.status = WIRE_MOVED,
		.id = 2,
		.epoch = EPOCH,
		.clock_ns = CLOCK_NS + 8,
		.window = WINDOW,
	};
	uint64_t numbers[8];

	(void)state;
	assert_int_equal(vector_numbers("shards", numbers, COUNT(numbers)), 8);
	assert_true(numbers[0] == name_hash());
	for (unsigned int i = 0; i < COUNT(numbers); i += 2)
		assert_true(numbers[i + 1] == fleet_shard(numbers[i]));
	assert_vector("map head", map->head, sizeof(*map->head));
	assert_vector("map members", map->head + 1, map->head->member_bytes);
	assert_vector("map rows", &map->rows[3], 3 * sizeof(map->rows[0]));
	assert_request("map", &ask, NULL, 0);
	assert_response("map response", &part, &map->rows[FLEET_SHARDS - 1], 8);
	assert_response("moved", &moved, NULL, 0);
	fleet_map_free(map);
}

static void the_messages_of_softnic_match_the_code(void **state)
{
	const struct wire_connect connect = { WIRE_MAGIC, WIRE_ABI, 0, "" };
	struct link_message message = {
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_CONNECT,
		.private_len = sizeof(connect),
		.qp_num = 0x11,
		.responder_resources = SN_READS_MAX,
		.initiator_depth = SN_READS_MAX,
	};
	const struct link_message ready = {
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_READY,
	};
	const struct link_message grant = {
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_GRANT,
		.grant_rkey = RKEY,
		.grant_addr = REGION_ADDR,
		.grant_length = REGION_BYTES,
	};

	(void)state;
	memcpy(message.private_data, &connect, sizeof(connect));
	assert_vector("softnic connect", &message, sizeof(message));
	assert_vector("softnic ready", &ready, sizeof(ready));
	assert_vector("softnic grant", &grant, sizeof(grant));
}

static void the_records_of_softnic_match_the_code(void **state)
{
	const struct link_request send = {
		.opcode = LINK_SEND,
		.length = sizeof(hello_head) + sizeof(hello),
		.total = sizeof(hello_head) + sizeof(hello),
	};
	const struct link_request ask = { .opcode = LINK_READ, .length = sizeof(struct link_read) };
	const struct link_read what = { PULL_ADDR, PULL_RKEY, 1u << 20 };
	struct message record = { .len = 0 };

	(void)state;
	add(&record, &send, sizeof(send));
	add(&record, &hello_head, sizeof(hello_head));
	add(&record, &hello, sizeof(hello));
	assert_vector("softnic send", record.bytes, ring_span((uint32_t)record.len));
	record = (struct message){ .len = 0 };
	add(&record, &ask, sizeof(ask));
	add(&record, &what, sizeof(what));
	assert_vector("softnic read", record.bytes, ring_span((uint32_t)record.len));
}

static int setup(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < sizeof(sum_key.secret); i++)
		sum_key.secret[i] = (uint8_t)(167 * i + 13);
	options_load();
	documents_load(paths, COUNT(paths));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	documents_free();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_numbers_match_the_code),
		cmocka_unit_test(the_tables_of_the_handshake_match_the_code),
		cmocka_unit_test(the_tables_of_requests_match_the_code),
		cmocka_unit_test(the_tables_of_responses_match_the_code),
		cmocka_unit_test(the_tables_of_the_region_match_the_code),
		cmocka_unit_test(the_tables_of_a_map_match_the_code),
		cmocka_unit_test(the_tables_of_softnic_match_the_code),
		cmocka_unit_test(the_hashes_match_the_code),
		cmocka_unit_test(the_geometry_matches_the_code),
		cmocka_unit_test(the_slots_match_the_code),
		cmocka_unit_test(the_buckets_match_the_code),
		cmocka_unit_test(the_items_match_the_code),
		cmocka_unit_test(the_private_data_matches_the_code),
		cmocka_unit_test(hello_matches_the_code),
		cmocka_unit_test(puts_match_the_code),
		cmocka_unit_test(gets_match_the_code),
		cmocka_unit_test(the_other_requests_match_the_code),
		cmocka_unit_test(batches_match_the_code),
		cmocka_unit_test(a_fleet_matches_the_code),
		cmocka_unit_test(a_move_matches_the_code),
		cmocka_unit_test(the_messages_of_softnic_match_the_code),
		cmocka_unit_test(the_records_of_softnic_match_the_code),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
