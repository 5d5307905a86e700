/* SPDX-License-Identifier: MIT */
#include "tests/support/tls_ca.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define VALID_S 86400
#define NAMES_MAX 32

struct tls_ca {
	EVP_PKEY *key;
	X509 *certificate;
};

static char folder[] = "/tmp/kvd-tls-XXXXXX";
static char written[NAMES_MAX][TLS_CA_PATH_MAX];
static unsigned int written_count;

const char *tls_ca_folder_make(void)
{
	strcpy(folder, "/tmp/kvd-tls-XXXXXX");
	assert_non_null(mkdtemp(folder));
	return folder;
}

void tls_ca_folder_remove(void)
{
	while (written_count)
		(void)unlink(written[--written_count]);
	assert_int_equal(rmdir(folder), 0);
}

const char *tls_ca_path(const char *name)
{
	static char paths[8][TLS_CA_PATH_MAX];
	static unsigned int next;
	char *path = paths[next++ % 8];

	snprintf(path, TLS_CA_PATH_MAX, "%s/%s", folder, name);
	return path;
}

/* Creates a file that will be removed again. */
static FILE *create(const char *name, const char *suffix, unsigned int mode)
{
	char whole[64];
	FILE *out;

	snprintf(whole, sizeof(whole), "%s%s", name, suffix);
	out = fopen(tls_ca_path(whole), "we");
	assert_non_null(out);
	assert_int_equal(fchmod(fileno(out), mode), 0);
	for (unsigned int i = 0; i < written_count; i++)
		if (!strcmp(written[i], tls_ca_path(whole)))
			return out;
	assert_true(written_count < NAMES_MAX);
	strcpy(written[written_count++], tls_ca_path(whole));
	return out;
}

const char *tls_ca_write(const char *name, const char *text, unsigned int mode)
{
	FILE *out = create(name, "", mode);

	fputs(text, out);
	assert_int_equal(fclose(out), 0);
	return tls_ca_path(name);
}

static void add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *extension;
	X509V3_CTX context;

	X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

static void add_raw_name(X509 *certificate, const void *bytes, int length)
{
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_IA5STRING *text = ASN1_IA5STRING_new();

	assert_int_equal(ASN1_STRING_set(text, bytes, length), 1);
	GENERAL_NAME_set0_value(name, GEN_DNS, text);
	sk_GENERAL_NAME_push(names, name);
	assert_int_equal(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0), 1);
	GENERAL_NAMES_free(names);
}

static X509 *certificate_new(EVP_PKEY *key, const char *common_name, long valid_s)
{
	static long serial = 1;
	X509 *certificate = X509_new();
	X509_NAME *name = X509_get_subject_name(certificate);

	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
	X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * VALID_S);
	X509_gmtime_adj(X509_getm_notAfter(certificate), valid_s ? valid_s : VALID_S);
	X509_set_pubkey(certificate, key);
	if (common_name)
		X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
					   (const unsigned char *)common_name, -1, -1, 0);
	return certificate;
}

static void certificate_write(const char *name, X509 *certificate)
{
	FILE *out = create(name, ".pem", 0644);

	assert_int_equal(PEM_write_X509(out, certificate), 1);
	assert_int_equal(fclose(out), 0);
}

struct tls_ca *tls_ca_make(const char *name)
{
	struct tls_ca *ca = calloc(1, sizeof(*ca));

	ca->key = EVP_EC_gen("P-256");
	assert_non_null(ca->key);
	ca->certificate = certificate_new(ca->key, name, 0);
	X509_set_issuer_name(ca->certificate, X509_get_subject_name(ca->certificate));
	add_extension(ca->certificate, ca->certificate, NID_basic_constraints, "critical,CA:TRUE");
	assert_true(X509_sign(ca->certificate, ca->key, EVP_sha256()) > 0);
	certificate_write(name, ca->certificate);
	return ca;
}

void tls_ca_free(struct tls_ca *ca)
{
	EVP_PKEY_free(ca->key);
	X509_free(ca->certificate);
	free(ca);
}

void tls_ca_sign(struct tls_ca *ca, const char *name, const struct tls_ca_subject *subject)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = certificate_new(key, subject->common_name, subject->valid_s);
	FILE *out = create(name, ".key", 0600);

	X509_set_issuer_name(certificate, X509_get_subject_name(ca->certificate));
	if (subject->names)
		add_extension(certificate, ca->certificate, NID_subject_alt_name, subject->names);
	if (subject->raw)
		add_raw_name(certificate, subject->raw, subject->raw_len);
	assert_true(X509_sign(certificate, ca->key, EVP_sha256()) > 0);
	certificate_write(name, certificate);
	assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(out), 0);
	X509_free(certificate);
	EVP_PKEY_free(key);
}

void tls_ca_encrypt(const char *name, const char *other)
{
	char whole[64];
	EVP_PKEY *key;
	FILE *in, *out;

	snprintf(whole, sizeof(whole), "%s.key", name);
	in = fopen(tls_ca_path(whole), "re");
	assert_non_null(in);
	key = PEM_read_PrivateKey(in, NULL, NULL, NULL);
	assert_non_null(key);
	fclose(in);
	out = create(other, "", 0600);
	assert_int_equal(PEM_write_PrivateKey(out, key, EVP_aes_128_cbc(), NULL, 0, NULL,
					      (void *)"secret"),
			 1);
	assert_int_equal(fclose(out), 0);
	EVP_PKEY_free(key);
}
