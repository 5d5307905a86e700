/* SPDX-License-Identifier: MIT */
/* The device of a handle: opens it by its URL, and replaces it after it died. */
#include "client/libkvd/device.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "client/libkvd/connect.h"
#include "client/libkvd/flight.h"
#include "client/libkvd/rpc.h"
#include "common/rdma/default_socket.h"

/* A user that named no URL may have started kvd at the other default socket. */
static enum kvd_status no_socket(struct kvd *handle, const char *path)
{
	char own[DEVICE_PATH_MAX];

	if (default_socket_own(own) && (!strcmp(path, own) || !strcmp(path, DEFAULT_SOCKET_SYSTEM)))
		return handle_fail(handle, KVD_ERR_UNREACHABLE,
				   "no socket at %s: is kvd running? (a kvd of your own listens at "
				   "%s, the system's at " DEFAULT_SOCKET_SYSTEM ")",
				   path, own);
	return handle_fail(handle, KVD_ERR_UNREACHABLE, "no socket at %s: is kvd running?", path);
}

/* ECONNREFUSED: nothing is at the path, or a file that is not a socket. */
static enum kvd_status softnic_failed(struct kvd *handle, const char *path, int err)
{
	struct stat st;

	if (err == -EACCES || err == -EPERM)
		return connect_no_permission(handle, path, err);
	if (err == -ECONNREFUSED && !stat(path, &st))
		return handle_fail(
			handle, KVD_ERR_UNREACHABLE,
			"%s is not a socket: give the path that kvd listens at (server.listen)",
			path);
	if (err == -ECONNREFUSED)
		return no_socket(handle, path);
	return handle_fail(handle, connect_status(err), "softnic device for %s: %s", path,
			   strerror(-err));
}

static const char *verbs_remedy(int err)
{
	if (err == -EACCES || err == -EPERM)
		return "check the permissions of /dev/infiniband";
	if (connect_is_shortage(err))
		return "check the limits of this process (`ulimit -a`)";
	return "check the name or address, and that `ping` reaches it";
}

static enum kvd_status verbs_failed(struct kvd *handle, const char *url, int err)
{
	char name[IBV_SYSFS_NAME_MAX];

	if (err == -ENODEV && !device_verbs_present(name))
		return handle_fail(
			handle, KVD_ERR_DEVICE,
			"%s: this host has no RDMA device; for a server on this host use "
			"softnic:///PATH",
			url);
	if (err == -ENODEV)
		return handle_fail(handle, KVD_ERR_DEVICE,
				   "%s: the route to this host uses no RDMA device; `rdma link` "
				   "lists the RDMA devices",
				   url);
	return handle_fail(handle, connect_status(err), "%s can't be reached by RDMA: %s; %s", url,
			   strerror(-err), verbs_remedy(err));
}

/* The credentials could not be used: reads the files again, for the reason. */
static enum kvd_status credentials_failed(struct kvd *handle, const struct device_addr *addr)
{
	char why[TLS_WHY_MAX] = "they can be used now";
	struct tls_context *context = NULL;

	if (tls_context_make(&context, &addr->tls, addr->host, why) == -ENOMEM)
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "out of memory");
	tls_context_put(context);
	return handle_fail(handle, KVD_ERR_INVALID, "credentials: %s", why);
}

enum kvd_status device_get(struct kvd *handle, const char *url)
{
	struct shared_failure failure;
	struct shared_device *device;
	struct device_addr addr;
	char reason[256];
	int err;

	if (!url)
		return handle_fail(handle, KVD_ERR_INVALID, "the URL is NULL");
	if (device_addr_parse(&addr, url, reason, sizeof(reason)))
		return handle_fail(handle, KVD_ERR_INVALID, "%s: %s", url, reason);
	if (addr.kind == DEVICE_RDMA_TLS)
		addr.tls = handle->credentials;
	err = shared_device_get(&device, url, &addr, (int)handle->options.connect_timeout_ms,
				&failure);
	if (err && failure.what)
		return handle_fail(handle,
				   connect_is_shortage(err) ? KVD_ERR_NO_MEMORY : KVD_ERR_DEVICE,
				   "device %s %s: %s", failure.name, failure.what, strerror(-err));
	if (err == -EKEYREJECTED)
		return credentials_failed(handle, &addr);
	if (err)
		return addr.kind == DEVICE_SOFTNIC ? softnic_failed(handle, addr.path, err) :
						     verbs_failed(handle, url, err);
	handle->shared_device = device;
	handle->dev = device->dev;
	handle->pd = device->pd;
	handle->message_max = device->port.max_msg_sz;
	handle->conn.read_sges_max = device->read_sges_max;
	return KVD_OK;
}

void device_buffers_release(struct kvd *handle)
{
	rpc_release(handle);
	handle->bounce_user = false;
	reg_buf_release(&handle->conn.ring, handle->dev);
}

/* Memory of the caller is registered with the old device: values are copied from now on. */
static void memory_leave(struct kvd *handle, struct flight *f)
{
	if (f->direct)
		flight_put_memory(handle, f);
}

enum kvd_status device_renew(struct kvd *handle)
{
	struct shared_device *old = handle->shared_device;
	enum kvd_status status;

	shared_device_condemn(old);
	each_flight(handle, memory_leave);
	device_buffers_release(handle);
	/* No buffers are left: open_buffers() makes new ones, on the device of that time. */
	handle->conn.message_count = 0;
	connection_reset(&handle->conn);
	handle->conn.broken = true;
	status = device_get(handle, old->url);
	if (!status)
		shared_device_put(old);
	return status;
}
