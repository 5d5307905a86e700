/* SPDX-License-Identifier: MIT */
/*
 * Tests of the default socket: what somebody else could have put in the place of its folder is not
 * taken for it; and where servers and clients of a user meet (common/rdma/default_socket.h).
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/device.h"

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

/* Root has a path of its own. */
static void as_a_user(void)
{
	if (!geteuid())
		assert_int_equal(seteuid(USER_NOBODY), 0);
}

static void as_before(void)
{
	if (!getuid())
		assert_int_equal(seteuid(0), 0);
}

static const char *serve(void)
{
	static char path[DEVICE_PATH_MAX];

	as_a_user();
	default_socket_serve(path);
	as_before();
	return path;
}

static const char *find(void)
{
	static char path[DEVICE_PATH_MAX];

	as_a_user();
	default_socket_find(path);
	as_before();
	return path;
}

/* Makes the folder of the user's own, with these permissions, and names it. */
static void runtime_folder(mode_t mode)
{
	if (!getuid())
		assert_int_equal(chown(path_of("folder"), USER_NOBODY, USER_NOBODY), 0);
	assert_int_equal(chmod(path_of("folder"), mode), 0);
	setenv("XDG_RUNTIME_DIR", path_of("folder"), 1);
}

static const char *in_tmp(void)
{
	static char path[DEVICE_PATH_MAX];

	snprintf(path, sizeof(path), "/tmp/kvd-%u/kvd.sock", getuid() ?: USER_NOBODY);
	return path;
}

static int runtime_setup(void **state)
{
	(void)state;
	return chmod(base, 0755);
}

static int runtime_teardown(void **state)
{
	(void)state;
	as_before();
	unsetenv("XDG_RUNTIME_DIR");
	unlink(path_of("folder/kvd/kvd.sock"));
	rmdir(path_of("folder/kvd"));
	if (!getuid() && chown(path_of("folder"), 0, 0))
		return -1;
	return chmod(path_of("folder"), 0700);
}

/* The folder that XDG's specification describes, or /tmp; root always has the system's. */
static void where_a_server_listens(void **state)
{
	char folder[PATH_MAX], path[DEVICE_PATH_MAX];

	(void)state;
	runtime_folder(0700);
	assert_string_equal(serve(), path_of("folder/kvd/kvd.sock"));
	runtime_folder(0750);
	assert_string_equal(serve(), in_tmp());
	runtime_folder(0701);
	assert_string_equal(serve(), in_tmp());
	runtime_folder(0700);
	setenv("XDG_RUNTIME_DIR", path_of("none"), 1);
	assert_string_equal(serve(), in_tmp());
	assert_int_equal(chdir(base), 0);
	setenv("XDG_RUNTIME_DIR", "folder", 1);
	assert_string_equal(serve(), in_tmp());
	unsetenv("XDG_RUNTIME_DIR");
	assert_string_equal(serve(), in_tmp());
	/* The same folder by a name that is too long for a socket's path. */
	memset(folder, '/', sizeof(folder));
	strcpy(folder + DEVICE_PATH_MAX - strlen(path_of("folder")), path_of("folder"));
	setenv("XDG_RUNTIME_DIR", folder, 1);
	assert_string_equal(serve(), in_tmp());
	if (geteuid())
		return;
	runtime_folder(0700);
	default_socket_serve(path);
	assert_string_equal(path, DEFAULT_SOCKET_SYSTEM);
	default_socket_find(path);
	assert_string_equal(path, DEFAULT_SOCKET_SYSTEM);
}

static void socket_make(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_true(strlen(path) < sizeof(address.sun_path));
	strcpy(address.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

/* The user's own server, if there is one; else the place where it would be, or the system's. */
static void where_a_client_looks(void **state)
{
	(void)state;
	if (!access(DEFAULT_SOCKET_SYSTEM, F_OK) || !access(in_tmp(), F_OK))
		skip();
	runtime_folder(0700);
	assert_string_equal(find(), path_of("folder/kvd/kvd.sock"));
	unsetenv("XDG_RUNTIME_DIR");
	assert_string_equal(find(), DEFAULT_SOCKET_SYSTEM);
	runtime_folder(0700);
	as_a_user();
	assert_int_equal(mkdir(path_of("folder/kvd"), 0700), 0);
	socket_make(path_of("folder/kvd/kvd.sock"));
	as_before();
	assert_string_equal(find(), path_of("folder/kvd/kvd.sock"));
	runtime_folder(0755);
	assert_string_equal(find(), DEFAULT_SOCKET_SYSTEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writable_by_others),
		cmocka_unit_test(not_a_folder),
		cmocka_unit_test(of_another_user),
		cmocka_unit_test_setup_teardown(where_a_server_listens, runtime_setup,
						runtime_teardown),
		cmocka_unit_test_setup_teardown(where_a_client_looks, runtime_setup,
						runtime_teardown),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
