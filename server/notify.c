/* SPDX-License-Identifier: MIT */
/* Messages to systemd: see notify.h. */
#include "server/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/parse.h"

#define MESSAGE_MAX 512

static int notify_fd = -1;
static uint64_t watchdog_ns;

/* "@name" is an abstract socket, which has no file: its address begins with a zero byte. */
static int notify_connect(const char *path)
{
	const struct timeval wait = { .tv_usec = NOTIFY_WAIT_MS * 1000 };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t length = strlen(path);

	if ((*path != '/' && *path != '@') || length >= sizeof(un.sun_path))
		return -EINVAL;
	memcpy(un.sun_path, path, length);
	if (*path == '@')
		un.sun_path[0] = '\0';
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notify_fd < 0 || setsockopt(notify_fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) ||
	    connect(notify_fd, (struct sockaddr *)&un,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)))
		return -errno;
	return 0;
}

static uint64_t watchdog_read(void)
{
	const char *pid = getenv("WATCHDOG_PID"), *usec = getenv("WATCHDOG_USEC");
	struct parse_why why;
	uint64_t value;

	/* The variables may be meant for the parent process. */
	if (pid && (parse_uint(pid, 1, INT32_MAX, &value, &why) || (pid_t)value != getpid()))
		return 0;
	return usec && !parse_uint(usec, 1, UINT64_MAX / 1000, &value, &why) ? value * 1000 : 0;
}

bool notify_is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	char end;

	return stream && sscanf(stream, "%llu:%llu%c", &device, &inode, &end) == 2 &&
	       !fstat(fd, &st) && st.st_dev == device && st.st_ino == inode;
}

void notify_init(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	int err;

	if (!path || !*path)
		return;
	err = notify_connect(path);
	if (err) {
		log_warn("NOTIFY_SOCKET = %s: can't connect to it: %s; systemd is not notified",
			 path, strerror(-err));
		notify_release();
		return;
	}
	watchdog_ns = watchdog_read();
}

void notify_release(void)
{
	if (notify_fd >= 0)
		close(notify_fd);
	notify_fd = -1;
	watchdog_ns = 0;
}

void notify_send(const char *format, ...)
{
	char text[MESSAGE_MAX];
	va_list args;

	if (notify_fd < 0)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (send(notify_fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		log_ratelimited(LOG_WARN, 1, "can't notify systemd: %m");
}

/* By the time, systemd knows that READY=1 follows this message and not an earlier one. */
void notify_reloading(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	notify_send("RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reading the configuration",
		    (unsigned long long)now.tv_sec * 1000000 +
			    (unsigned long long)now.tv_nsec / 1000);
}

uint64_t notify_watchdog_ns(void)
{
	return watchdog_ns;
}
