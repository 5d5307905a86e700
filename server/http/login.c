/* SPDX-License-Identifier: MIT */
#include "server/http/login.h"

#include <crypt.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/secret.h"
#include "common/util/thread.h"
#include "server/users/password.h"

#define NS_PER_S 1000000000ull
#define SUM_BYTES 32 /* of SHA-256 */
/* The lowest priority: see setpriority(2). */
#define NICE_MOST 19

struct http_login {
	enum { LOGIN_FREE, LOGIN_WAITS, LOGIN_CHECKS, LOGIN_HELD, LOGIN_ENDED } state;
	struct MHD_Connection *connection;
	struct ip_address address;
	uint64_t number;   /* of the request: the lowest is checked first */
	uint64_t until_ns; /* of LOGIN_HELD */
	bool matched;
	bool too_long; /* crypt(3) takes no such password */
	char password[CRYPT_MAX_PASSPHRASE_SIZE];
	char hash[PASSWORD_HASH_BYTES];
};

/* Of secret_alloc(). */
struct http_logins {
	/* libmicrohttpd's thread's. */
	uint8_t key[SUM_BYTES];
	uint8_t known[HTTP_LOGINS_KNOWN_MAX][SUM_BYTES]; /* zeros: none */
	unsigned int known_next;			 /* the one to be replaced */

	struct crypt_data data; /* the thread's */

	pthread_t thread;
	pthread_mutex_t lock; /* guards the fields below */
	pthread_cond_t changed;
	bool started, stops;
	uint64_t count; /* of requests so far */
	struct http_login list[HTTP_LOGINS_MAX];
};

static int locks_make(struct http_logins *logins)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&logins->changed, &attr);
	pthread_condattr_destroy(&attr);
	return -pthread_mutex_init(&logins->lock, NULL);
}

struct http_logins *http_logins_make(void)
{
	struct http_logins *logins = secret_alloc(sizeof(*logins));

	if (!logins || getrandom(logins->key, sizeof(logins->key), 0) != sizeof(logins->key)) {
		log_error("server.http: can't check passwords: %s",
			  logins ? strerror(errno) : "no memory");
		secret_free(logins, sizeof(*logins));
		return NULL;
	}
	locks_make(logins);
	return logins;
}

void http_logins_free(struct http_logins *logins)
{
	if (!logins)
		return;
	pthread_cond_destroy(&logins->changed);
	pthread_mutex_destroy(&logins->lock);
	secret_free(logins, sizeof(*logins));
}

/* PASSWORD-2. False: OpenSSL has no memory. */
static bool sum_make(const struct http_logins *logins, const char *password, const char *hash,
		     uint8_t sum[SUM_BYTES])
{
	char text[CRYPT_MAX_PASSPHRASE_SIZE + PASSWORD_HASH_BYTES];
	int length = snprintf(text, sizeof(text), "%s:%s", hash, password);
	bool made = length < (int)sizeof(text) &&
		    HMAC(EVP_sha256(), logins->key, SUM_BYTES, (const uint8_t *)text,
			 (size_t)length, sum, NULL);

	explicit_bzero(text, sizeof(text));
	return made;
}

bool http_logins_know(const struct http_logins *logins, const char *password, const char *hash)
{
	uint8_t sum[SUM_BYTES];
	bool known = false;

	if (!sum_make(logins, password, hash, sum))
		return false;
	for (unsigned int i = 0; i < HTTP_LOGINS_KNOWN_MAX; i++)
		known |= !CRYPTO_memcmp(sum, logins->known[i], SUM_BYTES);
	return known;
}

static void learn(struct http_logins *logins, const char *password, const char *hash)
{
	if (sum_make(logins, password, hash, logins->known[logins->known_next]))
		logins->known_next = (logins->known_next + 1) % HTTP_LOGINS_KNOWN_MAX;
}

static void do_end(struct http_login *login, bool matched)
{
	login->matched = matched;
	login->state = LOGIN_ENDED;
	MHD_resume_connection(login->connection);
}

/* Answers those whose delay is over. Returns when the next one's is; UINT64_MAX: there is none. */
static uint64_t do_expire(struct http_logins *logins)
{
	uint64_t now_ns = clock_ns(), next_ns = UINT64_MAX;

	for (unsigned int i = 0; i < HTTP_LOGINS_MAX; i++) {
		struct http_login *login = &logins->list[i];

		if (login->state != LOGIN_HELD)
			continue;
		if (login->until_ns <= now_ns || logins->stops)
			do_end(login, false);
		else if (login->until_ns < next_ns)
			next_ns = login->until_ns;
	}
	return next_ns;
}

static bool do_is_held(const struct http_logins *logins, const struct ip_address *address)
{
	for (unsigned int i = 0; i < HTTP_LOGINS_MAX; i++)
		if (logins->list[i].state == LOGIN_HELD &&
		    !memcmp(&logins->list[i].address, address, sizeof(*address)))
			return true;
	return false;
}

/* The oldest one that may be checked now; NULL: none. */
static struct http_login *do_choose(struct http_logins *logins)
{
	struct http_login *best = NULL, *login;

	for (login = logins->list; login < logins->list + HTTP_LOGINS_MAX; login++)
		if (login->state == LOGIN_WAITS && (!best || login->number < best->number) &&
		    !do_is_held(logins, &login->address))
			best = login;
	return best;
}

static void do_wait(struct http_logins *logins, uint64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / NS_PER_S),
		.tv_nsec = (long)(until_ns % NS_PER_S),
	};

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&logins->changed, &logins->lock);
	else
		pthread_cond_timedwait(&logins->changed, &logins->lock, &until);
}

/* Waits for the next login to check. NULL: the thread must end. */
static struct http_login *do_next(struct http_logins *logins)
{
	struct http_login *login;
	uint64_t until_ns;

	for (;;) {
		until_ns = do_expire(logins);
		login = do_choose(logins);
		if (login && !logins->stops)
			return login;
		if (logins->stops)
			break;
		do_wait(logins, until_ns);
	}
	for (; login; login = do_choose(logins))
		do_end(login, false);
	return NULL;
}

static void do_checked(struct http_login *login, bool matched)
{
	if (matched) {
		do_end(login, true);
		return;
	}
	login->state = LOGIN_HELD;
	login->until_ns = clock_ns() + HTTP_LOGIN_DELAY_NS;
}

static void *logins_run(void *arg)
{
	struct http_logins *logins = arg;
	struct http_login *login;
	bool matched;

	if (setpriority(PRIO_PROCESS, (id_t)gettid(), NICE_MOST))
		log_debug("http: the priority of the thread of passwords stays as it is: %m");
	pthread_mutex_lock(&logins->lock);
	while ((login = do_next(logins))) {
		login->state = LOGIN_CHECKS;
		pthread_mutex_unlock(&logins->lock);
		matched = password_matches(login->password, login->hash, &logins->data) &&
			  !login->too_long;
		explicit_bzero(&logins->data, sizeof(logins->data));
		pthread_mutex_lock(&logins->lock);
		do_checked(login, matched);
	}
	pthread_mutex_unlock(&logins->lock);
	return NULL;
}

/* By the first password that a client gives. */
static bool do_start(struct http_logins *logins)
{
	int err;

	if (logins->started || logins->stops)
		return logins->started && !logins->stops;
	err = thread_start(&logins->thread, "http-passwords", logins_run, logins);
	if (err)
		log_ratelimited(LOG_ERROR, 1,
				"http: can't start the thread of passwords: %s: " ADVICE_THREADS,
				strerror(-err));
	logins->started = !err;
	return logins->started;
}

static void login_init(struct http_login *login, const struct ip_address *address,
		       const char *password, const char *hash)
{
	size_t length = strlen(password);

	login->address = *address;
	login->too_long = length >= sizeof(login->password);
	if (login->too_long)
		length = 0;
	memcpy(login->password, password, length);
	login->password[length] = '\0';
	snprintf(login->hash, sizeof(login->hash), "%s", hash);
}

struct http_login *http_logins_ask(struct http_logins *logins, struct MHD_Connection *connection,
				   const struct ip_address *address, const char *password,
				   const char *hash)
{
	struct http_login *login = logins->list, *end = logins->list + HTTP_LOGINS_MAX;

	pthread_mutex_lock(&logins->lock);
	while (login < end && login->state != LOGIN_FREE)
		login++;
	if (login < end && do_start(logins)) {
		login_init(login, address, password, hash);
		login->connection = connection;
		login->number = ++logins->count;
		login->state = LOGIN_WAITS;
		MHD_suspend_connection(connection);
		pthread_cond_signal(&logins->changed);
	} else {
		login = NULL;
	}
	pthread_mutex_unlock(&logins->lock);
	return login;
}

bool http_login_end(struct http_logins *logins, struct http_login *login, const char *hash)
{
	bool matched;

	pthread_mutex_lock(&logins->lock);
	matched = login->matched && !strcmp(login->hash, hash);
	if (matched)
		learn(logins, login->password, hash);
	explicit_bzero(login, sizeof(*login));
	pthread_mutex_unlock(&logins->lock);
	return matched;
}

void http_logins_stop(struct http_logins *logins)
{
	bool started;

	pthread_mutex_lock(&logins->lock);
	logins->stops = true;
	started = logins->started;
	logins->started = false;
	pthread_cond_signal(&logins->changed);
	pthread_mutex_unlock(&logins->lock);
	if (started)
		pthread_join(logins->thread, NULL);
}

void http_logins_start(struct http_logins *logins)
{
	logins->stops = false;
}
