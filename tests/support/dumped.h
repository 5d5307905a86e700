/* SPDX-License-Identifier: MIT */
/* Whether a core dump of this process would have a page. */
#ifndef KVD_TESTS_SUPPORT_DUMPED_H
#define KVD_TESTS_SUPPORT_DUMPED_H

#include <stdbool.h>

/* Fails the test if nothing is mapped at @address. */
bool is_dumped(const void *address);
bool is_mapped(const void *address);

#endif /* KVD_TESTS_SUPPORT_DUMPED_H */
