/* SPDX-License-Identifier: MIT */
/*
 * The server's client of etcd as a program, for tests/system/etcd.sh:
 *
 *	sys_etcd [-e URL,...] [-c CA] [-C CERTIFICATE -K KEY] [-u USER_FILE] [-t MS] COMMAND
 *
 *	get KEY			prints "KEY VALUE LEASE"; list PREFIX: of all keys
 *	create KEY VALUE LEASE	fails if there is such a key
 *	put KEY VALUE		even if there is
 *	branches LEASE		transactions of several keys, whose answers must be right
 *	large KEY BYTES		stores that many, and reads them back
 *	grant TTL_S | keepalive LEASE | ttl LEASE | revoke LEASE
 *	status			a line for each endpoint
 *	write PREFIX		transactions until SIGTERM, which must all come out as etcd.h says
 *
 * Prints results, and ends with 0; or "FAIL" and the reason, and ends with 1.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/tls/tls.h"
#include "server/fleet/etcd.h"

/* As many keys as fit an answer, which has 7 values for each. */
#define ATTEMPTS_MAX 4000
#define PAUSE_US 10000
#define KEY_ROOM 128

static struct etcd *etcd;
static unsigned int timeout_ms = 10000;

static void __attribute__((format(printf, 1, 2), noreturn)) fail(const char *format, ...)
{
	va_list arguments;

	printf("FAIL  ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	exit(1);
}

static void must(int err)
{
	if (err)
		fail("%d %s", -err, etcd_why(etcd));
}

static int get(const char *key, bool prefix)
{
	struct etcd_answer answer;

	must(etcd_get(etcd, key, prefix, timeout_ms, &answer));
	for (size_t i = 0; i < answer.ranges[0].count; i++) {
		const struct etcd_kv *kv = &answer.ranges[0].kvs[i];

		printf("%s %s %" PRId64 "\n", kv->key, (const char *)kv->value, kv->lease);
	}
	etcd_answer_release(&answer);
	return 0;
}

static enum etcd_outcome put(const char *key, bool create, const void *value, size_t length,
			     int64_t lease)
{
	const struct etcd_compare absent = { .key = key, .target = ETCD_CREATE_REVISION };
	const struct etcd_op op = {
		.kind = ETCD_PUT, .key = key, .value = value, .value_len = length, .lease = lease
	};
	const struct etcd_txn txn = {
		.compares = &absent, .compare_count = create, .success = &op, .success_count = 1
	};
	struct etcd_answer answer;
	enum etcd_outcome outcome = etcd_txn(etcd, &txn, timeout_ms, &answer);

	etcd_answer_release(&answer);
	return outcome;
}

static int put_print(const char *key, bool create, const char *value, int64_t lease)
{
	static const char *const names[] = {
		[ETCD_SUCCEEDED] = "succeeded",
		[ETCD_COMPARE_FAILED] = "compare failed",
		[ETCD_NOT_EXECUTED] = "not executed",
		[ETCD_UNKNOWN] = "unknown",
	};

	printf("%s", names[put(key, create, value, strlen(value), lease)]);
	printf(" %d %s\n", -etcd_error(etcd), etcd_why(etcd));
	return 0;
}

/* Executes a transaction, which makes the next revision, and checks what each answer has. */
static void branch(const struct etcd_txn *txn, enum etcd_outcome outcome, unsigned int ranges,
		   struct etcd_answer *answer)
{
	static uint64_t cluster_id;
	static int64_t revision;

	if (etcd_txn(etcd, txn, timeout_ms, answer) != outcome)
		fail("not outcome %d: %s", outcome, etcd_why(etcd));
	if (answer->range_count != ranges)
		fail("%u ranges", answer->range_count);
	if (cluster_id && answer->cluster_id != cluster_id)
		fail("it is another etcd");
	if (answer->revision != revision + 1 && revision)
		fail("revision %" PRId64 " came after %" PRId64, answer->revision, revision);
	cluster_id = answer->cluster_id;
	revision = answer->revision;
}

static void range_is(const struct etcd_answer *answer, unsigned int range, int64_t created,
		     int64_t changed, int64_t lease)
{
	const struct etcd_kv *kv = answer->ranges[range].kvs;

	if (answer->ranges[range].count != 1)
		fail("range %u has %zu keys", range, answer->ranges[range].count);
	if (kv->create_revision != created || kv->mod_revision != changed || kv->lease != lease)
		fail("%s: created %" PRId64 ", changed %" PRId64 ", lease %" PRId64, kv->key,
		     kv->create_revision, kv->mod_revision, kv->lease);
}

/* Both branches put, delete and get, by compares of each kind. */
static int branches(int64_t lease)
{
	const struct etcd_op put_own = {
		.kind = ETCD_PUT, .key = "t/own", .value = "1", .value_len = 1, .lease = lease
	};
	const struct etcd_op put_map = { .kind = ETCD_PUT, .key = "t/map" };
	const struct etcd_op delete_own = { .kind = ETCD_DELETE, .key = "t/own" };
	const struct etcd_op get_own = { .kind = ETCD_GET, .key = "t/own" };
	const struct etcd_op get_map = { .kind = ETCD_GET, .key = "t/map" };
	const struct etcd_op ops[] = { put_own, put_map, get_own };
	const struct etcd_op others[] = { delete_own, put_map, get_map, get_own };
	struct etcd_compare compares[] = {
		{ .key = "t/own", .target = ETCD_CREATE_REVISION },
		{ .key = "t/map", .target = ETCD_MOD_REVISION },
		{ .key = "t/map", .target = ETCD_PRESENT },
	};
	struct etcd_txn txn = { .compares = compares,
				.compare_count = 2,
				.success = ops,
				.success_count = 3,
				.failure = others,
				.failure_count = 4 };
	struct etcd_answer answer;
	int64_t first, second;

	branch(&txn, ETCD_SUCCEEDED, 3, &answer);
	first = answer.revision;
	range_is(&answer, 2, first, first, lease);
	etcd_answer_release(&answer);

	/* Now all three compares are true of what has been created. */
	compares[0].revision = compares[1].revision = first;
	txn.compare_count = 3;
	branch(&txn, ETCD_SUCCEEDED, 3, &answer);
	second = answer.revision;
	range_is(&answer, 2, first, second, lease);
	etcd_answer_release(&answer);

	/* One is false: the key was changed. */
	branch(&txn, ETCD_COMPARE_FAILED, 4, &answer);
	range_is(&answer, 2, first, answer.revision, 0);
	if (answer.ranges[3].count)
		fail("a key that was deleted is there");
	etcd_answer_release(&answer);

	/* A key that was deleted is not present. */
	compares[0].target = ETCD_PRESENT;
	txn.compare_count = 1;
	branch(&txn, ETCD_COMPARE_FAILED, 4, &answer);
	etcd_answer_release(&answer);
	return 0;
}

static int large(const char *key, size_t length)
{
	unsigned char *value = malloc(length);
	struct etcd_answer answer;
	bool same;

	for (size_t i = 0; i < length; i++)
		value[i] = (unsigned char)(i * 2654435761u >> 13);
	if (put(key, false, value, length, 0) != ETCD_SUCCEEDED)
		fail("%s", etcd_why(etcd));
	must(etcd_get(etcd, key, false, timeout_ms, &answer));
	same = answer.ranges[0].count == 1 && answer.ranges[0].kvs[0].value_len == length &&
	       !memcmp(answer.ranges[0].kvs[0].value, value, length);
	etcd_answer_release(&answer);
	free(value);
	if (!same)
		fail("another value came back");
	return 0;
}

static int status(unsigned int endpoints)
{
	for (unsigned int i = 0; i < endpoints; i++) {
		struct etcd_status is;

		if (etcd_status(etcd, i, timeout_ms, &is))
			printf("%s\n", etcd_why(etcd));
		else
			printf("%s version %s %s %s\n", etcd_url(etcd, i), is.version,
			       is.leader == is.member_id ? "leader" : "follower",
			       is.raft_index && is.db_used_bytes && is.cluster_id ? "well" :
										    "FAIL");
	}
	return 0;
}

/* An attempt to change the state, which writes a key of its own, too. */
static struct attempt {
	enum { OPEN, EXECUTED, NOT_EXECUTED } fate;
} attempts[ATTEMPTS_MAX];
static unsigned int attempt_count, open_count, unknown_count, unknown_executed, refused_count;
static char state_key[KEY_ROOM], log_prefix[KEY_ROOM];
static int64_t state_revision;
static _Atomic bool ends;

/* The state has this revision now: what compared an older one can't be executed any more. */
static void state_changed(unsigned int number, int64_t revision)
{
	if (number >= attempt_count || attempts[number].fate != OPEN)
		fail("the state is %u, which was not written, or was not open", number);
	attempts[number].fate = EXECUTED;
	state_revision = revision;
	for (unsigned int i = 0; i < attempt_count; i++)
		if (attempts[i].fate == OPEN)
			attempts[i].fate = NOT_EXECUTED;
	open_count = 0;
}

/* What a read, or a failed compare, found. */
static void state_read(const struct etcd_range *range)
{
	const struct etcd_kv *kv = range->kvs;

	if (!range->count && !state_revision)
		return;
	if (range->count != 1 || kv->mod_revision < state_revision)
		fail("the state is gone, or old");
	if (kv->mod_revision == state_revision)
		return;
	if (!open_count)
		fail("the state has changed, with no attempt open");
	state_changed((unsigned int)strtoul(kv->value, NULL, 10), kv->mod_revision);
	unknown_executed++;
}

/* After an unknown outcome: reads before anything else. */
static void state_learn(void)
{
	struct etcd_answer answer;

	while (etcd_get(etcd, state_key, false, timeout_ms, &answer))
		if (etcd_error(etcd) == -ECANCELED)
			return;
	state_read(answer.ranges);
	etcd_answer_release(&answer);
}

static void attempt(void)
{
	unsigned int number = attempt_count++;
	char value[16], key[KEY_ROOM + 16];
	const struct etcd_compare same = { .key = state_key,
					   .target = ETCD_MOD_REVISION,
					   .revision = state_revision };
	struct etcd_op success[] = { { .kind = ETCD_PUT, .key = state_key, .value = value },
				     { .kind = ETCD_PUT, .key = key } };
	const struct etcd_op failure = { .kind = ETCD_GET, .key = state_key };
	const struct etcd_txn txn = { .compares = &same,
				      .compare_count = 1,
				      .success = success,
				      .success_count = 2,
				      .failure = &failure,
				      .failure_count = 1 };
	struct etcd_answer answer;

	success[0].value_len = (size_t)snprintf(value, sizeof(value), "%u", number);
	snprintf(key, sizeof(key), "%s%u", log_prefix, number);
	open_count++;
	switch (etcd_txn(etcd, &txn, timeout_ms, &answer)) {
	case ETCD_SUCCEEDED:
		state_changed(number, answer.revision);
		break;
	case ETCD_COMPARE_FAILED:
		attempts[number].fate = NOT_EXECUTED;
		open_count--;
		if (!open_count)
			fail("a compare failed, with no attempt open");
		state_read(answer.ranges);
		break;
	case ETCD_NOT_EXECUTED:
		attempts[number].fate = NOT_EXECUTED;
		open_count--;
		refused_count++;
		break;
	case ETCD_UNKNOWN:
		unknown_count++;
		printf("unknown: %s\n", etcd_why(etcd));
		state_learn();
		break;
	}
	etcd_answer_release(&answer);
}

/* Interrupts the call in progress, too. */
static void *end_await(void *user)
{
	sigset_t *set = user;
	int signal;

	sigwait(set, &signal);
	ends = true;
	etcd_interrupt(etcd);
	return NULL;
}

/* The keys that attempts left are those of the executed ones. */
static void log_compare(void)
{
	struct etcd_answer answer;
	unsigned int executed = 0;

	must(etcd_get(etcd, log_prefix, true, timeout_ms, &answer));
	for (unsigned int i = 0; i < attempt_count; i++)
		executed += attempts[i].fate == EXECUTED;
	for (size_t i = 0; i < answer.ranges[0].count; i++) {
		const char *key = answer.ranges[0].kvs[i].key + strlen(log_prefix);

		if (attempts[strtoul(key, NULL, 10)].fate != EXECUTED)
			fail("attempt %s was executed", key);
	}
	if (answer.ranges[0].count != executed)
		fail("%zu attempts were executed, instead of %u", answer.ranges[0].count, executed);
	etcd_answer_release(&answer);
	printf("executed %u of %u; unknown %u, of which executed %u; not executed %u\n", executed,
	       attempt_count, unknown_count, unknown_executed, refused_count);
}

static int write_until_end(const char *prefix)
{
	pthread_t waiter;
	sigset_t set;

	snprintf(state_key, sizeof(state_key), "%s/state", prefix);
	snprintf(log_prefix, sizeof(log_prefix), "%s/log/", prefix);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&waiter, NULL, end_await, &set))
		fail("no thread");
	setlinebuf(stdout);
	while (!ends && attempt_count < ATTEMPTS_MAX - 1) {
		attempt();
		if (attempts[attempt_count - 1].fate == EXECUTED)
			printf("at %s\n", etcd_url(etcd, etcd_current(etcd)));
		usleep(PAUSE_US);
	}
	pthread_join(waiter, NULL);
	etcd_resume(etcd);
	/* A change that is known: nothing is open after it. */
	while (open_count || !state_revision)
		attempt();
	log_compare();
	return 0;
}

static void options_read(int argc, char **argv, struct etcd_options *options)
{
	static const char *urls[ETCD_ENDPOINTS_MAX + 1];
	char *rest;
	int option;

	options->urls = urls;
	options->try_ms = 1000;
	while ((option = getopt(argc, argv, "e:c:C:K:u:t:")) != -1) {
		switch (option) {
		case 'e':
			for (char *url = strtok_r(optarg, ",", &rest);
			     url && options->url_count <= ETCD_ENDPOINTS_MAX;
			     url = strtok_r(NULL, ",", &rest))
				urls[options->url_count++] = url;
			break;
		case 'c':
			options->tls.ca = optarg;
			break;
		case 'C':
			options->tls.certificate = optarg;
			break;
		case 'K':
			options->tls.key = optarg;
			break;
		case 'u':
			options->user = optarg;
			break;
		case 't':
			timeout_ms = (unsigned int)atoi(optarg);
			break;
		default:
			fail("unknown option");
		}
	}
}

static int lease_print(int err, const int64_t *value)
{
	must(err);
	printf("%" PRId64 "\n", *value);
	return 0;
}

static int run(const char *command, int argc, char **words, unsigned int endpoints)
{
	int64_t number = argc ? strtoll(words[0], NULL, 10) : 0, ttl_s = 0;

	if (!strcmp(command, "get"))
		return get(words[0], false);
	if (!strcmp(command, "list"))
		return get(words[0], true);
	if (!strcmp(command, "create"))
		return put_print(words[0], true, words[1], strtoll(words[2], NULL, 10));
	if (!strcmp(command, "put"))
		return put_print(words[0], false, words[1], 0);
	if (!strcmp(command, "branches"))
		return branches(number);
	if (!strcmp(command, "large"))
		return large(words[0], strtoul(words[1], NULL, 10));
	if (!strcmp(command, "grant"))
		return lease_print(etcd_lease_grant(etcd, number, timeout_ms, &number, &ttl_s),
				   &number);
	if (!strcmp(command, "keepalive"))
		return lease_print(etcd_lease_keepalive(etcd, number, timeout_ms, &ttl_s), &ttl_s);
	if (!strcmp(command, "ttl"))
		return lease_print(etcd_lease_ttl(etcd, number, timeout_ms, &ttl_s), &ttl_s);
	if (!strcmp(command, "revoke"))
		return lease_print(etcd_lease_revoke(etcd, number, timeout_ms), &ttl_s);
	if (!strcmp(command, "status"))
		return status(endpoints);
	if (!strcmp(command, "write"))
		return write_until_end(words[0]);
	fail("no command %s", command);
}

int main(int argc, char **argv)
{
	struct etcd_options options = { 0 };
	char why[ETCD_WHY_MAX];
	int result;

	signal(SIGPIPE, SIG_IGN);
	tls_memory_protect();
	options_read(argc, argv, &options);
	if (optind == argc)
		fail("no command");
	if (etcd_open(&etcd, &options, why))
		fail("%s", why);
	result = run(argv[optind], argc - optind - 1, argv + optind + 1, options.url_count);
	etcd_close(etcd);
	return result;
}
