/* SPDX-License-Identifier: MIT */
/*
 * A client of memcached's classic text protocol, for tests: blocking, one command at a time. A
 * value may be sent and received in parts, so that a test can do something else in between. A
 * connection without progress for some minutes counts as broken. Threads: one at a time.
 */
#ifndef KVD_TESTS_SUPPORT_MC_CLIENT_H
#define KVD_TESTS_SUPPORT_MC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MC_CLIENT_LINE_MAX 512
#define MC_CLIENT_INPUT_BYTES 4096

enum mc_answer {
	MC_ANSWER_OK, /* the command did what it is for */
	MC_ANSWER_NOT_FOUND,
	MC_ANSWER_EXISTS,
	MC_ANSWER_NOT_STORED,
	MC_ANSWER_NOT_A_NUMBER,
	MC_ANSWER_OTHER, /* client->line has it */
	MC_ANSWER_BROKEN /* the connection, or the form of an answer */
};

struct mc_client {
	int fd;
	char line[MC_CLIENT_LINE_MAX]; /* the last that was received, without its end */
	size_t at, len;		       /* of what has arrived and was not taken */
	char input[MC_CLIENT_INPUT_BYTES];
};

/*
 * Connects to 127.0.0.1. With @narrow both ends have so little buffer that a value of 64 KiB is
 * still with the server when its first bytes arrive here. Returns 0 or a negative errno.
 */
int mc_client_open(struct mc_client *client, uint16_t port, bool narrow);
void mc_client_close(struct mc_client *client);

/*
 * Begins a gets: with MC_ANSWER_OK, mc_client_receive() must take all @len bytes of the value, in
 * any number of calls, and mc_client_gets_end() what follows it.
 */
enum mc_answer mc_client_gets(struct mc_client *client, const char *key, uint32_t *len,
			      uint64_t *version);
bool mc_client_receive(struct mc_client *client, void *to, size_t len);
bool mc_client_gets_end(struct mc_client *client);

/*
 * Begins a command with a value: set, add, replace, append, prepend, or cas, which alone has
 * @version. mc_client_send() must send all @len bytes; mc_client_put_end() waits for the answer.
 */
bool mc_client_put(struct mc_client *client, const char *command, const char *key, uint32_t len,
		   uint64_t version);
bool mc_client_send(struct mc_client *client, const void *bytes, size_t len);
enum mc_answer mc_client_put_end(struct mc_client *client);

enum mc_answer mc_client_delete(struct mc_client *client, const char *key);
enum mc_answer mc_client_touch(struct mc_client *client, const char *key, uint32_t ttl_s);
enum mc_answer mc_client_incr(struct mc_client *client, const char *key, uint64_t delta,
			      uint64_t *number);

#endif /* KVD_TESTS_SUPPORT_MC_CLIENT_H */
