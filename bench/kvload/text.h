/* SPDX-License-Identifier: MIT */
/*
 * memcached and Redis over a Unix socket, many requests sent together. What is stored follows from
 * its number, so the answer to every request is known beforehand to the byte: it is compared as a
 * whole, and any other answer is an error.
 */
#ifndef KVD_BENCH_KVLOAD_TEXT_H
#define KVD_BENCH_KVLOAD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_KEY_BYTES 16u
#define LOAD_VALUE_BYTES 32u
/* Requests sent together: memcached's largest useful multi-key get, and well below what sockets buffer. */
#define LOAD_BATCH 64u

enum load_op { LOAD_SET, LOAD_GET, LOAD_MISS, LOAD_DELETE };

/* Key and value of record @number; with a terminating zero each. */
void load_key(uint64_t number, char key[LOAD_KEY_BYTES + 1]);
void load_value(uint64_t number, char value[LOAD_VALUE_BYTES + 1]);

enum text_protocol { TEXT_MEMCACHED, TEXT_REDIS };

struct text {
	int fd;
	enum text_protocol protocol;
	size_t request_len, answer_len;
	char request[LOAD_BATCH * 128 + 16];
	char answer[LOAD_BATCH * 128 + 16]; /* expected */
	char got[65536];
};

/* Returns 0 or what connect(2) says, negative. */
int text_connect(struct text *text, enum text_protocol protocol, const char *path);
void text_close(struct text *text);

/*
 * Does @op with @count records, at most LOAD_BATCH. Returns 0; -EBADMSG: another answer, which is
 * text->got; or what send(2) and recv(2) say.
 */
int text_do(struct text *text, enum load_op op, const uint64_t *numbers, size_t count);

/* Asks how many keys are stored. */
int text_count(struct text *text, uint64_t *count);

#endif /* KVD_BENCH_KVLOAD_TEXT_H */
