/* SPDX-License-Identifier: MIT */
/* Memory for secrets, and files of them: see secret.h. */
#include "common/util/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/trusted_file.h"

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

/* Without stdio, which would leave a copy in the heap. */
static const char *text_read(struct secret_file *secret, int fd)
{
	const char *wrong = NULL;
	ssize_t length;

	secret->text = secret_alloc(SECRET_FILE_MAX);
	if (!secret->text)
		return "no memory";
	length = read(fd, secret->text, SECRET_FILE_MAX);
	if (length < 0)
		wrong = strerror(errno);
	else if ((size_t)length == SECRET_FILE_MAX)
		wrong = "it is longer than 1 MiB";
	if (wrong)
		secret_file_release(secret);
	else
		secret->length = (size_t)length;
	return wrong;
}

const char *secret_file_read(struct secret_file *secret, const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *wrong;

	if (fd < 0)
		return strerror(errno);
	wrong = trusted_file_check(fd, true);
	if (!wrong)
		wrong = text_read(secret, fd);
	close(fd);
	return wrong;
}

void secret_file_release(struct secret_file *secret)
{
	secret_free(secret->text, SECRET_FILE_MAX);
	secret->text = NULL;
}
