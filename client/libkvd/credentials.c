/* SPDX-License-Identifier: MIT */
#include "client/libkvd/credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/heap.h"

/* X(member, option, variable) */
#define CREDENTIALS(X)                                                                             \
	X(ca, tls_ca, "KVD_TLS_CA")                                                                \
	X(certificate, tls_certificate, "KVD_TLS_CERTIFICATE")                                     \
	X(key, tls_key, "KVD_TLS_KEY")                                                             \
	X(psk, tls_psk, "KVD_TLS_PSK")

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

static const char *or_environment(const char *option, const char *variable)
{
	return option ? option : or_empty(secure_getenv(variable));
}

int credentials_copy(struct tls_files *to, const struct tls_files *from)
{
	size_t bytes = 0;
	char *at;

#define X(member, option, variable) bytes += strlen(or_empty(from->member)) + 1;
	CREDENTIALS(X)
#undef X
	*to = (struct tls_files){ 0 };
	at = heap_alloc(bytes);
	if (!at)
		return -ENOMEM;
		/* In one piece, which begins with the first of them. */
#define X(member, option, variable)                                                                \
	to->member = at;                                                                           \
	at = stpcpy(at, or_empty(from->member)) + 1;
	CREDENTIALS(X)
#undef X
	return 0;
}

int credentials_take(struct tls_files *files, const struct kvd_options *options)
{
	const struct tls_files names = {
#define X(member, option, variable) .member = or_environment(options->option, variable),
		CREDENTIALS(X)
#undef X
	};

	return credentials_copy(files, &names);
}

bool credentials_same(const struct tls_files *a, const struct tls_files *b)
{
	bool same = true;

#define X(member, option, variable)                                                                \
	same = same && !strcmp(or_empty(a->member), or_empty(b->member));
	CREDENTIALS(X)
#undef X
	return same;
}

void credentials_release(struct tls_files *files)
{
	heap_free((void *)files->ca);
	*files = (struct tls_files){ 0 };
}
