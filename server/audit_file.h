/* SPDX-License-Identifier: MIT */
/*
 * The file of the audit log (log.audit), and the thread that writes it (server/line_writer.h). What
 * is lost is counted, and said in the file; a file that takes nothing is reported in the log once.
 */
#ifndef KVD_SERVER_AUDIT_FILE_H
#define KVD_SERVER_AUDIT_FILE_H

#include <stdint.h>

/*
 * Opens the file, with mode 0640 if it is new, and starts the thread. "": there is none, which is
 * no error. After log_writer_start(). 0 or, after logging, a negative errno.
 */
int audit_file_start(const char *path);

/* Writes what waits, and closes the file. No other thread may use the audit log. */
void audit_file_stop(void);

/* Opens the file again by its name, after it was renamed. Does not wait. */
void audit_file_reopen(void);

/* Writes the lines in the ring, from the handler of a fatal signal: line_writer_crash(). */
void audit_file_crash(void);

/* Lines lost since the process started. Any thread. */
uint64_t audit_file_lost(void);

#endif /* KVD_SERVER_AUDIT_FILE_H */
