/* SPDX-License-Identifier: MIT */
/*
 * A program with an event loop: keeps WIDTH operations under way on one handle and waits with
 * epoll(7) for kvd_fd(), level- or edge-triggered. Small and large values, stored and read, whose
 * order it checks: each GET has to find what the PUT of the same key that was submitted before it
 * stored. A wake-up that is lost is a wait that takes too long.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "client/kvd.h"
#include "tests/support/checks.h"

#define WIDTH 24u
#define LARGE_EVERY 50u
#define LARGE_BYTES 300000u
#define WAIT_MS 300000

/* One key: a PUT, and a GET that was submitted with it. */
struct pair {
	struct kvd_op put, get, count;
	unsigned int number, left;
	char key[32];
	size_t bytes;
	uint8_t *stored, *found;
};

static struct kvd *db;
static struct pair pairs[WIDTH];
static unsigned int begun, ended, wanted, wrong;

static void pair_submit(struct pair *p);

static void pair_check(struct pair *p)
{
	bool good = !p->put.status && !p->get.status && !p->count.status &&
		    p->get.item.value_len == p->bytes && !memcmp(p->stored, p->found, p->bytes);

	if (good)
		return;
	if (!wrong++)
		fprintf(stderr, "pair %u: PUT %d GET %d INCR %d, %zu of %zu bytes: %s\n", p->number,
			p->put.status, p->get.status, p->count.status, p->get.item.value_len,
			p->bytes, kvd_error(db));
}

static void op_done(struct kvd_op *op, void *user)
{
	struct pair *p = user;

	(void)op;
	if (--p->left)
		return;
	pair_check(p);
	ended++;
	if (begun < wanted)
		pair_submit(p);
}

static void pair_submit(struct pair *p)
{
	static const struct kvd_arith_args create = { .create = 1, .initial = 1 };
	struct kvd_op *ops[] = { &p->put, &p->get, &p->count };
	unsigned int i;

	p->number = begun++;
	p->left = 3;
	p->bytes = p->number % LARGE_EVERY ? 20 + p->number % 500 : LARGE_BYTES + p->number;
	snprintf(p->key, sizeof(p->key), "async%u", (unsigned int)(p - pairs));
	memset(p->stored, (int)(p->number % 251), p->bytes);
	memset(p->found, 0xee, p->bytes);
	kvd_prep_put(&p->put, p->key, strlen(p->key), p->stored, p->bytes, NULL);
	kvd_prep_get(&p->get, p->key, strlen(p->key), p->found, LARGE_BYTES * 2);
	kvd_prep_incr(&p->count, "count", 5, 1, &create);
	for (i = 0; i < 3; i++) {
		ops[i]->done = op_done;
		ops[i]->user = p;
	}
	if (kvd_submit(db, ops, 3))
		die("submit", kvd_error(db));
}

/* Sleeps until there is something to do; false: for too long. */
static bool sleep_until_ready(int epoll_fd)
{
	enum kvd_status status = kvd_arm(db);
	struct epoll_event event;

	if (status == KVD_ERR_BUSY)
		return true;
	if (status)
		die("arm", kvd_error(db));
	return epoll_wait(epoll_fd, &event, 1, WAIT_MS) == 1;
}

static void loop(bool edge)
{
	struct epoll_event event = { .events = EPOLLIN | (edge ? (uint32_t)EPOLLET : 0) };
	int epoll_fd = epoll_create1(0);
	unsigned int i, lost = 0;

	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, kvd_fd(db), &event))
		die("epoll", kvd_error(db));
	begun = ended = wrong = 0;
	for (i = 0; i < WIDTH; i++)
		pair_submit(&pairs[i]);
	while (ended < wanted && !lost) {
		kvd_poll(db, NULL, 0);
		if (ended < wanted && !sleep_until_ready(epoll_fd))
			lost++;
	}
	check(!lost, "no wake-up is lost%s", edge ? ", edge-triggered" : "");
	check(!wrong && !kvd_outstanding(db), "each GET finds what was stored before it");
}

static void count_check(void)
{
	uint64_t number = 0;

	if (kvd_incr(db, "count", 5, 0, NULL, &number, NULL))
		die("incr", kvd_error(db));
	check(number == 2ull * wanted, "each change was executed once");
}

int main(int argc, char **argv)
{
	unsigned int i;

	if (argc != 3)
		die("usage", "sys_async URL PAIRS");
	wanted = (unsigned int)atoi(argv[2]);
	db = must_open(argv[1]);
	for (i = 0; i < WIDTH; i++) {
		pairs[i].stored = malloc(LARGE_BYTES * 2);
		pairs[i].found = malloc(LARGE_BYTES * 2);
		if (!pairs[i].stored || !pairs[i].found)
			die("malloc", "no memory");
	}
	loop(false);
	loop(true);
	count_check();
	kvd_close(db);
	for (i = 0; i < WIDTH; i++) {
		free(pairs[i].stored);
		free(pairs[i].found);
	}
	return check_status();
}
