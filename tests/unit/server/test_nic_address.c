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

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	snprintf(folder, sizeof(folder), "%s/run", test_log_dir);
	assert_int_equal(mkdir(folder, 0755), 0);
	snprintf(path, sizeof(path), "%s/kvd.sock", folder);
	snprintf(config.softnic.socket, sizeof(config.softnic.socket), "%s", path);
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	log_init(LOG_OFF, NULL);
	unlink(path);
	return rmdir(folder);
}

/* The only address of the devices that are configured. */
static struct device_addr only_address(uint32_t devices)
{
	struct nic_addresses list;

	config.server.device = devices;
	nic_addresses(&list, &config);
	assert_int_equal(list.count, 1);
	return list.addr[0];
}

/* The options of RDMA are of the addresses on RDMA devices; auto sets nothing. */
static void links(void **state)
{
	struct device_addr addr = only_address(DEVICE_VERBS);

	(void)state;
	assert_int_equal(addr.link.set, 0);
	config.rdma.gid_index = 0;
	config.rdma.max_rd_atomic = 254;
	addr = only_address(DEVICE_VERBS_TCP);
	assert_int_equal(addr.link.set, 1u << LINK_GID_INDEX | 1u << LINK_MAX_RD_ATOMIC);
	assert_int_equal(link_or(&addr.link, LINK_GID_INDEX, 9), 0);
	assert_int_equal(link_or(&addr.link, LINK_MAX_RD_ATOMIC, 9), 254);
	assert_int_equal(only_address(DEVICE_SOFTNIC).link.set, 0);
}

static void addresses(void **state)
{
	static const struct {
		enum device_kind kind;
		const char *host;
		uint16_t port;
	} expected[] = {
		{ DEVICE_VERBS, "10.9.0.1", 7471 }, { DEVICE_VERBS, "fd00::1", 7471 },
		{ DEVICE_VERBS_TCP, "auto", 7474 }, { DEVICE_VERBS_TLS, "10.9.0.2", 7475 },
		{ DEVICE_SOFTNIC, "", 0 },
	};
	char automatic[DEVICE_PATH_MAX];
	struct nic_addresses list;
	struct device_addr addr;

	(void)state;
	strcpy(config.rdma.address, "10.9.0.1,fd00::1");
	config.rdma.port = 7471;
	config.rdma.tcp_port = 7474;
	strcpy(config.rdma.tls_address, "10.9.0.2");
	config.rdma.tls_port = 7475;
	strcpy(config.tls.ca, "ca.pem");
	strcpy(config.tls.certificate, "c.pem");
	strcpy(config.tls.key, "c.key");
	strcpy(config.tls.psk, "keys");
	config.tls.require_identity = true;
	config.softnic.socket_mode = 0640;
	config.server.device = DEVICE_VERBS | DEVICE_VERBS_TCP | DEVICE_VERBS_TLS | DEVICE_SOFTNIC;
	nic_addresses(&list, &config);
	assert_string_equal(list.why, "the configuration asks for it");
	assert_int_equal(list.count, 5);
	for (unsigned int i = 0; i < 5; i++) {
		assert_int_equal(list.addr[i].kind, expected[i].kind);
		assert_string_equal(list.addr[i].host, expected[i].host);
		assert_int_equal(list.addr[i].port, expected[i].port);
		assert_string_equal(list.addr[i].path, i == 4 ? path : "");
		assert_int_equal(list.addr[i].mode, i == 4 ? 0640 : 0);
	}
	addr = list.addr[3];
	assert_string_equal(addr.tls.ca, "ca.pem");
	assert_string_equal(addr.tls.certificate, "c.pem");
	assert_string_equal(addr.tls.key, "c.key");
	assert_string_equal(addr.tls.psk, "keys");
	assert_true(addr.tls.peer_certificate);
	/* As many as may be configured. */
	strcpy(config.rdma.address,
	       "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8");
	strcpy(config.rdma.tcp_address, config.rdma.address);
	strcpy(config.rdma.tls_address, config.rdma.address);
	nic_addresses(&list, &config);
	assert_int_equal(list.count, NIC_ADDRESSES_MAX);
	assert_string_equal(list.addr[7].host, "1.1.1.8");
	assert_string_equal(list.addr[15].host, "1.1.1.8");
	assert_false(nic_address_default(&config));
	strcpy(config.softnic.socket, "auto");
	assert_true(nic_address_default(&config));
	addr = only_address(DEVICE_SOFTNIC);
	default_socket_serve(automatic);
	assert_string_equal(addr.path, automatic);
	assert_string_equal(nic_address_option(DEVICE_SOFTNIC), "softnic.socket");
	assert_string_equal(nic_address_option(DEVICE_VERBS), "rdma.port");
	assert_string_equal(nic_address_option(DEVICE_VERBS_TCP), "rdma.tcp_port");
	assert_string_equal(nic_address_option(DEVICE_VERBS_TLS), "rdma.tls_port");
}

/* Each error has its own remedy, with the option that it is about. */
static void errors(void **state)
{
	static const struct {
		enum device_kind kind;
		int err;
		const char *text;
	} cases[] = {
		{ DEVICE_SOFTNIC, -ENOENT, "the folder of its folder does not exist" },
		{ DEVICE_SOFTNIC, -EPERM, "its folder is not this user's" },
		{ DEVICE_SOFTNIC, -EACCES, "this user may not create it (Permission denied)" },
		{ DEVICE_SOFTNIC, -EADDRINUSE, "is in use: stop the kvd that listens there" },
		{ DEVICE_SOFTNIC, -ENOTSOCK, "a file that is no socket is there: remove it" },
		{ DEVICE_SOFTNIC, -EMFILE, "can't listen there: Too many open files: raise" },
		{ DEVICE_SOFTNIC, -EIO, "can't listen there: Input/output error" },
		{ DEVICE_VERBS, -ENODEV, "no RDMA device of this host can be used" },
		{ DEVICE_VERBS, -EADDRINUSE, "rdma.port: 7471 at rdma.address = auto is in use" },
		{ DEVICE_VERBS, -EADDRNOTAVAIL, "auto is not an address of this host" },
		{ DEVICE_VERBS, -EINVAL, "auto means every RDMA device" },
		{ DEVICE_VERBS, -ENOENT, "can't use RDMA connection management: No such file" },
		{ DEVICE_VERBS, -EACCES, "can't use RDMA connection management: Permission" },
		{ DEVICE_VERBS, -EIO, "rdma.port = 7471: Input/output error; set another" },
		{ DEVICE_VERBS_TCP, -ENODEV, "no RDMA device of this host has an active port" },
		{ DEVICE_VERBS_TCP, -EADDRINUSE,
		  "rdma.tcp_port: 7472 at rdma.tcp_address = auto is in use" },
		{ DEVICE_VERBS_TCP, -EADDRNOTAVAIL,
		  "rdma.tcp_address = auto is not an address of this host" },
		{ DEVICE_VERBS_TCP, -EACCES,
		  "rdma.tcp_port = 7472: Permission denied; set another" },
		{ DEVICE_VERBS_TLS, -ENODEV,
		  "verbs-tls: no RDMA device of this host has an active port" },
		{ DEVICE_VERBS_TLS, -EADDRINUSE,
		  "rdma.tls_port: 7473 at rdma.tls_address = auto is in use" },
		{ DEVICE_VERBS_TLS, -EADDRNOTAVAIL,
		  "rdma.tls_address = auto is not an address of this host" },
		{ DEVICE_VERBS_TLS, -EKEYREJECTED,
		  "the line above says which file of [tls] can't be used" },
		{ DEVICE_VERBS_TLS, -EACCES,
		  "rdma.tls_port = 7473: Permission denied; set another" },
	};
	static const enum device_kind ways[] = { DEVICE_VERBS, DEVICE_VERBS_TCP, DEVICE_VERBS_TLS };
	struct device_addr addr;

	(void)state;
	present = false;
	for (unsigned int i = 0; i < 3; i++) {
		char text[96];

		assert_int_equal(test_log_begin(), 0);
		addr = only_address(ways[i]);
		nic_address_error(&config, &addr, -ENODEV);
		snprintf(text, sizeof(text), "server.device = %s: this host has no RDMA device",
			 device_kind_name(ways[i]));
		assert_logged(text);
		assert_int_equal(test_log_lines(), 1);
	}
	present = true;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(test_log_begin(), 0);
		addr = only_address(cases[i].kind);
		nic_address_error(&config, &addr, cases[i].err);
		assert_logged(cases[i].text);
		assert_int_equal(test_log_lines(), 1);
		if (cases[i].kind == DEVICE_SOFTNIC)
			assert_logged(path);
	}
	/* The path that auto has become is said, too. */
	strcpy(config.softnic.socket, "auto");
	addr = only_address(DEVICE_SOFTNIC);
	nic_address_error(&config, &addr, -EACCES);
	assert_logged("softnic.socket = auto, /");
}

static int check(bool warn)
{
	const struct device_addr addr = only_address(DEVICE_SOFTNIC);

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
	assert_logged("is in use: as long as that kvd runs, no other can start with it");
	close(fd);
	assert_int_equal(check(true), 0);
	assert_int_equal(test_log_lines(), 0);
	/* It was checked and not changed. */
	assert_int_equal(unlink(path), 0);
	fd = open(path, O_CREAT | O_WRONLY, 0644);
	close(fd);
	assert_int_equal(check(true), -ENOTSOCK);
	assert_logged("a file that is no socket is there");
	assert_int_equal(access(path, F_OK), 0);
}

/* The folder may be missing, but not the one that it would be made in. */
static void what_it_is_in(void **state)
{
	(void)state;
	snprintf(config.softnic.socket, sizeof(config.softnic.socket), "%s/new/kvd.sock", folder);
	assert_int_equal(check(true), 0);
	assert_int_equal(test_log_lines(), 0);
	snprintf(config.softnic.socket, sizeof(config.softnic.socket), "%s/no/new/kvd.sock",
		 folder);
	assert_int_equal(check(true), -ENOENT);
	assert_logged("the folder of its folder does not exist");
	close(open(path, O_CREAT | O_WRONLY, 0644));
	snprintf(config.softnic.socket, sizeof(config.softnic.socket), "%s/kvd.sock", path);
	assert_int_equal(check(true), -ENOTDIR);
	assert_logged("Not a directory");
}

/* A user who may not write there. */
static void not_allowed(void **state)
{
	const struct device_addr addr = only_address(DEVICE_SOFTNIC);
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
		/* Which is removed by who made it, and by nobody else. */
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
		CASE(addresses),     CASE(links),	CASE(errors),		CASE(what_is_there),
		CASE(what_it_is_in), CASE(not_allowed), CASE(makes_the_folder),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
