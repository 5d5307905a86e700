/* SPDX-License-Identifier: MIT */
/*
 * Messages to systemd (sd_notify(3)): ready, reloading, stopping, and signs of life for its
 * watchdog. Nothing happens where $NOTIFY_SOCKET is not set.
 *
 * The protocol is stable and documented: one datagram of VARIABLE=value lines. libsystemd, which
 * would send it, is a library of 900 KB that brings three more; this is one sendto(2).
 */
#ifndef KVD_SERVER_NOTIFY_H
#define KVD_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID. Errors are logged, and kvd runs on. */
void notify_init(void);
void notify_release(void);

/*
 * Sends lines like "READY=1\nSTATUS=...". Waits for NOTIFY_WAIT_MS at most if systemd does not
 * read; a message that can't be sent is lost.
 */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Announces a reload, which READY=1 ends. */
void notify_reloading(void);

#define NOTIFY_WAIT_MS 100

/* Whether @fd is the stream to the journal that systemd gave the process: $JOURNAL_STREAM. */
bool notify_is_journal(int fd);

/* The watchdog's timeout: WATCHDOG=1 is due within it, in ns; 0: there is no watchdog. */
uint64_t notify_watchdog_ns(void);

#endif /* KVD_SERVER_NOTIFY_H */
