/* SPDX-License-Identifier: MIT */
/*
 * The server's configuration: defaults, then the file, then `-o section.key=value`.
 *
 *	config_init(&config);
 *	if (config_load(&config, path) || config_set(&config, "server.workers=2") ||
 *	    config_check(&config))
 *		exit(EX_CONFIG);
 *
 * What is wrong is written to stderr, one line each, as `file:line: message` or `-o: message`;
 * a file that has errors changes nothing. Not for use by several threads at once.
 */
#ifndef KVD_SERVER_CONFIG_CONFIG_H
#define KVD_SERVER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/rdma/device.h"
#include "server/config/option_table.h"

#define OPTION_TYPE_UINT(name) uint32_t name
#define OPTION_TYPE_COUNT(name) uint64_t name
#define OPTION_TYPE_SIZE(name) uint64_t name
#define OPTION_TYPE_TIME(name) uint64_t name
#define OPTION_TYPE_BOOL(name) bool name
#define OPTION_TYPE_MODE(name) uint32_t name
#define OPTION_TYPE_DEVICES(name) uint32_t name
#define OPTION_TYPE_POLL(name) uint32_t name
#define OPTION_TYPE_HUGEPAGES(name) uint32_t name
#define OPTION_TYPE_EVICTION(name) uint32_t name
#define OPTION_TYPE_LEVEL(name) uint32_t name
#define OPTION_TYPE_ADDRESS(name) char name[DEVICE_HOST_MAX]
#define OPTION_TYPE_NUMA(name) char name[OPTION_NUMA_MAX]
#define OPTION_TYPE_SOCKET(name) char name[DEVICE_PATH_MAX]
#define OPTION_TYPE_FILE(name) char name[OPTION_FILE_MAX]

/* config.server.workers, config.softnic.socket, ...: section and key as in the file. */
struct config {
#define X(section, key, kind, text, min, max, help) OPTION_TYPE_##kind(key);
#define S(section)                                                                                 \
	struct {                                                                                   \
		OPTIONS_##section(X)                                                               \
	} section;
	OPTION_SECTIONS(S)
#undef S
#undef X
};

/* Sets every option to its default. */
void config_init(struct config *config);

/*
 * Reads the options that the file at path gives and leaves the others. Returns 0; -EINVAL after
 * reporting every error in the file; or another negative errno if it can't be read.
 */
int config_load(struct config *config, const char *path);

/* One `section.key=value`. Returns 0 or -EINVAL. */
int config_set(struct config *config, const char *assignment);

/* Whether the options fit each other. Returns 0 or -EINVAL after reporting all that do not. */
int config_check(const struct config *config);

/*
 * Writes a file that config_load() reads back to the same configuration, and at its end a comment:
 * how the region will be divided.
 */
void config_print(const struct config *config, FILE *out);

/* Writes the list of options for --help: name, default, meaning, what it may be. */
void config_help(FILE *out);

#endif /* KVD_SERVER_CONFIG_CONFIG_H */
