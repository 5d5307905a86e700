/* SPDX-License-Identifier: MIT */
/*
 * What is the same in the stores of tests of kvbench and kvtrace (bench/db.h): one connection that
 * is opened and closed, statistics, the reason of failures. What a store holds is the test's own.
 */
#ifndef KVD_TESTS_SUPPORT_FAKE_STORE_H
#define KVD_TESTS_SUPPORT_FAKE_STORE_H

#include "bench/db.h"

#define FAKE_STORE_REASON "the store's reason"

struct fake_store {
	struct db db;
	unsigned int opened, closed;
	enum kvd_status open_status; /* of the next connections */
	const char *statistics;	     /* lines of "name value" */
	struct kvd_options options;  /* of the last connection, and its URL */
	char url[KVD_URL_MAX];
};

extern struct fake_store fake_store;

/* Before each test. @backend has functions of these, and others. */
void fake_store_reset(const struct db_backend *backend);

/* A test's teardown: all that was opened is closed. */
int fake_store_teardown(void **state);

/* For struct db_backend. */
enum kvd_status fake_store_open(struct db **db, const char *url, const struct kvd_options *options,
				char *error);
void fake_store_close(struct db *db);
enum kvd_status fake_store_statistics(struct db *db, char *text, size_t size);
const char *fake_store_error(const struct db *db);

#endif /* KVD_TESTS_SUPPORT_FAKE_STORE_H */
