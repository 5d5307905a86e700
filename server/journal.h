/* SPDX-License-Identifier: MIT */
/*
 * Sends the log's lines to the journal of systemd, as entries with fields: MESSAGE, PRIORITY,
 * SYSLOG_IDENTIFIER, and KVD_THREAD, the thread that has logged the line.
 *
 * The journal's protocol is stable and documented (systemd.io/JOURNAL_NATIVE_PROTOCOL): a datagram
 * of FIELD=value lines. A line of the log has no newline inside, and at most LOG_LINE_MAX bytes, so
 * an entry never needs the protocol's other form, nor the file that stands for one that is too long
 * for a datagram.
 */
#ifndef KVD_SERVER_JOURNAL_H
#define KVD_SERVER_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/util/log.h"
#include "common/util/thread.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* A line with its thread's name and a space before it. */
#define JOURNAL_LINE_MAX (THREAD_NAME_BYTES + LOG_LINE_MAX)
/* For the fields beside the text. */
#define JOURNAL_ENTRY_MAX (JOURNAL_LINE_MAX + 96)

/*
 * Entries go to the socket at @path from now on. 0 or a negative errno; whether a journal listens
 * there shows when an entry is sent.
 */
int journal_open(const char *path);
void journal_close(void);
bool journal_is_open(void);

/*
 * Writes @line, which is for the journal ("<5>ready\n"), with the calling thread's name before it
 * to @to, for journal_write(). Returns its length.
 */
size_t journal_line(char to[JOURNAL_LINE_MAX], const char *line, size_t length);

/* The entry of a line of journal_line(), or of one without a thread. Returns its length. */
size_t journal_entry(char entry[JOURNAL_ENTRY_MAX], const char *line, size_t length);

/*
 * Sends the first of the lines of @length bytes, and waits for LINE_WRITER_WAIT_MS at most. If the
 * journal does not take it, it goes to stderr without its fields, after a line that says so once.
 * Returns its bytes; 0: it takes none now; or a negative errno of stderr. Handlers of signals may
 * call it.
 */
ssize_t journal_write(const char *lines, size_t length);

#endif /* KVD_SERVER_JOURNAL_H */
