/* SPDX-License-Identifier: MIT */
/*
 * What kvd_open() says of a server that can't be reached: no socket, no listener, no permission, no
 * RDMA device. Each has its status, and a text that names the place and what to do.
 */
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/kvd.h"
#include "common/rdma/device.h"

#define USER_NOBODY 65534

static char folder[] = "/tmp/test_client_open.XXXXXX";
static char path[64], url[96];
static int listener;

static int setup(void **state)
{
	(void)state;
	strcpy(strrchr(folder, '.'), ".XXXXXX");
	if (!mkdtemp(folder) || chmod(folder, 0755))
		return -1;
	snprintf(path, sizeof(path), "%s/s", folder);
	snprintf(url, sizeof(url), "softnic://%s", path);
	listener = -1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	chmod(folder, 0700);
	if (listener >= 0)
		close(listener);
	unlink(path);
	return rmdir(folder);
}

/* A socket on which no process listens yet. */
static void make_socket(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	strcpy(un.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(listener >= 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
}

/* Opens @address; 0 if it fails with @want and a text with @where and @what in it. */
static int open_differs(const char *address, enum kvd_status want, const char *where,
			const char *what)
{
	struct kvd *db = NULL;
	enum kvd_status status = kvd_open(&db, address, NULL);

	if (status == want && !db && strstr(kvd_error(NULL), where) &&
	    strstr(kvd_error(NULL), what))
		return 0;
	fprintf(stderr, "%s: %s: %s\n", address, kvd_status_text(status), kvd_error(NULL));
	return 1;
}

/* The same in a process to which file permissions apply. */
static int open_differs_unprivileged(enum kvd_status want, const char *where, const char *what)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		if (!geteuid() && setresuid(USER_NOBODY, USER_NOBODY, USER_NOBODY))
			_exit(2);
		_exit(open_differs(url, want, where, what));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void no_socket(void **state)
{
	(void)state;
	assert_int_equal(open_differs(url, KVD_ERR_UNREACHABLE, path, "is kvd running?"), 0);
}

static void not_a_socket(void **state)
{
	FILE *file = fopen(path, "w");

	(void)state;
	assert_non_null(file);
	fclose(file);
	assert_int_equal(open_differs(url, KVD_ERR_UNREACHABLE, path, "is not a socket"), 0);
}

static void no_listener(void **state)
{
	(void)state;
	make_socket();
	assert_int_equal(open_differs(url, KVD_ERR_UNREACHABLE, path, "is kvd running?"), 0);
}

static void no_permission_for_the_socket(void **state)
{
	(void)state;
	make_socket();
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(chmod(path, 0), 0);
	assert_int_equal(open_differs_unprivileged(KVD_ERR_REFUSED, path, "softnic.socket_mode"),
			 0);
}

static void no_permission_for_its_folder(void **state)
{
	(void)state;
	make_socket();
	assert_int_equal(chmod(folder, 0), 0);
	assert_int_equal(open_differs_unprivileged(KVD_ERR_REFUSED, path, "softnic.socket_mode"),
			 0);
}

static void no_rdma_device(void **state)
{
	char name[IBV_SYSFS_NAME_MAX];

	(void)state;
	if (device_verbs_present(name))
		skip();
	assert_int_equal(open_differs("rdma://127.0.0.1:7471", KVD_ERR_DEVICE, "127.0.0.1",
				      "softnic:///"),
			 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(no_socket),
		CASE(not_a_socket),
		CASE(no_listener),
		CASE(no_permission_for_the_socket),
		CASE(no_permission_for_its_folder),
		CASE(no_rdma_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
