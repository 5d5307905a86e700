/* SPDX-License-Identifier: MIT */
/* Tests of the mailbox: no note is lost, their order is kept, and a sleeping owner wakes up. */
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/worker/mailbox.h"

#define NOTES 50000
#define SENDERS 3
#define WAIT_MS 300000
#define TAKEN_NOTES 2000

static struct mailbox mailbox;

/*
 * A note that another thread sends just before the owner empties the fd, or just after that, or
 * when the owner has the others.
 */
static struct note meanwhile;
static _Thread_local enum { NEVER, BEFORE, AFTER, AT_THE_END } when;

ssize_t read(int fd, void *buf, size_t len)
{
	ssize_t n;

	if (when == BEFORE)
		mailbox_send(&mailbox, &meanwhile);
	n = syscall(SYS_read, fd, buf, len);
	if (when == AFTER)
		mailbox_send(&mailbox, &meanwhile);
	if (when != AT_THE_END)
		when = NEVER;
	return n;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int err = __real_pthread_mutex_unlock(mutex);

	if (when == AT_THE_END) {
		when = NEVER;
		mailbox_send(&mailbox, &meanwhile);
	}
	return err;
}

/* The owner looks just before the fd becomes readable, and takes the notes if there are some. */
static bool owner_looks;

ssize_t write(int fd, const void *buf, size_t len)
{
	if (owner_looks && mailbox_pending(&mailbox))
		mailbox_take(&mailbox);
	return syscall(SYS_write, fd, buf, len);
}

static int setup(void **state)
{
	(void)state;
	return mailbox_init(&mailbox);
}

static int teardown(void **state)
{
	(void)state;
	mailbox_release(&mailbox);
	return 0;
}

static bool readable(int timeout_ms)
{
	struct pollfd fd = { mailbox.event_fd, POLLIN, 0 };

	return poll(&fd, 1, timeout_ms) == 1;
}

static void empty(void **state)
{
	(void)state;
	assert_false(mailbox_pending(&mailbox));
	assert_false(readable(0));
	assert_null(mailbox_take(&mailbox));
}

static void in_order(void **state)
{
	struct note notes[3], *note;

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		mailbox_send(&mailbox, &notes[i]);
	assert_true(mailbox_pending(&mailbox));
	assert_true(readable(0));
	note = mailbox_take(&mailbox);
	for (unsigned int i = 0; i < 3; i++, note = note->next)
		assert_ptr_equal(note, &notes[i]);
	assert_null(note);
	assert_false(mailbox_pending(&mailbox));
	assert_false(readable(0));
	assert_null(mailbox_take(&mailbox));
	/* A note can be sent again. */
	mailbox_send(&mailbox, &notes[1]);
	note = mailbox_take(&mailbox);
	assert_ptr_equal(note, &notes[1]);
	assert_null(note->next);
}

static void a_wake_without_a_note(void **state)
{
	(void)state;
	mailbox_wake(&mailbox);
	mailbox_wake(&mailbox);
	assert_true(mailbox_pending(&mailbox));
	assert_true(readable(0));
	assert_null(mailbox_take(&mailbox));
	assert_false(readable(0));
}

/* The note is taken with the others, or the owner does not sleep before it has taken it. */
static void sent_while_others_are_taken(void **state)
{
	struct note first, *note;

	(void)state;
	for (unsigned int i = 0; i < 6; i++) {
		if (i % 2)
			mailbox_send(&mailbox, &first);
		when = BEFORE + i / 2;
		note = mailbox_take(&mailbox);
		assert_int_equal(when, NEVER);
		if (i % 2) {
			assert_ptr_equal(note, &first);
			note = note->next;
		}
		if (!note) {
			assert_true(mailbox_pending(&mailbox));
			assert_true(readable(0));
			note = mailbox_take(&mailbox);
		}
		assert_ptr_equal(note, &meanwhile);
		assert_null(note->next);
		assert_null(mailbox_take(&mailbox));
		assert_false(readable(0));
	}
}

/* Where the fd is readable, the owner knows that it has to read it. */
static void taken_while_one_is_sent(void **state)
{
	struct note note;

	(void)state;
	owner_looks = true;
	mailbox_send(&mailbox, &note);
	owner_looks = false;
	assert_true(mailbox_pending(&mailbox));
	assert_true(readable(0));
	assert_ptr_equal(mailbox_take(&mailbox), &note);
	assert_false(readable(0));
}

struct sender {
	pthread_t thread;
	struct note *notes; /* kind is the number of the sender */
};

static void *send_all(void *arg)
{
	struct sender *sender = arg;

	for (unsigned int i = 0; i < NOTES; i++)
		mailbox_send(&mailbox, &sender->notes[i]);
	return NULL;
}

/* The owner sleeps whenever it finds no note: after one lost wake-up it sleeps to the deadline. */
static void no_note_and_no_wake_up_is_lost(void **state)
{
	struct sender senders[SENDERS];
	unsigned int next[SENDERS] = { 0 }, got = 0, i;
	struct note *note, *following;

	(void)state;
	for (i = 0; i < SENDERS; i++) {
		senders[i].notes = calloc(NOTES, sizeof(struct note));
		assert_non_null(senders[i].notes);
		for (unsigned int j = 0; j < NOTES; j++)
			senders[i].notes[j].kind = (enum note_kind)i;
		assert_int_equal(pthread_create(&senders[i].thread, NULL, send_all, &senders[i]),
				 0);
	}
	while (got < SENDERS * NOTES) {
		if (!mailbox_pending(&mailbox))
			assert_true(readable(WAIT_MS));
		for (note = mailbox_take(&mailbox); note; note = following) {
			following = note->next;
			assert_ptr_equal(note, &senders[note->kind].notes[next[note->kind]]);
			next[note->kind]++;
			got++;
		}
	}
	for (i = 0; i < SENDERS; i++) {
		pthread_join(senders[i].thread, NULL);
		free(senders[i].notes);
	}
	assert_null(mailbox_take(&mailbox));
}

static struct note again;
static _Atomic unsigned int sent;
static _Atomic bool enough;

static void *send_one_by_one(void *arg)
{
	(void)arg;
	for (unsigned int i = 1; !atomic_load(&enough); i++) {
		mailbox_send(&mailbox, &again);
		atomic_store(&sent, i);
		while (atomic_load(&sent))
			sched_yield();
	}
	return NULL;
}

/*
 * If the owner takes a note while it is being sent, the fd must not stay readable. Few notes: where
 * other programs want the CPUs, each takes as long as their turns.
 */
static void a_taken_note_wakes_nobody(void **state)
{
	unsigned int i, got;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, send_one_by_one, NULL), 0);
	for (i = 1; !atomic_load(&enough); i++) {
		for (got = 0; !got || mailbox_pending(&mailbox) || atomic_load(&sent) != i;)
			if (mailbox_pending(&mailbox))
				got += mailbox_take(&mailbox) != NULL;
			else
				sched_yield();
		assert_int_equal(got, 1);
		assert_false(readable(0));
		atomic_store(&enough, i == TAKEN_NOTES);
		atomic_store(&sent, 0);
	}
	pthread_join(thread, NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(empty),
		CASE(in_order),
		CASE(a_wake_without_a_note),
		CASE(sent_while_others_are_taken),
		CASE(taken_while_one_is_sent),
		CASE(no_note_and_no_wake_up_is_lost),
		CASE(a_taken_note_wakes_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
