/* SPDX-License-Identifier: MIT */
/*
 * What kvd_open() says of a server that can't be reached: no socket, no listener, no permission, no
 * RDMA device, nobody who answers. Each has its status, and a text that names the place and what to
 * do. And which options it takes.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

struct option {
	const char *name;
	size_t offset;
	uint32_t lowest, highest, preset;
};

#define OPTION(field) #field, offsetof(struct kvd_options, field)

static const struct option numbers[] = {
	{ OPTION(timeout_ms), 1, 3600000, 2000 }, { OPTION(connect_timeout_ms), 1, 3600000, 5000 },
	{ OPTION(spin_us), 0, 1000000, 200 },	  { OPTION(get_tries), 1, 1000, 16 },
	{ OPTION(depth), 1, 1024, 64 },		  { OPTION(reconnect), 0, 1, 1 },
};

/* 0 if kvd_open() says that this value is not allowed, or, of one that is, finds no server. */
static int option_differs(const struct option *option, uint32_t value, bool allowed)
{
	struct kvd_options options, before;
	enum kvd_status status;
	struct kvd *db = NULL;
	char wanted[64];

	kvd_options_init(&options);
	memcpy((char *)&options + option->offset, &value, sizeof(value));
	before = options;
	status = kvd_open(&db, url, &options);
	snprintf(wanted, sizeof(wanted), "%s is %u: ", option->name, value);
	if (!db && !memcmp(&before, &options, sizeof(before)) &&
	    status == (allowed ? KVD_ERR_UNREACHABLE : KVD_ERR_INVALID) &&
	    !strstr(kvd_error(NULL), wanted) == allowed)
		return 0;
	fprintf(stderr, "%s %u: %s: %s\n", option->name, value, kvd_status_text(status),
		kvd_error(NULL));
	return 1;
}

static void ranges_of_options(void **state)
{
	const struct option *o;
	int failed = 0;

	(void)state;
	for (o = numbers; o < numbers + sizeof(numbers) / sizeof(numbers[0]); o++) {
		failed += option_differs(o, o->lowest, true);
		failed += option_differs(o, o->highest, true);
		failed += option_differs(o, o->highest + 1, false);
		failed += option_differs(o, UINT32_MAX, false);
		if (o->lowest)
			failed += option_differs(o, o->lowest - 1, false);
	}
	assert_int_equal(failed, 0);
}

static void defaults_of_options(void **state)
{
	struct kvd_options options;
	uint32_t value;
	size_t i;

	(void)state;
	memset(&options, 0xee, sizeof(options));
	kvd_options_init(&options);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		memcpy(&value, (char *)&options + numbers[i].offset, sizeof(value));
		assert_int_equal(value, numbers[i].preset);
	}
	assert_int_equal(options.cache_bytes, 32u << 20);
}

static void urls_that_are_none(void **state)
{
	static const char *const bad[] = {
		"",	    "softnic",	 "softnic://", "softnic://x", "rdma://",
		"rdma://h", "rdma://h:", "rdma://h:0", "tcp://h:1",   "rdma://h:65536"
	};
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		failed += open_differs(bad[i], KVD_ERR_INVALID, bad[i], "");
	assert_int_equal(failed, 0);
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

static void no_descriptor(void **state)
{
	const struct rlimit none = { 0, 0 };
	int status;
	pid_t pid;

	(void)state;
	make_socket();
	assert_int_equal(listen(listener, 1), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(setrlimit(RLIMIT_NOFILE, &none) ||
		      open_differs(url, KVD_ERR_NO_MEMORY, path, "Too many open files"));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A socket on which somebody listens, and takes no connection, or takes it and says nothing. */
static void nobody_answers(void **state)
{
	struct kvd_options options;
	struct kvd *db;

	(void)state;
	make_socket();
	assert_int_equal(listen(listener, 8), 0);
	kvd_options_init(&options);
	for (options.connect_timeout_ms = 1; options.connect_timeout_ms <= 50;
	     options.connect_timeout_ms += 49) {
		assert_int_equal(kvd_open(&db, url, &options), KVD_ERR_TIMEOUT);
		assert_null(db);
		assert_non_null(strstr(kvd_error(NULL), path));
		assert_non_null(strstr(kvd_error(NULL), "connect_timeout_ms"));
	}
}

/* What a peer that is no kvd does with each connection that it takes. */
static void *take(void *arg)
{
	const char *text = arg;
	char request[4096];
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return NULL;
	/* After the answer it waits for the end. */
	if (text && recv(fd, request, sizeof(request), 0) > 0 &&
	    send(fd, text, strlen(text), MSG_NOSIGNAL) > 0)
		while (recv(fd, request, sizeof(request), 0) > 0)
			;
	close(fd);
	return NULL;
}

static int open_at_a_stranger_differs(char *text, enum kvd_status want, const char *what)
{
	pthread_t stranger;
	int differs;

	make_socket();
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(pthread_create(&stranger, NULL, take, text), 0);
	differs = open_differs(url, want, path, what);
	shutdown(listener, SHUT_RDWR);
	assert_int_equal(pthread_join(stranger, NULL), 0);
	return differs;
}

static void it_closes_the_connection(void **state)
{
	(void)state;
	assert_int_equal(open_at_a_stranger_differs(NULL, KVD_ERR_DISCONNECTED, "closed"), 0);
}

static void it_is_not_kvd(void **state)
{
	static char text[] = "220 mail.example.org ESMTP\r\n";

	(void)state;
	assert_int_equal(open_at_a_stranger_differs(text, KVD_ERR_PROTOCOL,
						    "does not speak kvd's protocol"),
			 0);
}

/*
 * Opening a device over RDMA, which this host need not have: the linker leads the calls of the
 * library here (Makefile).
 */
static int verbs_error; /* 0: what there is decides */
static bool verbs_present;

int __real_verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
		      int timeout_ms);
int __wrap_verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
		      int timeout_ms);
int __wrap_verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
		      int timeout_ms)
{
	return verbs_error ? verbs_error : __real_verbs_open(dev, addr, role, timeout_ms);
}

bool __real_device_verbs_present(char *name);
bool __wrap_device_verbs_present(char *name);
bool __wrap_device_verbs_present(char *name)
{
	if (!verbs_error)
		return __real_device_verbs_present(name);
	if (verbs_present)
		strcpy(name, "rdma0");
	return verbs_present;
}

static void no_way_by_rdma(void **state)
{
	static const struct {
		int error;
		bool present;
		enum kvd_status want;
		const char *what, *remedy;
	} failures[] = {
		{ -ENODEV, false, KVD_ERR_DEVICE, "has no RDMA device", "use softnic:///PATH" },
		{ -ENODEV, true, KVD_ERR_DEVICE, "leads over no RDMA device", "`rdma link`" },
		{ -EHOSTUNREACH, true, KVD_ERR_UNREACHABLE, "No route to host", "`ping`" },
		{ -EHOSTUNREACH, false, KVD_ERR_UNREACHABLE, "No route to host", "`ping`" },
		{ -EADDRNOTAVAIL, true, KVD_ERR_UNREACHABLE, "Cannot assign", "`ping`" },
		{ -ETIMEDOUT, true, KVD_ERR_TIMEOUT, "timed out", "`ping`" },
		{ -EACCES, true, KVD_ERR_REFUSED, "Permission denied", "/dev/infiniband" },
		{ -EPERM, true, KVD_ERR_REFUSED, "not permitted", "/dev/infiniband" },
		{ -EMFILE, true, KVD_ERR_NO_MEMORY, "Too many open files", "`ulimit -a`" },
		{ -ENOMEM, true, KVD_ERR_NO_MEMORY, "Cannot allocate memory", "`ulimit -a`" },
	};
	static const char address[] = "rdma://10.9.8.7:7471";
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		verbs_error = failures[i].error;
		verbs_present = failures[i].present;
		failed += open_differs(address, failures[i].want, failures[i].what,
				       failures[i].remedy);
		failed += open_differs(address, failures[i].want, address, "RDMA");
	}
	verbs_error = 0;
	assert_int_equal(failed, 0);
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
		CASE(ranges_of_options),
		cmocka_unit_test(defaults_of_options),
		cmocka_unit_test(urls_that_are_none),
		CASE(nobody_answers),
		CASE(no_descriptor),
		CASE(it_closes_the_connection),
		CASE(it_is_not_kvd),
		CASE(no_socket),
		CASE(not_a_socket),
		CASE(no_listener),
		CASE(no_permission_for_the_socket),
		CASE(no_permission_for_its_folder),
		CASE(no_rdma_device),
		cmocka_unit_test(no_way_by_rdma),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
