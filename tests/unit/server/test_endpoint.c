/* SPDX-License-Identifier: MIT */
/* Tests of an address that the server listens at: what is made of it, what fails, what is said. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "server/control/endpoint.h"
#include "tests/support/log_fixture.h"

static struct cm_channel channel;
static struct cm_id listener;
static char made[16]; /* a letter for each step; a capital: it is undone */
static char fails;

static int make(char what)
{
	made[strlen(made)] = what;
	return what == fails ? -ENOMEM : 0;
}

static int create_cm_channel(struct device *dev, struct cm_channel **out)
{
	int err = make('c');

	(void)dev;
	if (!err)
		*out = &channel;
	return err;
}

static int listen_at(struct cm_channel *on, int backlog, struct cm_id **out)
{
	int err;

	assert_ptr_equal(on, &channel);
	assert_true(backlog > 0);
	err = make('l');
	if (!err)
		*out = &listener;
	return err;
}

static void destroy_id(struct cm_id *id)
{
	make(id ? 'L' : '-');
}

static void destroy_cm_channel(struct cm_channel *of)
{
	make(of ? 'C' : '-');
}

static void close_device(struct device *dev)
{
	(void)dev;
	make('D');
}

/* What fails is said with the option to change, and all is released in reverse. */
static void listens(void **state)
{
	static const struct device_ops ops = {
		.create_cm_channel = create_cm_channel,
		.listen = listen_at,
		.destroy_id = destroy_id,
		.destroy_cm_channel = destroy_cm_channel,
		.close = close_device,
	};
	static struct device dev = {
		.kind = DEVICE_SOFTNIC, .name = "fake0", .address = "/run/kvd.sock", .ops = &ops
	};
	static const struct {
		char fails;
		const char *logged, *made;
	} cases[] = {
		{ 0, "listening on softnic:///run/kvd.sock", "clLCD" },
		{ 'c', "can't create a channel for connection events", "c--D" },
		{ 'l',
		  "can't listen on softnic:///run/kvd.sock: Cannot allocate memory; set another "
		  "URL in server.listen",
		  "cl-CD" },
	};
	struct endpoint endpoint;

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fails = cases[i].fails;
		memset(made, 0, sizeof(made));
		assert_int_equal(test_log_begin(), 0);
		endpoint = (struct endpoint){ .dev = &dev };
		assert_int_equal(endpoint_init(&endpoint) ?: endpoint_listen(&endpoint),
				 fails ? -ENOMEM : 0);
		assert_logged(cases[i].logged);
		endpoint_release(&endpoint);
		endpoint_close(&endpoint);
		assert_null(endpoint.dev);
		assert_string_equal(made, cases[i].made);
	}
	log_release();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listens),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
