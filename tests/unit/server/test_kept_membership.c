/* SPDX-License-Identifier: MIT */
/* Tests of the file in which a membership goes over to the next process. */
#include "server/fleet/kept_membership.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "tests/support/etcd_model.h"
#include "tests/support/log_fixture.h"

static char folder[] = "/tmp/kvd-test-fleet-XXXXXX";
static char file[64], fleet_file[80];
static struct etcd_model etcd;
static struct keep_head head;
static struct keep keep = { .head = &head };
static struct membership_kept kept, read_kept;
static struct membership_past past;

static int setup(void **state)
{
	(void)state;
	etcd_model_init(&etcd, 3);
	keep.found = KEEP_FOUND_CLEAN;
	memset(&head.sum_key, 5, sizeof(head.sum_key));
	memset(&kept, 7, sizeof(kept));
	kept.accepts.count = FLEET_ACCEPTS_MAX;
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	fleet_map_free(past.map);
	past.map = NULL;
	etcd_model_release(&etcd);
	log_release();
	unlink(fleet_file);
	return 0;
}

static void save(void)
{
	assert_int_equal(kept_membership_write(file, &keep, &kept, etcd.map), 0);
}

static void load(void)
{
	fleet_map_free(past.map);
	kept_membership_read(file, &keep, &read_kept, &past);
}

static void assert_refused(const char *why)
{
	load();
	assert_null(past.map);
	assert_logged(why);
}

static void comes_back(void **state)
{
	(void)state;
	keep.found = KEEP_FOUND_NONE;
	load();
	assert_null(past.map);
	assert_int_equal(test_log_lines(), 0);
	keep.found = KEEP_FOUND_CLEAN;
	assert_refused("No such file");
	save();
	kept.own = 8;
	save();
	load();
	assert_non_null(past.map);
	assert_memory_equal(&read_kept, &kept, sizeof(kept));
	assert_int_equal(past.map->bytes, etcd.map->bytes);
	assert_memory_equal(past.map->head, etcd.map->head, etcd.map->bytes);
}

static void of_another_store(void **state)
{
	(void)state;
	save();
	head.sum_key.secret[0]++;
	assert_refused("it is of another store");
}

static void damaged(void **state)
{
	struct stat st;

	(void)state;
	save();
	assert_int_equal(stat(fleet_file, &st), 0);
	assert_int_equal(truncate(fleet_file, st.st_size - 1), 0);
	assert_refused("it is damaged");
	assert_int_equal(truncate(fleet_file, (off_t)sizeof(kept)), 0);
	assert_refused("it is damaged");
	assert_int_equal(truncate(fleet_file, 10), 0);
	assert_refused("it is of another version");
	kept.accepts.count = FLEET_ACCEPTS_MAX + 1;
	save();
	assert_refused("it is damaged");
	assert_int_equal(chmod(fleet_file, 0666), 0);
	assert_refused("chmod 600");
}

/* One that can't be written leaves none, since what it says has changed. */
static void not_written(void **state)
{
	char new[96];

	(void)state;
	save();
	snprintf(new, sizeof(new), "%s.new", fleet_file);
	assert_int_equal(mkdir(new, 0700), 0);
	assert_int_equal(kept_membership_write(file, &keep, &kept, etcd.map), -EEXIST);
	assert_int_equal(rmdir(new), 0);
	assert_logged("a restart drops all items");
	assert_int_equal(access(fleet_file, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(of_another_store, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(not_written, setup, teardown),
	};
	int failed;

	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	snprintf(file, sizeof(file), "%s/region", folder);
	snprintf(fleet_file, sizeof(fleet_file), "%s.fleet", file);
	failed = cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
	rmdir(folder);
	return failed;
}
