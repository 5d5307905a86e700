/* SPDX-License-Identifier: MIT */
/* kvctl clients, whoami, kill, revoke and tenant: who uses a server. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/arguments.h"
#include "client/kvctl/command.h"
#include "client/kvctl/json.h"
#include "client/kvctl/report.h"

#define WHOAMI_BYTES 4096
#define TENANTS_BYTES (64u << 10)
#define CLIENTS_BYTES (32u << 20) /* 256 for each connection, at the most that a server takes */

typedef enum kvd_status (*list_fn)(struct kvd *, char *, size_t, size_t *);

/* An object for each line of pairs name=value. */
static void list_json(const char *text)
{
	size_t len;

	for (; *text; text += len) {
		len = strcspn(text, "\n");
		len += text[len] == '\n';
		json_pairs(text, len);
	}
}

static int list_print(struct kvd *db, const struct arguments *arguments, list_fn list, size_t size)
{
	char *text = malloc(size);
	enum kvd_status status;

	if (!text)
		return report_memory();
	status = list(db, text, size, NULL);
	if (!status && arguments->json.given)
		list_json(text);
	else if (!status)
		fputs(text, stdout);
	free(text);
	return report(db, status);
}

int command_clients(struct kvd *db, const struct arguments *arguments)
{
	return list_print(db, arguments, kvd_client_list, CLIENTS_BYTES);
}

/* Prints a line "name value" for each pair. */
static void whoami_print(const char *text)
{
	while (*text && *text != '\n') {
		const size_t len = strcspn(text, " \n"), name_len = strcspn(text, "= \n");
		const char *value = text + name_len + (text[name_len] == '=');
		const int value_len = (int)(text + len - value);

		if (!value_len && name_len == 4 && !memcmp(text, "user", 4))
			puts("user (none: the server has no users, and allows everything)");
		else
			printf("%.*s %.*s\n", (int)name_len, text, value_len, value);
		text += len;
		text += strspn(text, " ");
	}
}

int command_whoami(struct kvd *db, const struct arguments *arguments)
{
	char text[WHOAMI_BYTES];
	enum kvd_status status = kvd_whoami(db, text, sizeof(text), NULL);

	if (!status && arguments->json.given)
		list_json(text);
	else if (!status)
		whoami_print(text);
	return report(db, status);
}

int command_kill(struct kvd *db, const struct arguments *arguments)
{
	uint64_t id;

	if (parse_number(arguments->words[0], 0, UINT64_MAX, &id))
		return EX_USAGE;
	return report_change(db, arguments, kvd_client_kill(db, id));
}

static void revoke_json(uint64_t closed)
{
	struct json json;

	json_begin(&json, stdout);
	json_open(&json, NULL, '{');
	json_number(&json, "closed", closed);
	json_close(&json, '}');
	json_end(&json);
}

int command_revoke(struct kvd *db, const struct arguments *arguments)
{
	uint64_t closed;
	enum kvd_status status = kvd_revoke(db, arguments->words[0], &closed);

	if (!status && arguments->json.given)
		revoke_json(closed);
	else if (!status)
		printf("%" PRIu64 " connections closed\n", closed);
	return report(db, status);
}

typedef enum kvd_status (*size_fn)(struct kvd *, const char *, uint64_t);

static int tenant_size(struct kvd *db, const struct arguments *arguments, size_fn set)
{
	uint64_t bytes;

	if (parse_bytes(arguments->words[2], &bytes))
		return EX_USAGE;
	return report_change(db, arguments, set(db, arguments->words[1], bytes));
}

int command_tenant(struct kvd *db, const struct arguments *arguments)
{
	char *const *words = arguments->words;
	int count = arguments->word_count;

	if (!strcmp(words[0], "list") && count == 1)
		return list_print(db, arguments, kvd_tenant_list, TENANTS_BYTES);
	if (!strcmp(words[0], "create") && count == 3)
		return tenant_size(db, arguments, kvd_tenant_create);
	if (!strcmp(words[0], "resize") && count == 3)
		return tenant_size(db, arguments, kvd_tenant_resize);
	if (!strcmp(words[0], "drop") && count == 2)
		return report_change(db, arguments, kvd_tenant_drop(db, words[1]));
	return usage_error(words[0], "list, create NAME SIZE, resize NAME SIZE or drop NAME");
}
