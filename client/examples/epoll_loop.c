/* SPDX-License-Identifier: MIT */
/*
 * An epoll loop with kvd in it: reads commands from stdin, and prints the answers as they come.
 *
 *	epoll_loop [URL]
 *
 *	set KEY VALUE
 *	get KEY
 *
 * A command is an operation of its own, with a callback. While operations are under way the loop
 * takes further commands; the library starts no thread and never blocks it.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <kvd.h>

#define LINE_MAX_BYTES 256

/* The operation and everything it points to, in one allocation. */
struct command {
	struct kvd_op op;
	char key[LINE_MAX_BYTES];
	char value[LINE_MAX_BYTES];
};

/* Called by kvd_poll(). It may submit further operations, or free this one. */
static void command_done(struct kvd_op *op, void *user)
{
	struct command *command = user;

	if (op->status)
		printf("%s: %s\n", command->key, kvd_status_text(op->status));
	else if (op->op == KVD_OP_GET)
		printf("%s = %.*s\n", command->key, (int)op->item.value_len, command->value);
	else
		printf("%s stored\n", command->key);
	free(command);
}

static void command_start(struct kvd *db, const char *line)
{
	struct command *command = calloc(1, sizeof(*command));
	struct kvd_op *op;

	if (!command)
		err(EXIT_FAILURE, "calloc");
	op = &command->op;
	if (sscanf(line, "set %255s %255s", command->key, command->value) == 2) {
		kvd_prep_put(op, command->key, strlen(command->key), command->value,
			     strlen(command->value), NULL);
	} else if (sscanf(line, "get %255s", command->key) == 1) {
		kvd_prep_get(op, command->key, strlen(command->key), command->value,
			     sizeof(command->value));
	} else {
		printf("not a command: %s\n", line);
		free(command);
		return;
	}
	op->done = command_done;
	op->user = command;
	if (kvd_submit(db, &op, 1)) {
		printf("%s: %s\n", command->key, kvd_error(db));
		free(command);
	}
}

/* Takes the whole lines out of what was read. Returns false at the end of the input. */
static bool commands_read(struct kvd *db)
{
	static char input[4 * LINE_MAX_BYTES];
	static size_t used;
	ssize_t n = read(STDIN_FILENO, input + used, sizeof(input) - 1 - used);
	char *line = input, *end;

	if (n <= 0)
		return false;
	used += (size_t)n;
	input[used] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		command_start(db, line);
		line = end + 1;
	}
	used -= (size_t)(line - input);
	memmove(input, line, used);
	if (used == sizeof(input) - 1)
		errx(EXIT_FAILURE, "a line is longer than %zu bytes", used);
	return true;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		err(EXIT_FAILURE, "epoll_ctl");
}

int main(int argc, char **argv)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), i, n;
	struct epoll_event events[2];
	bool input_open = true;
	char url[KVD_URL_MAX];
	struct kvd *db;

	if (epoll < 0)
		err(EXIT_FAILURE, "epoll_create1");
	if (kvd_open(&db, argc > 1 ? argv[1] : kvd_default_url(url), NULL))
		errx(EXIT_FAILURE, "%s", kvd_error(NULL));
	if (kvd_fd(db) < 0)
		errx(EXIT_FAILURE, "%s", kvd_error(db));
	watch(epoll, STDIN_FILENO);
	watch(epoll, kvd_fd(db));

	while (input_open || kvd_outstanding(db)) {
		/* The order matters: poll, arm, and only then wait. */
		kvd_poll(db, NULL, 0);
		if (!input_open && !kvd_outstanding(db))
			break;
		if (kvd_arm(db) == KVD_ERR_BUSY)
			continue;
		n = epoll_wait(epoll, events, 2, -1);
		for (i = 0; i < n; i++) {
			if (events[i].data.fd != STDIN_FILENO || commands_read(db))
				continue;
			input_open = false;
			epoll_ctl(epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
		}
	}
	kvd_close(db);
	return 0;
}
