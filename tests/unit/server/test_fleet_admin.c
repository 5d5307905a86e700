/* SPDX-License-Identifier: MIT */
/*
 * Tests of what becomes of a fleet that is made or adopted while etcd fails: the calls of etcd are
 * functions here, which execute transactions on one map and answer as each test says. The modes as
 * users see them are in tests/system/fleet_admin.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/streams.h"
#include "server/fleet/map_edit.h"
#include "server/fleet/registry.h"
#include "server/fleet_options.h"
#include "tests/support/captured.h"

/* What etcd has: the last map that was put, and the number of that change; 0: none. */
static struct fleet_map *stored;
static int64_t stored_revision;
static unsigned int calls;

/* What becomes of each call, one after another; then all are answered. */
static const char *fates;

static struct fleet_map *copy_of(const struct fleet_map *from)
{
	struct fleet_map *copy;

	assert_null(fleet_map_make(&copy, from->head, from->bytes));
	return copy;
}

static void map_put(struct fleet_map *next)
{
	fleet_map_free(stored);
	stored = next;
	stored_revision += 7;
}

static void map_read(struct registry_result *result)
{
	result->reads = REGISTRY_READ_MAP;
	result->map_revision = stored_revision;
	if (stored_revision)
		result->map = copy_of(stored);
}

static bool compares_are_true(const struct registry_call *call)
{
	if (!call->put_map) {
		assert_int_equal(call->compare_count, 0);
		return true;
	}
	assert_int_equal(call->compare_count, 1);
	assert_int_equal(call->compares[0].key, REGISTRY_MAP);
	return call->compares[0].revision == stored_revision;
}

/* Another one changes the map. */
static void map_change(void)
{
	struct fleet_map *next;

	assert_null(map_edit_finish(map_edit_create(stored), &next));
	map_put(next);
}

static void fake_execute(struct registry *registry, const struct registry_call *call,
			 struct registry_result *result)
{
	const char fate = *fates ? *fates++ : ' ';

	(void)registry;
	calls++;
	assert_int_equal(call->kind, REGISTRY_TXN);
	*result = (struct registry_result){ .outcome = ETCD_NOT_EXECUTED };
	if (fate == 'r') /* refused */
		return;
	result->outcome = ETCD_UNKNOWN;
	if (fate == 'l') /* lost on its way */
		return;
	if (fate == 'c')
		map_change();
	if (compares_are_true(call)) {
		result->outcome = ETCD_SUCCEEDED;
		if (call->put_map)
			map_put(copy_of(call->put_map));
		else
			map_read(result);
	} else {
		result->outcome = ETCD_COMPARE_FAILED;
		map_read(result);
	}
	if (fate != 'u') /* executed, and its answer is lost */
		return;
	registry_result_release(result);
	result->outcome = ETCD_UNKNOWN;
}

static int fake_open(struct etcd **etcd, const struct etcd_options *options, char *why)
{
	(void)why;
	assert_int_equal(options->url_count, 2);
	assert_string_equal(options->urls[0], "http://a");
	assert_string_equal(options->urls[1], "http://b:1");
	*etcd = NULL;
	return 0;
}

#define registry_execute fake_execute
#define etcd_open fake_open
#define etcd_close(etcd) ((void)(etcd))
#define etcd_why(etcd) ((void)(etcd), "the reason")
#include "server/fleet_admin.c"

static struct config config;
static const char *said;

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	strcpy(config.fleet.etcd, "http://a,http://b:1");
	strcpy(config.fleet.name, "blue");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fleet_map_free(stored);
	stored = NULL;
	stored_revision = 0;
	return 0;
}

/* Runs a mode while etcd's calls have these fates: it takes @wanted calls, and says @text. */
static void run(int (*mode)(const struct config *config), const char *with, unsigned int wanted,
		int status, const char *text)
{
	int got;

	fates = with;
	calls = 0;
	captured_begin(status ? stderr : stdout);
	got = mode(&config);
	said = captured_end();
	assert_int_equal(got, status);
	if (!strstr(said, text))
		fail_msg("'%s' is not in: %s", text, said);
	assert_int_equal(calls, wanted);
}

static void runs_of_init(const char *with, unsigned int wanted, int status, const char *text)
{
	teardown(NULL);
	run(fleet_admin_init, with, wanted, status, text);
	if (status)
		return;
	assert_true(stored->head->epoch == MAP_EDIT_EPOCH_FIRST);
	assert_true(stored->head->generation && stored->head->hash_seed);
	assert_true(stored->head->generation != stored->head->hash_seed);
	assert_memory_equal(stored->head->name, "blue", sizeof("blue"));
	assert_true(stored_revision == 7);
}

static void a_fleet_is_made(void **state)
{
	static const char made[] = "fleet blue: made, with no member yet: start its members\n";

	(void)state;
	runs_of_init("", 1, EX_OK, made);
	/* Executed without an answer: the map that is there is its own. */
	runs_of_init("u", 2, EX_OK, made);
	runs_of_init("l", 2, EX_OK, made);
	runs_of_init("llll", 5, EX_OK, made);
	runs_of_init("r", 1, EXIT_FAILURE, "kvd --fleet-init: the reason; nothing was changed\n");
	runs_of_init("lr", 2, EXIT_FAILURE, "the reason; the map may have been written: try");
	runs_of_init("lllll", 5, EXIT_FAILURE, "the reason; the map may have been written: try");
	assert_null(stored);
}

static void a_fleet_is_made_once(void **state)
{
	const struct map_member a = { "a", 0, 1, 1, 0, "x" }, b = { "b", 0, 1, 1, 0, "x" };
	struct fleet_map *next;
	struct map_edit *edit;

	(void)state;
	runs_of_init("", 1, EX_OK, "made");
	edit = map_edit_create(stored);
	map_edit_member(edit, &a);
	assert_null(map_edit_finish(edit, &next));
	map_put(next);
	run(fleet_admin_init, "l", 2, EXIT_FAILURE,
	    "kvd --fleet-init: fleet blue is there already, in epoch 2 with 1 member (a): nothing "
	    "was changed\n");
	edit = map_edit_create(stored);
	map_edit_member(edit, &b);
	assert_null(map_edit_finish(edit, &next));
	map_put(next);
	run(fleet_admin_init, "", 1, EXIT_FAILURE, "in epoch 3 with 2 members (a b): nothing");
}

/* More names than fit end in dots. */
static void a_large_fleet(void **state)
{
	struct map_member member = { .session = 1, .weight = 1, .urls = "x" };
	struct fleet_map *next;
	struct map_edit *edit;

	(void)state;
	runs_of_init("", 1, EX_OK, "made");
	edit = map_edit_create(stored);
	for (char c = 'a'; c <= 'z'; c++) {
		memset(member.id, c, FLEET_NAME_MAX);
		map_edit_member(edit, &member);
	}
	assert_null(map_edit_finish(edit, &next));
	map_put(next);
	run(fleet_admin_init, "", 1, EXIT_FAILURE, " in epoch 2 with 26 members (aaaaaaaaaaaa");
	assert_non_null(strstr(said, "iiiiiiiiiiiiiiiiiiiiiiii ...): nothing was changed\n"));
}

/* A fleet is made, adopted, and has this epoch. */
static void runs_of_adopt(const char *with, unsigned int wanted, uint64_t epoch)
{
	uint64_t generation;

	runs_of_init("", 1, EX_OK, "made");
	generation = stored->head->generation;
	run(fleet_admin_adopt, with, wanted, EX_OK, "fleet blue: adopted, in epoch ");
	assert_non_null(strstr(said, ": 0 members drop their items, and register again\n"));
	assert_true(stored->head->epoch == epoch);
	assert_true(stored->head->generation && stored->head->generation != generation);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		assert_true(fleet_row_since(stored->rows[i]) == epoch);
}

static void a_fleet_is_adopted(void **state)
{
	static const char unsure[] = "the reason; the map may have been written: try again later";

	(void)state;
	run(fleet_admin_adopt, "", 1, EXIT_FAILURE,
	    "kvd --fleet-adopt: there is no fleet blue: kvd --fleet-init makes one\n");
	runs_of_adopt("", 2, 1 + ADOPT_EPOCHS);
	/* Not twice: the map that is read afterwards has the new generation. */
	runs_of_adopt(" u", 3, 1 + ADOPT_EPOCHS);
	runs_of_adopt(" l", 4, 1 + ADOPT_EPOCHS);
	/* What was read is not the last map any more. */
	runs_of_adopt(" c", 4, 2 + ADOPT_EPOCHS);
	run(fleet_admin_adopt, " c c c c c", 10, EXIT_FAILURE, "the map changes too often: stop");
	run(fleet_admin_adopt, "r", 1, EXIT_FAILURE, "the reason; nothing was changed\n");
	run(fleet_admin_adopt, "l", 1, EXIT_FAILURE, "the reason; nothing was changed\n");
	run(fleet_admin_adopt, " r", 2, EXIT_FAILURE, "the reason; nothing was changed\n");
	run(fleet_admin_adopt, " lr", 3, EXIT_FAILURE, unsure);
	run(fleet_admin_adopt, " l r", 4, EXIT_FAILURE, unsure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_fleet_is_made, setup, teardown),
		cmocka_unit_test_setup_teardown(a_fleet_is_made_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_large_fleet, setup, teardown),
		cmocka_unit_test_setup_teardown(a_fleet_is_adopted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
