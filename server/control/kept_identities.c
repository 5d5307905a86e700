/* SPDX-License-Identifier: MIT */
/* Writes and reads the file of identities and answers that go over to the next process. */
#include "server/control/kept_identities.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/trusted_file.h"
#include "common/util/whole_io.h"
#include "server/store/store.h"

#define SUFFIX ".answers"
#define KEPT_MAGIC 0x3172657773416b76ull /* "vkAswer1" */

struct kept_head {
	uint64_t magic;
	uint64_t bytes; /* of a record: it differs if the layout does */
	uint64_t incarnation;
	uint64_t count;
};

struct kept_record {
	uint8_t id[WIRE_IDENTITY_BYTES];
	uint64_t group;
	struct answers answers;
};

static int records_write(const struct identities *identities, int fd, uint64_t incarnation)
{
	const struct kept_head head = {
		.magic = KEPT_MAGIC,
		.bytes = sizeof(struct kept_record),
		.incarnation = incarnation,
		.count = identities->kept_count,
	};
	const struct identity *identity;
	int err = write_whole(fd, &head, sizeof(head));

	TAILQ_FOREACH(identity, &identities->kept, kept_entry) {
		struct kept_record record = {
			.group = identity->group,
			.answers = identity->answers,
		};

		memcpy(record.id, identity->id, sizeof(record.id));
		if (!err)
			err = write_whole(fd, &record, sizeof(record));
	}
	return err;
}

void identities_save(const struct identities *identities, const char *file, uint64_t incarnation)
{
	char path[KEEP_PATH_BYTES];
	int fd, err;

	keep_beside(file, SUFFIX, path);
	unlink(path);
	if (!identities->kept_count)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : records_write(identities, fd, incarnation);
	if (fd >= 0)
		close(fd);
	if (!err)
		return;
	log_warn("memory.file: can't write %s: %s; changes that clients send again end as unknown",
		 path, strerror(-err));
	unlink(path);
}

/* False: the file is not whole. */
static bool records_read(struct identities *identities, int fd, uint64_t count, uint64_t now_ns)
{
	struct kept_record record;

	for (uint64_t i = 0; i < count; i++) {
		if (!read_whole(fd, &record, sizeof(record)) || record.group >= IDENTITY_GROUPS)
			return false;
		if (!identity_restore(identities, record.id, (unsigned int)record.group,
				      &record.answers, now_ns))
			break;
	}
	return true;
}

void identities_load(struct identities *identities, const char *file, uint64_t incarnation,
		     uint64_t now_ns)
{
	char path[KEEP_PATH_BYTES];
	const char *wrong = NULL;
	struct kept_head head;
	int fd;

	keep_beside(file, SUFFIX, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	wrong = trusted_file_check(fd, true);
	if (!wrong && (!read_whole(fd, &head, sizeof(head)) || head.magic != KEPT_MAGIC ||
		       head.bytes != sizeof(struct kept_record)))
		wrong = "it is of another version";
	if (!wrong && head.incarnation == incarnation &&
	    !records_read(identities, fd, head.count, now_ns))
		wrong = "it is damaged";
	close(fd);
	unlink(path);
	if (wrong)
		log_warn("memory.file: %s is not used: %s; changes that clients send again end as "
			 "unknown",
			 path, wrong);
}
