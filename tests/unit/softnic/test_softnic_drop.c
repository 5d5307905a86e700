/* SPDX-License-Identifier: MIT */
/*
 * Tests of how descriptors that a peer passed are got rid of (drop.c): what may take long is closed
 * by another thread, also what is still in a socket's queue or was more than a message may carry,
 * and what can't be closed by one stays open.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/link.h"
#include "tests/support/send_files.h"

#define LINGER_SECONDS 3600
#define WAIT_MS 300000 /* against hanging */

static int socks[2];
static int pipes[2]; /* [0]: sees when no descriptor of [1] is left */
static pthread_t self;
static _Atomic int closed_here; /* by this thread, as the library's last call of close() */
static _Atomic int closed_elsewhere;
static _Atomic unsigned int closes_elsewhere;
static bool no_threads;

int close(int fd)
{
	if (pthread_equal(pthread_self(), self)) {
		closed_here = fd;
	} else {
		closed_elsewhere = fd;
		closes_elsewhere++;
	}
	return (int)syscall(SYS_close, fd);
}

/* ThreadSanitizer has an attribute of its own. */
#ifndef __SANITIZE_THREAD__
/* Of zeros only, which glibc takes for the defaults. */
int pthread_attr_init(pthread_attr_t *attr)
{
	memset(attr, 0, sizeof(*attr));
	return no_threads ? ENOMEM : 0;
}
#endif

static int setup(void **state)
{
	(void)state;
	no_threads = false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return -1;
	if (pipe2(pipes, O_CLOEXEC))
		return -1;
	closed_here = closed_elsewhere = -1;
	closes_elsewhere = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	syscall(SYS_close, pipes[0]);
	syscall(SYS_close, socks[1]);
	return 0;
}

static void check_gone(void)
{
	struct pollfd fd = { .fd = pipes[0] };

	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	assert_true(fd.revents & POLLHUP);
}

static void wait_elsewhere(int fd)
{
	for (unsigned int ms = 0; closed_elsewhere != fd; ms++) {
		assert_true(ms < WAIT_MS);
		usleep(1000);
	}
}

/* Sends @length bytes and @count descriptors of the pipe's end. */
static void send_pipe(size_t length, unsigned int count)
{
	static const struct link_message message;

	assert_int_equal(send_files(socks[1], &message, length, pipes[1], count), length);
}

static void close_pipe(void)
{
	syscall(SYS_close, pipes[1]);
}

static void a_file_that_is_no_memory(void **state)
{
	(void)state;
	link_drop_file(pipes[1], true);
	check_gone();
	assert_int_equal(closed_elsewhere, pipes[1]);
	assert_int_equal(closed_here, -1);
	link_drop_socket(socks[0], true);
}

static void a_small_file_of_memory(void **state)
{
	int fd = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	link_drop_file(fd, true);
	assert_int_equal(closed_here, fd);
	link_drop_socket(socks[0], true);
	close_pipe();
}

/* A TCP socket whose close lingers: what it has sent can't arrive. */
static int lingering_socket(int *listener, int *receiver)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = LINGER_SECONDS };
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(addr);
	static const char bytes[65536];
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(*listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(*listener, 1), 0);
	assert_int_equal(getsockname(*listener, (struct sockaddr *)&addr, &length), 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	*receiver = accept(*listener, NULL, NULL);
	assert_true(*receiver >= 0);
	assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	while (send(sock, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	return sock;
}

/* A socket whose close() would wait is not closed by the caller's thread. */
static void a_close_that_lingers(void **state)
{
	int listener, receiver, sock;

	(void)state;
	sock = lingering_socket(&listener, &receiver);
	link_drop_file(sock, true);
	assert_int_equal(closed_here, -1);
	/* So that the thread ends: the receiver resets the connection. */
	syscall(SYS_close, receiver);
	syscall(SYS_close, listener);
	wait_elsewhere(sock);
	link_drop_socket(socks[0], true);
	close_pipe();
}

static void a_socket_without_files(void **state)
{
	(void)state;
	link_drop_socket(socks[0], true);
	assert_int_equal(closed_here, socks[0]);
	close_pipe();
}

/* Wake-ups that nobody took, and empty packets, are no reason for a thread. */
static void a_socket_with_plain_packets(void **state)
{
	struct link_message message = { .magic = LINK_MAGIC };

	(void)state;
	link_wake(socks[1]);
	assert_int_equal(send(socks[1], "", 0, 0), 0);
	assert_int_equal(link_send(socks[1], &message, -1), 0);
	link_drop_socket(socks[0], true);
	assert_int_equal(closed_here, socks[0]);
	close_pipe();
}

static void check_socket_empty(void)
{
	close_pipe();
	link_drop_socket(socks[0], true);
	assert_int_equal(closed_here, socks[0]);
	check_gone();
	assert_true(closes_elsewhere);
}

static void a_socket_with_a_file(void **state)
{
	(void)state;
	send_pipe(1, 1);
	check_socket_empty();
}

/* An empty packet in front looks like the end of the connection. */
static void a_file_behind_others(void **state)
{
	(void)state;
	link_wake(socks[1]);
	assert_int_equal(send(socks[1], "", 0, 0), 0);
	send_pipe(0, LINK_FDS_MAX);
	syscall(SYS_close, socks[1]);
	check_socket_empty();
	socks[1] = -1;
}

static void more_packets_than_are_taken(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 100; i++)
		link_wake(socks[1]);
	close_pipe();
	link_drop_socket(socks[0], true);
	assert_int_equal(closed_here, -1);
	wait_elsewhere(socks[0]);
}

static void a_file_that_is_not_wanted(void **state)
{
	struct link_message message;

	(void)state;
	send_pipe(sizeof(message), 1);
	close_pipe();
	assert_int_equal(link_receive(socks[0], &message, NULL), -EPROTO);
	check_gone();
	assert_int_equal(closed_here, -1);
	link_drop_socket(socks[0], true);
}

/* All are delivered: what found no room would be dropped by the kernel, in this thread. */
static void as_many_files_as_can_be(void **state)
{
	struct link_message message;
	int fd;

	(void)state;
	send_pipe(sizeof(message), LINK_FDS_MAX);
	close_pipe();
	assert_int_equal(link_receive(socks[0], &message, &fd), -EPROTO);
	assert_true(fd >= 0);
	link_drop_file(fd, true);
	check_gone();
	assert_int_equal(closed_here, -1);
	assert_int_equal(closes_elsewhere, LINK_FDS_MAX);
	link_drop_socket(socks[0], true);
}

static void packets_with_many_files(void **state)
{
	struct link_packet packets[LINK_PACKETS_TAKEN];

	(void)state;
	send_pipe(1, LINK_FDS_MAX);
	send_pipe(0, 2);
	link_wake(socks[1]);
	close_pipe();
	assert_int_equal(link_take(socks[0], packets), 3);
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(packets[i].stray);
		assert_true(packets[i].fd >= 0);
		link_drop_file(packets[i].fd, true);
	}
	assert_false(packets[2].stray);
	check_gone();
	assert_int_equal(closed_here, -1);
	assert_int_equal(closes_elsewhere, LINK_FDS_MAX + 2);
	link_drop_socket(socks[0], true);
}

#ifndef __SANITIZE_THREAD__
/* A descriptor less is better than a thread that hangs. */
static void no_thread(void **state)
{
	(void)state;
	no_threads = true;
	link_drop_file(pipes[1], true);
	assert_int_equal(closed_here, -1);
	assert_true(fcntl(pipes[1], F_GETFD) >= 0);
	link_drop_socket(socks[0], true);
	close_pipe();
}
#endif

static void one_open_file(void **state)
{
	int fd = memfd_create("one", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	char path[32];
	int other;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR | O_CLOEXEC);
	assert_true(other >= 0);
	assert_true(link_file_same(fd, again));
	assert_false(link_file_same(fd, other));
	assert_false(link_file_same(fd, pipes[0]));
	syscall(SYS_close, fd);
	syscall(SYS_close, again);
	syscall(SYS_close, other);
	link_drop_socket(socks[0], true);
	close_pipe();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_that_is_no_memory),
		TEST(a_small_file_of_memory),
		TEST(a_close_that_lingers),
		TEST(a_socket_without_files),
		TEST(a_socket_with_plain_packets),
		TEST(a_socket_with_a_file),
		TEST(a_file_behind_others),
		TEST(more_packets_than_are_taken),
		TEST(a_file_that_is_not_wanted),
		TEST(as_many_files_as_can_be),
		TEST(packets_with_many_files),
#ifndef __SANITIZE_THREAD__
		TEST(no_thread),
#endif
		TEST(one_open_file),
	};

	self = pthread_self();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
