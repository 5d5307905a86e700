/* SPDX-License-Identifier: MIT */
/* Tests of where a client's credentials come from (client/libkvd/shared.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/libkvd/shared.h"
#include "common/util/heap.h"

static const char *const variables[] = { "KVD_TLS_CA", "KVD_TLS_CERTIFICATE", "KVD_TLS_KEY",
					 "KVD_TLS_PSK" };

static int setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		unsetenv(variables[i]);
	return 0;
}

static void are(const struct kvd_options *options, const char *ca, const char *certificate,
		const char *key, const char *psk)
{
	struct tls_files files;

	assert_int_equal(credentials_take(&files, options), 0);
	assert_string_equal(files.ca, ca);
	assert_string_equal(files.certificate, certificate);
	assert_string_equal(files.key, key);
	assert_string_equal(files.psk, psk);
	assert_false(files.peer_certificate);
	credentials_release(&files);
	credentials_release(&files);
}

/* An option counts more than the variable, also if it says that there is none. */
static void options_before_environment(void **state)
{
	struct kvd_options options;

	(void)state;
	kvd_options_init(&options);
	are(&options, "", "", "", "");
	setenv("KVD_TLS_CA", "ca", 1);
	setenv("KVD_TLS_CERTIFICATE", "certificate", 1);
	setenv("KVD_TLS_KEY", "key", 1);
	setenv("KVD_TLS_PSK", "psk", 1);
	are(&options, "ca", "certificate", "key", "psk");
	options.tls_key = "another key";
	options.tls_psk = "";
	are(&options, "ca", "certificate", "another key", "");
	options = (struct kvd_options){
		.tls_ca = "a", .tls_certificate = "b", .tls_key = "c", .tls_psk = "d"
	};
	are(&options, "a", "b", "c", "d");
}

/* The caller's and the environment's may change. */
static void are_copied(void **state)
{
	char name[] = "ca";
	struct kvd_options options = { .tls_ca = name };
	struct tls_files files, copy;

	(void)state;
	assert_int_equal(credentials_take(&files, &options), 0);
	assert_int_equal(credentials_copy(&copy, &files), 0);
	name[0] = 'x';
	assert_string_equal(files.ca, "ca");
	credentials_release(&files);
	assert_string_equal(copy.ca, "ca");
	credentials_release(&copy);
}

static void compare(void **state)
{
	const struct tls_files none = { 0 }, empty = { "", "", "", "", false };
	const struct tls_files one = { "a", "b", "c", "d", false }, same = one;
	const struct tls_files others[] = { { "x", "b", "c", "d", false },
					    { "a", "x", "c", "d", false },
					    { "a", "b", "x", "d", false },
					    { "a", "b", "c", "x", false },
					    none };

	(void)state;
	assert_true(credentials_same(&none, &empty));
	assert_true(credentials_same(&one, &same));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(credentials_same(&one, &others[i]));
}

static bool no_memory;

static void *heap_take(void *user, size_t bytes)
{
	(void)user;
	return no_memory ? NULL : malloc(bytes);
}

static void *heap_change(void *user, void *memory, size_t bytes)
{
	(void)user;
	return no_memory ? NULL : realloc(memory, bytes);
}

static void heap_give(void *user, void *memory)
{
	(void)user;
	free(memory);
}

static void without_memory(void **state)
{
	const struct kvd_options options = { .tls_ca = "ca" };
	struct tls_files files;

	(void)state;
	no_memory = true;
	assert_int_equal(credentials_take(&files, &options), -ENOMEM);
	no_memory = false;
	credentials_release(&files);
}

int main(void)
{
	static const struct heap_functions functions = { heap_take, heap_change, heap_give, NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(options_before_environment, setup),
		cmocka_unit_test_setup(are_copied, setup),
		cmocka_unit_test_setup(compare, setup),
		cmocka_unit_test_setup(without_memory, setup),
	};

	if (heap_set(&functions))
		return EXIT_FAILURE;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
