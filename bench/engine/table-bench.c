/* SPDX-License-Identifier: MIT */
/*
 * table-bench: measures what one operation costs in the storage engine alone, without network,
 * messages and threads, compared with liburcu's hash table.
 *
 *	kvd		table_put(), lookup_get(), table_delete(), one key after the other
 *	kvd, batches	the same as a worker does it: BATCH keys are hashed, then their buckets are
 *			prefetched, then their items, then the operations are done
 *	cds_lfht	liburcu's lock-free table with QSBR, created with one bucket for each key so
 *			that it never grows; a node with key and value is one malloc(); XXH3 as in
 *			kvd. What is replaced or deleted is freed at once, which is too cheap: with
 *			other threads it has to wait for a grace period.
 *
 * kvd's items have a checksum that every PUT computes and one-sided readers verify; lfht has none.
 * Keys of 16 bytes, values of 32; all keys in random order, but inserts in order.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _LGPL_SOURCE /* lfht's read side inline */
#include <urcu/urcu-qsbr.h>
#include <urcu/rculfhash.h>

#include "bench/random.h"
#include "common/util/clock.h"
#include "common/util/parse.h"
#include "server/store/store.h"

#define BATCH 32u
#define KEY_BYTES 16u
#define VALUE_BYTES 32u
#define KEYS_MAX 400000000u
/* Bytes for each key: item 72, bucket slots at half of 67 % fill 28, the rest for size classes. */
#define REGION_BYTES_PER_KEY 128u

enum op { OP_INSERT, OP_HIT, OP_MISS, OP_REPLACE, OP_DELETE, OPS };

static const char *const op_names[OPS] = { "insert", "get, hit", "get, miss", "replace", "delete" };

struct key {
	uint64_t words[KEY_BYTES / 8];
};

struct value {
	uint64_t words[VALUE_BYTES / 8];
};

static inline struct key key_of(uint64_t number)
{
	uint64_t state = number;

	return (struct key){ { splitmix_next(&state), number } };
}

static inline struct value value_of(uint64_t number, uint64_t generation)
{
	return (struct value){ { number, generation, ~number, ~generation } };
}

static void must(bool right, enum op op, uint64_t number)
{
	if (!right)
		errx(EXIT_FAILURE, "%s of key %" PRIu64 " went wrong", op_names[op], number);
}

/* kvd */

static struct store store;
static struct store_thread thread;

static void engine_create(uint64_t keys)
{
	const struct store_options options = {
		.bytes = keys * REGION_BYTES_PER_KEY + (64u << 20),
		.hugepages = HUGEPAGES_OFF,
		.level = index_level(keys),
		.value_max = 1 << 20,
		.fill = 65,
		.eviction = EVICTION_NONE,
	};

	urcu_qsbr_register_thread();
	if (store_create(&store, &options) || store_thread_init(&thread, &store.table, 0))
		errx(EXIT_FAILURE, "no memory for a store of %" PRIu64 " keys", keys);
}

static void engine_destroy(void)
{
	store_thread_release(&thread);
	store_destroy(&store);
	urcu_qsbr_unregister_thread();
}

static inline bool kvd_put(uint64_t hash, const struct key *key, const struct value *value)
{
	struct table_change change = {
		.key = key,
		.key_len = KEY_BYTES,
		.mode = WIRE_SET,
		.value = value,
		.value_len = VALUE_BYTES,
	};

	return table_put(&thread, hash, &change) == WIRE_OK;
}

static inline void kvd_do(enum op op, uint64_t number, const struct key *key, uint64_t hash)
{
	const struct table_change delete = { .key = key, .key_len = KEY_BYTES };
	struct item_ref ref;
	struct value value;

	switch (op) {
	case OP_INSERT:
	case OP_REPLACE:
		value = value_of(number, (uint64_t)op);
		must(kvd_put(hash, key, &value), op, number);
		break;
	case OP_DELETE:
		must(table_delete(&thread, hash, &delete) == WIRE_OK, op, number);
		break;
	default:
		/* The value is copied, as by a two-sided GET. */
		must((lookup_get(&thread, hash, key, KEY_BYTES, &value, sizeof(value), &ref) ==
		      WIRE_OK) == (op == OP_HIT) &&
			     (op == OP_MISS || value.words[0] == number),
		     op, number);
	}
}

static void kvd_singly(enum op op, const uint32_t *numbers, uint64_t offset, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		const struct key key = key_of(numbers[i] + offset);

		kvd_do(op, numbers[i] + offset, &key, table_hash(&store.table, &key, KEY_BYTES));
	}
	urcu_qsbr_quiescent_state();
}

static void kvd_batch(enum op op, const uint32_t *numbers, uint64_t offset, unsigned int count)
{
	struct key keys[BATCH];
	uint64_t hashes[BATCH];
	unsigned int i;

	for (i = 0; i < count; i++) {
		keys[i] = key_of(numbers[i] + offset);
		hashes[i] = table_hash(&store.table, &keys[i], KEY_BYTES);
		table_prefetch_bucket(&store.table, hashes[i]);
	}
	for (i = 0; i < count; i++)
		table_prefetch_item(&store.table, hashes[i]);
	for (i = 0; i < count; i++)
		kvd_do(op, numbers[i] + offset, &keys[i], hashes[i]);
	urcu_qsbr_quiescent_state();
}

/* cds_lfht */

struct node {
	struct cds_lfht_node node;
	struct key key;
	struct value value;
};

static struct cds_lfht *lfht;

static inline uint64_t lfht_hash(const struct key *key)
{
	return XXH3_64bits_withSeed(key, KEY_BYTES, 1);
}

static int lfht_match(struct cds_lfht_node *node, const void *key)
{
	return !memcmp(&caa_container_of(node, struct node, node)->key, key, KEY_BYTES);
}

static struct node *lfht_find(const struct key *key)
{
	struct cds_lfht_node *node;
	struct cds_lfht_iter iter;

	cds_lfht_lookup(lfht, lfht_hash(key), lfht_match, key, &iter);
	node = cds_lfht_iter_get_node(&iter);
	return node ? caa_container_of(node, struct node, node) : NULL;
}

static void lfht_put(enum op op, uint64_t number, const struct key *key)
{
	struct node *node = malloc(sizeof(*node));
	struct cds_lfht_node *old;

	if (!node)
		errx(EXIT_FAILURE, "out of memory");
	cds_lfht_node_init(&node->node);
	node->key = *key;
	node->value = value_of(number, (uint64_t)op);
	old = cds_lfht_add_replace(lfht, lfht_hash(key), lfht_match, key, &node->node);
	must(!old == (op == OP_INSERT), op, number);
	if (old)
		free(caa_container_of(old, struct node, node));
}

static inline void lfht_do(enum op op, uint64_t number)
{
	const struct key key = key_of(number);
	struct value value = { { 0 } };
	struct node *node;

	if (op == OP_INSERT || op == OP_REPLACE) {
		lfht_put(op, number, &key);
		return;
	}
	node = lfht_find(&key);
	must(!node == (op == OP_MISS), op, number);
	if (op == OP_HIT) {
		value = node->value;
		__asm__ volatile(""
				 :
				 : "m"(value)); /* the copy is made, as lookup_get() makes it */
		must(value.words[0] == number, op, number);
	} else if (op == OP_DELETE) {
		must(!cds_lfht_del(lfht, &node->node), op, number);
		free(node);
	}
}

static void lfht_singly(enum op op, const uint32_t *numbers, uint64_t offset, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		urcu_qsbr_read_lock();
		lfht_do(op, numbers[i] + offset);
		urcu_qsbr_read_unlock();
	}
	urcu_qsbr_quiescent_state();
}

static void lfht_create(uint64_t keys)
{
	unsigned long size = 1;

	while (size < keys)
		size <<= 1;
	urcu_qsbr_register_thread();
	lfht = cds_lfht_new_flavor(size, size, size, 0, &urcu_qsbr_flavor, NULL);
	if (!lfht)
		errx(EXIT_FAILURE, "no memory for cds_lfht");
}

static void lfht_destroy(void)
{
	cds_lfht_destroy(lfht, NULL);
	urcu_qsbr_unregister_thread();
}

/* Both */

struct orders {
	uint64_t keys;
	uint32_t *straight, *shuffled;
};

typedef void work_fn(enum op op, const uint32_t *numbers, uint64_t offset, unsigned int count);

static double op_time(enum op op, work_fn *work, const struct orders *orders)
{
	const uint32_t *order = op == OP_INSERT ? orders->straight : orders->shuffled;
	/* Misses look up numbers that were never put. */
	const uint64_t offset = op == OP_MISS ? UINT64_C(1) << 40 : 0;
	const uint64_t start_ns = clock_ns();
	uint64_t i;

	for (i = 0; i + BATCH <= orders->keys; i += BATCH)
		work(op, order + i, offset, BATCH);
	return (double)(clock_ns() - start_ns) / (double)orders->keys;
}

static void all_ops(work_fn *work, const struct orders *orders, double *ns)
{
	int op;

	for (op = 0; op < OPS; op++)
		ns[op] = op_time((enum op)op, work, orders);
}

static void orders_make(struct orders *orders, uint64_t keys)
{
	struct random random;
	uint32_t i, other, number;

	orders->keys = keys / BATCH * BATCH;
	orders->straight = malloc(keys * sizeof(uint32_t));
	orders->shuffled = malloc(keys * sizeof(uint32_t));
	if (!orders->straight || !orders->shuffled)
		errx(EXIT_FAILURE, "out of memory");
	random_init(&random, 1);
	for (i = 0; i < orders->keys; i++) {
		orders->straight[i] = i;
		orders->shuffled[i] = i;
	}
	for (i = (uint32_t)orders->keys; i > 1; i--) {
		other = (uint32_t)random_below(&random, i);
		number = orders->shuffled[i - 1];
		orders->shuffled[i - 1] = orders->shuffled[other];
		orders->shuffled[other] = number;
	}
}

static void print(const struct orders *orders, const double *singly, const double *batches,
		  const double *other)
{
	int op;

	printf("%" PRIu64 " keys of %u bytes, values of %u; one thread; ns an operation\n\n",
	       orders->keys, KEY_BYTES, VALUE_BYTES);
	printf("%-10s %9s %13s %10s %17s %17s\n", "", "kvd", "kvd, batches", "cds_lfht",
	       "lfht / kvd", "lfht / batches");
	for (op = 0; op < OPS; op++)
		printf("%-10s %9.1f %13.1f %10.1f %17.2f %17.2f\n", op_names[op], singly[op],
		       batches[op], other[op], other[op] / singly[op], other[op] / batches[op]);
}

static uint64_t arguments_parse(int argc, char **argv)
{
	uint64_t keys = 1000000;
	struct parse_why why;

	if (argc > 2 || (argc == 2 && parse_uint(argv[1], BATCH, KEYS_MAX, &keys, &why))) {
		fprintf(stderr, "Usage: table-bench [KEYS]\n");
		exit(2);
	}
	return keys;
}

int main(int argc, char **argv)
{
	const uint64_t keys = arguments_parse(argc, argv);
	double singly[OPS], batches[OPS], other[OPS];
	struct orders orders;

	orders_make(&orders, keys);
	engine_create(keys);
	/* The first run is not measured: it makes the kernel allocate the region's pages. */
	all_ops(kvd_batch, &orders, batches);
	all_ops(kvd_singly, &orders, singly);
	all_ops(kvd_batch, &orders, batches);
	engine_destroy();
	lfht_create(keys);
	all_ops(lfht_singly, &orders, other);
	all_ops(lfht_singly, &orders, other);
	lfht_destroy();
	print(&orders, singly, batches, other);
	free(orders.straight);
	free(orders.shuffled);
	return 0;
}
