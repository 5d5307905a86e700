/* SPDX-License-Identifier: MIT */
/*
 * How kvctl prints errors, with the line of a script that they are of. There is no other way to
 * print one (`make lint` checks it), so that a terminal obeys no name or URL that is in its text.
 */
#ifndef KVD_CLIENT_KVCTL_ERROR_H
#define KVD_CLIENT_KVCTL_ERROR_H

#include <stdint.h>

/*
 * The line of a script that runs now, which errors name; 0: none. Of a script only the first
 * LINE_ERRORS_SHOWN errors are printed, and that there are more.
 */
#define LINE_ERRORS_SHOWN 10u
void report_line(uint64_t line);
uint64_t report_line_now(void);
/*
 * Prints an error, with the line if there is one. What a terminal would obey, in keys say, is
 * printed as '?'.
 */
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Likewise a line that is no error, or says more of the error before it; it is always printed. */
void report_about(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Likewise a line on the standard output. */
void report_result(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* KVD_CLIENT_KVCTL_ERROR_H */
