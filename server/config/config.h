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
 * Errors are written to stderr, or to the log, one line each, as `file:line: message` or `-o:
 * message`. A file that has errors changes nothing. Not for use by several threads at once.
 */
#ifndef KVD_SERVER_CONFIG_CONFIG_H
#define KVD_SERVER_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "server/config/option_table.h"

/* Sets every option to its default. */
void config_init(struct config *config);

/*
 * Sets the options that the file at @path has and keeps the others. Returns 0; -EINVAL after
 * reporting all errors in the file, CONFIG_ERRORS_MAX at most; or another negative errno if it
 * can't be read.
 */
int config_load(struct config *config, const char *path);

/* Where a file has what it sets: numbers of lines, from 1; 0: nowhere. */
struct config_places {
	unsigned int first[OPTION_COUNT], last[OPTION_COUNT]; /* lines of an option's value */
	unsigned int section[OPTION_SECTION_COUNT];	      /* the lines of [section] */
};

/* As config_load(); fills in @places, unless it is NULL. */
int config_load_places(struct config *config, const char *path, struct config_places *places);

/* Sets one option, `section.key=value`. Returns 0, or -EINVAL after reporting the error. */
int config_set(struct config *config, const char *assignment);

/*
 * As config_set(), for CONFIG set: also refuses an option that needs a restart, naming the @file to
 * change (NULL: there is none), and one that @set marks already; then marks it.
 */
int config_set_live(struct config *config, const char *assignment, const char *file,
		    bool set[OPTION_COUNT]);

/* Checks that the options fit each other. Returns 0, or -EINVAL after reporting all that do not. */
int config_check(const struct config *config);

/* What a server says of itself in a fleet that is in etcd. */
struct config_member {
	char id[FLEET_NAME_MAX + 1];
	char urls[FLEET_URLS_MAX + 1];
};

/*
 * Fills in fleet.member and fleet.url, or what is taken for them if they are not set. Returns 0, or
 * -EINVAL after reporting that this host's name, or server.listen, can't be.
 */
int config_member(const struct config *config, struct config_member *member);

/* Bytes of the largest value: limits.max_value, with auto resolved. */
uint64_t config_value_max(const struct config *config);
/* The most that memory.size can be: memory.max, or memory.size if that can't change. */
uint64_t config_memory_max(const struct config *config);
/* Bytes of an extent of the region. */
uint64_t config_extent_bytes(const struct config *config);
/* The number of worker threads: server.workers, or one for each CPU, at most WORKERS_MAX. */
unsigned int config_workers(const struct config *config);
/*
 * The bytes of memory.pull_share in a store of @bytes whose index starts at @level, and the largest
 * value that fits them with a key of any length.
 */
uint64_t config_pull_bytes(const struct config *config, uint64_t bytes, uint32_t level);
uint64_t config_value_fits(const struct config *config, uint64_t bytes, uint32_t level);

/* The sources of a configuration, read at the start and on SIGHUP. */
struct config_source {
	const char *file;	  /* or NULL */
	const char **assignments; /* of -o, in the order given */
	unsigned int count;
};

/* Reads defaults, file and assignments, and checks the result. 0, or a negative errno, reported. */
int config_read(struct config *config, const struct config_source *source);

/* From now on errors go to the log: a server that has started may have lost its stderr. */
void config_errors_to_log(void);

/*
 * From now on the first error is kept in @errors, with a word if there are more, and not reported;
 * NULL: errors are reported again.
 */
struct config_errors {
	char text[512];
};
void config_errors_keep(struct config_errors *errors);

/* Reports an error, as the functions above do. @line 0: the place is no line of a file. */
void config_report(const char *place, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* An option that changed, with both values as text. */
struct config_change {
	unsigned int option; /* its number */
	bool live;	     /* it can change while the server runs */
	const char *section, *key, *from, *to;
};

/* Calls @changed for each option that differs, in the order of the table. */
void config_compare(const struct config *old, const struct config *new,
		    void (*changed)(const struct config_change *change, void *context),
		    void *context);

/* Sets the option of this number to its value in @fresh. Other threads may stat_read() it. */
void config_take(struct config *config, const struct config *fresh, unsigned int number);

/* Whether @assignment, `section.key=value`, sets the option of this number. */
bool config_assigns(const char *assignment, unsigned int number);

/* Writes `key = value`, a list on as many lines as it needs. */
void config_print_option(const struct config *config, unsigned int number, FILE *out);

/* Writes a line `section.key = value` for each option. */
void config_list(const struct config *config, FILE *out);

/*
 * Writes a file from which config_load() reads the same configuration. A comment at its end says
 * how the region is divided and how large a value may be.
 */
void config_print(const struct config *config, FILE *out);

/* Writes the list of options for --help: name, default, meaning, domain. */
void config_help(FILE *out);

#endif /* KVD_SERVER_CONFIG_CONFIG_H */
