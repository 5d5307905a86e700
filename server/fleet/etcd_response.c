/* SPDX-License-Identifier: MIT */
/* What etcd answers, from its JSON: see etcd_response.h. */
#include "server/fleet/etcd_response.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/base64.h"
#include "common/util/text.h"

/* Takes a body apart. After the first error only zeros come. */
struct reader {
	int err;
	const char *wrong; /* what of the body: "a number is malformed" */

	/* Of an answer: where its next key, and its next byte, go. */
	struct etcd_kv *kvs;
	char *bytes;
};

/* What an answer's memory has: the ranges, then the keys, then their bytes. */
struct answer_memory {
	size_t range_count, kv_count, byte_count;
};

static int fail(struct reader *reader, const char *wrong)
{
	if (!reader->err) {
		reader->err = -EPROTO;
		reader->wrong = wrong;
	}
	return reader->err;
}

/* Writes what is wrong, if anything is. */
static int reader_end(const struct reader *reader, char why[ETCD_WHY_MAX])
{
	if (reader->err == -EPROTO)
		snprintf(why, ETCD_WHY_MAX, "its answer is not etcd's: %s", reader->wrong);
	else if (reader->err)
		snprintf(why, ETCD_WHY_MAX, "no memory");
	return reader->err;
}

/* The parser recurses, and takes memory for each value: this looks before it does. */
static const char *body_check(const char *text, size_t length)
{
	unsigned int depth = 0, values = 1;
	bool quoted = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"')
			quoted = !quoted;
		else if (quoted)
			i += text[i] == '\\';
		else if (text[i] == '{' || text[i] == '[')
			depth++, values++;
		else if (text[i] == '}' || text[i] == ']')
			depth -= depth > 0;
		else if (text[i] == ',')
			values++;
		if (depth > ETCD_DEPTH_MAX)
			return "it is nested too deeply";
		if (values > ETCD_VALUES_MAX)
			return "it has too many values";
	}
	return NULL;
}

int etcd_response_parse(json_t **json, const struct etcd_reply *reply, char why[ETCD_WHY_MAX])
{
	const char *wrong = body_check(reply->text, reply->length);
	json_error_t error = { .text = "" };

	*json = NULL;
	if (!wrong) {
		*json = json_loadb(reply->text, reply->length, JSON_REJECT_DUPLICATES, &error);
		if (*json && json_is_object(*json))
			return 0;
		wrong = *json ? "it is no object" : error.text;
	}
	if (!*json && json_error_code(&error) == json_error_out_of_memory) {
		snprintf(why, ETCD_WHY_MAX, "no memory");
		return -ENOMEM;
	}
	snprintf(why, ETCD_WHY_MAX, "it is not an etcd, or broken: its answer is not JSON (%.160s)",
		 wrong);
	text_mask(why, strlen(why));
	json_decref(*json);
	*json = NULL;
	return -EPROTO;
}

/* A number of 64 bits: a text in etcd's JSON; a JSON number is allowed, too. */
static uint64_t read_number(struct reader *reader, const json_t *object, const char *name,
			    bool has_sign)
{
	const json_t *field = json_object_get(object, name);
	const char *text = json_string_value(field);
	uint64_t number;
	char *end;

	if (!field)
		return 0;
	if (json_is_integer(field) && (has_sign || json_integer_value(field) >= 0))
		return (uint64_t)json_integer_value(field);
	/* strtoull() also takes spaces, and signs. */
	if (!text || !text[strspn(text, "-")] || text[strspn(text, "-0123456789")] ||
	    (*text == '-' && !has_sign)) {
		fail(reader, "a number is malformed");
		return 0;
	}
	errno = 0;
	number = has_sign ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
	if (!errno && !*end)
		return number;
	fail(reader, errno ? "a number has more than 64 bits" : "a number is malformed");
	return 0;
}

static int64_t read_signed(struct reader *reader, const json_t *object, const char *name)
{
	return (int64_t)read_number(reader, object, name, true);
}

static uint64_t read_unsigned(struct reader *reader, const json_t *object, const char *name)
{
	return read_number(reader, object, name, false);
}

/* A field of the type; NULL: absent, or of another, which is an error. */
static const json_t *read_field(struct reader *reader, const json_t *object, const char *name,
				json_type type)
{
	const json_t *field = json_object_get(object, name);

	if (!field || json_typeof(field) == type)
		return field;
	fail(reader, "a field has another type");
	return NULL;
}

/* Decodes base64 to the memory of the answer, with a zero byte after it. */
static const void *read_bytes(struct reader *reader, const json_t *object, const char *name,
			      size_t *length)
{
	const json_t *field = read_field(reader, object, name, JSON_STRING);
	const char *text = field ? json_string_value(field) : "";
	size_t chars = field ? json_string_length(field) : 0;
	char *bytes = reader->bytes;

	*length = 0;
	if (!base64_decode(bytes, length, text, chars)) {
		fail(reader, "a text is not base64");
		return NULL;
	}
	bytes[*length] = 0;
	reader->bytes += *length + 1;
	return bytes;
}

static void read_kv(struct reader *reader, const json_t *object)
{
	struct etcd_kv *kv = reader->kvs++;

	kv->key = read_bytes(reader, object, "key", &kv->key_len);
	kv->value = read_bytes(reader, object, "value", &kv->value_len);
	kv->create_revision = read_signed(reader, object, "create_revision");
	kv->mod_revision = read_signed(reader, object, "mod_revision");
	kv->lease = read_signed(reader, object, "lease");
	if (!reader->err && (!kv->key_len || kv->create_revision <= 0 || kv->mod_revision <= 0))
		fail(reader, "a key has no name or revision");
}

static void read_range(struct reader *reader, struct etcd_range *range, const json_t *object)
{
	const json_t *kvs = json_object_get(object, "kvs");

	range->kvs = reader->kvs;
	range->count = json_array_size(kvs);
	for (size_t i = 0; i < range->count && !reader->err; i++)
		read_kv(reader, json_array_get(kvs, i));
}

/* What every answer begins with: etcd numbers clusters and revisions from 1. */
static void read_header(struct reader *reader, struct etcd_answer *answer, const json_t *json)
{
	const json_t *header = read_field(reader, json, "header", JSON_OBJECT);

	answer->cluster_id = read_unsigned(reader, header, "cluster_id");
	answer->member_id = read_unsigned(reader, header, "member_id");
	answer->revision = read_signed(reader, header, "revision");
	if (!reader->err && (!answer->cluster_id || answer->revision <= 0))
		fail(reader, "it does not name cluster and revision");
}

/* Adds what an object of a range needs. Checks what read_range() relies on. */
static void range_measure(struct reader *reader, struct answer_memory *need, const json_t *object)
{
	const json_t *kvs = read_field(reader, object, "kvs", JSON_ARRAY);

	need->range_count++;
	need->kv_count += json_array_size(kvs);
	for (size_t i = 0; i < json_array_size(kvs); i++) {
		const json_t *kv = json_array_get(kvs, i);

		/* base64 is longer than its bytes; 3 more are written while it is decoded. */
		need->byte_count += json_string_length(json_object_get(kv, "key")) +
				    json_string_length(json_object_get(kv, "value")) + 8;
	}
}

static struct etcd_range *answer_allocate(struct reader *reader, struct etcd_answer *answer,
					  const struct answer_memory *need)
{
	size_t ranges = need->range_count * sizeof(struct etcd_range);
	size_t kvs = need->kv_count * sizeof(struct etcd_kv);
	char *memory = calloc(1, ranges + kvs + need->byte_count + 1);

	if (!memory) {
		reader->err = -ENOMEM;
		return NULL;
	}
	answer->memory = memory;
	answer->ranges = (struct etcd_range *)memory;
	answer->range_count = (unsigned int)need->range_count;
	reader->kvs = (struct etcd_kv *)(memory + ranges);
	reader->bytes = memory + ranges + kvs;
	return (struct etcd_range *)memory;
}

static int answer_end(struct reader *reader, struct etcd_answer *answer, char why[ETCD_WHY_MAX])
{
	if (reader->err)
		etcd_answer_release(answer);
	return reader_end(reader, why);
}

void etcd_answer_release(struct etcd_answer *answer)
{
	free(answer->memory);
	memset(answer, 0, sizeof(*answer));
}

int etcd_response_range(struct etcd_answer *answer, const json_t *json, char why[ETCD_WHY_MAX])
{
	struct answer_memory need = { 0 };
	struct reader reader = { 0 };
	struct etcd_range *ranges;

	memset(answer, 0, sizeof(*answer));
	read_header(&reader, answer, json);
	range_measure(&reader, &need, json);
	ranges = reader.err ? NULL : answer_allocate(&reader, answer, &need);
	if (ranges)
		read_range(&reader, ranges, json);
	return answer_end(&reader, answer, why);
}

/* The object of a response's range, or NULL if it is of another operation. */
static const json_t *response_range(const json_t *response)
{
	return json_object_get(response, "response_range");
}

int etcd_response_txn(struct etcd_answer *answer, bool *succeeded, const unsigned int count[2],
		      const json_t *json, char why[ETCD_WHY_MAX])
{
	const json_t *responses, *flag = json_object_get(json, "succeeded");
	struct answer_memory need = { 0 };
	struct reader reader = { 0 };
	struct etcd_range *ranges;

	memset(answer, 0, sizeof(*answer));
	*succeeded = json_is_true(flag);
	if (flag && !json_is_boolean(flag))
		fail(&reader, "a field has another type");
	read_header(&reader, answer, json);
	responses = read_field(&reader, json, "responses", JSON_ARRAY);
	if (json_array_size(responses) != count[*succeeded])
		fail(&reader, "it does not have a response for each operation");
	for (size_t i = 0; i < json_array_size(responses); i++)
		range_measure(&reader, &need, response_range(json_array_get(responses, i)));
	ranges = reader.err ? NULL : answer_allocate(&reader, answer, &need);
	for (size_t i = 0; ranges && i < need.range_count; i++)
		read_range(&reader, &ranges[i], response_range(json_array_get(responses, i)));
	return answer_end(&reader, answer, why);
}

int etcd_response_lease(int64_t *lease, int64_t *ttl_s, const json_t *json, char why[ETCD_WHY_MAX])
{
	/* Answers of a stream, that of keepalive, are in an object of their own. */
	const json_t *result = json_object_get(json, "result");
	struct etcd_answer header;
	struct reader reader = { 0 };

	if (!result)
		result = json;
	read_header(&reader, &header, result);
	*lease = read_signed(&reader, result, "ID");
	*ttl_s = read_signed(&reader, result, "TTL");
	return reader_end(&reader, why);
}

static void read_text(struct reader *reader, const json_t *object, const char *name, char *text,
		      size_t size)
{
	const json_t *field = read_field(reader, object, name, JSON_STRING);

	snprintf(text, size, "%s", field ? json_string_value(field) : "");
	text_mask(text, strlen(text));
}

int etcd_response_status(struct etcd_status *status, const json_t *json, char why[ETCD_WHY_MAX])
{
	const json_t *errors, *first;
	struct etcd_answer header;
	struct reader reader = { 0 };

	memset(status, 0, sizeof(*status));
	read_header(&reader, &header, json);
	status->cluster_id = header.cluster_id;
	status->member_id = header.member_id;
	read_text(&reader, json, "version", status->version, sizeof(status->version));
	status->leader = read_unsigned(&reader, json, "leader");
	status->raft_term = read_unsigned(&reader, json, "raftTerm");
	status->raft_index = read_unsigned(&reader, json, "raftIndex");
	status->raft_applied_index = read_unsigned(&reader, json, "raftAppliedIndex");
	status->db_bytes = read_unsigned(&reader, json, "dbSize");
	status->db_used_bytes = read_unsigned(&reader, json, "dbSizeInUse");
	errors = read_field(&reader, json, "errors", JSON_ARRAY);
	first = json_array_get(errors, 0);
	if (json_is_string(first))
		snprintf(status->problem, sizeof(status->problem), "%s", json_string_value(first));
	text_mask(status->problem, strlen(status->problem));
	return reader_end(&reader, why);
}

int etcd_response_token(char token[ETCD_TOKEN_MAX], const json_t *json, char why[ETCD_WHY_MAX])
{
	struct reader reader = { 0 };
	const json_t *field = read_field(&reader, json, "token", JSON_STRING);
	size_t length = field ? json_string_length(field) : 0;

	*token = 0;
	/* A header of HTTP will have it, in which no line may end. */
	for (size_t i = 0; i < length; i++)
		if (json_string_value(field)[i] <= ' ' || json_string_value(field)[i] > '~')
			fail(&reader, "its token has other characters than ASCII's");
	if (!length || length >= ETCD_TOKEN_MAX)
		fail(&reader, "it has no token, or a longer one than 4 KiB");
	if (!reader.err)
		memcpy(token, json_string_value(field), length + 1);
	return reader_end(&reader, why);
}
