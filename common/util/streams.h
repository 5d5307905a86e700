/* SPDX-License-Identifier: MIT */
/* The standard streams of a program: makes sure that they exist, and that output was written. */
#ifndef KVD_COMMON_UTIL_STREAMS_H
#define KVD_COMMON_UTIL_STREAMS_H

/*
 * Call this first in a program. The next file or socket would get a standard descriptor that the
 * caller has closed, and output would go there: /dev/null takes its place. Reading or printing
 * there fails with EBADF; messages to stderr are lost. Each line on stderr is one write(2), so that
 * lines of several processes do not mix. At RLIMIT_FSIZE write(2) fails, as on a full disk, instead
 * of raising a signal.
 *
 * Returns 0, or a negative errno after printing that there is no /dev/null.
 */
int streams_init(const char *program);

/*
 * Flushes stdout. Returns 0, or a negative errno after printing a message, if this or any earlier
 * output could not be written; the next call starts afresh.
 */
int streams_flush(const char *program);

#endif /* KVD_COMMON_UTIL_STREAMS_H */
