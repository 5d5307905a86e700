/* SPDX-License-Identifier: MIT */
/* Tests of whom a certificate names (common/tls/peer.c): names that nobody can mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/pem.h>

#include "common/tls/tls.h"
#include "tests/support/tls_ca.h"

static struct tls_ca *ca;

static int files_make(void **state)
{
	(void)state;
	tls_ca_folder_make();
	ca = tls_ca_make("ca");
	return 0;
}

static int files_remove(void **state)
{
	(void)state;
	tls_ca_free(ca);
	tls_ca_folder_remove();
	return 0;
}

static void names_of(const struct tls_ca_subject *subject, const char *expected)
{
	char identity[TLS_IDENTITY_MAX] = "something";
	X509 *certificate;
	FILE *in;

	tls_ca_sign(ca, "one", subject);
	in = fopen(tls_ca_path("one.pem"), "re");
	assert_non_null(in);
	certificate = PEM_read_X509(in, NULL, NULL, NULL);
	assert_non_null(certificate);
	fclose(in);
	tls_certificate_identity(certificate, identity);
	X509_free(certificate);
	assert_string_equal(identity, expected);
}

static void is(const char *common_name, const char *names, const char *expected)
{
	const struct tls_ca_subject subject = { .common_name = common_name, .names = names };

	names_of(&subject, expected);
}

/* The first of its kind, and the kinds in this order. */
static void kinds(void **state)
{
	(void)state;
	is("one", "DNS:a.example,email:me@example,URI:spiffe://example/a,URI:spiffe://example/b",
	   "cert:uri:spiffe://example/a");
	is("one", "email:me@example,DNS:a.example,DNS:b.example", "cert:dns:a.example");
	is("one", "IP:10.0.0.1,email:me@example", "cert:email:me@example");
	is("one", "IP:10.0.0.1", "cert:subject:CN=one");
	is("one", NULL, "cert:subject:CN=one");
	is(NULL, NULL, "");
}

/* One word; and what has another meaning in a subject is escaped. */
static void subjects(void **state)
{
	(void)state;
	is("a b  c", NULL, "cert:subject:CN=a\\20b\\20\\20c");
	is("a,CN=b", NULL, "cert:subject:CN=a\\,CN=b");
	is("\303\244", NULL, "cert:subject:CN=\\C3\\A4");
	is("line\nbreak", NULL, "cert:subject:CN=line\\0Abreak");
}

/* Whoever compares C strings would take it for a shorter one. */
static void zero_byte(void **state)
{
	const struct tls_ca_subject zero = { .common_name = "one",
					     .raw = "admin\0.evil.example",
					     .raw_len = 19 };
	const struct tls_ca_subject space = { .common_name = "one", .raw = "a b", .raw_len = 3 };
	const struct tls_ca_subject empty = { .common_name = "one", .raw = "", .raw_len = 0 };

	(void)state;
	/* Nor does its subject count instead: the one who signed it meant this name. */
	names_of(&zero, "");
	names_of(&space, "");
	names_of(&empty, "");
}

static void long_name(void **state)
{
	char raw[TLS_IDENTITY_MAX], expected[TLS_IDENTITY_MAX];
	struct tls_ca_subject subject = { .common_name = "one", .raw = raw };

	(void)state;
	memset(raw, 'a', sizeof(raw));
	subject.raw_len = (int)(TLS_IDENTITY_MAX - strlen("cert:dns:"));
	names_of(&subject, "");
	subject.raw_len--;
	snprintf(expected, sizeof(expected), "cert:dns:%.*s", subject.raw_len, raw);
	names_of(&subject, expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(subjects),
		cmocka_unit_test(zero_byte),
		cmocka_unit_test(long_name),
	};

	return cmocka_run_group_tests(tests, files_make, files_remove);
}
