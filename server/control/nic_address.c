/* SPDX-License-Identifier: MIT */
/* The addresses to serve at: see nic_address.h. */
#include "server/control/nic_address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/rdma/default_socket.h"
#include "common/util/log.h"
#include "server/control/socket_folder.h"
#include "server/worker/nic.h"

/* Of a socket's flags in /proc/net/unix: __SO_ACCEPTCON of the kernel. */
#define LISTENING 0x10000

bool nic_address_default(const struct config *config)
{
	return strcmp(config->softnic.socket, "auto") == 0;
}

static struct device_addr *address_add(struct nic_addresses *list, enum device_kind kind)
{
	struct device_addr *addr = &list->addr[list->count++];

	*addr = (struct device_addr){ .kind = kind };
	return addr;
}

/* One of each of @hosts, between which are commas. */
static void addresses_add(struct nic_addresses *list, enum device_kind kind, const char *hosts,
			  uint32_t port)
{
	struct device_addr *addr;
	size_t length;

	for (; *hosts; hosts += length + (hosts[length] == ',')) {
		length = strcspn(hosts, ",");
		addr = address_add(list, kind);
		memcpy(addr->host, hosts, length);
		addr->port = (uint16_t)port;
	}
}

static void socket_add(struct nic_addresses *list, const struct config *config)
{
	struct device_addr *addr = address_add(list, DEVICE_SOFTNIC);

	if (nic_address_default(config))
		default_socket_serve(addr->path);
	else
		memcpy(addr->path, config->softnic.socket, sizeof(addr->path));
	addr->mode = config->softnic.socket_mode;
}

static void links_set(struct nic_addresses *list, enum link_option option, uint32_t value)
{
	if (value == OPTION_UINT_AUTO)
		return;
	for (unsigned int i = 0; i < list->count; i++)
		link_set(&list->addr[i].link, option, (uint8_t)value);
}

struct tls_files nic_address_tls(const struct config *config)
{
	return (struct tls_files){
		.ca = config->tls.ca,
		.certificate = config->tls.certificate,
		.key = config->tls.key,
		.psk = config->tls.psk,
		.peer_certificate = config->tls.require_identity,
	};
}

void nic_addresses(struct nic_addresses *list, const struct config *config)
{
	uint32_t chosen = nic_choose(config->server.device, &list->why);

	list->count = 0;
	if (chosen & DEVICE_VERBS)
		addresses_add(list, DEVICE_VERBS, config->rdma.address, config->rdma.port);
	if (chosen & DEVICE_VERBS_TCP)
		addresses_add(list, DEVICE_VERBS_TCP, config->rdma.tcp_address,
			      config->rdma.tcp_port);
	if (chosen & DEVICE_VERBS_TLS)
		addresses_add(list, DEVICE_VERBS_TLS, config->rdma.tls_address,
			      config->rdma.tls_port);
	for (unsigned int i = 0; i < list->count; i++)
		list->addr[i].tls = nic_address_tls(config);
#define X(upper, name, least, most, who) links_set(list, LINK_##upper, config->rdma.name);
	LINK_OPTIONS(X)
#undef X
	if (chosen & DEVICE_SOFTNIC)
		socket_add(list, config);
}

const char *nic_address_option(enum device_kind kind)
{
	switch (kind) {
	case DEVICE_SOFTNIC:
		return "softnic.socket";
	case DEVICE_VERBS_TCP:
		return "rdma.tcp_port";
	case DEVICE_VERBS_TLS:
		return "rdma.tls_port";
	default:
		return "rdma.port";
	}
}

static void softnic_open_error(const struct config *config, const char *path, int err)
{
	const char *automatic = nic_address_default(config) ? "auto, " : "";
	const char *reason = strerror(-err);

	switch (err) {
	case -ENOENT:
		log_error("softnic.socket = %s%s: the folder of its folder does not exist: create "
			  "it, or set another path, e.g. -o softnic.socket=/tmp/kvd.sock",
			  automatic, path);
		break;
	case -EPERM:
		log_error(
			"softnic.socket = %s%s: its folder is not this user's, or others may "
			"write to it: they could take the place of the server; remove the folder, "
			"set XDG_RUNTIME_DIR to one of yours, or set another path",
			automatic, path);
		break;
	case -EACCES:
		log_error("softnic.socket = %s%s: this user may not create it (%s): allow the user "
			  "to write to its folder, or set another path, e.g. -o "
			  "softnic.socket=/tmp/kvd.sock",
			  automatic, path, reason);
		break;
	case -EADDRINUSE:
		log_error("softnic.socket = %s%s is in use: stop the kvd that listens there, or "
			  "set another path",
			  automatic, path);
		break;
	case -ENOTSOCK:
		log_error("softnic.socket = %s%s: a file that is no socket is there: remove it, or "
			  "set another path",
			  automatic, path);
		break;
	default:
		log_error("softnic.socket = %s%s: can't listen there: %s%s", automatic, path,
			  reason, err == -EMFILE ? ": " ADVICE_OPEN_FILES : "");
	}
}

static void verbs_open_error(const struct device_addr *addr, int err)
{
	const char *address = addr->host;

	switch (err) {
	case -ENODEV:
		log_error("server.device = verbs, rdma.address = %s: no RDMA device of this host "
			  "can be used: set rdma.address to an address of one, or server.device = "
			  "softnic to serve clients on this host without one",
			  address);
		break;
	case -EADDRINUSE:
		log_error("rdma.port: %u at rdma.address = %s is in use: stop the server that "
			  "listens there, or set another port",
			  addr->port, address);
		break;
	case -EADDRNOTAVAIL:
		log_error("rdma.address = %s is not an address of this host: set one that `ip "
			  "addr` lists for the interface of an RDMA device, or auto",
			  address);
		break;
	case -EINVAL:
		log_error("rdma.address = %s means every RDMA device, but kvd serves one: set the "
			  "address of one, or auto",
			  address);
		break;
	case -ENOENT:
	case -EACCES:
	case -EPERM:
		log_error(
			"server.device = verbs: can't use RDMA connection management: %s; load the "
			"module rdma_ucm, check the permissions of /dev/infiniband/*, or set "
			"server.device = softnic",
			strerror(-err));
		break;
	default:
		log_error("server.device = verbs: can't listen at rdma.address = %s, rdma.port = "
			  "%u: %s; set another address, or server.device = softnic",
			  address, addr->port, strerror(-err));
	}
}

/* Of verbs-tcp and verbs-tls, whose options have the same names but for this word. */
static void tcp_open_error(const struct device_addr *addr, int err)
{
	const char *address = addr->host, *way = addr->kind == DEVICE_VERBS_TLS ? "tls" : "tcp";

	switch (err) {
	case -ENODEV:
		log_error(
			"server.device = verbs-%s: no RDMA device of this host has an active "
			"port: check `rdma link`, or set server.device = softnic to serve clients "
			"on this host without one",
			way);
		break;
	case -EADDRINUSE:
		log_error("rdma.%s_port: %u at rdma.%s_address = %s is in use: stop the program "
			  "that listens there, or set another port",
			  way, addr->port, way, address);
		break;
	case -EADDRNOTAVAIL:
		log_error("rdma.%s_address = %s is not an address of this host: set one that `ip "
			  "addr` lists, or auto",
			  way, address);
		break;
	case -EKEYREJECTED:
		log_error("server.device = verbs-tls: the line above says which file of [tls] "
			  "can't be used");
		break;
	default:
		log_error("server.device = verbs-%s: can't listen at rdma.%s_address = %s, "
			  "rdma.%s_port = %u: %s; set another address or port",
			  way, way, address, way, addr->port, strerror(-err));
	}
}

void nic_address_error(const struct config *config, const struct device_addr *addr, int err)
{
	char name[IBV_SYSFS_NAME_MAX];

	if (addr->kind == DEVICE_SOFTNIC)
		softnic_open_error(config, addr->path, err);
	else if (err == -ENODEV && !device_verbs_present(name))
		log_error("server.device = %s: this host has no RDMA device: set server.device = "
			  "softnic to serve clients on this host without one",
			  device_kind_name(addr->kind));
	else if (addr->kind & DEVICES_OVER_TCP)
		tcp_open_error(addr, err);
	else
		verbs_open_error(addr, err);
}

/* Whether a process listens at @path: in this network namespace, as Linux lists them. */
static bool is_listening(const char *path)
{
	FILE *in = fopen("/proc/net/unix", "re");
	char line[256], at[DEVICE_PATH_MAX];
	unsigned int flags;
	bool found = false;

	while (in && !found && fgets(line, sizeof(line), in))
		found = sscanf(line, "%*s %*s %*s %x %*s %*s %*s %107s", &flags, at) == 2 &&
			(flags & LISTENING) && !strcmp(at, path);
	if (in)
		fclose(in);
	return found;
}

static int softnic_check(const struct config *config, const struct device_addr *addr)
{
	struct stat st;
	int err = socket_folder_check(addr->path, nic_address_default(config));

	if (err || lstat(addr->path, &st))
		return err;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	return is_listening(addr->path) ? -EADDRINUSE : 0;
}

/* Binds the address for a moment: no client can connect meanwhile. */
static int verbs_check(const struct device_addr *addr)
{
	struct device *dev;
	int err = device_open(&dev, addr, DEVICE_LISTEN, 0);

	if (!err)
		device_close(dev);
	return err;
}

int nic_address_check(const struct config *config, const struct device_addr *addr, bool warn)
{
	bool is_softnic = addr->kind == DEVICE_SOFTNIC;
	int err = is_softnic ? softnic_check(config, addr) : verbs_check(addr);

	if (err == -EADDRINUSE) {
		if (!warn)
			return 0;
		if (is_softnic)
			log_warn("softnic.socket: %s is in use: as long as that kvd runs, no other "
				 "can start with it",
				 addr->path);
		else
			log_warn("%s: %u is in use: as long as that kvd runs, no other can start "
				 "with it",
				 nic_address_option(addr->kind), addr->port);
		return 0;
	}
	if (err)
		nic_address_error(config, addr, err);
	return err;
}
