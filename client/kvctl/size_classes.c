/* SPDX-License-Identifier: MIT */
/* Reads and shows size classes: see size_classes.h. */
#include "client/kvctl/size_classes.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvctl/progress.h"
#include "client/kvctl/stats_text.h"

#define PREFIX "size_class."

/* The field of @row for a statistic, by the part of its name after "size_class.N.". */
static uint64_t *field_of(struct size_class_row *row, const char *name, size_t len)
{
	const struct {
		const char *name;
		uint64_t *field;
	} fields[] = {
		{ "slabs", &row->slabs }, { "bytes", &row->bytes },	    { "used", &row->used },
		{ "free", &row->free },	  { "evictions", &row->evictions },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strlen(fields[i].name) == len && !memcmp(fields[i].name, name, len))
			return fields[i].field;
	return NULL; /* a statistic of a newer server */
}

/* The row of a class: the last row or a new one, as the lines of a class are consecutive. */
static struct size_class_row *row_of(struct size_classes *classes, uint64_t item_bytes)
{
	if (classes->count && classes->rows[classes->count - 1].item_bytes == item_bytes)
		return &classes->rows[classes->count - 1];
	if (classes->count == SIZE_CLASSES_MAX)
		return NULL;
	classes->rows[classes->count] = (struct size_class_row){ .item_bytes = item_bytes };
	return &classes->rows[classes->count++];
}

static int compare_rows(const void *a, const void *b)
{
	const struct size_class_row *x = a, *y = b;
	const int order = (y->bytes > x->bytes) - (y->bytes < x->bytes);

	return order ? order : (x->item_bytes > y->item_bytes) - (x->item_bytes < y->item_bytes);
}

void size_classes_read(struct size_classes *classes, const char *stats)
{
	struct stats_line line;

	classes->count = 0;
	while (stats_line_next(&stats, &line)) {
		struct size_class_row *row;
		uint64_t item_bytes, number, *field;
		char *end;

		if (strncmp(line.name, PREFIX, strlen(PREFIX)) ||
		    !stats_line_number(&line, &number))
			continue;
		item_bytes = strtoull(line.name + strlen(PREFIX), &end, 10);
		row = *end == '.' ? row_of(classes, item_bytes) : NULL;
		if (!row)
			continue;
		end++;
		field = field_of(row, end, (size_t)(line.name + line.name_len - end));
		if (field)
			*field = number;
	}
	qsort(classes->rows, classes->count, sizeof(classes->rows[0]), compare_rows);
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

const char *size_class_text(char text[SIZE_CLASS_ROW_BYTES], const struct size_class_row *row)
{
	char memory[16];

	snprintf(text, SIZE_CLASS_ROW_BYTES,
		 "%10" PRIu64 " %9" PRIu64 " %11s %11" PRIu64 " %11" PRIu64 " %7.1f %11" PRIu64,
		 row->item_bytes, row->slabs, bytes_text(memory, (double)row->bytes), row->used,
		 row->free, percent(row->used, row->used + row->free), row->evictions);
	return text;
}
