/* SPDX-License-Identifier: MIT */
/*
 * Parses the text of a file of users. The text is copied once, and cut in place: names, identities
 * and prefixes point into the copy. The first error ends parsing.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/tls/tls.h"
#include "common/util/ini_text.h"
#include "common/util/parse.h"
#include "common/util/secret.h"
#include "common/wire.h"
#include "server/users/password.h"
#include "server/users/users.h"

#define KEYS_ROOM_FIRST 16

/* Settings that a user may have once: bits of `given`. */
enum setting {
	SETTING_TENANT,
	SETTING_CONNECTIONS,
	SETTING_REQUESTS,
	SETTING_BYTES,
	SETTING_MEMORY,
	SETTING_PASSWORD,
};

struct parser {
	struct users *users;
	struct user *user; /* whose section it is; NULL before the first */
	unsigned int given;
	bool recognised; /* by something */
	unsigned int line;
	users_uid_of *uid_of;
	char *why;
	int error; /* what it ends with */
};

static bool refuse(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns false. */
static bool refuse(struct parser *p, const char *format, ...)
{
	va_list args;
	int n = snprintf(p->why, USERS_WHY_MAX, "line %u: ", p->line);

	va_start(args, format);
	vsnprintf(p->why + n, USERS_WHY_MAX - (size_t)n, format, args);
	va_end(args);
	p->error = -EINVAL;
	return false;
}

/* NULL: no memory. */
static struct user_key *keys_add(struct parser *p, struct user_keys *keys)
{
	size_t room = keys->room ? keys->room * 2 : KEYS_ROOM_FIRST;
	struct user_key *list;

	if (keys->count == keys->room) {
		list = realloc(keys->list, room * sizeof(*list));
		if (!list) {
			p->error = -ENOMEM;
			return NULL;
		}
		keys->list = list;
		keys->room = room;
	}
	list = &keys->list[keys->count];
	*list = (struct user_key){ .user = (uint32_t)(p->user - p->users->list), .line = p->line };
	return list;
}

static bool identity_add(struct parser *p, char *word)
{
	struct user_key *key;

	if (strncmp(word, "psk:", 4) != 0 && strncmp(word, "cert:", 5) != 0)
		return refuse(p,
			      "identity '%.40s' begins with neither 'psk:' nor 'cert:': `kvctl "
			      "clients` shows how identities are written",
			      word);
	if (strlen(word) >= TLS_IDENTITY_MAX)
		return refuse(p, "identity '%.40s...' has more than %d bytes: no client has it",
			      word, TLS_IDENTITY_MAX - 1);
	key = keys_add(p, &p->users->identities);
	if (!key)
		return false;
	key->identity = word;
	p->users->identities.count++;
	return true;
}

static bool uid_add(struct parser *p, char *word)
{
	struct user_key *key;
	uint64_t number;
	uid_t uid = 0;

	if (word[strspn(word, "0123456789")]) {
		if (p->uid_of(word, &uid))
			return refuse(p,
				      "uid '%.40s' is no user of this host: write a name that `id` "
				      "knows, or a number",
				      word);
	} else {
		/* The largest uid means "none" to the kernel. */
		if (parse_uint(word, 0, UINT32_MAX - 1, &number, NULL))
			return refuse(p, "uid '%.40s' is out of range: 0 to 4294967294", word);
		uid = (uid_t)number;
	}
	key = keys_add(p, &p->users->uids);
	if (!key)
		return false;
	key->uid = uid;
	p->users->uids.count++;
	return true;
}

static bool network_add(struct parser *p, char *word)
{
	struct parse_why why;
	struct user_key *key;

	if (p->users->networks.count == USERS_MAX)
		return refuse(p, "there are too many networks: %d at most", USERS_MAX);
	key = keys_add(p, &p->users->networks);
	if (!key)
		return false;
	if (network_parse(&key->network, word, &why))
		return refuse(p, "networks: %s", why.text);
	p->users->networks.count++;
	return true;
}

static bool right_add(struct parser *p, char *word)
{
	uint32_t right = !strcmp(word, "all") ? USER_ALL : 0;

#define X(upper, name)                                                                             \
	if (!strcmp(word, name))                                                                   \
		right = USER_##upper;
	USER_RIGHTS(X)
#undef X
	if (!right)
		return refuse(p,
			      "'%.40s' is no right: give some of read, write, delete, scan, flush, "
			      "stats and admin, or all",
			      word);
	p->user->rights |= right;
	return true;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool prefix_add(struct parser *p, struct user_prefixes *prefixes, char *word)
{
	uint8_t *bytes = (uint8_t *)word, *to = bytes;

	if (prefixes->count == USER_PREFIXES_MAX)
		return refuse(p, "there are too many prefixes: %d at most", USER_PREFIXES_MAX);
	for (; *word; word++) {
		if (*word != '%') {
			*to++ = (uint8_t)*word;
			continue;
		}
		/* If the first is not a digit, word[2] may be past the end and is not read. */
		if (digit(word[1]) < 0 || digit(word[2]) < 0)
			return refuse(p, "a '%%' in a prefix has to be followed by two hexadecimal "
					 "digits, which are a byte; %%25 is '%%' itself");
		*to++ = (uint8_t)(digit(word[1]) << 4 | digit(word[2]));
		word += 2;
	}
	prefixes->list[prefixes->count++] = (struct user_prefix){ .bytes = bytes,
								  .length = (size_t)(to - bytes) };
	return true;
}

static bool read_prefix_add(struct parser *p, char *word)
{
	return prefix_add(p, &p->user->read, word);
}

static bool write_prefix_add(struct parser *p, char *word)
{
	return prefix_add(p, &p->user->write, word);
}

static bool tenant_set(struct parser *p, char *word)
{
	if (strcmp(word, TENANT_DEFAULT) != 0 && !tenant_name_valid(word))
		return refuse(p, "'%.40s' can't be a tenant: its name has " TENANT_NAME_RULE, word);
	p->user->tenant = word;
	return true;
}

static bool connections_set(struct parser *p, char *word)
{
	struct parse_why why;
	uint64_t number;

	if (parse_uint(word, 1, 65536, &number, &why))
		return refuse(p, "connections: %s", why.text);
	p->user->connections = (uint32_t)number;
	return true;
}

static bool requests_set(struct parser *p, char *word)
{
	struct parse_why why;

	return !parse_uint(word, 1, 1000000000, &p->user->requests, &why) ||
	       refuse(p, "requests: %s", why.text);
}

static bool bytes_set(struct parser *p, char *word)
{
	struct parse_why why;

	return !parse_size(word, 1024, 64ull << 30, &p->user->bytes, &why) ||
	       refuse(p, "bytes: %s", why.text);
}

static bool memory_set(struct parser *p, char *word)
{
	struct parse_why why;

	return !parse_size(word, USER_MEMORY_MIN, USER_MEMORY_MAX, &p->user->memory, &why) ||
	       refuse(p, "memory: %s", why.text);
}

/* What was refused may be a password, and does not go to the log. */
static bool password_set(struct parser *p, char *word)
{
	if (!password_hash_valid(word))
		return refuse(p, "password: this is no hash that kvd takes: write the line that "
				 "`openssl passwd -6` or `mkpasswd` prints");
	p->user->password = word;
	if (!p->users->with_password)
		p->users->with_password = p->user;
	return true;
}

/* Keys with one value have a `setting`; lists may be given on several lines. */
static const struct key {
	const char *name;
	bool (*take)(struct parser *p, char *word);
	bool list;
	bool is_who; /* identifies the user's clients */
	enum setting setting;
} keys[] = {
	{ "identity", identity_add, .list = true, .is_who = true },
	{ "uid", uid_add, .list = true, .is_who = true },
	{ "networks", network_add, .list = true, .is_who = true },
	{ "rights", right_add, .list = true },
	{ "read_prefixes", read_prefix_add, .list = true },
	{ "write_prefixes", write_prefix_add, .list = true },
	{ "tenant", tenant_set, .setting = SETTING_TENANT },
	{ "connections", connections_set, .setting = SETTING_CONNECTIONS },
	{ "requests", requests_set, .setting = SETTING_REQUESTS },
	{ "bytes", bytes_set, .setting = SETTING_BYTES },
	{ "memory", memory_set, .setting = SETTING_MEMORY },
	{ "password", password_set, .is_who = true, .setting = SETTING_PASSWORD },
};

#define KEYS_COUNT (sizeof(keys) / sizeof(keys[0]))

static const struct key *key_find(const char *name)
{
	for (size_t i = 0; i < KEYS_COUNT; i++)
		if (!strcmp(keys[i].name, name))
			return &keys[i];
	return NULL;
}

/* @name is the text before the '=', @value the text after it. */
static bool setting_take(struct parser *p, const char *name, char *value)
{
	const struct key *key = key_find(name);
	unsigned int words = 0;
	char *word;

	if (!p->user)
		return refuse(p, "'%.40s' is in no section: write [user NAME] above it", name);
	if (!key)
		return refuse(p,
			      "unknown key '%.40s': there are identity, uid, networks, password, "
			      "rights, read_prefixes, write_prefixes, tenant, connections, "
			      "requests, bytes and memory",
			      name);
	if (key->is_who && user_is_wildcard(p->user))
		return refuse(p, "user '*' is who matches no other: take '%s' away", name);
	if (!key->list && p->given & 1u << key->setting)
		return refuse(p, "%s is repeated: remove one", name);
	p->recognised |= key->is_who;
	if (!key->list)
		p->given |= 1u << key->setting;
	while ((word = ini_word_take(&value))) {
		if (words++ && !key->list)
			return key->is_who ?
				       refuse(p, "%s takes one word", name) :
				       refuse(p, "%s takes one value: remove '%.40s'", name, word);
		if (!key->take(p, word))
			return false;
	}
	return words || refuse(p, "%s has no value: give one, or remove the line", name);
}

/* A tenant has one size. Without `tenant`, `memory` is that of a tenant of the user's name. */
static bool memory_finish(struct parser *p, struct user *user)
{
	const struct user *other;

	if (!user->memory)
		return true;
	if (!(p->given & 1u << SETTING_TENANT))
		user->tenant = user->name;
	if (!tenant_name_valid(user->tenant))
		return refuse(p,
			      "user '%s' has memory, but '%.40s' can't be a tenant with it: give "
			      "tenant = NAME, which has " TENANT_NAME_RULE,
			      user->name, user->tenant);
	for (other = p->users->list; other < user; other++)
		if (other->memory && !strcmp(other->tenant, user->tenant))
			return refuse(p,
				      "the tenant '%s' has the memory of user '%s', line %u: take "
				      "that of user '%s' away",
				      user->tenant, other->name, other->line, user->name);
	return true;
}

/* Checks the user whose section ends. */
static bool user_finish(struct parser *p)
{
	struct user *user = p->user;
	unsigned int line = p->line;

	if (!user)
		return true;
	p->line = user->line;
	if (!user->rights)
		return refuse(p, "user '%s' has no rights: give some, for example rights = read",
			      user->name);
	if (!p->recognised && !user_is_wildcard(user))
		return refuse(p,
			      "user '%s' has no identity, uid, networks or password: nobody "
			      "would be it",
			      user->name);
	if (!memory_finish(p, user))
		return false;
	p->line = line;
	return true;
}

static bool name_check(struct parser *p, const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._@-";

	if (!strcmp(name, "*"))
		return true;
	if (strlen(name) > USER_NAME_MAX || name[strspn(name, allowed)])
		return refuse(p,
			      "'%.64s' can't be a user's name: use 1 to %d letters, digits and "
			      "._@-, or *",
			      name, USER_NAME_MAX);
	return true;
}

/* What is between the brackets of a section. */
static bool section_take(struct parser *p, char *at)
{
	char *kind = ini_word_take(&at), *name = ini_word_take(&at);
	const struct user *same;

	if (!kind || strcmp(kind, "user") != 0 || !name || ini_word_take(&at))
		return refuse(p, "a section is that of a user: write [user NAME]");
	if (!user_finish(p) || !name_check(p, name))
		return false;
	same = users_named(p->users, name);
	if (same)
		return refuse(p, "user '%s' is there already, on line %u", name, same->line);
	if (p->users->count == USERS_MAX)
		return refuse(p, "there are too many users: %d at most", USERS_MAX);
	p->user = &p->users->list[p->users->count++];
	p->user->name = name;
	p->user->tenant = TENANT_DEFAULT;
	p->user->line = p->line;
	p->given = 0;
	p->recognised = false;
	return true;
}

static int by_identity(const void *a, const void *b)
{
	const struct user_key *x = a, *y = b;
	int order = strcmp(x->identity, y->identity);

	return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int by_uid(const void *a, const void *b)
{
	const struct user_key *x = a, *y = b;

	if (x->uid != y->uid)
		return x->uid > y->uid ? 1 : -1;
	return (x->line > y->line) - (x->line < y->line);
}

static int by_network(const void *a, const void *b)
{
	const struct user_key *x = a, *y = b;
	int order = network_compare(&x->network, &y->network);

	return order ? order : (x->line > y->line) - (x->line < y->line);
}

static bool same_identity(const struct user_key *a, const struct user_key *b)
{
	return !strcmp(a->identity, b->identity);
}

static bool same_uid(const struct user_key *a, const struct user_key *b)
{
	return a->uid == b->uid;
}

static bool same_network(const struct user_key *a, const struct user_key *b)
{
	return !network_compare(&a->network, &b->network);
}

/* No client can be two users. */
static bool keys_finish(struct parser *p, struct user_keys *list, const char *what,
			int (*order)(const void *, const void *),
			bool (*same)(const struct user_key *, const struct user_key *))
{
	const struct user_key *key;

	if (!list->count)
		return true;
	qsort(list->list, list->count, sizeof(*list->list), order);
	for (key = list->list; key + 1 < list->list + list->count; key++) {
		if (!same(key, key + 1))
			continue;
		p->line = key[1].line;
		return refuse(p, "the %s is that of user '%s' already, by line %u", what,
			      p->users->list[key->user].name, key->line);
	}
	return true;
}

static size_t sections_of(const char *text, size_t length)
{
	size_t count = 0;

	for (size_t i = 0; i < length; i++)
		count += text[i] == '[';
	return count < USERS_MAX ? count : USERS_MAX;
}

static bool lines_take(struct parser *p, size_t length)
{
	struct ini_text ini;

	ini_text_init(&ini, p->users->text, length);
	for (;;) {
		enum ini_item item = ini_text_next(&ini);

		p->line = ini.line;
		switch (item) {
		case INI_END:
			return user_finish(p);
		case INI_SECTION:
			if (!section_take(p, ini.key))
				return false;
			break;
		case INI_SETTING:
			if (!setting_take(p, ini.key, ini.value))
				return false;
			break;
		case INI_BAD_SECTION:
			return refuse(p, "write [user NAME] on a line of its own");
		case INI_BAD_LINE:
			return refuse(p, "write key = value");
		case INI_BAD_BYTE:
			return refuse(p, "a control character is in the line: remove it");
		}
	}
}

int users_parse(struct users **out, const char *text, size_t length, users_uid_of *uid_of,
		char *why)
{
	struct users *users = calloc(1, sizeof(*users));
	struct parser p = { .users = users, .uid_of = uid_of, .why = why };

	if (!users)
		return -ENOMEM;
	users->holders = 1;
	users->list = calloc(sections_of(text, length) + 1, sizeof(*users->list));
	users->text_bytes = length + 1;
	users->text = secret_alloc(users->text_bytes);
	if (!users->list || !users->text) {
		users_put(users);
		return -ENOMEM;
	}
	/* A zero follows it. */
	if (length)
		memcpy(users->text, text, length);
	if (lines_take(&p, length) &&
	    keys_finish(&p, &users->identities, "identity", by_identity, same_identity) &&
	    keys_finish(&p, &users->uids, "uid", by_uid, same_uid) &&
	    keys_finish(&p, &users->networks, "network", by_network, same_network)) {
		users->other = users_named(users, "*");
		*out = users;
		return 0;
	}
	users_put(users);
	return p.error;
}
