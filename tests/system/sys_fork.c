/* SPDX-License-Identifier: MIT */
/*
 * A client for the system test of fork(2): forks between its PUTs, several times, and checks that
 * what it PUTs afterwards is what it wrote, that the child can't use its handle, nor harm it by
 * kvd_close(), and that the child can open one of its own. Prints `ok` and `FAIL` lines as
 * tests/system/lib.sh does.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/kvd.h"
#include "tests/support/checks.h"

#define LARGE_BYTES 300000u /* the server READs it from the client */
#define FORKS 4

static uint8_t value[LARGE_BYTES], found[LARGE_BYTES];

static void check_calls(bool good, const char *what, struct kvd *db)
{
	check(good, "%s%s%s", what, good ? "" : ": ", good ? "" : kvd_error(db));
}

/* PUTs and GETs values of both kinds, filled with @byte. */
static bool works(struct kvd *db, const char *key, int byte)
{
	static const size_t lengths[] = { 100, 3000, LARGE_BYTES };

	for (unsigned int i = 0; i < 3; i++) {
		size_t len = lengths[i];

		memset(value, byte + (int)i, len);
		memset(found, 0, len);
		if (kvd_put(db, key, strlen(key), value, len, NULL, NULL) ||
		    kvd_get(db, key, strlen(key), found, len, NULL) || memcmp(found, value, len))
			return false;
	}
	return true;
}

/* Returns the exit status: what was wrong, 0: nothing. */
static int child(struct kvd *db, const char *url, int ready, int go)
{
	struct kvd *own;
	char byte = 0;

	if (kvd_put(db, "child", 5, "wrong", 5, NULL, NULL) != KVD_ERR_DISCONNECTED ||
	    kvd_get(db, "parent", 6, found, 10, NULL) != KVD_ERR_DISCONNECTED ||
	    !strstr(kvd_error(db), "fork"))
		return 1;
	/* Memory of the parent's that the child writes to is copied, here or there. */
	memset(value, 0xee, sizeof(value));
	memset(found, 0xee, sizeof(found));
	kvd_close(db);
	own = must_open(url);
	if (!works(own, "child", 'a'))
		return 2;
	/* Lives on while the parent works. */
	if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
		return 3;
	if (!works(own, "child", 'n'))
		return 4;
	kvd_close(own);
	return 0;
}

static void fork_once(struct kvd *db, const char *url, int byte)
{
	int ready[2], go[2], status = -1;
	char c = 0;
	pid_t pid;

	if (pipe(ready) || pipe(go))
		exit(EXIT_FAILURE);
	pid = fork();
	if (!pid)
		_exit(child(db, url, ready[1], go[0]));
	/* At once, beside the child's first steps, and again when it has taken all of them. */
	check_calls(works(db, "parent", byte), "the parent's PUTs send what it wrote", db);
	close(ready[1]);
	if (read(ready[0], &c, 1) == 1)
		check_calls(works(db, "parent", byte + 1), "after the child's kvd_close(), too",
			    db);
	if (write(go[1], &c, 1) != 1)
		check_calls(false, "the child waits", db);
	waitpid(pid, &status, 0);
	check_calls(status == 0, "the child is refused the handle, and works with its own", db);
	check_calls(works(db, "parent", byte + 2), "after the child's end, too", db);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
}

int main(int argc, char **argv)
{
	struct kvd *db;

	if (argc != 2) {
		fputs("usage: sys_fork URL\n", stderr);
		return 64;
	}
	db = must_open(argv[1]);
	check_calls(works(db, "parent", '0'), "PUTs before a fork", db);
	for (int i = 0; i < FORKS; i++)
		fork_once(db, argv[1], 'A' + 3 * i);
	kvd_close(db);
	return check_status();
}
