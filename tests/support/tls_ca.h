/* SPDX-License-Identifier: MIT */
/*
 * A small certificate authority, for tests: keys and certificates in a folder of the test. What
 * can't be made fails the test. Threads: one.
 */
#ifndef KVD_TESTS_SUPPORT_TLS_CA_H
#define KVD_TESTS_SUPPORT_TLS_CA_H

#include <stdbool.h>

struct tls_ca;

#define TLS_CA_PATH_MAX 128

/* A new folder in /tmp; tls_ca_folder_remove() removes it with all that is in it. */
const char *tls_ca_folder_make(void);
void tls_ca_folder_remove(void);
/* The name of a file there. Valid until 8 more were asked for. */
const char *tls_ca_path(const char *name);
/* Writes a file there, with the permissions. */
const char *tls_ca_write(const char *name, const char *text, unsigned int mode);

/* An authority of its own; NAME.pem is its certificate. */
struct tls_ca *tls_ca_make(const char *name);
void tls_ca_free(struct tls_ca *ca);

struct tls_ca_subject {
	const char *common_name;
	const char *names; /* as in openssl.cnf: "IP:127.0.0.1,DNS:localhost"; NULL: none */
	const void *raw;   /* a DNS name of @raw_len bytes, which may be any; NULL: none */
	int raw_len;
	long valid_s; /* from now on; 0: a day; < 0: it has expired */
};

/* NAME.pem and NAME.key: a certificate that the authority signed, and its key. */
void tls_ca_sign(struct tls_ca *ca, const char *name, const struct tls_ca_subject *subject);
/* The key in NAME.key once more, encrypted, in OTHER. */
void tls_ca_encrypt(const char *name, const char *other);

#endif /* KVD_TESTS_SUPPORT_TLS_CA_H */
