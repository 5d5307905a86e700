/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of what etcd answers (server/fleet/etcd_response.c, etcd_refusal.c). The first byte
 * chooses what was asked and the status of HTTP; the rest is the body. What is taken apart ends in
 * the memory of the answer, each key has a name and revisions, and texts are printable.
 */
#include "common/util/text.h"
#include "server/fleet/etcd_refusal.h"
#include "tests/fuzz/fuzz.h"

static void check_answer(struct etcd_answer *answer)
{
	must(answer->cluster_id && answer->revision > 0);
	for (unsigned int i = 0; i < answer->range_count; i++) {
		for (size_t j = 0; j < answer->ranges[i].count; j++) {
			const struct etcd_kv *kv = &answer->ranges[i].kvs[j];

			must(kv->key_len && !kv->key[kv->key_len]);
			must(!((const char *)kv->value)[kv->value_len]);
			must(kv->create_revision > 0 && kv->mod_revision > 0);
		}
	}
	etcd_answer_release(answer);
}

static int take_apart(unsigned int kind, const json_t *json, char *why)
{
	static const unsigned int count[] = { 1, 2 };
	char token[ETCD_TOKEN_MAX];
	struct etcd_answer answer;
	struct etcd_status status;
	int64_t lease, ttl_s;
	bool succeeded;
	int err;

	switch (kind) {
	case 0:
		err = etcd_response_range(&answer, json, why);
		if (!err)
			check_answer(&answer);
		return err;
	case 1:
		err = etcd_response_txn(&answer, &succeeded, count, json, why);
		must(err || answer.range_count == count[succeeded]);
		if (!err)
			check_answer(&answer);
		return err;
	case 2:
		return etcd_response_lease(&lease, &ttl_s, json, why);
	case 3:
		return etcd_response_status(&status, json, why);
	default:
		err = etcd_response_token(token, json, why);
		must(err ? !*token : *token && strlen(token) < sizeof(token));
		return err;
	}
}

static void check_text(const char *why)
{
	size_t length = strlen(why), n;

	must(length && length < ETCD_WHY_MAX);
	for (const uint8_t *p = (const uint8_t *)why; *p; p += n, length -= n)
		must((n = plain_len(p, length)) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct etcd_reply reply = { .status = 200 };
	struct etcd_refusal refusal;
	char why[ETCD_WHY_MAX] = "";
	json_t *json;
	int err;

	if (!size)
		return 0;
	if (*data & 0x80)
		reply.status = *data & 0x40 ? 404 : 503;
	/* A zero byte follows, as after what etcd_http.c reads. */
	reply.length = size - 1;
	reply.text = malloc(size);
	memcpy(reply.text, data + 1, size - 1);
	reply.text[size - 1] = 0;
	err = etcd_response_parse(&json, &reply, why);
	if (etcd_refusal_read(&refusal, &reply, json, why))
		must(refusal.err < 0);
	else if (!err)
		err = take_apart(*data % 5, json, why);
	if (err)
		check_text(why);
	json_decref(json);
	free(reply.text);
	return 0;
}
