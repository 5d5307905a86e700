/* SPDX-License-Identifier: MIT */
/*
 * Tests of the addresses that a server listens at: what the configuration makes of them, how they
 * are checked without changing anything, what is said of those that can't be used, and the folder
 * of the Unix socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/default_socket.h"
#include "common/util/log.h"
#include "server/control/socket_folder.h"
#include "tests/support/log_fixture.h"

static bool present; /* an RDMA device */

static bool fake_present(char *name)
{
	(void)name;
	return present;
}

#define device_verbs_present fake_present
#include "server/control/nic_address.c"

#define OTHER_UID 61234

static struct config config;
static char folder[64], path[80]; /* short enough for a socket */

/* softnic's socket */
static void listen_at(const char *socket)
{
	snprintf(config.server.listen, sizeof(config.server.listen), "softnic://%s", socket);
}

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	snprintf(folder, sizeof(folder), "%s/run", test_log_dir);
	assert_int_equal(mkdir(folder, 0755), 0);
	snprintf(path, sizeof(path), "%s/kvd.sock", folder);
	listen_at(path);
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	unlink(path);
	return rmdir(folder);
}

/* The only address that is configured. */
static struct device_addr only_address(void)
{
	struct nic_addresses list;

	nic_addresses(&list, &config);
	assert_int_equal(list.count, 1);
	return list.addr[0];
}

static struct device_addr address_of(const char *url)
{
	strcpy(config.server.listen, url);
	return only_address();
}

/* The options of RDMA are of the addresses on RDMA devices; auto sets nothing. */
static void links(void **state)
{
	struct device_addr addr = address_of("rdma://");

	(void)state;
	assert_int_equal(addr.link.set, 0);
	config.rdma.gid_index = 0;
	config.rdma.max_rd_atomic = 254;
	addr = address_of("rdma+tcp://");
	assert_int_equal(addr.link.set, 1u << LINK_GID_INDEX | 1u << LINK_MAX_RD_ATOMIC);
	assert_int_equal(link_or(&addr.link, LINK_GID_INDEX, 9), 0);
	assert_int_equal(link_or(&addr.link, LINK_MAX_RD_ATOMIC, 9), 254);
	assert_int_equal(address_of("softnic://").link.set, 0);
}

static void addresses(void **state)
{
	static const struct {
		enum device_kind kind;
		const char *host, *path;
		uint16_t port;
	} expected[] = {
		{ DEVICE_RDMA, "10.9.0.1", "", 7471 }, { DEVICE_RDMA, "fd00::1", "", 1 },
		{ DEVICE_RDMA_TCP, "auto", "", 7474 }, { DEVICE_RDMA_TLS, "10.9.0.2", "", 7473 },
		{ DEVICE_SOFTNIC, "", "/run/one", 0 }, { DEVICE_SOFTNIC, "", "/run/two", 0 },
	};
	struct nic_addresses list;
	struct device_addr addr;

	(void)state;
	strcpy(config.server.listen, "rdma://10.9.0.1,rdma://[fd00::1]:1,rdma+tcp://:7474,"
				     "rdma+tls://10.9.0.2,softnic:///run/one,softnic:///run/two");
	strcpy(config.tls.ca, "ca.pem");
	strcpy(config.tls.certificate, "c.pem");
	strcpy(config.tls.key, "c.key");
	strcpy(config.tls.psk, "keys");
	config.tls.require_identity = true;
	config.softnic.socket_mode = 0640;
	nic_addresses(&list, &config);
	assert_string_equal(list.why, "the configuration asks for it");
	assert_int_equal(list.count, 6);
	for (unsigned int i = 0; i < 6; i++) {
		assert_int_equal(list.addr[i].kind, expected[i].kind);
		assert_string_equal(list.addr[i].host, expected[i].host);
		assert_int_equal(list.addr[i].port, expected[i].port);
		assert_string_equal(list.addr[i].path, expected[i].path);
		assert_int_equal(list.addr[i].mode, i >= 4 ? 0640 : 0);
		assert_false(nic_address_default(&list.addr[i]));
	}
	addr = list.addr[3];
	assert_string_equal(addr.tls.ca, "ca.pem");
	assert_string_equal(addr.tls.certificate, "c.pem");
	assert_string_equal(addr.tls.key, "c.key");
	assert_string_equal(addr.tls.psk, "keys");
	assert_true(addr.tls.peer_certificate);
	/* As many as may be configured. */
	strcpy(config.server.listen, "rdma://:1");
	for (unsigned int i = 2; i <= LISTEN_MAX; i++) {
		char url[32];

		snprintf(url, sizeof(url), ",rdma://:%u", i);
		strcat(config.server.listen, url);
	}
	nic_addresses(&list, &config);
	assert_int_equal(list.count, LISTEN_MAX);
	assert_int_equal(list.addr[LISTEN_MAX - 1].port, LISTEN_MAX);
}

/* auto is what the host has; the default socket is the same one by its path. */
static void defaults(void **state)
{
	char automatic[DEVICE_PATH_MAX], url[DEVICE_URL_MAX];
	struct device_addr addr;

	(void)state;
	default_socket_serve(automatic);
	addr = address_of("softnic://");
	assert_string_equal(addr.path, automatic);
	assert_true(nic_address_default(&addr));
	snprintf(url, sizeof(url), "softnic://%s", automatic);
	addr = address_of(url);
	assert_true(nic_address_default(&addr));
	addr = address_of("auto");
	if (addr.kind == DEVICE_SOFTNIC) { /* nic_choose() looks at the host */
		assert_string_equal(addr.path, automatic);
		assert_int_equal(addr.mode, config.softnic.socket_mode);
		nic_address_error(&config, &addr, -EACCES);
		assert_logged("server.listen = auto, softnic:///");
	} else {
		assert_int_equal(addr.kind, DEVICE_RDMA);
		assert_string_equal(addr.host, "auto");
		assert_int_equal(addr.port, 7471);
	}
}

/* Each error has its own remedy, with the URL that it is about. */
static void errors(void **state)
{
	static const struct {
		const char *url; /* NULL: softnic at path */
		int err;
		const char *text;
	} cases[] = {
		{ NULL, -ENOENT, "the parent directory does not exist" },
		{ NULL, -EPERM, "its folder is not this user's" },
		{ NULL, -EACCES, "this user may not create it (Permission denied)" },
		{ NULL, -EADDRINUSE, "is in use: stop the kvd that listens there" },
		{ NULL, -ENOTSOCK, "a file that is not a socket is there: remove it" },
		{ NULL, -EMFILE, "can't listen there: Too many open files: raise" },
		{ NULL, -EIO, "can't listen there: Input/output error" },
		{ "rdma://", -ENODEV, "rdma://:7471: no RDMA device of this host can be used" },
		{ "rdma://10.9.0.1", -EADDRINUSE, "rdma://10.9.0.1:7471 is in use" },
		{ "rdma://10.9.0.1", -EADDRNOTAVAIL,
		  "rdma://10.9.0.1:7471 is not an address of this host" },
		{ "rdma://0.0.0.0:1", -EINVAL, "rdma://0.0.0.0:1 means every RDMA device" },
		{ "rdma://", -ENOENT, "can't use RDMA connection management: No such file" },
		{ "rdma://", -EACCES, "can't use RDMA connection management: Permission" },
		{ "rdma://", -EIO, "can't listen there: Input/output error; set another" },
		{ "rdma+tcp://", -ENODEV, "no RDMA device of this host has an active port" },
		{ "rdma+tcp://", -EADDRINUSE, "rdma+tcp://:7472 is in use" },
		{ "rdma+tcp://[fd00::1]", -EADDRNOTAVAIL,
		  "rdma+tcp://[fd00::1]:7472 is not an address of this host" },
		{ "rdma+tcp://:1", -EACCES,
		  "rdma+tcp://:1: can't listen there: Permission denied; set another" },
		{ "rdma+tls://", -ENODEV,
		  "rdma+tls://:7473: no RDMA device of this host has an active port" },
		{ "rdma+tls://", -EADDRINUSE, "rdma+tls://:7473 is in use" },
		{ "rdma+tls://", -EKEYREJECTED,
		  "the line above says which file of [tls] can't be used" },
	};
	static const char *const ways[] = { "rdma://", "rdma+tcp://", "rdma+tls://" };
	struct device_addr addr;
	char text[128];

	(void)state;
	present = false;
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(test_log_begin(), 0);
		addr = address_of(ways[i]);
		nic_address_error(&config, &addr, -ENODEV);
		snprintf(text, sizeof(text), "server.listen = %s:%u: this host has no RDMA device",
			 ways[i], addr.port);
		assert_logged(text);
		assert_int_equal(test_log_lines(), 1);
	}
	present = true;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(test_log_begin(), 0);
		if (!cases[i].url)
			listen_at(path);
		addr = cases[i].url ? address_of(cases[i].url) : only_address();
		nic_address_error(&config, &addr, cases[i].err);
		assert_logged(cases[i].text);
		assert_int_equal(test_log_lines(), 1);
		snprintf(text, sizeof(text), "server.listen = softnic://%s", path);
		assert_logged(cases[i].url ? "server.listen = rdma" : text);
	}
}

static int check(bool warn)
{
	const struct device_addr addr = only_address();

	assert_int_equal(test_log_begin(), 0);
	return nic_address_check(&config, &addr, warn);
}

static int bound_socket(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	return fd;
}

/* What is at the path may be a server that runs, one that died, or another file. */
static void what_is_there(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(check(true), 0);
	assert_int_equal(test_log_lines(), 0);
	fd = bound_socket();
	assert_int_equal(check(true), 0);
	assert_int_equal(test_log_lines(), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(check(false), 0);
	assert_int_equal(test_log_lines(), 0);
	assert_int_equal(check(true), 0);
	assert_logged("is in use: while that kvd runs, no other can start with it");
	close(fd);
	assert_int_equal(check(true), 0);
	assert_int_equal(test_log_lines(), 0);
	/* The path was checked and not changed. */
	assert_int_equal(unlink(path), 0);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	close(fd);
	assert_int_equal(check(true), -ENOTSOCK);
	assert_logged("a file that is not a socket is there");
	assert_int_equal(access(path, F_OK), 0);
}

/* The folder may be missing, but not the one that it would be made in. */
static void what_it_is_in(void **state)
{
	char socket[DEVICE_PATH_MAX];

	(void)state;
	snprintf(socket, sizeof(socket), "%s/new/kvd.sock", folder);
	listen_at(socket);
	assert_int_equal(check(true), 0);
	assert_int_equal(test_log_lines(), 0);
	snprintf(socket, sizeof(socket), "%s/no/new/kvd.sock", folder);
	listen_at(socket);
	assert_int_equal(check(true), -ENOENT);
	assert_logged("the parent directory does not exist");
	close(open(path, O_CREAT | O_WRONLY, 0644));
	snprintf(socket, sizeof(socket), "%s/kvd.sock", path);
	listen_at(socket);
	assert_int_equal(check(true), -ENOTDIR);
	assert_logged("Not a directory");
}

/* A user who may not write there. */
static void not_allowed(void **state)
{
	const struct device_addr addr = only_address();
	uid_t before = geteuid();

	(void)state;
	if (before) {
		chmod(folder, 0555);
		assert_int_equal(check(true), -EACCES);
		chmod(folder, 0755);
		return;
	}
	chmod(test_log_dir, 0755);
	assert_int_equal(test_log_begin(), 0);
	assert_int_equal(seteuid(OTHER_UID), 0);
	assert_int_equal(socket_folder_check(path, false), -EACCES);
	assert_int_equal(nic_address_check(&config, &addr, true), -EACCES);
	assert_int_equal(seteuid(before), 0);
	assert_logged("this user may not create it");
}

static unsigned int mode_of(const char *of)
{
	struct stat st;

	assert_int_equal(stat(of, &st), 0);
	return st.st_mode & 0777;
}

/* The server's own folder is its user's alone; another is for all who may connect. */
static void makes_the_folder(void **state)
{
	mode_t mask = umask(022);
	struct socket_folder made;
	char made_path[80], socket[DEVICE_PATH_MAX];

	(void)state;
	snprintf(made_path, sizeof(made_path), "%s/new", folder);
	snprintf(socket, sizeof(socket), "%s/kvd.sock", made_path);
	for (unsigned int is_default = 0; is_default < 2; is_default++) {
		assert_int_equal(socket_folder_make(&made, socket, is_default), 0);
		assert_int_equal(mode_of(made_path), is_default ? 0700 : 0755);
		assert_true(made.made);
		/* Only the call that made the folder removes it. */
		assert_int_equal(
			socket_folder_make(&(struct socket_folder){ 0 }, socket, is_default), 0);
		socket_folder_release(&made);
		assert_int_equal(access(made_path, F_OK), -1);
		socket_folder_release(&made);
	}
	assert_int_equal(mkdir(made_path, 0755), 0);
	assert_int_equal(socket_folder_make(&made, socket, false), 0);
	assert_false(made.made);
	socket_folder_release(&made);
	assert_int_equal(access(made_path, F_OK), 0);
	/* Where others could take the server's place it does not serve. */
	assert_int_equal(chmod(made_path, 0777), 0);
	assert_int_equal(socket_folder_make(&made, socket, false), 0);
	assert_int_equal(socket_folder_make(&made, socket, true), -EPERM);
	assert_int_equal(socket_folder_check(socket, false), 0);
	assert_int_equal(socket_folder_check(socket, true), -EPERM);
	rmdir(made_path);
	snprintf(socket, sizeof(socket), "%s/no/new/kvd.sock", folder);
	assert_int_equal(socket_folder_make(&made, socket, false), -ENOENT);
	assert_false(made.made);
	umask(mask);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(addresses),     CASE(defaults),	  CASE(links),	     CASE(errors),
		CASE(what_is_there), CASE(what_it_is_in), CASE(not_allowed), CASE(makes_the_folder),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
