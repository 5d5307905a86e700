/* SPDX-License-Identifier: MIT */
/*
 * What kvd_open() says of a server that can't be reached: no socket, no listener, no permission, no
 * RDMA device, nobody who answers. Each has its status, and a text that names the place and what to
 * do. And which options it takes; and that no memory stays of what fails.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
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
#include "client/libkvd/connection.h"
#include "client/libkvd/shared.h"
#include "common/rdma/device.h"

#define USER_NOBODY 65534

static char folder[] = "/tmp/test_client_open.XXXXXX";
static char path[64], url[96];
static int listener;

static atomic_int pieces; /* of memory that the library has of the test's functions */

static void *count_alloc(void *user, size_t bytes)
{
	void *memory = malloc(bytes);

	(void)user;
	pieces += memory != NULL;
	return memory;
}

static void *count_realloc(void *user, void *memory, size_t bytes)
{
	(void)user;
	pieces += !memory;
	return realloc(memory, bytes);
}

static void count_free(void *user, void *memory)
{
	(void)user;
	pieces -= memory != NULL;
	free(memory);
}

static int group_setup(void **state)
{
	const struct kvd_allocator counting = { count_alloc, count_realloc, count_free, NULL };

	(void)state;
	return kvd_set_allocator(&counting);
}

static int nothing_stays(void **state)
{
	(void)state;
	assert_int_equal(pieces, 0);
	return 0;
}

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
	return rmdir(folder) || nothing_stays(state);
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
		"rdma://?", "rdma://h:", "rdma://h:0", "tcp://h:1",   "rdma://h:65536"
	};
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		failed += open_differs(bad[i], KVD_ERR_INVALID, bad[i], "");
	assert_int_equal(failed, 0);
}

/* Opens in a process to which file permissions apply. */
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

/* A device that can be opened, and what fails then: an errno each. */
static struct {
	bool present;
	struct device dev;
	struct ibv_pd pd;
	struct ibv_device_attr attr;
	int query, alloc_pd, create_channel_pair;
	unsigned int opens, closes;
} rdma;

static void rdma_close(struct device *dev)
{
	(void)dev;
	rdma.closes++;
}

static int rdma_query(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port)
{
	(void)dev;
	*attr = rdma.attr;
	*port = (struct ibv_port_attr){ .max_msg_sz = 1u << 30 };
	return rdma.query;
}

static int rdma_alloc_pd(struct device *dev, struct ibv_pd **pd)
{
	(void)dev;
	*pd = &rdma.pd;
	return rdma.alloc_pd;
}

static void rdma_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
}

static int rdma_create_channel_pair(struct device *dev, struct ibv_comp_channel **comp,
				    struct cm_channel **cm)
{
	(void)dev, (void)comp, (void)cm;
	return rdma.create_channel_pair;
}

/* There are none. */
static void no_id(struct cm_id *id)
{
	assert_null(id);
}

static void no_cm_channel(struct cm_channel *channel)
{
	assert_null(channel);
}

static void no_cq(struct ibv_cq *cq)
{
	assert_null(cq);
}

static void no_comp_channel(struct ibv_comp_channel *channel)
{
	assert_null(channel);
}

static const struct device_ops rdma_ops = {
	.close = rdma_close,
	.query = rdma_query,
	.alloc_pd = rdma_alloc_pd,
	.dealloc_pd = rdma_dealloc_pd,
	.create_channel_pair = rdma_create_channel_pair,
	.destroy_id = no_id,
	.destroy_cm_channel = no_cm_channel,
	.destroy_cq = no_cq,
	.destroy_comp_channel = no_comp_channel,
};

static int rdma_setup(void **state)
{
	(void)state;
	memset(&rdma, 0, sizeof(rdma));
	rdma.present = true;
	rdma.dev = (struct device){ .ops = &rdma_ops, .kind = DEVICE_RDMA };
	strcpy(rdma.dev.name, "rdma7");
	rdma.attr.max_sge_rd = 16;
	rdma.attr.max_mr_size = UINT64_MAX;
	return 0;
}

static int rdma_teardown(void **state)
{
	(void)state;
	rdma.present = false;
	return rdma.closes != rdma.opens || nothing_stays(state);
}

static const char rdma_url[] = "rdma://10.9.8.7:7471";

/* Each step of opening a device; nothing of it is left open. */
static void a_device_that_fails(void **state)
{
	static const struct {
		int *error, value;
		enum kvd_status want;
		const char *what;
	} failures[] = {
		{ &rdma.query, -EIO, KVD_ERR_DEVICE, "can't be queried: Input/output" },
		{ &rdma.query, -ENOMEM, KVD_ERR_NO_MEMORY, "can't be queried" },
		{ &rdma.alloc_pd, -EIO, KVD_ERR_DEVICE, "protection domain: Input/output" },
		{ &rdma.alloc_pd, -ENOMEM, KVD_ERR_NO_MEMORY, "protection domain" },
		{ &rdma.create_channel_pair, -EIO, KVD_ERR_DEVICE, "can't set up a queue pair" },
		{ &rdma.create_channel_pair, -EMFILE, KVD_ERR_NO_MEMORY, "Too many open files" },
	};
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		*failures[i].error = failures[i].value;
		failed += open_differs(rdma_url, failures[i].want, "device rdma7",
				       failures[i].what);
		assert_int_equal(rdma.opens, i + 1);
		assert_int_equal(rdma.closes, i + 1);
		*failures[i].error = 0;
	}
	assert_int_equal(failed, 0);
}

static struct shared_device *hold_device(void)
{
	struct shared_failure failure;
	struct shared_device *held;
	struct device_addr addr;
	char reason[160];

	assert_int_equal(device_addr_parse(&addr, rdma_url, reason, sizeof(reason)), 0);
	assert_int_equal(shared_device_get(&held, rdma_url, &addr, 1000, &failure), 0);
	return held;
}

/* What failed on the device of earlier handles is tried on another, once; a shortage is not. */
static void a_device_that_others_have(void **state)
{
	struct shared_device *held = hold_device();

	(void)state;
	rdma.create_channel_pair = -EMFILE;
	assert_int_equal(open_differs(rdma_url, KVD_ERR_NO_MEMORY, "rdma7", "queue pair"), 0);
	assert_int_equal(rdma.opens, 1);
	rdma.create_channel_pair = -EIO;
	assert_int_equal(open_differs(rdma_url, KVD_ERR_DEVICE, "rdma7", "queue pair"), 0);
	assert_int_equal(rdma.opens, 2);
	shared_device_put(held);
}

/* What the device says of itself bounds READs and registrations. */
static void what_a_device_can_do(void **state)
{
	struct shared_device *held;
	int sges;

	(void)state;
	for (sges = 1; sges <= 3; sges++) {
		rdma.attr.max_sge_rd = sges;
		rdma.attr.max_mr_size = 1000000u * (unsigned int)sges;
		held = hold_device();
		assert_int_equal(held->read_sges_max, sges == 1 ? 1 : READ_SGES_MAX);
		assert_int_equal(held->bounces.mr_max, 1000000 * sges);
		shared_device_put(held);
	}
	rdma.attr.max_mr_size = UINT64_MAX;
	held = hold_device();
	assert_true(held->bounces.mr_max == SIZE_MAX);
	shared_device_put(held);
}

static char lines[2048]; /* that were logged, each with its level before it */

static void note_line(void *user, enum kvd_log_level level, const char *text)
{
	size_t used = strlen(lines);

	assert_ptr_equal(user, lines);
	snprintf(lines + used, sizeof(lines) - used, "%d %s\n", (int)level, text);
}

/* One line says that a server could not be reached: the text of kvd_error(). */
static void what_is_logged(void **state)
{
	char wanted[1024];

	(void)state;
	lines[0] = '\0';
	assert_int_equal(kvd_set_log(KVD_LOG_INFO, note_line, lines), KVD_OK);
	make_socket();
	assert_int_equal(open_differs(url, KVD_ERR_UNREACHABLE, path, "nobody listens"), 0);
	kvd_set_log(KVD_LOG_OFF, NULL, NULL);
	snprintf(wanted, sizeof(wanted), "2 %s\n", kvd_error(NULL));
	assert_string_equal(lines, wanted);
}
static bool verbs_present;

int __real_verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
		      int timeout_ms);
int __wrap_verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
		      int timeout_ms);
int __wrap_verbs_open(struct device **dev, const struct device_addr *addr, enum device_role role,
		      int timeout_ms)
{
	if (rdma.present) {
		rdma.opens++;
		*dev = &rdma.dev;
		return 0;
	}
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
		{ -ENODEV, true, KVD_ERR_DEVICE, "uses no RDMA device", "`rdma link`" },
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

/* Credentials that can't be used, then some that can, and no device of this host leads there. */
static void credentials_by_tls(void **state)
{
	static const struct {
		const char *ca, *certificate, *key, *psk, *what;
	} each[] = {
		{ "/nowhere/ca.pem", "", "", "", "the CA certificates /nowhere/ca.pem" },
		{ "", "/nowhere/c.pem", "", "", "its private key is missing" },
		{ "", "", "/nowhere/c.key", "", "a certificate for it is missing" },
		{ "", "/nowhere/c.pem", "/nowhere/c.key", "", "the certificate /nowhere/c.pem" },
		{ "", "", "", "/nowhere/psk", "the file of keys /nowhere/psk" },
		{ "", "", "", "/dev/null", "it is not a regular file" },
	};
	static const char tls_url[] = "rdma+tls://127.0.0.1:1";
	struct kvd_options options;
	struct kvd *db;
	int before = dup(0), after;

	(void)state;
	close(before);
	kvd_options_init(&options);
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		options.tls_ca = each[i].ca;
		options.tls_certificate = each[i].certificate;
		options.tls_key = each[i].key;
		options.tls_psk = each[i].psk;
		assert_int_equal(kvd_open(&db, "rdma+tls://127.0.0.1:1", &options),
				 KVD_ERR_INVALID);
		assert_null(db);
		assert_non_null(strstr(kvd_error(NULL), each[i].what));
	}
	options.tls_psk = "";
	assert_int_not_equal(kvd_open(&db, tls_url, &options), KVD_OK);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
}

/* What a user set is taken before any socket is looked for. */
static void the_url_of_the_environment(void **state)
{
	static const char set[] = "rdma://10.9.8.7:7471";
	char buffer[KVD_URL_MAX];

	(void)state;
	assert_int_equal(setenv("KVD_URL", set, 1), 0);
	assert_string_equal(kvd_default_url(buffer), set);
	assert_string_equal(kvd_default_url(NULL), set);
	assert_int_equal(setenv("KVD_URL", "", 1), 0);
	assert_memory_equal(kvd_default_url(buffer), "softnic:///", 11);
	unsetenv("KVD_URL");
	assert_memory_equal(kvd_default_url(buffer), "softnic:///", 11);
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
		cmocka_unit_test_teardown(no_way_by_rdma, nothing_stays),
		cmocka_unit_test_teardown(credentials_by_tls, nothing_stays),
		cmocka_unit_test_setup_teardown(a_device_that_fails, rdma_setup, rdma_teardown),
		cmocka_unit_test_setup_teardown(a_device_that_others_have, rdma_setup,
						rdma_teardown),
		cmocka_unit_test_setup_teardown(what_a_device_can_do, rdma_setup, rdma_teardown),
		CASE(what_is_logged),
		cmocka_unit_test(the_url_of_the_environment),
	};

	return cmocka_run_group_tests(tests, group_setup, nothing_stays);
}
