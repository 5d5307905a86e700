/* SPDX-License-Identifier: MIT */
/* Finds identities, makes and forgets them, and passes them from one connection to the next. */
#include "server/control/identity.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "common/sum.h"
#include "server/worker/conn.h"

/* Identities forgotten in one tick of the control thread. */
#define EXPIRE_AT_ONCE 1024

static uint32_t bucket_count(uint32_t max)
{
	uint32_t count = 1;

	while (count < max)
		count *= 2;
	return count;
}

uint64_t identities_bytes(uint32_t max)
{
	return max ? bucket_count(max) * sizeof(struct identity_bucket) +
			       (uint64_t)max * sizeof(struct identity) :
		     0;
}

int identities_init(struct identities *identities, uint32_t max, uint64_t keep_ns)
{
	unsigned int i;

	*identities = (struct identities){
		.bucket_count = bucket_count(max),
		.max = max,
		.keep_ns = keep_ns,
	};
	TAILQ_INIT(&identities->kept);
	for (i = 0; i < IDENTITY_GROUPS; i++)
		TAILQ_INIT(&identities->groups[i].kept);
	if (getrandom(&identities->seed, sizeof(identities->seed), 0) != sizeof(identities->seed))
		return -EIO;
	identities->buckets = calloc(identities->bucket_count, sizeof(*identities->buckets));
	return identities->buckets ? 0 : -ENOMEM;
}

static struct identity_bucket *bucket_of(struct identities *identities, const uint8_t *id)
{
	uint64_t hash = key_hash(id, WIRE_IDENTITY_BYTES, identities->seed);

	return &identities->buckets[hash & (identities->bucket_count - 1)];
}

static struct identity *find(struct identities *identities, const uint8_t *id)
{
	struct identity *identity;

	LIST_FOREACH(identity, bucket_of(identities, id), hash_entry)
		if (!memcmp(identity->id, id, WIRE_IDENTITY_BYTES))
			return identity;
	return NULL;
}

static void keep(struct identities *identities, struct identity *identity)
{
	TAILQ_INSERT_TAIL(&identities->kept, identity, kept_entry);
	TAILQ_INSERT_TAIL(&identities->groups[identity->group].kept, identity, group_entry);
	identities->groups[identity->group].count++;
	identities->kept_count++;
}

static void unkeep(struct identities *identities, struct identity *identity)
{
	TAILQ_REMOVE(&identities->kept, identity, kept_entry);
	TAILQ_REMOVE(&identities->groups[identity->group].kept, identity, group_entry);
	identities->groups[identity->group].count--;
	identities->kept_count--;
}

/* @identity is a kept one. */
static void forget(struct identities *identities, struct identity *identity)
{
	unkeep(identities, identity);
	LIST_REMOVE(identity, hash_entry);
	identities->count--;
	free(identity);
}

void identities_release(struct identities *identities)
{
	struct identity *identity;
	uint32_t i;

	for (i = 0; identities->buckets && i < identities->bucket_count; i++)
		while ((identity = LIST_FIRST(&identities->buckets[i]))) {
			LIST_REMOVE(identity, hash_entry);
			free(identity);
		}
	free(identities->buckets);
	*identities = (struct identities){ 0 };
}

/* IDENTITY-3. False: none is kept. */
static bool evict(struct identities *identities)
{
	unsigned int i, most = 0;

	for (i = 1; i < IDENTITY_GROUPS; i++)
		if (identities->groups[i].count > identities->groups[most].count)
			most = i;
	if (!identities->groups[most].count)
		return false;
	forget(identities, TAILQ_FIRST(&identities->groups[most].kept));
	identities->evicted++;
	return true;
}

static struct identity *make(struct identities *identities, const struct hello_query *hello)
{
	struct identity *identity;

	if (identities->count >= identities->max && !evict(identities))
		return NULL;
	identity = calloc(1, sizeof(*identity));
	if (!identity)
		return NULL;
	memcpy(identity->id, hello->identity, WIRE_IDENTITY_BYTES);
	answers_init(&identity->answers, hello->change_next);
	LIST_INSERT_HEAD(bucket_of(identities, identity->id), identity, hash_entry);
	identities->count++;
	return identity;
}

static void own(struct identity *identity, struct conn *conn, bool known)
{
	const char *name = conn->client.principal->name;

	identity->owner = conn;
	identity->group = (unsigned int)(XXH3_64bits(name, strlen(name)) % IDENTITY_GROUPS);
	conn->identity = identity;
	conn->query.hello.known = known;
	conn->query.hello.answers = &identity->answers;
}

bool identity_claim(struct identities *identities, struct conn *conn, struct conn **closes)
{
	struct identity *identity = conn->identity;

	*closes = NULL;
	if (identity) /* inherited */
		return true;
	identity = find(identities, conn->query.hello.identity);
	if (identity && identity->owner) {
		*closes = identity->heir ? identity->heir : identity->owner;
		if (identity->heir)
			identity->heir->identity = NULL;
		identity->heir = conn;
		conn->identity = identity;
		return false;
	}
	if (identity) {
		unkeep(identities, identity);
		own(identity, conn, true);
		return true;
	}
	identity = make(identities, &conn->query.hello);
	if (identity)
		own(identity, conn, false);
	return true;
}

struct conn *identity_leave(struct identities *identities, struct conn *conn, uint64_t now_ns)
{
	struct identity *identity = conn->identity;
	struct conn *heir;

	if (!identity)
		return NULL;
	assert(identity->owner == conn);
	conn->identity = NULL;
	heir = identity->heir;
	if (heir) {
		identity->heir = NULL;
		own(identity, heir, true);
		return heir;
	}
	identity->owner = NULL;
	identity->ended_ns = now_ns;
	keep(identities, identity);
	return NULL;
}

void identity_disinherit(struct conn *conn)
{
	if (!conn->identity || conn->identity->heir != conn)
		return;
	conn->identity->heir = NULL;
	conn->identity = NULL;
}

bool identity_restore(struct identities *identities, const uint8_t *id, unsigned int group,
		      const struct answers *answers, uint64_t ended_ns)
{
	struct identity *identity;

	if (identities->count >= identities->max || find(identities, id))
		return false;
	identity = calloc(1, sizeof(*identity));
	if (!identity)
		return false;
	memcpy(identity->id, id, WIRE_IDENTITY_BYTES);
	identity->answers = *answers;
	identity->ended_ns = ended_ns;
	identity->group = group;
	LIST_INSERT_HEAD(bucket_of(identities, id), identity, hash_entry);
	identities->count++;
	keep(identities, identity);
	return true;
}

void identities_expire(struct identities *identities, uint64_t now_ns)
{
	struct identity *identity;
	unsigned int i;

	for (i = 0; i < EXPIRE_AT_ONCE && (identity = TAILQ_FIRST(&identities->kept)); i++) {
		if (now_ns < identity->ended_ns + identities->keep_ns)
			return;
		forget(identities, identity);
	}
}
