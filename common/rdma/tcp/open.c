/* SPDX-License-Identifier: MIT */
/*
 * Opens a device that sets up its connections over TCP: the RDMA device that has the server's
 * listening address, or the address from which the client reaches the server. If no RDMA device has
 * it, as in clusters whose TCP uses another network, the first with an active port.
 */
#include "common/rdma/tcp/tcp.h"

#include <string.h>
#include <unistd.h>

#include "common/rdma/inet.h"
#include "common/util/heap.h"
#include "common/util/log.h"

/* A port of a device from ibv_get_device_list(). */
struct choice {
	struct ibv_device *device;
	uint8_t number;
};

static bool port_is_active(struct ibv_context *context, uint8_t *number)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	if (ibv_query_device(context, &attr))
		return false;
	for (uint8_t n = 1; n <= attr.phys_port_cnt; n++)
		if (!ibv_query_port(context, n, &port) && port.state == IBV_PORT_ACTIVE) {
			*number = n;
			return true;
		}
	return false;
}

/* @addr is NULL, or one of the port's GIDs must be this address. */
static bool device_fits(struct ibv_device *device, const struct sockaddr_storage *addr,
			uint8_t *number)
{
	struct ibv_context *context;
	bool fits;

	if (device->transport_type == IBV_TRANSPORT_IWARP)
		return false;
	context = ibv_open_device(device);
	if (!context)
		return false;
	fits = addr ? tcp_gid_find(context, addr, number) : port_is_active(context, number);
	ibv_close_device(context);
	return fits;
}

static bool choose(struct ibv_device **list, const struct sockaddr_storage *addr,
		   struct choice *choice)
{
	for (; *list; list++)
		if (device_fits(*list, addr, &choice->number)) {
			choice->device = *list;
			return true;
		}
	return false;
}

/* Opens the port for @addr, the address of this end; -ENODEV: there is none. */
static int port_open(struct tcp_device *od, const struct sockaddr_storage *addr)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct choice choice;
	int err = -ENODEV;

	/* A kernel without RDMA has no verbs. */
	if (!list)
		return errno == ENOSYS ? -ENODEV : verbs_errno();
	if (choose(list, addr, &choice) || choose(list, NULL, &choice))
		err = verbs_port_open(&od->port, choice.device, choice.number);
	ibv_free_device_list(list);
	return err;
}

/* The address from which this host would send to @to. */
static int source_address(const struct sockaddr_storage *to, struct sockaddr_storage *from)
{
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)to, inet_len(to)))
		err = -errno;
	else
		err = inet_local(fd, from);
	close(fd);
	return err;
}

static void no_device_log(const struct device_addr *addr)
{
	log_error("no RDMA device of this host has an active port to connect to %s: check `rdma "
		  "link`",
		  addr->host);
}

static int open_connect(struct tcp_device *od, const struct device_addr *addr)
{
	struct inet_addrs list = { .count = 0 };
	struct sockaddr_storage from;
	int err = inet_addrs_named(&list, addr->host, addr->port);

	if (err)
		return err;
	for (int i = 0; i < list.count; i++) {
		err = source_address(&list.addr[i], &from);
		if (err)
			continue;
		od->addr = list.addr[i];
		err = port_open(od, &from);
		if (err == -ENODEV)
			no_device_log(addr);
		return err;
	}
	errno = -err;
	log_error("can't reach %s over TCP: %m; check that `ping` reaches it", addr->host);
	return err;
}

static int listen_try(struct tcp_device *od, const struct sockaddr_storage *addr)
{
	int fd, err;

	od->addr = *addr;
	err = inet_bind(&od->addr, &fd);
	if (err)
		return err;
	err = port_open(od, addr);
	if (err)
		close(fd);
	else
		atomic_store(&od->bound_fd, fd);
	return err;
}

static int listen_named(struct tcp_device *od, const char *host, uint16_t port)
{
	struct inet_addrs list = { .count = 0 };
	int err = inet_addrs_named(&list, host, port);

	if (err)
		return err;
	err = -EADDRNOTAVAIL;
	for (int i = 0; i < list.count; i++) {
		err = listen_try(od, &list.addr[i]);
		/* If an address is in use, fail: don't silently serve the next one. */
		if (!err || err == -EADDRINUSE)
			break;
	}
	return err;
}

static int open_listen(struct tcp_device *od, const struct device_addr *addr)
{
	int err;

	if (strcmp(addr->host, DEVICE_HOST_AUTO) != 0)
		return listen_named(od, addr->host, addr->port);
	err = listen_named(od, "::", addr->port); /* every address of this host */
	return err == -EAFNOSUPPORT ? listen_named(od, "0.0.0.0", addr->port) : err;
}

struct tls_context *tcp_tls_get(struct tcp_device *od)
{
	struct tls_context *tls;

	pthread_mutex_lock(&od->tls_lock);
	tls = od->tls;
	if (tls)
		tls_context_hold(tls);
	pthread_mutex_unlock(&od->tls_lock);
	return tls;
}

int tcp_renew(struct device *dev, const struct tls_files *files, char *why)
{
	struct tcp_device *od = tcp_device_of(dev);
	struct tls_context *fresh, *old = tcp_tls_get(od);
	int err = tls_context_renew(&fresh, old, files, why);

	tls_context_put(old);
	if (err || !fresh)
		return err;
	pthread_mutex_lock(&od->tls_lock);
	old = od->tls;
	od->tls = fresh;
	pthread_mutex_unlock(&od->tls_lock);
	tls_context_put(old);
	return 0;
}

/*
 * A server tries again and again to open a removed device, and logs what is wrong with its files
 * only when that changes. Used by the thread that opens a server's devices.
 */
static void tls_failed(const struct tcp_device *od, const char *why)
{
	static char said[TLS_WHY_MAX];
	bool listens = od->role == DEVICE_LISTEN;

	if (*why && !(listens && !strcmp(said, why)))
		log_error("can't set up TLS: %s", why);
	if (listens)
		strcpy(said, why);
}

static int open_tls(struct tcp_device *od, const struct device_addr *addr)
{
	char why[TLS_WHY_MAX] = "no memory for TLS";
	int err;

	if (addr->kind != DEVICE_RDMA_TLS)
		return 0;
	err = tls_context_make(&od->tls, &addr->tls, od->role == DEVICE_LISTEN ? NULL : addr->host,
			       why);
	tls_failed(od, err ? why : "");
	return err == -EINVAL ? -EKEYREJECTED : err;
}

static void device_free(struct tcp_device *od)
{
	tls_context_put(od->tls);
	pthread_mutex_destroy(&od->tls_lock);
	heap_free(od);
}

int tcp_open(struct device **dev, const struct device_addr *addr, enum device_role role,
	     int timeout_ms)
{
	struct tcp_device *od = heap_calloc(1, sizeof(*od));
	int err;

	(void)timeout_ms; /* nothing waits for the peer here */
	if (!od)
		return -ENOMEM;
	od->port.dev.kind = addr->kind;
	od->port.dev.ops = device_ops_of(addr->kind);
	od->port.link = addr->link;
	od->role = role;
	atomic_init(&od->bound_fd, -1);
	pthread_mutex_init(&od->tls_lock, NULL);
	err = open_tls(od, addr);
	if (!err)
		err = role == DEVICE_LISTEN ? open_listen(od, addr) : open_connect(od, addr);
	if (err) {
		device_free(od);
		return err;
	}
	inet_text(&od->addr, od->port.dev.address, sizeof(od->port.dev.address));
	*dev = &od->port.dev;
	return 0;
}

void tcp_close(struct device *dev)
{
	struct tcp_device *od = tcp_device_of(dev);
	int fd = atomic_exchange(&od->bound_fd, -1);

	if (fd >= 0)
		close(fd);
	verbs_port_close(&od->port);
	device_free(od);
}
