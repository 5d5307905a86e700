/* SPDX-License-Identifier: MIT */
/*
 * Observing operations: the figures of a known sequence, by operation and path, as structure, lines
 * and Prometheus text; the order and content of traces; the sum of the process, also while threads
 * add to it; and that nothing is called or counted when it is off.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/libkvd/observe.h"
#include "tests/support/fake_server.h"

#define WINDOW 4
#define EVENTS_MAX 64
#define TEXT_BYTES (256u << 10)
#define THREADS 2
#define THREAD_GETS 3000

static struct fake_server *server;
static struct kvd *kvd;
static uint8_t value[32];
static char text[TEXT_BYTES];

static void execute(struct fake_server *p, const struct request *request,
		    struct wire_response *response, uint8_t *to)
{
	uint64_t key;

	(void)to;
	memcpy(&key, request->key, 8);
	response->status = WIRE_OK;
	response->version = 1;
	if (request->op == WIRE_PUT)
		fake_server_put(p, key, 20, 0);
	if (request->op == WIRE_DELETE)
		response->status = WIRE_NOT_FOUND;
	if (request->op == WIRE_TOUCH)
		response->status = WIRE_NO_SPACE;
}

static struct fake_server *open_server(void)
{
	struct fake_server *p = fake_server_open(4, WINDOW, 0, 0, NULL);

	p->respond = execute;
	return p;
}

static int setup(void **state)
{
	(void)state;
	server = open_server();
	kvd = &server->kvd;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kvd_close(kvd);
	kvd_observe(NULL, 0);
	return 0;
}

static enum kvd_status get_of(struct kvd *handle, uint64_t key)
{
	return kvd_get(handle, &key, 8, value, sizeof(value), NULL);
}

static enum kvd_status put_of(struct kvd *handle, uint64_t key, size_t len)
{
	static uint8_t bytes[8192];

	return kvd_put(handle, &key, 8, bytes, len, NULL, NULL);
}

static struct kvd_op_stats stats_of(const struct kvd *handle, enum kvd_opcode op,
				    enum kvd_path path)
{
	struct kvd_op_stats stats;

	assert_int_equal(kvd_op_stats(handle, op, path, &stats, sizeof(stats)), KVD_OK);
	assert_int_equal(stats.queue.count, stats.count);
	assert_int_equal(stats.service.count, path == KVD_PATH_NONE ? 0 : stats.count);
	return stats;
}

static void assert_counts(const struct kvd *handle, enum kvd_opcode op, enum kvd_path path,
			  uint64_t count, uint64_t errors)
{
	struct kvd_op_stats stats = stats_of(handle, op, path);

	assert_int_equal(stats.count, count);
	assert_int_equal(stats.errors, errors);
}

static const uint8_t *lost_item; /* of which READs come torn */

static void tear(struct fake_server *p, uint64_t offset, uint8_t *to, uint32_t bytes)
{
	(void)bytes;
	if (lost_item && p->region + offset == lost_item)
		to[0] ^= 1;
}

/* 3 cold (one of them a miss), 5 warm, 1 that falls back, and one of each other kind. */
static void run_all(void)
{
	uint64_t key = 1, number;
	unsigned int i;

	fake_server_put(server, 1, 20, 0);
	fake_server_put(server, 2, 20, 0);
	fake_server_put(server, 3, 20, 0);
	assert_int_equal(get_of(kvd, 1), KVD_OK);
	assert_int_equal(get_of(kvd, 2), KVD_OK);
	assert_int_equal(get_of(kvd, 77), KVD_NOT_FOUND);
	for (i = 0; i < 5; i++)
		assert_int_equal(get_of(kvd, 1 + i % 2), KVD_OK);
	lost_item = (const uint8_t *)fake_server_item(server, 3);
	server->after_read = tear;
	assert_int_equal(get_of(kvd, 3), KVD_OK);
	lost_item = NULL;
	assert_int_equal(put_of(kvd, 4, 20), KVD_OK);
	assert_int_equal(put_of(kvd, 4, 20), KVD_OK);
	assert_int_equal(put_of(kvd, 5, 4000), KVD_OK);
	assert_int_equal(kvd_delete(kvd, &key, 8), KVD_NOT_FOUND);
	assert_int_equal(kvd_touch(kvd, &key, 8, 9, NULL), KVD_ERR_NO_SPACE);
	assert_int_equal(kvd_incr(kvd, &key, 8, 9, NULL, &number, NULL), KVD_OK);
	assert_int_equal(kvd_get_by_request(kvd, &key, 8, value, sizeof(value), NULL), KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
}

/* Values that the server READs from registered memory, and a shorter one, which goes as any. */
static void registered_memory_is_a_path(void **state)
{
	static uint8_t memory[8192] __attribute__((aligned(4096)));
	struct kvd_op_stats stats;
	struct kvd_mem *mem;
	uint64_t key = 9;

	(void)state;
	assert_int_equal(kvd_register(kvd, memory, sizeof(memory), &mem), KVD_OK);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_put(kvd, &key, 8, memory, 4000, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_put(kvd, &key, 8, memory, 40, NULL, NULL), KVD_OK);
	assert_counts(kvd, KVD_OP_PUT, KVD_PATH_DIRECT, 1, 0);
	assert_counts(kvd, KVD_OP_PUT, KVD_PATH_PULL, 0, 0);
	assert_counts(kvd, KVD_OP_PUT, KVD_PATH_REQUEST, 1, 0);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, text, sizeof(text), NULL), KVD_OK);
	assert_non_null(strstr(text, "\nput_direct_count 1\n"));
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_PROMETHEUS, text, sizeof(text), NULL),
			 KVD_OK);
	assert_non_null(strstr(text, "{op=\"put\",path=\"direct\",status=\"OK\"} 1\n"));
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_GET, KVD_PATH_DIRECT + 1, &stats, sizeof(stats)),
			 KVD_ERR_INVALID);
	assert_int_equal(kvd_deregister(mem), KVD_OK);
}

static void assert_all(const struct kvd *handle)
{
	assert_counts(handle, KVD_OP_GET, KVD_PATH_COLD, 3, 0);
	assert_counts(handle, KVD_OP_GET, KVD_PATH_WARM, 5, 0);
	assert_counts(handle, KVD_OP_GET, KVD_PATH_REQUEST, 1, 0);
	assert_counts(handle, KVD_OP_GET, KVD_PATH_NONE, 0, 0);
	assert_counts(handle, KVD_OP_PUT, KVD_PATH_REQUEST, 2, 0);
	assert_counts(handle, KVD_OP_PUT, KVD_PATH_PULL, 1, 0);
	assert_counts(handle, KVD_OP_DELETE, KVD_PATH_REQUEST, 1, 0);
	assert_counts(handle, KVD_OP_TOUCH, KVD_PATH_REQUEST, 1, 1);
	assert_counts(handle, KVD_OP_INCR, KVD_PATH_REQUEST, 1, 0);
	assert_counts(handle, KVD_OP_GET_BY_REQUEST, KVD_PATH_REQUEST, 1, 0);
	assert_counts(handle, KVD_OP_PING, KVD_PATH_REQUEST, 1, 0);
	assert_counts(handle, KVD_OP_SCAN, KVD_PATH_REQUEST, 0, 0);
}

static void each_operation_and_path(void **state)
{
	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	run_all();
	assert_all(kvd);
	assert_all(NULL);
	/* Off, nothing is added. */
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OFF), KVD_OK);
	assert_int_equal(get_of(kvd, 1), KVD_OK);
	assert_all(kvd);
}

static void off_at_first(void **state)
{
	struct kvd_op_stats stats;

	(void)state;
	run_all();
	assert_null(kvd->observer);
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_GET, KVD_PATH_WARM, &stats, sizeof(stats)),
			 KVD_OK);
	assert_int_equal(stats.count, 0);
	assert_int_equal(kvd_process_stats(NULL, 0), 0);
}

/* Each GET of a batch, and that one of them was refused. */
static void batches(void **state)
{
	struct kvd_get_request requests[5] = { 0 };
	uint64_t keys[5] = { 1, 1, 2, 9, 0 };
	unsigned int i;

	(void)state;
	fake_server_put(server, 1, 20, 0);
	fake_server_put(server, 2, 20, 0);
	assert_int_equal(get_of(kvd, 2), KVD_OK);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	for (i = 0; i < 5; i++)
		requests[i] = (struct kvd_get_request){ .key = &keys[i],
							.key_len = i < 4 ? 8 : 0,
							.value = value,
							.value_size = sizeof(value) };
	assert_int_equal(kvd_get_many(kvd, requests, 5), KVD_OK);
	assert_counts(kvd, KVD_OP_GET, KVD_PATH_WARM, 1, 0);
	assert_counts(kvd, KVD_OP_GET, KVD_PATH_COLD, 3, 0);
	assert_counts(kvd, KVD_OP_GET, KVD_PATH_NONE, 1, 1);
}

static void existence(void **state)
{
	uint64_t keys[2] = { 1, 9 };
	struct kvd_key list[2] = { { &keys[0], 8 }, { &keys[1], 8 } };

	(void)state;
	fake_server_put(server, 1, 20, 0);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_exists_many(kvd, list, 2, NULL, NULL), KVD_OK);
	assert_counts(kvd, KVD_OP_EXISTS, KVD_PATH_COLD, 2, 0);
	assert_counts(kvd, KVD_OP_GET, KVD_PATH_COLD, 0, 0);
}

/* The handle's stats are summed while it lives and when it is closed; without observing they are
 * not. */
static void the_process_counts_on(void **state)
{
	struct fake_server *other = open_server(), *silent = open_server();
	struct kvd_stats all, before;
	struct kvd_op_stats stats;

	(void)state;
	kvd_stats(kvd, &before);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(kvd_observe(&other->kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(get_of(kvd, 1), KVD_NOT_FOUND);
	assert_int_equal(get_of(&other->kvd, 1), KVD_NOT_FOUND);
	assert_int_equal(get_of(&other->kvd, 2), KVD_NOT_FOUND);
	assert_int_equal(get_of(&silent->kvd, 2), KVD_NOT_FOUND);
	assert_int_equal(kvd_process_stats(&all, sizeof(all)), 2);
	assert_int_equal(all.gets, 3);
	assert_int_equal(all.misses, 3);
	kvd_close(&other->kvd);
	kvd_close(&silent->kvd);
	assert_int_equal(kvd_process_stats(&all, sizeof(all)), 1);
	assert_int_equal(all.gets, 3);
	assert_counts(NULL, KVD_OP_GET, KVD_PATH_COLD, 3, 0);
	assert_counts(kvd, KVD_OP_GET, KVD_PATH_COLD, 1, 0);
	/* A program that was built with fewer fields, or with more. */
	memset(&all, 0xee, sizeof(all));
	assert_int_equal(kvd_process_stats(&all, 8), 1);
	assert_int_equal(all.gets, 3);
	assert_int_equal(all.hits, 0xeeeeeeeeeeeeeeee);
	memset(&stats, 0xee, sizeof(stats));
	assert_int_equal(kvd_op_stats(NULL, KVD_OP_GET, KVD_PATH_COLD, &stats, 8), KVD_OK);
	assert_int_equal(stats.count, 3);
	assert_int_equal(stats.errors, 0xeeeeeeeeeeeeeeee);
	assert_int_equal(kvd_observe(NULL, 0), KVD_OK);
	assert_counts(NULL, KVD_OP_GET, KVD_PATH_COLD, 1, 0);
}

/* Times that are put there: quantiles to 1.6 %, the rest exact. */
static void quantiles(void **state)
{
	struct kvd_op_stats stats;
	struct cell *cell;
	uint64_t i;

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(get_of(kvd, 1), KVD_NOT_FOUND);
	cell = atomic_load(&kvd->observer->cells[KVD_OP_GET][KVD_PATH_COLD]);
	cell_init(cell);
	for (i = 1; i <= 1000; i++) {
		cell->statuses[i % 2 ? KVD_OK : KVD_ERR_TIMEOUT]++;
		hist_record(&cell->queue, 7);
		hist_record(&cell->service, i * 1000);
	}
	stats = stats_of(kvd, KVD_OP_GET, KVD_PATH_COLD);
	assert_int_equal(stats.count, 1000);
	assert_int_equal(stats.errors, 500);
	assert_int_equal(stats.queue.p50_ns, 7);
	assert_int_equal(stats.service.sum_ns, 500500000);
	assert_int_equal(stats.service.min_ns, 1000);
	assert_int_equal(stats.service.max_ns, 1000000);
	assert_in_range(stats.service.p50_ns, 500000, 508000);
	assert_in_range(stats.service.p90_ns, 900000, 914400);
	assert_in_range(stats.service.p99_ns, 990000, 1000000);
	assert_in_range(stats.service.p999_ns, 999000, 1000000);
}

static void assert_line(const char *line)
{
	char wanted[200];

	snprintf(wanted, sizeof(wanted), "\n%s\n", line);
	if (strncmp(text, wanted + 1, strlen(wanted + 1)) && !strstr(text, wanted))
		fail_msg("no line '%s' in\n%s", line, text);
}

static void write_text(const struct kvd *handle, enum kvd_stats_format format)
{
	size_t len;

	assert_int_equal(kvd_stats_text(handle, format, text, sizeof(text), &len), KVD_OK);
	assert_int_equal(len, strlen(text));
}

static void lines(void **state)
{
	char small[16];
	size_t len, all;

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	run_all();
	write_text(kvd, KVD_STATS_LINES);
	assert_line("gets 10");
	assert_line("get_warm_count 5");
	assert_line("put_pull_count 1");
	assert_line("touch_request_errors 1");
	assert_non_null(strstr(text, "\nget_cold_service_p999_ns "));
	assert_null(strstr(text, "scan"));
	all = strlen(text);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, NULL, 0, &len), KVD_ERR_BUFFER);
	assert_int_equal(len, all);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, small, sizeof(small), &len),
			 KVD_ERR_BUFFER);
	assert_int_equal(len, all);
	assert_memory_equal(small, text, sizeof(small) - 1);
	assert_int_equal(small[15], 0);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, text, all, &len), KVD_ERR_BUFFER);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, text, all + 1, &len), KVD_OK);
}

/*
 * The rules of the text format: HELP and TYPE before the samples of a name, which stand together;
 * counters end in _total; buckets rise, by le and by count, and the last, +Inf, has the count.
 */
struct family {
	char name[100], type[20];
	double le, cumulative;
	bool infinite; /* the last sample was the bucket of +Inf */
};

static void check_bucket(struct family *f, const char *line, double count)
{
	const char *at = strstr(line, "le=\"");
	double le;

	assert_non_null(at);
	le = strncmp(at + 4, "+Inf", 4) ? strtod(at + 4, NULL) : (double)INFINITY;
	if (le > f->le) {
		assert_true(count >= f->cumulative);
	} else {
		assert_true(isinf(f->le)); /* another series begins */
	}
	f->le = le;
	f->cumulative = count;
}

static void check_sample(struct family *f, const char *line)
{
	size_t length = strcspn(line, "{ "), base = strlen(f->name);
	const char *last = strrchr(line, ' '), *suffix = line + base;
	char *end;
	double number = strtod(last + 1, &end);

	assert_int_equal(*end, 0);
	assert_true(length >= base);
	assert_memory_equal(line, f->name, base);
	if (!strcmp(f->type, "counter")) {
		assert_int_equal(length, base);
		assert_string_equal(f->name + base - 6, "_total");
		return;
	}
	if (!strncmp(suffix, "_bucket{", 8))
		check_bucket(f, line, number);
	else if (!strncmp(suffix, "_count{", 7))
		assert_true(isinf(f->le) && number == f->cumulative);
	else
		assert_memory_equal(suffix, "_sum{", 5);
}

static void check_prometheus(char *all)
{
	struct family f = { .name = "" };
	char *line, *save, name[100];
	char seen[8000] = " ";

	for (line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (!strncmp(line, "# HELP ", 7)) {
			f = (struct family){ .le = (double)INFINITY };
			assert_int_equal(sscanf(line, "# HELP %99s", f.name), 1);
			snprintf(name, sizeof(name), " %.97s ", f.name);
			assert_null(strstr(seen, name));
			strcat(seen, name + 1);
		} else if (line[0] == '#') {
			assert_int_equal(sscanf(line, "# TYPE %99s %19s", name, f.type), 2);
			assert_string_equal(name, f.name);
		} else {
			check_sample(&f, line);
		}
	}
}

/* Prometheus' own check, where it is installed. */
static void check_promtool(void)
{
	FILE *out;

	if (system("command -v promtool >/dev/null"))
		return;
	out = popen("promtool check metrics 1>&2", "w");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(pclose(out), 0);
}

static void prometheus(void **state)
{
	struct cell *cell;

	(void)state;
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	run_all();
	cell = atomic_load(&kvd->observer->cells[KVD_OP_GET][KVD_PATH_WARM]);
	cell_init(cell);
	cell->statuses[KVD_OK] = 3;
	hist_record(&cell->service, 255);
	hist_record(&cell->service, 256);
	hist_record(&cell->service, 2000000000);
	write_text(NULL, KVD_STATS_PROMETHEUS);
	assert_line("# TYPE kvd_client_gets_total counter");
	assert_line("kvd_client_gets_total 10");
	assert_line("kvd_client_operations_total{op=\"get\",path=\"warm\",status=\"OK\"} 3");
	assert_line("kvd_client_operations_total{op=\"touch\",path=\"request\","
		    "status=\"ERR_NO_SPACE\"} 1");
	assert_line("# TYPE kvd_client_service_seconds histogram");
#define BUCKET "kvd_client_service_seconds_bucket{op=\"get\",path=\"warm\",le=\""
	assert_line(BUCKET "2.55e-07\"} 1");
	assert_line(BUCKET "5.11e-07\"} 2");
	assert_line(BUCKET "1.073741823\"} 2");
	assert_line(BUCKET "2.147483647\"} 3");
	assert_line(BUCKET "+Inf\"} 3");
	assert_line("kvd_client_service_seconds_count{op=\"get\",path=\"warm\"} 3");
	assert_non_null(
		strstr(text, "kvd_client_service_seconds_sum{op=\"get\",path=\"warm\"} 2.0000005"));
	check_promtool();
	check_prometheus(text);
}

static struct kvd_trace_event events[EVENTS_MAX];
static unsigned int event_count;

static void note(void *user, const struct kvd_trace_event *event)
{
	struct kvd_op op, *ops[] = { &op };

	assert_ptr_equal(user, &event_count);
	assert_true(event_count < EVENTS_MAX);
	events[event_count++] = *event;
	/* The handle is in the middle of a call. */
	kvd_prep_ping(&op);
	assert_int_equal(kvd_submit(kvd, ops, 1), KVD_ERR_INVALID);
	assert_int_equal(kvd_observe(kvd, 0), KVD_ERR_INVALID);
	assert_int_equal(kvd_poll(kvd, ops, 1), 0);
}

static void assert_start(unsigned int i, enum kvd_opcode op, const struct kvd_op *submitted)
{
	assert_true(i < event_count);
	assert_int_equal(events[i].ended, 0);
	assert_int_equal(events[i].op, op);
	assert_ptr_equal(events[i].submitted, submitted);
	assert_int_equal(events[i].end_ns, 0);
	assert_int_equal(events[i].posted_ns, 0);
}

static void assert_end(unsigned int i, unsigned int start, enum kvd_status status,
		       enum kvd_path path, uint32_t reads, uint32_t messages)
{
	const struct kvd_trace_event *e = &events[i];

	assert_true(i < event_count);
	assert_int_equal(e->ended, 1);
	assert_int_equal(e->op, events[start].op);
	assert_ptr_equal(e->submitted, events[start].submitted);
	assert_ptr_equal(e->key, events[start].key);
	assert_int_equal(e->key_len, events[start].key_len);
	assert_int_equal(e->start_ns, events[start].start_ns);
	assert_int_equal(e->status, status);
	assert_int_equal(e->path, path);
	assert_int_equal(e->reads, reads);
	assert_int_equal(e->messages, messages);
	assert_true(e->end_ns >= e->start_ns);
	if (path == KVD_PATH_NONE)
		assert_int_equal(e->posted_ns, 0);
	else
		assert_true(e->posted_ns >= e->start_ns && e->posted_ns <= e->end_ns);
}

static void traces_of_calls(void **state)
{
	uint64_t key = 1;

	(void)state;
	event_count = 0;
	fake_server_put(server, 1, 20, 0);
	assert_int_equal(kvd_trace(kvd, note, &event_count), KVD_OK);
	assert_int_equal(kvd_get(kvd, &key, 8, value, sizeof(value), NULL), KVD_OK);
	assert_int_equal(event_count, 2);
	assert_start(0, KVD_OP_GET, NULL);
	assert_ptr_equal(events[0].key, &key);
	assert_int_equal(events[0].key_len, 8);
	assert_end(1, 0, KVD_OK, KVD_PATH_COLD, 2, 0);
	assert_int_equal(kvd_get(kvd, &key, 8, value, 1, NULL), KVD_ERR_BUFFER);
	assert_end(3, 2, KVD_ERR_BUFFER, KVD_PATH_WARM, 1, 0);
	assert_int_equal(put_of(kvd, 4, 4000), KVD_OK);
	assert_start(4, KVD_OP_PUT, NULL);
	assert_end(5, 4, KVD_OK, KVD_PATH_PULL, 0, 1);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_start(6, KVD_OP_PING, NULL);
	assert_end(7, 6, KVD_OK, KVD_PATH_REQUEST, 0, 1);
	assert_int_equal(kvd_trace(kvd, NULL, NULL), KVD_OK);
	assert_int_equal(kvd_ping(kvd), KVD_OK);
	assert_int_equal(event_count, 8);
	/* Tracing alone counts nothing. */
	assert_int_equal(kvd_process_stats(NULL, 0), 0);
	assert_counts(kvd, KVD_OP_GET, KVD_PATH_COLD, 0, 0);
}

/* Starts in the order of submission, ends in that of ending, before it is handed back. */
static void traces_of_submitted(void **state)
{
	uint64_t keys[3] = { 1, 2, 3 };
	struct kvd_op ops[3], *list[] = { &ops[0], &ops[1], &ops[2] }, *done[3];

	(void)state;
	event_count = 0;
	fake_server_put(server, 3, 20, 0);
	assert_int_equal(kvd_trace(kvd, note, &event_count), KVD_OK);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	kvd_prep_put(&ops[0], &keys[0], 8, "a", 1, NULL);
	kvd_prep_put(&ops[1], &keys[1], 8, "b", 1, NULL);
	kvd_prep_get(&ops[2], &keys[2], 8, value, sizeof(value));
	server->hold_all = true;
	assert_int_equal(kvd_submit(kvd, list, 3), KVD_OK);
	assert_int_equal(kvd_observe(kvd, 0), KVD_ERR_BUSY);
	assert_int_equal(kvd_trace(kvd, NULL, NULL), KVD_ERR_BUSY);
	assert_int_equal(kvd_wait(kvd, done, 3, 1, FAKE_TIMEOUT_MS), 1);
	assert_start(0, KVD_OP_PUT, &ops[0]);
	assert_start(1, KVD_OP_PUT, &ops[1]);
	assert_start(2, KVD_OP_GET, &ops[2]);
	assert_end(3, 2, KVD_OK, KVD_PATH_COLD, 2, 0);
	fake_server_answer(server, server->queued);
	assert_int_equal(kvd_wait(kvd, done, 3, 2, FAKE_TIMEOUT_MS), 2);
	assert_end(4, 0, KVD_OK, KVD_PATH_REQUEST, 0, 1);
	assert_end(5, 1, KVD_OK, KVD_PATH_REQUEST, 0, 1);
	assert_int_equal(event_count, 6);
	assert_counts(kvd, KVD_OP_PUT, KVD_PATH_REQUEST, 2, 0);
}

/* Beyond depth an operation has no flight; one that is blocked has, but posts nothing. */
static void some_that_never_began(void **state)
{
	uint64_t key = 1;
	struct kvd_op ops[3], *list[] = { &ops[0], &ops[1], &ops[2] }, *done[3];
	struct kvd_options options;
	struct fake_server *narrow;

	(void)state;
	kvd_options_init(&options);
	options.depth = 2;
	narrow = fake_server_open(4, WINDOW, 0, 0, &options);
	narrow->respond = execute;
	assert_int_equal(kvd_observe(&narrow->kvd, KVD_OBSERVE_OPS), KVD_OK);
	narrow->hold_all = true;
	kvd_prep_put(&ops[0], &key, 8, "a", 1, NULL);
	kvd_prep_get(&ops[1], &key, 8, value, sizeof(value));
	kvd_prep_ping(&ops[2]);
	assert_int_equal(kvd_submit(&narrow->kvd, list, 3), KVD_OK);
	assert_int_equal(kvd_cancel(&narrow->kvd, &ops[2]), KVD_OK);
	assert_counts(&narrow->kvd, KVD_OP_PING, KVD_PATH_NONE, 1, 1);
	assert_int_equal(kvd_cancel(&narrow->kvd, &ops[1]), KVD_OK);
	assert_counts(&narrow->kvd, KVD_OP_GET, KVD_PATH_NONE, 1, 1);
	assert_counts(&narrow->kvd, KVD_OP_PUT, KVD_PATH_REQUEST, 0, 0);
	fake_server_answer(narrow, 1);
	assert_int_equal(kvd_wait(&narrow->kvd, done, 3, 3, FAKE_TIMEOUT_MS), 3);
	assert_counts(&narrow->kvd, KVD_OP_PUT, KVD_PATH_REQUEST, 1, 0);
	kvd_close(&narrow->kvd);
}

static atomic_bool stop;

static void *use(void *arg)
{
	struct fake_server *p = arg;
	unsigned int i;

	assert_int_equal(kvd_observe(&p->kvd, KVD_OBSERVE_OPS), KVD_OK);
	for (i = 0; i < THREAD_GETS; i++) {
		get_of(&p->kvd, i % 7);
		if (i % 16 == 0)
			kvd_ping(&p->kvd);
	}
	kvd_close(&p->kvd);
	return NULL;
}

static void *sum(void *arg)
{
	struct kvd_op_stats cold = { 0 }, warm = { 0 };
	struct kvd_stats stats;
	uint64_t last = 0, count = 0;

	(void)arg;
	while (!atomic_load(&stop)) {
		assert_int_equal(kvd_op_stats(NULL, KVD_OP_GET, KVD_PATH_COLD, &cold, sizeof(cold)),
				 KVD_OK);
		assert_int_equal(kvd_op_stats(NULL, KVD_OP_GET, KVD_PATH_WARM, &warm, sizeof(warm)),
				 KVD_OK);
		kvd_process_stats(&stats, sizeof(stats));
		assert_true(stats.gets >= last);
		assert_true(cold.count + warm.count >= count);
		last = stats.gets;
		count = cold.count + warm.count;
	}
	return NULL;
}

/* What a third thread sums never decreases while two use and close their handles. */
static void two_threads(void **state)
{
	pthread_t threads[THREADS], reader;
	struct kvd_op_stats cold, warm;
	struct kvd_stats stats;
	unsigned int i;

	(void)state;
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&reader, NULL, sum, NULL), 0);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, open_server()), 0);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_int_equal(kvd_process_stats(&stats, sizeof(stats)), 0);
	assert_int_equal(stats.gets, THREADS * THREAD_GETS);
	cold = stats_of(NULL, KVD_OP_GET, KVD_PATH_COLD);
	warm = stats_of(NULL, KVD_OP_GET, KVD_PATH_WARM);
	assert_int_equal(cold.count + warm.count, THREADS * THREAD_GETS);
}

/* A child has nothing of its parent's, and may close what it got. */
static void a_child_begins_anew(void **state)
{
	struct fake_server *closed = open_server();
	struct kvd_stats stats;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(kvd_observe(&closed->kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(get_of(&closed->kvd, 1), KVD_NOT_FOUND);
	kvd_close(&closed->kvd);
	assert_int_equal(kvd_observe(kvd, KVD_OBSERVE_OPS), KVD_OK);
	assert_int_equal(get_of(kvd, 1), KVD_NOT_FOUND);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		status = kvd_process_stats(&stats, sizeof(stats)) || stats.gets ? 1 : 0;
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(kvd_process_stats(&stats, sizeof(stats)), 1);
	assert_int_equal(stats.gets, 2);
}

static void refused(void **state)
{
	struct kvd_op_stats stats;

	(void)state;
	assert_int_equal(kvd_observe(kvd, 2), KVD_ERR_INVALID);
	assert_int_equal(kvd_observe(NULL, KVD_OBSERVE_OPS), KVD_ERR_INVALID);
	assert_int_equal(kvd_trace(NULL, note, NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_op_stats(kvd, OBSERVE_OPS, KVD_PATH_WARM, &stats, sizeof(stats)),
			 KVD_ERR_INVALID);
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_GET, OBSERVE_PATHS, &stats, sizeof(stats)),
			 KVD_ERR_INVALID);
	assert_int_equal(kvd_op_stats(kvd, KVD_OP_GET, KVD_PATH_WARM, NULL, 0), KVD_ERR_INVALID);
	assert_int_equal(kvd_stats_text(kvd, 2, text, sizeof(text), NULL), KVD_ERR_INVALID);
	assert_int_equal(kvd_stats_text(kvd, KVD_STATS_LINES, NULL, 1, NULL), KVD_ERR_INVALID);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(each_operation_and_path),
		CASE(registered_memory_is_a_path),
		CASE(off_at_first),
		CASE(existence),
		CASE(batches),
		CASE(the_process_counts_on),
		CASE(quantiles),
		CASE(lines),
		CASE(prometheus),
		CASE(traces_of_calls),
		CASE(traces_of_submitted),
		CASE(some_that_never_began),
		CASE(two_threads),
		CASE(a_child_begins_anew),
		CASE(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
