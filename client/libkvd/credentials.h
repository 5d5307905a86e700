/* SPDX-License-Identifier: MIT */
/*
 * Names of the files that say who a client is and whom it trusts: from kvd_options or the
 * environment. Internal to libkvd.
 */
#ifndef KVD_CLIENT_LIBKVD_CREDENTIALS_H
#define KVD_CLIENT_LIBKVD_CREDENTIALS_H

#include <stdbool.h>

#include "client/kvd.h"
#include "common/tls/tls.h"

/* Names for a connection by @options; all of them "" or set. 0 or -ENOMEM. */
int credentials_take(struct tls_files *files, const struct kvd_options *options);
/* Copies of the names. 0 or -ENOMEM. */
int credentials_copy(struct tls_files *to, const struct tls_files *from);
bool credentials_same(const struct tls_files *a, const struct tls_files *b);
/* Frees what either made. Zeros are allowed. */
void credentials_release(struct tls_files *files);

#endif /* KVD_CLIENT_LIBKVD_CREDENTIALS_H */
