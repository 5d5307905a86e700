/* SPDX-License-Identifier: MIT */
/*
 * What etcd is asked, and its JSON: keys and values are in base64, integers are texts, since JSON's
 * numbers hold 53 bits. Threads: any.
 */
#ifndef KVD_SERVER_FLEET_ETCD_REQUEST_H
#define KVD_SERVER_FLEET_ETCD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a key, and of a value; etcd refuses requests of more than 1.5 MiB. */
#define ETCD_KEY_MAX 1024
#define ETCD_VALUE_MAX ((size_t)1 << 20)
/* Compares, and operations of a branch; etcd's own limit (--max-txn-ops) is 128, too. */
#define ETCD_OPS_MAX 128

struct etcd_compare {
	const char *key;
	enum etcd_target {
		ETCD_CREATE_REVISION, /* true if change @revision created the key */
		ETCD_MOD_REVISION,    /* true if change @revision was the key's last one */
		ETCD_PRESENT,	      /* true if there is such a key; @revision is not used */
	} target;
	int64_t revision; /* 0: true if there is no such key */
};

struct etcd_op {
	enum etcd_op_kind { ETCD_GET, ETCD_PUT, ETCD_DELETE } kind;
	const char *key;
	bool prefix; /* GET, DELETE: all keys that begin with @key */

	/* PUT */
	const void *value;
	size_t value_len;
	int64_t lease; /* the key ends with it; 0: none */
};

/* If all @compares are true, etcd executes @success, else @failure, in one step. */
struct etcd_txn {
	const struct etcd_compare *compares;
	unsigned int compare_count;
	const struct etcd_op *success;
	unsigned int success_count;
	const struct etcd_op *failure;
	unsigned int failure_count;
};

/* A body that grows. Starts zeroed. */
struct etcd_body {
	char *text;
	size_t length, room;
	bool failed; /* no memory: what follows is left out */
};

void etcd_body_release(struct etcd_body *body);

/* The body of /v3/kv/range. */
void etcd_request_range(struct etcd_body *body, const char *key, bool prefix);
/* The body of /v3/kv/txn. */
void etcd_request_txn(struct etcd_body *body, const struct etcd_txn *txn);
/* The body of a request about a lease: {"@name":"@value"}. */
void etcd_request_number(struct etcd_body *body, const char *name, int64_t value);

/* What is wrong with a key or a transaction: a sentence without a full stop, or NULL. */
const char *etcd_key_check(const char *key);
const char *etcd_txn_check(const struct etcd_txn *txn);

#endif /* KVD_SERVER_FLEET_ETCD_REQUEST_H */
