/* SPDX-License-Identifier: MIT */
/*
 * The synchronous calls, one after another: put, get, a counter, a change that depends on the
 * version that was read, and a missing key.
 *
 *	sync [URL]
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <kvd.h>

/* Every call returns a status; the handle has the text, with the cause and the remedy. */
static void check(struct kvd *db, enum kvd_status status)
{
	if (status)
		errx(EXIT_FAILURE, "%s", kvd_error(db));
}

int main(int argc, char **argv)
{
	const struct kvd_arith_args from_zero = { .create = 1 };
	char url[KVD_URL_MAX], value[100];
	struct kvd_put_args args = { 0 };
	enum kvd_status status;
	struct kvd_item item;
	uint64_t visits;
	struct kvd *db;

	check(NULL, kvd_open(&db, argc > 1 ? argv[1] : kvd_default_url(url), NULL));

	check(db, kvd_put(db, "name", 4, "Ada", 3, NULL, NULL));
	check(db, kvd_get(db, "name", 4, value, sizeof(value), &item));
	printf("name is %.*s\n", (int)item.value_len, value);

	/* The key may exist, from another run. */
	status = kvd_delete(db, "visits", 6);
	if (status != KVD_NOT_FOUND)
		check(db, status);
	for (int i = 0; i < 3; i++)
		check(db, kvd_incr(db, "visits", 6, 1, &from_zero, &visits, NULL));
	printf("visits after the first and two more: %" PRIu64 "\n", visits);

	/* Stored only if nobody has changed the key since the GET: item has its version. */
	args.mode = KVD_PUT_IF_VERSION;
	args.if_version = item.version;
	check(db, kvd_put(db, "name", 4, "Ada Lovelace", 12, &args, NULL));
	status = kvd_put(db, "name", 4, "Ada Byron", 9, &args, NULL);
	printf("the second change with the old version: %s\n", kvd_status_text(status));

	status = kvd_get(db, "nobody", 6, value, sizeof(value), &item);
	printf("nobody: %s\n", kvd_status_text(status));

	kvd_close(db);
	return 0;
}
