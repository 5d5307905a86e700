/* SPDX-License-Identifier: MIT */
/* Parses the file of a fleet into a draft, checks that, and encodes it as a map. */
#include "server/fleet/static_map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/rdma/device.h"
#include "common/sum.h"
#include "common/util/heap.h"
#include "common/util/ini_text.h"
#include "common/util/parse.h"
#include "common/util/trusted_file.h"
#include "server/fleet/placement.h"

#define WEIGHT_MAX 1000000000u
#define NAME_RULE "1 to 24 letters, digits and -_."
static_assert(FLEET_NAME_MAX == 24, "NAME_RULE");

/* What a section may say once: bits of `given`. */
enum setting { SETTING_NAME, SETTING_SEED, SETTING_EPOCH, SETTING_URL, SETTING_WEIGHT };

struct draft_member {
	char id[FLEET_NAME_MAX];
	char urls[FLEET_URLS_MAX + 1]; /* with a zero */
	uint32_t weight;
	unsigned int line;
};

/* A URL of a member, without its options. */
struct draft_url {
	uint64_t hash;
	uint32_t member;
	unsigned int line;
};

struct draft {
	struct ini_text ini;
	char *why;
	int error; /* what parsing ends with */
	struct fleet_head head;
	unsigned int fleet_line; /* of the section [fleet]; 0: none yet */
	struct draft_member *members;
	struct draft_member *member; /* whose section it is; NULL: [fleet], or before the first */
	unsigned int given;	     /* in this section */
	struct draft_url *urls;
	size_t url_count, url_room;
};

static bool refuse(struct draft *d, unsigned int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns false. */
static bool refuse(struct draft *d, unsigned int line, const char *format, ...)
{
	va_list args;
	int n = snprintf(d->why, STATIC_MAP_WHY_MAX, "line %u: ", line);

	va_start(args, format);
	vsnprintf(d->why + n, STATIC_MAP_WHY_MAX - (size_t)n, format, args);
	va_end(args);
	d->error = -EINVAL;
	return false;
}

static bool no_memory(struct draft *d)
{
	d->error = -ENOMEM;
	return false;
}

/* Copies @word, if it is a name. */
static bool name_set(struct draft *d, char name[FLEET_NAME_MAX], const char *word)
{
	memset(name, 0, FLEET_NAME_MAX);
	if (strlen(word) <= FLEET_NAME_MAX)
		memcpy(name, word, strlen(word));
	return wire_tenant_length(name) ||
	       refuse(d, d->ini.line, "'%.40s' can't be a name: use " NAME_RULE, word);
}

static bool seed_set(struct draft *d, const char *word)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	const size_t length = strlen(word);

	if (length < 3 || length > 18 || strncmp(word, "0x", 2) != 0 ||
	    word[2 + strspn(word + 2, digits)])
		return refuse(d, d->ini.line,
			      "seed '%.40s' is not 0x and 1 to 16 hexadecimal digits", word);
	d->head.hash_seed = strtoull(word, NULL, 16);
	return d->head.hash_seed ||
	       refuse(d, d->ini.line, "seed 0 is no seed: give one that is not 0");
}

static bool epoch_set(struct draft *d, const char *word)
{
	struct parse_why why;

	return !parse_uint(word, 1, FLEET_EPOCH_MAX, &d->head.epoch, &why) ||
	       refuse(d, d->ini.line, "epoch: %s", why.text);
}

static bool weight_set(struct draft *d, const char *word)
{
	struct parse_why why;
	uint64_t weight;

	if (parse_uint(word, 0, WEIGHT_MAX, &weight, &why))
		return refuse(d, d->ini.line, "weight: %s", why.text);
	d->member->weight = (uint32_t)weight;
	return true;
}

/* Notes the address of a URL, to find it with another member. */
static bool url_note(struct draft *d, const struct device_addr *addr)
{
	const size_t room = d->url_room ? d->url_room * 2 : 64;
	char text[DEVICE_URL_MAX];
	struct draft_url *urls;

	if (d->url_count == d->url_room) {
		urls = heap_realloc(d->urls, room * sizeof(*urls));
		if (!urls)
			return no_memory(d);
		d->urls = urls;
		d->url_room = room;
	}
	device_addr_text(addr, text);
	d->urls[d->url_count++] = (struct draft_url){
		.hash = key_hash(text, strlen(text), 0),
		.member = (uint32_t)(d->member - d->members),
		.line = d->ini.line,
	};
	return true;
}

/* Adds the URL @url, without spaces around it. */
static bool url_add(struct draft *d, const char *url)
{
	char *urls = d->member->urls, reason[320];
	size_t length = strlen(urls);
	struct device_addr addr;

	if (!*url)
		return refuse(d, d->ini.line, "a URL is empty: remove one of the commas");
	if (device_addr_parse(&addr, url, reason, sizeof(reason)))
		return refuse(d, d->ini.line, "%.200s: %s", url, reason);
	if (length + (length > 0) + strlen(url) > FLEET_URLS_MAX)
		return refuse(d, d->ini.line,
			      "the URLs of a member have more than %u bytes: give fewer",
			      FLEET_URLS_MAX);
	if (length)
		urls[length++] = ',';
	strcpy(urls + length, url);
	return url_note(d, &addr);
}

static bool urls_set(struct draft *d, char *value)
{
	char *next = value, *url, *word;

	while (next) {
		url = next;
		next = strchr(url, ',');
		if (next)
			*next++ = '\0';
		word = ini_word_take(&url);
		if (word && ini_word_take(&url))
			return refuse(d, d->ini.line,
				      "two URLs after '%.200s': put a comma between them", word);
		if (!url_add(d, word ? word : ""))
			return false;
	}
	return true;
}

/* Cuts a comment at the end: a ';' after a space. */
static void uncomment(char *value)
{
	char *at = value;

	while ((at = strchr(at, ';')) && at > value && !strchr(" \t", at[-1]))
		at++;
	if (at)
		*at = '\0';
}

static const struct key {
	const char *name;
	enum setting setting;
} fleet_keys[] = {
	{ "name", SETTING_NAME },
	{ "seed", SETTING_SEED },
	{ "epoch", SETTING_EPOCH },
	{ NULL, 0 },
}, member_keys[] = {
	{ "url", SETTING_URL },
	{ "weight", SETTING_WEIGHT },
	{ NULL, 0 },
};

static bool word_set(struct draft *d, enum setting setting, const char *word)
{
	switch (setting) {
	case SETTING_NAME:
		return name_set(d, d->head.name, word);
	case SETTING_SEED:
		return seed_set(d, word);
	case SETTING_EPOCH:
		return epoch_set(d, word);
	default:
		return weight_set(d, word);
	}
}

static bool setting_take(struct draft *d)
{
	const struct key *key = d->member ? member_keys : fleet_keys;
	char *value = d->ini.value, *word, *more;

	if (!d->member && !d->fleet_line)
		return refuse(d, d->ini.line,
			      "'%.40s' is in no section: write [fleet] or [member NAME] above it",
			      d->ini.key);
	while (key->name && strcmp(key->name, d->ini.key) != 0)
		key++;
	if (!key->name)
		return refuse(d, d->ini.line, "unknown key '%.40s': %s", d->ini.key,
			      d->member ? "a member has url and weight" :
					  "[fleet] has name, seed and epoch");
	if (d->given & 1u << key->setting)
		return refuse(d, d->ini.line, "%s is repeated: remove one", key->name);
	d->given |= 1u << key->setting;
	uncomment(value);
	if (!value[strspn(value, " \t")])
		return refuse(d, d->ini.line, "%s has no value: give one, or remove the line",
			      key->name);
	if (key->setting == SETTING_URL)
		return urls_set(d, value);
	word = ini_word_take(&value);
	more = ini_word_take(&value);
	if (more)
		return refuse(d, d->ini.line, "%s takes one value: remove '%.40s'", key->name,
			      more);
	return word_set(d, key->setting, word);
}

static bool member_finish(struct draft *d)
{
	return !d->member || *d->member->urls ||
	       refuse(d, d->member->line,
		      "member '%.*s' has no url: give the URL at which clients reach it",
		      (int)FLEET_NAME_MAX, d->member->id);
}

static bool fleet_begin(struct draft *d)
{
	if (d->fleet_line)
		return refuse(d, d->ini.line,
			      "section [fleet] is repeated: it began on line %u, merge the two",
			      d->fleet_line);
	d->fleet_line = d->ini.line;
	d->member = NULL;
	return true;
}

static bool member_begin(struct draft *d, const char *name)
{
	struct draft_member *member = &d->members[d->head.members], *other;

	if (d->head.members == FLEET_MEMBERS_MAX)
		return refuse(d, d->ini.line, "there are too many members: %u at most",
			      FLEET_MEMBERS_MAX);
	if (!name_set(d, member->id, name))
		return false;
	for (other = d->members; other < member; other++)
		if (!memcmp(other->id, member->id, FLEET_NAME_MAX))
			return refuse(d, d->ini.line, "member '%s' is there already, on line %u",
				      name, other->line);
	member->weight = 1;
	member->line = d->ini.line;
	d->member = member;
	d->head.members++;
	return true;
}

static bool section_take(struct draft *d)
{
	char *at = d->ini.key, *kind = ini_word_take(&at), *name = ini_word_take(&at);

	if (!member_finish(d))
		return false;
	d->given = 0;
	if (kind && !strcmp(kind, "fleet") && !name)
		return fleet_begin(d);
	if (kind && !strcmp(kind, "member") && name && !ini_word_take(&at))
		return member_begin(d, name);
	return refuse(d, d->ini.line, "unknown section: write [fleet] or [member NAME]");
}

static bool lines_take(struct draft *d)
{
	for (;;)
		switch (ini_text_next(&d->ini)) {
		case INI_END:
			return member_finish(d);
		case INI_SECTION:
			if (!section_take(d))
				return false;
			break;
		case INI_SETTING:
			if (!setting_take(d))
				return false;
			break;
		case INI_BAD_SECTION:
			return refuse(d, d->ini.line,
				      "write [fleet] or [member NAME] on a line of its own");
		case INI_BAD_LINE:
			return refuse(d, d->ini.line, "write key = value");
		case INI_BAD_BYTE:
			return refuse(d, d->ini.line,
				      "a control character is in the line: remove it");
		}
}

static int by_hash(const void *a, const void *b)
{
	const struct draft_url *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash > y->hash ? 1 : -1;
	return (x->line > y->line) - (x->line < y->line);
}

static bool urls_check(struct draft *d)
{
	qsort(d->urls, d->url_count, sizeof(*d->urls), by_hash);
	for (size_t i = 1; i < d->url_count; i++)
		if (d->urls[i - 1].hash == d->urls[i].hash)
			return refuse(d, d->urls[i].line,
				      "a URL of member '%.*s' is on line %u already: a URL leads "
				      "to one member",
				      (int)FLEET_NAME_MAX, d->members[d->urls[i].member].id,
				      d->urls[i - 1].line);
	return true;
}

/* What [fleet] lacks. */
static bool head_check(struct draft *d)
{
	uint64_t seed = 0;

	if (!d->fleet_line)
		return refuse(d, 1, "there is no section [fleet] with name, seed and epoch");
	if (!*d->head.name)
		return refuse(d, d->fleet_line,
			      "the fleet has no name: write name = NAME, of " NAME_RULE);
	if (!d->head.hash_seed) {
		if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
			seed = 0;
		return refuse(d, d->fleet_line,
			      "the fleet has no seed: write a random one that never changes, such "
			      "as seed = 0x%016" PRIx64,
			      seed | 1);
	}
	return d->head.epoch ||
	       refuse(d, d->fleet_line,
		      "the fleet has no epoch: write epoch = 1, and raise it when the file "
		      "changes");
}

static bool members_check(struct draft *d)
{
	uint32_t i = 0;

	if (!d->head.members)
		return refuse(d, d->fleet_line, "the fleet has no member: write [member NAME]");
	while (i < d->head.members && !d->members[i].weight)
		i++;
	return i < d->head.members ||
	       refuse(d, d->fleet_line,
		      "the weights of all members are 0: give some member one above 0");
}

/* The size of the member in a map. */
static size_t member_bytes(const struct draft_member *member)
{
	const struct fleet_member head = { .urls_len = (uint32_t)strlen(member->urls) };

	return fleet_member_bytes(&head);
}

static void member_write(const struct draft_member *member, uint8_t *to)
{
	struct fleet_member head = {
		.weight = member->weight,
		.urls_len = (uint32_t)strlen(member->urls),
	};

	memcpy(head.id, member->id, sizeof(head.id));
	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), member->urls, head.urls_len);
}

/* Places all shards; FLEET_SHARDS rows at @rows. */
static void rows_write(const struct draft *d, uint64_t *rows)
{
	uint32_t weights[FLEET_MEMBERS_MAX];
	uint16_t owners[FLEET_SHARDS];

	memset(owners, 0xff, sizeof(owners));
	for (uint32_t i = 0; i < d->head.members; i++)
		weights[i] = d->members[i].weight;
	placement_make(weights, d->head.members, owners);
	for (uint32_t i = 0; i < FLEET_SHARDS; i++)
		rows[i] = fleet_row(owners[i], true, d->head.epoch);
}

static int map_write(struct fleet_map **map, struct draft *d)
{
	struct fleet_head *head = &d->head;
	size_t bytes = sizeof(*head);
	const char *error;
	uint8_t *all;
	uint32_t i;

	for (i = 0; i < head->members; i++)
		head->member_bytes += (uint32_t)member_bytes(&d->members[i]);
	head->magic = FLEET_MAP_MAGIC;
	all = heap_calloc(1, bytes + head->member_bytes + FLEET_SHARDS * sizeof(uint64_t));
	if (!all)
		return -ENOMEM;
	for (i = 0; i < head->members; bytes += member_bytes(&d->members[i++]))
		member_write(&d->members[i], all + bytes);
	rows_write(d, (uint64_t *)(void *)(all + bytes));
	bytes += FLEET_SHARDS * sizeof(uint64_t);
	/* Of all that the file says: two files never have one, even if their epochs are equal. */
	memcpy(all, head, sizeof(*head));
	head->generation = fleet_map_sum((void *)all, bytes);
	head->generation += !head->generation;
	memcpy(all, head, sizeof(*head));
	((struct fleet_head *)(void *)all)->sum = fleet_map_sum((void *)all, bytes);
	error = fleet_map_make(map, all, bytes);
	heap_free(all);
	/* What was checked here is what a map may have. */
	assert(!error || !strcmp(error, "out of memory"));
	return error ? -ENOMEM : 0;
}

static size_t sections_of(const char *text, size_t length)
{
	size_t count = 0;

	for (size_t i = 0; i < length; i++)
		count += text[i] == '[';
	return count < FLEET_MEMBERS_MAX ? count : FLEET_MEMBERS_MAX;
}

int static_map_parse(struct fleet_map **map, char *text, size_t length, char *why)
{
	struct draft d = { .why = why };

	*map = NULL;
	/* One more than members: where the one that is too many would begin. */
	d.members = heap_calloc(sections_of(text, length) + 1, sizeof(*d.members));
	if (!d.members)
		return -ENOMEM;
	ini_text_init(&d.ini, text, length);
	if (lines_take(&d) && head_check(&d) && members_check(&d) && urls_check(&d))
		d.error = map_write(map, &d);
	heap_free(d.members);
	heap_free(d.urls);
	return d.error;
}

int static_map_load(struct fleet_map **map, const char *path, char *why)
{
	char reason[STATIC_MAP_WHY_MAX] = "";
	char *text;
	size_t length;
	int err;

	*map = NULL;
	err = trusted_file_read(&text, &length, path, STATIC_MAP_FILE_MAX, NULL, reason);
	if (!err) {
		err = static_map_parse(map, text, length, reason);
		if (err && !*reason)
			snprintf(reason, sizeof(reason), "%s", strerror(-err));
	}
	heap_free(text);
	if (err)
		snprintf(why, STATIC_MAP_WHY_MAX, "%.160s: %.470s", path, reason);
	return err;
}
