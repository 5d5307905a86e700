/* SPDX-License-Identifier: MIT */
/*
 * A snapshot of the server's statistics: their text, as it was when it was made. The control thread
 * makes it for all requests of a tenant that wait for one; connections share it, and each keeps it
 * until it has sent the last line, so the pages of one client are of the same moment.
 */
#ifndef KVD_SERVER_WORKER_SNAPSHOT_H
#define KVD_SERVER_WORKER_SNAPSHOT_H

#include <stdatomic.h>
#include <stdint.h>

struct principal;
struct tenant;
struct worker_env;

struct snapshot {
	_Atomic uint32_t references;
	uint32_t bytes;
	char text[]; /* whole lines */
};

/*
 * For clients of @tenant, of the principal @viewer; NULL: administrators. With one reference. NULL:
 * no memory. It takes some 0.1 ms.
 */
struct snapshot *snapshot_make(const struct worker_env *env, const struct tenant *tenant,
			       const struct principal *viewer);

/* References: each may be dropped by any thread; NULL has none. */
struct snapshot *snapshot_share(struct snapshot *snapshot);
void snapshot_drop(struct snapshot *snapshot);

/* Where a line begins. All zero: the first one. */
struct snapshot_place {
	uint32_t line, offset;
};

/*
 * Copies lines from number @first on to @text, as many as fit @size bytes. Returns the bytes;
 * *@next is the number of the next line, 0 if there is none. *@place is of a line of this snapshot,
 * and becomes that of the next one; when @first is the line there, as it is when a text is read
 * from the first page to the last, the cost is that of the page.
 */
uint32_t snapshot_page(const struct snapshot *snapshot, uint32_t first, char *text, uint32_t size,
		       struct snapshot_place *place, uint32_t *next);

#endif /* KVD_SERVER_WORKER_SNAPSHOT_H */
