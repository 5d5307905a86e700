/* SPDX-License-Identifier: MIT */
/* Writes and reads the file of what goes over to the next process of a member of a fleet. */
#include "server/fleet/kept_membership.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/sum.h"
#include "common/util/heap.h"
#include "common/util/log.h"
#include "common/util/trusted_file.h"
#include "common/util/whole_io.h"

#define SUFFIX ".fleet"
#define KEPT_MAGIC 0x3174656c66416b76ull /* "vkAflet1" */

struct kept_head {
	uint64_t magic;
	uint64_t bytes; /* of struct membership_kept: it differs if the layout does */
	uint64_t store; /* whose items they are */
	uint64_t map_bytes;
	uint64_t sum; /* of the map */
};

/* What differs for each store that is made, and stays as long as its items do. */
static uint64_t store_id(const struct keep *keep)
{
	return XXH3_64bits(&keep->head->sum_key, sizeof(keep->head->sum_key));
}

static int parts_write(int fd, const struct keep *keep, const struct membership_kept *kept,
		       const struct fleet_map *map)
{
	const struct kept_head head = {
		.magic = KEPT_MAGIC,
		.bytes = sizeof(*kept),
		.store = store_id(keep),
		.map_bytes = map->bytes,
		.sum = XXH3_64bits(map->head, map->bytes),
	};
	int err = write_whole(fd, &head, sizeof(head));

	if (!err)
		err = write_whole(fd, kept, sizeof(*kept));
	return err ? err : write_whole(fd, map->head, map->bytes);
}

int kept_membership_write(const char *file, const struct keep *keep,
			  const struct membership_kept *kept, const struct fleet_map *map)
{
	char path[KEEP_PATH_BYTES], new[KEEP_PATH_BYTES];
	int fd, err;

	keep_beside(file, SUFFIX, path);
	keep_beside(file, SUFFIX ".new", new);
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : parts_write(fd, keep, kept, map);
	if (fd >= 0)
		close(fd);
	if (!err && rename(new, path))
		err = -errno;
	if (!err)
		return 0;
	log_ratelimited(LOG_WARN, 1,
			"memory.file: can't write %s: %s; until it can, a restart drops all items",
			new, strerror(-err));
	unlink(new);
	unlink(path);
	return err;
}

/* Returns what is wrong with the file; NULL: nothing. */
static const char *parts_read(int fd, const struct keep *keep, struct membership_kept *kept,
			      struct membership_past *past)
{
	const char *wrong = trusted_file_check(fd, true);
	struct kept_head head;
	void *map;

	if (wrong)
		return wrong;
	if (!read_whole(fd, &head, sizeof(head)) || head.magic != KEPT_MAGIC ||
	    head.bytes != sizeof(*kept))
		return "it is of another version";
	if (head.store != store_id(keep))
		return "it is of another store";
	if (!read_whole(fd, kept, sizeof(*kept)) || head.map_bytes > FLEET_MAP_BYTES_MAX ||
	    kept->accepts.count > FLEET_ACCEPTS_MAX)
		return "it is damaged";
	map = heap_alloc(head.map_bytes);
	if (!map)
		return "there is no memory for it";
	if (!read_whole(fd, map, head.map_bytes) || XXH3_64bits(map, head.map_bytes) != head.sum)
		wrong = "it is damaged";
	else
		wrong = fleet_map_make(&past->map, map, head.map_bytes);
	heap_free(map);
	return wrong;
}

void kept_membership_read(const char *file, const struct keep *keep, struct membership_kept *kept,
			  struct membership_past *past)
{
	char path[KEEP_PATH_BYTES];
	const char *wrong;
	int fd;

	*past = (struct membership_past){ .kept = kept };
	keep_beside(file, SUFFIX, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	wrong = fd < 0 ? strerror(errno) : parts_read(fd, keep, kept, past);
	if (fd >= 0)
		close(fd);
	/* One that is of no store that was kept is no news. */
	if (wrong && keep->found != KEEP_FOUND_NONE)
		log_warn("memory.file: %s is not used: %s; all items are dropped", path, wrong);
}
