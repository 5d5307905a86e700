/* SPDX-License-Identifier: MIT */
/*
 * Prints kvctl's errors, with the script's line that caused them. No error is printed elsewhere
 * (`make lint` checks that), so that a terminal obeys no name or URL in an error's text.
 */
#ifndef KVD_CLIENT_KVCTL_ERROR_H
#define KVD_CLIENT_KVCTL_ERROR_H

#include <stdint.h>

/*
 * The line of a script that runs now, which errors name; 0: none. Only a script's first
 * LINE_ERRORS_SHOWN errors are printed, followed by a note that there are more.
 */
#define LINE_ERRORS_SHOWN 10u
void report_line(uint64_t line);
uint64_t report_line_now(void);
/* The member of a fleet that errors, and records of JSON, are about now; NULL: none. */
void report_member(const char *id);
const char *report_member_now(void);
/*
 * Prints an error, with the line and the member if there are any. Bytes that a terminal would obey,
 * for example in keys, are printed as '?'.
 */
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a note or a detail of the previous error in the same way; it is always printed. */
void report_about(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a line in the same way on the standard output. */
void report_result(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* KVD_CLIENT_KVCTL_ERROR_H */
