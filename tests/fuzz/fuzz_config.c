/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of configuration files: in an accepted file all options are in their ranges, and what
 * --print-config prints of it is read back to the same options.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/config/config.h"
#include "tests/fuzz/fuzz.h"

#define FILE_MAX 65536

static int file;
static char path[64];

/* config_load() writes errors to stderr, which libFuzzer does not use as a stream. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	stderr = fopen("/dev/null", "we");
	file = memfd_create("fuzz-config", MFD_CLOEXEC);
	must(stderr && file >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return 0;
}

static int load(struct config *config, const void *text, size_t size)
{
	must(!ftruncate(file, 0));
	must(pwrite(file, text, size, 0) == (ssize_t)size);
	config_init(config);
	return config_load(config, path);
}

static size_t print(const struct config *config, char *text)
{
	FILE *out = fmemopen(text, FILE_MAX, "w");
	size_t size;

	must(out);
	config_print(config, out);
	size = (size_t)ftell(out);
	must(!fclose(out) && size < FILE_MAX - 1);
	return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char first[FILE_MAX], second[FILE_MAX];
	struct config config;
	size_t length;

	if (size > FILE_MAX || load(&config, data, size))
		return 0;
	must(config.memory.size >= OPTION_MIB(16) && config.server.workers <= 64);
	config_check(&config);
	length = print(&config, first);
	must(!load(&config, first, length));
	must(print(&config, second) == length && !memcmp(first, second, length));
	return 0;
}
