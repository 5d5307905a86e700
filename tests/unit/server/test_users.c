/* SPDX-License-Identifier: MIT */
/* Tests of the file of users (server/users/): what is read, what is refused, and who is whom. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/users/users.h"
#include "tests/support/users_file.h"

static int uid_of(const char *name, uid_t *uid)
{
	if (strcmp(name, "carol") != 0)
		return -ENOENT;
	*uid = 1003;
	return 0;
}

static struct users *taken(const char *text)
{
	char why[USERS_WHY_MAX] = "";
	struct users *users = NULL;

	if (users_parse(&users, text, strlen(text), uid_of, why))
		fail_msg("refused: %s", why);
	return users;
}

static void refused_of(const char *text, size_t length, const char *expected)
{
	char why[USERS_WHY_MAX] = "";
	struct users *users = NULL;

	assert_int_equal(users_parse(&users, text, length, uid_of, why), -EINVAL);
	assert_null(users);
	if (strncmp(why, expected, strlen(expected)) != 0)
		fail_msg("'%s' is refused with: %s", text, why);
}

static void refused(const char *text, const char *expected)
{
	refused_of(text, strlen(text), expected);
}

static const char *match(const struct users *users, const struct user_peer *peer)
{
	const struct user *user = users_match(users, peer);

	return user ? user->name : "(none)";
}

static const char *of_identity(const struct users *users, const char *identity)
{
	return match(users, &(struct user_peer){ .identity = identity, .address = "10.9.0.1:1" });
}

static const char *of_uid(const struct users *users, uid_t uid)
{
	return match(users, &(struct user_peer){ .uid_known = true, .uid = uid, .address = "" });
}

static const char *of_address(const struct users *users, const char *address)
{
	return match(users, &(struct user_peer){ .address = address, .open = true });
}

static const char text[] = "# who may do what\r\n"
			   "; the loader\n"
			   "\n"
			   "[user alice]\r\n"
			   "  identity = psk:alice  cert:dns:alice.example\t\n"
			   "identity=cert:subject:CN=alice,O=a=b\n"
			   "uid = 1001 carol\n"
			   "rights = read write\n"
			   "rights = delete\n"
			   "write_prefixes = app1: bin%00%25%fF\n"
			   "connections = 10\n"
			   "requests = 1000\n"
			   "bytes = 10m\n"
			   "tenant = default\n"
			   "[ user  rack-7.b@x_Y ]\n"
			   "networks = 10.9.0.0/24 fd00::/8\n"
			   "tenant = t-2_x.0123456789ABCDEFGH\n"
			   "rights = all\n"
			   "[user host]\n"
			   "networks = 10.9.0.7\n"
			   "rights = read scan\n"
			   "read_prefixes = public/";

static void takes(void **state)
{
	struct users *users = taken(text);
	const struct user *alice = &users->list[0], *rack = &users->list[1];
	const struct user *host = &users->list[2];

	(void)state;
	assert_int_equal(users->count, 3);
	assert_string_equal(alice->name, "alice");
	assert_string_equal(alice->tenant, "default");
	assert_int_equal(alice->rights, USER_READ | USER_WRITE | USER_DELETE);
	assert_int_equal(alice->connections, 10);
	assert_int_equal(alice->requests, 1000);
	assert_int_equal(alice->bytes, 10 << 20);
	assert_int_equal(alice->line, 4);
	assert_int_equal(alice->read.count, 0);
	assert_int_equal(alice->write.count, 2);
	assert_true(user_reads_all(alice));
	assert_true(user_is_limited(alice));
	assert_true(user_prefixes_hold(&alice->write, (const uint8_t *)"app1:", 5));
	assert_true(user_prefixes_hold(&alice->write, (const uint8_t *)"app1:x", 6));
	assert_false(user_prefixes_hold(&alice->write, (const uint8_t *)"app1", 4));
	assert_false(user_prefixes_hold(&alice->write, (const uint8_t *)"bpp1:x", 6));
	assert_true(user_prefixes_hold(&alice->write, (const uint8_t *)"bin\0%\xff", 6));
	assert_false(user_prefixes_hold(&alice->write, (const uint8_t *)"bin\0%\xfe", 6));
	assert_true(user_prefixes_hold(&alice->read, (const uint8_t *)"x", 1));
	assert_string_equal(rack->name, "rack-7.b@x_Y");
	assert_string_equal(rack->tenant, "t-2_x.0123456789ABCDEFGH");
	assert_int_equal(rack->rights, USER_ALL);
	assert_false(user_is_limited(rack));
	assert_true(user_reads_all(rack));
	assert_false(user_reads_all(host));
	users_put(users);
}

static void matches(void **state)
{
	struct users *users = taken(text);

	(void)state;
	assert_string_equal(of_identity(users, "psk:alice"), "alice");
	assert_string_equal(of_identity(users, "cert:dns:alice.example"), "alice");
	assert_string_equal(of_identity(users, "cert:subject:CN=alice,O=a=b"), "alice");
	assert_string_equal(of_identity(users, "psk:alic"), "(none)");
	assert_string_equal(of_identity(users, "psk:alicee"), "(none)");
	assert_string_equal(of_uid(users, 1001), "alice");
	assert_string_equal(of_uid(users, 1003), "alice");
	assert_string_equal(of_uid(users, 0), "(none)");
	assert_string_equal(of_address(users, "10.9.0.1:4711"), "rack-7.b@x_Y");
	assert_string_equal(of_address(users, "[fd00::1]:4711"), "rack-7.b@x_Y");
	/* The smaller network counts. */
	assert_string_equal(of_address(users, "10.9.0.7:4711"), "host");
	assert_string_equal(of_address(users, "10.9.1.7:4711"), "(none)");
	assert_string_equal(of_address(users, "(unknown)"), "(none)");
	/* By TLS an address proves nothing. */
	assert_string_equal(match(users, &(struct user_peer){ .address = "10.9.0.7:4711" }),
			    "(none)");
	users_put(users);
}

static void others(void **state)
{
	struct users *users = taken("[user a]\nuid = 0\nrights = all\n[user *]\nrights = read\n");

	(void)state;
	assert_string_equal(of_uid(users, 0), "a");
	assert_string_equal(of_uid(users, 1), "*");
	assert_string_equal(of_identity(users, "psk:x"), "*");
	assert_string_equal(of_address(users, "(unknown)"), "*");
	users_put(users);
	users = taken("");
	assert_string_equal(of_uid(users, 0), "(none)");
	assert_string_equal(of_identity(users, "psk:x"), "(none)");
	users_put(users);
}

#define A "[user a]\nuid = 1\nrights = read\n"

static void refuses(void **state)
{
	(void)state;
	refused("rights = read", "line 1: 'rights' is in no section: write [user NAME]");
	refused(A "\nwords", "line 5: write key = value");
	refused(A "right = read", "line 4: unknown key 'right'");
	refused(A "rights = read reed", "line 4: 'reed' is no right: give some of read, write");
	refused(A "rights =", "line 4: rights has no value");
	refused(A "rights = \t ", "line 4: rights has no value");
	refused("[user a]\nuid = 1\n", "line 1: user 'a' has no rights");
	refused("[user a]\nuid = 1\n[user b]\nuid = 2\nrights = read\n",
		"line 1: user 'a' has no rights");
	refused("\n[user a]\nrights = read\n",
		"line 2: user 'a' has no identity, uid, networks or password");
	refused(A "[user b]\nrights = read\n",
		"line 4: user 'b' has no identity, uid, networks or password");
	refused(A A, "line 4: user 'a' is there already, on line 1");
	refused("[alice]\n", "line 1: a section is that of a user: write [user NAME]");
	refused("[user]\n", "line 1: a section is that of a user");
	refused("[user a b]\n", "line 1: a section is that of a user");
	refused("[group a]\n", "line 1: a section is that of a user");
	refused("[user a\n", "line 1: write [user NAME] on a line of its own");
	refused("[user a] # x\n", "line 1: write [user NAME] on a line of its own");
	refused("[user a/b]\n", "line 1: 'a/b' can't be a user's name");
	refused("[user 01234567890123456789012345678901234567890123456789012345678901234]\n",
		"line 1: '0123456789012345678901234567890123456789012345678901234567890123' can't");
	refused("[user *]\nuid = 1\n", "line 2: user '*' is who matches no other");
	refused(A "identity = alice", "line 4: identity 'alice' begins with neither");
	refused(A "uid = dave", "line 4: uid 'dave' is no user of this host");
	refused(A "uid = 4294967295", "line 4: uid '4294967295' is out of range");
	refused(A "uid = 99999999999999999999", "line 4: uid '99999999999999999999' is out of");
	refused(A "networks = 10.9.0.1/24", "line 4: networks: '10.9.0.1/24' has bits set");
	refused(A "write_prefixes = a%4", "line 4: a '%' in a prefix has to be followed");
	refused(A "write_prefixes = a%", "line 4: a '%' in a prefix");
	refused(A "read_prefixes = %4g", "line 4: a '%' in a prefix");
	refused(A "tenant = a/b", "line 4: 'a/b' can't be a tenant: its name has 1 to 24 letters");
	refused(A "tenant = 0123456789012345678901234",
		"line 4: '0123456789012345678901234' can't");
	refused(A "tenant = a\ntenant = b", "line 5: tenant is repeated");
	refused(A "connections = 0", "line 4: connections: ");
	refused(A "connections = 1\nconnections = 2", "line 5: connections is repeated");
	refused(A "requests = 1 2", "line 4: requests takes one value: remove '2'");
	refused(A "requests = 0", "line 4: requests: ");
	refused(A "requests = 1000000001", "line 4: requests: ");
	refused(A "bytes = 1023", "line 4: bytes: ");
	refused(A "bytes = 1.5m", "line 4: bytes: ");
	refused(A "memory = 16777215", "line 4: memory: ");
	refused(A "memory = 513g", "line 4: memory: ");
	refused(A "memory = much", "line 4: memory: ");
	refused(A "memory =", "line 4: memory has no value");
	refused(A "memory = 16m\nmemory = 16m", "line 5: memory is repeated");
	refused(A "uid\x01 = 1", "line 4: a control character");
	refused_of(A "\0", sizeof(A), "line 4: a control character");
}

/* `memory` is that of `tenant`, or of a tenant of the user's name: of each tenant once. */
static void sized_tenants(void **state)
{
	struct users *users = taken("[user a]\nuid = 1\nmemory = 16m\nrights = read\n"
				    "[user 0-2_x.0123456789ABCDEFGH]\nuid = 2\nrights = read\n"
				    "memory = 512g\n"
				    "[user c]\nuid = 3\nrights = read\ntenant = a\n"
				    "[user d@host]\nuid = 4\nrights = read\n"
				    "[user e@host]\nmemory = 17m\nuid = 5\nrights = read\n"
				    "tenant = f\n"
				    "[user *]\nrights = read\ntenant = g\nmemory = 18m\n");

	(void)state;
	assert_true(users->list[0].memory == 16 << 20);
	assert_string_equal(users->list[0].tenant, "a");
	assert_true(users->list[1].memory == 512ull << 30);
	assert_string_equal(users->list[1].tenant, users->list[1].name);
	assert_int_equal(users->list[2].memory, 0);
	assert_string_equal(users->list[2].tenant, "a");
	assert_string_equal(users->list[3].tenant, "default");
	assert_string_equal(users->list[4].tenant, "f");
	assert_true(users->list[4].memory == 17 << 20);
	assert_string_equal(users->other->tenant, "g");
	assert_true(users->other->memory == 18 << 20);
	users_put(users);
	refused("[user *]\nmemory = 16m\nrights = read\n",
		"line 1: user '*' has memory, but '*' can't be a tenant with it: give tenant = ");
	refused(A "memory = 16m\ntenant = default",
		"line 1: user 'a' has memory, but 'default' can't");
	refused("[user a@b]\nmemory = 16m\nuid = 1\nrights = read\n[user b]\n",
		"line 1: user 'a@b' has memory, but 'a@b' can't");
	refused("[user 0123456789012345678901234]\nuid = 1\nrights = read\nmemory = 16m\n",
		"line 1: user '0123456789012345678901234' has memory, but ");
	refused(A "memory = 16m\n[user b]\nuid = 2\nrights = read\ntenant = a\nmemory = 16m",
		"line 5: the tenant 'a' has the memory of user 'a', line 1: take that of user 'b' "
		"away");
	/* What one section has is not the next one's. */
	users = taken("[user a]\nuid = 1\nmemory = 16m\nrights = read\n"
		      "[user b]\nuid = 2\ntenant = c\nrights = read\n");
	assert_int_equal(users->list[1].memory, 0);
	users_put(users);
}

#define SHA512                                                                                     \
	"$6$0123456789abcdef$pyABpBcCEaxIsotjNwuBApVKg5hyCCzIYsPO2V2LZ9FqcUmQFrG7BpmrLRMg5pv43Woo" \
	"QmYoiDpfi8NoPo5K30"
#define YESCRYPT "$y$j75$HLWUkhBa1UStXuYKVZVY2.$6n8AgVbdhq6CRqN6H1iHQvy8wqVb6r8TTlkBetLHGQ1"

/* Of clear text nothing is in the reason, which goes to the log. */
static void passwords(void **state)
{
	struct users *users = taken("[user a]\nuid = 1\nrights = read\n"
				    "[user b]\npassword = " SHA512 "\nrights = read\n"
				    "[user c]\nrights = read\nnetworks = 10.9.0.0/24\n"
				    "password=" YESCRYPT " \n");

	(void)state;
	assert_null(users->list[0].password);
	assert_string_equal(users->list[1].password, SHA512);
	assert_string_equal(users->list[2].password, YESCRYPT);
	assert_ptr_equal(users->with_password, &users->list[1]);
	assert_ptr_equal(users_named(users, "b"), &users->list[1]);
	assert_null(users_named(users, "d"));
	assert_string_equal(of_address(users, "10.9.0.1:1"), "c");
	assert_string_equal(of_address(users, "10.8.0.1:1"), "(none)");
	users_put(users);
	users = taken(text);
	assert_null(users->with_password);
	users_put(users);
	refused(A "password = sesame", "line 4: password: this is no hash that kvd takes: write "
				       "the line that `openssl passwd -6` or `mkpasswd` prints");
	refused(A "password = open sesame", "line 4: password: this is no hash that kvd takes");
	refused(A "password =", "line 4: password has no value");
	refused(A "password = " SHA512 " sesame", "line 4: password takes one word");
	refused(A "password = " SHA512 "\npassword = " SHA512, "line 5: password is repeated");
	refused("[user *]\nrights = read\npassword = " SHA512,
		"line 3: user '*' is who matches no other: take 'password' away");
}

/* The hashes are a secret, while a file without any may be read by all. */
static void loads_passwords(void **state)
{
	char path[] = "/tmp/kvd-test-users-XXXXXX", why[USERS_WHY_MAX];
	struct users *users;
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	users_file_write(path, A "password = " SHA512, 0640);
	assert_int_equal(users_load(&users, path, why), 0);
	users_put(users);
	users_file_write(path, A "password = " SHA512, 0644);
	assert_int_equal(users_load(&users, path, why), -EINVAL);
	assert_null(users);
	assert_non_null(
		strstr(why, ": it has passwords, and other users may read it: `chmod 600`"));
	users_file_write(path, A "# password = " SHA512, 0644);
	assert_int_equal(users_load(&users, path, why), 0);
	users_put(users);
	unlink(path);
}

static void belongs_to_one(void **state)
{
	(void)state;
	refused(A "[user b]\nuid = 2 1\nrights = read\n",
		"line 5: the uid is that of user 'a' already, by line 2");
	refused(A "uid = 1\n", "line 4: the uid is that of user 'a' already, by line 2");
	refused("[user a]\nidentity = psk:x\nrights = all\n"
		"[user b]\nidentity = psk:y psk:x\nrights = all\n",
		"line 5: the identity is that of user 'a' already, by line 2");
	refused("[user a]\nnetworks = 10.0.0.0/8\nrights = all\n"
		"[user b]\nnetworks = 10.0.0.0/8\nrights = all\n",
		"line 5: the network is that of user 'a' already, by line 2");
	users_put(taken("[user a]\nnetworks = 10.0.0.0/8\nrights = all\n"
			"[user b]\nnetworks = 10.0.0.0/9\nrights = all\n"));
}

static void most_prefixes(void **state)
{
	char lines[1024] = A "read_prefixes =";
	struct users *users;

	(void)state;
	for (int i = 0; i < USER_PREFIXES_MAX; i++)
		strcat(lines, " x");
	users = taken(lines);
	assert_int_equal(users->list[0].read.count, USER_PREFIXES_MAX);
	users_put(users);
	refused(strcat(lines, "\nread_prefixes = y"), "line 5: there are too many prefixes: 32");
}

static void most_users(void **state)
{
	const size_t line = sizeof("[user 00000]\nuid = 00000\nrights = read\n") - 1;
	char why[USERS_WHY_MAX], *lines = malloc((USERS_MAX + 1) * line + 1);
	struct users *users;

	(void)state;
	for (unsigned int i = 0; i <= USERS_MAX; i++)
		snprintf(lines + i * line, line + 1, "[user %05u]\nuid = %05u\nrights = read\n", i,
			 i);
	refused(lines, "line 12289: there are too many users: 4096 at most");
	assert_int_equal(users_parse(&users, lines, USERS_MAX * line, uid_of, why), 0);
	assert_string_equal(of_uid(users, 4095), "04095");
	assert_string_equal(of_uid(users, 0), "00000");
	users_put(users);
	free(lines);
}

static void file_of(const char *path, mode_t mode)
{
	users_file_write(path, A, mode);
}

static void loads(void **state)
{
	char path[] = "/tmp/kvd-test-users-XXXXXX", why[USERS_WHY_MAX];
	struct users *users;
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	file_of(path, 0644);
	assert_int_equal(users_load(&users, path, why), 0);
	assert_int_equal(users->count, 1);
	users_put(users);
	file_of(path, 0664);
	assert_int_equal(users_load(&users, path, why), -EINVAL);
	assert_non_null(strstr(why, "other users may write to it"));
	assert_int_equal(strncmp(why, path, strlen(path)), 0);
	file_of(path, 0602);
	assert_int_equal(users_load(&users, path, why), -EINVAL);
	file_of(path, 0600);
	assert_int_equal(truncate(path, USERS_FILE_MAX + 1), 0);
	assert_int_equal(users_load(&users, path, why), -EINVAL);
	assert_non_null(strstr(why, "longer than 1 MiB"));
	file_of(path, 0600);
	assert_int_equal(truncate(path, 3), 0);
	assert_int_equal(users_load(&users, path, why), -EINVAL);
	assert_non_null(strstr(why, ": line 1: write [user NAME]"));
	unlink(path);
	assert_int_equal(users_load(&users, path, why), -ENOENT);
	assert_non_null(strstr(why, "No such file"));
	assert_int_equal(users_load(&users, "/tmp", why), -EINVAL);
	assert_non_null(strstr(why, "not a regular file"));
}

/* Which editors of Windows write at the start of a text; elsewhere it is a part of the line. */
static void skips_a_byte_order_mark(void **state)
{
	(void)state;
	users_put(taken("\xef\xbb\xbf[user *]\nrights = all\n"));
	users_put(taken("\xef\xbb\xbf# nobody\n\n[user *]\nrights = all"));
	users_put(taken("\xef\xbb\xbf"));
	refused("\n\xef\xbb\xbf[user *]\nrights = all\n", "line 2: write key = value");
}

static void loads_names(void **state)
{
	char path[] = "/tmp/kvd-test-users-XXXXXX", why[USERS_WHY_MAX];
	struct users *users;
	int fd = mkstemp(path);
	FILE *out = fdopen(fd, "w");

	(void)state;
	fputs("[user a]\nuid = root\nrights = read\n", out);
	fclose(out);
	assert_int_equal(users_load(&users, path, why), 0);
	assert_string_equal(of_uid(users, 0), "a");
	users_put(users);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes),	  cmocka_unit_test(matches),
		cmocka_unit_test(passwords),	  cmocka_unit_test(loads_passwords),
		cmocka_unit_test(others),	  cmocka_unit_test(refuses),
		cmocka_unit_test(belongs_to_one), cmocka_unit_test(most_prefixes),
		cmocka_unit_test(most_users),

		cmocka_unit_test(loads),	  cmocka_unit_test(loads_names),
		cmocka_unit_test(sized_tenants),  cmocka_unit_test(skips_a_byte_order_mark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
