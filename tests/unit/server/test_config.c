/* SPDX-License-Identifier: MIT */
/*
 * Tests of the configuration: defaults, every trap of inih, ranges, overrides, checks across
 * options, and that conf/kvd.ini is what the option table says. Errors are captured in a temporary
 * file, since users see their exact words with file and line.
 */
#include "server/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/cpu.h"
#include "common/util/log.h"
#include "server/config/listen_list.h"
#include "server/config/option_kinds.h"
#include "server/store/store.h"

#define TEXT_MAX 65536

static char dir[] = "/tmp/kvd-test-config-XXXXXX";
static char path[64], errors_path[64];
static char errors[TEXT_MAX];
static struct config config;

static int group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/t.ini", dir);
	snprintf(errors_path, sizeof(errors_path), "%s/errors", dir);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(errors_path);
	return rmdir(dir);
}

static int setup(void **state)
{
	(void)state;
	config_init(&config);
	return 0;
}

static size_t read_file(const char *name, char *text)
{
	FILE *in = fopen(name, "re");
	size_t length;

	assert_non_null(in);
	length = fread(text, 1, TEXT_MAX - 1, in);
	fclose(in);
	text[length] = '\0';
	return length;
}

static void write_file(const char *text, size_t length)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, length, out), length);
	assert_int_equal(fclose(out), 0);
}

static int capture_begin(void)
{
	FILE *out = fopen(errors_path, "we");
	int saved = dup(STDERR_FILENO);

	assert_non_null(out);
	fflush(stderr);
	dup2(fileno(out), STDERR_FILENO);
	fclose(out);
	return saved;
}

static void capture_end(int saved)
{
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	read_file(errors_path, errors);
}

static int load(const char *text)
{
	int saved, ret;

	write_file(text, strlen(text));
	saved = capture_begin();
	ret = config_load(&config, path);
	capture_end(saved);
	return ret;
}

static int set(const char *assignment)
{
	int saved = capture_begin();
	int ret = config_set(&config, assignment);

	capture_end(saved);
	return ret;
}

static int check(void)
{
	int saved = capture_begin();
	int ret = config_check(&config);

	capture_end(saved);
	return ret;
}

/* The file is refused with exactly one error, `t.ini:line: message...`, and changes nothing. */
static void refuse(const char *text, unsigned int line, const char *message)
{
	struct config before = config;
	char wanted[512];

	if (load(text) != -EINVAL)
		fail_msg("not refused: %s", text);
	snprintf(wanted, sizeof(wanted), "%s:%u: %s", path, line, message);
	if (strncmp(errors, wanted, strlen(wanted)) != 0)
		fail_msg("wanted '%s', got '%s'", wanted, errors);
	if (strchr(errors, '\n') != errors + strlen(errors) - 1)
		fail_msg("more than one error: %s", errors);
	assert_memory_equal(&config, &before, sizeof(config));
}

static void test_defaults(void **state)
{
	(void)state;
	assert_string_equal(config.server.listen, "auto");
	assert_int_equal(config.server.workers, 0);
	assert_true(config.server.pin);
	assert_int_equal(config.server.poll, POLL_ADAPTIVE);
	assert_int_equal(config.server.spin_time, 50000);
	assert_int_equal(config.server.max_connections, 1024);
	assert_int_equal(config.server.drain_timeout, 5000000000);
	assert_int_equal(config.server.handshake_timeout, 5000000000);
	assert_int_equal(config.server.pull_timeout, 30000000000);
	assert_int_equal(config.server.pull_stall, 5000000000);
	assert_int_equal(config.memory.pull_share, 12);
	assert_int_equal(config.memory.pin_share, 25);
	assert_int_equal(config.memory.pin_time_max, 3600000000000);
	assert_int_equal(config.server.keepalive_interval, 15000000000);
	assert_int_equal(config.rdma.gid_index, OPTION_UINT_AUTO);
	assert_int_equal(config.softnic.socket_mode, 0660);
	assert_int_equal(config.memory.size, 1 << 30);
	assert_int_equal(config.memory.hugepages, HUGEPAGES_AUTO);
	assert_true(config.memory.prefault);
	assert_false(config.memory.dump);
	assert_string_equal(config.memory.numa, "default");
	assert_int_equal(config.memory.eviction, EVICTION_OBJECT_HITS);
	assert_int_equal(config.memory.access_rate, 4);
	assert_false(config.memory.curve);
	assert_int_equal(config.index.keys, 0);
	assert_int_equal(config.limits.max_value, OPTION_SIZE_AUTO);
	assert_int_equal(config_value_max(&config), 64 << 20);
	assert_int_equal(config.request.window, 8);
	assert_int_equal(config.request.buffer, 2048);
	assert_int_equal(config.request.srq_depth, 4096);
	assert_int_equal(config.log.level, LOG_NOTICE);
	assert_string_equal(config.log.file, "");
	assert_int_equal(check(), 0);
	assert_string_equal(errors, "");
}

static void test_load(void **state)
{
	(void)state;
	assert_int_equal(load("\xef\xbb\xbf; a comment\n"
			      "# another\n"
			      "   ; and one that is indented\n"
			      "\n"
			      "[server] ; of the server\n"
			      "listen=rdma://, softnic:///tmp/a b;c=d[e]:f\r\n"
			      "workers : 3 ; three\n"
			      "pin = off\n"
			      "poll=busy\n"
			      "spin_time =0\n"
			      "[memory]\n"
			      "size = 64m   \n"
			      "hugepages = require\n"
			      "prefault = no\n"
			      "dump = yes\n"
			      "numa = 0-1,3\n"
			      "eviction = byte-hits\n"
			      "access_rate = 1\n"
			      "[limits]\n"
			      "[index]\n"
			      "keys = 30\n"
			      "[rdma]\n"
			      "gid_index = 0\n"
			      "ack_timeout = 31\n"
			      "traffic_class = auto\n"
			      "[softnic]\n"
			      "socket_mode = 600\n"
			      "[log]\n"
			      "level = debug\n"
			      "file ="),
			 0);
	assert_string_equal(errors, "");
	assert_string_equal(config.server.listen, "rdma://,softnic:///tmp/a b;c=d[e]:f");
	assert_int_equal(config.server.workers, 3);
	assert_false(config.server.pin);
	assert_int_equal(config.server.poll, POLL_BUSY);
	assert_int_equal(config.server.spin_time, 0);
	assert_int_equal(config.memory.size, 64 << 20);
	assert_int_equal(config.memory.hugepages, HUGEPAGES_REQUIRE);
	assert_false(config.memory.prefault);
	assert_true(config.memory.dump);
	assert_string_equal(config.memory.numa, "0-1,3");
	assert_int_equal(config.memory.eviction, EVICTION_BYTE_HITS);
	assert_int_equal(config.memory.access_rate, 1);
	assert_int_equal(config.index.keys, 30);
	assert_int_equal(config.rdma.gid_index, 0);
	assert_int_equal(config.rdma.ack_timeout, 31);
	assert_int_equal(config.rdma.traffic_class, OPTION_UINT_AUTO);
	assert_int_equal(config.softnic.socket_mode, 0600);
	assert_int_equal(config.log.level, LOG_DEBUG);
	/* Options that are not in the file keep their values. */
	assert_int_equal(config.server.max_connections, 1024);
	assert_int_equal(load(""), 0);
	assert_int_equal(config.server.workers, 3);
	assert_int_equal(load("\xef\xbb\xbf[server]\nworkers = 4\n"), 0);
	assert_int_equal(config.server.workers, 4);
}

static void test_names(void **state)
{
	(void)state;
	refuse("[server]\nworker = 2\n", 2, "unknown option 'worker' in [server]: ");
	refuse("[memory]\nworkers = 2\n", 2, "unknown option 'workers' in [memory]: ");
	refuse("\n\n[sever]\nworkers = 2\nx = 1\n", 3, "unknown section [sever]: ");
	refuse("[Server]\n", 1, "unknown section [Server]: ");
	refuse("[]\n", 1, "unknown section []: ");
	refuse("[\33c\302\233]\n", 1, "unknown section [?c??]: ");
	refuse("workers = 2\n[server]\n", 1, "'workers' is in no section: ");
	refuse("[server]\n= 2\n", 2, "unknown option '' in [server]: ");
	/* inih cuts names at 49 bytes: a name that was cut must not be taken for a known one. */
	refuse("[serverxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx]\n", 1,
	       "unknown section [serverxxxx");
	refuse("[server]\nworkersxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx = 1\n", 2,
	       "unknown option 'workersxxxx");
}

static void test_repeated(void **state)
{
	(void)state;
	refuse("[server]\nworkers = 2\npin = no\nworkers = 2\n", 4,
	       "server.workers is repeated: line 2 sets it, remove one");
	refuse("[server]\nworkers = 2\n[log]\n[server]\nworkers = 9\npin = maybe\n", 4,
	       "section [server] is repeated: it began on line 1, ");
}

static void test_form(void **state)
{
	(void)state;
	refuse("[server]\nworkers\n", 2, "not an option: write key = value");
	refuse("[server]\nworkers ; = 2\n", 2, "not an option: write key = value");
	refuse("[server]\npin = no\nworkers ; = 2", 3, "not an option: write key = value");
	refuse("[server\n", 1, "'[' without ']': ");
	refuse("[server] workers = 2\n", 1, "text after ']': ");
	/* inih would append this to the value before it. */
	refuse("[log]\nfile = /a\n  /b\n", 3, "the line begins with a space: ");
	refuse("[server]\n\tworkers = 2\n", 2, "the line begins with a space: ");
	refuse(" [server]\n", 1, "the line begins with a space: ");
}

static void test_values(void **state)
{
	(void)state;
	refuse("[server]\nworkers = 65\n", 2,
	       "server.workers: '65' is out of range: give 0 to 64\n");
	refuse("[server]\nworkers = two\n", 2, "server.workers: 'two' is not a whole number: ");
	refuse("[server]\nworkers =\n", 2, "server.workers: '' is not a whole number: ");
	refuse("[server]\nworkers = 2 # two\n", 2, "server.workers: '2 # two' is not a ");
	refuse("[server]\nlisten = infiniband\n", 2,
	       "server.listen: infiniband: 'infiniband' is not a kvd URL: write one like "
	       "rdma://10.0.0.1:7471, rdma+tcp://10.0.0.1:7472, rdma+tls://10.0.0.1:7473 or "
	       "softnic:///run/kvd/kvd.sock.\n");
	refuse("[rdma]\nnetworks = 10.9.0.0/24,10.9.1.1/24\n", 2,
	       "rdma.networks: '10.9.1.1/24' has bits set after the network's");
	refuse("[rdma]\nnetworks = 10.9.0.0/24,\n", 2, "rdma.networks: a comma ends the list");
	refuse("[rdma]\nnetworks = ,10.9.0.0/24\n", 2, "rdma.networks: '' is not a network");
	refuse("[rdma]\nnetworks = auto\n", 2, "rdma.networks: 'auto' is not a network");
	refuse("[server]\npin = perhaps\n", 2, "server.pin: 'perhaps' is neither: ");
	refuse("[server]\npoll = lazy\n", 2, "server.poll: 'lazy' is not one of: adaptive | busy");
	refuse("[server]\nspin_time = 50\n", 2, "server.spin_time: '50' is not a time: ");
	refuse("[server]\nspin_time = 2s\n", 2,
	       "server.spin_time: '2s' is out of range: give 0 to 1s\n");
	refuse("[server]\nhandshake_timeout = 0\n", 2,
	       "server.handshake_timeout: '0' is out of range: give 10ms to 10m\n");
	refuse("[memory]\nsize = 15m\n", 2,
	       "memory.size: '15m' is out of range: give 16m to 512g\n");
	refuse("[memory]\nsize = 1.5g\n", 2, "memory.size: '1.5g' is not a size: ");
	refuse("[memory]\nhugepages = 4m\n", 2,
	       "memory.hugepages: '4m' is not one of: auto | off | 2m | 1g | require\n");
	refuse("[memory]\neviction = random\n", 2,
	       "memory.eviction: 'random' is not one of: none | object-hits | byte-hits\n");
	refuse("[memory]\npull_share = 51\n", 2,
	       "memory.pull_share: '51' is out of range: give 1 to 50\n");
	refuse("[memory]\npin_share = 76\n", 2,
	       "memory.pin_share: '76' is out of range: give 0 to 75\n");
	refuse("[memory]\npin_time_max = 121m\n", 2,
	       "memory.pin_time_max: '121m' is out of range: give 1s to 2h\n");
	refuse("[memory]\naccess_rate = 0\n", 2,
	       "memory.access_rate: '0' is out of range: give 1 to 1024\n");
	refuse("[softnic]\nsocket_mode = 0990\n", 2, "softnic.socket_mode: '0990' is not a mode: ");
	refuse("[server]\nlisten =\n", 2, "server.listen: empty: give URLs like rdma://, ");
	refuse("[server]\nlisten = softnic://kvd.sock\n", 2,
	       "server.listen: softnic://kvd.sock: The path must be absolute, ");
	refuse("[server]\nlisten = softnic:///a #b\n", 2, "server.listen: a space begins or ends ");
	refuse("[server]\nlisten = softnic:///\x01\n", 2,
	       "server.listen: the value has a control character: ");
	refuse("[server]\nlisten = rdma://h:0\n", 2,
	       "server.listen: rdma://h:0: The port 0 is out of range: use 1 to 65535.\n");
	refuse("[server]\nlisten = rdma+tcp://h?gid_index=1\n", 2,
	       "server.listen: rdma+tcp://h?gid_index=1: A URL to listen at has no options: "
	       "leave out '?gid_index=1', and set the options of [rdma].\n");
	refuse("[log]\nfile = /a #b\n", 2, "log.file: a space begins or ends ");
	refuse("[rdma]\nack_timeout = 0\n", 2, "rdma.ack_timeout: '0' is out of range: ");
	refuse("[rdma]\nretry_count = 8\n", 2, "rdma.retry_count: '8' is out of range: ");
	refuse("[rdma]\ngid_index = any\n", 2, "rdma.gid_index: 'any' is ");
	refuse("[log]\nlevel = off\n", 2, "log.level: 'off' is not one of: error | ");
}

/* The URLs that are served: as many as there is room for, each once. */
static void test_listen(void **state)
{
	char text[1024] = "server.listen=";

	(void)state;
	assert_int_equal(load("[server]\nlisten = softnic:// ,rdma+tls://,\trdma+tcp://[::]:1, "
			      "rdma://10.9.0.1\n"),
			 0);
	assert_string_equal(config.server.listen,
			    "softnic://,rdma+tls://,rdma+tcp://[::]:1,rdma://10.9.0.1");
	for (unsigned int i = 1; i <= LISTEN_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%srdma://10.9.0.%u",
			 i > 1 ? "," : "", i);
	assert_int_equal(set(text), 0);
	assert_string_equal(config.server.listen, strchr(text, '=') + 1);
	strcat(text, ",rdma://");
	assert_int_equal(set(text), -EINVAL);
	assert_non_null(strstr(errors, "server.listen: more than 16 URLs: give fewer\n"));
	refuse("[server]\nlisten = rdma://,\n", 2, "server.listen: a URL is empty: ");
	refuse("[server]\nlisten = rdma://,,softnic://\n", 2, "server.listen: a URL is empty: ");
	refuse("[server]\nlisten = rdma://,auto\n", 2, "server.listen: auto: 'auto' is not a kvd ");
	/* Also where it is not the same text. */
	refuse("[server]\nlisten = rdma://,rdma+tcp://,rdma://auto:7471\n", 2,
	       "server.listen: rdma://auto:7471 is listed twice: remove one\n");
	refuse("[server]\nlisten = softnic://,softnic://\n", 2,
	       "server.listen: softnic:// is listed twice: remove one\n");
	refuse("[server]\nlisten = memcached://,memcached://auto:11211\n", 2,
	       "server.listen: memcached://auto:11211 is listed twice: remove one\n");
	refuse("[server]\nlisten = memcached:///s,memcached:///s\n", 2,
	       "server.listen: memcached:///s is listed twice: remove one\n");
	/* A path is one socket. */
	refuse("[server]\nlisten = softnic:///s,memcached:///s\n", 2,
	       "server.listen: the socket of memcached:///s is listed twice: give it another path");
	assert_int_equal(load("[server]\nlisten = softnic:///s,softnic://,memcached:///t,"
			      "memcached:///u,memcached://,memcached+tls://,memcached://:1\n"),
			 0);
	assert_int_equal(load("[server]\nlisten = auto\n"), 0);
	assert_string_equal(config.server.listen, "auto");
	/* One that is too long is refused, not cut. */
	snprintf(text, sizeof(text), "server.listen=softnic:///%0*d", 500, 0);
	assert_int_equal(set(text), -EINVAL);
	assert_non_null(strstr(errors, "a Unix socket's may be 107."));
}

/* Lists of NUMA nodes: only their form is checked, not whether the host has the nodes. */
static void test_numa(void **state)
{
	static const char *const good[] = { "default", "local", "interleave", "0",
					    "7",       "0-3",	"0,2",	      "0-1,3,5-5" };
	static const char *const bad[] = { "",	 "none", "all",	  "Local", "-1",     "0-",
					   "0,", ",0",	 "0,,1",  "3-1",   "0 1",    "!0",
					   "+0", "0x1",	 "0-1-2", "0;",	   "local,0" };
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(text, sizeof(text), "memory.numa=%s", good[i]);
		assert_int_equal(set(text), 0);
		assert_string_equal(config.memory.numa, good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "memory.numa=%s", bad[i]);
		if (set(text) != -EINVAL)
			fail_msg("not refused: %s", text);
		assert_non_null(strstr(errors, "names no nodes: give default, local, "));
	}
	snprintf(text, sizeof(text), "memory.numa=%0*d", OPTION_NUMA_MAX, 0);
	assert_int_equal(set(text), -EINVAL);
	assert_non_null(strstr(errors, "memory.numa: longer than 63 bytes: "));
}

/* A name is zero after its end, as in messages; and a fleet has conditions of its own. */
static void test_fleet(void **state)
{
	static const char *const bad[] = { "a/b", "a b", "1234567890123456789012345", "\303\244" };
	static const char zeros[WIRE_TENANT_MAX];
	char text[128];

	(void)state;
	assert_int_equal(set("fleet.member=123456789012345678901234"), 0);
	assert_string_equal(config.fleet.member, "123456789012345678901234");
	assert_int_equal(set("fleet.member=a.b-c_D"), 0);
	assert_string_equal(config.fleet.member, "a.b-c_D");
	assert_memory_equal(config.fleet.member + 7, zeros, WIRE_TENANT_MAX - 7);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "fleet.member=%s", bad[i]);
		assert_int_equal(set(text), -EINVAL);
		assert_non_null(strstr(errors, "can't be a name: use 1 to 24 letters, digits"));
	}
	assert_string_equal(config.fleet.member, "a.b-c_D");
	assert_int_equal(check(), -EINVAL);
	assert_non_null(strstr(errors, "fleet.member is set without fleet.file or "
				       "fleet.etcd: set one of them, or remove it"));
	strcpy(config.fleet.file, "/etc/kvd/fleet.ini");
	assert_int_equal(check(), 0);
	config.limits.identities = config.server.max_connections - 1;
	assert_int_equal(check(), -EINVAL);
	assert_non_null(strstr(errors, "limits.identities (1023) is less than "
				       "server.max_connections (1024): in a fleet (fleet.file) "));
	config.limits.identities++;
	assert_int_equal(check(), 0);
	assert_int_equal(set("fleet.member="), 0);
	strcpy(config.fleet.file, "");
	config.limits.identities = 0;
	assert_int_equal(check(), 0);
}

/* What has to be said with fleet.etcd, and what may not. */
static void test_fleet_in_etcd(void **state)
{
	static const struct {
		const char *set, *also, *error;
	} bad[] = {
		{ "fleet.file=/f", NULL, "fleet.file and fleet.etcd are both set: " },
		{ "fleet.name=", NULL, "fleet.etcd is set without fleet.name: set the name" },
		{ "fleet.etcd=http://a,https://b", "fleet.etcd_ca=/ca", "http:// and https://: " },
		{ "fleet.etcd=https://b,http://a", "fleet.etcd_ca=/ca", "http:// and https://: " },
		{ "fleet.etcd=https://a,https://b", NULL, "fleet.etcd_ca is not set: set it" },
		{ "fleet.etcd_ca=/ca", NULL, "are for URLs of https://, and fleet.etcd has" },
		{ "fleet.etcd_certificate=/c", NULL, "are for URLs of https://" },
		{ "fleet.etcd_key=/k", NULL, "are for URLs of https://" },
		{ "limits.identities=1023", NULL,
		  "limits.identities (1023) is less than server.max_connections (1024): in a fleet "
		  "(fleet.etcd) each" },
		{ "fleet.etcd=", NULL, "fleet.name is set without fleet.etcd: set that, too" },
	};
	static const char *const alone[] = { "url=rdma://a", "etcd_user=/u", "etcd_ca=/ca",
					     "etcd_certificate=/c", "etcd_key=/k" };
	char text[128];

	(void)state;
	assert_true(config.fleet.lease == OPTION_S(2));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		config_init(&config);
		assert_int_equal(set("fleet.etcd=http://a"), 0);
		assert_int_equal(set("fleet.name=blue"), 0);
		assert_int_equal(check(), 0);
		assert_int_equal(set(bad[i].set), 0);
		if (bad[i].also)
			assert_int_equal(set(bad[i].also), 0);
		assert_int_equal(check(), -EINVAL);
		if (!strstr(errors, bad[i].error))
			fail_msg("'%s' is not in: %s", bad[i].error, errors);
	}
	for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
		config_init(&config);
		snprintf(text, sizeof(text), "fleet.%s", alone[i]);
		assert_int_equal(set(text), 0);
		assert_int_equal(check(), -EINVAL);
		assert_non_null(strstr(errors, "is set without fleet.etcd: set that, too, or "));
	}
	config_init(&config);
	assert_int_equal(set("fleet.etcd=https://a,https://b"), 0);
	assert_int_equal(set("fleet.name=blue"), 0);
	assert_int_equal(set("fleet.member=a"), 0);
	assert_int_equal(set("fleet.etcd_ca=/ca"), 0);
	assert_int_equal(check(), 0);
	assert_int_equal(set("fleet.etcd_key=/k"), 0);
	assert_int_equal(check(), -EINVAL);
	assert_non_null(strstr(errors, "one of fleet.etcd_certificate and fleet.etcd_key is set"));
	assert_int_equal(set("fleet.etcd_certificate=/c"), 0);
	assert_int_equal(check(), 0);
}

static void test_lists_of_fleet(void **state)
{
	static const struct {
		const char *set, *error;
	} bad[] = {
		{ "fleet.etcd=a:2379", "'a:2379' is not the URL of an etcd: give http://HOST" },
		{ "fleet.etcd=ftp://a", "is not the URL of an etcd" },
		{ "fleet.etcd=http://", "is not the URL of an etcd" },
		{ "fleet.etcd=http://a/v3", "is not the URL of an etcd" },
		{ "fleet.etcd=http://u@a", "is not the URL of an etcd" },
		{ "fleet.etcd=http://a,,http://b", "'' is not the URL of an etcd" },
		{ "fleet.etcd=http://a,", "a comma ends the list: remove it" },
		{ "fleet.etcd=http://1,http://2,http://3,http://4,http://5,http://6,http://7,"
		  "http://8,http://9,http://a,http://b,http://c,http://d,http://e,http://f,"
		  "http://g,http://h",
		  "more than 16 URLs: give fewer" },
		{ "fleet.url=10.0.0.1", "10.0.0.1: " },
		{ "fleet.url=rdma://", "rdma://: " },
		{ "fleet.url=rdma://a,,rdma://b", ": " },
		{ "fleet.url=softnic://", "softnic://: " },
		{ "fleet.lease=999ms", "1s to 1m" },
		{ "fleet.lease=61s", "1s to 1m" },
	};
	char text[700];

	(void)state;
	assert_int_equal(set("fleet.etcd=http://a:2379, https://[::1]:2380,http://b"), 0);
	assert_string_equal(config.fleet.etcd, "http://a:2379,https://[::1]:2380,http://b");
	assert_int_equal(set("fleet.url=rdma://10.0.0.1:7471, rdma+tcp://h,softnic:///s"), 0);
	assert_string_equal(config.fleet.url, "rdma://10.0.0.1:7471,rdma+tcp://h,softnic:///s");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!set(bad[i].set))
			fail_msg("not refused: %s", bad[i].set);
		if (!strstr(errors, bad[i].error))
			fail_msg("'%s' is not in: %s", bad[i].error, errors);
	}
	memset(text, 0, sizeof(text));
	strcpy(text, "fleet.url=rdma://a");
	while (strlen(text) < 10 + FLEET_URLS_MAX - 9)
		strcat(text, ",rdma://a");
	while (strlen(text) < 10 + FLEET_URLS_MAX)
		strcat(text, "a");
	assert_int_equal(set(text), 0);
	assert_int_equal(strlen(config.fleet.url), FLEET_URLS_MAX);
	strcat(text, "a");
	assert_int_not_equal(set(text), 0);
	assert_non_null(strstr(errors, "fleet.url: longer than 512 bytes: "));
}

/* Runs config_member(), whose errors it keeps. */
static int member_take(struct config_member *member)
{
	int saved = capture_begin(), ret = config_member(&config, member);

	capture_end(saved);
	return ret;
}

/* What a member says of itself, where the configuration does not. */
static void test_member_of_fleet(void **state)
{
	static const struct {
		const char *listen, *error;
	} bad[] = {
		{ "auto", "server.listen = auto names no address: set fleet.url to the URLs at" },
		{ "rdma://", "of server.listen is every address of this host: set fleet.url" },
		{ "softnic:///s,rdma+tcp://0.0.0.0",
		  "rdma+tcp://0.0.0.0:7472 of server.listen is" },
		{ "rdma+tcp://[::]:1", "rdma+tcp://[::]:1 of server.listen is every address" },
	};
	struct config_member member;
	char text[700], host[256] = "";

	(void)state;
	assert_int_equal(set("fleet.member=a"), 0);
	assert_int_equal(set("server.listen=rdma+tcp://10.0.0.1,rdma+tls://h:5,rdma://[fd00::1],"
			     "softnic:///s"),
			 0);
	assert_int_equal(member_take(&member), 0);
	assert_string_equal(member.id, "a");
	assert_string_equal(member.urls, "rdma+tcp://10.0.0.1:7472,rdma+tls://h:5,"
					 "rdma://[fd00::1]:7471,softnic:///s");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "server.listen=%s", bad[i].listen);
		assert_int_equal(set(text), 0);
		assert_int_equal(member_take(&member), -EINVAL);
		if (!strstr(errors, bad[i].error))
			fail_msg("'%s' is not in: %s", bad[i].error, errors);
	}
	/* 512 bytes, and one more. */
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof(text),
			 "server.listen=softnic:///1%090d,softnic:///2%090d,softnic:///3%090d,"
			 "softnic:///4%090d,softnic:///5%0*d",
			 0, 0, 0, 0, 88 + i, 0);
		assert_int_equal(set(text), 0);
		assert_int_equal(member_take(&member), i ? -EINVAL : 0);
	}
	assert_non_null(strstr(errors, "the URLs of server.listen have more than 512 bytes: set"));
	assert_int_equal(set("fleet.url=rdma://b"), 0);
	assert_int_equal(member_take(&member), 0);
	assert_string_equal(member.urls, "rdma://b");
	assert_int_equal(set("fleet.member="), 0);
	gethostname(host, sizeof(host) - 1);
	if (!member_take(&member))
		assert_string_equal(member.id, host);
	else
		assert_non_null(strstr(errors, "fleet.member is not set, and the host's name, "));
	/* Without a path it is the socket of this user. */
	assert_int_equal(set("fleet.member=a"), 0);
	assert_int_equal(set("fleet.url="), 0);
	assert_int_equal(set("server.listen=softnic://"), 0);
	assert_int_equal(member_take(&member), 0);
	assert_non_null(strstr(member.urls, "/kvd.sock"));
}

/* A line that inih would cut is refused; the longest that it does not cut is read whole. */
static void test_long_line(void **state)
{
	char text[1024], value[512];
	int longest = 0;

	(void)state;
	for (int length = 1; length < 400; length++) {
		snprintf(text, sizeof(text), "[log]\n; %0*d\nlevel = info\n", length, 0);
		if (load(text) == 0)
			longest = length;
	}
	assert_in_range(longest, OPTION_FILE_MAX, 390);
	snprintf(text, sizeof(text), "[log]\n; %0*d\nlevel = info\n", longest + 1, 0);
	refuse(text, 2,
	       "the line is longer than 198 bytes: shorten it; a list may continue on lines "
	       "that begin with a space");

	memset(value, 'x', sizeof(value));
	value[0] = '/';
	value[OPTION_FILE_MAX - 1] = '\0';
	snprintf(text, sizeof(text), "[log]\nfile = %s", value);
	assert_int_equal(load(text), 0);
	assert_string_equal(config.log.file, value);
	strcat(value, "y");
	snprintf(text, sizeof(text), "[log]\nfile = %s", value);
	refuse(text, 2, "log.file: longer than ");

	value[DEVICE_PATH_MAX - 1] = '\0';
	snprintf(text, sizeof(text), "[server]\nlisten = softnic://%s", value);
	assert_int_equal(load(text), 0);
	assert_string_equal(config.server.listen, strstr(text, "softnic://"));
	strcat(text, "y");
	refuse(text, 2, "server.listen: softnic:///xxx");
	assert_non_null(strstr(errors, "The path is 108 bytes long: "));
}

/* What is printed of it is read back. */
static void printed_is_read(void)
{
	const struct config before = config;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	config_print(&config, out);
	fclose(out);
	assert_int_equal(load(text), 0);
	assert_memory_equal(&config, &before, sizeof(config));
	free(text);
}

/* A list may have more lines, and more words than one line has room for. */
static void test_list_lines(void **state)
{
	char text[2 * OPTION_LIST_MAX] = "[rdma]\nnetworks =", list[OPTION_LIST_MAX] = "", word[40];

	(void)state;
	assert_int_equal(load("[rdma]\nnetworks = 10.0.0.0/24,\n  10.1.0.0/24 ; office\n"
			      "; between\n\n\t,10.2.0.0/24\n  fd00::/8\n"
			      "[server]\nlisten =\n"
			      " rdma://, rdma+tcp:// ; both\n softnic://"),
			 0);
	assert_string_equal(config.rdma.networks, "10.0.0.0/24,10.1.0.0/24,10.2.0.0/24,fd00::/8");
	assert_string_equal(config.server.listen, "rdma://,rdma+tcp://,softnic://");
	printed_is_read();
	for (unsigned int i = 0; i < 240; i++) {
		snprintf(word, sizeof(word), "%s10.100.%u.0/24", i ? "," : "", i);
		strcat(list, word);
		snprintf(word, sizeof(word), "\n  10.100.%u.0/24", i);
		strcat(text, word);
	}
	assert_int_equal(load(text), 0);
	assert_string_equal(config.rdma.networks, list);
	printed_is_read();
	for (unsigned int i = 0; i < 60; i++)
		strcat(text, "\n  10.101.0.0/24");
	refuse(text, 269, "rdma.networks: longer than 4095 bytes: give a shorter list");
	/* The line of the wrong word is named, and each error once. */
	refuse("[rdma]\nnetworks = 10.0.0.0/24,\n  10.0.0.1/24\nwindows = no\n", 3,
	       "rdma.networks: '10.0.0.1/24' has bits set ");
	refuse("[rdma]\nnetworks = 10.0.0.1/24,\n  10.1.0.0/24\n  10.0.0.1/24\n", 2,
	       "rdma.networks: '10.0.0.1/24' has bits set ");
	refuse("[server]\nlisten =\n  rdma://\n ; none\n tcp,softnic://\n softnic://\n", 5,
	       "server.listen: tcp: 'tcp' is not a kvd URL");
	refuse("[rdma]\nnetworks = 10.0.0.0/24,\n  \n[log]\n", 2,
	       "rdma.networks: a comma ends the list");
	refuse("[rdma]\n  10.0.0.0/24\n", 2, "the line begins with a space: ");
	refuse("[rdma]\nwindows = no\n  10.0.0.0/24\n", 3, "the line begins with a space: ");
	refuse("[rdma]\nnetworks = 10.0.0.0/24\n[log]\n  10.0.0.0/24\n", 4,
	       "the line begins with a space: ");
}

static void test_bytes(void **state)
{
	static const char zero[] = "[server]\nworkers = 1\0"
				   "2\n";
	static const char control[] = "[log]\nfile = /a\033[31m\n";
	static const char delete[] = "[log]\nfile = /a\177b\n";
	int saved, ret;

	(void)state;
	write_file(zero, sizeof(zero) - 1);
	saved = capture_begin();
	ret = config_load(&config, path);
	capture_end(saved);
	assert_int_equal(ret, -EINVAL);
	assert_non_null(strstr(errors, "t.ini:2: the line has a zero byte: "));
	refuse(control, 2, "log.file: the value has a control character: ");
	refuse(delete, 2, "log.file: the value has a control character: ");
}

/* All errors of a file are reported, and none of its good options is applied. */
static void test_all_errors(void **state)
{
	const char *at;

	(void)state;
	assert_int_equal(
		load("[server]\nworkers = 99\npin = no\npoll = x\nnonsense\n[log]\nx = 1\n"),
		-EINVAL);
	at = strstr(errors, "t.ini:2: ");
	at = at ? strstr(at, "\n/tmp") : NULL;
	at = at ? strstr(at, "t.ini:4: ") : NULL;
	at = at ? strstr(at, "t.ini:5: ") : NULL;
	at = at ? strstr(at, "t.ini:7: ") : NULL;
	assert_non_null(at);
	assert_true(config.server.pin);
}

static void test_bounds(void **state)
{
	static char text[TEXT_MAX];
	unsigned int lines = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		strcat(text, "junk\n");
	assert_int_equal(load(text), -EINVAL);
	for (const char *at = errors; *at; at++)
		lines += *at == '\n';
	assert_int_equal(lines, 20);

	memset(text, '\n', 10001);
	text[10001] = '\0';
	assert_int_equal(load(text), -EINVAL);
	assert_non_null(strstr(errors, "more than 10000 lines: "));
	text[10000] = '\0';
	assert_int_equal(load(text), 0);
}

static void test_unreadable(void **state)
{
	int saved = capture_begin();
	int missing = config_load(&config, "/nonexistent/kvd.ini");
	int folder = config_load(&config, dir);

	(void)state;
	capture_end(saved);
	assert_int_equal(missing, -ENOENT);
	assert_int_equal(folder, -EISDIR);
	assert_non_null(strstr(errors, "/nonexistent/kvd.ini: cannot open: No such file"));
	assert_non_null(strstr(errors, ": cannot read: Is a directory\n"));
}

/*
 * Something else than a file is refused, by its kind, and without a wait for a writer. Only
 * /dev/null is an empty file, by whatever name.
 */
static void test_no_file(void **state)
{
	int saved, fifo, zero, null, link;

	(void)state;
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	saved = capture_begin();
	fifo = config_load(&config, path);
	zero = config_load(&config, "/dev/zero");
	capture_end(saved);
	assert_int_equal(fifo, -EINVAL);
	assert_int_equal(zero, -EINVAL);
	assert_non_null(strstr(errors, "t.ini: cannot read: it is not a regular file\n"));
	assert_non_null(strstr(errors, "/dev/zero: cannot read: it is not a regular file\n"));

	unlink(path);
	assert_int_equal(symlink("/dev/null", path), 0);
	saved = capture_begin();
	null = config_load(&config, "/dev/null");
	link = config_load(&config, path);
	capture_end(saved);
	unlink(path);
	assert_int_equal(null, 0);
	assert_int_equal(link, 0);
	assert_string_equal(errors, "");
}

static void test_set(void **state)
{
	(void)state;
	assert_int_equal(set("server.workers=2"), 0);
	assert_int_equal(set("server.workers=3"), 0);
	assert_int_equal(set("log.file="), 0);
	assert_int_equal(set("log.file=/a=b.c"), 0);
	assert_string_equal(errors, "");
	assert_int_equal(config.server.workers, 3);
	assert_string_equal(config.log.file, "/a=b.c");

	assert_int_equal(set("server.workers=65"), -EINVAL);
	assert_string_equal(errors, "-o: server.workers: '65' is out of range: give 0 to 64\n");
	assert_int_equal(set("server.worker=6"), -EINVAL);
	assert_string_equal(errors, "-o: unknown option 'server.worker': kvd --help lists them\n");
	assert_int_equal(set("log.file=/a "), -EINVAL);
	assert_int_equal(set("workers=6"), -EINVAL);
	assert_string_equal(errors, "-o: 'workers=6' is not section.key=value: kvd --help "
				    "lists all options\n");
	assert_int_equal(set("workers=6.5"), -EINVAL);
	assert_int_equal(set("server.workers"), -EINVAL);
	assert_int_equal(set(""), -EINVAL);
	assert_int_equal(set("serverxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.workers=1"),
			 -EINVAL);
	assert_int_equal(config.server.workers, 3);
}

/* Numbers and times that would be allowed if only their last 32 bits counted. */
static void test_wraps(void **state)
{
	unsigned int refused = 0;
	char assignment[128];

	(void)state;
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct config_option *option = &option_table[i];
		const uint64_t wraps = (1ull << 32) + (option->min ? option->min : 1);

		if (!option->max || option->max >= wraps)
			continue;
		/* A number has no unit, and a time has to have one. */
		for (unsigned int time = 0; time < 2; time++, refused++) {
			snprintf(assignment, sizeof(assignment), "%s.%s=%" PRIu64 "%s",
				 option->section, option->key, wraps, time ? "ns" : "");
			assert_int_equal(set(assignment), -EINVAL);
		}
	}
	assert_true(refused > 30);
}

/* By default a sixteenth of memory.size, up to a bound; what is configured counts as it is. */
static void test_max_value(void **state)
{
	(void)state;
	assert_int_equal(set("memory.size=16m"), 0);
	assert_int_equal(config_value_max(&config), 1 << 20);
	assert_int_equal(set("memory.size=1000m"), 0);
	assert_int_equal(config_value_max(&config), (1000u << 20) / 16);
	assert_int_equal(set("memory.size=512g"), 0);
	assert_int_equal(config_value_max(&config), 64 << 20);
	assert_int_equal(set("limits.max_value=1g"), 0);
	assert_int_equal(config_value_max(&config), 1 << 30);
	assert_int_equal(check(), 0);
	assert_int_equal(set("limits.max_value=0"), 0);
	assert_int_equal(config_value_max(&config), 0);
	assert_int_equal(set("limits.max_value=1025m"), -EINVAL);
	assert_int_equal(set("limits.max_value=aut"), -EINVAL);
	assert_int_equal(config_value_max(&config), 0);
	assert_int_equal(set("limits.max_value=auto"), 0);
	assert_int_equal(config_value_max(&config), 64 << 20);
}

/* The largest value has to fit memory.pull_share with any key; unless configured, it does. */
static void test_value_fits(void **state)
{
	const uint64_t bytes = memory_bytes_first(64 << 20, index_bytes(INDEX_LEVEL_MIN));
	uint64_t fits;

	(void)state;
	assert_int_equal(set("memory.size=64m"), 0);
	for (unsigned int share = 1; share <= 26; share++) {
		config.memory.pull_share = share;
		fits = config_value_fits(&config, 64 << 20, INDEX_LEVEL_MIN);
		assert_true(config_pull_bytes(&config, 64 << 20, INDEX_LEVEL_MIN) ==
			    bytes / 100 * share);
		assert_true(mem_class_bytes(item_bytes_for(KEY_MAX, fits, 0)) <=
			    bytes / 100 * share);
		assert_true(mem_class_bytes(item_bytes_for(KEY_MAX, fits + 1, 0)) >
			    bytes / 100 * share);
		config.limits.max_value = OPTION_SIZE_AUTO;
		assert_true(config_value_max(&config) == (fits < 4 << 20 ? fits : 4 << 20));
		assert_int_equal(check(), 0);
		config.limits.max_value = fits;
		assert_int_equal(check(), fits > 16 << 20 ? -EINVAL : 0);
		config.limits.max_value = fits + 1;
		assert_int_equal(check(), -EINVAL);
	}
	config.memory.pull_share = 12;
	config.limits.max_value = 8 << 20;
	assert_int_equal(check(), -EINVAL);
	assert_non_null(strstr(errors,
			       "limits.max_value (8 MiB) does not fit memory.pull_share: "
			       "12 % of the item memory has room for a value of 7.6 MiB; "));
	assert_non_null(strstr(errors, "raise memory.size or memory.pull_share, or lower "
				       "limits.max_value"));
	/* Items have what the index leaves. */
	config.limits.max_value = 4 << 20;
	assert_int_equal(check(), 0);
	config.index.keys = 2 << 20;
	assert_int_equal(check(), -EINVAL);
	config.limits.max_value = OPTION_SIZE_AUTO;
	assert_int_equal(check(), 0);
}

static void test_check(void **state)
{
	(void)state;
	config.request.window = 256;
	config.request.srq_depth = 64;
	config.limits.max_value = 1 << 30;
	config.memory.size = 1 << 30;
	config.index.keys = 1ull << 30;
	config.memory.curve = true;
	config.memory.eviction = EVICTION_NONE;
	assert_int_equal(check(), -EINVAL);
	assert_non_null(strstr(errors, "memory.curve = yes estimates the effect of eviction, and "
				       "memory.eviction = none evicts nothing: change one"));
	assert_non_null(strstr(errors, "request.window (256) is more than request.srq_depth (64)"));
	assert_non_null(strstr(errors, "limits.max_value is more than a quarter of memory.size"));
	assert_non_null(strstr(errors, "index.keys needs an index of more than half"));

	config.request.srq_depth = 256;
	config.memory.size = 64ull << 30;
	config.memory.eviction = EVICTION_OBJECT_HITS;
	assert_int_equal(check(), 0);
	assert_string_equal(errors, "");
}

/* What the command line says is checked as what a file says. */
static void test_check_assignments(void **state)
{
	const char *good[] = { "memory.size=64m", "limits.max_value=16m", "memory.pull_share=26" };
	const char *bad[] = { "memory.size=64m", "limits.max_value=17m", "memory.pull_share=50" };
	struct config_source source = { .assignments = good, .count = 3 };
	int saved, ret;

	(void)state;
	assert_int_equal(config_read(&config, &source), 0);
	source.assignments = bad;
	saved = capture_begin();
	ret = config_read(&config, &source);
	capture_end(saved);
	assert_int_equal(ret, -EINVAL);
	assert_non_null(strstr(errors, "limits.max_value is more than a quarter"));
}

/* Each condition for itself, at both sides of its bound: one that is broken suffices. */
static void test_check_each(void **state)
{
	const uint64_t gib = 1ull << 30;

	(void)state;
	for (unsigned int i = 0; i < 6; i++) {
		bool broken = i % 2;

		config.request.window = 16;
		config.request.srq_depth = i / 2 == 0 ? 16 - broken : 4096;
		config.memory.size = gib;
		config.memory.pull_share = 50;
		config.limits.max_value = i / 2 == 1 ? gib / 4 + broken : 1 << 20;
		config.index.keys = i / 2 == 2 ? gib / 16 + broken : 1000;
		assert_int_equal(check(), broken ? -EINVAL : 0);
		assert_int_equal(!*errors, !broken);
		assert_int_equal(!!strstr(errors, "request.window"), broken && i / 2 == 0);
		assert_int_equal(!!strstr(errors, "limits.max_value"), broken && i / 2 == 1);
		assert_int_equal(!!strstr(errors, "index.keys"), broken && i / 2 == 2);
	}
}

/* users.require_identity refuses URLs by which clients have no identity. */
static void test_check_identity(void **state)
{
	static const struct {
		const char *urls;
		bool tls_requires;
		const char *error;
	} cases[] = {
		{ "softnic://", false, NULL },
		{ "rdma+tls://", true, NULL },
		{ "rdma+tls://,softnic://", true, NULL },
		{ "rdma+tls://", false, "tls.require_identity = no admits" },
		{ "rdma+tls://,rdma://", true, "remove these URLs from server.listen" },
		{ "softnic://,rdma+tcp://", true, "remove these URLs from server.listen" },
		{ "auto", true, "server.listen = auto may be rdma://" },
		{ "memcached:///s", false, NULL },
		{ "memcached:///s,rdma+tls://", true, NULL },
		{ "memcached://", true, "clients of memcached://HOST:PORT have no identity" },
		{ "memcached:///s,memcached://127.0.0.1,softnic://", true,
		  "or that of a Unix socket, memcached:///PATH" },
		{ "memcached+tls://,softnic://", true, NULL },
		{ "memcached+tls://,softnic://", false, "tls.require_identity = no admits" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "server.listen=%s", cases[i].urls);
		assert_int_equal(set(text), 0);
		config.tls.require_identity = cases[i].tls_requires;
		config.users.require_identity = false;
		assert_int_equal(check(), 0);
		config.users.require_identity = true;
		assert_int_equal(check(), cases[i].error ? -EINVAL : 0);
		if (cases[i].error)
			assert_non_null(strstr(errors, cases[i].error));
	}
}

/* http:// has no identities, and https:// has them if it requires certificates. */
static void test_check_identity_http(void **state)
{
	static const struct {
		const char *http;
		bool tls_requires;
		const char *error;
	} cases[] = {
		{ "", false, NULL },
		{ "https://127.0.0.1:1", true, NULL },
		{ "https://127.0.0.1:1", false, "tls.require_identity = no admits" },
		{ "http://127.0.0.1:1", true, "server.http have no identity by http://" },
		{ "[::]:1", true, "server.http have no identity by http://" },
	};
	char text[64];

	(void)state;
	assert_int_equal(set("server.listen=softnic://"), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "server.http=%s", cases[i].http);
		assert_int_equal(set(text), 0);
		config.tls.require_identity = cases[i].tls_requires;
		config.users.require_identity = true;
		assert_int_equal(check(), cases[i].error ? -EINVAL : 0);
		if (cases[i].error)
			assert_non_null(strstr(errors, cases[i].error));
	}
}

/* An address and a port, with http:// or https:// before them or not. */
static void test_http_url(void **state)
{
	static const struct {
		const char *text, *url; /* NULL: it is refused */
	} cases[] = {
		{ "127.0.0.1:7480", "http://127.0.0.1:7480" },
		{ "http://0.0.0.0:1", "http://0.0.0.0:1" },
		{ "https://[::]:65535", "https://[::]:65535" },
		{ "[fe80::1%eth0]:7480", "http://[fe80::1%eth0]:7480" },
		{ "7480", NULL },
		{ ":7480", NULL },
		{ "127.0.0.1", NULL },
		{ "127.0.0.1:", NULL },
		{ "127.0.0.1:0", NULL },
		{ "127.0.0.1:65536", NULL },
		{ "127.0.0.1:80x", NULL },
		{ "127.0.0.1:80/", NULL },
		{ "::1:7480", NULL },
		{ "[::1]", NULL },
		{ "[::1:7480", NULL },
		{ "[127.0.0.1]:7480", NULL },
		{ "localhost:7480", NULL },
		{ "tcp://127.0.0.1:7480", NULL },
		{ "https://", NULL },
		{ "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]:1", NULL },
	};
	char text[HTTP_URL_MAX], assignment[128];
	struct parse_why why;
	struct http_url url;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(assignment, sizeof(assignment), "server.http=%s", cases[i].text);
		assert_int_equal(set(assignment), cases[i].url ? 0 : -EINVAL);
		if (!cases[i].url) {
			assert_non_null(strstr(errors, "is not ADDRESS:PORT: give the address"));
			continue;
		}
		assert_string_equal(config.server.http, cases[i].text);
		assert_int_equal(http_url_parse(&url, cases[i].text, &why), 0);
		assert_string_equal(http_url_text(&url, text), cases[i].url);
	}
	assert_int_equal(set("server.http="), 0);
	assert_string_equal(config.server.http, "");
}

static void print(char *text)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	config_print(&config, out);
	fclose(out);
	read_file(path, text);
}

/* --print-config writes a file that loads to the same configuration, whatever the values. */
static void test_print(void **state)
{
	static const char *const assignments[] = {
		"server.listen=rdma://10.9.0.1, softnic:///a b;c",
		"server.pin=no",
		"server.spin_time=1ms",
		"memory.numa=0,2",
		"memory.eviction=byte-hits",
		"memory.hugepages=1g",
		"memory.size=48m",
		"softnic.socket_mode=07",
		"log.level=error",
		"log.file=/var/log/kvd.log",
		"limits.max_value=3m",
	};
	static char text[TEXT_MAX];
	struct config wanted;

	(void)state;
	for (size_t i = 0; i < sizeof(assignments) / sizeof(assignments[0]); i++)
		assert_int_equal(set(assignments[i]), 0);
	wanted = config;
	print(text);
	assert_non_null(strstr(text, "\nspin_time = 1ms\n"));
	assert_non_null(strstr(text, "\nsocket_mode = 0007\n"));
	assert_non_null(strstr(text, "\nnuma = 0,2\n"));
	assert_non_null(
		strstr(text, "\n# region 48 MiB = superblock 4 KiB + index (grows from 8 KiB to at "
			     "most 32 MiB) + items + pad 4 KiB\n"
			     "# Largest value: 3 MiB\n"));
	config_init(&config);
	assert_int_equal(load(text), 0);
	assert_memory_equal(&config, &wanted, sizeof(config));
}

/* The last line is a comment that can be read back, even where it is longest. */
static void test_print_division(void **state)
{
	static char text[TEXT_MAX];

	(void)state;
	assert_int_equal(set("memory.size=512g"), 0);
	assert_int_equal(set("index.keys=11000000000"), 0);
	print(text);
	assert_non_null(strstr(
		text, "\n# region 512 GiB = superblock 4 KiB + index (grows from 256 GiB to at "
		      "most 256 GiB) + items + pad 4 KiB\n"));
	assert_int_equal(load(text), 0);
	assert_string_equal(errors, "");
}

/* conf/kvd.ini, below its opening comment, is what --print-config writes for the defaults. */
static void test_example(void **state)
{
	static char wanted[TEXT_MAX], text[TEXT_MAX];
	const char *start;

	(void)state;
	print(wanted);
	read_file("conf/kvd.ini", text);
	start = strstr(text, "\n[server]\n");
	assert_non_null(start);
	for (const char *line = text; line < start; line = strchr(line, '\n') + 1)
		assert_true(*line == ';' || *line == '\n');
	assert_string_equal(start + 1, wanted);
	assert_int_equal(load(text), 0);
}

static void test_table(void **state)
{
	static char text[TEXT_MAX], domain[OPTION_TEXT_MAX];
	char name[128];
	FILE *out = fopen(path, "we");

	(void)state;
	assert_non_null(out);
	config_help(out);
	fclose(out);
	read_file(path, text);
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct config_option *option = &option_table[i];

		snprintf(name, sizeof(name), "  %s.%s=%s\n", option->section, option->key,
			 option->text);
		assert_non_null(strstr(text, name));
		assert_non_null(strstr(text, option->help));
		assert_non_null(strstr(text, option_domain(option, domain)));
		strcat(domain, option->change == OPTION_LIVE ? "; run time)\n" : "; restart)\n");
		assert_non_null(strstr(strstr(text, name), domain));
		assert_true(*domain && *option->help);
	}
}

#define CONFIG_TEST(name) cmocka_unit_test_setup(name, setup)

/* One for each CPU, unless server.workers says how many. */
static void workers_by_cpus(void **state)
{
	unsigned int cpus = cpu_count();

	(void)state;
	assert_int_equal(config_workers(&config), cpus < WORKERS_MAX ? cpus : WORKERS_MAX);
	config.server.workers = 7;
	assert_int_equal(config_workers(&config), 7);
	config.server.workers = WORKERS_MAX;
	assert_int_equal(config_workers(&config), WORKERS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONFIG_TEST(test_defaults),
		CONFIG_TEST(test_load),
		CONFIG_TEST(test_names),
		CONFIG_TEST(test_repeated),
		CONFIG_TEST(test_form),
		CONFIG_TEST(test_values),
		CONFIG_TEST(test_listen),
		CONFIG_TEST(test_numa),
		CONFIG_TEST(test_long_line),
		CONFIG_TEST(test_list_lines),
		CONFIG_TEST(test_bytes),
		CONFIG_TEST(test_all_errors),
		CONFIG_TEST(test_bounds),
		CONFIG_TEST(test_unreadable),
		CONFIG_TEST(test_no_file),
		CONFIG_TEST(test_set),
		CONFIG_TEST(test_wraps),
		CONFIG_TEST(test_max_value),
		CONFIG_TEST(test_value_fits),
		CONFIG_TEST(test_check),
		CONFIG_TEST(test_check_each),
		CONFIG_TEST(test_check_identity),
		CONFIG_TEST(test_check_identity_http),
		CONFIG_TEST(test_http_url),
		CONFIG_TEST(workers_by_cpus),
		CONFIG_TEST(test_print),
		CONFIG_TEST(test_print_division),
		CONFIG_TEST(test_example),
		CONFIG_TEST(test_table),
		CONFIG_TEST(test_check_assignments),
		CONFIG_TEST(test_fleet),
		CONFIG_TEST(test_fleet_in_etcd),
		CONFIG_TEST(test_lists_of_fleet),
		CONFIG_TEST(test_member_of_fleet),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
