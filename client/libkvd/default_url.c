/* SPDX-License-Identifier: MIT */
/* The server that a program connects to if its user names none. */
#include "client/kvd.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/rdma/default_socket.h"
#include "common/rdma/device.h"

#define SCHEME "softnic://"

const char *kvd_default_url(char buffer[KVD_URL_MAX])
{
	const char *url = getenv("KVD_URL");
	char path[DEVICE_PATH_MAX];

	static_assert(sizeof(SCHEME) + DEVICE_PATH_MAX <= KVD_URL_MAX, "every path fits");
	if (url && *url)
		return url;
	if (!buffer)
		return SCHEME DEFAULT_SOCKET_SYSTEM;
	default_socket_find(path);
	snprintf(buffer, KVD_URL_MAX, SCHEME "%s", path);
	return buffer;
}
