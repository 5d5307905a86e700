/* SPDX-License-Identifier: MIT */
/*
 * NULL pointers: every function of client/kvd.h with each of its pointers NULL. What the header
 * does not allow is refused with KVD_ERR_INVALID and a text, and nothing is done; what it allows
 * works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/fake_server.h"

static struct fake_server *server;
static struct kvd *kvd;
static char buffer[65536];
static uint64_t number;

/* Whatever is asked is done, with nothing in the response but a ticket; no key is found. */
static void respond(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *value)
{
	(void)p;
	(void)value;
	response->status = request->op == WIRE_GET ? WIRE_NOT_FOUND : WIRE_OK;
	response->version = 7;
	response->arg64 = 0;
	response->slot = 0;
	response->arg32 = 0;
	response->value_len = 0;
}

static int setup(void **state)
{
	(void)state;
	server = fake_server_open(2, 1, 0, 0, NULL);
	kvd = &server->kvd;
	server->respond = respond;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	return 0;
}

static int each_used(void *arg, const struct kvd_used *used)
{
	(void)arg;
	(void)used;
	return 0;
}

static int each(void *arg, const struct kvd_entry *entry)
{
	(void)arg;
	(void)entry;
	return 0;
}

/* What a call without a handle, or with another pointer missing, is expected to do. */
static void assert_no_handle(enum kvd_status status)
{
	assert_int_equal(status, KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(NULL), "NULL"));
	/* A text that is there already must not pass for that of the next call. */
	assert_int_equal(kvd_open(NULL, "softnic:///x", NULL), KVD_ERR_INVALID);
	assert_non_null(strstr(kvd_error(NULL), "to open"));
}

static void assert_refused(enum kvd_status status)
{
	unsigned int requests = server->requests;

	assert_int_equal(status, KVD_ERR_INVALID);
	assert_true(strlen(kvd_error(kvd)) > 0);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(server->requests, requests + 1);
}

static void opening_and_closing(void **state)
{
	struct kvd *db = kvd;

	(void)state;
	assert_int_equal(kvd_open(NULL, "softnic:///nowhere", NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_open(&db, NULL, NULL), KVD_ERR_INVALID);
	assert_null(db);
	assert_non_null(strstr(kvd_error(NULL), "NULL"));
	assert_int_equal(kvd_open(&db, "softnic:///nowhere", NULL), KVD_ERR_UNREACHABLE);
	kvd_options_init(NULL);
	kvd_close(NULL);
	assert_non_null(kvd_error(NULL));
	assert_true(strlen(kvd_default_url(NULL)) > 0);
	assert_true(strlen(kvd_default_url(buffer)) > 0);
	assert_true(strlen(kvd_version()) > 0);
	assert_true(strlen(kvd_status_text(KVD_OK)) > 0);
}

static void reading(void **state)
{
	struct kvd_get_request request = { .key = "k", .key_len = 1 };
	const struct iovec piece = { buffer, 10 }, nowhere = { NULL, 10 };
	struct kvd_key key = { "k", 1 };
	struct kvd_range range = { .key = "k", .key_len = 1 };
	struct kvd_exists exists;
	struct kvd_item item;
	size_t present;

	(void)state;
	assert_no_handle(kvd_get(NULL, "k", 1, buffer, 10, &item));
	assert_refused(kvd_get(kvd, NULL, 1, buffer, 10, &item));
	assert_refused(kvd_get(kvd, "k", 1, NULL, 10, &item));
	assert_int_equal(kvd_get(kvd, "k", 1, NULL, 0, NULL), KVD_NOT_FOUND);
	assert_no_handle(kvd_getv(NULL, "k", 1, &piece, 1, &item));
	assert_refused(kvd_getv(kvd, NULL, 1, &piece, 1, &item));
	assert_refused(kvd_getv(kvd, "k", 1, NULL, 1, &item));
	assert_refused(kvd_getv(kvd, "k", 1, &nowhere, 1, &item));
	assert_int_equal(kvd_getv(kvd, "k", 1, &piece, 1, NULL), KVD_NOT_FOUND);
	assert_no_handle(kvd_get_by_request(NULL, "k", 1, buffer, 10, &item));
	assert_refused(kvd_get_by_request(kvd, NULL, 1, buffer, 10, &item));
	assert_refused(kvd_get_by_request(kvd, "k", 1, NULL, 10, &item));
	assert_int_equal(kvd_get_by_request(kvd, "k", 1, NULL, 0, NULL), KVD_NOT_FOUND);
	assert_no_handle(kvd_get_range(NULL, "k", 1, 1, buffer, 10, &item));
	assert_refused(kvd_get_range(kvd, NULL, 1, 1, buffer, 10, &item));
	assert_refused(kvd_get_range(kvd, "k", 1, 1, NULL, 10, &item));
	assert_int_equal(kvd_get_range(kvd, "k", 1, 1, NULL, 0, NULL), KVD_NOT_FOUND);
	assert_no_handle(kvd_get_ranges(NULL, &range, 1));
	assert_int_equal(range.status, KVD_ERR_INVALID);
	assert_no_handle(kvd_get_ranges(NULL, NULL, 1));
	assert_refused(kvd_get_ranges(kvd, NULL, 1));
	assert_int_equal(kvd_get_ranges(kvd, NULL, 0), KVD_OK);
	assert_no_handle(kvd_get_and_touch(NULL, "k", 1, 5, buffer, 10, &item));
	assert_refused(kvd_get_and_touch(kvd, NULL, 1, 5, buffer, 10, &item));
	assert_refused(kvd_get_and_touch(kvd, "k", 1, 5, NULL, 10, &item));
	assert_int_equal(kvd_get_and_touch(kvd, "k", 1, 5, NULL, 0, NULL), KVD_NOT_FOUND);

	assert_no_handle(kvd_exists_many(NULL, &key, 1, &exists, &present));
	assert_int_equal(exists.status, KVD_ERR_INVALID);
	assert_refused(kvd_exists_many(kvd, NULL, 1, &exists, &present));
	assert_int_equal(kvd_exists_many(kvd, NULL, 0, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_exists_many(kvd, &key, 1, NULL, NULL), KVD_OK);
	assert_no_handle(kvd_exists_leading(NULL, &key, 1, &present));
	assert_refused(kvd_exists_leading(kvd, NULL, 1, &present));
	assert_int_equal(kvd_exists_leading(kvd, &key, 1, NULL), KVD_OK);
	key.key = NULL;
	assert_int_equal(kvd_exists_many(kvd, &key, 1, &exists, NULL), KVD_OK);
	assert_int_equal(exists.status, KVD_ERR_INVALID);
	assert_refused(kvd_exists_leading(kvd, &key, 1, &present));

	assert_no_handle(kvd_get_many(NULL, &request, 1));
	assert_int_equal(request.status, KVD_ERR_INVALID);
	assert_no_handle(kvd_get_many(NULL, NULL, 1));
	assert_refused(kvd_get_many(kvd, NULL, 1));
	assert_int_equal(kvd_get_many(kvd, NULL, 0), KVD_OK);
	request.key = NULL;
	assert_int_equal(kvd_get_many(kvd, &request, 1), KVD_OK);
	assert_int_equal(request.status, KVD_ERR_INVALID);
	request = (struct kvd_get_request){ .key = "k", .key_len = 1, .value_size = 5 };
	assert_int_equal(kvd_get_many(kvd, &request, 1), KVD_OK);
	assert_int_equal(request.status, KVD_ERR_INVALID);
}

static void changing(void **state)
{
	const struct kvd_put_args args = { .ttl_s = 5 };
	const struct kvd_arith_args arith = { .create = 1 };
	const struct iovec piece = { buffer, 10 }, nowhere = { NULL, 10 };

	(void)state;
	assert_no_handle(kvd_put(NULL, "k", 1, "v", 1, &args, &number));
	assert_refused(kvd_put(kvd, NULL, 1, "v", 1, &args, &number));
	assert_refused(kvd_put(kvd, "k", 1, NULL, 1, &args, &number));
	assert_int_equal(kvd_put(kvd, "k", 1, NULL, 0, NULL, NULL), KVD_OK);
	assert_no_handle(kvd_putv(NULL, "k", 1, &piece, 1, &args, &number));
	assert_refused(kvd_putv(kvd, NULL, 1, &piece, 1, &args, &number));
	assert_refused(kvd_putv(kvd, "k", 1, NULL, 1, &args, &number));
	assert_refused(kvd_putv(kvd, "k", 1, &nowhere, 1, &args, &number));
	assert_int_equal(kvd_putv(kvd, "k", 1, &piece, 1, NULL, NULL), KVD_OK);
	assert_no_handle(kvd_delete(NULL, "k", 1));
	assert_refused(kvd_delete(kvd, NULL, 1));
	assert_no_handle(kvd_delete_if(NULL, "k", 1, 1));
	assert_refused(kvd_delete_if(kvd, NULL, 1, 1));
	assert_no_handle(kvd_incr(NULL, "k", 1, 1, &arith, &number, &number));
	assert_refused(kvd_incr(kvd, NULL, 1, 1, &arith, &number, &number));
	assert_int_equal(kvd_incr(kvd, "k", 1, 1, NULL, NULL, NULL), KVD_OK);
	assert_no_handle(kvd_decr(NULL, "k", 1, 1, &arith, &number, &number));
	assert_refused(kvd_decr(kvd, NULL, 1, 1, &arith, &number, &number));
	assert_int_equal(kvd_decr(kvd, "k", 1, 1, NULL, NULL, NULL), KVD_OK);
	assert_no_handle(kvd_touch(NULL, "k", 1, 1, &number));
	assert_refused(kvd_touch(kvd, NULL, 1, 1, &number));
	assert_int_equal(kvd_touch(kvd, "k", 1, 1, NULL), KVD_OK);
}

static void the_whole_store(void **state)
{
	struct kvd_scan_args scan = { .prefix = NULL, .prefix_len = 1 };
	size_t len;

	(void)state;
	assert_no_handle(kvd_flush_start(NULL, 0, &number));
	assert_no_handle(kvd_flush_done(NULL, 1));
	assert_no_handle(kvd_flush_cancel(NULL, 1, 0, &number));
	assert_no_handle(kvd_flush_all(NULL));
	assert_no_handle(kvd_ping(NULL));
	assert_no_handle(kvd_server_stats(NULL, buffer, sizeof(buffer), &len));
	assert_refused(kvd_server_stats(kvd, NULL, sizeof(buffer), &len));
	assert_int_equal(kvd_server_stats(kvd, buffer, sizeof(buffer), NULL), KVD_OK);
	assert_no_handle(kvd_client_list(NULL, buffer, sizeof(buffer), &len));
	assert_refused(kvd_client_list(kvd, NULL, sizeof(buffer), &len));
	assert_int_equal(kvd_client_list(kvd, buffer, sizeof(buffer), NULL), KVD_OK);
	assert_no_handle(kvd_client_kill(NULL, 1));
	assert_no_handle(kvd_shutdown(NULL));
	assert_no_handle(kvd_whoami(NULL, buffer, sizeof(buffer), &len));
	assert_refused(kvd_whoami(kvd, NULL, sizeof(buffer), &len));
	assert_int_equal(kvd_whoami(kvd, buffer, sizeof(buffer), NULL), KVD_OK);
	assert_no_handle(kvd_server_report(NULL, KVD_REPORT_SLOW, buffer, sizeof(buffer), &len));
	assert_refused(kvd_server_report(kvd, KVD_REPORT_SLOW, NULL, sizeof(buffer), &len));
	assert_refused(kvd_server_report(kvd, (enum kvd_report)99, buffer, sizeof(buffer), &len));
	assert_int_equal(kvd_server_report(kvd, KVD_REPORT_SLOW, buffer, sizeof(buffer), NULL),
			 KVD_OK);
	number = 0;
	assert_no_handle(kvd_sample(NULL, 1, &number, buffer, sizeof(buffer), &len));
	assert_refused(kvd_sample(kvd, 0, &number, buffer, sizeof(buffer), &len));
	assert_refused(kvd_sample(kvd, 1, NULL, buffer, sizeof(buffer), &len));
	assert_refused(kvd_sample(kvd, 1, &number, NULL, sizeof(buffer), &len));
	assert_int_equal(kvd_sample(kvd, 1, &number, buffer, sizeof(buffer), NULL), KVD_OK);
	assert_no_handle(kvd_config_get(NULL, buffer, sizeof(buffer), &len));
	assert_refused(kvd_config_get(kvd, NULL, sizeof(buffer), &len));
	assert_int_equal(kvd_config_get(kvd, buffer, sizeof(buffer), NULL), KVD_OK);
	assert_no_handle(kvd_config_set(NULL, "a.b=1"));
	assert_refused(kvd_config_set(kvd, NULL));
	assert_no_handle(kvd_config_rewrite(NULL, buffer, sizeof(buffer), &len));
	assert_refused(kvd_config_rewrite(kvd, NULL, sizeof(buffer), &len));
	assert_int_equal(kvd_config_rewrite(kvd, buffer, sizeof(buffer), NULL), KVD_OK);
	assert_no_handle(kvd_tenant_list(NULL, buffer, sizeof(buffer), &len));
	assert_refused(kvd_tenant_list(kvd, NULL, sizeof(buffer), &len));
	assert_no_handle(kvd_tenant_create(NULL, "a", 1));
	assert_refused(kvd_tenant_create(kvd, NULL, 1));
	assert_no_handle(kvd_tenant_resize(NULL, "a", 1));
	assert_refused(kvd_tenant_resize(kvd, NULL, 1));
	assert_no_handle(kvd_tenant_drop(NULL, "a"));
	assert_refused(kvd_tenant_drop(kvd, NULL));
	assert_no_handle(kvd_revoke(NULL, "uid=5", &number));
	assert_refused(kvd_revoke(kvd, NULL, &number));
	assert_int_equal(kvd_revoke(kvd, "uid=5", NULL), KVD_OK);
	number = 0;
	assert_no_handle(kvd_scan(NULL, &number, NULL, each, NULL));
	assert_refused(kvd_scan(kvd, NULL, NULL, each, NULL));
	assert_refused(kvd_scan(kvd, &number, NULL, NULL, NULL));
	assert_refused(kvd_scan(kvd, &number, &scan, each, NULL));
	assert_int_equal(kvd_scan(kvd, &number, NULL, each, NULL), KVD_OK);
	kvd->access.rate = 1;
	assert_no_handle(kvd_scan_uses(NULL, &number, NULL, each_used, NULL));
	assert_refused(kvd_scan_uses(kvd, NULL, NULL, each_used, NULL));
	assert_refused(kvd_scan_uses(kvd, &number, NULL, NULL, NULL));
	assert_refused(kvd_scan_uses(kvd, &number, &scan, each_used, NULL));
	assert_int_equal(kvd_scan_uses(kvd, &number, NULL, each_used, NULL), KVD_OK);
	assert_int_equal(kvd_flush_start(kvd, 0, NULL), KVD_OK);
	assert_int_equal(kvd_flush_cancel(kvd, 0, 0, NULL), KVD_OK);
}

static void memory(void **state)
{
	struct kvd_mem_info info;
	struct kvd_mem *mem;
	void *addr;

	(void)state;
	assert_no_handle(kvd_register(NULL, buffer, sizeof(buffer), &mem));
	assert_refused(kvd_register(kvd, NULL, sizeof(buffer), &mem));
	assert_refused(kvd_register(kvd, buffer, 0, &mem));
	assert_refused(kvd_register(kvd, buffer, sizeof(buffer), NULL));
	assert_no_handle(kvd_alloc(NULL, 4096, &addr, &mem));
	assert_refused(kvd_alloc(kvd, 0, &addr, &mem));
	assert_refused(kvd_alloc(kvd, 4096, NULL, &mem));
	assert_refused(kvd_alloc(kvd, 4096, &addr, NULL));
	assert_int_equal(kvd_deregister(NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_free(NULL), KVD_ERR_INVALID);
	kvd_mem_info(NULL, &info);
	assert_int_equal(kvd_alloc(kvd, 4096, &addr, &mem), KVD_OK);
	kvd_mem_info(mem, NULL);
	assert_int_equal(kvd_free(mem), KVD_OK);
}

static void submitting(void **state)
{
	struct kvd_op op, *none[] = { NULL };

	(void)state;
	kvd_prep_ping(&op);
	assert_no_handle(kvd_submit(NULL, none, 1));
	assert_no_handle(kvd_cancel(NULL, &op));
	assert_no_handle(kvd_arm(NULL));
	assert_int_equal(kvd_fd(NULL), -1);
	assert_int_equal(kvd_poll(NULL, none, 1), 0);
	assert_int_equal(kvd_wait(NULL, none, 1, 1, 0), 0);
	assert_int_equal(kvd_outstanding(NULL), 0);
	assert_refused(kvd_submit(kvd, NULL, 1));
	assert_refused(kvd_submit(kvd, none, 1));
	assert_refused(kvd_cancel(kvd, NULL));
	assert_int_equal(kvd_submit(kvd, NULL, 0), KVD_OK);
	assert_int_equal(kvd_poll(kvd, NULL, 5), 0);
	assert_int_equal(kvd_wait(kvd, NULL, 5, 1, 1), 0);
}

static void the_handle(void **state)
{
	struct kvd_stats stats = { .gets = 5 };
	struct kvd_info info = { .window = 5 };

	(void)state;
	kvd_info(NULL, &info);
	kvd_info(kvd, NULL);
	kvd_info(NULL, NULL);
	assert_int_equal(info.window, 5);
	kvd_stats(NULL, &stats);
	kvd_stats(kvd, NULL);
	kvd_stats(NULL, NULL);
	assert_int_equal(stats.gets, 5);
	assert_int_equal(kvd_latency_ns(NULL, KVD_OP_GET, 0.5), 0);
	assert_int_equal(kvd_clock_ns(NULL), 0);
}

static void *no_alloc(void *user, size_t bytes)
{
	(void)user, (void)bytes;
	fail();
	return NULL;
}

static void *no_realloc(void *user, void *memory_, size_t bytes)
{
	(void)user, (void)memory_, (void)bytes;
	fail();
	return NULL;
}

static void no_free(void *user, void *memory_)
{
	(void)user, (void)memory_;
	fail();
}

static void hooks(void **state)
{
	const struct kvd_allocator parts[] = {
		{ NULL, no_realloc, no_free, NULL },
		{ no_alloc, NULL, no_free, NULL },
		{ no_alloc, no_realloc, NULL, NULL },
		{ NULL, NULL, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		assert_int_equal(kvd_set_allocator(&parts[i]), KVD_ERR_INVALID);
		assert_non_null(strstr(kvd_error(NULL), "are all needed"));
	}
	assert_int_equal(kvd_set_log(KVD_LOG_DEBUG, NULL, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_set_log(KVD_LOG_OFF, NULL, NULL), KVD_OK);
	/* An allocator comes before the first handle, NULL for that of the C library too. */
	kvd_observe(kvd, KVD_OBSERVE_OPS);
	assert_int_equal(kvd_set_allocator(NULL), KVD_ERR_BUSY);
}

static void a_fleet(void **state)
{
	struct kvd_fleet_member member;
	struct kvd_fleet_shard shard;
	struct kvd_fleet_info info;
	uint32_t of;

	(void)state;
	assert_no_handle(kvd_fleet_info(NULL, &info, sizeof(info)));
	assert_no_handle(kvd_fleet_member(NULL, 0, &member, sizeof(member)));
	assert_no_handle(kvd_fleet_shard(NULL, 0, &shard, sizeof(shard)));
	assert_no_handle(kvd_fleet_key(NULL, "k", 1, &of));
	assert_refused(kvd_fleet_info(kvd, NULL, sizeof(info)));
	assert_refused(kvd_fleet_member(kvd, 0, NULL, sizeof(member)));
	assert_refused(kvd_fleet_shard(kvd, 0, NULL, sizeof(shard)));
	assert_refused(kvd_fleet_key(kvd, "k", 1, NULL));
	assert_refused(kvd_fleet_key(kvd, NULL, 1, &of));
	assert_no_handle(kvd_fleet_drain(NULL, "a"));
	assert_no_handle(kvd_fleet_undrain(NULL, "a"));
	assert_no_handle(kvd_fleet_rebalance(NULL));
	assert_refused(kvd_fleet_drain(kvd, NULL));
	assert_refused(kvd_fleet_undrain(kvd, NULL));
}

/* Calls that take NULL for the process accept it. */
static void observing(void **state)
{
	struct kvd_op_stats stats = { .count = 5 };
	size_t len = 0;

	(void)state;
	assert_no_handle(kvd_observe(NULL, KVD_OBSERVE_OPS));
	assert_int_equal(kvd_observe(NULL, 0), KVD_OK);
	assert_no_handle(kvd_trace(NULL, NULL, NULL));
	assert_int_equal(kvd_trace(kvd, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_op_stats(NULL, KVD_OP_GET, KVD_PATH_WARM, &stats, sizeof(stats)),
			 KVD_OK);
	assert_int_equal(stats.count, 0);
	assert_no_handle(kvd_op_stats(kvd, KVD_OP_GET, KVD_PATH_WARM, NULL, 1));
	assert_int_equal(kvd_process_stats(NULL, 1), 0);
	assert_no_handle(kvd_stats_text(NULL, KVD_STATS_LINES, NULL, 1, NULL));
	assert_int_equal(kvd_stats_text(NULL, KVD_STATS_LINES, NULL, 0, &len), KVD_ERR_BUFFER);
	assert_true(len > 0);
	assert_int_equal(kvd_stats_text(NULL, KVD_STATS_LINES, buffer, sizeof(buffer), NULL),
			 KVD_OK);
}

/* The functions that are called with NULL above: a new one of the header has to be added there. */
static const char tested[] =
	" kvd_alloc kvd_arm kvd_cancel kvd_client_kill kvd_client_list kvd_clock_ns "
	"kvd_close kvd_config_get kvd_config_rewrite kvd_config_set kvd_decr "
	"kvd_default_url kvd_delete kvd_delete_if kvd_deregister kvd_error kvd_exists_leading "
	"kvd_exists_many kvd_fd kvd_fleet_drain kvd_fleet_info kvd_fleet_key "
	"kvd_fleet_member kvd_fleet_rebalance kvd_fleet_shard kvd_fleet_undrain "
	"kvd_flush_all kvd_flush_cancel kvd_flush_done kvd_flush_start "
	"kvd_free kvd_get "
	"kvd_get_and_touch kvd_get_by_request kvd_get_many kvd_get_range kvd_get_ranges kvd_getv "
	"kvd_incr kvd_info "
	"kvd_latency_ns kvd_mem_info kvd_observe kvd_op_stats kvd_open kvd_options_init "
	"kvd_outstanding kvd_ping kvd_poll kvd_process_stats kvd_put kvd_putv kvd_register "
	"kvd_revoke kvd_sample kvd_scan kvd_scan_uses kvd_server_report kvd_server_stats "
	"kvd_set_allocator kvd_set_log kvd_shutdown kvd_stats kvd_stats_text "
	"kvd_status_text kvd_submit "
	"kvd_tenant_create kvd_tenant_drop kvd_tenant_list kvd_tenant_resize "
	"kvd_touch kvd_trace kvd_version kvd_wait kvd_whoami ";

/*
 * A declaration begins a line; comments and macros do not begin with a letter. The inline functions
 * only fill in what the caller has.
 */
static void every_function_is_tested(void **state)
{
	FILE *header = fopen("client/kvd.h", "r");
	char line[256], name[64], wanted[80];
	unsigned int found = 0;
	const char *at;

	(void)state;
	assert_non_null(header);
	while (fgets(line, sizeof(line), header)) {
		if (line[0] < 'a' || line[0] > 'z' || !strncmp(line, "typedef", 7) ||
		    !strncmp(line, "static", 6))
			continue;
		at = strstr(line, "kvd_");
		while (at && (sscanf(at, "%63[a-z_0-9]", name) != 1 || at[strlen(name)] != '('))
			at = strstr(at + 1, "kvd_");
		if (!at)
			continue;
		found++;
		snprintf(wanted, sizeof(wanted), " %s ", name);
		if (!strstr(tested, wanted))
			fail_msg("%s() is not called with NULL by this test", name);
	}
	fclose(header);
	assert_true(found >= 26);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(opening_and_closing),
		CASE(reading),
		CASE(changing),
		CASE(the_whole_store),
		CASE(memory),
		CASE(submitting),
		CASE(the_handle),
		CASE(a_fleet),
		CASE(observing),
		CASE(hooks),
		cmocka_unit_test(every_function_is_tested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
