/* SPDX-License-Identifier: MIT */
/* Metrics of tenants and their stores; each has the label tenant. */
#include <stddef.h>
#include <string.h>

#include "server/http/metrics.h"

#define NS_PER_US 1000u

#define X(name, help) METRICS_NAME(table_stats, name, help)
static const struct metrics_names table_names[] = { TABLE_STATS(X) };
#undef X
#define X(name, help) METRICS_NAME(maintenance_stats, name, help)
static const struct metrics_names maintenance_names[] = { MAINTENANCE_STATS(X) };
#undef X
#define X(name, help) METRICS_NAME(memory_stats, name, help)
static const struct metrics_names memory_names[] = { MEMORY_STATS(X) };
#undef X
#define X(name, help) METRICS_NAME(size_class_stats, name, help)
static const struct metrics_names class_names[] = { SIZE_CLASS_STATS(X) };
#undef X

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const gauges[] = { "expiring", "live_bytes", "overflow_buckets", NULL };
/* Of families that are written below. */
static const char *const elsewhere[] = { "evictions_1m", "evictions_10m", "evictions_1h",
					 "evictions_1d", "sweep_cpu_us",  NULL };

/* The label of a tenant. */
static struct labels tenant_label(const struct tenant_sample *sample)
{
	struct labels labels = { 0 };

	label_add(&labels, "tenant", sample->name);
	return labels;
}

/* A sample of each tenant of the number at @offset of struct tenant_sample. */
static void of_all(struct exposition *out, const struct gathered *gathered, size_t offset)
{
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct tenant_sample *sample = &gathered->tenants[i];
		const struct labels labels = tenant_label(sample);

		exposition_number(out, &labels, *(const uint64_t *)((const char *)sample + offset));
	}
}

/* The families of a list of statistics, whose struct is at @offset of struct tenant_sample. */
static void lists(struct exposition *out, const struct gathered *gathered,
		  const struct metrics_names *names, size_t count, size_t offset)
{
	for (size_t i = 0; i < count; i++) {
		if (metrics_listed(names[i].name, elsewhere))
			continue;
		metrics_family(out, "", &names[i],
			       metrics_listed(names[i].name, gauges) ? METRIC_GAUGE :
								       METRIC_COUNTER);
		of_all(out, gathered, offset + names[i].offset);
	}
}

static void family(struct exposition *out, const struct gathered *gathered, const char *name,
		   enum metric_type type, const char *help, size_t offset)
{
	exposition_family(out, name, type, help);
	of_all(out, gathered, offset);
}

#define FAMILY(name, field, type, help)                                                            \
	family(out, gathered, "kvd_" name, type, help, offsetof(struct tenant_sample, field))

static void gauges_write(struct exposition *out, const struct gathered *gathered)
{
	FAMILY("items", items, METRIC_GAUGE, "keys in the store");
	FAMILY("index_buckets", index_buckets, METRIC_GAUGE, "home buckets of the index");
	FAMILY("pinned_bytes", pins.bytes, METRIC_GAUGE, "memory of items that are pinned");
	FAMILY("pinned_items", pins.items, METRIC_GAUGE, "items that are pinned");
	FAMILY("region_bytes", region_bytes, METRIC_GAUGE, "size of the region");
	FAMILY("region_page_bytes", region_page_bytes, METRIC_GAUGE, "size of the region's pages");
	FAMILY("region_large_bytes", region_large_bytes, METRIC_GAUGE,
	       "bytes of the region on transparent huge pages");
	FAMILY("region_kept", region_kept, METRIC_GAUGE,
	       "1: the next kvd serves what the region has (memory.file)");
	FAMILY("item_memory_bytes", item_memory, METRIC_GAUGE,
	       "bytes for items and overflow buckets now");
	FAMILY("item_memory_failures_total", item_memory_failures, METRIC_COUNTER,
	       "times no block of a size was free at once");
	FAMILY("flushes_waiting", flushes_waiting, METRIC_GAUGE,
	       "flushes with a delay that are not due yet");
	FAMILY("held_limbo", limbo, METRIC_GAUGE,
	       "large items and overflow buckets that wait until no reader uses them");
}

static void memory_part(struct exposition *out, const struct tenant_sample *sample,
			const char *part, uint64_t bytes)
{
	struct labels labels = tenant_label(sample);

	exposition_number(out, label_add(&labels, "part", part), bytes);
}

/* The parts add up to kvd_region_bytes, but for the free blocks of slabs, which are in slabs. */
static void memory_write(struct exposition *out, const struct gathered *gathered)
{
	exposition_family(out, "kvd_memory_bytes", METRIC_GAUGE,
			  "memory of the region by what it is used for; item_slabs_free and "
			  "bucket_slabs_free are parts of item_slabs and bucket_slabs");
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct tenant_sample *sample = &gathered->tenants[i];

		memory_part(out, sample, "superblock", sizeof(struct superblock));
		for (size_t k = 0; k < COUNT_OF(memory_names); k++)
			memory_part(out, sample, memory_names[k].name,
				    metrics_value(&sample->memory, &memory_names[k]));
		memory_part(out, sample, "pad", REGION_PAD);
	}
}

static void class_sample(struct exposition *out, uint32_t bytes, uint64_t value)
{
	struct labels labels = { 0 };

	exposition_number(out, label_add_number(&labels, "block_bytes", bytes), value);
}

static void classes_write(struct exposition *out, const struct gathered *gathered)
{
	for (size_t k = 0; k < COUNT_OF(class_names); k++) {
		metrics_family(out, "size_class_", &class_names[k], METRIC_GAUGE);
		for (unsigned int i = 0; i < MEM_CLASSES_MAX; i++)
			if (gathered->classes[i].bytes)
				class_sample(out, gathered->classes[i].bytes,
					     metrics_value(&gathered->classes[i].stats,
							   &class_names[k]));
	}
	exposition_family(out, "kvd_size_class_evictions_total", METRIC_COUNTER,
			  "evicted items of this size class");
	for (unsigned int i = 0; i < MEM_CLASSES_MAX; i++)
		if (gathered->classes[i].bytes)
			class_sample(out, gathered->classes[i].bytes,
				     gathered->classes[i].evictions);
}

static void age_sample(struct exposition *out, const struct tenant_sample *sample,
		       const char *below, uint64_t count)
{
	struct labels labels = tenant_label(sample);

	exposition_number(out, label_add(&labels, "age", below), count);
}

static void evictions_write(struct exposition *out, const struct gathered *gathered)
{
	exposition_family(out, "kvd_evictions_by_age_total", METRIC_COUNTER,
			  "evictions of normal-priority items, by the time since their last use: "
			  "less than 1m, 10m, 1h or 1d, and not less than the one before");
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct tenant_sample *sample = &gathered->tenants[i];

		age_sample(out, sample, "1m", sample->table.evictions_1m);
		age_sample(out, sample, "10m", sample->table.evictions_10m);
		age_sample(out, sample, "1h", sample->table.evictions_1h);
		age_sample(out, sample, "1d", sample->table.evictions_1d);
	}
	exposition_family(out, "kvd_evictions_youngest_seconds", METRIC_GAUGE,
			  "age of the youngest item of normal priority that was evicted in the "
			  "last one or two minutes; absent: no eviction");
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct labels labels = tenant_label(&gathered->tenants[i]);

		if (gathered->tenants[i].youngest_s != EVICTED_NONE)
			exposition_number(out, &labels, gathered->tenants[i].youngest_s);
	}
	exposition_family(out, "kvd_eviction_info", METRIC_GAUGE,
			  "1, with the policy of eviction: none, object-hits or byte-hits");
	for (unsigned int i = 0; i < gathered->count; i++) {
		struct labels labels = tenant_label(&gathered->tenants[i]);

		exposition_number(out, label_add(&labels, "policy", gathered->tenants[i].eviction),
				  1);
	}
}

static void hits_sample(struct exposition *out, const struct tenant_sample *sample,
			unsigned int percent, uint64_t hits)
{
	struct labels labels = tenant_label(sample);

	exposition_number(out, label_add_number(&labels, "memory_percent", percent), hits);
}

/* Older GETs count less, so the numbers go down, too. */
static void curve_write(struct exposition *out, const struct gathered *gathered)
{
	exposition_family(out, "kvd_curve_hits", METRIC_GAUGE,
			  "with memory.curve: GETs of keys in the sample that would hit with this "
			  "percentage of the memory; older ones count less");
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct tenant_sample *sample = &gathered->tenants[i];

#define X(percent)                                                                                 \
	if (sample->has_curve)                                                                     \
		hits_sample(out, sample, percent, sample->curve.hits_##percent);
		CURVE_POINTS(X)
#undef X
	}
	FAMILY("curve_gets", curve.gets, METRIC_GAUGE,
	       "with memory.curve: GETs of keys in the sample; older ones count less");
	FAMILY("curve_keys", curve.keys, METRIC_GAUGE,
	       "with memory.curve: keys in the sample, evicted ones included");
	FAMILY("curve_one_in", curve.one_in, METRIC_GAUGE,
	       "with memory.curve: one of this many keys is in the sample");
}

static void derived_write(struct exposition *out, const struct gathered *gathered,
			  const struct census_report *report)
{
	exposition_family(out, "kvd_index_bytes", METRIC_GAUGE, "bytes of the home buckets");
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct labels labels = tenant_label(&gathered->tenants[i]);

		exposition_number(out, &labels, gathered->tenants[i].index_buckets * BUCKET_BYTES);
	}
	exposition_family(out, "kvd_sweep_cpu_seconds_total", METRIC_COUNTER,
			  "CPU time of the sweeps for expired items");
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct labels labels = tenant_label(&gathered->tenants[i]);

		exposition_ns(out, &labels,
			      gathered->tenants[i].maintenance.sweep_cpu_us * NS_PER_US);
	}
	exposition_family(out, "kvd_tenant_connections", METRIC_GAUGE, "connections of the tenant");
	for (unsigned int i = 0; i < gathered->count; i++) {
		const struct labels labels = tenant_label(&gathered->tenants[i]);

		exposition_number(out, &labels, report->tenants[gathered->tenants[i].place]);
	}
}

void metrics_store(struct exposition *out, const struct gathered *gathered,
		   const struct census_report *report)
{
	gauges_write(out, gathered);
	lists(out, gathered, table_names, COUNT_OF(table_names),
	      offsetof(struct tenant_sample, table));
	lists(out, gathered, maintenance_names, COUNT_OF(maintenance_names),
	      offsetof(struct tenant_sample, maintenance));
	derived_write(out, gathered, report);
	memory_write(out, gathered);
	classes_write(out, gathered);
	evictions_write(out, gathered);
	curve_write(out, gathered);
}
