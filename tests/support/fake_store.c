/* SPDX-License-Identifier: MIT */
/* A store of a test: see fake_store.h. */
#include "tests/support/fake_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct fake_store fake_store;

void fake_store_reset(const struct db_backend *backend)
{
	memset(&fake_store, 0, sizeof(fake_store));
	fake_store.db.backend = backend;
	fake_store.statistics = "";
}

int fake_store_teardown(void **state)
{
	(void)state;
	assert_int_equal(fake_store.opened, fake_store.closed);
	return 0;
}

enum kvd_status fake_store_open(struct db **db, const char *url, const struct kvd_options *options,
				char *error)
{
	fake_store.options = *options;
	snprintf(fake_store.url, sizeof(fake_store.url), "%s", url);
	*error = '\0';
	*db = NULL;
	if (fake_store.open_status) {
		snprintf(error, DB_ERROR_MAX, "%s", FAKE_STORE_REASON);
		return fake_store.open_status;
	}
	fake_store.opened++;
	*db = &fake_store.db;
	return KVD_OK;
}

void fake_store_close(struct db *db)
{
	(void)db;
	fake_store.closed++;
}

enum kvd_status fake_store_statistics(struct db *db, char *text, size_t size)
{
	(void)db;
	snprintf(text, size, "%s", fake_store.statistics);
	return KVD_OK;
}

const char *fake_store_error(const struct db *db)
{
	(void)db;
	return FAKE_STORE_REASON;
}
