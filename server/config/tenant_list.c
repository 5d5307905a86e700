/* SPDX-License-Identifier: MIT */
/* Decodes a list of tenants with their sizes. */
#include "server/config/tenant_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/config/option_table.h"

bool tenant_name_valid(const char *name)
{
	char padded[WIRE_TENANT_MAX] = "";
	size_t length = strlen(name);

	if (!length || length > sizeof(padded) || !strcmp(name, TENANT_DEFAULT))
		return false;
	memcpy(padded, name, length);
	return wire_tenant_length(padded);
}

int tenant_list_next(const char **at, struct tenant_entry *entry, struct parse_why *why)
{
	char word[OPTION_LIST_MAX], *colon;
	size_t length;

	*at += strspn(*at, " ");
	length = strcspn(*at, ",");
	if (length >= sizeof(word))
		length = sizeof(word) - 1;
	memcpy(word, *at, length);
	while (length && word[length - 1] == ' ')
		length--;
	word[length] = '\0';
	*at += strcspn(*at, ",");
	*at += **at == ',';
	colon = strchr(word, ':');
	if (!colon) {
		snprintf(why->text, sizeof(why->text),
			 "'%.40s' is no tenant: give NAME:SIZE, like alpha:64m, several with "
			 "commas between them",
			 word);
		return -EINVAL;
	}
	*colon++ = '\0';
	if (!tenant_name_valid(word)) {
		snprintf(why->text, sizeof(why->text),
			 "'%.40s' can't be the name of a tenant: " TENANT_NAME_RULE, word);
		return -EINVAL;
	}
	strcpy(entry->name, word);
	return parse_size(colon, OPTION_TENANT_MIN, OPTION_GIB(512), &entry->bytes, why);
}
