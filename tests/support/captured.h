/* SPDX-License-Identifier: MIT */
/*
 * What a function of a program prints to stdout or stderr, for tests of programs' texts and
 * figures. One stream at a time.
 */
#ifndef KVD_TESTS_SUPPORT_CAPTURED_H
#define KVD_TESTS_SUPPORT_CAPTURED_H

#include <stdio.h>

/* From here on what is printed to @stream is kept. */
void captured_begin(FILE *stream);

/* Lets the stream go where it went before. Returns what was printed, until the next begin. */
const char *captured_end(void);

#endif /* KVD_TESTS_SUPPORT_CAPTURED_H */
