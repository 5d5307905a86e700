/* SPDX-License-Identifier: MIT */
/* TLS on one connection. */
#include "common/tls/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/util/heap.h"

struct tls {
	SSL *ssl;
	struct tls_context *context;
	char *identity; /* the peer's; NULL: none */
	char why[TLS_WHY_MAX];
};

/*
 * OpenSSL's own BIO of a socket calls write(2), which raises SIGPIPE when the peer has gone: that
 * would end a program that embeds libkvd.
 */
static int socket_write(BIO *bio, const char *from, int bytes)
{
	ssize_t sent = send((int)(intptr_t)BIO_get_data(bio), from, (size_t)bytes, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)sent;
}

static int socket_read(BIO *bio, char *to, int bytes)
{
	ssize_t got = recv((int)(intptr_t)BIO_get_data(bio), to, (size_t)bytes, 0);

	BIO_clear_retry_flags(bio);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	else if (got == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)got;
}

static long socket_ctrl(BIO *bio, int what, long number, void *pointer)
{
	(void)number, (void)pointer;
	switch (what) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

static BIO_METHOD *socket_method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void method_make(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kvd");

	if (method && BIO_meth_set_write(method, socket_write) &&
	    BIO_meth_set_read(method, socket_read) && BIO_meth_set_ctrl(method, socket_ctrl))
		socket_method = method;
	else
		BIO_meth_free(method);
}

static BIO *socket_bio(int fd)
{
	BIO *bio;

	pthread_once(&method_once, method_make);
	bio = socket_method ? BIO_new(socket_method) : NULL;
	if (!bio)
		return NULL;
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	return bio;
}

int tls_start(struct tls **out, struct tls_context *context, int fd)
{
	struct tls *tls = heap_calloc(1, sizeof(*tls));
	BIO *bio;

	if (!tls)
		return -ENOMEM;
	ERR_clear_error();
	tls_context_hold(context);
	tls->context = context;
	tls->ssl = tls_context_ssl(context);
	bio = tls->ssl ? socket_bio(fd) : NULL;
	if (!bio) {
		tls_end(tls);
		return -ENOMEM;
	}
	SSL_set_bio(tls->ssl, bio, bio);
	if (tls_context_is_server(context))
		SSL_set_accept_state(tls->ssl);
	else
		SSL_set_connect_state(tls->ssl);
	*out = tls;
	return 0;
}

void tls_finish(struct tls *tls)
{
	ERR_clear_error();
	(void)SSL_shutdown(tls->ssl);
	ERR_clear_error();
}

void tls_end(struct tls *tls)
{
	if (!tls)
		return;
	/* The end of TCP ends TLS, too: without this its session could not be resumed. */
	if (tls->ssl)
		SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(tls->ssl);
	tls_context_put(tls->context);
	heap_free(tls->identity);
	heap_free(tls);
}

/* The meaning of alerts that peers send if credentials do not fit; NULL: another alert. */
static const char *alert_text(int reason)
{
	switch (reason) {
	case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
		return "it wants a certificate, or a pre-shared key that it knows";
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		return "it does not trust the signer of our certificate";
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
		return "our certificate has expired";
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
		return "it does not accept our certificate";
	/* OpenSSL sends the first alert for a key that differs, others the second. */
	case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
	case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
		return "it has another key for our identity";
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
	case SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY:
		return "it knows no key for our identity, and has no certificate";
	case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
		return "it does not speak TLS 1.3";
	default:
		return NULL;
	}
}

/* The meaning of a server's errors, if a client's key does not fit, say; NULL: another error. */
static const char *client_text(int reason)
{
	switch (reason) {
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_HTTP_REQUEST:
		return "it does not speak TLS";
	case SSL_R_UNSUPPORTED_PROTOCOL:
		return "it does not speak TLS 1.3";
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
		return "it showed no certificate, nor a pre-shared key of tls.psk";
	case SSL_R_BINDER_DOES_NOT_VERIFY:
		return "its pre-shared key is not that of its identity in tls.psk";
	/* There is no certificate to fall back to. */
	case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
		return "it has no pre-shared key, or one whose identity is not in tls.psk, and "
		       "tls.certificate is not set";
	default:
		return NULL;
	}
}

/* Sets tls->why from the peer's certificate, OpenSSL's error or the peer's alert. */
static int refused(struct tls *tls)
{
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_reason_error_string(code);
	const char *alert = alert_text(ERR_GET_REASON(code));
	const char *client = SSL_is_server(tls->ssl) ? client_text(ERR_GET_REASON(code)) : NULL;
	long verified = SSL_get_verify_result(tls->ssl);

	if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
		snprintf(tls->why, sizeof(tls->why), "its certificate is not accepted: %s",
			 X509_verify_cert_error_string(verified));
	else if (ERR_GET_REASON(code) > SSL_AD_REASON_OFFSET)
		snprintf(tls->why, sizeof(tls->why), "%s", alert ? alert : reason);
	else if (client)
		snprintf(tls->why, sizeof(tls->why), "%s", client);
	else
		snprintf(tls->why, sizeof(tls->why), "TLS: %s", reason ? reason : "unknown error");
	return -EKEYREJECTED;
}

/* The negative errno for a call that returned @ret; 0: the peer has ended the stream. */
static int failed(struct tls *tls, int ret, int saved_errno, uint32_t *events)
{
	switch (SSL_get_error(tls->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		*events = EPOLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*events = EPOLLOUT;
		return -EAGAIN;
	case SSL_ERROR_SSL:
		return refused(tls);
	case SSL_ERROR_SYSCALL:
		snprintf(tls->why, sizeof(tls->why), "%s",
			 strerror(saved_errno ? saved_errno : ECONNRESET));
		return saved_errno ? -saved_errno : -ECONNRESET;
	default: /* SSL_ERROR_ZERO_RETURN */
		snprintf(tls->why, sizeof(tls->why), "it ended the connection");
		return 0;
	}
}

/* OpenSSL's error queue belongs to the thread: drops errors of earlier calls. */
static void call_begin(struct tls *tls)
{
	ERR_clear_error();
	errno = 0;
	tls->why[0] = '\0';
}

/* For a call that returned @ret: @done if that is success, else a negative errno. */
static ssize_t call_end(struct tls *tls, int ret, size_t done, uint32_t *events)
{
	ssize_t result = ret == 1 ? (ssize_t)done : failed(tls, ret, errno, events);

	ERR_clear_error();
	return result;
}

/* 0 or -ENOMEM. */
static int identity_keep(struct tls *tls)
{
	const struct tls_psk *psk = tls_psk_of(tls->ssl);
	X509 *certificate = SSL_get0_peer_certificate(tls->ssl);
	char identity[TLS_IDENTITY_MAX] = "";

	if (psk)
		snprintf(identity, sizeof(identity), "psk:%s", psk->name);
	else if (certificate)
		tls_certificate_identity(certificate, identity);
	if (!*identity)
		return 0;
	tls->identity = heap_alloc(strlen(identity) + 1);
	if (!tls->identity)
		return -ENOMEM;
	strcpy(tls->identity, identity);
	return 0;
}

int tls_handshake(struct tls *tls, uint32_t *events)
{
	ssize_t done;

	call_begin(tls);
	done = call_end(tls, SSL_do_handshake(tls->ssl), 1, events);
	if (done > 0)
		return identity_keep(tls);
	return done ? (int)done : -ECONNRESET;
}

ssize_t tls_recv(struct tls *tls, void *to, size_t bytes)
{
	uint32_t events;
	size_t got = 0;
	int ret;

	call_begin(tls);
	ret = SSL_read_ex(tls->ssl, to, bytes, &got);
	return call_end(tls, ret, got, &events);
}

ssize_t tls_send(struct tls *tls, const void *from, size_t bytes)
{
	uint32_t events;
	size_t sent = 0;
	ssize_t done;
	int ret;

	call_begin(tls);
	ret = SSL_write_ex(tls->ssl, from, bytes, &sent);
	done = call_end(tls, ret, sent, &events);
	return done ? done : -ECONNRESET;
}

size_t tls_pending(const struct tls *tls)
{
	return (size_t)SSL_pending(tls->ssl);
}

const char *tls_why(const struct tls *tls)
{
	return tls->why;
}

bool tls_is_resumed(const struct tls *tls)
{
	return SSL_session_reused(tls->ssl) && !tls_psk_of(tls->ssl);
}

const char *tls_identity(const struct tls *tls)
{
	return tls->identity;
}
