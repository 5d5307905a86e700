/* SPDX-License-Identifier: MIT */
/*
 * Runs the main() of a program that a test compiles, each time in a child process: it may call
 * exit(), and finds getopt() and its variables as they are when a program starts.
 */
#ifndef KVD_TESTS_SUPPORT_PROGRAM_RUN_H
#define KVD_TESTS_SUPPORT_PROGRAM_RUN_H

#include <stddef.h>

/* Files of the next runs; all 0 for a program without input, whose output is kept. */
struct program_files {
	const void *input; /* what is read from the standard input */
	size_t input_len;
	const char *input_path, *output_path; /* files to use instead */
};

/* Result of the last run. */
struct program_result {
	char out[200000]; /* standard output */
	char err[16384];  /* standard error */
	char notes[4096]; /* what the child noted */
	size_t out_len;
};

extern struct program_files program_files;
extern struct program_result program_result;

/* @words: the arguments, the program's name not included, up to NULL. Returns the exit status. */
int program_run(int (*program)(int argc, char **argv), const char *name, const char *const *words);

/* In the child, for the functions that the program calls: adds to its notes. */
void program_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the test if the text is not in the standard error of the last run. */
void program_assert_said(const char *text);

#endif /* KVD_TESTS_SUPPORT_PROGRAM_RUN_H */
