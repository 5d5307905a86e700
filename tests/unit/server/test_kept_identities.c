/* SPDX-License-Identifier: MIT */
/* Tests of the file in which identities and their answers go over to the next process. */
#include "server/control/kept_identities.h"

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

#include "common/util/log.h"
#include "server/worker/conn.h"
#include "tests/support/log_fixture.h"

#define MAX 16
#define KEEP_NS 1000u
#define CLIENTS 5u
#define INCARNATION 77

static char folder[] = "/tmp/kvd-test-answers-XXXXXX";
static char file[64], answers_file[80];
static struct identities from, to;

static void id_make(uint8_t id[WIRE_IDENTITY_BYTES], unsigned int i)
{
	memset(id, (int)i + 1, WIRE_IDENTITY_BYTES);
}

static void answers_make(struct answers *answers, unsigned int i)
{
	struct wire_response head = { .version = 100 + i };

	answers_init(answers, 1);
	answers_record(answers, 1, &head);
}

static int setup(void **state)
{
	uint8_t id[WIRE_IDENTITY_BYTES];
	struct answers answers;

	(void)state;
	if (identities_init(&from, MAX, KEEP_NS) || identities_init(&to, MAX, KEEP_NS))
		return -1;
	for (unsigned int i = 0; i < CLIENTS; i++) {
		id_make(id, i);
		answers_make(&answers, i);
		assert_true(identity_restore(&from, id, i, &answers, 5));
	}
	return test_log_begin();
}

static int teardown(void **state)
{
	(void)state;
	identities_release(&from);
	identities_release(&to);
	log_release();
	unlink(answers_file);
	return 0;
}

static bool has_answers(unsigned int i)
{
	static struct conn conn;
	static struct principal principal = { .name = "uid=1" };
	struct answers expected;
	struct conn *closes;
	bool same;

	memset(&conn, 0, sizeof(conn));
	conn.client.principal = &principal;
	id_make(conn.query.hello.identity, i);
	conn.query.hello.change_next = 9;
	assert_true(identity_claim(&to, &conn, &closes));
	answers_make(&expected, i);
	same = conn.query.hello.known &&
	       !memcmp(conn.query.hello.answers, &expected, sizeof(expected));
	identity_leave(&to, &conn, 6);
	return same;
}

static void all_come_back(void **state)
{
	(void)state;
	identities_save(&from, file, INCARNATION);
	identities_load(&to, file, INCARNATION, 5);
	assert_int_equal(to.kept_count, CLIENTS);
	for (unsigned int i = 0; i < CLIENTS; i++)
		assert_true(has_answers(i));
	/* Once: the file is gone. */
	assert_int_equal(access(answers_file, F_OK), -1);
	identities_expire(&to, 2 * KEEP_NS);
	assert_int_equal(to.count, 0);
	assert_int_equal(test_log_lines(), 0);
}

/* The server between was killed, and its region has another incarnation. */
static void of_another_incarnation(void **state)
{
	(void)state;
	identities_save(&from, file, INCARNATION);
	identities_load(&to, file, INCARNATION + 1, 5);
	assert_int_equal(to.count, 0);
	assert_int_equal(access(answers_file, F_OK), -1);
}

static void no_more_than_there_is_room_for(void **state)
{
	(void)state;
	identities_save(&from, file, INCARNATION);
	to.max = 3;
	identities_load(&to, file, INCARNATION, 5);
	assert_int_equal(to.count, 3);
}

static void damaged(void **state)
{
	struct stat st;

	(void)state;
	identities_save(&from, file, INCARNATION);
	assert_int_equal(stat(answers_file, &st), 0);
	assert_int_equal(truncate(answers_file, st.st_size - 1), 0);
	identities_load(&to, file, INCARNATION, 5);
	assert_int_equal(to.count, CLIENTS - 1);
	assert_logged("it is damaged");
	identities_save(&from, file, INCARNATION);
	assert_int_equal(truncate(answers_file, 10), 0);
	identities_load(&to, file, INCARNATION, 5);
	assert_logged("it is of another version");
	identities_save(&from, file, INCARNATION);
	assert_int_equal(chmod(answers_file, 0666), 0);
	identities_load(&to, file, INCARNATION, 5);
	assert_logged("chmod 600");
	assert_int_equal(to.count, CLIENTS - 1);
}

static void nothing_to_keep(void **state)
{
	struct identities none;

	(void)state;
	assert_int_equal(identities_init(&none, MAX, KEEP_NS), 0);
	identities_save(&none, file, INCARNATION);
	assert_int_equal(access(answers_file, F_OK), -1);
	identities_load(&to, file, INCARNATION, 5);
	assert_int_equal(to.count, 0);
	identities_release(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(of_another_incarnation, setup, teardown),
		cmocka_unit_test_setup_teardown(no_more_than_there_is_room_for, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_to_keep, setup, teardown),
	};
	int failed;

	if (!mkdtemp(folder))
		return EXIT_FAILURE;
	snprintf(file, sizeof(file), "%s/region", folder);
	snprintf(answers_file, sizeof(answers_file), "%s.answers", file);
	failed = cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
	rmdir(folder);
	return failed;
}
