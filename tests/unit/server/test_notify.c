/* SPDX-License-Identifier: MIT */
/* Tests of what systemd is told, and of what it asks for (server/notify.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "server/notify.h"
#include "tests/support/log_fixture.h"

static char path[100];
static int systemd; /* its socket */

static int setup(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "%s/notify", test_log_dir);
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	unsetenv("NOTIFY_SOCKET");
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	notify_release();
	log_init(LOG_OFF, NULL);
	unlink(path);
	return 0;
}

static void listen_at(const char *name, size_t length)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memcpy(un.sun_path, name, length);
	systemd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	assert_true(systemd >= 0);
	assert_int_equal(bind(systemd, (struct sockaddr *)&un,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)),
			 0);
}

/* The next message, or "" if there is none. */
static const char *received(void)
{
	static char text[1000];
	ssize_t length = recv(systemd, text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	return text;
}

/* Messages to a socket in the file system, and to an abstract one. */
static void messages(void **state)
{
	char name[] = "@kvd-test-0000000000";
	unsigned long long usec;
	struct timespec now;

	(void)state;
	snprintf(name, sizeof(name), "@kvd-test-%d", (int)getpid());
	for (unsigned int abstract = 0; abstract < 2; abstract++) {
		setenv("NOTIFY_SOCKET", abstract ? name : path, 1);
		name[0] = '\0';
		listen_at(abstract ? name : path, strlen(abstract ? name + 1 : path) + abstract);
		name[0] = '@';
		notify_init();
		notify_send("READY=1\nSTATUS=serving on %s", "here");
		assert_string_equal(received(), "READY=1\nSTATUS=serving on here");
		notify_reloading();
		assert_int_equal(sscanf(received(), "RELOADING=1\nMONOTONIC_USEC=%llu\n", &usec),
				 1);
		clock_gettime(CLOCK_MONOTONIC, &now);
		assert_in_range(usec, (unsigned long long)(now.tv_sec - 60) * 1000000,
				(unsigned long long)now.tv_sec * 1000000 + 1000000);
		notify_release();
		notify_send("STOPPING=1");
		assert_string_equal(received(), "");
		close(systemd);
	}
	assert_int_equal(test_log_lines(), 0);
}

/* Without systemd nothing is sent; with a socket that can't be used that is said, and kvd runs. */
static void no_systemd(void **state)
{
	static const char *const bad[] = { "relative", "/nowhere/at/all" };
	char longer[200] = "/";

	(void)state;
	notify_init();
	notify_send("READY=1");
	setenv("NOTIFY_SOCKET", "", 1);
	notify_init();
	assert_int_equal(test_log_lines(), 0);
	memset(longer + 1, 'a', sizeof(longer) - 2);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(test_log_begin(), 0);
		setenv("NOTIFY_SOCKET", i < 2 ? bad[i] : longer, 1);
		setenv("WATCHDOG_USEC", "1000", 1);
		notify_init();
		assert_logged("can't connect to it: ");
		assert_true(notify_watchdog_ns() == 0);
		notify_send("READY=1");
		assert_int_equal(test_log_lines(), 1);
	}
}

/* The watchdog is for this process, or for any; and only if it is a number. */
static void watchdog(void **state)
{
	static const struct {
		const char *usec, *pid;
		uint64_t ns;
	} cases[] = {
		{ "2000000", NULL, 2000000000 },
		{ "2000000", "self", 2000000000 },
		{ "2000000", "1", 0 },
		{ NULL, "self", 0 },
		{ "soon", NULL, 0 },
		{ "0", NULL, 0 },
		{ "2000000", "nobody", 0 },
	};
	char self[16];

	(void)state;
	snprintf(self, sizeof(self), "%d", (int)getpid());
	setenv("NOTIFY_SOCKET", path, 1);
	listen_at(path, strlen(path));
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsetenv("WATCHDOG_USEC");
		unsetenv("WATCHDOG_PID");
		if (cases[i].usec)
			setenv("WATCHDOG_USEC", cases[i].usec, 1);
		if (cases[i].pid)
			setenv("WATCHDOG_PID", strcmp(cases[i].pid, "self") ? cases[i].pid : self,
			       1);
		notify_init();
		assert_true(notify_watchdog_ns() == cases[i].ns);
		notify_release();
		assert_true(notify_watchdog_ns() == 0);
	}
	close(systemd);
}

/* What can't be sent is lost, and said; it does not hold up the server, nor end it. */
static void systemd_is_gone(void **state)
{
	(void)state;
	setenv("NOTIFY_SOCKET", path, 1);
	listen_at(path, strlen(path));
	notify_init();
	close(systemd);
	notify_send("READY=1");
	assert_logged("can't notify systemd: Connection refused");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(messages),
		CASE(no_systemd),
		CASE(watchdog),
		CASE(systemd_is_gone),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
