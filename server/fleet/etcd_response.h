/* SPDX-License-Identifier: MIT */
/*
 * What etcd answers, from its JSON, which may be anything: a body that is malformed, too deep or
 * too large becomes -EPROTO with a reason. A field that is absent is 0, as etcd leaves out zeros.
 *
 * The parser is jansson: it refuses what is not UTF-8, zero bytes in texts, and names that stand
 * twice; it seeds its hash; and it keeps integers of 64 bits. cJSON makes every number a double,
 * and ends a text at an escaped zero byte.
 *
 * Threads: any.
 */
#ifndef KVD_SERVER_FLEET_ETCD_RESPONSE_H
#define KVD_SERVER_FLEET_ETCD_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "server/fleet/etcd_http.h"

/*
 * Nesting, and values, of a body. etcd's bodies have at most 7 levels, and 7 values for each key.
 * The parser takes up to 300 bytes for a value, so 10 MiB, and the body once more for its texts.
 */
#define ETCD_DEPTH_MAX 16
#define ETCD_VALUES_MAX 32768

/* A key with its value; a zero byte follows each, which the lengths do not count. */
struct etcd_kv {
	const char *key;
	size_t key_len;
	const void *value;
	size_t value_len;
	int64_t create_revision; /* grows when the key is deleted and created again */
	int64_t mod_revision;
	int64_t lease; /* 0: none */
};

/* The keys that a GET found, in order. */
struct etcd_range {
	const struct etcd_kv *kvs;
	size_t count;
};

struct etcd_answer {
	/* Of etcd as a whole: another one, or one restored from a backup, shows here. */
	uint64_t cluster_id;
	int64_t revision; /* of the latest change that etcd knew when it answered */
	uint64_t member_id;

	/*
	 * A read has one range; a transaction one for each operation of the branch that was
	 * executed, which is empty after PUT and DELETE.
	 */
	const struct etcd_range *ranges;
	unsigned int range_count;

	void *memory; /* of all the above */
};

/* Zeroes @answer, which may be zeroed already. */
void etcd_answer_release(struct etcd_answer *answer);

#define ETCD_VERSION_MAX 32
#define ETCD_PROBLEM_MAX 160

/* How one endpoint of etcd is. */
struct etcd_status {
	char version[ETCD_VERSION_MAX]; /* "3.4.23" */
	uint64_t cluster_id, member_id;
	uint64_t leader;		  /* the member that leads; 0: none that this one knows */
	uint64_t raft_term;		  /* grows with each election */
	uint64_t raft_index;		  /* of the last entry of its log */
	uint64_t raft_applied_index;	  /* of the last entry whose change it has */
	uint64_t db_bytes, db_used_bytes; /* the file, and without its free pages */
	char problem[ETCD_PROBLEM_MAX];	  /* the first that it reports: "etcdserver: no leader" */
};

/*
 * Parses a body; the caller json_decref()s it. 0, -ENOMEM, or -EPROTO with @why and *json NULL.
 */
int etcd_response_parse(json_t **json, const struct etcd_reply *reply, char why[ETCD_WHY_MAX]);

/*
 * These take a body apart. 0, -ENOMEM, or -EPROTO with @why and nothing in the results, which the
 * caller releases otherwise.
 */
int etcd_response_range(struct etcd_answer *answer, const json_t *json, char why[ETCD_WHY_MAX]);
/* @count: the number of operations of each branch, [true] that of success. */
int etcd_response_txn(struct etcd_answer *answer, bool *succeeded, const unsigned int count[2],
		      const json_t *json, char why[ETCD_WHY_MAX]);
/* @lease and @ttl_s are 0 where they are absent. */
int etcd_response_lease(int64_t *lease, int64_t *ttl_s, const json_t *json, char why[ETCD_WHY_MAX]);
int etcd_response_status(struct etcd_status *status, const json_t *json, char why[ETCD_WHY_MAX]);
int etcd_response_token(char token[ETCD_TOKEN_MAX], const json_t *json, char why[ETCD_WHY_MAX]);

#endif /* KVD_SERVER_FLEET_ETCD_RESPONSE_H */
