/* SPDX-License-Identifier: MIT */
/* What etcd is asked, and its JSON: see etcd_request.h. */
#include "server/fleet/etcd_request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#define BODY_ROOM_MIN 1024u

static bool body_reserve(struct etcd_body *body, size_t bytes)
{
	size_t room = body->room ? body->room : BODY_ROOM_MIN;
	char *text;

	while (room <= body->length + bytes)
		room *= 2;
	if (body->failed || room == body->room)
		return !body->failed;
	text = realloc(body->text, room);
	if (!text) {
		body->failed = true;
		return false;
	}
	body->text = text;
	body->room = room;
	return true;
}

static void __attribute__((format(printf, 2, 3)))
body_add(struct etcd_body *body, const char *format, ...)
{
	char text[128]; /* more than any format below makes */
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!body_reserve(body, (size_t)length))
		return;
	memcpy(body->text + body->length, text, (size_t)length + 1);
	body->length += (size_t)length;
}

static void body_add_base64(struct etcd_body *body, const void *bytes, size_t count)
{
	/* EVP_EncodeBlock() adds a zero byte, for which there is always room. */
	if (!body_reserve(body, (count + 2) / 3 * 4))
		return;
	body->length += (size_t)EVP_EncodeBlock((unsigned char *)body->text + body->length, bytes,
						(int)count);
}

void etcd_body_release(struct etcd_body *body)
{
	free(body->text);
	memset(body, 0, sizeof(*body));
}

/*
 * etcd's prefix is a range: it ends before the first key that is greater than all with the prefix.
 */
static void add_range_end(struct etcd_body *body, const char *key)
{
	unsigned char end[ETCD_KEY_MAX];
	size_t length = strlen(key);

	memcpy(end, key, length);
	while (length && end[length - 1] == 0xff)
		length--;
	if (length)
		end[length - 1]++;
	else
		end[length++] = 0; /* to the last key */
	body_add(body, ",\"range_end\":\"");
	body_add_base64(body, end, length);
	body_add(body, "\"");
}

static void add_key(struct etcd_body *body, const char *key, bool prefix)
{
	body_add(body, "{\"key\":\"");
	body_add_base64(body, key, strlen(key));
	body_add(body, "\"");
	if (prefix)
		add_range_end(body, key);
}

static void add_compare(struct etcd_body *body, const struct etcd_compare *compare)
{
	bool is_mod = compare->target == ETCD_MOD_REVISION;
	bool present = compare->target == ETCD_PRESENT;

	add_key(body, compare->key, false);
	body_add(body, ",\"result\":\"%s\",\"target\":\"%s\",\"%s_revision\":\"%" PRId64 "\"}",
		 present ? "GREATER" : "EQUAL", is_mod ? "MOD" : "CREATE",
		 is_mod ? "mod" : "create", present ? 0 : compare->revision);
}

static void add_op(struct etcd_body *body, const struct etcd_op *op)
{
	static const char *const names[] = {
		[ETCD_GET] = "range",
		[ETCD_PUT] = "put",
		[ETCD_DELETE] = "delete_range",
	};

	body_add(body, "{\"request_%s\":", names[op->kind]);
	add_key(body, op->key, op->prefix && op->kind != ETCD_PUT);
	if (op->kind == ETCD_PUT) {
		body_add(body, ",\"lease\":\"%" PRId64 "\",\"value\":\"", op->lease);
		body_add_base64(body, op->value, op->value_len);
		body_add(body, "\"");
	}
	body_add(body, "}}");
}

static void add_ops(struct etcd_body *body, const char *name, const struct etcd_op *ops,
		    unsigned int count)
{
	body_add(body, ",\"%s\":[", name);
	for (unsigned int i = 0; i < count; i++) {
		body_add(body, "%s", i ? "," : "");
		add_op(body, &ops[i]);
	}
	body_add(body, "]");
}

void etcd_request_range(struct etcd_body *body, const char *key, bool prefix)
{
	add_key(body, key, prefix);
	body_add(body, "}");
}

void etcd_request_txn(struct etcd_body *body, const struct etcd_txn *txn)
{
	body_add(body, "{\"compare\":[");
	for (unsigned int i = 0; i < txn->compare_count; i++) {
		body_add(body, "%s", i ? "," : "");
		add_compare(body, &txn->compares[i]);
	}
	body_add(body, "]");
	add_ops(body, "success", txn->success, txn->success_count);
	add_ops(body, "failure", txn->failure, txn->failure_count);
	body_add(body, "}");
}

void etcd_request_number(struct etcd_body *body, const char *name, int64_t value)
{
	body_add(body, "{\"%s\":\"%" PRId64 "\"}", name, value);
}

const char *etcd_key_check(const char *key)
{
	if (!*key)
		return "a key must not be empty";
	return strlen(key) <= ETCD_KEY_MAX ? NULL : "a key is longer than 1,024 bytes";
}

static const char *ops_check(const struct etcd_op *ops, unsigned int count)
{
	const char *wrong = count <= ETCD_OPS_MAX ? NULL : "it has more than 128 operations";

	for (unsigned int i = 0; !wrong && i < count; i++) {
		wrong = etcd_key_check(ops[i].key);
		if (ops[i].kind == ETCD_PUT && ops[i].value_len > ETCD_VALUE_MAX)
			wrong = "a value is larger than 1 MiB";
	}
	return wrong;
}

const char *etcd_txn_check(const struct etcd_txn *txn)
{
	const char *wrong = txn->compare_count <= ETCD_OPS_MAX ? NULL :
								 "it has more than 128 compares";

	for (unsigned int i = 0; !wrong && i < txn->compare_count; i++)
		wrong = etcd_key_check(txn->compares[i].key);
	if (!wrong)
		wrong = ops_check(txn->success, txn->success_count);
	return wrong ? wrong : ops_check(txn->failure, txn->failure_count);
}
