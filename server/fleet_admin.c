/* SPDX-License-Identifier: MIT */
/* Makes and adopts fleets, by a transaction that compares the map's revision. */
#include "server/fleet_admin.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sysexits.h>

#include "common/util/streams.h"
#include "server/fleet/fleet.h"
#include "server/fleet/map_edit.h"
#include "server/fleet/registry.h"
#include "server/fleet_options.h"

#define CALL_MS 10000u
#define TRY_MS 2000u
/* Transactions whose outcome is unknown, or that come too late, before it gives up. */
#define ATTEMPTS_MAX 5u
/* By what adoption raises the epoch: more changes than etcd can have lost. */
#define ADOPT_EPOCHS (1u << 20)

struct admin {
	const char *mode; /* for messages */
	struct registry registry;
	struct registry_result result; /* of the last call */
	bool unsure; /* a transaction that changes the map may have been executed */
};

/* Returns EXIT_FAILURE. */
static int admin_fail(const struct admin *admin, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int admin_fail(const struct admin *admin, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "kvd %s: ", admin->mode);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_FAILURE;
}

/* Returns EX_OK, and the caller closes @admin; or another exit status, after an error. */
static int admin_open(struct admin *admin, const char *mode, const struct config *config)
{
	struct fleet_options options;
	char why[ETCD_WHY_MAX];
	int err;

	*admin = (struct admin){ .mode = mode, .registry.timeout_ms = CALL_MS };
	if (!*config->fleet.etcd) {
		admin_fail(admin,
			   "fleet.etcd is not set: set it and fleet.name, by -o or in the file "
			   "of -c");
		return EX_CONFIG;
	}
	signal(SIGPIPE, SIG_IGN);
	strcpy(admin->registry.name, config->fleet.name);
	fleet_options_init(&options, config);
	options.etcd.try_ms = TRY_MS;
	err = etcd_open(&admin->registry.etcd, &options.etcd, why);
	if (!err)
		return EX_OK;
	admin_fail(admin, "fleet.etcd: %s", why);
	return err == -ENOMEM ? EXIT_FAILURE : EX_CONFIG;
}

static void admin_close(struct admin *admin)
{
	registry_result_release(&admin->result);
	etcd_close(admin->registry.etcd);
}

/* Executes a transaction, which reads the map if it changes nothing. */
static enum etcd_outcome admin_txn(struct admin *admin, struct registry_call *call)
{
	call->kind = REGISTRY_TXN;
	call->reads[false] = REGISTRY_READ_MAP;
	if (!call->put_map)
		call->reads[true] = REGISTRY_READ_MAP;
	registry_result_release(&admin->result);
	registry_execute(&admin->registry, call, &admin->result);
	admin->unsure |= call->put_map && admin->result.outcome == ETCD_UNKNOWN;
	return admin->result.outcome;
}

/* Puts @map if the last change of the one that is there was @revision; 0: if there is none. */
static enum etcd_outcome admin_put(struct admin *admin, const struct fleet_map *map,
				   int64_t revision)
{
	const struct registry_compare compare = { .key = REGISTRY_MAP, .revision = revision };
	struct registry_call call = {
		.compares = &compare,
		.compare_count = 1,
		.put_map = map,
	};

	return admin_txn(admin, &call);
}

/* A call that has not read the map, or has read none that can be used. */
static int admin_fail_read(const struct admin *admin)
{
	const struct registry_result *result = &admin->result;

	if (result->outcome == ETCD_UNKNOWN || result->outcome == ETCD_NOT_EXECUTED)
		return admin_fail(admin, "%s; %s", etcd_why(admin->registry.etcd),
				  admin->unsure ? "the map may have been written: try again later" :
						  "nothing was changed");
	if (!(result->reads & REGISTRY_READ_MAP))
		return admin_fail(admin, "out of memory");
	return admin_fail(admin,
			  "the key /kvd/%s/map has no map that can be used: %s: restore it from a "
			  "backup, or delete it to make the fleet anew",
			  admin->registry.name, result->map_error);
}

static bool map_is_of(const struct admin *admin, uint64_t generation)
{
	return admin->result.map && admin->result.map->head->generation == generation;
}

static bool number_draw(uint64_t *number)
{
	if (getrandom(number, sizeof(*number), 0) != sizeof(*number))
		return false;
	*number += !*number;
	return true;
}

/* Says "N members (a b ...)". */
static const char *members_text(const struct fleet_map *map, char *text, size_t size)
{
	const uint32_t count = map->head->members;
	char names[240];

	fleet_members_text(map, names, sizeof(names));
	snprintf(text, size, "%u member%s%s%s%s", count, count == 1 ? "" : "s", count ? " (" : "",
		 count ? names + 1 : "", count ? ")" : "");
	return text;
}

static int init_made(const struct admin *admin)
{
	printf("fleet %s: made, with no member yet: start its members\n", admin->registry.name);
	return streams_flush("kvd") ? EX_IOERR : EX_OK;
}

/* There is a map of another generation, or something else. */
static int init_refused(const struct admin *admin)
{
	const struct fleet_map *map = admin->result.map;
	char members[256];

	if (!map)
		return admin_fail_read(admin);
	return admin_fail(admin,
			  "fleet %s is there already, in epoch %" PRIu64
			  " with %s: nothing was changed",
			  admin->registry.name, map->head->epoch,
			  members_text(map, members, sizeof(members)));
}

static int init_write(struct admin *admin, const struct fleet_map *map)
{
	enum etcd_outcome outcome = ETCD_UNKNOWN;

	for (unsigned int i = 0; i < ATTEMPTS_MAX && outcome == ETCD_UNKNOWN; i++)
		outcome = admin_put(admin, map, 0);
	if (outcome == ETCD_SUCCEEDED || map_is_of(admin, map->head->generation))
		return init_made(admin);
	return init_refused(admin);
}

static int init(struct admin *admin, const char name[FLEET_NAME_MAX], uint64_t lease_ns)
{
	uint64_t generation, seed;
	struct fleet_map *map;
	const char *error;
	int status;

	if (!number_draw(&generation) || !number_draw(&seed))
		return admin_fail(admin, "no random number: getrandom: %s", strerror(errno));
	error = map_edit_finish(map_edit_create_first(name, generation, seed, lease_ns), &map);
	if (error)
		return admin_fail(admin, "%s", error);
	status = init_write(admin, map);
	fleet_map_free(map);
	return status;
}

int fleet_admin_init(const struct config *config)
{
	struct admin admin;
	int status = admin_open(&admin, "--fleet-init", config);

	if (status)
		return status;
	status = init(&admin, config->fleet.name, config->fleet.lease);
	admin_close(&admin);
	return status;
}

static int adopt_made(const struct admin *admin, const struct fleet_map *map)
{
	char members[256];

	printf("fleet %s: adopted, in epoch %" PRIu64 ": %s drop their items, and register again\n",
	       admin->registry.name, map->head->epoch, members_text(map, members, sizeof(members)));
	return streams_flush("kvd") ? EX_IOERR : EX_OK;
}

/* Writes a map in place of the last one that was read. Returns false: read again. */
static bool adopt_write(struct admin *admin, uint64_t generation, int *status)
{
	struct map_edit *edit = map_edit_create(admin->result.map);
	enum etcd_outcome outcome;
	struct fleet_map *map;
	const char *error;

	map_edit_adopt(edit, generation, ADOPT_EPOCHS);
	error = map_edit_finish(edit, &map);
	if (error) {
		*status = admin_fail(admin, "can't make the next map: %s", error);
		return true;
	}
	outcome = admin_put(admin, map, admin->result.map_revision);
	if (outcome == ETCD_SUCCEEDED)
		*status = adopt_made(admin, map);
	else if (outcome == ETCD_NOT_EXECUTED)
		*status = admin_fail_read(admin);
	fleet_map_free(map);
	return outcome == ETCD_SUCCEEDED || outcome == ETCD_NOT_EXECUTED;
}

/* Reads the map. Returns false with the exit status, after an error. */
static bool adopt_read(struct admin *admin, int *status)
{
	struct registry_call read = { .reads = { 0 } };

	admin_txn(admin, &read);
	if (admin->result.map)
		return true;
	if (admin->result.reads & REGISTRY_READ_MAP && !admin->result.map_revision)
		*status = admin_fail(admin, "there is no fleet %s: kvd --fleet-init makes one",
				     admin->registry.name);
	else
		*status = admin_fail_read(admin);
	return false;
}

static int adopt(struct admin *admin)
{
	uint64_t generation;
	int status;

	if (!number_draw(&generation))
		return admin_fail(admin, "no random number: getrandom: %s", strerror(errno));
	for (unsigned int i = 0; i < ATTEMPTS_MAX; i++) {
		if (!adopt_read(admin, &status))
			return status;
		/* A transaction whose outcome was unknown has been executed. */
		if (map_is_of(admin, generation))
			return adopt_made(admin, admin->result.map);
		if (adopt_write(admin, generation, &status))
			return status;
	}
	return admin_fail(admin, "the map changes too often: stop the members, then try again");
}

int fleet_admin_adopt(const struct config *config)
{
	struct admin admin;
	int status = admin_open(&admin, "--fleet-adopt", config);

	if (status)
		return status;
	status = adopt(&admin);
	admin_close(&admin);
	return status;
}
