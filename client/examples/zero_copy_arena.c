/* SPDX-License-Identifier: MIT */
/*
 * An arena that is registered once, as for an LLM's KV cache: its blocks are stored and read in
 * place, several at a time, without a copy. Then one value is scattered: the part of each layer is
 * read to a block of its own.
 *
 *	zero_copy_arena [URL]
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvd.h>

#define BLOCK_BYTES (256u << 10)
#define BLOCKS 64
#define STORED 16
#define LAYERS 8
#define LAYER_BYTES (128u << 10)

static struct kvd *db;
static uint8_t *arena;

static uint8_t *block(unsigned int number)
{
	return arena + (size_t)number * BLOCK_BYTES;
}

/* Fills a block, in place of a model's results. */
static void compute(unsigned int number)
{
	uint32_t *words = (uint32_t *)(void *)block(number);

	for (size_t i = 0; i < BLOCK_BYTES / sizeof(*words); i++)
		words[i] = (uint32_t)i * 2654435761u + number;
}

/* Submits @count operations and waits for all; returns how many succeeded. */
static unsigned int run(struct kvd_op *ops, unsigned int count)
{
	struct kvd_op *list[STORED], *done[STORED];
	unsigned int i, right = 0;

	for (i = 0; i < count; i++)
		list[i] = &ops[i];
	if (kvd_submit(db, list, count))
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	while (kvd_outstanding(db))
		for (size_t n = kvd_wait(db, done, STORED, 1, UINT32_MAX); n--;)
			right += !done[n]->status;
	return right;
}

/* Stores blocks 0 to 15, and reads them to blocks 16 to 31. */
static void store_and_read_blocks(void)
{
	struct kvd_op ops[STORED];
	char keys[STORED][32];
	unsigned int i, stored, right = 0;

	for (i = 0; i < STORED; i++) {
		compute(i);
		snprintf(keys[i], sizeof(keys[i]), "prefix-%u", i);
		kvd_prep_put(&ops[i], keys[i], strlen(keys[i]), block(i), BLOCK_BYTES, NULL);
	}
	stored = run(ops, STORED);
	for (i = 0; i < STORED; i++)
		kvd_prep_get(&ops[i], keys[i], strlen(keys[i]), block(STORED + i), BLOCK_BYTES);
	run(ops, STORED);
	for (i = 0; i < STORED; i++)
		right += !ops[i].status && !memcmp(block(i), block(STORED + i), BLOCK_BYTES);
	printf("%u blocks stored, %u read back\n", stored, right);
}

/* Reads a value of 8 layers: each layer to a block of its own, from block 32 on. */
static void read_to_pieces(void)
{
	struct iovec layers[LAYERS];
	unsigned int i, right = 0;
	struct kvd_item item;

	if (kvd_put(db, "layers", 6, block(0), (size_t)LAYERS * LAYER_BYTES, NULL, NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	for (i = 0; i < LAYERS; i++)
		layers[i] = (struct iovec){ block(2 * STORED + i), LAYER_BYTES };
	if (kvd_getv(db, "layers", 6, layers, LAYERS, &item))
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	for (i = 0; i < LAYERS; i++)
		right += !memcmp(layers[i].iov_base, block(0) + i * LAYER_BYTES, LAYER_BYTES);
	printf("%zu bytes read to %u places\n", item.value_len, right);
}

int main(int argc, char **argv)
{
	char url[KVD_URL_MAX];
	struct kvd_stats stats;
	struct kvd_mem *mem;
	void *memory;

	if (kvd_open(&db, argc > 1 ? argv[1] : kvd_default_url(url), NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	if (kvd_alloc(db, (size_t)BLOCKS * BLOCK_BYTES, &memory, &mem))
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	arena = memory;
	store_and_read_blocks();
	read_to_pieces();
	kvd_stats(db, &stats);
	printf("%llu MiB moved without a copy\n", (unsigned long long)stats.direct_bytes >> 20);
	kvd_free(mem);
	kvd_close(db);
	return 0;
}
