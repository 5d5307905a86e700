/* SPDX-License-Identifier: MIT */
/* The array of commands: see command.h. */
#include "client/kvctl/command.h"

#include <string.h>

const struct command commands[] = {
#define X(name, group, words, min, max, kind, help)                                                \
	{ #name, GROUP_##group, words, min, max, kind, command_##name, help },
	KVCTL_COMMANDS(X)
#undef X
};

const size_t command_row_count = sizeof(commands) / sizeof(commands[0]);

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < command_row_count; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

bool command_is_among(const struct command *command, const char *names)
{
	if (!strcmp(names, FOR_ALL) || !strcmp(names, FOR_CONNECTION))
		return true;
	if (!command)
		return !strcmp(names, FOR_NONE);
	while (*names) {
		const size_t len = strcspn(names, " ");

		if (len == strlen(command->name) && !memcmp(names, command->name, len))
			return true;
		names += len;
		names += strspn(names, " ");
	}
	return false;
}
