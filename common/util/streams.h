/* SPDX-License-Identifier: MIT */
/* The standard streams of a program: that they exist, and that what was printed has arrived. */
#ifndef KVD_COMMON_UTIL_STREAMS_H
#define KVD_COMMON_UTIL_STREAMS_H

/*
 * The first thing that a program does. A standard descriptor that the caller has closed would be
 * given to the next file or socket, and what is printed would go there: /dev/null takes its place.
 * Who reads or prints there gets EBADF; messages to stderr are lost. Each line on stderr is one
 * write(2), so that lines of several processes do not mix. A file that reaches RLIMIT_FSIZE is an
 * error of write(2), as a full disk is, and no signal.
 *
 * Returns 0, or a negative errno after printing that there is no /dev/null.
 */
int streams_init(const char *program);

/*
 * Writes what was printed to stdout. Returns 0, or a negative errno if this or anything printed
 * before could not be written, after printing so; the next call begins anew.
 */
int streams_flush(const char *program);

#endif /* KVD_COMMON_UTIL_STREAMS_H */
