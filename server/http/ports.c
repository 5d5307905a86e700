/* SPDX-License-Identifier: MIT */
#include "server/http/ports.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Bytes of a path, its zero included; no name of a device is as long. */
#define PORTS_PATH_MAX 256
#define NUMBER_MAX 32

/* Whether the file @name of the folder has a number, and that. */
static bool number_read(int folder, const char *name, uint64_t *value)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	char text[NUMBER_MAX], *end;
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*value = strtoull(text, &end, 10);
	return end != text && (*end == '\n' || !*end);
}

static void counter_write(struct exposition *out, const char *device, unsigned int port,
			  const char *name, uint64_t value)
{
	struct labels labels = { 0 };

	label_add(&labels, "device", device);
	label_add_number(&labels, "port", port);
	exposition_number(out, label_add(&labels, "counter", name), value);
}

/* Counters of one folder: `left` more may be written. */
static void folder_write(struct exposition *out, const char *path, const char *device,
			 unsigned int port, unsigned int *left)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	uint64_t value;

	if (!folder)
		return;
	while (*left && (entry = readdir(folder)))
		if (entry->d_type == DT_REG && number_read(dirfd(folder), entry->d_name, &value)) {
			counter_write(out, device, port, entry->d_name, value);
			(*left)--;
		}
	closedir(folder);
}

void ports_write(struct exposition *out, const char *devices, const char *name)
{
	static const char *const kinds[] = { "counters", "hw_counters" };
	char path[PORTS_PATH_MAX];

	for (unsigned int port = 1; port <= PORTS_MAX; port++) {
		unsigned int left = PORT_COUNTERS_MAX;

		for (unsigned int i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "%s/%s/ports/%u/%s", devices, name, port,
				 kinds[i]);
			folder_write(out, path, name, port, &left);
		}
	}
}
