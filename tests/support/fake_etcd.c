/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_etcd.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define STEPS_MAX 64
#define REQUEST_MAX ((size_t)4 << 20)
#define KEPT_MAX ((size_t)64 << 10)
#define URL_MAX 64

struct fake_etcd {
	int listener, stop;
	char url[URL_MAX];
	pthread_t thread;
	char *text; /* of the request that is read, REQUEST_MAX bytes */

	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t came;
	struct fake_step steps[STEPS_MAX];
	unsigned int planned, count;
	char *requests[STEPS_MAX];
};

static int nobody = -1;

static int socket_bind(char url[URL_MAX])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	snprintf(url, URL_MAX, "http://127.0.0.1:%u", (unsigned int)ntohs(address.sin_port));
	return fd;
}

/* Waits until the descriptor is readable. False: the test stops the peer. */
static bool readable(struct fake_etcd *fake, int fd)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = fake->stop, .events = POLLIN } };

	while (poll(fds, 2, -1) < 0)
		;
	return !fds[1].revents;
}

/* Notes a request, and says what is planned for it. */
static struct fake_step step_take(struct fake_etcd *fake, size_t length)
{
	struct fake_step step = { .kind = FAKE_ANSWER, .status = 500, .text = "not planned" };

	if (length > KEPT_MAX)
		length = KEPT_MAX;
	pthread_mutex_lock(&fake->lock);
	if (fake->count < fake->planned)
		step = fake->steps[fake->count];
	if (fake->count < STEPS_MAX) {
		fake->requests[fake->count] = malloc(length + 1);
		memcpy(fake->requests[fake->count], fake->text, length);
		fake->requests[fake->count][length] = 0;
	}
	fake->count++;
	pthread_cond_broadcast(&fake->came);
	pthread_mutex_unlock(&fake->lock);
	return step;
}

static bool is_deaf(struct fake_etcd *fake)
{
	bool deaf;

	pthread_mutex_lock(&fake->lock);
	deaf = fake->count < fake->planned && fake->steps[fake->count].kind == FAKE_DEAF;
	pthread_mutex_unlock(&fake->lock);
	return deaf;
}

/* Reads a request, or its head for FAKE_DEAF. Returns its length; 0: the peer has gone. */
static size_t request_read(struct fake_etcd *fake, int fd)
{
	size_t length = 0, whole = 0;

	while (!whole || length < whole) {
		ssize_t n = readable(fake, fd) ?
				    read(fd, fake->text + length, REQUEST_MAX - length - 1) :
				    0;
		const char *head_end, *field;

		if (n <= 0)
			return 0;
		length += (size_t)n;
		fake->text[length] = 0;
		head_end = strstr(fake->text, "\r\n\r\n");
		if (!head_end || whole)
			continue;
		field = strstr(fake->text, "Content-Length: ");
		whole = (size_t)(head_end + 4 - fake->text) +
			(field ? strtoul(field + 16, NULL, 10) : 0);
		if (is_deaf(fake))
			return length;
	}
	return length;
}

/* False: the peer has gone. */
static bool send_all(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t n = send(fd, text, length, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		text += n;
		length -= (size_t)n;
	}
	return true;
}

static void await_end(struct fake_etcd *fake, int fd)
{
	char byte;

	while (readable(fake, fd) && read(fd, &byte, 1) > 0)
		;
}

/* True: the connection goes on. */
static bool step_do(struct fake_etcd *fake, int fd, const struct fake_step *step)
{
	size_t length = step->text && !step->length ? strlen(step->text) : step->length;
	char head[128];

	switch (step->kind) {
	case FAKE_ANSWER:
		snprintf(head, sizeof(head), "HTTP/1.1 %d It\r\nContent-Length: %zu\r\n\r\n",
			 step->status, length);
		return send_all(fd, head, strlen(head)) && send_all(fd, step->text, length);
	case FAKE_RAW:
		send_all(fd, step->text, length);
		return false;
	case FAKE_CUT:
		return false;
	case FAKE_HOLD:
		await_end(fake, fd);
		return false;
	case FAKE_FLOOD:
		while (send_all(fd, step->text, length))
			;
		return false;
	case FAKE_DEAF:
		(void)poll(&(struct pollfd){ .fd = fake->stop, .events = POLLIN }, 1, -1);
		return false;
	}
	return false;
}

static void connection_serve(struct fake_etcd *fake, int fd)
{
	bool goes_on = true;

	while (goes_on) {
		size_t length = request_read(fake, fd);
		struct fake_step step;

		if (!length)
			break;
		step = step_take(fake, length);
		goes_on = step_do(fake, fd, &step);
	}
}

static void *serve(void *user)
{
	struct fake_etcd *fake = user;

	while (readable(fake, fake->listener)) {
		int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		connection_serve(fake, fd);
		close(fd);
	}
	return NULL;
}

struct fake_etcd *fake_etcd_start(void)
{
	struct fake_etcd *fake = calloc(1, sizeof(*fake));

	fake->listener = socket_bind(fake->url);
	fake->stop = eventfd(0, EFD_CLOEXEC);
	fake->text = malloc(REQUEST_MAX);
	pthread_mutex_init(&fake->lock, NULL);
	pthread_cond_init(&fake->came, NULL);
	assert_int_equal(listen(fake->listener, 8), 0);
	assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
	return fake;
}

void fake_etcd_stop(struct fake_etcd *fake)
{
	assert_int_equal(eventfd_write(fake->stop, 1), 0);
	pthread_join(fake->thread, NULL);
	close(fake->listener);
	close(fake->stop);
	for (unsigned int i = 0; i < STEPS_MAX; i++)
		free(fake->requests[i]);
	pthread_cond_destroy(&fake->came);
	pthread_mutex_destroy(&fake->lock);
	free(fake->text);
	free(fake);
}

const char *fake_etcd_url(const struct fake_etcd *fake)
{
	return fake->url;
}

void fake_etcd_plan(struct fake_etcd *fake, const struct fake_step *step)
{
	pthread_mutex_lock(&fake->lock);
	assert_true(fake->planned < STEPS_MAX);
	fake->steps[fake->planned++] = *step;
	pthread_mutex_unlock(&fake->lock);
}

void fake_etcd_answer(struct fake_etcd *fake, int status, const char *text)
{
	const struct fake_step step = { .kind = FAKE_ANSWER, .status = status, .text = text };

	fake_etcd_plan(fake, &step);
}

unsigned int fake_etcd_count(struct fake_etcd *fake)
{
	unsigned int count;

	pthread_mutex_lock(&fake->lock);
	count = fake->count;
	pthread_mutex_unlock(&fake->lock);
	return count;
}

void fake_etcd_await(struct fake_etcd *fake, unsigned int count)
{
	pthread_mutex_lock(&fake->lock);
	while (fake->count < count)
		pthread_cond_wait(&fake->came, &fake->lock);
	pthread_mutex_unlock(&fake->lock);
}

const char *fake_etcd_request(struct fake_etcd *fake, unsigned int number)
{
	assert_true(number < fake_etcd_count(fake));
	return fake->requests[number];
}

void fake_etcd_assert_done(struct fake_etcd *fake)
{
	assert_int_equal(fake_etcd_count(fake), fake->planned);
}

const char *fake_etcd_nobody(void)
{
	static char url[URL_MAX];

	if (nobody < 0)
		nobody = socket_bind(url);
	return url;
}

void fake_etcd_nobody_end(void)
{
	close(nobody);
	nobody = -1;
}
