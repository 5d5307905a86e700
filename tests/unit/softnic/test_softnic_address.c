/* SPDX-License-Identifier: MIT */
/*
 * Tests of the file of a listening socket: one that a dead server left is replaced, and nothing
 * else is, however a connection to it fails.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/softnic_pair.h"

static struct device_addr addr;

static int path_begin(void **state)
{
	(void)state;
	addr = (struct device_addr){ .kind = DEVICE_SOFTNIC, .mode = 0600 };
	snprintf(addr.path, sizeof(addr.path), "%s", pair_path());
	return 0;
}

static int path_end(void **state)
{
	(void)state;
	unlink(addr.path);
	return 0;
}

static void name_of(struct sockaddr_un *un)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(un->sun_path, addr.path, strlen(addr.path) + 1);
}

static int foreign_listen(int type)
{
	const int sock = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un un;

	name_of(&un);
	assert_true(sock >= 0);
	assert_int_equal(bind(sock, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(sock, 0), 0);
	return sock;
}

static int foreign_connect(void)
{
	const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un un;

	name_of(&un);
	assert_true(sock >= 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&un, sizeof(un)), 0);
	return sock;
}

static ino_t file_number(void)
{
	struct stat st;

	assert_int_equal(lstat(addr.path, &st), 0);
	return st.st_ino;
}

static void assert_in_use(void)
{
	const ino_t before = file_number();
	struct device *dev;

	assert_int_equal(device_open(&dev, &addr, DEVICE_LISTEN, PAIR_WAIT_MS), -EADDRINUSE);
	assert_int_equal(file_number(), before);
}

static void one_that_a_server_left_is_replaced(void **state)
{
	struct device *dev;

	(void)state;
	close(foreign_listen(SOCK_SEQPACKET));
	assert_int_equal(device_open(&dev, &addr, DEVICE_LISTEN, PAIR_WAIT_MS), 0);
	close(foreign_connect());
	softnic_ops.close(dev);
	assert_int_equal(access(addr.path, F_OK), -1);
}

/* Somebody removed the server's socket, and another server took the path: it stays the other's. */
static void one_of_another_server_is_left(void **state)
{
	struct device *dev;
	ino_t number;
	int other;

	(void)state;
	assert_int_equal(device_open(&dev, &addr, DEVICE_LISTEN, PAIR_WAIT_MS), 0);
	assert_int_equal(unlink(addr.path), 0);
	other = foreign_listen(SOCK_SEQPACKET);
	number = file_number();
	softnic_ops.close(dev);
	assert_int_equal(file_number(), number);
	close(foreign_connect());
	close(other);
}

/* The only place in its queue is taken, so that a further connection has to wait. */
static void one_whose_queue_is_full_is_in_use(void **state)
{
	const int listener = foreign_listen(SOCK_SEQPACKET);
	const int first = foreign_connect();

	(void)state;
	assert_in_use();
	close(first);
	close(listener);
}

/*
 * A server that is about to serve listens, but accepts nobody yet: the first client stays in its
 * queue, which is full for the second one.
 */
static void a_server_that_starts_is_in_use(void **state)
{
	struct device *dev;

	(void)state;
	assert_int_equal(device_open(&dev, &addr, DEVICE_LISTEN, PAIR_WAIT_MS), 0);
	assert_in_use();
	assert_in_use();
	softnic_ops.close(dev);
}

static void one_of_another_kind_is_in_use(void **state)
{
	const int listener = foreign_listen(SOCK_STREAM);

	(void)state;
	assert_in_use();
	close(listener);
}

static int group_teardown(void **state)
{
	(void)state;
	pair_path_release();
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, path_begin, path_end)
	const struct CMUnitTest tests[] = {
		TEST(one_that_a_server_left_is_replaced), TEST(one_of_another_server_is_left),
		TEST(one_whose_queue_is_full_is_in_use),  TEST(a_server_that_starts_is_in_use),
		TEST(one_of_another_kind_is_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, group_teardown);
}
