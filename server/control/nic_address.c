/* SPDX-License-Identifier: MIT */
/* The addresses to serve at: see nic_address.h. */
#include "server/control/nic_address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/rdma/default_socket.h"
#include "common/util/log.h"
#include "server/config/listen_list.h"
#include "server/control/unix_address.h"
#include "server/worker/nic.h"

/* Bytes of an address with its option as text. */
#define ADDRESS_TEXT_MAX (DEVICE_URL_MAX + 32)

bool nic_address_default(const struct device_addr *addr)
{
	char path[DEVICE_PATH_MAX];

	default_socket_serve(path);
	return strcmp(addr->path, path) == 0;
}

static void option_set(struct device_addr *addr, enum link_option option, uint32_t value)
{
	if (value != OPTION_UINT_AUTO)
		link_set(&addr->link, option, (uint8_t)value);
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

/* Sets the options of the address that are not in its URL. */
static void address_complete(struct device_addr *addr, const struct config *config)
{
	if (addr->kind != DEVICE_SOFTNIC) {
		addr->tls = nic_address_tls(config);
		option_set(addr, LINK_GID_INDEX, config->rdma.gid_index);
		option_set(addr, LINK_PKEY_INDEX, config->rdma.pkey_index);
		option_set(addr, LINK_TRAFFIC_CLASS, config->rdma.traffic_class);
		option_set(addr, LINK_SERVICE_LEVEL, config->rdma.service_level);
		option_set(addr, LINK_ACK_TIMEOUT, config->rdma.ack_timeout);
		option_set(addr, LINK_RETRY_COUNT, config->rdma.retry_count);
		option_set(addr, LINK_MAX_RD_ATOMIC, config->rdma.max_rd_atomic);
		return;
	}
	addr->mode = config->softnic.socket_mode;
	if (!addr->path[0])
		default_socket_serve(addr->path);
}

void nic_addresses(struct nic_addresses *list, const struct config *config)
{
	uint32_t chosen = nic_choose(config, &list->why);
	const char *at = config->server.listen;

	list->count = 0;
	while (list->count < LISTEN_MAX && listen_list_next(&at, &list->addr[list->count]))
		if (list->addr[list->count].kind & DEVICES_ALL)
			list->count++;
	/* auto, or no device */
	if (!list->count && !device_listen_parse(list->addr, device_scheme(chosen), NULL, 0))
		list->count = 1;
	for (unsigned int i = 0; i < list->count; i++)
		address_complete(&list->addr[i], config);
}

/* The option and the address, as they start a line of the log. */
static const char *address_text(const struct config *config, const struct device_addr *addr,
				char text[ADDRESS_TEXT_MAX])
{
	char url[DEVICE_URL_MAX];

	device_addr_text(addr, url);
	snprintf(text, ADDRESS_TEXT_MAX, "server.listen = %s%s",
		 listen_list_kinds(config->server.listen) ? "" : LISTEN_AUTO ", ", url);
	return text;
}

static void softnic_open_error(const char *at, const struct device_addr *addr, int err)
{
	if (err == -EPERM)
		log_error("%s: its folder is not this user's, or others may write to it and "
			  "impersonate the server: remove the folder, set "
			  "XDG_RUNTIME_DIR to one of yours, or set another path",
			  at);
	else
		unix_address_error(at, addr, err);
}

static void rdma_open_error(const char *at, int err)
{
	switch (err) {
	case -ENODEV:
		log_error("%s: no RDMA device of this host can be used there: set an address of "
			  "one, or softnic:// to serve clients on this host without one",
			  at);
		break;
	case -EADDRINUSE:
		log_error("%s is in use: stop the server that listens there, or set another port",
			  at);
		break;
	case -EADDRNOTAVAIL:
		log_error("%s is not an address of this host: set one that `ip addr` lists for "
			  "the interface of an RDMA device, or none, as in rdma://",
			  at);
		break;
	case -EINVAL:
		log_error(
			"%s means every RDMA device, but rdma:// URLs name one device each: set a "
			"URL for each, or rdma:// for the first",
			at);
		break;
	case -ENOENT:
	case -EACCES:
	case -EPERM:
		log_error("%s: can't use RDMA connection management: %s; load the module rdma_ucm, "
			  "check the permissions of /dev/infiniband/*, or set rdma+tcp:// or "
			  "softnic://",
			  at, strerror(-err));
		break;
	default:
		log_error("%s: can't listen there: %s; set another address or port, or softnic://",
			  at, strerror(-err));
	}
}

/* For rdma+tcp and rdma+tls. */
static void tcp_open_error(const char *at, int err)
{
	switch (err) {
	case -ENODEV:
		log_error("%s: no RDMA device of this host has an active port: check `rdma link`, "
			  "or set softnic:// to serve clients on this host without one",
			  at);
		break;
	case -EADDRINUSE:
		log_error("%s is in use: stop the program that listens there, or set another port",
			  at);
		break;
	case -EADDRNOTAVAIL:
		log_error("%s is not an address of this host: set one that `ip addr` lists, or "
			  "none, for every address",
			  at);
		break;
	case -EKEYREJECTED:
		log_error("%s: the line above says which file of [tls] can't be used", at);
		break;
	default:
		log_error("%s: can't listen there: %s; set another address or port", at,
			  strerror(-err));
	}
}

void nic_address_error(const struct config *config, const struct device_addr *addr, int err)
{
	char text[ADDRESS_TEXT_MAX], name[IBV_SYSFS_NAME_MAX];
	const char *at = address_text(config, addr, text);

	if (addr->kind == DEVICE_SOFTNIC)
		softnic_open_error(at, addr, err);
	else if (err == -ENODEV && !device_verbs_present(name))
		log_error("%s: this host has no RDMA device: set softnic:// to serve clients on "
			  "this host without one",
			  at);
	else if (addr->kind & DEVICES_OVER_TCP)
		tcp_open_error(at, err);
	else
		rdma_open_error(at, err);
}

/* Binds the address for a moment; no client can connect meanwhile. */
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
	int err = addr->kind == DEVICE_SOFTNIC ?
			  unix_address_check(addr, nic_address_default(addr)) :
			  verbs_check(addr);
	char text[ADDRESS_TEXT_MAX];

	if (err == -EADDRINUSE) {
		if (warn)
			log_warn("%s is in use: while that kvd runs, no other can start with "
				 "it",
				 address_text(config, addr, text));
		return 0;
	}
	if (err)
		nic_address_error(config, addr, err);
	return err;
}
