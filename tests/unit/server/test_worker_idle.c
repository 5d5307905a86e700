/* SPDX-License-Identifier: MIT */
/*
 * Tests of when a worker rests: when it polls on, when it sleeps and for how long, what it looks
 * after meanwhile, also if it finds work in each turn and never rests; and of its thread.
 */
#include "tests/support/worker_loop_test.h"

/* Runs the loop until a poll stops it. */
static void run(void (*each_poll)(void))
{
	on_poll = each_poll;
	atomic_store(&test_worker.stop, false);
	rcu_unregister_thread();
	worker_run(&test_worker);
	rcu_register_thread();
	on_poll = NULL;
}

static unsigned int turns;

static int slept_ms;

static int sleep_for(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	(void)channel;
	assert_int_equal(fd, test_worker.mailbox.event_fd);
	slept_ms = timeout_ms;
	return 0;
}

/* How long the worker sleeps if nothing comes; -1: for ever. */
static int sleeps_ms(void)
{
	static const struct device_ops ops = { .sleep = sleep_for };
	struct device *dev = test_poller->nic->dev;
	const struct device_ops *before = dev->ops;

	dev->ops = &ops;
	slept_ms = 0;
	worker_wait(&test_worker);
	dev->ops = before;
	return slept_ms;
}

/* While anything ends by itself some day, the worker looks after it, though no request comes. */
static void looks_after_what_expires(void **state)
{
	struct conn *conn = &test_conns[1].conn;

	(void)state;
	assert_int_equal(sleeps_ms(), -1);
	/* The window of an idle client, which is not due for a look. */
	conn->window_look_ns = test_worker.part.thread.now_ns + 3600 * SECOND_NS;
	TAILQ_INSERT_TAIL(&test_poller->windows.active, conn, window_entry);
	assert_false(windows_due(&test_worker));
	assert_int_equal(sleeps_ms(), EXPIRE_MS);
	TAILQ_REMOVE(&test_poller->windows.active, conn, window_entry);
	TAILQ_INSERT_TAIL(&test_worker.pulls, conn, pull_entry);
	assert_int_equal(sleeps_ms(), EXPIRE_MS);
	TAILQ_REMOVE(&test_worker.pulls, conn, pull_entry);
	assert_int_equal(sleeps_ms(), -1);
}

/* A worker that has just slept rests again, unless it is a client that waits for what it found. */
static void activities(void **state)
{
	struct test_conn *a = &test_conns[0];

	(void)state;
	assert_activity(ACTIVITY_NONE);
	assert_int_equal(stat_read(&test_worker.stats.batches), 0);
	add_access(a, 0);
	assert_activity(ACTIVITY_UNAWAITED);
	add_completion(a, wr_id_make(WR_RESPONSE, 1, a->conn.serial, BUFFER_NONE));
	assert_activity(ACTIVITY_UNAWAITED);
	assert_int_equal(a->conn.sq_used, 0);
	assert_int_equal(stat_read(&test_worker.stats.batches), 2);
	add_access(a, 1);
	ADD(a, 2, NULL, .op = WIRE_PING);
	assert_activity(ACTIVITY_AWAITED);
	add_access(a, 3);
	assert_activity(ACTIVITY_UNAWAITED);
	assert_posted(4);
}

/* Receives that the device refused are tried again in each turn, and the worker does not sleep. */
static void refused_receives(void **state)
{
	(void)state;
	test_recvs_left = 0;
	ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
	assert_activity(ACTIVITY_AWAITED);
	assert_posted(0);
	assert_int_equal(test_poller->unposted_count, 1);
	assert_activity(ACTIVITY_UNAWAITED);
	test_recvs_left = UINT_MAX;
	assert_activity(ACTIVITY_NONE);
	assert_posted(1);
}

/* A device that can wait: what it is asked for, and with what. */
static unsigned int sleeps;
static int sleep_fd, sleep_error, notify_error;

static int idle_sleep(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	assert_ptr_equal(channel, test_poller->comp_channel);
	(void)timeout_ms;
	sleep_fd = fd;
	sleeps++;
	/* No grace period waits for a worker that sleeps. */
	assert_false(rcu_read_ongoing());
	return sleep_error;
}

static int req_notify_cq(struct ibv_cq *of, int solicited)
{
	assert_ptr_equal(of, &cq);
	assert_int_equal(solicited, 0);
	notifies++;
	return notify_error;
}

static const struct device_ops *idle_begin(void)
{
	static struct device_ops idle_ops;
	const struct device_ops *before = test_poller->nic->dev->ops;

	idle_ops = *before;
	idle_ops.sleep = idle_sleep;
	test_poller->nic->dev->ops = &idle_ops;
	cq.context->ops.req_notify_cq = req_notify_cq;
	sleeps = 0;
	sleep_error = notify_error = 0;
	return before;
}

static void idle_end(const struct device_ops *before)
{
	test_poller->nic->dev->ops = before;
}

static void request_arrives(void)
{
	/* Between the request for a notification and the sleep. */
	if (!test_conns[0].conn.client.requests)
		ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
}

/* WORKER-3: it asks to be woken, looks once more, and sleeps only if there is nothing at all. */
static void sleeps_if_there_is_nothing(void **state)
{
	const struct device_ops *before = idle_begin();

	(void)state;
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
	assert_int_equal(sleeps, 1);
	assert_int_equal(sleep_fd, test_worker.mailbox.event_fd);
	assert_int_equal(polls, 1);
	assert_int_equal(notifies, 0);
	assert_int_equal(stat_read(&test_worker.stats.sleeps), 1);
	assert_true(rcu_read_ongoing());
	on_poll = request_arrives;
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_AWAITED);
	assert_int_equal(sleeps, 1);
	assert_int_equal(test_conns[0].responses, 1);
	on_poll = NULL;
	mailbox_wake(&test_worker.mailbox);
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
	assert_int_equal(sleeps, 1);
	mailbox_take(&test_worker.mailbox);
	atomic_store(&test_worker.stop, true);
	worker_sleep(&test_worker);
	assert_int_equal(sleeps, 1);
	atomic_store(&test_worker.stop, false);
	/* A device that does not promise to wake it. */
	notify_error = EIO;
	polls = 0;
	assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
	assert_int_equal(sleeps, 1);
	assert_int_equal(stat_read(&test_worker.stats.sleeps), 1);
	idle_end(before);
}

static void can_not_sleep(void **state)
{
	const struct device_ops *before = idle_begin();

	(void)state;
	assert_int_equal(test_log_begin(), 0);
	sleep_error = -EBADF;
	worker_sleep(&test_worker);
	assert_logged("can't sleep: Bad file descriptor");
	assert_true(rcu_read_ongoing());
	log_init(LOG_OFF, NULL);
	idle_end(before);
}

/* At rest what is held is shown. */
static void rests(void **state)
{
	const struct device_ops *before = idle_begin();
	struct conn *conn = &test_conns[1].conn;

	(void)state;
	test_worker.pulls_count = 3;
	worker_rest(&test_worker);
	assert_int_equal(stat_read(&test_worker.held.pulls), 3);
	test_worker.pulls_count = 0;
	assert_int_equal(sleeps, 1);
	/* A window that is due comes first. */
	conn->window_look_ns = 0;
	TAILQ_INSERT_TAIL(&test_poller->windows.active, conn, window_entry);
	worker_rest(&test_worker);
	assert_int_equal(sleeps, 1);
	TAILQ_REMOVE(&test_poller->windows.active, conn, window_entry);
	worker_rest(&test_worker);
	assert_int_equal(sleeps, 2);
	/* server.poll = busy */
	test_worker.limits.busy = true;
	worker_rest(&test_worker);
	assert_int_equal(sleeps, 2);
	idle_end(before);
}

/* A worker polls for spin_ns before it sleeps, but not after a wake-up that nobody awaited. */
static void spins_before_it_sleeps(void **state)
{
	const struct device_ops *before = idle_begin();
	enum pace pace = PACE_ACTIVE;

	(void)state;
	test_worker.limits.spin_ns = 3600 * SECOND_NS;
	for (unsigned int i = 0; i < 3; i++) {
		worker_idle(&test_worker, ACTIVITY_NONE, &pace);
		assert_int_equal(sleeps, 0);
		assert_int_equal(pace, PACE_WAITING);
	}
	assert_true(test_worker.spin.limit_ns > 0);
	/* The worker has waited long enough. */
	test_worker.spin.since_ns -= 2 * test_worker.limits.spin_ns;
	worker_idle(&test_worker, ACTIVITY_NONE, &pace);
	assert_int_equal(sleeps, 1);
	assert_int_equal(pace, PACE_WOKEN);
	assert_int_equal(test_worker.spin.vain, 1);
	worker_idle(&test_worker, ACTIVITY_UNAWAITED, &pace);
	assert_int_equal(sleeps, 2);
	assert_int_equal(pace, PACE_WOKEN);
	/* A request, and then it polls again as long. */
	worker_active(&test_worker, &pace);
	assert_int_equal(pace, PACE_ACTIVE);
	worker_idle(&test_worker, ACTIVITY_UNAWAITED, &pace);
	assert_int_equal(sleeps, 2);
	assert_int_equal(pace, PACE_WAITING);
	worker_active(&test_worker, &pace);
	assert_int_equal(test_worker.spin.vain, 0);
	/* A worker that always finds work lets others have the CPU, now and then. */
	test_worker.spin = (struct spin){ 0 };
	test_worker.stats.batches = SHARE_CHECK_EVERY + 1;
	worker_active(&test_worker, &pace);
	assert_true(test_worker.spin.shared_ns == 0);
	test_worker.stats.batches = SHARE_CHECK_EVERY - 1;
	test_worker.stats.deferred_pieces = 1;
	worker_active(&test_worker, &pace);
	assert_true(test_worker.spin.shared_ns != 0);
	/* server.poll = busy: for ever, with a clock that goes on. */
	test_worker.limits.busy = true;
	test_worker.limits.spin_ns = 0;
	test_worker.part.thread.now_ns = 0;
	for (unsigned int i = 0; i < 3; i++)
		worker_idle(&test_worker, ACTIVITY_NONE, &pace);
	assert_int_equal(sleeps, 2);
	assert_true(test_worker.part.thread.now_ns != 0);
	idle_end(before);
}

/* A turn that found nothing is none; the others are counted with what they found. */
static void three_turns(void)
{
	turns++;
	if (turns == 2 || turns == 4 || turns == 5)
		ADD(&test_conns[0], turns, NULL, .op = WIRE_PING);
	if (turns == 4)
		ADD(&test_conns[1], 0, NULL, .op = WIRE_PING);
	if (turns == 6)
		atomic_store(&test_worker.stop, true);
}

static void turns_are_counted(void **state)
{
	struct hist hist;

	(void)state;
	hist_init(&hist);
	turns = 0;
	test_worker.limits.busy = true;
	test_worker.cpu = -1;
	run(three_turns);
	turn_stats_read(&test_worker.turns, &hist);
	assert_int_equal(hist_count(&hist), 3);
	assert_int_equal(stat_read(&test_worker.turns.completions_max), 2);
	assert_int_equal(test_worker.turn.began_ns, 0);
	assert_int_equal(test_worker.held_turns, 3);
	/* Every HELD_TURNS of them say what is held. */
	test_worker.pulls_count = 7;
	test_worker.held_turns = HELD_TURNS - 2;
	worker_turn_begin(&test_worker);
	worker_turn_end(&test_worker);
	assert_int_equal(stat_read(&test_worker.held.pulls), 0);
	worker_turn_begin(&test_worker);
	worker_turn_end(&test_worker);
	assert_int_equal(stat_read(&test_worker.held.pulls), 7);
	test_worker.pulls_count = 0;
}

/* With two devices: either wakes it, and only one that has something is asked to do its work. */
static unsigned int works[2];
static struct ibv_comp_channel channels[2];

static int work_of_device(struct ibv_comp_channel *channel, int fd, int timeout_ms)
{
	assert_int_equal(fd, -1);
	assert_int_equal(timeout_ms, 0);
	works[channel - channels]++;
	return 0;
}

static int refuse_notify(struct ibv_cq *of, int solicited)
{
	(void)of;
	(void)solicited;
	return EIO;
}

static void sleeps_on_two_devices(void **state)
{
	struct ibv_context deaf_context = { .ops.req_notify_cq = refuse_notify };
	struct ibv_cq deaf = { .context = &deaf_context };
	const struct device_ops *before = idle_begin();
	struct device_ops two = *before;

	(void)state;
	two.sleep = work_of_device;
	test_poller->nic->dev->ops = &two;
	test_worker.pollers[1] = *test_poller;
	TAILQ_INIT(&test_worker.pollers[1].windows.active);
	test_worker.poller_count = 2;
	test_worker.attached[1] = true;
	for (unsigned int i = 0; i < 2; i++) {
		channels[i].fd = eventfd(0, EFD_NONBLOCK);
		test_worker.pollers[i].comp_channel = &channels[i];
	}
	for (unsigned int bits = 0; bits < 4; bits++) {
		works[0] = works[1] = 0;
		for (unsigned int i = 0; i < 2; i++)
			eventfd_write(channels[i].fd, bits >> i & 1);
		assert_int_equal(pollers_sleep(&test_worker, 0), 0);
		for (unsigned int i = 0; i < 2; i++) {
			eventfd_t count;

			assert_int_equal(works[i], bits >> i & 1);
			eventfd_read(channels[i].fd, &count);
		}
	}
	/* And so does mail, or this would not end. */
	works[0] = works[1] = 0;
	mailbox_wake(&test_worker.mailbox);
	assert_int_equal(pollers_sleep(&test_worker, -1), 0);
	assert_int_equal(works[0] + works[1], 0);
	mailbox_take(&test_worker.mailbox);
	/* The worker sleeps only if both devices will wake it. */
	for (unsigned int i = 0; i < 2; i++) {
		polls = 0;
		works[0] = works[1] = 0;
		notifies = 0;
		mailbox_wake(&test_worker.mailbox);
		test_worker.pollers[1].cq = i ? &cq : &deaf;
		assert_int_equal(worker_sleep(&test_worker), ACTIVITY_NONE);
		assert_int_equal(polls, 2 * i);
	}
	mailbox_take(&test_worker.mailbox);
	/* The worker polls both devices, and the more urgent of what they have counts. */
	polls = 0;
	ADD(&test_conns[0], 0, NULL, .op = WIRE_PING);
	assert_int_equal(worker_poll(&test_worker), ACTIVITY_AWAITED);
	assert_int_equal(polls, 2);
	/* One that failed is not asked any more, until it is attached again. */
	for (unsigned int i = 0; i < 2; i++) {
		struct poller *poller = &test_worker.pollers[i];

		poller->note = (struct note){ .poller = poller, .kind = NOTE_DETACH };
		mailbox_send(&test_worker.mailbox, &poller->note);
		assert_true(worker_read_mail(&test_worker));
		assert_ptr_equal(mailbox_take(test_worker.env->control), &poller->note);
		assert_int_equal(poller->note.kind, NOTE_DETACHED);
		polls = notifies = 0;
		works[0] = works[1] = 0;
		eventfd_write(channels[i].fd, 1);
		eventfd_write(channels[!i].fd, 1);
		assert_int_equal(worker_poll(&test_worker), ACTIVITY_NONE);
		assert_int_equal(polls, 1);
		assert_int_equal(pollers_sleep(&test_worker, 0), 0);
		assert_int_equal(works[i], 0);
		assert_int_equal(works[!i], 1);
		poller->note = (struct note){ .poller = poller, .kind = NOTE_ATTACH };
		mailbox_send(&test_worker.mailbox, &poller->note);
		assert_true(worker_read_mail(&test_worker));
		polls = 0;
		worker_poll(&test_worker);
		assert_int_equal(polls, 2);
	}
	for (unsigned int i = 0; i < 2; i++)
		close(channels[i].fd);
	test_worker.poller_count = 1;
	test_poller->comp_channel = NULL;
	idle_end(before);
}

static struct bucket *changing; /* its chain */

static void no_sleep_beside_work(void)
{
	turns++;
	if (turns == 1)
		ADD(&test_conns[0], 0, NULL, .op = WIRE_SCAN);
	/* The queue was not armed to sleep in between. On a slow machine the lookup may give up. */
	if (turns > 1 && turns < 10 && !test_conns[0].responses)
		assert_int_equal(notifies, 0);
	if (turns == 10)
		changing->epoch--;
	if (turns == 30)
		atomic_store(&test_worker.stop, true);
}

/* While a request is executed in pieces the worker goes on with it, whatever else there is. */
static void no_sleep_before_the_last_piece(void **state)
{
	const struct geometry *geometry = &test_store.region.geometry;
	const struct device_ops *before = idle_begin();

	(void)state;
	changing = region_at(&test_store.region, geometry_bucket_offset(geometry, 0));
	changing->epoch++;
	turns = 0;
	test_worker.cpu = -1;
	run(no_sleep_beside_work);
	assert_int_equal(test_conns[0].responses, 1);
	assert_true(test_conns[0].response.status == WIRE_OK ||
		    test_conns[0].response.status == WIRE_BUSY);
	assert_true(sleeps > 0);
	idle_end(before);
}

static struct note answer;
static unsigned int after_mail; /* the poll that follows the mail */

static void mail_in_a_turn(void)
{
	turns++;
	/* In the poll of a turn, not in the one before it sleeps. */
	if (turns > 3 && !notifies && !after_mail) {
		mailbox_send(&test_worker.mailbox, &answer);
		after_mail = turns + 1;
	}
	if (turns == after_mail)
		assert_int_equal(notifies, 0);
	if (turns == 30)
		atomic_store(&test_worker.stop, true);
}

/* The control thread's mail is expected to be followed by more: the worker polls on. */
static void no_sleep_behind_mail(void **state)
{
	const struct device_ops *before = idle_begin();

	(void)state;
	answer = (struct note){ .conn = &test_conns[0].conn, .kind = NOTE_ANSWER };
	turns = after_mail = 0;
	test_worker.cpu = -1;
	run(mail_in_a_turn);
	assert_true(after_mail > 0);
	assert_true(test_conns[0].conn.query.answered);
	assert_true(sleeps > 0);
	idle_end(before);
}

static void stop_soon(void)
{
	if (++turns == 20)
		atomic_store(&test_worker.stop, true);
}

/* A worker that never sleeps ends what has had its time, too, and holds up no grace period. */
static void looks_after_it_in_each_turn(void **state)
{
	struct conn *conn = &test_conns[1].conn;

	(void)state;
	test_worker.limits.busy = true;
	test_worker.limits.pull_stall_ns = 1;
	test_worker.cpu = -1;
	pull_clock_start(&test_conns[0].conn);
	test_poller->windows.active_count = 1;
	TAILQ_INSERT_TAIL(&test_poller->windows.active, conn, window_entry);
	turns = quiescents = 0;
	run(stop_soon);
	assert_true(test_conns[0].conn.stopped);
	assert_int_equal(test_conns[0].conn.pull_since_ns, 0);
	assert_false(conn->window_active);
	assert_int_equal(quiescents, turns);
	test_poller->windows.left = test_poller->windows.left_max;
	conn->window = TEST_WINDOW;
}

/* One that another worker asks for that looks whose turn has come, once. */
static void looks_for_another_worker(void **state)
{
	(void)state;
	test_worker.limits.busy = true;
	test_worker.cpu = -1;
	atomic_store(&test_worker.budgets_look, true);
	turns = 0;
	run(stop_soon);
	assert_false(atomic_load(&test_worker.budgets_look));
}

/* A worker whose thread can't be started is none, and one that was is stopped once. */
static void starts(void **state)
{
	struct worker *worker = &test_worker;
	struct timespec before, after;
	cpu_set_t cpus, one;
	uint64_t cpu_ns;

	(void)state;
	assert_int_equal(test_log_begin(), 0);
	worker->number = 42;
	create_error = -EAGAIN;
	assert_int_equal(worker_start(worker), -EAGAIN);
	assert_false(worker->started);
	assert_logged("worker 42: can't start its thread: Resource temporarily unavailable");
	assert_int_equal(worker_cpu_ns(worker), 0);
	worker_stop(worker);
	assert_false(worker->stop);
	create_error = 0;
	assert_int_equal(worker_start(worker), 0);
	assert_true(worker->started);
	assert_string_equal(started_name, "worker-42");
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	cpu_ns = worker_cpu_ns(worker);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	assert_in_range(cpu_ns, (uint64_t)before.tv_sec * SECOND_NS + (uint64_t)before.tv_nsec,
			(uint64_t)after.tv_sec * SECOND_NS + (uint64_t)after.tv_nsec);
	worker->started = false;
	/* Pinned to one CPU, or to none. */
	pthread_getaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	worker->cpu = -1;
	worker_pin(worker);
	pthread_getaffinity_np(pthread_self(), sizeof(one), &one);
	assert_true(CPU_EQUAL(&one, &cpus));
	for (worker->cpu = 0; !CPU_ISSET(worker->cpu, &cpus); worker->cpu++)
		;
	worker_pin(worker);
	pthread_getaffinity_np(pthread_self(), sizeof(one), &one);
	assert_int_equal(CPU_COUNT(&one), 1);
	assert_true(CPU_ISSET(worker->cpu, &one));
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	log_init(LOG_OFF, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(looks_after_what_expires),
		CASE(activities),
		CASE(refused_receives),
		CASE(sleeps_if_there_is_nothing),
		CASE(can_not_sleep),
		CASE(rests),
		CASE(spins_before_it_sleeps),
		CASE(turns_are_counted),
		CASE(sleeps_on_two_devices),
		CASE(no_sleep_before_the_last_piece),
		CASE(no_sleep_behind_mail),
		CASE(looks_after_it_in_each_turn),
		CASE(looks_for_another_worker),
		CASE(starts),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
