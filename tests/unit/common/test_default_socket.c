/* SPDX-License-Identifier: MIT */
/*
 * Tests of the folder of the default socket: what somebody else could have put in its place is not
 * taken for it (common/rdma/default_socket.h).
 */
#include "common/rdma/default_socket.h"

#include <fcntl.h>
#include <limits.h>
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

#define USER_NOBODY 65534

static char base[] = "/tmp/kvd_test_XXXXXX";

/* The path of what is so called in the test's folder; valid until the next call. */
static const char *path_of(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return path;
}

static int group_setup(void **state)
{
	(void)state;
	return mkdtemp(base) ? mkdir(path_of("folder"), 0700) : -1;
}

static int group_teardown(void **state)
{
	(void)state;
	rmdir(path_of("folder"));
	return rmdir(base);
}

/* Nobody else may make files in it. */
static void writable_by_others(void **state)
{
	static const struct {
		mode_t mode;
		bool safe;
	} modes[] = {
		{ 0700, true },	 { 0755, true },  { 0777, false },
		{ 0770, false }, { 0702, false }, { 01777, false },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod(path_of("folder"), modes[i].mode), 0);
		if (default_socket_folder_safe(path_of("folder")) != modes[i].safe)
			fail_msg("mode %o", (unsigned int)modes[i].mode);
	}
	assert_int_equal(chmod(path_of("folder"), 0700), 0);
}

/* A link to the user's folder may lead elsewhere a moment later. */
static void not_a_folder(void **state)
{
	bool link_safe, file_safe;
	int fd;

	(void)state;
	assert_false(default_socket_folder_safe(path_of("none")));
	assert_int_equal(symlink("folder", path_of("link")), 0);
	link_safe = default_socket_folder_safe(path_of("link"));
	assert_int_equal(unlink(path_of("link")), 0);
	fd = open(path_of("file"), O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	file_safe = default_socket_folder_safe(path_of("file"));
	assert_int_equal(unlink(path_of("file")), 0);
	assert_false(link_safe);
	assert_false(file_safe);
}

static void of_another_user(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(chown(path_of("folder"), USER_NOBODY, USER_NOBODY), 0);
	assert_false(default_socket_folder_safe(path_of("folder")));
	assert_int_equal(chown(path_of("folder"), 0, 0), 0);
	assert_true(default_socket_folder_safe(path_of("folder")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writable_by_others),
		cmocka_unit_test(not_a_folder),
		cmocka_unit_test(of_another_user),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
