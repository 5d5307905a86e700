/* SPDX-License-Identifier: MIT */
/* kvctl scan: the keys of a server. */
#include <stdio.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/key.h"
#include "client/kvctl/report.h"

/* Writes a line; returns not 0 if that failed. */
static int print_entry(void *arg, const struct kvd_entry *entry)
{
	const struct arguments *arguments = arg;

	key_print(stdout, arguments, entry->key, entry->key_len);
	if (arguments->verbose.given) {
		putchar('\t');
		if (entry->value)
			fwrite(entry->value, 1, entry->item.value_len, stdout);
		else
			printf("(%zu bytes)", entry->item.value_len);
	}
	putchar('\n');
	return ferror(stdout);
}

int command_scan(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_scan_args args = { .values = arguments->verbose.given };
	struct arguments copy = *arguments;
	enum kvd_status status;
	struct key prefix;
	uint64_t cursor = 0;
	int code;

	if (arguments->word_count > 0) {
		if (key_parse(&prefix, arguments, arguments->words[0]))
			return EX_USAGE;
		args.prefix = prefix.bytes;
		args.prefix_len = prefix.len;
	}
	do {
		status = kvd_scan(db, &cursor, &args, print_entry, &copy);
	} while (!status && cursor && !ferror(stdout));
	code = output_flush();
	return code ? code : report(db, status);
}
