/* SPDX-License-Identifier: MIT */
/*
 * Lets a call of a program fail, chosen by where it stands: the linker (--wrap, see the Makefile)
 * leads each call of calls.h here. The environment has the plan:
 *
 *	KVD_NTH=CALL:OFFSET:FROM:COUNT[:other]
 *		the FROM-th to the (FROM + COUNT - 1)-th time that CALL is made at OFFSET (of the
 *		return address, in the program's file), it fails; COUNT 0: each time from then on
 *	KVD_NTH_REPORT=FILE	how often each site was reached, and what was left at the end
 *
 * Calls that libraries make are not led here.
 */
#ifndef KVD_TESTS_NTH_INTERPOSE_H
#define KVD_TESTS_NTH_INTERPOSE_H

#include <stdatomic.h>
#include <stdint.h>

#define NTH_SITES_MAX 4096u
#define NTH_NAME_MAX 32
#define NTH_LEFT_MAX 2048

/* The report, which tests/system/nth.py reads. */
struct nth_site {
	_Atomic uint64_t offset; /* of the return address; 0: unused */
	_Atomic uint64_t reached;
	char call[NTH_NAME_MAX];
};

struct nth_report {
	_Atomic uint64_t failed;  /* calls that the plan let fail */
	_Atomic uint64_t ended;	  /* 1: the process came to its end by exit(3) */
	_Atomic int64_t mappings; /* bytes that the program's calls mapped and did not unmap */
	uint64_t threads;	  /* at the end, with that which ends */
	uint64_t fds;		  /* that the program left open */
	char left[NTH_LEFT_MAX];  /* what these are */
	struct nth_site sites[NTH_SITES_MAX];
};

/* From now on all calls work: what a test does after the fault. */
void nth_disarm(void);

/* How many calls the plan let fail. */
uint64_t nth_failed(void);

#endif /* KVD_TESTS_NTH_INTERPOSE_H */
