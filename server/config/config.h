/* SPDX-License-Identifier: MIT */
/*
 * The server's configuration: struct config, filled in from defaults, a file and `-o
 * section.key=value`.
 *
 *	config_init(&config);
 *	if (config_load(&config, path) || config_set(&config, "server.workers=2") ||
 *	    config_check(&config))
 *		exit(EX_CONFIG);
 *
 * Errors are written to stderr, one line each, as `file:line: message` or `-o: message`. A file
 * that has errors changes nothing. Not for use by several threads at once.
 */
#ifndef KVD_SERVER_CONFIG_CONFIG_H
#define KVD_SERVER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/rdma/device.h"
#include "server/config/option_table.h"

/* The field of an option of each kind: server/config/option_table.h. */
#define OPTION_FIELD_UINT(name) uint32_t name
#define OPTION_FIELD_COUNT(name) uint64_t name
#define OPTION_FIELD_SIZE(name) uint64_t name
#define OPTION_FIELD_TIME(name) uint64_t name
#define OPTION_FIELD_BOOL(name) bool name
#define OPTION_FIELD_MODE(name) uint32_t name
#define OPTION_FIELD_DEVICES(name) uint32_t name
#define OPTION_FIELD_POLL(name) uint32_t name
#define OPTION_FIELD_HUGEPAGES(name) uint32_t name
#define OPTION_FIELD_EVICTION(name) uint32_t name
#define OPTION_FIELD_LEVEL(name) uint32_t name
#define OPTION_FIELD_ADDRESS(name) char name[DEVICE_HOST_MAX]
#define OPTION_FIELD_NUMA(name) char name[OPTION_NUMA_MAX]
#define OPTION_FIELD_SOCKET(name) char name[DEVICE_PATH_MAX]
#define OPTION_FIELD_FILE(name) char name[OPTION_FILE_MAX]

/* config.server.workers, config.softnic.socket, ...: named by section and key. */
struct config {
#define X(section, key, kind, text, min, max, help) OPTION_FIELD_##kind(key);
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
 * Sets the options that the file at @path has and keeps the others. Returns 0; -EINVAL after
 * reporting all errors in the file, CONFIG_ERRORS_MAX at most; or another negative errno if it
 * can't be read.
 */
int config_load(struct config *config, const char *path);

/* Sets one option, `section.key=value`. Returns 0, or -EINVAL after reporting the error. */
int config_set(struct config *config, const char *assignment);

/* Checks that the options fit each other. Returns 0, or -EINVAL after reporting all that do not. */
int config_check(const struct config *config);

/*
 * Writes a file from which config_load() reads the same configuration; a comment at its end says
 * how the region is divided.
 */
void config_print(const struct config *config, FILE *out);

/* Writes the list of options for --help: name, default, meaning, domain. */
void config_help(FILE *out);

#endif /* KVD_SERVER_CONFIG_CONFIG_H */
