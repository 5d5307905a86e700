/* SPDX-License-Identifier: MIT */
/*
 * Tests of entries of the journal (server/journal.h): their fields, that a socket gets them, and
 * what stderr gets when there is none.
 */
#include "server/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define ENTRY "MESSAGE=ready: <2> workers\nPRIORITY=5\nSYSLOG_IDENTIFIER=kvd\n"
#define REFUSED                                                                                    \
	"<4>log: the journal takes no entries; lines go to stderr, without their fields, until "   \
	"it does\n"

static char folder[] = "/tmp/kvd-test-journal-XXXXXX";
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static char got[4096];

static void assert_entry(const char *line, const char *wanted)
{
	char entry[JOURNAL_ENTRY_MAX];
	size_t length = journal_entry(entry, line, strlen(line));

	assert_int_equal(length, strlen(wanted));
	assert_memory_equal(entry, wanted, length);
}

static void entries(void **state)
{
	(void)state;
	assert_entry("worker/1 <5>ready: <2> workers\n", ENTRY "KVD_THREAD=worker/1\n");
	assert_entry("<5>ready: <2> workers\n", ENTRY);
	assert_entry("kvd <3>\n", "MESSAGE=\nPRIORITY=3\nSYSLOG_IDENTIFIER=kvd\nKVD_THREAD=kvd\n");
}

static void the_longest_entry(void **state)
{
	char text[LOG_LINE_MAX], line[LOG_LINE_MAX], named[JOURNAL_LINE_MAX],
		entry[JOURNAL_ENTRY_MAX];
	size_t length;

	(void)state;
	memset(text, 'x', sizeof(text));
	length = log_line(line, LOG_INFO, text, sizeof(text));
	assert_int_equal(length, LOG_LINE_MAX);
	length = journal_line(named, line, length);
	assert_int_equal(length, LOG_LINE_MAX + strlen("kvd "));
	length = journal_entry(entry, named, length);
	assert_true(length <= JOURNAL_ENTRY_MAX - THREAD_NAME_BYTES);
	assert_memory_equal(entry + strlen("MESSAGE=") + LOG_LINE_MAX - strlen("<6>...\n"), "...\n",
			    4);
}

static int listen_at(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_return_code(bind(fd, (struct sockaddr *)&address, sizeof(address)), errno);
	return fd;
}

/* Writes the first of @lines, and returns how much was written; `got` is what stderr got. */
static size_t write_first(const char *lines)
{
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t written, length;

	assert_return_code(pipe2(ends, O_NONBLOCK), errno);
	dup2(ends[1], STDERR_FILENO);
	written = journal_write(lines, strlen(lines));
	dup2(saved, STDERR_FILENO);
	length = read(ends[0], got, sizeof(got) - 1);
	got[length < 0 ? 0 : length] = '\0';
	close(saved);
	close(ends[0]);
	close(ends[1]);
	assert_true(written >= 0);
	return (size_t)written;
}

static void assert_received(int fd, const char *wanted)
{
	ssize_t length = recv(fd, got, sizeof(got), MSG_DONTWAIT);

	assert_int_equal(length, strlen(wanted));
	assert_memory_equal(got, wanted, strlen(wanted));
}

static void a_journal(void **state)
{
	int fd = listen_at();

	(void)state;
	assert_int_equal(write_first("kvd <5>ready: <2> workers\nkvd <5>next\n"), 26);
	assert_string_equal(got, "");
	assert_received(fd, ENTRY "KVD_THREAD=kvd\n");
	close(fd);
}

static void no_journal(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(write_first("http <5>one\nkvd <5>next\n"), 12);
	assert_string_equal(got, REFUSED "<5>one\n");
	assert_int_equal(write_first("<5>two\n"), 7);
	assert_string_equal(got, "<5>two\n");
	/* A journal starts, and ends again. */
	fd = listen_at();
	write_first("http <5>three\n");
	assert_string_equal(got, "");
	close(fd);
	unlink(address.sun_path);
	write_first("http <5>four\n");
	assert_string_equal(got, REFUSED "<5>four\n");
}

/* The journal reads nothing: the line stays to be written again. */
static void a_full_journal(void **state)
{
	int fd = listen_at();
	unsigned int sent = 0;

	(void)state;
	while (write_first("kvd <5>line\n"))
		assert_true(++sent < 100000);
	assert_string_equal(got, "");
	assert_true(sent > 0);
	close(fd);
}

static int setup(void **state)
{
	(void)state;
	unlink(address.sun_path);
	log_set_journal(true);
	return journal_open(address.sun_path);
}

static int teardown(void **state)
{
	(void)state;
	journal_close();
	log_set_journal(false);
	unlink(address.sun_path);
	return journal_is_open();
}

static int group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries),
		cmocka_unit_test_setup_teardown(the_longest_entry, setup, teardown),
		cmocka_unit_test_setup_teardown(a_journal, setup, teardown),
		cmocka_unit_test_setup_teardown(no_journal, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_journal, setup, teardown),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
