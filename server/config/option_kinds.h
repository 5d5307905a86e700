/* SPDX-License-Identifier: MIT */
/*
 * Option kinds: how the text of each kind of option (size, time, device, ...) is parsed, printed
 * and described; and option_table[], the options of server/config/option_table.h at run time. Only
 * server/config/config.c, which knows files and sections, and server/config/rewrite.c use them.
 */
#ifndef KVD_SERVER_CONFIG_OPTION_KINDS_H
#define KVD_SERVER_CONFIG_OPTION_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/parse.h"
#include "server/config/option_table.h"

/* Bytes of any option's value or domain as text, the zero included. */
#define OPTION_TEXT_MAX OPTION_LIST_MAX

struct option_kind;

struct config_option {
	const char *section;
	const char *key;
	const struct option_kind *kind;
	enum option_change change;
	size_t offset;	  /* of the field in struct config */
	size_t size;	  /* of the field */
	const char *text; /* the default, as text */
	uint64_t min;
	uint64_t max;
	const char *help;
};

/* In the order of the table. */
extern const struct config_option option_table[OPTION_COUNT];

/* Whether the value is a comma-separated list, which may continue on further lines. */
bool option_is_list(const struct config_option *option);

/* Parses @text into @field. Returns 0, or fills in @why and returns -EINVAL or -ERANGE. */
int option_parse(const struct config_option *option, const char *text, void *field,
		 struct parse_why *why);

/* The value of @field as text for option_parse(). @buffer holds OPTION_TEXT_MAX bytes. */
const char *option_format(const struct config_option *option, const void *field, char *buffer);

/*
 * The values that the option may have: "0 to 64", "yes | no". @buffer holds OPTION_TEXT_MAX bytes.
 */
const char *option_domain(const struct config_option *option, char *buffer);

#endif /* KVD_SERVER_CONFIG_OPTION_KINDS_H */
