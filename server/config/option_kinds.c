/* SPDX-License-Identifier: MIT */
/* Option kinds: functions to parse and format each kind, and to describe its domain. */
#include "server/config/option_kinds.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/network.h"
#include "server/config/listen_list.h"

struct choice {
	const char *name;
	uint32_t value;
};

struct option_kind {
	int (*parse)(const struct config_option *option, const char *text, void *field,
		     struct parse_why *why);
	void (*format)(const struct config_option *option, const void *field, char *buffer);
	void (*domain)(const struct config_option *option, char *buffer);
	const struct choice *choices; /* of kinds whose value is one of some words, else NULL */
};

static int parse_kind_uint(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	uint64_t value;
	int ret = parse_uint(text, option->min, option->max, &value, why);

	if (ret)
		return ret;
	if (option->size == sizeof(uint32_t))
		*(uint32_t *)field = (uint32_t)value;
	else
		*(uint64_t *)field = value;
	return 0;
}

static void format_kind_uint(const struct config_option *option, const void *field, char *buffer)
{
	uint64_t value = option->size == sizeof(uint32_t) ? *(const uint32_t *)field :
							    *(const uint64_t *)field;

	snprintf(buffer, OPTION_TEXT_MAX, "%" PRIu64, value);
}

static void domain_kind_uint(const struct config_option *option, char *buffer)
{
	snprintf(buffer, OPTION_TEXT_MAX, "%" PRIu64 " to %" PRIu64, option->min, option->max);
}

static int parse_kind_autouint(const struct config_option *option, const char *text, void *field,
			       struct parse_why *why)
{
	if (strcmp(text, "auto") != 0)
		return parse_kind_uint(option, text, field, why);
	*(uint32_t *)field = OPTION_UINT_AUTO;
	return 0;
}

static void format_kind_autouint(const struct config_option *option, const void *field,
				 char *buffer)
{
	if (*(const uint32_t *)field == OPTION_UINT_AUTO)
		strcpy(buffer, "auto");
	else
		format_kind_uint(option, field, buffer);
}

static void domain_kind_autouint(const struct config_option *option, char *buffer)
{
	snprintf(buffer, OPTION_TEXT_MAX, "auto | %" PRIu64 " to %" PRIu64, option->min,
		 option->max);
}

static int parse_kind_size(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	return parse_size(text, option->min, option->max, field, why);
}

static void format_kind_size(const struct config_option *option, const void *field, char *buffer)
{
	(void)option;
	format_size(*(const uint64_t *)field, buffer);
}

static void domain_kind_size(const struct config_option *option, char *buffer)
{
	char low[PARSE_FORMAT_MAX], high[PARSE_FORMAT_MAX];

	snprintf(buffer, OPTION_TEXT_MAX, "%s to %s", format_size(option->min, low),
		 format_size(option->max, high));
}

static int parse_kind_autosize(const struct config_option *option, const char *text, void *field,
			       struct parse_why *why)
{
	if (strcmp(text, "auto") != 0)
		return parse_kind_size(option, text, field, why);
	*(uint64_t *)field = OPTION_SIZE_AUTO;
	return 0;
}

static void format_kind_autosize(const struct config_option *option, const void *field,
				 char *buffer)
{
	if (*(const uint64_t *)field == OPTION_SIZE_AUTO)
		strcpy(buffer, "auto");
	else
		format_kind_size(option, field, buffer);
}

static void domain_kind_autosize(const struct config_option *option, char *buffer)
{
	char low[PARSE_FORMAT_MAX], high[PARSE_FORMAT_MAX];

	snprintf(buffer, OPTION_TEXT_MAX, "auto | %s to %s", format_size(option->min, low),
		 format_size(option->max, high));
}

static int parse_kind_time(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	return parse_time(text, option->min, option->max, field, why);
}

static void format_kind_time(const struct config_option *option, const void *field, char *buffer)
{
	(void)option;
	format_time(*(const uint64_t *)field, buffer);
}

static void domain_kind_time(const struct config_option *option, char *buffer)
{
	char low[PARSE_FORMAT_MAX], high[PARSE_FORMAT_MAX];

	snprintf(buffer, OPTION_TEXT_MAX, "%s to %s", format_time(option->min, low),
		 format_time(option->max, high));
}

static int parse_kind_bool(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	(void)option;
	return parse_bool(text, field, why);
}

static void format_kind_bool(const struct config_option *option, const void *field, char *buffer)
{
	(void)option;
	strcpy(buffer, *(const bool *)field ? "yes" : "no");
}

static void domain_kind_bool(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "yes | no");
}

static int parse_kind_mode(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	(void)option;
	return parse_mode(text, field, why);
}

static void format_kind_mode(const struct config_option *option, const void *field, char *buffer)
{
	(void)option;
	snprintf(buffer, OPTION_TEXT_MAX, "%04o", *(const uint32_t *)field);
}

static void domain_kind_mode(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "0 to 0777, octal");
}

static void domain_kind_choice(const struct config_option *option, char *buffer)
{
	size_t at = 0;

	for (const struct choice *choice = option->kind->choices; choice->name; choice++)
		at += (size_t)snprintf(buffer + at, OPTION_TEXT_MAX - at, "%s%s", at ? " | " : "",
				       choice->name);
}

static int parse_kind_choice(const struct config_option *option, const char *text, void *field,
			     struct parse_why *why)
{
	char domain[OPTION_TEXT_MAX];

	for (const struct choice *choice = option->kind->choices; choice->name; choice++) {
		if (strcmp(choice->name, text) == 0) {
			*(uint32_t *)field = choice->value;
			return 0;
		}
	}
	domain_kind_choice(option, domain);
	snprintf(why->text, sizeof(why->text), "'%.40s' is not one of: %.120s", text, domain);
	return -EINVAL;
}

static void format_kind_choice(const struct config_option *option, const void *field, char *buffer)
{
	const struct choice *choice = option->kind->choices;

	while (choice->name && choice->value != *(const uint32_t *)field)
		choice++;
	strcpy(buffer, choice->name ? choice->name : "?");
}

/* Refuses what inih would strip or take for a comment: --print-config must read back. */
static int check_plain_text(const char *text, struct parse_why *why)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
			strcpy(why->text, "the value has a control character: remove it");
			return -EINVAL;
		}
		if (text[i] == ' ' && (i == 0 || i == length - 1 || strchr(";#", text[i + 1]))) {
			strcpy(why->text,
			       "a space begins or ends the value or stands before ';' or "
			       "'#': comments go on a line of their own");
			return -EINVAL;
		}
	}
	if (length && strchr(";#", text[0])) {
		strcpy(why->text, "the value begins with ';' or '#': comments go on a line of "
				  "their own");
		return -EINVAL;
	}
	return 0;
}

static int parse_kind_file(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	int ret = check_plain_text(text, why);

	if (ret)
		return ret;
	if (strlen(text) >= option->size) {
		snprintf(why->text, sizeof(why->text), "longer than %zu bytes: give a shorter text",
			 option->size - 1);
		return -ERANGE;
	}
	strcpy(field, text);
	return 0;
}

static void format_kind_string(const struct config_option *option, const void *field, char *buffer)
{
	(void)option;
	snprintf(buffer, OPTION_TEXT_MAX, "%s", (const char *)field);
}

static void domain_kind_file(const struct config_option *option, char *buffer)
{
	snprintf(buffer, OPTION_TEXT_MAX, "a path of at most %zu bytes, or nothing",
		 option->size - 1);
}

/*
 * Takes the next word of a list from *@rest: commas separate words, and spaces may surround them. A
 * word that is too long is cut to the @size bytes of @word.
 */
static void list_word(const char **rest, char *word, size_t size)
{
	size_t length, kept;

	*rest += strspn(*rest, " \t");
	length = kept = strcspn(*rest, ",");
	while (kept && strchr(" \t", (*rest)[kept - 1]))
		kept--;
	snprintf(word, size, "%.*s", (int)kept, *rest);
	*rest += length;
}

/* Skips the comma before another word: true if there is one. */
static bool list_more(const char **rest)
{
	return *(*rest) == ',' && (*rest)++;
}

static int parse_kind_listen(const struct config_option *option, const char *text, void *field,
			     struct parse_why *why)
{
	char list[OPTION_LIST_MAX] = "", word[DEVICE_URL_MAX];
	int err;

	if (!strcmp(text, LISTEN_AUTO)) {
		strcpy(field, text);
		return 0;
	}
	if (!*text) {
		strcpy(why->text, "empty: give URLs like rdma://, rdma+tcp://:7472 or softnic://, "
				  "or auto");
		return -EINVAL;
	}
	do {
		list_word(&text, word,
			  sizeof(word)); /* no URL is that long: a cut one is refused */
		err = listen_list_add(list, word, why);
	} while (!err && list_more(&text));
	return err ? err : parse_kind_file(option, list, field, why);
}

static void domain_kind_listen(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "auto | rdma://HOST:PORT, rdma+tcp://HOST:PORT, rdma+tls://HOST:PORT, "
		       "softnic:///PATH, memcached://HOST:PORT, memcached+tls://HOST:PORT, "
		       "memcached:///PATH, with commas between them");
}

/*
 * Parses a list of words, each of which @check takes, or refuses with @why. A comma may not end it.
 */
static int parse_list(const struct config_option *option, const char *text, void *field,
		      int (*check)(const char *word, unsigned int before, struct parse_why *why),
		      struct parse_why *why)
{
	char list[OPTION_LIST_MAX] = "", word[DEVICE_URL_MAX];
	unsigned int count = 0;
	size_t used = 0;

	if (strlen(text) >= option->size)
		return parse_kind_file(option, text, field, why); /* which refuses it */
	while (*text) {
		list_word(&text, word, sizeof(word)); /* a cut one is refused, too */
		if (check(word, count++, why))
			return -EINVAL;
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? "," : "",
					 word);
		if (!list_more(&text))
			break;
		if (!*text) {
			strcpy(why->text, "a comma ends the list: remove it");
			return -EINVAL;
		}
	}
	return parse_kind_file(option, list, field, why);
}

static int network_check(const char *word, unsigned int before, struct parse_why *why)
{
	struct network network;

	(void)before;
	return network_parse(&network, word, why);
}

static int parse_kind_networks(const struct config_option *option, const char *text, void *field,
			       struct parse_why *why)
{
	return parse_list(option, text, field, network_check, why);
}

static void domain_kind_networks(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "networks like 10.9.0.0/24 or fd00::/8, with commas between them, or "
		       "nothing");
}

/* Whether @text is HOST or HOST:PORT; etcd_url_parse() of server/fleet/etcd_url.h knows more. */
static bool is_endpoint(const char *text)
{
	return *text && !text[strcspn(text, "/?#@ ")];
}

static int etcd_check(const char *word, unsigned int before, struct parse_why *why)
{
	const bool plain = !strncmp(word, "http://", 7), tls = !strncmp(word, "https://", 8);

	if ((!plain && !tls) || !is_endpoint(word + (plain ? 7 : 8))) {
		snprintf(why->text, sizeof(why->text),
			 "'%.100s' is not the URL of an etcd: give http://HOST:PORT or "
			 "https://HOST:PORT",
			 word);
		return -EINVAL;
	}
	if (before == OPTION_ETCD_MAX) {
		snprintf(why->text, sizeof(why->text), "more than %d URLs: give fewer",
			 OPTION_ETCD_MAX);
		return -EINVAL;
	}
	return 0;
}

static int parse_kind_etcd(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	return parse_list(option, text, field, etcd_check, why);
}

static void domain_kind_etcd(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "http://HOST:PORT or https://HOST:PORT, with commas between them, or "
		       "nothing");
}

static int url_check(const char *word, unsigned int before, struct parse_why *why)
{
	char reason[sizeof(why->text) - 64];
	struct device_addr addr;
	int err = device_addr_parse(&addr, word, reason, sizeof(reason));

	(void)before;
	if (err)
		snprintf(why->text, sizeof(why->text), "%.60s: %s", word, reason);
	return err;
}

static int parse_kind_urls(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	return parse_list(option, text, field, url_check, why);
}

static void domain_kind_urls(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "rdma://HOST:PORT, rdma+tcp://HOST:PORT, rdma+tls://HOST:PORT, "
		       "softnic:///PATH, with commas between them, or nothing");
}

/* Skips "N" or "N-M", M not less than N. Returns the text after it, or NULL. */
static const char *skip_nodes(const char *text)
{
	unsigned long first, last;
	char *end;

	if (!isdigit((unsigned char)*text))
		return NULL;
	first = strtoul(text, &end, 10);
	if (*end != '-')
		return end;
	text = end + 1;
	if (!isdigit((unsigned char)*text))
		return NULL;
	last = strtoul(text, &end, 10);
	return last < first ? NULL : end;
}

/* Checks only the form: region_create() checks that the host has these nodes. */
static int parse_kind_numa(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	static const char *const words[] = { "default", "local", "interleave" };
	const char *at = text;
	bool known = false;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		known |= strcmp(text, words[i]) == 0;
	while (!known && (at = skip_nodes(at)) && *at == ',')
		at++;
	if (!known && (!at || *at)) {
		snprintf(
			why->text, sizeof(why->text),
			"'%.40s' names no nodes: give default, local, interleave, or nodes like 0, "
			"0-1 or 0,2",
			text);
		return -EINVAL;
	}
	return parse_kind_file(option, text, field, why);
}

static void domain_kind_numa(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "default | local | interleave | nodes like 0, 0-1 or 0,2");
}

static int parse_kind_http(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	struct http_url url;
	int err = *text ? http_url_parse(&url, text, why) : 0;

	return err ? err : parse_kind_file(option, text, field, why);
}

static void domain_kind_http(const struct config_option *option, char *buffer)
{
	(void)option;
	strcpy(buffer, "ADDRESS:PORT, http://ADDRESS:PORT or https://ADDRESS:PORT, or nothing");
}

/* The field is zero after the name, as in the messages. */
static int parse_kind_name(const struct config_option *option, const char *text, void *field,
			   struct parse_why *why)
{
	char name[WIRE_TENANT_MAX + 1] = "";

	assert(option->size == sizeof(name));
	if (strlen(text) < sizeof(name))
		strcpy(name, text);
	if (*text && !wire_tenant_length(name)) {
		snprintf(why->text, sizeof(why->text),
			 "'%.40s' can't be a name: use 1 to %u letters, digits and -_.", text,
			 WIRE_TENANT_MAX);
		return -EINVAL;
	}
	memcpy(field, name, sizeof(name));
	return 0;
}

static void domain_kind_name(const struct config_option *option, char *buffer)
{
	(void)option;
	snprintf(buffer, OPTION_TEXT_MAX, "1 to %u letters, digits and -_., or nothing",
		 WIRE_TENANT_MAX);
}

/* clang-format off */

static const struct choice poll_choices[] = {
	{ "adaptive", POLL_ADAPTIVE },
	{ "busy", POLL_BUSY },
	{ NULL, 0 },
};

static const struct choice style_choices[] = {
	{ "text", LOG_STYLE_TEXT },
	{ "json", LOG_STYLE_JSON },
	{ NULL, 0 },
};

static const struct choice windows_choices[] = {
	{ "auto", WINDOWS_AUTO },
	{ "yes", WINDOWS_YES },
	{ "no", WINDOWS_NO },
	{ NULL, 0 },
};

static const struct choice hugepages_choices[] = {
	{ "auto", HUGEPAGES_AUTO },
	{ "off", HUGEPAGES_OFF },
	{ "2m", HUGEPAGES_2M },
	{ "1g", HUGEPAGES_1G },
	{ "require", HUGEPAGES_REQUIRE },
	{ NULL, 0 },
};

static const struct choice recover_choices[] = {
	{ "verify", RECOVER_VERIFY },
	{ "cold", RECOVER_COLD },
	{ NULL, 0 },
};

static const struct choice eviction_choices[] = {
	{ "none", EVICTION_NONE },
	{ "object-hits", EVICTION_OBJECT_HITS },
	{ "byte-hits", EVICTION_BYTE_HITS },
	{ NULL, 0 },
};

static const struct choice level_choices[] = {
	{ "error", LOG_ERROR },
	{ "warn", LOG_WARN },
	{ "notice", LOG_NOTICE },
	{ "info", LOG_INFO },
	{ "debug", LOG_DEBUG },
	{ NULL, 0 },
};

#define CHOICE_KIND(list) { parse_kind_choice, format_kind_choice, domain_kind_choice, (list) }

static const struct option_kind
	kind_UINT = { parse_kind_uint, format_kind_uint, domain_kind_uint, NULL },
	kind_AUTOUINT = { parse_kind_autouint, format_kind_autouint, domain_kind_autouint, NULL },
	kind_COUNT = { parse_kind_uint, format_kind_uint, domain_kind_uint, NULL },
	kind_SIZE = { parse_kind_size, format_kind_size, domain_kind_size, NULL },
	kind_AUTOSIZE = { parse_kind_autosize, format_kind_autosize, domain_kind_autosize, NULL },
	kind_TIME = { parse_kind_time, format_kind_time, domain_kind_time, NULL },
	kind_BOOL = { parse_kind_bool, format_kind_bool, domain_kind_bool, NULL },
	kind_MODE = { parse_kind_mode, format_kind_mode, domain_kind_mode, NULL },
	kind_LISTEN = { parse_kind_listen, format_kind_string, domain_kind_listen, NULL },
	kind_POLL = CHOICE_KIND(poll_choices),
	kind_WINDOWS = CHOICE_KIND(windows_choices),
	kind_HUGEPAGES = CHOICE_KIND(hugepages_choices),
	kind_EVICTION = CHOICE_KIND(eviction_choices),
	kind_RECOVER = CHOICE_KIND(recover_choices),
	kind_LEVEL = CHOICE_KIND(level_choices),
	kind_STYLE = CHOICE_KIND(style_choices),
	kind_NETWORKS = { parse_kind_networks, format_kind_string, domain_kind_networks, NULL },
	kind_ETCD = { parse_kind_etcd, format_kind_string, domain_kind_etcd, NULL },
	kind_URLS = { parse_kind_urls, format_kind_string, domain_kind_urls, NULL },
	kind_NUMA = { parse_kind_numa, format_kind_string, domain_kind_numa, NULL },
	kind_FILE = { parse_kind_file, format_kind_string, domain_kind_file, NULL },
	kind_HTTP = { parse_kind_http, format_kind_string, domain_kind_http, NULL },
	kind_NAME = { parse_kind_name, format_kind_string, domain_kind_name, NULL };

const struct config_option option_table[OPTION_COUNT] = {
#define X(section, key, kind, change, text, min, max, help)                                        \
	{ #section, #key, &kind_##kind, OPTION_##change, offsetof(struct config, section.key),     \
	  sizeof(((struct config *)0)->section.key), (text), (min), (max), (help) },
	OPTIONS(X)
#undef X
};
/* clang-format on */

bool option_is_list(const struct config_option *option)
{
	return option->kind == &kind_LISTEN || option->kind == &kind_NETWORKS ||
	       option->kind == &kind_ETCD || option->kind == &kind_URLS;
}

int option_parse(const struct config_option *option, const char *text, void *field,
		 struct parse_why *why)
{
	return option->kind->parse(option, text, field, why);
}

const char *option_format(const struct config_option *option, const void *field, char *buffer)
{
	option->kind->format(option, field, buffer);
	return buffer;
}

const char *option_domain(const struct config_option *option, char *buffer)
{
	option->kind->domain(option, buffer);
	return buffer;
}
