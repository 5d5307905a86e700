/* SPDX-License-Identifier: MIT */
/* What kvctl top shows: lines of text, computed from two samples of a server. */
#ifndef KVD_CLIENT_KVCTL_TOP_VIEW_H
#define KVD_CLIENT_KVCTL_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kvctl/stats_text.h"
#include "client/kvctl/top_lines.h"
#include "client/kvd.h"

#define TOP_CLIENTS_BYTES (32u << 20) /* 256 for each connection, at the most of a server */
#define TOP_PINGS 10u

/* X(name of the field of kvctl clients and of --sort, heading, whether it is shown per second) */
#define TOP_COLUMNS(X)                                                                             \
	X(requests, "REQUESTS/s", true)                                                            \
	X(received, "RECEIVED/s", true)                                                            \
	X(sent, "SENT/s", true)                                                                    \
	X(idle, "IDLE s", false)                                                                   \
	X(age, "AGE s", false)                                                                     \
	X(id, "ID", false)

enum top_column {
#define X(name, heading, rate) TOP_##name,
	TOP_COLUMNS(X)
#undef X
		TOP_COLUMN_COUNT
};

extern const char *const top_column_names[TOP_COLUMN_COUNT];

struct top_sample {
	bool is_taken;
	uint64_t at_ns;
	char stats[STATS_BYTES];
	char *clients;		     /* TOP_CLIENTS_BYTES; empty: the user may not see them */
	uint64_t ping_ns[TOP_PINGS]; /* sorted */
};

/* What is shown, and in which order. */
struct top_choice {
	enum top_column sort; /* the column that connections are sorted by */
	bool smallest_first;
	unsigned int size_classes; /* the most rows of size classes */
};

/* False: no memory. */
bool top_sample_init(struct top_sample *sample);
void top_sample_release(struct top_sample *sample);
/* Asks the server. Unless it returns KVD_OK, @sample is unchanged. */
enum kvd_status top_sample_take(struct top_sample *sample, struct kvd *db);

/* Makes the lines for the time between @before and @now. */
void top_view_make(struct top_view *view, const char *server, const struct top_sample *before,
		   const struct top_sample *now, const struct top_choice *choice);

#endif /* KVD_CLIENT_KVCTL_TOP_VIEW_H */
