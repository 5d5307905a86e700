/* SPDX-License-Identifier: MIT */
/*
 * A snapshot of the server's statistics, as text. The control thread makes it for all requests of a
 * tenant that wait for one; connections share it, and each keeps it until it has sent the last
 * line, so all pages of one client show the same moment.
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
 * Makes a snapshot, with one reference, for clients of @tenant with the principal @viewer (NULL:
 * administrators). NULL: no memory. Takes some 0.1 ms.
 */
struct snapshot *snapshot_make(const struct worker_env *env, const struct tenant *tenant,
			       const struct principal *viewer);

/* Take and drop a reference. Any thread; does nothing for NULL. */
struct snapshot *snapshot_share(struct snapshot *snapshot);
void snapshot_drop(struct snapshot *snapshot);

/* Where a line begins. All zero: the first one. */
struct snapshot_place {
	uint32_t line, offset;
};

/*
 * Copies lines from number @first on to @text, as many as fit @size bytes. Returns the bytes;
 * *@next is the number of the next line, 0 if there is none. *@place is the place of a line in this
 * snapshot, and becomes that of the next line; when a text is read from the first page to the last,
 * each call then costs no more than its page.
 */
uint32_t snapshot_page(const struct snapshot *snapshot, uint32_t first, char *text, uint32_t size,
		       struct snapshot_place *place, uint32_t *next);

#endif /* KVD_SERVER_WORKER_SNAPSHOT_H */
