/* SPDX-License-Identifier: MIT */
/* HTTP requests to etcd's JSON gateway: see etcd_http.h. */
#include "server/fleet/etcd_http.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <jansson.h>
#include <openssl/crypto.h>

#include "common/util/clock.h"
#include "common/util/text.h"

/* A text grows from this; most answers are smaller. */
#define REPLY_ROOM_MIN 4096u
/* A value of 128 KiB is sent in 12 parts. */
#define UPLOAD_BUFFER_BYTES 16384L
/* "Authorization: " and a token. */
#define HEADER_MAX (ETCD_TOKEN_MAX + 16)
#define NS_PER_MS 1000000u
#define POLL_MS_MAX 60000

struct etcd_http {
	CURLM *multi;
	CURL *easy;
	const struct tls_files *files;
	_Atomic bool interrupted;

	/* The request in progress. */
	const struct etcd_post *post;
	struct etcd_reply *reply;
	size_t body_at; /* bytes of the body that were given to libcurl */
	size_t room;	/* of reply->text */
	int err;	/* of reply_write() */
	char error[CURL_ERROR_SIZE];
};

/* libcurl expects memory even for 0 bytes, where OpenSSL has none. */
static void *memory_alloc(size_t bytes)
{
	return OPENSSL_malloc(bytes ? bytes : 1);
}

static void memory_free(void *memory)
{
	OPENSSL_free(memory);
}

static void *memory_realloc(void *memory, size_t bytes)
{
	return OPENSSL_realloc(memory, bytes ? bytes : 1);
}

static char *memory_strdup(const char *text)
{
	return OPENSSL_strdup(text);
}

static void *memory_calloc(size_t count, size_t bytes)
{
	size_t total;

	if (__builtin_mul_overflow(count, bytes, &total))
		return NULL;
	return OPENSSL_zalloc(total ? total : 1);
}

int etcd_memory_protect(void)
{
	json_set_alloc_funcs(memory_alloc, memory_free);
	return curl_global_init_mem(CURL_GLOBAL_ALL, memory_alloc, memory_free, memory_realloc,
				    memory_strdup, memory_calloc) ?
		       -ENOMEM :
		       0;
}

void etcd_memory_release(void)
{
	curl_global_cleanup();
}

static size_t body_read(char *to, size_t size, size_t count, void *user)
{
	struct etcd_http *http = user;
	size_t left = http->post->length - http->body_at, bytes = size * count;

	if (bytes > left)
		bytes = left;
	memcpy(to, (const char *)http->post->body + http->body_at, bytes);
	http->body_at += bytes;
	http->reply->given = http->body_at > 0;
	return bytes;
}

/* libcurl starts again on another connection. */
static int body_seek(void *user, curl_off_t offset, int origin)
{
	struct etcd_http *http = user;

	if (offset || origin != SEEK_SET || (http->post->once && http->reply->given))
		return CURL_SEEKFUNC_FAIL;
	http->body_at = 0;
	return CURL_SEEKFUNC_OK;
}

/* Makes room for that many bytes more, and a zero byte. */
static int reply_reserve(struct etcd_http *http, size_t bytes)
{
	struct etcd_reply *reply = http->reply;
	size_t room = http->room ? http->room : REPLY_ROOM_MIN;
	char *text;

	if (bytes > ETCD_REPLY_MAX - reply->length)
		return -EMSGSIZE;
	while (room <= reply->length + bytes)
		room *= 2;
	if (room == http->room)
		return 0;
	text = realloc(reply->text, room);
	if (!text)
		return -ENOMEM;
	reply->text = text;
	http->room = room;
	return 0;
}

static size_t reply_write(char *from, size_t size, size_t count, void *user)
{
	struct etcd_http *http = user;
	size_t bytes = size * count;

	http->err = reply_reserve(http, bytes);
	if (http->err)
		return 0;
	memcpy(http->reply->text + http->reply->length, from, bytes);
	http->reply->length += bytes;
	return bytes;
}

static bool tls_set(CURL *easy, const struct tls_files *files)
{
	const char *ca = files->ca && *files->ca ? files->ca : NULL;
	const char *certificate = files->certificate && *files->certificate ? files->certificate :
									      NULL;

	return !curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
	       !curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) &&
	       !curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) &&
	       /* A given CA is the only one: without a folder of the system's. */
	       (!ca || (!curl_easy_setopt(easy, CURLOPT_CAINFO, ca) &&
			!curl_easy_setopt(easy, CURLOPT_CAPATH, NULL))) &&
	       (!certificate || (!curl_easy_setopt(easy, CURLOPT_SSLCERT, certificate) &&
				 !curl_easy_setopt(easy, CURLOPT_SSLKEY, files->key)));
}

/* What is the same for all requests. */
static bool easy_set(struct etcd_http *http)
{
	CURL *easy = http->easy;

#if LIBCURL_VERSION_NUM >= 0x075700
	/*
	 * A name server that does not answer holds up nobody when the time is over, and new CAs
	 * count at once.
	 */
	if (curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) ||
	    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L))
		return false;
#endif
#if LIBCURL_VERSION_NUM >= 0x075500
	if (curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https"))
		return false;
#else
	if (curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS))
		return false;
#endif
	return !curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
	       !curl_easy_setopt(easy, CURLOPT_PROXY, "") &&
	       !curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       !curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error) &&
	       !curl_easy_setopt(easy, CURLOPT_POST, 1L) &&
	       !curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER_BYTES) &&
	       !curl_easy_setopt(easy, CURLOPT_READFUNCTION, body_read) &&
	       !curl_easy_setopt(easy, CURLOPT_READDATA, http) &&
	       !curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, body_seek) &&
	       !curl_easy_setopt(easy, CURLOPT_SEEKDATA, http) &&
	       !curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, reply_write) &&
	       !curl_easy_setopt(easy, CURLOPT_WRITEDATA, http) && tls_set(easy, http->files);
}

int etcd_http_create(struct etcd_http **http, const struct tls_files *files)
{
	*http = calloc(1, sizeof(**http));
	if (!*http)
		return -ENOMEM;
	(*http)->files = files;
	(*http)->multi = curl_multi_init();
	(*http)->easy = curl_easy_init();
	if ((*http)->multi && (*http)->easy && easy_set(*http))
		return 0;
	etcd_http_destroy(*http);
	*http = NULL;
	return -ENOMEM;
}

void etcd_http_destroy(struct etcd_http *http)
{
	if (!http)
		return;
	curl_easy_cleanup(http->easy);
	curl_multi_cleanup(http->multi);
	free(http);
}

void etcd_http_interrupt(struct etcd_http *http)
{
	atomic_store(&http->interrupted, true);
	curl_multi_wakeup(http->multi);
}

void etcd_http_resume(struct etcd_http *http)
{
	atomic_store(&http->interrupted, false);
}

static bool header_add(struct curl_slist **headers, const char *text)
{
	struct curl_slist *longer = curl_slist_append(*headers, text);

	if (longer)
		*headers = longer;
	return longer != NULL;
}

/* Sets what this request has for itself. The caller frees @headers, also after a failure. */
static int post_set(struct etcd_http *http, struct curl_slist **headers)
{
	const struct etcd_post *post = http->post;
	char text[HEADER_MAX];
	/* libcurl would wait for an answer to "Expect" before it sends more than 1 MiB. */
	bool set = header_add(headers, "Content-Type: application/json") &&
		   header_add(headers, "Expect:");

	if (set && *post->token) {
		snprintf(text, sizeof(text), "Authorization: %s", post->token);
		set = header_add(headers, text);
		explicit_bzero(text, sizeof(text));
	}
	snprintf(text, sizeof(text), "%s%s", post->url, post->path);
	set = set && !curl_easy_setopt(http->easy, CURLOPT_URL, text) &&
	      !curl_easy_setopt(http->easy, CURLOPT_HTTPHEADER, *headers) &&
	      !curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->length);
	return set ? 0 : -ENOMEM;
}

/* Waits for the end of the transfer: 0 with libcurl's result, -ETIMEDOUT or -ECANCELED. */
static int transfer_wait(struct etcd_http *http, CURLcode *result)
{
	const struct etcd_post *post = http->post;
	int running, left;
	CURLMsg *message;

	while (!atomic_load(&http->interrupted)) {
		uint64_t now, end;

		if (curl_multi_perform(http->multi, &running) || !running)
			break;
		now = clock_ns();
		end = post->once && http->reply->given ? post->end_ns : post->try_end_ns;
		if (now >= end)
			return -ETIMEDOUT;
		end = (end - now) / NS_PER_MS + 1;
		curl_multi_poll(http->multi, NULL, 0, end < POLL_MS_MAX ? (int)end : POLL_MS_MAX,
				NULL);
	}
	if (atomic_load(&http->interrupted))
		return -ECANCELED;
	message = curl_multi_info_read(http->multi, &left);
	*result = message ? message->data.result : CURLE_OUT_OF_MEMORY;
	return 0;
}

static bool answer_has_begun(struct etcd_http *http)
{
	long bytes = 0;

	curl_easy_getinfo(http->easy, CURLINFO_HEADER_SIZE, &bytes);
	return bytes > 0;
}

/* After -ETIMEDOUT: how far the request came. */
static const char *stage(struct etcd_http *http)
{
	curl_off_t connected = 0;

	if (answer_has_begun(http))
		return "its answer is incomplete";
	if (http->reply->given)
		return "it does not answer";
	curl_easy_getinfo(http->easy, CURLINFO_CONNECT_TIME_T, &connected);
	return connected ? "it does not finish the TLS handshake" : "it accepts no connection";
}

static int errno_of(CURLcode result)
{
	switch (result) {
	case CURLE_OK:
		return 0;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
		return -EHOSTUNREACH;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		return -EKEYREJECTED;
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_HTTP2:
		return -EPROTO;
	default:
		return -ECONNRESET;
	}
}

/* Why a peer may end a connection without a word: etcd does so, and TLS 1.3 mostly. */
static const char *silent_end(const char *url)
{
	return strncmp(url, "https:", 6) ? ": it may have stopped, or want https:// in its URL" :
					   ": it may have refused this host's certificate";
}

/* The sentence for @err, from what libcurl says of @result. */
static void explain(struct etcd_http *http, int err, CURLcode result, char why[ETCD_WHY_MAX])
{
	const char *said = *http->error ? http->error : curl_easy_strerror(result);

	switch (err) {
	case -EHOSTUNREACH:
		snprintf(why, ETCD_WHY_MAX, "%.200s: start it, or correct its URL", said);
		break;
	case -EKEYREJECTED:
		snprintf(why, ETCD_WHY_MAX,
			 "TLS failed: %.200s: correct the CA, the certificate and key, or the URL",
			 said);
		break;
	case -EPROTO:
		snprintf(why, ETCD_WHY_MAX, "it is not an etcd: %.200s: correct its URL", said);
		break;
	case -EMSGSIZE:
		snprintf(why, ETCD_WHY_MAX, "its answer is larger than 4 MiB");
		break;
	case -ETIMEDOUT:
		snprintf(why, ETCD_WHY_MAX, "%s in time: it is stopped, overloaded or cut off",
			 stage(http));
		break;
	case -ECANCELED:
		snprintf(why, ETCD_WHY_MAX, "the call was interrupted");
		break;
	case -ENOMEM:
		snprintf(why, ETCD_WHY_MAX, "no memory");
		break;
	default:
		snprintf(why, ETCD_WHY_MAX, "the connection broke: %.200s%s", said,
			 answer_has_begun(http) ? "" : silent_end(http->post->url));
	}
	text_mask(why, strlen(why));
}

static int transfer(struct etcd_http *http, CURLcode *result)
{
	int err;

	if (curl_multi_add_handle(http->multi, http->easy))
		return -ENOMEM;
	err = transfer_wait(http, result);
	curl_multi_remove_handle(http->multi, http->easy);
	if (err)
		return err;
	if (*result && http->err)
		return http->err;
	/* TLS 1.3: the peer refuses the certificate after the handshake. */
	if (*result == CURLE_RECV_ERROR && strstr(http->error, " alert "))
		return -EKEYREJECTED;
	return errno_of(*result);
}

int etcd_http_post(struct etcd_http *http, const struct etcd_post *post, struct etcd_reply *reply,
		   char why[ETCD_WHY_MAX])
{
	struct curl_slist *headers = NULL;
	CURLcode result = CURLE_OK;
	int err;

	memset(reply, 0, sizeof(*reply));
	http->post = post;
	http->reply = reply;
	http->body_at = http->room = 0;
	http->err = 0;
	*http->error = 0;
	err = post_set(http, &headers);
	if (!err)
		err = reply_reserve(http, 0);
	if (!err)
		err = transfer(http, &result);
	if (err) {
		explain(http, err, result, why);
		free(reply->text);
		reply->text = NULL;
	} else {
		reply->text[reply->length] = 0;
		curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &reply->status);
	}
	curl_easy_setopt(http->easy, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(headers);
	http->post = NULL;
	http->reply = NULL;
	return err;
}
