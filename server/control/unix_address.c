/* SPDX-License-Identifier: MIT */
#include "server/control/unix_address.h"

#include <errno.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/unix_socket.h"
#include "server/control/socket_folder.h"

int unix_address_check(const struct device_addr *addr, bool is_default)
{
	int err = socket_folder_check(addr->path, is_default);

	return err ? err : unix_socket_check(addr->path);
}

void unix_address_error(const char *at, const struct device_addr *addr, int err)
{
	bool softnic = addr->kind == DEVICE_SOFTNIC;
	const char *example = softnic ? "softnic:///tmp/kvd.sock" :
					"memcached:///tmp/memcached.sock";

	switch (err) {
	case -ENOENT:
		log_error("%s: the parent directory does not exist: create it, or set another "
			  "path, e.g. -o server.listen=%s",
			  at, example);
		break;
	case -EACCES:
		log_error("%s: this user may not create it (%s): allow the user to write to its "
			  "folder, or set another path, e.g. -o server.listen=%s",
			  at, strerror(-err), example);
		break;
	case -EADDRINUSE:
		log_error("%s is in use: stop the %s that listens there, or set another path", at,
			  softnic ? "kvd" : "program");
		break;
	case -ENOTSOCK:
		log_error("%s: a file that is not a socket is there: remove it, or set another "
			  "path",
			  at);
		break;
	default:
		log_error("%s: can't listen there: %s%s", at, strerror(-err),
			  err == -EMFILE ? ": " ADVICE_OPEN_FILES : "");
	}
}
