/* SPDX-License-Identifier: MIT */
/*
 * Tests of the socket and the shared memory of a connection (link.c), and of the life word
 * (life.c): which files are taken and which are refused, what a full socket or a peer that is gone
 * does, that all that was sent before the end arrives, and what a failing call leaves.
 */
#include "common/rdma/softnic/life_word.h"
#include "common/rdma/softnic/link.h"

#include <errno.h>
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

#include "tests/support/descriptors.h"
#include "tests/support/send_files.h"

#define FULL_MAX 100000 /* wake-ups that a socket takes at most */

/* The call that fails. */
enum step { STEP_CREATE, STEP_SIZE, STEP_MAP, STEP_SEAL, STEP_THREAD, STEP_NONE };

static enum step failing = STEP_NONE;
static int send_error;

static bool fails(enum step step)
{
	if (step != failing)
		return false;
	errno = ENFILE;
	return true;
}

int memfd_create(const char *name, unsigned int flags)
{
	return fails(STEP_CREATE) ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

int ftruncate(int fd, off_t length)
{
	return fails(STEP_SIZE) ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

/* ThreadSanitizer maps memory before it can bear that. */
#ifndef __SANITIZE_THREAD__
void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (fd >= 0 && fails(STEP_MAP))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

#define MAP_CAN_FAIL true
#else
#define MAP_CAN_FAIL false
#endif

int fcntl(int fd, int op, ...)
{
	va_list args;
	long arg;

	va_start(args, op);
	arg = va_arg(args, long);
	va_end(args);
	if (op == F_ADD_SEALS && fails(STEP_SEAL))
		return -1;
	return (int)syscall(SYS_fcntl, fd, op, arg);
}

/* The owner that the C library wrote to the mutex is not this thread. */
pid_t gettid(void)
{
	return (pid_t)syscall(SYS_gettid) + fails(STEP_THREAD);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	if (send_error) {
		errno = send_error;
		return -1;
	}
	return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

static int socks[2];

static int setup(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks);
}

static int teardown(void **state)
{
	(void)state;
	failing = STEP_NONE;
	send_error = 0;
	close(socks[0]);
	if (socks[1] >= 0)
		close(socks[1]);
	return 0;
}

static void peer_closes(void)
{
	close(socks[1]);
	socks[1] = -1;
}

/* The number of mappings of files with this name. */
static int mappings(const char *name)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	int count = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, name) != NULL;
	fclose(file);
	return count;
}

static int sealed_file(off_t bytes, int seals)
{
	int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Memory that the server could shorten would end the client, one of another size, too. */
static void memory_that_is_not_mapped(void **state)
{
	static const struct {
		off_t more;
		int seals, result;
	} files[] = {
		{ 0, LINK_SEALS_FIXED, 0 },
		{ -1, LINK_SEALS_FIXED, -EPROTO },
		{ 1, LINK_SEALS_FIXED, -EPROTO },
		{ 4096, LINK_SEALS_FIXED, -EPROTO },
		{ 0, F_SEAL_SHRINK | F_SEAL_GROW, 0 },
		{ 0, F_SEAL_SHRINK | F_SEAL_SEAL, -EPROTO },
		{ 0, F_SEAL_GROW | F_SEAL_SEAL, -EPROTO },
	};
	struct link_shared *shared;

	(void)state;
	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int fd = sealed_file((off_t)LINK_BYTES + files[i].more, files[i].seals);

		assert_int_equal(link_map(&shared, fd), files[i].result);
		if (!files[i].result)
			link_unmap(shared);
		close(fd);
	}
	assert_int_equal(link_map(&shared, socks[0]), -EPROTO);
}

static void seals_of_files(void **state)
{
	(void)state;
	assert_true(link_file_safe(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE));
	assert_true(link_file_safe(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
	assert_false(link_file_safe(F_SEAL_SHRINK | F_SEAL_GROW));
	assert_false(link_file_safe(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE));
	assert_false(link_file_safe(F_SEAL_FUTURE_WRITE | F_SEAL_WRITE | F_SEAL_GROW));
	assert_false(link_file_safe(-1));
	assert_true(link_file_fixed(LINK_SEALS_FIXED | F_SEAL_WRITE));
	assert_false(link_file_fixed(-1));
}

static void memory_that_can_not_be_had(void **state)
{
	const int before = descriptors(), mapped = mappings("memfd:softnic");
	struct link_shared *shared;
	int fd;

	(void)state;
	for (enum step step = STEP_CREATE; step <= STEP_SEAL; step++) {
		if (step == STEP_MAP && !MAP_CAN_FAIL)
			continue;
		failing = step;
		assert_int_equal(link_create(&shared, &fd), -ENFILE);
		assert_int_equal(fd, -1);
		failing = STEP_NONE;
		assert_int_equal(descriptors(), before);
	}
	assert_int_equal(link_create(&shared, &fd), 0);
	assert_int_equal(mappings("memfd:softnic"), mapped + 1);
	link_unmap(shared);
	close(fd);
	assert_int_equal(mappings("memfd:softnic"), mapped);
}

/* A message to a peer that is gone. */
static void nobody_receives(void **state)
{
	const struct link_message message = { .magic = LINK_MAGIC };

	(void)state;
	peer_closes();
	assert_int_equal(link_send(socks[0], &message, -1), -EPIPE);
	link_wake(socks[0]);
	assert_true(link_hung_up(socks[0]));
}

static void files_that_come_are_ours(void **state)
{
	const struct link_message message = { .magic = LINK_MAGIC };
	struct link_packet packets[LINK_PACKETS_TAKEN];
	struct link_message got;
	int fd = 12345;

	(void)state;
	/* Not one of the caller's that only happens to have the number. */
	assert_int_equal(link_receive(socks[0], &got, &fd), -EAGAIN);
	assert_int_equal(fd, -1);
	assert_int_equal(link_send(socks[1], &message, -1), 0);
	assert_int_equal(link_receive(socks[0], &got, &fd), sizeof(got));
	assert_int_equal(fd, -1);
	assert_int_equal(link_send(socks[1], &message, socks[1]), 0);
	assert_int_equal(link_receive(socks[0], &got, &fd), sizeof(got));
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(link_take(socks[0], packets), 0);
	assert_int_equal(link_send(socks[1], &message, socks[1]), 0);
	assert_int_equal(link_take(socks[0], packets), 1);
	assert_true(fcntl(packets[0].fd, F_GETFD) & FD_CLOEXEC);
	close(packets[0].fd);
}

/* A peer that is gone without a word is not one that has not written yet. */
static void an_error_is_not_silence(void **state)
{
	struct link_message got;
	int fd;

	(void)state;
	link_wake(socks[0]);
	peer_closes(); /* it has not taken that */
	assert_int_equal(link_receive(socks[0], &got, &fd), -ECONNRESET);
	assert_int_equal(fd, -1);
	assert_int_equal(link_receive(socks[0], &got, &fd), 0);
}

/* All that was sent before the end is taken, and the end is no packet. */
static void what_came_before_the_end(void **state)
{
	const struct link_message message = { .magic = LINK_MAGIC };
	struct link_packet packets[LINK_PACKETS_TAKEN];
	int fd = sealed_file(1, LINK_SEALS_FIXED);

	(void)state;
	assert_int_equal(link_send(socks[1], &message, -1), 0);
	link_wake(socks[1]);
	assert_int_equal(send_files(socks[1], NULL, 0, fd, 1), 0);
	peer_closes();
	close(fd);
	assert_int_equal(link_take(socks[0], packets), 3);
	assert_int_equal(packets[0].length, sizeof(message));
	assert_int_equal(packets[1].length, 1);
	assert_int_equal(packets[2].length, 0);
	assert_true(packets[2].fd >= 0);
	close(packets[2].fd);
	assert_int_equal(link_take(socks[0], packets), 0);
}

static void a_wake_up_before_the_end(void **state)
{
	struct link_packet packets[LINK_PACKETS_TAKEN];

	(void)state;
	link_wake(socks[1]);
	peer_closes();
	assert_int_equal(link_take(socks[0], packets), 1);
	assert_int_equal(packets[0].length, 1);
}

/* An empty packet of a peer that is there is one. */
static void an_empty_packet(void **state)
{
	struct link_packet packets[LINK_PACKETS_TAKEN];

	(void)state;
	assert_int_equal(send(socks[1], "", 0, 0), 0);
	assert_int_equal(link_take(socks[0], packets), 1);
	assert_int_equal(packets[0].length, 0);
	assert_int_equal(packets[0].fd, -1);
}

/* A peer that takes none of its wake-ups keeps its connection. */
static void wake_ups_that_find_no_room(void **state)
{
	unsigned int count;

	(void)state;
	assert_int_equal(link_queued(socks[0]), 0);
	for (count = 0; send(socks[0], "", 1, 0) == 1; count++)
		assert_true(count < FULL_MAX);
	assert_true(link_queued(socks[0]) > 0);
	link_wake(socks[0]);
	assert_false(link_hung_up(socks[0]));
	assert_false(link_hung_up(socks[1]));
	/* One that can't be sent for another reason would leave it asleep. */
	send_error = ENOBUFS;
	link_wake(socks[0]);
	assert_true(link_hung_up(socks[1]));
}

static void what_can_not_be_asked_is_full(void **state)
{
	(void)state;
	assert_int_equal(link_queued(-1), INT32_MAX);
}

/* The peer sends no more: it has ended its half. */
static void half_an_end_is_one(void **state)
{
	(void)state;
	assert_false(link_hung_up(socks[0]));
	shutdown(socks[1], SHUT_WR);
	assert_true(link_hung_up(socks[0]));
}

/* A server without a life word goes on, and has nothing of it. */
static void a_life_word_that_can_not_be_had(void **state)
{
	const int before = descriptors(), mapped = mappings("memfd:softnic-life");

	(void)state;
	for (enum step step = STEP_CREATE; step <= STEP_NONE; step++) {
		struct sn_life life = SN_LIFE_NONE;

		if (step == STEP_MAP && !MAP_CAN_FAIL)
			continue;
		failing = step;
		sn_life_begin(&life);
		failing = STEP_NONE;
		if (step == STEP_NONE)
			assert_non_null(life.page);
		else
			assert_null(life.page);
		assert_int_equal(life.fd >= 0, step == STEP_NONE);
		assert_int_equal(descriptors(), before + (step == STEP_NONE));
		assert_int_equal(mappings("memfd:softnic-life"), mapped + (step == STEP_NONE));
		if (step == STEP_NONE)
			assert_int_equal(fcntl(life.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW |
									      F_SEAL_FUTURE_WRITE |
									      F_SEAL_SEAL);
		sn_life_end(&life);
		assert_int_equal(descriptors(), before);
		assert_int_equal(mappings("memfd:softnic-life"), mapped);
	}
}

#ifndef __SANITIZE_THREAD__
static struct sn_life begun = SN_LIFE_NONE;
static pthread_barrier_t barrier;

static void *life_begin(void *arg)
{
	(void)arg;
	sn_life_begin(&begun);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

/*
 * The kernel still goes to the page when the thread that began it ends. Not with ThreadSanitizer,
 * for which it is an error to try to unlock the mutex of another thread.
 */
static void a_life_word_that_another_thread_ends(void **state)
{
	const int mapped = mappings("memfd:softnic-life");
	union life_page *page;
	pthread_t thread;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, life_begin, NULL), 0);
	pthread_barrier_wait(&barrier);
	page = begun.page;
	assert_non_null(page);
	sn_life_end(&begun);
	assert_int_equal(begun.fd, -1);
	assert_null(begun.page);
	assert_int_equal(mappings("memfd:softnic-life"), mapped + 1);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
	munmap(page, LINK_LIFE_BYTES);
}
#endif

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(memory_that_is_not_mapped),
		CASE(seals_of_files),
		CASE(memory_that_can_not_be_had),
		CASE(nobody_receives),
		CASE(files_that_come_are_ours),
		CASE(an_error_is_not_silence),
		CASE(what_came_before_the_end),
		CASE(a_wake_up_before_the_end),
		CASE(an_empty_packet),
		CASE(wake_ups_that_find_no_room),
		CASE(what_can_not_be_asked_is_full),
		CASE(half_an_end_is_one),
		CASE(a_life_word_that_can_not_be_had),
#ifndef __SANITIZE_THREAD__
		CASE(a_life_word_that_another_thread_ends),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
