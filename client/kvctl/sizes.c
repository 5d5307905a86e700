/* SPDX-License-Identifier: MIT */
/* Sizes and the largest of them: see sizes.h. */
#include "client/kvctl/sizes.h"

#include <stdlib.h>
#include <string.h>

void sizes_add(struct sizes *sizes, uint64_t size)
{
	unsigned int range = size ? 64 - (unsigned int)__builtin_clzll(size) : 0;

	if (range >= SIZES_RANGES)
		range = SIZES_RANGES - 1;
	sizes->count++;
	sizes->sum += size;
	sizes->counts[range]++;
	sizes->sums[range] += size;
	if (size > sizes->max)
		sizes->max = size;
}

void sizes_range(unsigned int range, uint64_t *low, uint64_t *high)
{
	*low = range ? 1ull << (range - 1) : 0;
	*high = range ? (*low << 1) - 1 : 0;
}

bool top_init(struct top *top, size_t room)
{
	*top = (struct top){ .keys = calloc(room, sizeof(*top->keys)), .room = room };
	return top->keys;
}

void top_release(struct top *top)
{
	free(top->keys);
}

static int compare(const void *a, const void *b)
{
	const struct top_key *x = a, *y = b;
	int bytes;

	if (x->number != y->number)
		return x->number < y->number ? 1 : -1;
	bytes = memcmp(x->key, y->key, x->key_len < y->key_len ? x->key_len : y->key_len);
	if (bytes)
		return bytes;
	return x->key_len < y->key_len ? -1 : x->key_len > y->key_len;
}

static void swap(struct top *top, size_t a, size_t b)
{
	const struct top_key kept = top->keys[a];

	top->keys[a] = top->keys[b];
	top->keys[b] = kept;
}

/* In the order of compare(), a parent comes after its children. */
static void sift_up(struct top *top, size_t i)
{
	for (; i && compare(&top->keys[i], &top->keys[(i - 1) / 2]) > 0; i = (i - 1) / 2)
		swap(top, i, (i - 1) / 2);
}

static void sift_down(struct top *top, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= top->count)
			return;
		if (child + 1 < top->count && compare(&top->keys[child + 1], &top->keys[child]) > 0)
			child++;
		if (compare(&top->keys[child], &top->keys[i]) <= 0)
			return;
		swap(top, i, child);
		i = child;
	}
}

static size_t find(const struct top *top, const void *key, size_t key_len)
{
	size_t i;

	for (i = 0; i < top->count; i++)
		if (top->keys[i].key_len == key_len && !memcmp(top->keys[i].key, key, key_len))
			break;
	return i;
}

void top_add(struct top *top, const void *key, size_t key_len, uint64_t number)
{
	size_t at;

	if (top->count == top->room && number <= top->keys[0].number)
		return;
	at = find(top, key, key_len);
	if (at == top->count && top->count < top->room)
		top->count++;
	else if (at == top->count)
		at = 0;
	top->keys[at].number = number;
	top->keys[at].key_len = key_len;
	memcpy(top->keys[at].key, key, key_len);
	sift_up(top, at);
	sift_down(top, at);
}

void top_sort(struct top *top)
{
	qsort(top->keys, top->count, sizeof(*top->keys), compare);
}
