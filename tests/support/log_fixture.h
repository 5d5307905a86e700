/* SPDX-License-Identifier: MIT */
/*
 * The log fixture for unit tests that look at what a module logs: a folder of the program's own
 * with the file of the log in it. Threads: none.
 */
#ifndef KVD_TESTS_SUPPORT_LOG_FIXTURE_H
#define KVD_TESTS_SUPPORT_LOG_FIXTURE_H

extern char test_log_dir[];
extern char test_log_path[64];

/* A group's setup and teardown: make the folder, and remove it with the log. */
int test_log_group_setup(void **state);
int test_log_group_teardown(void **state);

/* Begins an empty log, of notices and what is worse. Returns as log_init(). */
int test_log_begin(void);

/* What has been logged since it began; valid until the next call. */
const char *test_log_text(void);
unsigned int test_log_lines(void);

/* Fails the test unless @text was logged. */
void assert_logged(const char *text);

#endif /* KVD_TESTS_SUPPORT_LOG_FIXTURE_H */
