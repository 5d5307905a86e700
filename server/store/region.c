/* SPDX-License-Identifier: MIT */
/* The region: maps its memory and formats its superblock and geometry. */
#include "server/store/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/barrier.h"
#include "common/sum.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/stat.h"
#include "server/store/hugepages.h"
#include "server/store/store_options.h"

/* The largest level that geometry_check() accepts. */
#define INDEX_LEVEL_MAX 32u

uint32_t index_level(uint64_t keys)
{
	uint64_t buckets = keys * 100 / (INDEX_FILL * BUCKET_SLOTS) + 1;

	return buckets <= 1u << INDEX_LEVEL_MIN ? INDEX_LEVEL_MIN :
						  64 - (uint32_t)__builtin_clzll(buckets - 1);
}

/* Whether 2^@level buckets fit a region of @bytes without items. */
static bool index_fits(uint64_t bytes, uint32_t level)
{
	return level <= INDEX_LEVEL_MAX &&
	       sizeof(struct superblock) + index_bytes(level) + REGION_PAD <= bytes;
}

static int random_fill(void *p, size_t bytes)
{
	return getrandom(p, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}

/* Places the segments one after another: the index grows upward from the superblock. */
static void geometry_place_segments(struct geometry *g)
{
	uint32_t k;

	g->segments[0] = sizeof(struct superblock);
	for (k = 1; k < SEGMENTS_MAX && index_fits(g->region_bytes, g->level_base + k); k++)
		g->segments[k] = g->segments[0] + index_bytes(g->level_base + k - 1);
}

static int log_random(int err)
{
	if (err)
		log_error("region: can't get random bytes for the incarnation, the hash seed and "
			  "the key of the sums: getrandom: %m");
	return err;
}

static int region_format(struct region *region, const struct store_options *options)
{
	struct superblock *super = region_superblock(region);
	struct geometry *g = &region->geometry;
	int err;

	memset(g, 0, sizeof(*g));
	err = random_fill(&g->incarnation, sizeof(g->incarnation));
	g->hash_seed = options->hash_seed;
	if (!err && !g->hash_seed)
		err = random_fill(&g->hash_seed, sizeof(g->hash_seed));
	if (!err)
		err = random_fill(&region->sum_key, sizeof(region->sum_key));
	if (log_random(err))
		return err;
	g->region_bytes = region->bytes_max;
	g->value_max = options->value_max;
	g->level_base = options->level;
	g->level = options->level;
	geometry_place_segments(g);
	super->abi = LAYOUT_ABI;
	region_publish_geometry(region);
	/* Last: the magic says that the rest is valid. */
	store_relaxed64(&super->magic, LAYOUT_MAGIC);
	return 0;
}

/* Takes the geometry of a region that was kept. Of a killed server it may be half written. */
static int region_adopt(struct region *region, const struct store_options *options)
{
	const struct keep_head *head = region->keep.head;
	struct geometry *g = &region->geometry;

	*g = region_superblock(region)->geometry;
	if (region->keep.found == KEEP_FOUND_CLEAN && g->sum != geometry_sum(g)) {
		log_error("region: the geometry in %s is damaged: remove the file", options->file);
		return -EUCLEAN;
	}
	region->sum_key = head->sum_key;
	g->value_max = options->value_max;
	if (region->keep.found == KEEP_FOUND_CLEAN)
		region_publish_geometry(region);
	return 0;
}

int region_renew(struct region *region)
{
	struct keep_head *head = region->keep.head;
	uint64_t incarnation;
	int err;

	if (head->incarnation[1] == head->incarnation[0]) {
		err = random_fill(&incarnation, sizeof(incarnation));
		if (log_random(err))
			return err;
		/* Noted before it is used: else a kill leaves a region that is not the state's. */
		store_relaxed64(&head->incarnation[1], incarnation);
	}
	region->geometry.incarnation = head->incarnation[1];
	region_publish_geometry(region);
	return 0;
}

/* What the next process needs to verify the items. */
static void region_note(const struct region *region)
{
	struct keep_head *head = region->keep.head;

	if (!head)
		return;
	head->sum_key = region->sum_key;
	head->incarnation[0] = head->incarnation[1] = region->geometry.incarnation;
}

static int index_check(const struct store_options *options)
{
	char index[PARSE_FORMAT_MAX], size[PARSE_FORMAT_MAX];

	if (options->level <= INDEX_LEVEL_MAX && index_bytes(options->level) <= options->bytes / 2)
		return 0;
	log_error("region: an index of %s (2^%" PRIu32 " buckets) leaves too little of memory.size "
		  "(%s) for items; lower index.keys or raise memory.size",
		  show_size(index_bytes(options->level), index), options->level,
		  show_size(options->bytes, size));
	return -EINVAL;
}

/* Logs that @option, of @bytes, has to be a multiple of @unit, which @what names. */
static int log_multiple(const char *option, uint64_t bytes, uint64_t unit, const char *what)
{
	char size[PARSE_FORMAT_MAX], of[PARSE_FORMAT_MAX], low[PARSE_FORMAT_MAX];
	char high[PARSE_FORMAT_MAX];
	uint64_t below = bytes / unit * unit;

	log_error("region: %s (%s) must be a multiple of %s (%s): choose %s or %s", option,
		  show_size(bytes, size), what, show_size(unit, of),
		  show_size(below ? below : unit, low),
		  show_size(below ? below + unit : 2 * unit, high));
	return -EINVAL;
}

static int extents_check(const struct store_options *options)
{
	char size[PARSE_FORMAT_MAX], max[PARSE_FORMAT_MAX];

	if (!options->bytes_max)
		return 0;
	if (options->bytes_max > REGION_BYTES_MAX) {
		log_error("region: memory.max (%s) is above %s, the most that a region can have",
			  show_size(options->bytes_max, size), show_size(REGION_BYTES_MAX, max));
		return -EINVAL;
	}
	if (options->bytes_max % (EXTENTS_MAX * EXTENT_UNIT))
		return log_multiple("memory.max", options->bytes_max, EXTENTS_MAX * EXTENT_UNIT,
				    "16 large pages");
	if (options->bytes > options->bytes_max) {
		log_error("region: memory.size (%s) is above memory.max (%s): lower memory.size or "
			  "raise memory.max",
			  show_size(options->bytes, size), show_size(options->bytes_max, max));
		return -EINVAL;
	}
	if (!options->bytes || options->bytes % store_extent_bytes(options))
		return log_multiple("memory.size", options->bytes, store_extent_bytes(options),
				    "memory.max / 16");
	return 0;
}

static int options_check(const struct store_options *options)
{
	int err = extents_check(options);

	return err ? err : index_check(options);
}

int region_check(const struct store_options *options)
{
	struct numa_policy policy;
	int err = options_check(options);

	if (!err)
		err = keep_check(options);
	if (!err)
		err = numa_policy_init(&policy, options->numa, options->local);
	if (err)
		return err;
	err = hugepages_check(options, &policy);
	numa_policy_release(&policy);
	return err;
}

static struct mapping region_mapping(const struct region *region)
{
	struct mapping mapping = {
		.base = region->base,
		.bytes_max = region->bytes_max,
		.extent_bytes = region->extent_bytes,
		.count = region->extent_count,
		.page_bytes = region->page_bytes,
		.large_bytes = region->large_bytes,
		.prefault_ms = region->prefault_ms,
	};

	memcpy(mapping.extents, region->extents, sizeof(mapping.extents));
	return mapping;
}

/* Notes the extents that are mapped. Other threads read the statistics meanwhile. */
static void region_note_extents(struct region *region, const struct mapping *mapping)
{
	memcpy(region->extents, mapping->extents, sizeof(region->extents));
	region->extent_count = mapping->count;
	stat_set(&region->large_bytes, mapping->large_bytes);
	__atomic_store_n(&region->prefault_ms, mapping->prefault_ms, __ATOMIC_RELAXED);
}

int region_extend(struct region *region, const struct store_options *options, unsigned int count)
{
	struct mapping mapping = region_mapping(region);
	struct numa_policy policy;
	int err;

	err = numa_policy_init(&policy, options->numa, options->local);
	if (err)
		return err;
	err = hugepages_extend(&mapping, options, &policy, &region->keep, count);
	numa_policy_release(&policy);
	if (!err)
		region_note_extents(region, &mapping);
	return err;
}

void region_cut(struct region *region)
{
	struct mapping mapping = region_mapping(region);

	hugepages_cut(&mapping, &region->keep, region_extents(region));
	region_note_extents(region, &mapping);
}

int region_create(struct region *region, const struct store_options *options)
{
	struct numa_policy policy;
	struct mapping mapping;
	int err;

	*region = (struct region){ .base = NULL };
	err = options_check(options);
	if (!err)
		err = keep_open(&region->keep, options);
	if (err)
		return err;
	err = numa_policy_init(&policy, options->numa, options->local);
	if (!err) {
		err = hugepages_map(&mapping, options, &policy, &region->keep);
		/* The mapping has the policy now; the text is for the log and statistics. */
		strcpy(region->numa, policy.text);
		numa_policy_release(&policy);
	}
	if (err) {
		keep_close(&region->keep);
		return err;
	}
	region->base = mapping.base;
	region->bytes = mapping.count * mapping.extent_bytes;
	region->bytes_max = mapping.bytes_max;
	region->extent_bytes = mapping.extent_bytes;
	region->page_bytes = mapping.page_bytes;
	region_note_extents(region, &mapping);
	if (region->keep.found != KEEP_FOUND_NONE) {
		err = region_adopt(region, options);
	} else {
		err = region_format(region, options);
		if (!err)
			region_note(region);
	}
	if (err)
		region_destroy(region);
	return err;
}

void region_destroy(struct region *region)
{
	struct mapping mapping = region_mapping(region);

	if (!region->base)
		return;
	hugepages_unmap(&mapping);
	keep_close(&region->keep);
	explicit_bzero(&region->sum_key, sizeof(region->sum_key));
	region->base = NULL;
	region->extent_count = 0;
}

/* Word by word, the sum last: clients may read at any time. */
static void words_publish(uint64_t *to, const uint64_t *from, size_t bytes)
{
	const size_t last = bytes / sizeof(*to) - 1;

	for (size_t i = 0; i < last; i++)
		store_relaxed64(&to[i], from[i]);
	dma_wmb();
	store_relaxed64(&to[last], from[last]);
	dma_wmb();
}

void region_publish_geometry(struct region *region)
{
	region->geometry.sum = geometry_sum(&region->geometry);
	words_publish((uint64_t *)&region_superblock(region)->geometry,
		      (const uint64_t *)&region->geometry, sizeof(region->geometry));
}

void region_publish_word(struct region *region, const struct fleet_word *word)
{
	struct fleet_word next = *word;

	next.sum = fleet_word_sum(&next, region->geometry.incarnation);
	words_publish((uint64_t *)&region_superblock(region)->word, (const uint64_t *)&next,
		      sizeof(next));
}

bool region_word(const struct region *region, struct fleet_word *word)
{
	const uint64_t *from = (const uint64_t *)&region_superblock(region)->word;
	uint64_t *to = (uint64_t *)word;

	for (size_t i = 0; i < sizeof(*word) / sizeof(*to); i++)
		to[i] = stat_read(&from[i]);
	return word->sum == fleet_word_sum(word, region->geometry.incarnation);
}

void region_describe(uint64_t bytes, uint32_t level, char *text, size_t size)
{
	char region[PARSE_FORMAT_MAX], super[PARSE_FORMAT_MAX], low[PARSE_FORMAT_MAX];
	char high[PARSE_FORMAT_MAX], pad[PARSE_FORMAT_MAX];
	uint32_t top = level;

	while (index_fits(bytes, top + 1))
		top++;
	snprintf(text, size,
		 "region %s = superblock %s + index (grows from %s to at most %s) + items + pad %s",
		 show_size(bytes, region), show_size(sizeof(struct superblock), super),
		 show_size(index_bytes(level), low), show_size(index_bytes(top), high),
		 show_size(REGION_PAD, pad));
}

void region_tick(struct region *region, uint64_t clock_s, uint64_t items)
{
	struct superblock *super = region_superblock(region);

	store_relaxed64(&super->clock_s, clock_s);
	store_relaxed64(&super->items, items);
}
