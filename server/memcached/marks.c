/* SPDX-License-Identifier: MIT */
#include "server/memcached/marks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096u

struct kept {
	LIST_ENTRY(kept) bucket;
	TAILQ_ENTRY(kept) age; /* the oldest first */
	unsigned int bits;
	struct mark_item item;
	uint8_t key[];
};

struct marks {
	pthread_mutex_t lock; /* guards all but pending */
	LIST_HEAD(kept_list, kept) buckets[BUCKETS];
	TAILQ_HEAD(kept_ages, kept) ages;
	unsigned int count;
	_Atomic uint64_t pending[WORKERS_MAX]; /* of each worker: the hash, or 0 */
};

static struct marks *marks_make(void)
{
	struct marks *marks = calloc(1, sizeof(*marks));

	if (!marks)
		return NULL;
	pthread_mutex_init(&marks->lock, NULL);
	TAILQ_INIT(&marks->ages);
	return marks;
}

struct marks *marks_of(struct tenant *tenant, bool make)
{
	struct marks *marks = atomic_load_explicit(&tenant->marks, memory_order_acquire);
	struct marks *made;

	if (marks || !make)
		return marks;
	made = marks_make();
	if (made && !atomic_compare_exchange_strong(&tenant->marks, &marks, made)) {
		marks_destroy(made);
		return marks;
	}
	return made;
}

static void kept_free(struct marks *marks, struct kept *kept)
{
	LIST_REMOVE(kept, bucket);
	TAILQ_REMOVE(&marks->ages, kept, age);
	marks->count--;
	free(kept);
}

void marks_destroy(struct marks *marks)
{
	if (!marks)
		return;
	while (!TAILQ_EMPTY(&marks->ages))
		kept_free(marks, TAILQ_FIRST(&marks->ages));
	pthread_mutex_destroy(&marks->lock);
	free(marks);
}

/* The low bits of a version say which thread made it. */
static struct kept_list *bucket_of(struct marks *marks, uint64_t version)
{
	return &marks->buckets[(version ^ version >> THREAD_ID_BITS) % BUCKETS];
}

static struct kept *find(struct marks *marks, uint64_t version)
{
	struct kept *kept;

	LIST_FOREACH(kept, bucket_of(marks, version), bucket)
		if (kept->item.version == version)
			return kept;
	return NULL;
}

unsigned int marks_get(struct marks *marks, uint64_t version)
{
	const struct kept *kept;
	unsigned int bits;

	pthread_mutex_lock(&marks->lock);
	kept = find(marks, version);
	bits = kept ? kept->bits : 0;
	pthread_mutex_unlock(&marks->lock);
	return bits;
}

/* MARK-2 */
static void oldest_take(struct marks *marks, struct mark_item *victim)
{
	struct kept *oldest = TAILQ_FIRST(&marks->ages);
	uint8_t *key;

	if (oldest->bits & MARK_STALE) {
		key = malloc(oldest->item.key_len);
		/* Without memory for it no mark is taken away. */
		if (!key)
			return;
		memcpy(key, oldest->key, oldest->item.key_len);
		*victim = oldest->item;
		victim->key = key;
	}
	kept_free(marks, oldest);
}

static struct kept *keep(struct marks *marks, const struct mark_item *item,
			 struct mark_item *victim)
{
	struct kept *kept;

	if (marks->count == MARKS_MAX)
		oldest_take(marks, victim);
	kept = marks->count < MARKS_MAX ? malloc(sizeof(*kept) + item->key_len) : NULL;
	if (!kept)
		return NULL;
	kept->bits = 0;
	kept->item = *item;
	memcpy(kept->key, item->key, item->key_len);
	kept->item.key = kept->key;
	LIST_INSERT_HEAD(bucket_of(marks, item->version), kept, bucket);
	TAILQ_INSERT_TAIL(&marks->ages, kept, age);
	marks->count++;
	return kept;
}

unsigned int marks_add(struct marks *marks, const struct mark_item *item, unsigned int bits,
		       struct mark_item *victim, bool *made)
{
	struct kept *kept;
	unsigned int before = 0;

	*victim = (struct mark_item){ .key = NULL };
	pthread_mutex_lock(&marks->lock);
	kept = find(marks, item->version);
	if (!kept)
		kept = keep(marks, item, victim);
	*made = kept;
	if (kept) {
		before = kept->bits;
		kept->bits |= bits;
	}
	pthread_mutex_unlock(&marks->lock);
	return before;
}

void marks_begin(struct marks *marks, unsigned int worker, uint64_t hash)
{
	atomic_store(&marks->pending[worker], hash ? hash : 1);
}

void marks_end(struct marks *marks, unsigned int worker)
{
	atomic_store_explicit(&marks->pending[worker], 0, memory_order_release);
}

bool marks_pending(const struct marks *marks, uint64_t hash)
{
	for (unsigned int i = 0; i < WORKERS_MAX; i++)
		if (atomic_load_explicit(&marks->pending[i], memory_order_acquire) ==
		    (hash ? hash : 1))
			return true;
	return false;
}
