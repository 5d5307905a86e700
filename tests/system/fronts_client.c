/* SPDX-License-Identifier: MIT */
/* A thread of sys_fronts.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/splitmix.h"
#include "tests/linearizability/lin_kvd.h"
#include "tests/support/checks.h"
#include "tests/system/sys_fronts.h"

#define ROUND_OPS 300
#define SMALL_BYTES_MAX 200
#define MIDDLE_BYTES (20u << 10)
#define LARGE_BYTES (70u << 10)
/* More than the worker's buffers for input and output, from which values are sent and executed. */
#define MIDDLE_BYTES_MIN (16u << 10)
#define LARGE_BYTES_MIN (64u << 10)
#define NUMBER_BYTES 16
#define MEANWHILE_OPS 4
#define TTL_S 3600
#define WAIT_MS 400000 /* longer than a call may take */
#define MAGIC 0x6b766466u

/* The first bytes of values that are long enough. */
struct tag {
	uint32_t magic, thread;
	uint64_t serial;
};

static uint64_t thread_random(struct thread *t)
{
	return splitmix_next(&t->random);
}

/* Half of all operations are on one key. */
static uint32_t random_key(struct thread *t)
{
	uint64_t r = thread_random(t);

	return r % 2 ? 0 : (uint32_t)((r >> 8) % KEYS);
}

/* Digits for every third key, mostly; else bytes that begin with a tag, if there is room. */
static uint32_t value_make(struct thread *t, uint32_t key, bool piece, uint8_t *to)
{
	uint64_t r = thread_random(t);
	uint32_t len = 1 + (uint32_t)(r >> 16) % SMALL_BYTES_MAX;
	struct tag tag = { MAGIC, t->number, ++t->serial };

	if (key % 3 == 1 && r % 16)
		return (uint32_t)snprintf((char *)to, NUMBER_BYTES, "%u", (unsigned int)(r % 1000));
	if (!(r >> 8 & (piece ? 15 : 3)))
		len += MIDDLE_BYTES;
	else if (!piece && (r >> 8 & 3) == 1)
		len += LARGE_BYTES;
	memset(to, (int)(r >> 32), len);
	if (len >= sizeof(tag))
		memcpy(to, &tag, sizeof(tag));
	return len;
}

/* Notes what a GET found. */
static void value_seen(struct thread *t, uint32_t key, const uint8_t *value, uint32_t len,
		       uint64_t version)
{
	struct tag tag = { 0 };

	if (len >= sizeof(tag))
		memcpy(&tag, value, sizeof(tag));
	t->versions[key] = version;
	t->foreign[key] = tag.magic == MAGIC && (tag.thread % 2 != 0) != t->is_mc;
	if (!t->foreign[key])
		return;
	t->counts.saw_large += len > LARGE_BYTES_MIN;
	t->counts.saw_middle += len > MIDDLE_BYTES_MIN && len <= LARGE_BYTES_MIN;
	t->counts.saw_small += len <= MIDDLE_BYTES_MIN;
}

/* Records that an operation has ended, and counts it. */
static void record_return(struct thread *t, int64_t index, uint64_t now_ns, enum lin_status status,
			  uint64_t version, const struct lin_value *value)
{
	const struct lin_op *op;

	if (index < 0)
		die("lin_call", "out of memory");
	lin_return(&t->log, index, now_ns, status, version, value);
	op = &t->log.ops[index];
	t->counts.ok += status == LIN_OK;
	t->counts.not_found += status == LIN_NOT_FOUND;
	if (status != LIN_OK)
		return;
	t->counts.append += op->kind == LIN_APPEND;
	t->counts.incr += op->kind == LIN_INCR;
	t->counts.deleted += op->kind == LIN_DELETE;
	t->counts.cas += op->kind == LIN_CAS && t->foreign[op->key] &&
			 op->arg == t->versions[op->key];
}

static enum lin_kind random_kind(struct thread *t)
{
	static const uint8_t kinds[] = {
		LIN_GET,    LIN_GET,	LIN_GET,  LIN_GET,  LIN_GET,	LIN_GET,   LIN_PUT,
		LIN_PUT,    LIN_PUT,	LIN_ADD,  LIN_CAS,  LIN_CAS,	LIN_CAS,   LIN_REPLACE,
		LIN_APPEND, LIN_APPEND, LIN_INCR, LIN_INCR, LIN_DELETE, LIN_TOUCH,
	};

	return kinds[thread_random(t) % sizeof(kinds)];
}

/* A random operation on @key. Its value, if it has one, is in link->put. */
static struct lin_op random_op(struct thread *t, const struct link *link, uint32_t key,
			       uint32_t *len)
{
	struct lin_op op = { .key = key, .kind = (uint8_t)random_kind(t) };

	*len = 0;
	switch (op.kind) {
	case LIN_CAS:
		op.arg = t->versions[key] ? t->versions[key] : 1;
		/* fall through */
	case LIN_PUT:
	case LIN_ADD:
	case LIN_REPLACE:
	case LIN_APPEND:
		*len = value_make(t, key, op.kind == LIN_APPEND, link->put);
		op.value = lin_value(link->put, *len);
		break;
	case LIN_INCR:
		op.arg = thread_random(t) % 50;
		break;
	default:
		break;
	}
	return op;
}

static void key_make(const struct thread *t, uint32_t key, char text[KEY_BYTES])
{
	snprintf(text, KEY_BYTES, "fronts-%llu-%u", (unsigned long long)t->run->nonce, key);
}

/* By libkvd. */

static void kvd_prep_change(struct kvd_op *op, const struct lin_op *lin, const char *key,
			    const uint8_t *put, uint32_t len)
{
	static const uint8_t modes[] = {
		[LIN_PUT] = KVD_PUT_SET,
		[LIN_ADD] = KVD_PUT_IF_ABSENT,
		[LIN_REPLACE] = KVD_PUT_IF_PRESENT,
		[LIN_CAS] = KVD_PUT_IF_VERSION,
		[LIN_APPEND] = KVD_PUT_APPEND,
	};
	struct kvd_put_args args = { 0 };

	switch (lin->kind) {
	case LIN_DELETE:
		kvd_prep_delete(op, key, strlen(key));
		break;
	case LIN_INCR:
		kvd_prep_incr(op, key, strlen(key), lin->arg, NULL);
		break;
	case LIN_TOUCH:
		kvd_prep_touch(op, key, strlen(key), TTL_S);
		break;
	default:
		args.mode = modes[lin->kind];
		args.if_version = lin->kind == LIN_CAS ? lin->arg : 0;
		kvd_prep_put(op, key, strlen(key), put, len, &args);
		break;
	}
}

static enum lin_status kvd_status(const struct thread *t, const struct kvd_op *op)
{
	switch (op->status) {
	case KVD_OK:
		return LIN_OK;
	case KVD_NOT_FOUND:
		return LIN_NOT_FOUND;
	case KVD_ERR_EXISTS:
		return LIN_EXISTS;
	case KVD_ERR_NOT_A_NUMBER:
		return LIN_NOT_NUMBER;
	default:
		die(kvd_status_text(op->status), kvd_error(t->kvd));
	}
}

static void kvd_step(struct thread *t)
{
	const struct link *link = &t->links[0];
	struct kvd_op op, *submitted = &op, *done;
	uint32_t len, key = random_key(t);
	struct lin_op lin = random_op(t, link, key, &len);
	struct lin_value value;
	char text[KEY_BYTES];
	uint64_t now_ns;
	int64_t index;

	key_make(t, key, text);
	if (lin.kind != LIN_GET)
		kvd_prep_change(&op, &lin, text, link->put, len);
	else if (thread_random(t) % 8)
		kvd_prep_get(&op, text, strlen(text), link->got, VALUE_BYTES_MAX);
	else
		kvd_prep_get_by_request(&op, text, strlen(text), link->got, VALUE_BYTES_MAX);
	lin.call_ns = clock_ns();
	index = lin_call(&t->log, &lin);
	if (kvd_submit(t->kvd, &submitted, 1))
		die("kvd_submit", kvd_error(t->kvd));
	if (kvd_wait(t->kvd, &done, 1, 1, WAIT_MS) != 1)
		die("kvd_wait", "the operation did not end");
	now_ns = clock_ns();
	record_return(t, index, now_ns, kvd_status(t, &op), op.status ? 0 : op.item.version,
		      lin_kvd_value(&op, &value));
	if (lin.kind == LIN_GET && !op.status)
		value_seen(t, key, link->got, op.item.value_len, op.item.version);
}

/* By memcached's protocol. */

static void mc_step(struct thread *t, unsigned int depth, uint32_t key);

_Noreturn static void mc_broken(const struct link *link, const char *command)
{
	printf("%s: the last line was '%s'\n", command, link->client.line);
	die("memcached's protocol", "the connection is broken");
}

/* On another connection, of the same key. Nothing is done amid what is done so. */
static void meanwhile(struct thread *t, uint32_t key)
{
	for (unsigned int i = 0; i < MEANWHILE_OPS; i++)
		mc_step(t, 1, key);
}

static bool is_parted(struct thread *t, unsigned int depth, uint32_t len)
{
	return !depth && len > LARGE_BYTES_MIN && thread_random(t) % 2;
}

static uint64_t changes_of(const struct thread *t, uint32_t key)
{
	uint64_t count = 0;

	for (size_t i = t->log.count - MEANWHILE_OPS; i < t->log.count; i++)
		count += t->log.ops[i].key == key && t->log.ops[i].status == LIN_OK &&
			 t->log.ops[i].kind != LIN_GET && t->log.ops[i].kind != LIN_TOUCH;
	return count;
}

static enum mc_answer mc_get(struct thread *t, unsigned int depth, const struct lin_op *op,
			     const char *key, uint32_t *len, uint64_t *version)
{
	struct link *link = &t->links[depth];
	enum mc_answer answer = mc_client_gets(&link->client, key, len, version);
	uint32_t first = 0;

	if (answer != MC_ANSWER_OK)
		return answer;
	if (*len > VALUE_BYTES_MAX)
		mc_broken(link, "gets: the value is too long");
	if (is_parted(t, depth, *len)) {
		first = 1 + (uint32_t)thread_random(t) % MC_CLIENT_INPUT_BYTES;
		if (!mc_client_receive(&link->client, link->got, first))
			return MC_ANSWER_BROKEN;
		meanwhile(t, op->key);
		t->counts.taken_in_parts++;
		t->counts.changed_meanwhile += changes_of(t, op->key) > 0;
	}
	if (!mc_client_receive(&link->client, link->got + first, *len - first) ||
	    !mc_client_gets_end(&link->client))
		return MC_ANSWER_BROKEN;
	return MC_ANSWER_OK;
}

static enum mc_answer mc_put(struct thread *t, unsigned int depth, const struct lin_op *op,
			     const char *key, uint32_t len)
{
	static const char *const commands[] = {
		[LIN_PUT] = "set", [LIN_ADD] = "add",	    [LIN_REPLACE] = "replace",
		[LIN_CAS] = "cas", [LIN_APPEND] = "append",
	};
	struct link *link = &t->links[depth];
	uint32_t first = 0;

	if (!mc_client_put(&link->client, commands[op->kind], key, len, op->arg))
		return MC_ANSWER_BROKEN;
	if (is_parted(t, depth, len)) {
		first = (uint32_t)thread_random(t) % len;
		if (!mc_client_send(&link->client, link->put, first))
			return MC_ANSWER_BROKEN;
		meanwhile(t, op->key);
		t->counts.sent_in_parts++;
	}
	if (!mc_client_send(&link->client, link->put + first, len - first))
		return MC_ANSWER_BROKEN;
	return mc_client_put_end(&link->client);
}

static enum lin_status mc_status(const struct link *link, const struct lin_op *op,
				 enum mc_answer answer)
{
	switch (answer) {
	case MC_ANSWER_OK:
		return LIN_OK;
	case MC_ANSWER_NOT_FOUND:
		return LIN_NOT_FOUND;
	case MC_ANSWER_EXISTS:
		return LIN_EXISTS;
	case MC_ANSWER_NOT_STORED:
		return op->kind == LIN_ADD ? LIN_EXISTS : LIN_NOT_FOUND;
	case MC_ANSWER_NOT_A_NUMBER:
		return LIN_NOT_NUMBER;
	default:
		mc_broken(link, "no answer that the test knows");
	}
}

/* @depth: 0, or 1 amid another operation. */
static void mc_step(struct thread *t, unsigned int depth, uint32_t key)
{
	struct link *link = &t->links[depth];
	uint32_t len;
	struct lin_op op = random_op(t, link, key, &len);
	struct lin_value value;
	enum mc_answer answer;
	uint64_t now_ns, number = 0, version = 0;
	bool got;
	char text[KEY_BYTES];
	int64_t index;

	key_make(t, key, text);
	op.call_ns = clock_ns();
	index = lin_call(&t->log, &op);
	if (op.kind == LIN_GET)
		answer = mc_get(t, depth, &op, text, &len, &version);
	else if (op.kind == LIN_DELETE)
		answer = mc_client_delete(&link->client, text);
	else if (op.kind == LIN_TOUCH)
		answer = mc_client_touch(&link->client, text, TTL_S);
	else if (op.kind == LIN_INCR)
		answer = mc_client_incr(&link->client, text, op.arg, &number);
	else
		answer = mc_put(t, depth, &op, text, len);
	now_ns = clock_ns();
	got = op.kind == LIN_GET && answer == MC_ANSWER_OK;
	value = got ? lin_value(link->got, len) : lin_number(number);
	record_return(t, index, now_ns, mc_status(link, &op, answer), got ? version : 0,
		      got || (op.kind == LIN_INCR && answer == MC_ANSWER_OK) ? &value : NULL);
	if (got)
		value_seen(t, key, link->got, len, version);
}

void *thread_run(void *arg)
{
	struct thread *t = arg;

	lin_log_init(&t->log, (uint16_t)t->number);
	memset(t->versions, 0, sizeof(t->versions));
	memset(t->foreign, 0, sizeof(t->foreign));
	for (unsigned int i = 0; i < ROUND_OPS && clock_ns() < t->run->until_ns; i++)
		if (t->is_mc)
			mc_step(t, 0, random_key(t));
		else
			kvd_step(t);
	return NULL;
}

void thread_delete_keys(struct thread *t)
{
	char text[KEY_BYTES];
	enum kvd_status status;

	for (uint32_t key = 0; key < KEYS; key++) {
		key_make(t, key, text);
		status = kvd_delete(t->kvd, text, strlen(text));
		if (status && status != KVD_NOT_FOUND)
			die("kvd_delete", kvd_error(t->kvd));
	}
}

static void link_init(struct thread *t, struct link *link)
{
	int ret = t->is_mc ? mc_client_open(&link->client, t->run->port, true) : 0;

	if (ret)
		die("connect to memcached's port", strerror(-ret));
	link->got = malloc(VALUE_BYTES_MAX);
	link->put = malloc(LARGE_BYTES + SMALL_BYTES_MAX);
	if (!link->got || !link->put)
		die("malloc", "out of memory");
}

void thread_init(struct thread *t, const struct run *run, unsigned int number, uint64_t seed)
{
	*t = (struct thread){ .run = run, .number = number, .is_mc = number % 2 != 0 };
	t->random = seed * THREADS + number;
	for (unsigned int i = 0; i < 2; i++)
		link_init(t, &t->links[i]);
	if (t->is_mc)
		return;
	t->kvd = must_open(run->url);
	if (kvd_observe(t->kvd, KVD_OBSERVE_OPS))
		die("kvd_observe", kvd_error(t->kvd));
}

void thread_release(struct thread *t)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (t->is_mc)
			mc_client_close(&t->links[i].client);
		free(t->links[i].got);
		free(t->links[i].put);
	}
	kvd_close(t->kvd);
}
