/* SPDX-License-Identifier: MIT */
/* The identity that a certificate gives its owner. */
#include "common/tls/tls.h"

#include <stdio.h>
#include <string.h>

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

/* In order of preference. */
static const struct {
	int type;
	const char *prefix;
} kinds[] = {
	{ GEN_URI, "cert:uri:" },
	{ GEN_DNS, "cert:dns:" },
	{ GEN_EMAIL, "cert:email:" },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define SUBJECT_PREFIX "cert:subject:"
/* Flags to print a subject: an identity is one word. */
#define SPACE "\\20"
#define SPACE_BYTES (sizeof(SPACE) - 1)

/* False: not printable ASCII, a zero byte in the middle say, or too long. */
static bool take(char identity[TLS_IDENTITY_MAX], const char *prefix, const void *text,
		 size_t length)
{
	const unsigned char *bytes = text;
	size_t prefix_len = strlen(prefix);

	if (!length || prefix_len + length >= TLS_IDENTITY_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (bytes[i] <= ' ' || bytes[i] > '~')
			return false;
	memcpy(identity, prefix, prefix_len);
	memcpy(identity + prefix_len, bytes, length);
	identity[prefix_len + length] = '\0';
	return true;
}

/* Whether there is a name of this kind: then only that one counts. */
static bool named(const GENERAL_NAMES *names, size_t kind, char identity[TLS_IDENTITY_MAX])
{
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		const ASN1_STRING *string;

		if (name->type != kinds[kind].type)
			continue;
		string = name->d.ia5;
		if (!take(identity, kinds[kind].prefix, ASN1_STRING_get0_data(string),
			  (size_t)ASN1_STRING_length(string)))
			*identity = '\0';
		return true;
	}
	return false;
}

/* Written as in RFC 4514, with spaces and all but printable ASCII escaped. */
static void subject(X509 *certificate, char identity[TLS_IDENTITY_MAX])
{
	BIO *text = BIO_new(BIO_s_mem());
	char escaped[TLS_IDENTITY_MAX];
	const char *bytes = NULL;
	size_t length = 0, i;
	long printed = 0;

	if (text &&
	    X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) > 0)
		printed = BIO_get_mem_data(text, &bytes);
	for (i = 0; i < (size_t)printed && length + SPACE_BYTES < sizeof(escaped); i++)
		if (bytes[i] == ' ')
			length = (size_t)(stpcpy(escaped + length, SPACE) - escaped);
		else
			escaped[length++] = bytes[i];
	if (i < (size_t)printed || !take(identity, SUBJECT_PREFIX, escaped, length))
		*identity = '\0';
	BIO_free(text);
}

void tls_certificate_identity(X509 *certificate, char identity[TLS_IDENTITY_MAX])
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool found = false;

	*identity = '\0';
	for (size_t kind = 0; kind < KINDS && !found; kind++)
		found = named(names, kind, identity);
	if (!found)
		subject(certificate, identity);
	GENERAL_NAMES_free(names);
}
