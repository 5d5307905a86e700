/* SPDX-License-Identifier: MIT */
/*
 * Tests of kvd's command line: what each option does, the exit status of each failure, and in which
 * order a server is started and ended. server/main.c is compiled here; each run is a child process,
 * in which the server is functions that write what was called.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "server/config/config.h"
#include "server/control/net.h"
#include "server/detach.h"
#include "server/fleet_admin.h"
#include "server/fleet_options.h"
#include "server/log_writer.h"
#include "server/notify.h"
#include "server/pidfile.h"
#include "server/server.h"
#include "tests/support/log_fixture.h"

static const char *fails; /* the step that fails, or NULL */
static int fails_with;

/* Where a child notes its steps, and what it has printed. */
static char steps[400], output[100000];
static int steps_fd;

static int step(const char *what)
{
	dprintf(steps_fd, "%s ", what);
	return fails && !strcmp(what, fails) ? fails_with : 0;
}

static void step_of(const char *what, const char *text)
{
	dprintf(steps_fd, "%s=%s ", what, text ? text : "none");
}

static int fake_config_read(struct config *config, const struct config_source *source)
{
	if (step("config"))
		return fails_with;
	return config_read(config, source);
}

static bool is_blocked(int number)
{
	sigset_t blocked;

	sigprocmask(SIG_SETMASK, NULL, &blocked);
	return sigismember(&blocked, number);
}

static bool is_ignored(int number)
{
	struct sigaction now;

	return !sigaction(number, NULL, &now) && now.sa_handler == SIG_IGN;
}

/* Threads inherit the signals that are blocked: so before there is one. */
static int fake_writer_start(void)
{
	if (!is_blocked(SIGTERM) || !is_blocked(SIGINT) || !is_blocked(SIGHUP) ||
	    !is_ignored(SIGPIPE) || !is_ignored(SIGXFSZ))
		step("signals!");
	return step("writer");
}

static int fake_pidfile_create(const char *path)
{
	step_of("pidfile", path);
	return step("pid");
}

static int fake_server_init(struct server *server)
{
	dprintf(steps_fd, "workers=%u ", server->config.server.workers);
	return server->source->count ? step("init") : step("init0");
}

#define config_read fake_config_read
#define log_writer_start fake_writer_start
#define log_writer_stop() ((void)step("-writer"))
#define pidfile_create fake_pidfile_create
#define pidfile_remove() ((void)step("-pid"))
#define notify_init() ((void)step("notify"))
#define notify_release() ((void)step("-notify"))
#define detach() step("detach")
#define server_init fake_server_init
#define server_run(server) ((void)(server), step("run"))
#define server_release(server) ((void)(server), (void)step("release"))
#define server_check(config) ((void)(config), step("store"))
#define fleet_options_check(config) ((void)(config), step("fleet"))
#define fleet_admin_init(config) ((void)(config), step("make"))
#define fleet_admin_adopt(config) ((void)(config), step("adopt"))
#define net_check(config, warn) ((void)(config), step((warn) ? "net" : "net!"))
#define main kvd_main
int kvd_main(int argc, char **argv);
#include "server/main.c"
#undef main

static size_t read_all(const char *path, char *text, size_t size)
{
	FILE *in = fopen(path, "r");
	size_t n = in ? fread(text, 1, size - 1, in) : 0;

	text[n] = '\0';
	if (in)
		fclose(in);
	return n;
}

/* Runs kvd with these arguments, of which a NULL is the end; returns its exit status. */
static int run_kvd(const char *const *arguments)
{
	char steps_path[100], out_path[100];
	char *argv[16] = { (char *)"kvd" };
	int argc = 1, status, fd;
	pid_t pid;

	for (; arguments[argc - 1]; argc++)
		argv[argc] = (char *)arguments[argc - 1];
	snprintf(steps_path, sizeof(steps_path), "%s/steps", test_log_dir);
	snprintf(out_path, sizeof(out_path), "%s/out", test_log_dir);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		steps_fd = open(steps_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
		fd = open(out_path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		status = kvd_main(argc, argv);
		fflush(NULL);
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	read_all(steps_path, steps, sizeof(steps));
	read_all(out_path, output, sizeof(output));
	unlink(steps_path);
	unlink(out_path);
	return WEXITSTATUS(status);
}

#define RUN(...) run_kvd((const char *const[]){ __VA_ARGS__, NULL })

static int setup(void **state)
{
	(void)state;
	fails = NULL;
	fails_with = -EIO;
	return 0;
}

static void assert_printed(const char *text)
{
	if (!strstr(output, text))
		fail_msg("'%s' is not in: %s", text, output);
}

static void usage_of_kvd(void **state)
{
	(void)state;
	assert_int_equal(RUN("--nonsense"), EX_USAGE);
	assert_printed("Try kvd --help.");
	assert_int_equal(RUN("-o"), EX_USAGE);
	assert_int_equal(RUN("file.ini"), EX_USAGE);
	assert_printed("kvd: unexpected argument 'file.ini'");
	assert_string_equal(steps, "");
	assert_int_equal(RUN("--version"), EX_OK);
	assert_string_equal(output, "kvd " KVD_SERVER_VERSION "\n");
	assert_int_equal(RUN("-h"), EX_OK);
	assert_printed("Usage: kvd");
	assert_printed("server.workers=");
	assert_printed("connections_total ");
	assert_string_equal(steps, "");
}

/* The file first, then assignments in their order. */
static void configuration(void **state)
{
	char path[100];
	FILE *out;

	(void)state;
	snprintf(path, sizeof(path), "%s/kvd.ini", test_log_dir);
	out = fopen(path, "w");
	fputs("[server]\nworkers = 3\nspin_time = 7us\n", out);
	fclose(out);
	assert_int_equal(RUN("-c", path, "-o", "server.workers=4", "--option", "server.workers=5",
			     "--print-config"),
			 EX_OK);
	assert_printed("\nworkers = 5\n");
	assert_printed("\nspin_time = 7us\n");
	assert_string_equal(steps, "config ");
	unlink(path);
	assert_int_equal(RUN("--config", path, "--print-config"), EX_CONFIG);
	assert_int_equal(RUN("-o", "server.workers=many"), EX_CONFIG);
	assert_string_equal(steps, "config ");
}

/* What may be better at the next try is no error of the configuration. */
static void temporary_errors(void **state)
{
	static const struct {
		int err, status;
	} cases[] = { { -ENOMEM, EXIT_FAILURE },
		      { -EMFILE, EXIT_FAILURE },
		      { -ENFILE, EXIT_FAILURE },
		      { -EINVAL, EX_CONFIG },
		      { -EACCES, EX_CONFIG } };

	(void)state;
	fails = "config";
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fails_with = cases[i].err;
		assert_int_equal(RUN(NULL), cases[i].status);
		assert_string_equal(steps, "config ");
	}
}

/* All that would stop a start is looked for, whatever was found before. */
static void checks(void **state)
{
	static const char *const each[] = { "store", "fleet", "net" };
	char assignment[200], path[100];

	(void)state;
	assert_int_equal(RUN("--check-config"), EX_OK);
	assert_printed("the defaults and -o, without a file: ok\n");
	assert_string_equal(steps, "config store fleet net ");
	for (unsigned int i = 0; i < 3; i++) {
		fails = each[i];
		assert_int_equal(RUN("--check-config"), EX_CONFIG);
		assert_string_equal(steps, "config store fleet net ");
	}
	fails = NULL;
	/* The log's file: a folder, in no folder, new, there. */
	snprintf(assignment, sizeof(assignment), "log.file=%s", test_log_dir);
	assert_int_equal(RUN("--check-config", "-o", assignment), EX_CONFIG);
	assert_printed("can't open it: Is a directory");
	assert_string_equal(steps, "config store fleet net ");
	snprintf(assignment, sizeof(assignment), "log.file=%s/no/kvd.log", test_log_dir);
	assert_int_equal(RUN("--check-config", "-o", assignment), EX_CONFIG);
	assert_printed("can't open it: No such file or directory");
	snprintf(path, sizeof(path), "%s/kvd.log", test_log_dir);
	snprintf(assignment, sizeof(assignment), "log.file=%s", path);
	assert_int_equal(RUN("--check-config", "-o", assignment), EX_OK);
	assert_int_equal(access(path, F_OK), -1);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(RUN("--check-config", "-o", assignment), EX_OK);
	unlink(path);
}

/* What was begun is ended in reverse, whatever fails. */
static void serves(void **state)
{
	static const struct {
		const char *fails, *steps;
	} cases[] = {
		{ NULL, "config writer pidfile=/p pid notify workers=2 init run release "
			"-notify -pid -writer " },
		{ "run", "config writer pidfile=/p pid notify workers=2 init run release "
			 "-notify -pid -writer " },
		{ "init", "config writer pidfile=/p pid notify workers=2 init "
			  "-notify -pid -writer " },
		{ "pid", "config writer pidfile=/p pid -writer " },
		{ "writer", "config writer " },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fails = cases[i].fails;
		assert_int_equal(RUN("-o", "server.workers=2", "--pidfile", "/p"),
				 fails ? EXIT_FAILURE : EXIT_SUCCESS);
		assert_string_equal(steps, cases[i].steps);
	}
	assert_int_equal(RUN("-o", "server.workers=2", "-o", "log.file=/no/such/folder/log"),
			 EXIT_FAILURE);
	assert_printed("kvd: log.file = /no/such/folder/log: can't open it");
	assert_string_equal(steps, "config ");
}

/* -d: the process that goes on makes its threads and its pid file by itself. */
static void detaches(void **state)
{
	(void)state;
	assert_int_equal(RUN("-d", "-o", "server.workers=2"), EXIT_SUCCESS);
	assert_string_equal(steps, "config detach writer pidfile=none pid notify workers=2 init "
				   "run release -notify -pid -writer ");
	fails = "detach";
	assert_int_equal(RUN("--daemon", "-o", "server.workers=2"), EXIT_FAILURE);
	assert_string_equal(steps, "config detach ");
}

/* The status of each is kvd's, and no server starts. */
static void fleets(void **state)
{
	(void)state;
	assert_int_equal(RUN("--fleet-init"), EX_OK);
	assert_string_equal(steps, "config make ");
	assert_int_equal(RUN("--fleet-adopt"), EX_OK);
	assert_string_equal(steps, "config adopt ");
	fails = "make";
	fails_with = EXIT_FAILURE;
	assert_int_equal(RUN("--fleet-init"), EXIT_FAILURE);
	fails = "adopt";
	fails_with = EX_CONFIG;
	assert_int_equal(RUN("--fleet-adopt"), EX_CONFIG);
	fails = "config";
	fails_with = -EINVAL;
	assert_int_equal(RUN("--fleet-init"), EX_CONFIG);
	assert_string_equal(steps, "config ");
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(usage_of_kvd), CASE(configuration), CASE(temporary_errors), CASE(checks),
		CASE(serves),	    CASE(detaches),	 CASE(fleets),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
