/* SPDX-License-Identifier: MIT */
/*
 * The listening socket's file: binding it for a server, finding it for a client. What happens to
 * the files of other servers is in common/util/unix_socket.h.
 */
#include "common/rdma/softnic/device_context.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rdma/softnic/link.h"

int sn_address_find(const struct device_addr *addr)
{
	struct stat st;

	errno = 0;
	if (!stat(addr->path, &st) && S_ISSOCK(st.st_mode))
		return 0;
	/* No file, or another kind of file: there is no server. */
	return errno == EACCES ? -EACCES : -ECONNREFUSED;
}

static void connection_drop(int sock)
{
	link_drop_socket(sock, false);
}

int sn_address_bind(struct sn_context *ctx)
{
	const struct unix_socket_address address = {
		.path = ctx->addr.path,
		.type = SOCK_SEQPACKET,
		.mode = ctx->addr.mode,
		.name = "softnic",
		.drop = connection_drop,
	};

	return unix_socket_bind(&address, &ctx->listen_fd, &ctx->listen_file);
}

void sn_address_release(struct sn_context *ctx)
{
	if (ctx->listen_fd < 0)
		return;
	unix_socket_unlink(ctx->addr.path, &ctx->listen_file);
	close(ctx->listen_fd);
	ctx->listen_fd = -1;
}
