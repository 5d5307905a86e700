/* SPDX-License-Identifier: MIT */
/*
 * Tests of what an end of TLS shows and trusts (common/tls/context.c): what each file that can't
 * be used gets as a text, and that secrets which others may read are refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/tls/tls.h"
#include "tests/support/tls_ca.h"

#define KEY_LINE "alice:000102030405060708090a0b0c0d0e0f\n"

static struct tls_ca *ca;
static char ca_file[TLS_CA_PATH_MAX], certificate[TLS_CA_PATH_MAX], key[TLS_CA_PATH_MAX],
	psk[TLS_CA_PATH_MAX];

static int files_make(void **state)
{
	const struct tls_ca_subject one = { .common_name = "one", .names = "DNS:one" };

	(void)state;
	tls_ca_folder_make();
	ca = tls_ca_make("ca");
	tls_ca_sign(ca, "one", &one);
	tls_ca_sign(ca, "two", &one);
	strcpy(ca_file, tls_ca_path("ca.pem"));
	strcpy(certificate, tls_ca_path("one.pem"));
	strcpy(key, tls_ca_path("one.key"));
	strcpy(psk, tls_ca_write("psk", KEY_LINE, 0600));
	return 0;
}

static int files_remove(void **state)
{
	(void)state;
	tls_ca_free(ca);
	tls_ca_folder_remove();
	return 0;
}

static void is_made(const struct tls_files *files, const char *host)
{
	struct tls_context *context = NULL;
	char why[TLS_WHY_MAX] = "";

	assert_int_equal(tls_context_make(&context, files, host, why), 0);
	assert_int_equal(tls_context_is_server(context), !host);
	tls_context_put(context);
}

/* With "@what @file: @reason", or @reason alone without a file. */
static void is_refused(const struct tls_files *files, const char *host, const char *what,
		       const char *file, const char *reason)
{
	char why[TLS_WHY_MAX] = "", expected[TLS_WHY_MAX];
	struct tls_context *context;

	snprintf(expected, sizeof(expected), "%s%s%s%s%s", what, file ? " " : "", file ? file : "",
		 file ? ": " : "", reason);
	assert_int_equal(tls_context_make(&context, files, host, why), -EINVAL);
	assert_string_equal(why, expected);
}

static void made(void **state)
{
	const struct tls_files with_certificate = { .certificate = certificate, .key = key };
	const struct tls_files with_key = { .psk = psk, .peer_certificate = true };
	const struct tls_files with_all = { .ca = ca_file,
					    .certificate = certificate,
					    .key = key,
					    .psk = psk,
					    .peer_certificate = true };
	const struct tls_files none = { .ca = "", .certificate = "", .key = "", .psk = "" };

	(void)state;
	is_made(&with_certificate, NULL);
	is_made(&with_key, NULL);
	is_made(&with_all, NULL);
	is_made(&none, "kvd.example");
	is_made(&with_key, "10.9.0.1");
	is_made(&with_all, "fe80::1%eth0");
	tls_context_put(NULL);
}

static void server_has_nothing_to_show(void **state)
{
	const struct tls_files none = { 0 }, trusts = { .ca = ca_file };

	(void)state;
	is_refused(&none, NULL, "", NULL, "a server needs a certificate, or a file of keys");
	is_refused(&trusts, NULL, "", NULL, "a server needs a certificate, or a file of keys");
}

static void nobody_could_connect(void **state)
{
	const struct tls_files files = { .certificate = certificate,
					 .key = key,
					 .peer_certificate = true };

	(void)state;
	is_refused(&files, NULL, "", NULL,
		   "clients must show a certificate, but the CA certificates that sign them "
		   "are missing: name their file (ca)");
}

static void halves(void **state)
{
	const struct tls_files no_key = { .certificate = certificate },
			       no_certificate = { .key = key };

	(void)state;
	is_refused(&no_key, NULL, "the certificate", certificate, "its private key is missing");
	is_refused(&no_certificate, "kvd", "the key", key, "a certificate for it is missing");
}

static void do_not_fit(void **state)
{
	const struct tls_files files = { .certificate = certificate,
					 .key = tls_ca_path("two.key") };

	(void)state;
	is_refused(&files, NULL, "the key", files.key, "it is not the certificate's");
}

static void do_not_exist(void **state)
{
	struct tls_files files = { .certificate = "/nowhere/a", .key = key };

	(void)state;
	is_refused(&files, NULL, "the certificate", "/nowhere/a", "No such file or directory");
	files = (struct tls_files){ .certificate = certificate, .key = "/nowhere/b" };
	is_refused(&files, NULL, "the key", "/nowhere/b", "No such file or directory");
	files = (struct tls_files){ .ca = "/nowhere/c" };
	is_refused(&files, "kvd", "the CA certificates", "/nowhere/c", "No such file or directory");
	files = (struct tls_files){ .psk = "/nowhere/d" };
	is_refused(&files, NULL, "the file of keys", "/nowhere/d", "No such file or directory");
}

static void are_no_certificates(void **state)
{
	const char *text = tls_ca_write("text", "no certificate\n", 0600);
	struct tls_files files = { .certificate = text, .key = key };

	(void)state;
	is_refused(&files, NULL, "the certificate", text, "no start line");
	files = (struct tls_files){ .certificate = certificate, .key = text };
	is_refused(&files, NULL, "the key", text, "unsupported");
	files = (struct tls_files){ .ca = text };
	is_refused(&files, "kvd", "the CA certificates", text, "no certificate or crl found");
}

/* Nobody is asked for its passphrase. */
static void key_is_encrypted(void **state)
{
	struct tls_files files = { .certificate = certificate };

	(void)state;
	tls_ca_encrypt("one", "encrypted.key");
	files.key = tls_ca_path("encrypted.key");
	is_refused(&files, NULL, "the key", files.key, "it is encrypted: give an unencrypted one");
}

#define OPEN_TO_OTHERS "it is a secret that other users may read or change: `chmod 600` it"

static void secret_is_none(void **state)
{
	static const struct {
		unsigned int mode;
		bool secret;
	} cases[] = {
		{ 0600, true },	 { 0400, true },  { 0640, true },  { 0604, false },
		{ 0602, false }, { 0601, false }, { 0620, false }, { 0660, false },
	};
	const char *keys = tls_ca_write("keys", KEY_LINE, 0600);
	const struct tls_files shared = { .psk = keys };
	const struct tls_files files = { .certificate = certificate, .key = key };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(chmod(keys, cases[i].mode), 0);
		assert_int_equal(chmod(key, cases[i].mode), 0);
		if (cases[i].secret) {
			is_made(&shared, NULL);
			is_made(&files, NULL);
		} else {
			is_refused(&shared, NULL, "the file of keys", keys, OPEN_TO_OTHERS);
			is_refused(&files, NULL, "the key", key, OPEN_TO_OTHERS);
		}
	}
	assert_int_equal(chmod(key, 0600), 0);
}

static void secret_of_another_user(void **state)
{
	const char *keys = tls_ca_write("theirs", KEY_LINE, 0600);
	const struct tls_files files = { .psk = keys };

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(chown(keys, 4711, (gid_t)-1), 0);
	is_refused(&files, NULL, "the file of keys", keys,
		   "it belongs to another user, who could change it: `chown` it");
}

static void secret_is_no_file(void **state)
{
	const struct tls_files files = { .psk = "/dev/null" };

	(void)state;
	is_refused(&files, NULL, "the file of keys", files.psk, "it is not a regular file");
}

static void keys_have_errors(void **state)
{
	struct tls_files files = { .psk = tls_ca_write("bad", KEY_LINE "bob:xyz\n", 0600) };

	(void)state;
	is_refused(&files, NULL, "the file of keys", files.psk,
		   "line 2: the key must have 32 to 128 hexadecimal "
		   "digits, two for each byte");
	files.psk = tls_ca_write("empty", "# nobody\n", 0600);
	is_refused(&files, NULL, "the file of keys", files.psk, "it has no key");
}

static unsigned long mapped_bytes(void)
{
	unsigned long pages = 0;
	FILE *in = fopen("/proc/self/statm", "re");

	assert_non_null(in);
	assert_int_equal(fscanf(in, "%lu", &pages), 1);
	fclose(in);
	return pages * (unsigned long)sysconf(_SC_PAGESIZE);
}

/* What was read of them does not stay. */
static void keys_are_too_long(void **state)
{
	static char text[(1 << 20) + 1];
	struct tls_files files = { 0 };
	unsigned long before;

	(void)state;
	memset(text, '\n', sizeof(text) - 1);
	files.psk = tls_ca_write("long", text, 0600);
	is_refused(&files, NULL, "the file of keys", files.psk, "it is longer than 1 MiB");
	before = mapped_bytes();
	for (unsigned int i = 0; i < 20; i++)
		is_refused(&files, NULL, "the file of keys", files.psk, "it is longer than 1 MiB");
	assert_true(mapped_bytes() < before + 10 * sizeof(text));
	text[sizeof(text) - 2] = '\0';
	memcpy(text, KEY_LINE, strlen(KEY_LINE));
	files.psk = tls_ca_write("fits", text, 0600);
	is_made(&files, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made),
		cmocka_unit_test(server_has_nothing_to_show),
		cmocka_unit_test(nobody_could_connect),
		cmocka_unit_test(halves),
		cmocka_unit_test(do_not_fit),
		cmocka_unit_test(do_not_exist),
		cmocka_unit_test(are_no_certificates),
		cmocka_unit_test(key_is_encrypted),
		cmocka_unit_test(secret_is_none),
		cmocka_unit_test(secret_of_another_user),
		cmocka_unit_test(secret_is_no_file),
		cmocka_unit_test(keys_have_errors),
		cmocka_unit_test(keys_are_too_long),
	};

	return cmocka_run_group_tests(tests, files_make, files_remove);
}
