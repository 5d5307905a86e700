/* SPDX-License-Identifier: MIT */
/* Memory for secrets: see secret.h. */
#include "common/util/secret.h"

#include <string.h>
#include <sys/mman.h>

void *secret_alloc(size_t bytes)
{
	void *secret = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	if (secret == MAP_FAILED)
		return NULL;
	if (!madvise(secret, bytes, MADV_DONTDUMP))
		return secret;
	munmap(secret, bytes);
	return NULL;
}

void secret_free(void *secret, size_t bytes)
{
	if (!secret)
		return;
	explicit_bzero(secret, bytes);
	munmap(secret, bytes);
}
