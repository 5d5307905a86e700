/* SPDX-License-Identifier: MIT */
/*
 * The program that runs the conformance suite on one device, and prints a line for each case.
 *
 *	conformance_device [softnic|rdma|rdma+tcp|rdma+tls] [CASE...]
 *
 * KVD_TEST_DEVICE gives the device if the first argument does not. On RDMA, KVD_RDMA_ADDR is the
 * IP address of the RDMA device (unset: the first usable one). CASE is the beginning of a case's
 * name. KVD_CONFORMANCE_VERBOSE=1 shows the output of cases that pass, too. On softnic each case
 * runs twice: the second time with channel pairs on the connecting side, which have no locks. On
 * rdma+tcp and rdma+tls all cases run in the long form (KVD_TEST_LONG=1) or if they are named.
 *
 * Status: 0 if all passed, 1 if one failed, 77 if this host has no such device.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/log.h"
#include "tests/conformance/conformance.h"
#include "tests/support/form.h"

/* The longest case takes a few seconds; emulated and with a sanitizer many times that. */
#define CASE_SECONDS_MAX 400
#define EXIT_SKIP 77
#define DIR_TEMPLATE "/kvd-conformance-XXXXXX"
#define COPY_BYTES 4096

/*
 * The devices on which the short form runs a group. What comes after the set-up of a connection is
 * the same on all RDMA devices; over TCP, queue pairs get their rights and timers in other calls;
 * and TLS differs from TCP in the set-up alone.
 */
#define HARDWARE (DEVICE_RDMA | DEVICE_SOFTNIC)
#define OVER_TCP (HARDWARE | DEVICE_RDMA_TCP)

static const struct {
	const struct suite_case *cases;
	unsigned int short_form;
} groups[] = {
	{ data_cases, HARDWARE },   { mem_cases, HARDWARE },   { order_cases, HARDWARE },
	{ access_cases, OVER_TCP }, { mw_cases, HARDWARE },    { rnr_cases, OVER_TCP },
	{ cq_cases, HARDWARE },	    { cm_cases, ALL_DEVICES }, { state_cases, ALL_DEVICES },
	{ load_cases, HARDWARE },   { peer_cases, OVER_TCP },
};

struct totals {
	int passed, failed;
};

static void output_show(int fd)
{
	char bytes[COPY_BYTES];
	ssize_t len;

	fflush(stdout);
	lseek(fd, 0, SEEK_SET);
	while ((len = read(fd, bytes, sizeof(bytes))) > 0)
		if (write(STDOUT_FILENO, bytes, (size_t)len) != len)
			return;
}

static void dir_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* In a child, which inherits no device: this process opens none. */
static void case_child(const struct suite_case *c, int output)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	alarm(CASE_SECONDS_MAX);
	log_init(LOG_DEBUG, NULL);
	c->run();
	log_release();
	exit(EXIT_SUCCESS);
}

static bool case_run(const struct suite_case *c)
{
	int output = memfd_create("output", MFD_CLOEXEC);
	int64_t start_us = suite_now_us();
	const char *verbose = getenv("KVD_CONFORMANCE_VERBOSE");
	int status = 0;
	bool passed;
	pid_t pid;

	pid = fork();
	if (pid == 0)
		case_child(c, output);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	printf("%-4s  %-32s %-6s %6lld ms%s\n", passed ? "ok" : "FAIL", c->name,
	       suite.pairs ? "pairs" : "", (long long)(suite_now_us() - start_us) / 1000,
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " (hung)" :
	       WIFSIGNALED(status)				  ? " (crashed)" :
								    "");
	if (!passed || (verbose && *verbose))
		output_show(output);
	fflush(stdout);
	close(output);
	dir_empty(suite.dir);
	return passed;
}

static bool case_wanted(const struct suite_case *c, char **names)
{
	if (!(c->kinds & suite.kind) || (suite.pairs && (c->kinds & MANY_IDS)))
		return false;
	if (!*names)
		return true;
	for (; *names; names++)
		if (strncmp(c->name, *names, strlen(*names)) == 0)
			return true;
	return false;
}

static bool group_is_left_out(size_t g)
{
	return !(groups[g].short_form & suite.kind) && !long_form();
}

static void groups_run(char **names, struct totals *totals)
{
	for (size_t g = 0; g < array_len(groups); g++) {
		if (!*names && group_is_left_out(g))
			continue;
		for (const struct suite_case *c = groups[g].cases; c->name; c++) {
			if (!case_wanted(c, names))
				continue;
			if (case_run(c))
				totals->passed++;
			else
				totals->failed++;
		}
	}
}

static int suite_run(char **names)
{
	const char *tmp = getenv("TMPDIR");
	struct totals totals = { 0, 0 };
	char *dir;

	if (asprintf(&dir, "%s%s", tmp ? tmp : "/tmp", DIR_TEMPLATE) < 0 || !mkdtemp(dir)) {
		perror("conformance_device: no folder for sockets");
		return EXIT_FAILURE;
	}
	suite.dir = dir;
	groups_run(names, &totals);
	suite.pairs = suite.ops == &softnic_ops;
	if (suite.pairs)
		groups_run(names, &totals);
	rmdir(dir);
	free(dir);
	printf("%s: %d passed, %d failed\n", suite.ops->name, totals.passed, totals.failed);
	return totals.failed || !totals.passed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define PSK_TEMPLATE "/tmp/kvd-psk-XXXXXX"

static bool kind_set(const char *name)
{
	static const enum device_kind kinds[] = { DEVICE_RDMA, DEVICE_RDMA_TCP, DEVICE_RDMA_TLS,
						  DEVICE_SOFTNIC };

	for (size_t i = 0; name && i < array_len(kinds); i++) {
		suite.kind = kinds[i];
		suite.ops = device_ops_of(suite.kind);
		if (strcmp(name, suite.ops->name) == 0)
			return true;
	}
	return false;
}

/* A file with a key, for this process and its peers. */
static void psk_make(char *path)
{
	static const char line[] = "conformance:000102030405060708090a0b0c0d0e0f\n";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, line, sizeof(line) - 1) == sizeof(line) - 1);
	CHECK_OK(close(fd) || setenv(SUITE_PSK, path, 1) ? -EIO : 0);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : getenv("KVD_TEST_DEVICE");
	char device[IBV_SYSFS_NAME_MAX], psk[] = PSK_TEMPLATE;
	char *none = NULL;
	bool made;
	int status;

	suite.program = "/proc/self/exe";
	if (!kind_set(kind)) {
		fprintf(stderr, "usage: %s softnic|rdma|rdma+tcp|rdma+tls [CASE...]\n", argv[0]);
		return EXIT_FAILURE;
	}
	if (argc == 5 && strcmp(argv[2], "--peer") == 0)
		return peer_main(argv[3], argv[4]);
	if (device_kind_is_rdma(suite.kind) && !device_verbs_present(device)) {
		printf("skipped: this host has no RDMA device (tests/vm/run has one)\n");
		return EXIT_SKIP;
	}
	made = suite.kind == DEVICE_RDMA_TLS && !getenv(SUITE_PSK);
	if (made)
		psk_make(psk);
	status = suite_run(argc > 2 ? argv + 2 : &none);
	if (made)
		unlink(psk);
	return status;
}
