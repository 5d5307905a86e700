/* SPDX-License-Identifier: MIT */
/*
 * Measures a server of memcached's protocol with many connections of one thread, which waits for
 * all of them by epoll(7); bench/memcached-front.sh runs it in turn with both servers.
 *
 *	micro sockets get|set -a HOST:PORT [-c CONNECTIONS] [-i IDLE] [-d DEPTH] [-m KEYS]
 *			      [-v VALUE_BYTES] [-r RATE] [-p PID] [-t MS]
 *
 * Each of the connections sends DEPTH commands with one system call, and the next ones when all
 * answers are there. -m: a get has that many keys. -i: further connections that send nothing. -r:
 * open loop: all connections together begin that many sends in a second, at even times, and the
 * latency counts from the time at which one was due. -p: the server's process.
 *
 * Prints operations (keys) per second, the 50th and 99th percentile of the time from a send to its
 * last answer in us, the server's CPU time for each operation in us (-p), and its resident memory
 * in KiB for each idle connection (-p and -i).
 */
#include "bench/micro/micro.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEYS_MAX 100000u
#define KEY_FORMAT "key-%012u"
#define KEY_BYTES 16
#define CONNECTIONS_MAX 20000u
#define EVENTS_MAX 256
#define STORE_BATCH 100u

static struct {
	struct sockaddr_in server;
	bool sets;
	unsigned int connections, idle, depth, keys, value_bytes, rate, ms, pid;
} run = { .connections = 50, .depth = 1, .keys = 1, .value_bytes = 100, .ms = 2000 };

struct connection {
	int fd;
	char *request;
	size_t request_len, sent;
	size_t awaited;	 /* bytes of answers to come */
	uint64_t due_ns; /* since when its latency counts; 0: it is free */
	bool writes;	 /* epoll(7) waits until it can send */
};

static struct connection *connections;
static struct hist latency;
static struct random random_state;
static char *value;
static uint8_t sink[256 << 10];
static int epoll_fd;

static int connect_one(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&run.server, sizeof(run.server)))
		err(1, "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void send_all(int fd, const char *bytes, size_t len)
{
	ssize_t n;

	for (; len; bytes += n, len -= (size_t)n) {
		n = send(fd, bytes, len, MSG_NOSIGNAL);
		if (n < 0)
			err(1, "send");
	}
}

static void receive_exactly(int fd, size_t len)
{
	ssize_t n;

	for (; len; len -= (size_t)n) {
		n = recv(fd, sink, len < sizeof(sink) ? len : sizeof(sink), 0);
		if (n <= 0)
			errx(1, "the server closed a connection");
	}
}

static unsigned int keys_stored(void)
{
	const unsigned int bytes = 64u << 20, fit = bytes / (run.value_bytes + 100);

	return fit < KEYS_MAX ? fit : KEYS_MAX;
}

/* In batches: the server need not be waited for after each. */
static void store_all(void)
{
	unsigned int stored = keys_stored(), batch = run.value_bytes > 10000 ? 1 : STORE_BATCH;
	int fd = connect_one(), n;
	char head[64];

	for (unsigned int i = 0; i < stored; i++) {
		n = snprintf(head, sizeof(head), "set " KEY_FORMAT " 0 0 %u\r\n", i,
			     run.value_bytes);
		send_all(fd, head, (size_t)n);
		send_all(fd, value, run.value_bytes + 2);
		if ((i + 1) % batch == 0)
			receive_exactly(fd, batch * strlen("STORED\r\n"));
	}
	receive_exactly(fd, stored % batch * strlen("STORED\r\n"));
	close(fd);
}

/* Fills in the next commands of a connection, and what they will be answered with. */
static void request_make(struct connection *c)
{
	char *to = c->request, digits[16];
	size_t value_line = 6 + KEY_BYTES + 3 +
			    (size_t)snprintf(digits, sizeof(digits), "%u", run.value_bytes) + 2;

	c->awaited = c->sent = 0;
	for (unsigned int i = 0; i < run.depth; i++) {
		unsigned int key = (unsigned int)random_below(&random_state, keys_stored());

		if (run.sets) {
			to += sprintf(to, "set " KEY_FORMAT " 0 0 %u\r\n", key, run.value_bytes);
			memcpy(to, value, run.value_bytes + 2);
			to += run.value_bytes + 2;
			c->awaited += strlen("STORED\r\n");
			continue;
		}
		to += sprintf(to, "get");
		for (unsigned int k = 0; k < run.keys; k++)
			to += sprintf(to, " " KEY_FORMAT, (key + k * 7919) % keys_stored());
		to += sprintf(to, "\r\n");
		c->awaited += run.keys * (value_line + run.value_bytes + 2) + strlen("END\r\n");
	}
	c->request_len = (size_t)(to - c->request);
}

static void events_set(struct connection *c, bool writes)
{
	struct epoll_event event = { .events = writes ? EPOLLIN | EPOLLOUT : EPOLLIN,
				     .data.ptr = c };

	if (c->writes == writes)
		return;
	c->writes = writes;
	epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static void request_send(struct connection *c)
{
	ssize_t n = send(c->fd, c->request + c->sent, c->request_len - c->sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN)
		err(1, "send");
	if (n > 0)
		c->sent += (size_t)n;
	events_set(c, c->sent < c->request_len);
}

static void request_begin(struct connection *c, uint64_t due_ns)
{
	request_make(c);
	c->due_ns = due_ns;
	request_send(c);
}

/* True: all answers have come. */
static bool answers_take(struct connection *c)
{
	ssize_t n = recv(c->fd, sink, sizeof(sink), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0 || (size_t)n > c->awaited)
		errx(1, "a connection was closed, or an answer is longer than it should be");
	c->awaited -= (size_t)n;
	return !c->awaited;
}

static size_t request_bytes(void)
{
	return run.depth * (run.sets ? run.value_bytes + 64 : run.keys * (KEY_BYTES + 1) + 16) + 64;
}

static void connect_all(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	connections = calloc(run.connections, sizeof(*connections));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!connections || epoll_fd < 0)
		err(1, "connections");
	for (unsigned int i = 0; i < run.connections; i++) {
		connections[i].fd = connect_one();
		connections[i].request = malloc(request_bytes());
		if (!connections[i].request)
			errx(1, "no memory");
		event.data.ptr = &connections[i];
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connections[i].fd, &event);
	}
}

/* Opens a file of the server's process; NULL without -p. */
static FILE *server_open(const char *file)
{
	char path[64];
	FILE *in;

	if (!run.pid)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%u/%s", run.pid, file);
	in = fopen(path, "re");
	if (!in)
		err(1, "%s", path);
	return in;
}

static uint64_t server_cpu_us(void)
{
	unsigned long long user, system;
	FILE *in = server_open("stat");

	if (!in)
		return 0;
	if (fscanf(in, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
		   &system) != 2)
		errx(1, "the server's CPU time can't be read");
	fclose(in);
	return (user + system) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static uint64_t server_kib(void)
{
	unsigned long long pages;
	FILE *in = server_open("statm");

	if (!in)
		return 0;
	if (fscanf(in, "%*u %llu", &pages) != 1)
		errx(1, "the server's memory can't be read");
	fclose(in);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Sends of the open loop that are due. Returns when the next one is, in ms, rounded down. */
static int sends_begin(uint64_t start_ns, uint64_t *begun, uint64_t now_ns)
{
	uint64_t interval = SECOND_NS / run.rate, due;
	struct connection *c;

	for (;;) {
		due = start_ns + *begun * interval;
		if (due > now_ns)
			return (int)((due - now_ns) / 1000000u);
		c = &connections[*begun % run.connections];
		/* Answers to this connection are late: so is all that follows. */
		if (c->due_ns)
			return 0;
		request_begin(c, due);
		(*begun)++;
	}
}

static uint64_t measure(uint64_t until_ns)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t done = 0, now_ns = clock_ns(), start_ns = now_ns, begun = 0;
	int wait_ms = -1;

	for (unsigned int i = 0; !run.rate && i < run.connections; i++)
		request_begin(&connections[i], clock_ns());
	while (now_ns < until_ns) {
		if (run.rate)
			wait_ms = sends_begin(start_ns, &begun, now_ns);
		int n = epoll_wait(epoll_fd, events, EVENTS_MAX, wait_ms);

		now_ns = clock_ns();
		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (events[i].events & EPOLLOUT)
				request_send(c);
			if (!(events[i].events & EPOLLIN) || !answers_take(c))
				continue;
			hist_record(&latency, clock_ns() - c->due_ns);
			done += run.depth * (run.sets ? 1 : run.keys);
			c->due_ns = 0;
			if (!run.rate)
				request_begin(c, clock_ns());
		}
	}
	return done;
}

static void idle_connect(void)
{
	uint64_t before = server_kib();

	for (unsigned int i = 0; i < run.idle; i++)
		(void)connect_one();
	sleep(1);
	if (run.idle && run.pid)
		printf("idle_kib %.2f\n", (double)(server_kib() - before) / run.idle);
}

static void address_parse(char *text)
{
	char *colon = strrchr(text, ':');

	if (!colon)
		errx(2, "%s: give HOST:PORT", text);
	*colon = '\0';
	run.server = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)number(colon + 1, 1, 65535)),
	};
	if (inet_pton(AF_INET, text, &run.server.sin_addr) != 1)
		errx(2, "%s: give an IPv4 address", text);
}

static void arguments_parse(int argc, char **argv)
{
	int option;

	if (argc < 2 || (strcmp(argv[1], "get") && strcmp(argv[1], "set")))
		errx(2, "usage: micro sockets get|set -a HOST:PORT ...");
	run.sets = !strcmp(argv[1], "set");
	optind = 2;
	while ((option = getopt(argc, argv, "a:c:i:d:m:v:r:p:t:")) != -1)
		switch (option) {
		case 'a':
			address_parse(optarg);
			break;
		case 'c':
			run.connections = number(optarg, 1, CONNECTIONS_MAX);
			break;
		case 'i':
			run.idle = number(optarg, 0, CONNECTIONS_MAX);
			break;
		case 'd':
			run.depth = number(optarg, 1, 1024);
			break;
		case 'm':
			run.keys = number(optarg, 1, 1000);
			break;
		case 'v':
			run.value_bytes = number(optarg, 1, 16u << 20);
			break;
		case 'r':
			run.rate = number(optarg, 1, 10000000);
			break;
		case 'p':
			run.pid = number(optarg, 1, INT32_MAX);
			break;
		case 't':
			run.ms = number(optarg, 1, 3600000);
			break;
		default:
			exit(2);
		}
	if (!run.server.sin_port)
		errx(2, "give the server with -a HOST:PORT");
}

int sockets_main(int argc, char **argv)
{
	uint64_t start_ns, done, cpu_us;
	double seconds;

	arguments_parse(argc, argv);
	descriptors_allow((run.connections + run.idle) / 8);
	value = malloc(run.value_bytes + 2);
	if (!value)
		errx(1, "no memory");
	memset(value, 'v', run.value_bytes);
	memcpy(value + run.value_bytes, "\r\n", 2);
	random_init(&random_state, 1);
	hist_init(&latency);
	idle_connect();
	store_all();
	connect_all();
	cpu_us = server_cpu_us();
	start_ns = clock_ns();
	done = measure(start_ns + run.ms * 1000000ull);
	seconds = (double)(clock_ns() - start_ns) / SECOND_NS;
	cpu_us = server_cpu_us() - cpu_us;
	printf("rate %.0f\np50_us %.1f\np99_us %.1f\n", (double)done / seconds,
	       us(hist_quantile(&latency, 0.5)), us(hist_quantile(&latency, 0.99)));
	if (run.pid)
		printf("cpu_us %.3f\n", (double)cpu_us / (double)done);
	return 0;
}
