/* SPDX-License-Identifier: MIT */
/*
 * A server on libuv whose requests are operations of kvd: one thread, one handle, many clients. It
 * speaks lines over TCP, on the loopback address:
 *
 *	set KEY VALUE	ok
 *	get KEY		VALUE, or "not found"
 *	quit		ends the server
 *
 *	libuv_server [URL [PORT]]
 *
 * PORT 0, which is the default, lets the kernel choose; the first line on stdout says which.
 */
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvd.h>
#include <uv.h>

#define LINE_MAX_BYTES 256

struct client {
	uv_tcp_t tcp;
	char input[LINE_MAX_BYTES];
	size_t used;
	unsigned int commands; /* under way */
	int closed;
};

struct command {
	struct kvd_op op;
	struct client *client;
	uv_write_t write;
	char key[LINE_MAX_BYTES];
	char value[LINE_MAX_BYTES];
	char answer[LINE_MAX_BYTES + 64];
};

static struct kvd *db;
static uv_loop_t loop;
static uv_poll_t watcher;
static uv_prepare_t arm;
static uv_idle_t busy; /* active: kvd_poll() has something to do at once */
static uv_tcp_t listener;

static void on_client_close(uv_handle_t *handle)
{
	struct client *client = handle->data;

	client->closed = 1;
	if (!client->commands)
		free(client);
}

static void client_close(struct client *client)
{
	if (!uv_is_closing((uv_handle_t *)&client->tcp))
		uv_close((uv_handle_t *)&client->tcp, on_client_close);
}

static void command_free(struct command *command)
{
	struct client *client = command->client;

	free(command);
	if (!--client->commands && client->closed)
		free(client);
}

static void on_written(uv_write_t *write, int status)
{
	struct command *command = write->data;

	if (status)
		client_close(command->client);
	command_free(command);
}

static void command_answer(struct command *command)
{
	struct client *client = command->client;
	uv_buf_t buf = uv_buf_init(command->answer, (unsigned int)strlen(command->answer));

	command->write.data = command;
	if (uv_is_closing((uv_handle_t *)&client->tcp) ||
	    uv_write(&command->write, (uv_stream_t *)&client->tcp, &buf, 1, on_written))
		command_free(command);
}

/* Called by kvd_poll(). */
static void on_done(struct kvd_op *op, void *user)
{
	struct command *command = user;
	char *answer = command->answer;

	if (op->status)
		snprintf(answer, sizeof(command->answer), "%s\n", kvd_status_text(op->status));
	else if (op->op == KVD_OP_GET)
		snprintf(answer, sizeof(command->answer), "%.*s\n", (int)op->item.value_len,
			 command->value);
	else
		snprintf(answer, sizeof(command->answer), "ok\n");
	command_answer(command);
}

static void server_stop(void)
{
	uv_close((uv_handle_t *)&watcher, NULL);
	uv_close((uv_handle_t *)&arm, NULL);
	uv_close((uv_handle_t *)&busy, NULL);
	uv_close((uv_handle_t *)&listener, NULL);
}

static void command_start(struct client *client, const char *line)
{
	struct command *command = calloc(1, sizeof(*command));
	struct kvd_op *op;

	if (!command)
		err(EXIT_FAILURE, "calloc");
	command->client = client;
	client->commands++;
	op = &command->op;
	if (sscanf(line, "set %255s %255s", command->key, command->value) == 2) {
		kvd_prep_put(op, command->key, strlen(command->key), command->value,
			     strlen(command->value), NULL);
	} else if (sscanf(line, "get %255s", command->key) == 1) {
		kvd_prep_get(op, command->key, strlen(command->key), command->value,
			     sizeof(command->value));
	} else {
		snprintf(command->answer, sizeof(command->answer), "not a command\n");
		command_answer(command);
		return;
	}
	op->done = on_done;
	op->user = command;
	if (kvd_submit(db, &op, 1)) {
		snprintf(command->answer, sizeof(command->answer), "%.200s\n", kvd_error(db));
		command_answer(command);
	}
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct client *client = handle->data;

	(void)suggested;
	*buf = uv_buf_init(client->input + client->used,
			   (unsigned int)(sizeof(client->input) - 1 - client->used));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct client *client = stream->data;
	char *line = client->input, *end;

	(void)buf;
	/* ENOBUFS: a line that is too long. */
	if (n < 0) {
		client_close(client);
		return;
	}
	client->used += (size_t)n;
	client->input[client->used] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		if (!strcmp(line, "quit")) {
			client_close(client);
			server_stop();
			return;
		}
		command_start(client, line);
		line = end + 1;
	}
	client->used -= (size_t)(line - client->input);
	memmove(client->input, line, client->used);
}

static void on_connection(uv_stream_t *server, int status)
{
	struct client *client = status ? NULL : calloc(1, sizeof(*client));

	if (!client)
		return;
	uv_tcp_init(&loop, &client->tcp);
	client->tcp.data = client;
	if (uv_accept(server, (uv_stream_t *)&client->tcp) ||
	    uv_read_start((uv_stream_t *)&client->tcp, on_alloc, on_read))
		client_close(client);
}

static void on_kvd(uv_poll_t *poll, int status, int events)
{
	(void)poll;
	(void)status;
	(void)events;
	kvd_poll(db, NULL, 0);
}

static void on_busy(uv_idle_t *idle)
{
	(void)idle;
}

/*
 * Before libuv waits: poll, then arm. If there already is more to do, an idle watcher keeps libuv
 * from waiting.
 */
static void on_prepare(uv_prepare_t *prepare)
{
	(void)prepare;
	kvd_poll(db, NULL, 0);
	if (kvd_arm(db) == KVD_ERR_BUSY)
		uv_idle_start(&busy, on_busy);
	else
		uv_idle_stop(&busy);
}

static void check(int status, const char *what)
{
	if (status)
		errx(EXIT_FAILURE, "%s: %s", what, uv_strerror(status));
}

static void server_listen(int port)
{
	struct sockaddr_in address;
	int bytes = sizeof(address);

	check(uv_ip4_addr("127.0.0.1", port, &address), "address");
	check(uv_tcp_init(&loop, &listener), "uv_tcp_init");
	check(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0), "bind");
	check(uv_listen((uv_stream_t *)&listener, 64, on_connection), "listen");
	check(uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &bytes), "getsockname");
	printf("port %d\n", ntohs(address.sin_port));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char url[KVD_URL_MAX];

	if (kvd_open(&db, argc > 1 ? argv[1] : kvd_default_url(url), NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	if (kvd_fd(db) < 0)
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	check(uv_loop_init(&loop), "uv_loop_init");
	check(uv_poll_init(&loop, &watcher, kvd_fd(db)), "uv_poll_init");
	check(uv_poll_start(&watcher, UV_READABLE, on_kvd), "uv_poll_start");
	check(uv_prepare_init(&loop, &arm), "uv_prepare_init");
	check(uv_prepare_start(&arm, on_prepare), "uv_prepare_start");
	check(uv_idle_init(&loop, &busy), "uv_idle_init");
	server_listen(argc > 2 ? atoi(argv[2]) : 0);
	/* Until `quit`, and until the clients are gone. */
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	kvd_close(db);
	return 0;
}
