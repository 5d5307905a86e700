/* SPDX-License-Identifier: MIT */
#include "server/journal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/line_writer.h"

static int journal_fd = -1;
/* Not connected: a journal that starts again is found by its path. */
static struct sockaddr_un journal_address;
static bool refused; /* the last entry; that was said */

int journal_open(const char *path)
{
	const struct timeval wait = { .tv_usec = LINE_WRITER_WAIT_MS * 1000 };

	if (strlen(path) >= sizeof(journal_address.sun_path))
		return -ENAMETOOLONG;
	journal_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(journal_address.sun_path, path);
	refused = false;
	journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (journal_fd < 0)
		return -errno;
	/* Without the option, the log's thread would wait for longer. */
	(void)setsockopt(journal_fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	return 0;
}

void journal_close(void)
{
	if (journal_fd >= 0)
		close(journal_fd);
	journal_fd = -1;
}

bool journal_is_open(void)
{
	return journal_fd >= 0;
}

size_t journal_line(char to[JOURNAL_LINE_MAX], const char *line, size_t length)
{
	char *at = stpcpy(to, thread_name());

	*at++ = ' ';
	memcpy(at, line, length);
	return (size_t)(at - to) + length;
}

static char *put(char *at, const char *bytes, size_t length)
{
	return (char *)memcpy(at, bytes, length) + length;
}

size_t journal_entry(char entry[JOURNAL_ENTRY_MAX], const char *line, size_t length)
{
	const char *text = memchr(line, '<', length);
	size_t thread = *line == '<' ? 0 : (size_t)(text - line) - 1;
	char *at = entry;

	text += strlen("<5>");
	at = stpcpy(at, "MESSAGE=");
	at = put(at, text, length - (size_t)(text - line)); /* with its newline */
	at = stpcpy(at, "PRIORITY=");
	*at++ = text[-2];
	at = stpcpy(at, "\nSYSLOG_IDENTIFIER=kvd\n");
	if (!thread)
		return (size_t)(at - entry);
	at = stpcpy(at, "KVD_THREAD=");
	at = put(at, line, thread);
	*at++ = '\n';
	return (size_t)(at - entry);
}

static void say_refused(void)
{
	static const char text[] = "log: the journal takes no entries; lines go to stderr, without "
				   "their fields, until it does";
	char line[LOG_LINE_MAX];

	if (!refused)
		line_write(STDERR_FILENO, line, log_line(line, LOG_WARN, text, sizeof(text) - 1),
			   0);
	refused = true;
}

ssize_t journal_write(const char *lines, size_t length)
{
	size_t line = (size_t)((const char *)memchr(lines, '\n', length) - lines) + 1, plain;
	char entry[JOURNAL_ENTRY_MAX];
	ssize_t written;

	if (sendto(journal_fd, entry, journal_entry(entry, lines, line), MSG_NOSIGNAL,
		   (struct sockaddr *)&journal_address, sizeof(journal_address)) >= 0) {
		refused = false;
		return (ssize_t)line;
	}
	if (errno == EAGAIN || errno == EINTR)
		return errno == EINTR ? -EINTR : 0;
	say_refused();
	plain = (size_t)((const char *)memchr(lines, '<', line) - lines);
	written = line_write(STDERR_FILENO, lines + plain, line - plain, LINE_WRITER_WAIT_MS);
	/* Of a line that was written in part the rest is lost. */
	return written > 0 ? (ssize_t)line : written;
}
