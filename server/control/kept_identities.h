/* SPDX-License-Identifier: MIT */
/*
 * The identities of clients, with their answers, that go over to the next process with the region
 * of `default` (memory.file), in the file FILE.answers. It is written once, when a server stops,
 * and removed when the next one reads it. It counts only for the incarnation that it names: so a
 * server that was killed leaves none, and changes under way then end as unknown.
 */
#ifndef KVD_SERVER_CONTROL_KEPT_IDENTITIES_H
#define KVD_SERVER_CONTROL_KEPT_IDENTITIES_H

#include "server/control/identity.h"

/*
 * Writes all identities; none has a connection any more. @file: of the region. The control thread;
 * blocks. An error is logged: the answers are lost then.
 */
void identities_save(const struct identities *identities, const char *file, uint64_t incarnation);

/*
 * Reads and removes them, if they are of @incarnation, as if their connections had ended at
 * @now_ns. Before a client is served. What can't be read is logged.
 */
void identities_load(struct identities *identities, const char *file, uint64_t incarnation,
		     uint64_t now_ns);

#endif /* KVD_SERVER_CONTROL_KEPT_IDENTITIES_H */
