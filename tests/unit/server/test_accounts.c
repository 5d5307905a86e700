/* SPDX-License-Identifier: MIT */
/*
 * Tests of the accounts of principals (ACCOUNT-1 to ACCOUNT-3 in server/control/accounts.h), and of
 * their buckets (RATE-1 and RATE-2 in server/users/account.h).
 */
#include "server/control/accounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/worker/client.h"

#define SECOND_NS 1000000000ull
/* When the cases begin, by the stores' clock. */
#define NOW_NS (1000 * SECOND_NS)
#define RATE 1000u

static struct accounts accounts;
static struct tenant tenants[2];
static struct client client;
static uint64_t now_ns;

static int setup(void **state)
{
	(void)state;
	accounts_init(&accounts);
	now_ns = NOW_NS;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	accounts_release(&accounts);
	assert_null(accounts.tree);
	assert_int_equal(accounts.owing_count, 0);
	return 0;
}

static struct principal named(const char *name, unsigned int number)
{
	struct principal principal = { 0 };

	snprintf(principal.name, sizeof(principal.name), "%s%u", name, number);
	return principal;
}

static struct user_account *opened(const struct principal *who)
{
	assert_true(accounts_open(&accounts, who, &tenants[0], &client, now_ns));
	assert_true(principal_is(client.principal, who));
	return client.account;
}

/* Takes what is paid @seconds later, at RATE. */
static void owe(struct user_account *account, unsigned int seconds)
{
	account_charge(account, RATE, (uint64_t)seconds * RATE, account->base_ns);
}

static void counts_connections(void **state)
{
	const struct principal a = named("user=a", 1), b = named("uid=", 2);
	struct user_account *of_a = opened(&a);

	(void)state;
	assert_ptr_equal(opened(&a), of_a);
	assert_ptr_not_equal(opened(&b), of_a);
	assert_int_equal(accounts_connections(&accounts, &a), 2);
	assert_int_equal(accounts_connections(&accounts, &b), 1);
	accounts_close(&accounts, &a, &tenants[0], now_ns);
	assert_int_equal(accounts_connections(&accounts, &a), 1);
	accounts_close(&accounts, &a, &tenants[0], now_ns);
	assert_int_equal(accounts_connections(&accounts, &a), 0);
	assert_int_equal(accounts_connections(&accounts, &b), 1);
	accounts_close(&accounts, &b, &tenants[0], now_ns);
	/* A principal that owes nothing leaves nothing. */
	assert_null(accounts.tree);
}

/* Closing its connections and connecting again leaves a principal as much over its limit. */
static void debts_stay(void **state)
{
	const struct principal a = named("user=a", 1);
	struct user_account *account = opened(&a);

	(void)state;
	owe(account, 1000);
	accounts_close(&accounts, &a, &tenants[0], now_ns);
	assert_int_equal(accounts.owing_count, 1);
	now_ns += 50 * SECOND_NS;
	assert_ptr_equal(opened(&a), account);
	assert_int_equal(accounts.owing_count, 0);
	/* Of 1000 s, of which the bucket holds 65. */
	assert_false(account_admit(account, 0, RATE, 1, NOW_NS + 50 * SECOND_NS));
	assert_false(account_admit(account, 0, RATE, 1, NOW_NS + 930 * SECOND_NS));
	assert_true(account_admit(account, 0, RATE, 1, NOW_NS + 940 * SECOND_NS));
	accounts_close(&accounts, &a, &tenants[0], now_ns);
}

/* Accounts that have paid are forgotten when others leave. */
static void the_paid_are_forgotten(void **state)
{
	const struct principal last = named("uid=", 1000);
	struct principal who;

	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		who = named("uid=", i);
		owe(opened(&who), i % 2 ? 1 : 1000);
		accounts_close(&accounts, &who, &tenants[0], now_ns);
	}
	assert_int_equal(accounts.owing_count, 8);
	now_ns += 10 * SECOND_NS;
	for (unsigned int i = 0; i < 2; i++) {
		owe(opened(&last), 1);
		accounts_close(&accounts, &last, &tenants[0], now_ns);
	}
	assert_int_equal(accounts.owing_count, 5);
	for (unsigned int i = 0; i < 8; i += 2) {
		who = named("uid=", i);
		assert_false(account_admit(opened(&who), 0, RATE, 1, NOW_NS));
		accounts_close(&accounts, &who, &tenants[0], now_ns);
	}
}

/* The gates of the budgets are a principal's in a tenant, while it has a connection there. */
static void gates_by_tenant(void **state)
{
	const struct principal a = named("user=a", 1), b = named("uid=", 2);
	struct budget_gates *of_a;

	(void)state;
	opened(&a);
	of_a = client.gates;
	assert_true(TAILQ_EMPTY(&of_a->pulls.waiting) && TAILQ_EMPTY(&of_a->builds.waiting));
	of_a->pulls.passed = 1;
	opened(&a);
	assert_ptr_equal(client.gates, of_a);
	opened(&b);
	assert_ptr_not_equal(client.gates, of_a);
	assert_true(accounts_open(&accounts, &a, &tenants[1], &client, now_ns));
	assert_ptr_not_equal(client.gates, of_a);
	assert_int_equal(client.gates->pulls.passed, 0);
	assert_int_equal(accounts_connections(&accounts, &a), 3);
	accounts_close(&accounts, &a, &tenants[0], now_ns);
	opened(&a);
	assert_ptr_equal(client.gates, of_a);
	accounts_close(&accounts, &a, &tenants[1], now_ns);
	for (unsigned int i = 0; i < 2; i++)
		accounts_close(&accounts, &a, &tenants[0], now_ns);
	assert_int_equal(accounts_connections(&accounts, &a), 0);
	opened(&a);
	assert_int_equal(client.gates->pulls.passed, 0);
	accounts_close(&accounts, &a, &tenants[0], now_ns);
	accounts_close(&accounts, &b, &tenants[0], now_ns);
	assert_null(accounts.tree);
}

static void owing_are_bounded(void **state)
{
	struct principal who;

	(void)state;
	for (unsigned int i = 0; i < ACCOUNTS_OWING_MAX + 10; i++) {
		who = named("uid=", i);
		owe(opened(&who), 1000);
		accounts_close(&accounts, &who, &tenants[0], now_ns);
	}
	assert_int_equal(accounts.owing_count, ACCOUNTS_OWING_MAX);
	assert_false(account_admit(opened(&who), 0, RATE, 1, NOW_NS));
	accounts_close(&accounts, &who, &tenants[0], now_ns);
}

static void limits_requests(void **state)
{
	struct user_account account = { .base_ns = 1000 };
	unsigned int i;

	(void)state;
	/* A burst of 32, then one each 10 ms. */
	for (i = 0; i < 32; i++)
		assert_true(account_admit(&account, 100, 0, 1, 2000));
	assert_false(account_admit(&account, 100, 0, 1, 2000));
	assert_false(account_admit(&account, 100, 0, 1, 2000 + 9999999));
	assert_true(account_admit(&account, 100, 0, 1, 2000 + 10000000));
	assert_false(account_admit(&account, 100, 0, 1, 2000 + 10000000));
	/* A clock that goes back gives nothing. */
	assert_false(account_admit(&account, 100, 0, 1, 0));
	/* The bucket never holds more than the burst. */
	for (i = 0; i < 32; i++)
		assert_true(account_admit(&account, 100, 0, 1, 3600000000000));
	assert_false(account_admit(&account, 100, 0, 1, 3600000000000));
}

static void limits_bytes(void **state)
{
	struct user_account account = { .base_ns = 0 };

	(void)state;
	/* More than there is passes, and is paid before the next: 100 KiB in 0.1 s. */
	assert_true(account_admit(&account, 0, 1 << 20, 1000, 0));
	account_charge(&account, 1 << 20, 204800, 0);
	assert_false(account_admit(&account, 0, 1 << 20, 1, 0));
	assert_false(account_admit(&account, 0, 1 << 20, 1, 90000000));
	assert_true(account_admit(&account, 0, 1 << 20, 1, 200000000));
	/* Without a limit nothing is counted. */
	account_charge(&account, 0, UINT64_MAX, 200000000);
	assert_true(account_admit(&account, 0, 0, UINT64_MAX, 200000000));
	assert_true(account_admit(&account, 0, 1 << 20, 1, 300000000));
	/* What is refused by one limit takes nothing of the other. */
	account = (struct user_account){ .base_ns = 0 };
	account_charge(&account, 1 << 20, 1 << 30, 0);
	assert_false(account_admit(&account, 1, 1 << 20, 1, 0));
	assert_int_equal(account.requests_full, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(counts_connections), CASE(debts_stay),	   CASE(the_paid_are_forgotten),
		CASE(gates_by_tenant),	  CASE(owing_are_bounded), CASE(limits_requests),
		CASE(limits_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
