/* SPDX-License-Identifier: MIT */
/*
 * Batches: 1,000 PUTs that are submitted together, and 1,000 GETs in one call. The library keeps
 * kvd_options.depth of them under way, several in each message and in each chain of READs.
 *
 *	batch [URL]
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvd.h>

#define COUNT 1000
#define BATCH 64

static char keys[COUNT][16], values[COUNT][32], read_back[COUNT][32];
static struct kvd_get_request requests[COUNT];
static struct kvd_op ops[COUNT];

static void put_all(struct kvd *db)
{
	struct kvd_op *submit[COUNT], *done[BATCH];
	size_t i, n;

	for (i = 0; i < COUNT; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key-%zu", i);
		snprintf(values[i], sizeof(values[i]), "value of %zu", i);
		kvd_prep_put(&ops[i], keys[i], strlen(keys[i]), values[i], strlen(values[i]), NULL);
		submit[i] = &ops[i];
	}
	if (kvd_submit(db, submit, COUNT))
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	/* Keys and values must stay unchanged until their operations are handed back. */
	while (kvd_outstanding(db)) {
		n = kvd_wait(db, done, BATCH, 1, UINT32_MAX);
		for (i = 0; i < n; i++)
			if (done[i]->status)
				errx(EXIT_FAILURE, "%.*s: %s", (int)done[i]->key_len,
				     (const char *)done[i]->key, kvd_status_text(done[i]->status));
	}
}

static size_t get_all(struct kvd *db)
{
	size_t i, right = 0;

	for (i = 0; i < COUNT; i++)
		requests[i] = (struct kvd_get_request){
			.key = keys[i],
			.key_len = strlen(keys[i]),
			.value = read_back[i],
			.value_size = sizeof(read_back[i]),
		};
	if (kvd_get_many(db, requests, COUNT))
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	for (i = 0; i < COUNT; i++)
		right += !requests[i].status && requests[i].item.value_len == strlen(values[i]) &&
			 !memcmp(read_back[i], values[i], strlen(values[i]));
	return right;
}

int main(int argc, char **argv)
{
	char url[KVD_URL_MAX];
	struct kvd *db;

	if (kvd_open(&db, argc > 1 ? argv[1] : kvd_default_url(url), NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	put_all(db);
	printf("%zu of %d values read back\n", get_all(db), COUNT);
	kvd_close(db);
	return 0;
}
