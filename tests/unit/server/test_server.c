/* SPDX-License-Identifier: MIT */
/*
 * Tests of the order in which a server is set up, and of what is released if a step fails: the
 * steps are functions that note their letter, one of which fails.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/clock.h"
#include "server/server.h"
#include "server/stats.h"

#define SECOND_NS 1000000000ull

static char steps[32];
static char failing; /* the step that fails; 0: none */

static int step(char letter)
{
	size_t n = strlen(steps);

	assert_true(n + 1 < sizeof(steps));
	steps[n] = letter;
	return letter == failing ? -EIO : 0;
}

static int fake_net_check(const struct config *config, bool warn)
{
	(void)config;
	assert_false(warn);
	return step('a');
}

/* What the store is checked and made with. */
static struct store_options checked, created;
static const struct fleet *member_of; /* as the workers know it */

static int fake_store_check(const struct store_options *options)
{
	checked = *options;
	return step('c');
}

static int fake_memlock(const struct config *config, uint64_t region_bytes)
{
	assert_true(region_bytes == config->memory.size);
	return step('m');
}

static int fake_net_open(struct net *net, const struct config *config)
{
	(void)net;
	(void)config;
	return step('o');
}

static int fake_net_init(struct net *net, const struct worker_env *env)
{
	(void)net;
	assert_non_null(env->store);
	assert_non_null(env->config);
	assert_ptr_equal(env->stats_print, stats_print);
	assert_non_null(env->store_options);
	created = *env->store_options;
	member_of = env->fleet;
	assert_ptr_equal(env->stats_source->net, net);
	assert_true(clock_ns() - env->stats_source->started_ns < 3600 * SECOND_NS);
	return step('n');
}

static void fake_net_release(struct net *net)
{
	(void)net;
	step('N');
}

#define net_check fake_net_check
#define store_check fake_store_check
#define nic_check_memlock fake_memlock
#define net_open fake_net_open
#define net_init fake_net_init
#define net_release fake_net_release
#include "server/server.c"

/* What takes long comes late; what failed leaves nothing, neither devices nor memory. */
static void steps_and_releases(void **state)
{
	static const struct {
		char failing;
		const char *steps;
	} cases[] = {
		{ 0, "acon" }, { 'a', "aN" }, { 'c', "acN" }, { 'o', "acoN" }, { 'n', "aconN" },
	};
	static struct server server;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&server, 0, sizeof(server));
		config_init(&server.config);
		strcpy(server.config.server.listen, "softnic://");
		memset(steps, 0, sizeof(steps));
		failing = cases[i].failing;
		assert_int_equal(server_init(&server), failing ? -EIO : 0);
		assert_string_equal(steps, cases[i].steps);
	}
	memset(steps, 0, sizeof(steps));
	server_release(&server);
	assert_string_equal(steps, "N");
}

/* The store gets what the configuration says, when it is checked and when it is made. */
static void options_of_the_store(void **state)
{
	static struct server server;
	struct config *config = &server.config;

	(void)state;
	failing = 0;
	config_init(config);
	config->memory.size = 123u << 20;
	config->memory.hugepages = HUGEPAGES_2M;
	config->memory.eviction = EVICTION_BYTE_HITS;
	config->memory.pin_share = 17;
	config->memory.pin_time_max = 77 * SECOND_NS;
	config->index.keys = 100000;
	config->limits.max_value = 5u << 20;
	for (unsigned int i = 0; i < 8; i++) {
		bool verbs = i & 1, prefault = i & 2;

		memset(&created, 0, sizeof(created));
		memset(steps, 0, sizeof(steps));
		strcpy(config->server.listen, verbs ? "rdma://" : "softnic://");
		config->memory.prefault = prefault;
		config->memory.dump = prefault;
		config->limits.identities = i & 4 ? 3000 : 0;
		assert_int_equal(server_init(&server), 0);
		/* Only an RDMA device locks it. */
		assert_string_equal(steps, verbs ? "acmon" : "acon");
		assert_true(checked.bytes == created.bytes);
		assert_true(created.bytes == 123u << 20);
		assert_int_equal(created.hugepages, HUGEPAGES_2M);
		assert_int_equal(created.prefault, prefault || verbs);
		assert_int_equal(checked.prefault, created.prefault);
		assert_int_equal(created.dump, prefault);
		assert_true(created.bytes_beside == PROCESS_BYTES + nic_workers_bytes(config) +
							    conns_bytes(config) +
							    identities_bytes(i & 4 ? 3000 : 0));
		assert_true(checked.bytes_beside == created.bytes_beside);
		assert_string_equal(created.numa, "default");
		assert_int_equal(created.level, index_level(100000));
		assert_true(created.value_max == 5u << 20);
		assert_int_equal(created.fill, INDEX_FILL);
		assert_int_equal(created.eviction, EVICTION_BYTE_HITS);
		assert_int_equal(created.pin_share, 17);
		assert_int_equal(created.pin_time_max, 77);
		assert_int_equal(created.sweep_share, EXPIRY_SWEEP_SHARE);
	}
	/* What the process may lock is checked before anything is made. */
	strcpy(config->server.listen, "rdma://");
	failing = 'm';
	memset(steps, 0, sizeof(steps));
	assert_int_equal(server_init(&server), -EIO);
	assert_string_equal(steps, "acmN");
}

/* A member of a fleet: its stores have the fleet's seed, and its workers know the fleet. */
static void a_member_of_a_fleet(void **state)
{
	static const char text[] = "[fleet]\nname=f\nseed=0x77\nepoch=3\n"
				   "[member a]\nurl=softnic:///a\n[member b]\nurl=softnic:///b\n";
	static struct server server;
	struct config *config = &server.config;
	int fd;

	(void)state;
	failing = 0;
	config_init(config);
	strcpy(config->server.listen, "softnic://");
	memset(steps, 0, sizeof(steps));
	assert_int_equal(server_init(&server), 0);
	assert_null(member_of);
	assert_true(created.hash_seed == 0);
	server_release(&server);
	strcpy(config->fleet.file, "/tmp/kvd-test-server-XXXXXX");
	fd = mkstemp(config->fleet.file);
	assert_true(write(fd, text, sizeof(text) - 1) == sizeof(text) - 1);
	close(fd);
	strcpy(config->fleet.member, "b");
	memset(steps, 0, sizeof(steps));
	assert_int_equal(server_init(&server), 0);
	assert_string_equal(steps, "acon");
	assert_ptr_equal(member_of, &server.fleet);
	assert_int_equal(server.fleet.view->member, 1);
	assert_int_equal(server.fleet.view->shards, FLEET_SHARDS / 2);
	assert_true(server.fleet.end_ns == UINT64_MAX);
	/* The word of all stores is that of the map, and has no end. */
	assert_true(server.fleet_stores.word.generation ==
		    server.fleet.view->map->head->generation);
	assert_true(server.fleet_stores.word.epoch == server.fleet.view->map->head->epoch);
	assert_true(server.fleet_stores.word.end_ns == UINT64_MAX);
	assert_true(checked.hash_seed == 0x77);
	assert_true(created.hash_seed == 0x77);
	server_release(&server);
	assert_null(server.fleet.view);
	/* The host is checked, too, so that all errors are reported. */
	strcpy(config->fleet.member, "c");
	memset(steps, 0, sizeof(steps));
	assert_int_equal(server_init(&server), -EINVAL);
	assert_string_equal(steps, "acN");
	unlink(config->fleet.file);
	assert_int_equal(server_init(&server), -ENOENT);
}

/* Each connection is in what the host has to have, with at least what was measured for it. */
static void connections_are_accounted_for(void **state)
{
	static const char *const urls[] = { "softnic://", "rdma://", "rdma://,softnic://" };
	static struct server server;
	struct config *config = &server.config;
	uint64_t few, each[3];

	(void)state;
	failing = 0;
	for (unsigned int i = 0; i < 3; i++) {
		config_init(config);
		strcpy(config->server.listen, urls[i]);
		config->server.max_connections = 1;
		memset(steps, 0, sizeof(steps));
		assert_int_equal(server_check(config), 0);
		few = checked.bytes_beside;
		config->server.max_connections = 60001;
		assert_int_equal(server_check(config), 0);
		each[i] = (checked.bytes_beside - few) / 60000;
		/* And administrators'. */
		assert_true(conns_bytes(config) == (60001 + ADMIN_CONNECTIONS) * each[i]);
	}
	assert_in_range(each[0], 43900, 100000);
	assert_in_range(each[1], sizeof(struct conn) + 16384, 100000);
	/* Of either kind: all of them may be of the one that takes more. */
	assert_true(each[2] == (each[0] > each[1] ? each[0] : each[1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_and_releases),
		cmocka_unit_test(options_of_the_store),
		cmocka_unit_test(a_member_of_a_fleet),
		cmocka_unit_test(connections_are_accounted_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
