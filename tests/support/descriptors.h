/* SPDX-License-Identifier: MIT */
/* How many descriptors the process has open: a test compares before and after. */
#ifndef KVD_TESTS_SUPPORT_DESCRIPTORS_H
#define KVD_TESTS_SUPPORT_DESCRIPTORS_H

/* With two entries for folders and the one that it opens itself. Aborts without /proc. */
unsigned int descriptors(void);

#endif /* KVD_TESTS_SUPPORT_DESCRIPTORS_H */
