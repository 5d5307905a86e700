/* SPDX-License-Identifier: MIT */
/*
 * The end of the process by a fatal signal: SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT. First the
 * lines that wait for the log and the audit log are written, then a report
 * (server/crash_report.h); then the signal has its default action, a core dump with the stack as it
 * was.
 *
 *   - A fault in the handler ends the process at once.
 *   - If several threads get such signals, the first one reports, and the others wait for it.
 *   - A signal that already has a handler keeps it: a sanitizer's runtime reports better.
 */
#ifndef KVD_SERVER_CRASH_H
#define KVD_SERVER_CRASH_H

/*
 * Catches the signals. After log_writer_start(), in the main thread, which gets a second stack;
 * other threads get theirs by thread_start().
 */
void crash_catch(void);

/* The signals have their default action again. */
void crash_release(void);

#endif /* KVD_SERVER_CRASH_H */
