/* SPDX-License-Identifier: MIT */
/* A file of users for unit tests. Threads: none. */
#ifndef KVD_TESTS_SUPPORT_USERS_FILE_H
#define KVD_TESTS_SUPPORT_USERS_FILE_H

#include <sys/types.h>

/* Writes @text to the file @path, which it replaces, and fails the test if it can't. */
void users_file_write(const char *path, const char *text, mode_t mode);

#define USERS_OPTION_BYTES 64
/* Writes @text to a new file in /tmp, and sets @option to "users.file=" and its path. */
void users_option_begin(char option[USERS_OPTION_BYTES], const char *text);
/* Removes that file. */
void users_option_end(const char *option);

#endif /* KVD_TESTS_SUPPORT_USERS_FILE_H */
