/* SPDX-License-Identifier: MIT */
/*
 * Tests of CONFIG rewrite (server/config/rewrite.h): what becomes of files as people write them,
 * which files stay as they were, and that the parser reads what was written.
 */
#include "server/config/rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/config/option_kinds.h"

#define TEXT_MAX 65536
#define RANDOM_FILES 300

static char dir[] = "/tmp/kvd-test-rewrite-XXXXXX";
static char path[64], link_path[64], gone_path[64];
static struct config config;
static bool set[OPTION_COUNT];
static struct config_errors errors;
static unsigned int changed;

static int group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/t.ini", dir);
	snprintf(link_path, sizeof(link_path), "%s/link", dir);
	snprintf(gone_path, sizeof(gone_path), "%s/gone", dir);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(link_path);
	/* Fails if a rewrite has left a file. */
	return rmdir(dir);
}

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	memset(set, 0, sizeof(set));
	return 0;
}

static void write_file(const char *text, size_t length)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, length, out), length);
	assert_int_equal(fclose(out), 0);
}

static void assert_file(const char *wanted)
{
	static char text[TEXT_MAX];
	FILE *in = fopen(path, "re");
	size_t length;

	assert_non_null(in);
	length = fread(text, 1, sizeof(text) - 1, in);
	fclose(in);
	text[length] = '\0';
	assert_string_equal(text, wanted);
}

/* Sets a live option. */
static void change(const char *assignment)
{
	assert_int_equal(config_set_live(&config, assignment, NULL, set), 0);
}

static int rewrite_at(const char *at)
{
	int err;

	config_errors_keep(&errors);
	err = config_rewrite(at, &config, set, &changed);
	config_errors_keep(NULL);
	return err;
}

/* The file becomes @wanted, and a second rewrite finds nothing to do. */
static void becomes(const char *text, const char *wanted)
{
	struct stat before, after;

	write_file(text, strlen(text));
	if (rewrite_at(path))
		fail_msg("%s: %s", text, errors.text);
	assert_true(changed > 0);
	assert_file(wanted);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(rewrite_at(path), 0);
	assert_int_equal(changed, 0);
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_ino == after.st_ino);
}

/* The file stays as it was, and the error is @wanted after the path. */
static void stays(const char *text, const char *wanted)
{
	char begin[600];

	write_file(text, strlen(text));
	assert_true(rewrite_at(path) < 0);
	snprintf(begin, sizeof(begin), "%s%s", path, wanted);
	if (strncmp(errors.text, begin, strlen(begin)) != 0)
		fail_msg("wanted '%s', got '%s'", begin, errors.text);
	assert_file(text);
}

static void in_place(void **state)
{
	(void)state;
	change("log.level=debug");
	becomes("[log]\nlevel = info\n", "[log]\nlevel = debug\n");
	becomes("# mine\n\n[log]\n# why\nlevel=info\nformat = json\n\n; end\n",
		"# mine\n\n[log]\n# why\nlevel = debug\nformat = json\n\n; end\n");
	becomes("[log]\nlevel: info", "[log]\nlevel = debug\n");
	becomes("[log]\nlevel = info ; quiet\n", "[log]\nlevel = debug ; quiet\n");
	becomes("[log]\nlevel =  info  \t; quiet; really\n",
		"[log]\nlevel = debug  \t; quiet; really\n");
	becomes("\xef\xbb\xbf[log]\nlevel = info\n", "\xef\xbb\xbf[log]\nlevel = debug\n");
}

static void crlf(void **state)
{
	(void)state;
	change("log.level=debug");
	change("server.drain_timeout=7s");
	becomes("[log]\r\nlevel = info ; x\r\n\r\n[memory]\r\nsize = 2g\r\n",
		"[log]\r\nlevel = debug ; x\r\n\r\n[memory]\r\nsize = 2g\r\n"
		"\r\n[server]\r\ndrain_timeout = 7s\r\n");
	/* The first line says how they end. */
	becomes("[log]\nlevel = info\r\nformat = json\r\n",
		"[log]\nlevel = debug\nformat = json\r\n\n[server]\ndrain_timeout = 7s\n");
}

static void added(void **state)
{
	(void)state;
	change("log.level=debug");
	becomes("", "[log]\nlevel = debug\n");
	becomes("# empty", "# empty\n\n[log]\nlevel = debug\n");
	becomes("[log]", "[log]\nlevel = debug\n");
	becomes("[log] ; here\n# level = info\n", "[log] ; here\nlevel = debug\n# level = info\n");
	becomes("[log]\nformat = json\n\n[memory]\nsize = 2g\n",
		"[log]\nformat = json\nlevel = debug\n\n[memory]\nsize = 2g\n");
	becomes("[log]\nfile = /a\nformat = json",
		"[log]\nfile = /a\nformat = json\nlevel = debug\n");
	change("log.format=json");
	change("server.spin_time=1ms");
	change("server.drain_timeout=7s");
	becomes("[memory]\nsize = 2g\n", "[memory]\nsize = 2g\n"
					 "\n[server]\nspin_time = 1ms\ndrain_timeout = 7s\n"
					 "\n[log]\nlevel = debug\nformat = json\n");
}

#define NETWORKS_3 "fd00:1111:2222:3333::/64,fd00:1111:2222:4444::/64,fd00:1111:2222:5555::/64"

static void lists(void **state)
{
	(void)state;
	change("rdma.networks=10.9.0.0/24");
	becomes("[rdma]\nnetworks = fd00::/8,\n  fd01::/16\n\tfd02::/16\n# c\nwindows = no\n",
		"[rdma]\nnetworks = 10.9.0.0/24\n# c\nwindows = no\n");
	/* Comments stay, each on a line of its own. */
	becomes("[rdma]\nnetworks = fd00::/8 ; one\n ; two\n fd01::/16 ; three\n\n fd02::/16\n",
		"[rdma]\n; one\nnetworks = 10.9.0.0/24\n ; two\n; three\n\n");
	setup(NULL);
	change("rdma.networks=" NETWORKS_3 ",fd00:1111:2222:6666::/64");
	becomes("[rdma]\nnetworks =\nwindows = no\n",
		"[rdma]\nnetworks = " NETWORKS_3 ",\n  fd00:1111:2222:6666::/64\nwindows = no\n");
	setup(NULL);
	change("rdma.networks=");
	becomes("[rdma]\nnetworks = fd00::/8 ; x\n", "[rdma]\n; x\nnetworks =\n");
}

/* A comment that no longer fits beside the value. */
static void long_lines(void **state)
{
	static char text[400], wanted[400];
	char file[150], comment[120];

	(void)state;
	memset(file, 'f', sizeof(file) - 1);
	file[sizeof(file) - 1] = '\0';
	memset(comment, 'c', sizeof(comment) - 1);
	comment[sizeof(comment) - 1] = '\0';
	snprintf(text, sizeof(text), "users.file=/%s", file);
	change(text);
	snprintf(text, sizeof(text), "[users]\nfile = /u ; %s\n", comment);
	snprintf(wanted, sizeof(wanted), "[users]\n; %s\nfile = /%s\n", comment, file);
	becomes(text, wanted);
}

/* Options that were not set stay as the file has them, whatever the server runs with. */
static void others_stay(void **state)
{
	(void)state;
	assert_int_equal(config_set(&config, "memory.size=64m"), 0);
	assert_int_equal(config_set(&config, "log.format=json"), 0);
	change("log.level=debug");
	becomes("[memory]\nsize = 2g\n[log]\nformat = text\n",
		"[memory]\nsize = 2g\n[log]\nformat = text\nlevel = debug\n");
	write_file("[log]\nlevel =  debug\n", 21);
	assert_int_equal(rewrite_at(path), 0);
	assert_int_equal(changed, 0);
	assert_file("[log]\nlevel =  debug\n");
}

static void bad_files(void **state)
{
	(void)state;
	change("log.level=debug");
	stays("[log]\nlevel = info\n[memory]\n[log]\n", ":4: section [log] is repeated");
	stays("[log]\nlevel = info\nlevel = info\n", ":3: log.level is repeated");
	stays("level = info\n", ":1: 'level' is in no section");
	stays("[log]\nfrob = 1\n", ":2: unknown option 'frob'");
	stays("[log]\n level = info\n", ":2: the line begins with a space");
	stays("[log]\nfrob = 1\nlevel = loud\nx\n",
	      ":2: unknown option 'frob' in [log]: kvd --help lists them (and there are more "
	      "errors)");
	write_file("[log]\nlevel = info\0\n", 20);
	assert_int_equal(rewrite_at(path), -EINVAL);
	assert_non_null(strstr(errors.text, ":2: the line has a zero byte"));
}

static void no_file(void **state)
{
	(void)state;
	change("log.level=debug");
	assert_int_equal(rewrite_at(gone_path), -ENOENT);
	assert_non_null(strstr(errors.text, "gone: cannot read: No such file"));
	assert_int_equal(rewrite_at("/dev/null"), -EINVAL);
	assert_string_equal(errors.text, "/dev/null: it is not a regular file of less than 4 MiB");
	assert_int_equal(rewrite_at(dir), -EINVAL);
}

/* A name to which none can be added stands for a folder that takes no file. */
static void no_right(void **state)
{
	char name[400], wanted[200];

	(void)state;
	change("log.level=debug");
	snprintf(name, sizeof(name), "%s/", dir);
	memset(name + strlen(name), 'n', 250);
	name[strlen(dir) + 251] = '\0';
	write_file("[log]\nlevel = info\n", 19);
	assert_int_equal(rename(path, name), 0);
	assert_int_equal(rewrite_at(name), -ENAMETOOLONG);
	snprintf(wanted, sizeof(wanted),
		 "cannot write a new file in its folder, %s: File name too long: let kvd's user "
		 "write there",
		 dir);
	assert_non_null(strstr(errors.text, wanted));
	assert_int_equal(rename(name, path), 0);
	assert_file("[log]\nlevel = info\n");
}

/* The link stays one, and the mode that of the file. */
static void links_and_modes(void **state)
{
	struct stat st;

	(void)state;
	change("log.level=debug");
	write_file("[log]\n", 6);
	assert_int_equal(chmod(path, 0604), 0);
	assert_int_equal(symlink("t.ini", link_path), 0);
	assert_int_equal(rewrite_at(link_path), 0);
	assert_file("[log]\nlevel = debug\n");
	assert_int_equal(lstat(link_path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0604);
	if (geteuid())
		return;
	assert_int_equal(chown(path, 4711, 4712), 0);
	config_init(&config);
	assert_int_equal(rewrite_at(path), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_uid == 4711 && st.st_gid == 4712);
	assert_int_equal(st.st_mode & 07777, 0604);
}

static uint32_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)random_state * n >> 32);
}

/*
 * Files of random lines, many of which the parser refuses: a rewrite either reports an error, and
 * the file is as it was; or the parser reads exactly what the file had, with the options that were
 * set (config_rewrite() checks that before it renames, so a wrong edit is an error that names the
 * option); and each line that is no part of those is still there, in its order.
 */
static void random_files(void **state)
{
	static const char *const lines[] = {
		"[log]\n",
		"[rdma]\n",
		"[server]\n",
		"level = info\n",
		"level=warn ; c\n",
		"format = json\r\n",
		"networks = 10.0.0.0/8,\n",
		"  fd00::/8 ; d\n",
		"\tfd01::/16\n",
		"# comment\n",
		"; [log]\n",
		"\n",
		"\r\n",
		"drain_timeout = 3s\n",
		" ; indented\n",
		"windows = no;x\n",
		"workers : 2\n",
		"level = info",
		"[log\n",
		"nonsense\n",
		"file = /a;b ;c\n",
		"   \n",
		"networks =\n",
	};
	static char text[TEXT_MAX], after[TEXT_MAX];
	unsigned int good = 0;

	(void)state;
	for (random_state = 1; random_state < RANDOM_FILES; random_state++) {
		const uint32_t seed = random_state;
		size_t length;
		FILE *in;

		setup(NULL);
		change("log.level=debug");
		change("rdma.networks=10.9.0.0/24");
		change("server.drain_timeout=7s");
		*text = '\0';
		for (uint32_t left = random_below(12); left; left--)
			strcat(text, lines[random_below(sizeof(lines) / sizeof(lines[0]))]);
		write_file(text, strlen(text));
		if (rewrite_at(path)) {
			assert_null(strstr(errors.text, "cannot be written"));
			assert_file(text);
		} else {
			good++;
			assert_int_equal(changed, 3);
			assert_int_equal(rewrite_at(path), 0);
			assert_int_equal(changed, 0);
			in = fopen(path, "re");
			assert_non_null(in);
			length = fread(after, 1, sizeof(after) - 1, in);
			fclose(in);
			after[length] = '\0';
			assert_true(!strstr(text, "# comment") == !strstr(after, "# comment"));
			assert_true(!strstr(text, "; c") == !strstr(after, "; c"));
			assert_true(!strstr(text, "windows = no;x") ==
				    !strstr(after, "windows = no;x"));
		}
		random_state = seed;
	}
	assert_true(good > 20);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(in_place),	       CASE(crlf),	   CASE(added),
		CASE(lists),	       CASE(long_lines),   CASE(others_stay),
		CASE(bad_files),       CASE(no_file),	   CASE(no_right),
		CASE(links_and_modes), CASE(random_files),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
