/* SPDX-License-Identifier: MIT */
/*
 * A server of another ABI: kvd_open() says KVD_ERR_PROTOCOL, both versions, and which side to
 * update, wherever the server shows its version. The server is a thread with softnic's calls alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/kvd.h"
#include "common/wire.h"
#include "tests/support/softnic_pair.h"

#define OLDER (WIRE_ABI - 1)
#define NEWER (WIRE_ABI + 1)

static_assert(WIRE_ABI == 13, "the texts below");
#define UPDATE_SERVER "the client has protocol version 13 and the server 12: update the server"
#define UPDATE_CLIENT "the client has protocol version 13 and the server 14: update the client"

/* What the server does with a connect request: rejects it, or accepts it and answers HELLO. */
static struct {
	bool rejects;
	struct wire_reject reject;
	struct wire_response head;
	uint8_t value[sizeof(struct wire_welcome) + 64];
} plan;

static struct end server;
static char url[96];

static struct cm_id *accepted;

static void serve_connect(struct cm_id *id)
{
	const struct cm_param param = { .retry_count = 6,
					.rnr_retry_count = 6,
					.min_rnr_timer = 12 };

	if (!plan.rejects && !end_create_qp(&server, id, &END_DEFAULTS) &&
	    !softnic_ops.accept(id, &param)) {
		accepted = id;
		return;
	}
	softnic_ops.reject(id, &plan.reject, sizeof(plan.reject));
	softnic_ops.destroy_id(id);
}

static void serve_hello(const struct ibv_wc *wc)
{
	struct request request;

	if (wc->opcode != IBV_WC_RECV || wc->status != IBV_WC_SUCCESS ||
	    wire_request_parse(&request, end_recv_slot(&server, (unsigned int)wc->wr_id),
			       wc->byte_len))
		return;
	plan.head.op = WIRE_HELLO;
	plan.head.id = request.id;
	memcpy(server.mem, &plan.head, sizeof(plan.head));
	memcpy(server.mem + sizeof(plan.head), plan.value, plan.head.value_len);
	(void)end_post_send(&server, accepted->qp, 0,
			    (uint32_t)sizeof(plan.head) + plan.head.value_len, 0);
}

static atomic_bool stop;

static void *serve(void *arg)
{
	struct cm_event event;
	struct ibv_wc wc;

	(void)arg;
	while (!atomic_load(&stop)) {
		if (!softnic_ops.cm_get_event(server.cm, &event) &&
		    event.type == CM_CONNECT_REQUEST)
			serve_connect(event.id);
		if (ibv_poll_cq(server.cq, 1, &wc) == 1)
			serve_hello(&wc);
	}
	softnic_ops.destroy_id(accepted);
	accepted = NULL;
	return NULL;
}

/* What kvd_open() says to a server that follows the plan. */
static void assert_refused(const char *text)
{
	struct kvd_options options;
	struct kvd *db = NULL;
	pthread_t thread;
	enum kvd_status status;

	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	kvd_options_init(&options);
	options.timeout_ms = options.connect_timeout_ms = PAIR_WAIT_MS;
	status = kvd_open(&db, url, &options);
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (status != KVD_ERR_PROTOCOL)
		fail_msg("status %d: %s", status, kvd_error(NULL));
	assert_null(db);
	if (!strstr(kvd_error(NULL), text) || !strstr(kvd_error(NULL), url + strlen("softnic://")))
		fail_msg("'%s' does not say '%s' of %s", kvd_error(NULL), text, url);
}

/* As servers of every version: what an older one calls the reason does not matter. */
static void plan_reject(uint32_t abi, const char *text)
{
	memset(&plan, 0, sizeof(plan));
	plan.rejects = true;
	plan.reject = (struct wire_reject){
		.magic = WIRE_MAGIC,
		.abi = abi,
		.reason = WIRE_REJECT_VERSION,
	};
	snprintf(plan.reject.text, sizeof(plan.reject.text), "%s", text);
}

static void plan_welcome(uint32_t abi, uint32_t bytes)
{
	const struct wire_welcome welcome = { .magic = WIRE_MAGIC, .abi = abi, .window = 1 };

	memset(&plan, 0, sizeof(plan));
	plan.head.value_len = bytes;
	memcpy(plan.value, &welcome, sizeof(welcome));
}

static void a_server_rejects_us(void **state)
{
	(void)state;
	plan_reject(OLDER, "the client does not speak this version of kvd's protocol");
	assert_refused(UPDATE_SERVER);
	plan_reject(NEWER, "some text of the future");
	assert_refused(UPDATE_CLIENT);
	/* Of our own version: it knows better what is wrong. */
	plan_reject(WIRE_ABI, "a bad length");
	assert_refused("a bad length");
}

static void a_server_welcomes_us(void **state)
{
	(void)state;
	plan_welcome(OLDER, sizeof(struct wire_welcome));
	assert_refused(UPDATE_SERVER);
	plan_welcome(NEWER, sizeof(struct wire_welcome));
	assert_refused(UPDATE_CLIENT);
}

/* Another version's welcome may have another length, too. */
static void a_welcome_of_another_length(void **state)
{
	(void)state;
	plan_welcome(OLDER, sizeof(struct wire_welcome) - 8);
	assert_refused(UPDATE_SERVER);
	plan_welcome(NEWER, sizeof(struct wire_welcome) + 64);
	assert_refused(UPDATE_CLIENT);
	plan_welcome(WIRE_ABI, sizeof(struct wire_welcome) + 64);
	assert_refused("welcome of 752 bytes");
	plan_welcome(WIRE_ABI, 0);
	assert_refused("does not speak kvd's protocol");
}

static void a_server_refuses_hello(void **state)
{
	(void)state;
	memset(&plan, 0, sizeof(plan));
	plan.head.status = WIRE_PROTOCOL;
	assert_refused("use the same version of kvd on both sides");
}

static int setup(void **state)
{
	const char *path = pair_path();

	(void)state;
	snprintf(url, sizeof(url), "softnic://%s", path);
	return end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS);
}

static int teardown(void **state)
{
	(void)state;
	end_release(&server);
	pair_path_release();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_rejects_us),
		cmocka_unit_test(a_server_welcomes_us),
		cmocka_unit_test(a_welcome_of_another_length),
		cmocka_unit_test(a_server_refuses_hello),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
