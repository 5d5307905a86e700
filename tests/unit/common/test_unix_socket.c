/* SPDX-License-Identifier: MIT */
/*
 * Tests of a server's Unix socket: a file that a dead server left is replaced, and nothing else is;
 * the file has the permissions that were asked for, and the server removes its own alone; servers
 * that start at once wait for each other; and what is known of a client.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "tests/support/descriptors.h"
#include "tests/support/log_fixture.h"

static int fake_usleep(useconds_t us);

#define usleep fake_usleep
#include "common/util/unix_socket.c"

#define OTHER_UID 61234
#define SERVERS 8

static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
static int type;
static char path[128];
static struct unix_socket_file file;
static unsigned int open_before, drops, sleeps, unlock_at;
static ino_t stale;
static int lock; /* the other server's */

static int begin(void **state)
{
	type = *(const int *)*state;
	snprintf(path, sizeof(path), "%s/a b.sock", test_log_dir);
	drops = sleeps = unlock_at = 0;
	file = (struct unix_socket_file){ 0 };
	stale = 0;
	if (test_log_begin())
		return -1;
	open_before = descriptors();
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(path);
	return descriptors() == open_before ? 0 : -1;
}

static struct stat stat_of(void)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st;
}

/* Between two looks at the lock, which another server has. */
static int fake_usleep(useconds_t us)
{
	if (!stale) /* as one_of_many_gets_it() */
		return poll(NULL, 0, (int)us / 1000);
	assert_int_equal(stat_of().st_ino, stale);
	if (++sleeps == unlock_at)
		close(lock);
	return 0;
}

static int bind_here(int *fd)
{
	const struct unix_socket_address address = {
		.path = path,
		.type = type,
		.mode = 0620,
		.name = "test",
	};

	return unix_socket_bind(&address, fd, &file);
}

static int bound(void)
{
	int fd = -1;

	assert_int_equal(bind_here(&fd), 0);
	return fd;
}

static int connected(void)
{
	int fd = -1;

	assert_int_equal(unix_socket_connect(path, type, &fd), 0);
	return fd;
}

static int foreign_bind(int of_type)
{
	const int sock = socket(AF_UNIX, of_type | SOCK_CLOEXEC, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };

	assert_true(sock >= 0);
	memcpy(name.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(sock, (struct sockaddr *)&name, sizeof(name)), 0);
	return sock;
}

static int foreign_listen(int of_type)
{
	const int sock = foreign_bind(of_type);

	assert_int_equal(listen(sock, 0), 0);
	return sock;
}

/* The file there is in use, and stays as it is. */
static void assert_in_use(void)
{
	const ino_t before = stat_of().st_ino;
	int fd = -1;

	assert_int_equal(bind_here(&fd), -EADDRINUSE);
	assert_int_equal(fd, -1);
	assert_int_equal(stat_of().st_ino, before);
	assert_int_equal(test_log_lines(), 0);
}

static void a_client_and_its_server_meet(void **state)
{
	struct ucred cred;
	char byte = 0;
	int server = bound(), client = connected(), peer;

	(void)state;
	assert_int_equal(fcntl(server, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fcntl(server, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(client, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fcntl(client, F_GETFD), FD_CLOEXEC);
	peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	assert_true(peer >= 0);
	assert_int_equal(send(client, "x", 1, 0), 1);
	assert_int_equal(recv(peer, &byte, 1, 0), 1);
	assert_int_equal(byte, 'x');
	assert_int_equal(unix_socket_peer(peer, &cred), 0);
	assert_int_equal(cred.pid, getpid());
	assert_int_equal(cred.uid, geteuid());
	assert_int_equal(unix_socket_peer(-1, &cred), -EBADF);
	close(peer);
	close(client);
	close(server);
}

static void the_file_has_its_permissions(void **state)
{
	const mode_t mask = umask(077);
	int server = bound();

	(void)state;
	umask(mask);
	assert_int_equal(stat_of().st_mode, S_IFSOCK | 0620);
	close(server);
}

/* Descriptors that clients pass are refused, where the kernel can: they would stay open in it. */
static void no_files_are_taken(void **state)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .bytes = { 0 } };
	struct iovec iov = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int server = bound(), client = connected(), peer, value = -1;
	socklen_t len = sizeof(value);

	(void)state;
	peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	assert_true(peer >= 0);
	if (!getsockopt(peer, SOL_SOCKET, 83 /* SO_PASSRIGHTS */, &value, &len)) {
		assert_int_equal(value, 0);
		*head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &server, sizeof(int));
		assert_int_equal(sendmsg(client, &message, MSG_DONTWAIT), -1);
		assert_int_equal(errno, EPERM);
		unix_socket_let_files(peer, true);
		assert_int_equal(sendmsg(client, &message, MSG_DONTWAIT), 1);
	}
	close(peer);
	close(client);
	close(server);
}

static void one_that_a_server_left_is_replaced(void **state)
{
	int server;

	(void)state;
	close(foreign_listen(type));
	server = bound();
	assert_logged("test: replacing ");
	assert_logged(", which a dead server left");
	assert_int_equal(test_log_lines(), 1);
	close(connected());
	close(server);
}

/* A server of another type than it listened there; or it died before it listened. */
static void another_type_is_replaced(void **state)
{
	(void)state;
	close(foreign_listen(type == SOCK_STREAM ? SOCK_SEQPACKET : SOCK_STREAM));
	close(bound());
	close(bound());
	assert_int_equal(unlink(path), 0);
	close(foreign_bind(type));
	close(bound());
}

static void one_on_which_a_process_listens_is_not(void **state)
{
	int listener = foreign_listen(type);

	(void)state;
	assert_in_use();
	assert_in_use(); /* Now its queue is full. */
	close(listener);
	assert_int_equal(unlink(path), 0);
	listener = foreign_listen(type == SOCK_STREAM ? SOCK_SEQPACKET : SOCK_STREAM);
	assert_in_use();
	close(listener);
	/* This server, before it accepts anybody. */
	listener = bound();
	assert_int_equal(test_log_lines(), 1);
	assert_int_equal(test_log_begin(), 0);
	assert_in_use();
	assert_in_use();
	close(listener);
}

static void drop(int sock)
{
	drops++;
	close(sock);
}

/* A connection to another server may need more than close(2). */
static void the_owner_drops_connections(void **state)
{
	const struct unix_socket_address address = {
		.path = path, .type = type, .mode = 0600, .name = "test", .drop = drop
	};
	int server = bound(), fd = -1;

	(void)state;
	assert_int_equal(unix_socket_bind(&address, &fd, &file), -EADDRINUSE);
	assert_int_equal(drops, 1);
	close(server);
	assert_int_equal(unix_socket_bind(&address, &fd, &file), 0);
	assert_int_equal(drops, 1);
	close(fd);
}

/* Another user's socket that refuses this one is not known to be dead. */
static void one_that_refuses_is_in_use(void **state)
{
	const uid_t me = geteuid();
	int listener, fd = -1;

	(void)state;
	if (me)
		skip();
	listener = foreign_listen(type);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(chmod(test_log_dir, 0777), 0);
	assert_int_equal(seteuid(OTHER_UID), 0);
	fd = -1;
	assert_int_equal(bind_here(&fd), -EADDRINUSE);
	assert_int_equal(unix_socket_connect(path, type, &fd), -EACCES);
	assert_int_equal(seteuid(me), 0);
	assert_int_equal(chmod(test_log_dir, 0700), 0);
	assert_true(S_ISSOCK(stat_of().st_mode));
	close(listener);
}

static void another_kind_of_file_is_kept(void **state)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	fd = -1;
	assert_int_equal(bind_here(&fd), -ENOTSOCK);
	assert_int_equal(unix_socket_check(path), -ENOTSOCK);
	assert_true(S_ISREG(stat_of().st_mode));
	assert_int_equal(unlink(path), 0);
	/* A symbolic link is not followed: neither is what it leads to. */
	assert_int_equal(symlink("/none", path), 0);
	assert_int_equal(bind_here(&fd), -ENOTSOCK);
	assert_true(S_ISLNK(stat_of().st_mode));
	assert_int_equal(fd, -1);
}

static void bad_paths(void **state)
{
	char long_path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	const struct unix_socket_address folderless = { .path = "/none/s", .type = type };
	const struct unix_socket_address too_long = { .path = long_path, .type = type };
	int fd = -1;

	(void)state;
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = '\0';
	assert_int_equal(unix_socket_connect(long_path, type, &fd), -ENAMETOOLONG);
	assert_int_equal(unix_socket_bind(&too_long, &fd, &file), -ENAMETOOLONG);
	assert_int_equal(unix_socket_bind(&folderless, &fd, &file), -ENOENT);
	assert_int_equal(unix_socket_connect(path, type, &fd), -ENOENT);
	assert_int_equal(fd, -1);
}

static void only_its_own_file_is_removed(void **state)
{
	struct unix_socket_file mine;
	int server = bound(), other;
	ino_t number;

	(void)state;
	mine = file;
	unix_socket_unlink(path, &mine);
	assert_int_equal(access(path, F_OK), -1);
	unix_socket_unlink(path, &mine);
	/* Somebody removed it, and another server took the path; ours still exists. */
	other = foreign_listen(type);
	number = stat_of().st_ino;
	unix_socket_unlink(path, &mine);
	assert_int_equal(stat_of().st_ino, number);
	mine.ino = number;
	mine.dev++;
	unix_socket_unlink(path, &mine);
	assert_int_equal(stat_of().st_ino, number);
	close(other);
	close(server);
}

/* As bind would find it; but nothing is changed, and no connection made. */
static void what_a_check_finds(void **state)
{
	int server;

	(void)state;
	assert_int_equal(unix_socket_check(path), 0);
	server = foreign_bind(type);
	assert_int_equal(unix_socket_check(path), 0);
	assert_int_equal(listen(server, 0), 0);
	assert_int_equal(unix_socket_check(path), -EADDRINUSE);
	path[strlen(path) - 1] = '\0';
	assert_int_equal(unix_socket_check(path), 0);
	path[strlen(path)] = 'k';
	close(connected()); /* The queue has room still. */
	close(server);
	assert_int_equal(unix_socket_check(path), 0);
	assert_true(S_ISSOCK(stat_of().st_mode));
	assert_int_equal(test_log_lines(), 0);
}

/* A process that tells how bind ended, and that serves, if it may, until all have. */
static _Noreturn void server_run(int go, int told, int done)
{
	char byte;
	int fd = -1, err;

	if (read(go, &byte, 1) < 0)
		_exit(1);
	err = bind_here(&fd);
	byte = !err ? 's' : err == -EADDRINUSE ? 'r' : 'e';
	if (write(told, &byte, 1) != 1 || read(done, &byte, 1) < 0)
		_exit(1);
	_exit(0);
}

/* Of servers that start at once over a stale socket one serves, and no other takes its place. */
static void one_of_many_gets_it(void **state)
{
	int go[2], told[2], done[2], status, serve = 0, refused = 0;
	char byte;

	(void)state;
	close(foreign_listen(type));
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	for (int i = 0; i < SERVERS; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid)
			continue;
		close(go[1]);
		close(done[1]);
		server_run(go[0], told[1], done[0]);
	}
	close(go[1]); /* All go. */
	close(told[1]);
	while (read(told[0], &byte, 1) == 1) {
		serve += byte == 's';
		refused += byte == 'r';
		if (serve + refused == SERVERS)
			break;
	}
	close(done[1]);
	for (int i = 0; i < SERVERS; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(serve, 1);
	assert_int_equal(refused, SERVERS - 1);
	assert_true(S_ISSOCK(stat_of().st_mode));
	close(go[0]);
	close(told[0]);
	close(done[0]);
}

/* While another server that starts has the folder's lock, a stale socket is not touched. */
static void a_starting_server_is_waited_for(void **state)
{
	int fd;

	(void)state;
	close(foreign_listen(type));
	stale = stat_of().st_ino;
	lock = open(test_log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	unlock_at = 3;
	fd = bound();
	assert_int_equal(sleeps, 3);
	close(fd);
}

/* One that hangs is not waited for without end. */
static void a_hanging_server_is_passed(void **state)
{
	int fd;

	(void)state;
	close(foreign_listen(type));
	stale = stat_of().st_ino;
	lock = open(test_log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
	fd = bound();
	assert_int_equal(sleeps, LOCK_TRIES);
	close(fd);
	close(lock);
}

int main(void)
{
#define TEST(f)                                                                                    \
	{ #f " (stream)", f, begin, end, (void *)&types[0] },                                      \
	{                                                                                          \
#f " (packets)", f, begin, end, (void *)&types[1]                                  \
	}
	const struct CMUnitTest tests[] = {
		TEST(a_client_and_its_server_meet), TEST(the_file_has_its_permissions),
		TEST(no_files_are_taken),	    TEST(one_that_a_server_left_is_replaced),
		TEST(another_type_is_replaced),	    TEST(one_on_which_a_process_listens_is_not),
		TEST(the_owner_drops_connections),  TEST(one_that_refuses_is_in_use),
		TEST(another_kind_of_file_is_kept), TEST(bad_paths),
		TEST(only_its_own_file_is_removed), TEST(what_a_check_finds),
		TEST(one_of_many_gets_it),	    TEST(a_starting_server_is_waited_for),
		TEST(a_hanging_server_is_passed),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
