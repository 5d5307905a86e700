/* SPDX-License-Identifier: MIT */
/* Looks up what bounds the process's locked memory. */
#include "common/util/memlock.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In the effective set. The libc has no function for it. */
bool memlock_is_lifted(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	return !syscall(SYS_capget, &header, data) &&
	       (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK));
}

const char *memlock_why(char text[MEMLOCK_WHY_BYTES])
{
	struct rlimit limit;

	text[0] = '\0';
	if (!memlock_is_lifted() && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		snprintf(text, MEMLOCK_WHY_BYTES,
			 "; this process may lock %" PRIu64 " KiB of memory (RLIMIT_MEMLOCK), and "
			 "the device locks what is registered: raise it (ulimit -l, LimitMEMLOCK= "
			 "of a systemd unit), or grant CAP_IPC_LOCK",
			 (uint64_t)limit.rlim_cur / 1024);
	return text;
}
