/* SPDX-License-Identifier: MIT */
/*
 * The report of a fatal signal, on stderr and in the log's file: the signal and the address, kvd's
 * version, the thread, what each worker was doing, and the calls that led there. It has no keys and
 * no values: no memory of items or messages is read for it.
 *
 * The calls are found by backtrace(3), which needs no other library than the compiler's and unwinds
 * the C library's functions too, which have no frame pointers. It is not async-signal-safe the
 * first time, when it loads libgcc, so it is called once before; later it takes no lock, as
 * _dl_find_object(3), which also names a call's file, takes none. The lines of code need debug
 * information, so they are left to addr2line(1).
 */
#ifndef KVD_SERVER_CRASH_REPORT_H
#define KVD_SERVER_CRASH_REPORT_H

#include <signal.h>

struct net;

/* Loads what the report needs. */
void crash_report_prepare(void);

/* From now on the report shows the workers of @net; NULL: none. */
void crash_report_workers(const struct net *net);

/*
 * Writes the report. Only for a handler of a signal, with what it was called with. A descriptor
 * that takes nothing holds it up for a moment only.
 */
void crash_report(const siginfo_t *info, const void *context);

#endif /* KVD_SERVER_CRASH_REPORT_H */
