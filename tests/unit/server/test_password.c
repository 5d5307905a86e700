/* SPDX-License-Identifier: MIT */
/*
 * Tests of passwords: which hashes are taken (server/users/password.c), what has them, and the
 * thread that checks that (server/control/password_job.c).
 */
#include <crypt.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/control/password_job.h"
#include "server/users/password.h"

#define WAIT_MS 300000

#define SUM_86                                                                                     \
	"pyABpBcCEaxIsotjNwuBApVKg5hyCCzIYsPO2V2LZ9FqcUmQFrG7BpmrLRMg5pv43WooQmYoiDpfi8NoPo5K30"
#define SUM_43 "6n8AgVbdhq6CRqN6H1iHQvy8wqVb6r8TTlkBetLHGQ1"
/* As `openssl passwd -6` prints it: of "pass". */
#define SHA512 "$6$0123456789abcdef$" SUM_86
/* As `mkpasswd` prints it, at a lower cost: of "password". */
#define YESCRYPT "$y$j75$HLWUkhBa1UStXuYKVZVY2.$" SUM_43

static void takes_hashes(void **state)
{
	(void)state;
	assert_true(password_hash_valid(SHA512));
	assert_true(password_hash_valid("$6$a$" SUM_86));
	assert_true(password_hash_valid("$6$rounds=1000$a$" SUM_86));
	assert_true(password_hash_valid("$6$rounds=500000$0123456789abcdef$" SUM_86));
	assert_true(password_hash_valid(YESCRYPT));
	assert_true(password_hash_valid("$y$j9T$.$" SUM_43));
	assert_true(password_hash_valid("$y$jBT$XkYGI8TncS57Am/jKBdT5/$" SUM_43));
}

/* What is clear text, a hash that is easily guessed, or one that takes long to check. */
static void refuses_others(void **state)
{
	static const char *const texts[] = {
		"",
		"sesame",
		"$",
		"$6",
		"$6$",
		"$6$$",
		"$6$" SUM_86,
		"$6$a",
		"$6$a$",
		"$6$$" SUM_86,
		"$6$a$" SUM_86 "x",
		"$6$a$" SUM_43,
		"$6$0123456789abcdefg$" SUM_86,
		"$6$a:$" SUM_86,
		"$6$a$*" SUM_43 SUM_43,
		"$6$rounds=999$a$" SUM_86,
		"$6$rounds=500001$a$" SUM_86,
		"$6$rounds=99999999999999999999$a$" SUM_86,
		"$6$rounds=+5000$a$" SUM_86,
		"$6$rounds=05000$a$" SUM_86,
		"$6$rounds=$a$" SUM_86,
		"$6$rounds=5000",
		"$6$rounds=5000$" SUM_86,
		"$5$a$" SUM_43,
		"$1$a$0123456789012345678901",
		"$2b$05$0123456789012345678901" SUM_43,
		"$y$",
		"$y$j",
		"$y$jB",
		"$y$jBT",
		"$y$jBT$",
		"$y$jCT$a$" SUM_43,
		"$y$j6T$a$" SUM_43,
		"$y$j96$a$" SUM_43,
		"$y$k9T$a$" SUM_43,
		"$y$j9T$$" SUM_43,
		"$y$j9T$a$" SUM_86,
		"$y$j9Tx$a$" SUM_43,
		"$gy$j9T$a$" SUM_43,
		"$7$CU..../....a$" SUM_43,
		"*",
		"!" SHA512,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (password_hash_valid(texts[i]))
			fail_msg("'%s' is taken", texts[i]);
}

static void matches(void **state)
{
	static struct crypt_data data;

	(void)state;
	assert_true(password_matches("pass", SHA512, &data));
	assert_false(password_matches("Pass", SHA512, &data));
	assert_false(password_matches("pas", SHA512, &data));
	assert_false(password_matches("passs", SHA512, &data));
	assert_false(password_matches("", SHA512, &data));
	assert_false(password_matches("password", SHA512, &data));
	assert_true(password_matches("password", YESCRYPT, &data));
	assert_false(password_matches("pass", YESCRYPT, &data));
	/* A salt that crypt(3) does not take fits nothing. */
	assert_true(password_hash_valid("$y$j75$z$" SUM_43));
	assert_false(password_matches("password", "$y$j75$z$" SUM_43, &data));
}

static struct mailbox control;
static struct password_job job;

static bool check(const char *password, const char *hash)
{
	struct pollfd fd = { control.event_fd, POLLIN, 0 };

	assert_int_equal(password_job_begin(&job, password, hash), 0);
	assert_true(job.runs);
	assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	assert_ptr_equal(mailbox_take(&control), &job.note);
	assert_int_equal(job.note.kind, NOTE_PASSWORD_DONE);
	assert_string_equal(password_job_hash(&job), hash);
	return password_job_matched(&job);
}

static bool holds(const char *bytes, size_t length, const char *text)
{
	return memmem(bytes, length, text, strlen(text));
}

static void checks_in_a_thread(void **state)
{
	char longest[CRYPT_MAX_PASSPHRASE_SIZE + 1];

	(void)state;
	assert_int_equal(mailbox_init(&control), 0);
	assert_int_equal(password_job_init(&job, &control), 0);
	assert_false(job.started);
	assert_true(check("pass", SHA512));
	assert_false(check("wrong", SHA512));
	assert_true(check("password", YESCRYPT));
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_false(check(longest, SHA512));
	assert_false(check("", SHA512));
	/* The job keeps no password. Its memory has 32 KiB at least. */
	assert_true(check("password", YESCRYPT));
	assert_false(holds((const char *)job.check, 32768, "password"));
	password_job_stop(&job);
	password_job_release(&job);
	password_job_release(&job);
	mailbox_release(&control);
}

/* A hash of no password, as an empty line of a file would be one. */
static void too_long_is_not_empty(void **state)
{
	char longest[CRYPT_MAX_PASSPHRASE_SIZE + 1], empty[PASSWORD_HASH_BYTES];
	static struct crypt_data data;

	(void)state;
	snprintf(empty, sizeof(empty), "%s", crypt_rn("", "$6$a", &data, sizeof(data)));
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(mailbox_init(&control), 0);
	assert_int_equal(password_job_init(&job, &control), 0);
	assert_true(check("", empty));
	assert_false(check(longest, empty));
	password_job_stop(&job);
	password_job_release(&job);
	mailbox_release(&control);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_hashes),
		cmocka_unit_test(refuses_others),
		cmocka_unit_test(matches),
		cmocka_unit_test(checks_in_a_thread),
		cmocka_unit_test(too_long_is_not_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
