/* SPDX-License-Identifier: MIT */
/* The credentials and trusted certificates of an end, from its files. */
#include "common/tls/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/util/heap.h"
#include "common/util/secret.h"

/* TLS_AES_128_GCM_SHA256: the TLS 1.3 cipher that every implementation has. */
static const unsigned char psk_cipher[] = { 0x13, 0x01 };
/* Names a server's sessions, as OpenSSL wants it where clients have certificates. */
static const unsigned char session_context[] = "kvd";

/* SHA-256 */
#define DIGEST_BYTES 32

struct tls_context {
	SSL_CTX *ssl;
	unsigned char digest[DIGEST_BYTES]; /* of the files it was made from */
	_Atomic unsigned int users;	    /* this context's owner, and its streams */
	bool server;
	char *host; /* a client: the server's name or address */
	struct tls_psks psks;
	pthread_mutex_t lock;
	SSL_SESSION *session; /* a client: the next stream resumes it; or NULL */
};

static int context_index = -1; /* of a context's struct tls_context */
static int psk_index = -1;     /* of a session's struct tls_psk */
static pthread_once_t index_once = PTHREAD_ONCE_INIT;

static void index_make(void)
{
	context_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	psk_index = SSL_SESSION_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

static struct tls_context *context_of(const SSL *ssl)
{
	return SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), context_index);
}

static bool given(const char *file)
{
	return file && *file;
}

/* What is wrong with @what in @file; OpenSSL's reason if @reason is NULL. */
static int refuse(char *why, const char *what, const char *file, const char *reason)
{
	unsigned long code = ERR_peek_error(); /* the first; later ones say where it was met */

	if (!reason)
		reason = ERR_GET_LIB(code) == ERR_LIB_SYS ? strerror(ERR_GET_REASON(code)) :
							    ERR_reason_error_string(code);
	snprintf(why, TLS_WHY_MAX, "%s %.140s: %.200s", what, file,
		 reason ? reason : "unknown error");
	return -EINVAL;
}

/* Reads the secret's text, which the caller releases. */
static int secret_read(struct secret_file *secret, char *why, const char *what, const char *file)
{
	const char *wrong = secret_file_read(secret, file);

	return wrong ? refuse(why, what, file, wrong) : 0;
}

/* The key needs a passphrase: kvd never asks for one. */
static int no_passphrase(char *buffer, int size, int writing, void *user)
{
	(void)buffer, (void)size, (void)writing;
	*(bool *)user = true;
	return -1;
}

/* The private key of the certificate that the context has. */
static bool key_use(struct tls_context *context, const struct secret_file *secret, bool *encrypted)
{
	BIO *text = BIO_new_mem_buf(secret->text, (int)secret->length); /* no copy */
	EVP_PKEY *key = text ? PEM_read_bio_PrivateKey(text, NULL, no_passphrase, encrypted) : NULL;
	bool used = key && SSL_CTX_use_PrivateKey(context->ssl, key) == 1;

	EVP_PKEY_free(key);
	BIO_free(text);
	return used;
}

static int key_load(struct tls_context *context, const char *file, char *why)
{
	struct secret_file secret;
	bool encrypted = false, used;
	int err = secret_read(&secret, why, "the key", file);

	if (err)
		return err;
	ERR_clear_error();
	used = key_use(context, &secret, &encrypted);
	secret_file_release(&secret);
	if (used)
		return 0;
	if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
		return refuse(why, "the key", file, "it is not the certificate's");
	if (encrypted)
		return refuse(why, "the key", file, "it is encrypted: give an unencrypted one");
	return refuse(why, "the key", file, NULL);
}

static int certificate_load(struct tls_context *context, const struct tls_files *files, char *why)
{
	if (!given(files->certificate) && !given(files->key))
		return 0;
	if (!given(files->certificate))
		return refuse(why, "the key", files->key, "a certificate for it is missing");
	if (!given(files->key))
		return refuse(why, "the certificate", files->certificate,
			      "its private key is missing");
	if (SSL_CTX_use_certificate_chain_file(context->ssl, files->certificate) != 1)
		return refuse(why, "the certificate", files->certificate, NULL);
	return key_load(context, files->key, why);
}

static int trust_load(struct tls_context *context, const struct tls_files *files, char *why)
{
	STACK_OF(X509_NAME) * names;

	if (!given(files->ca)) {
		/*
		 * A client with a pre-shared key accepts no server without it, whoever signed its
		 * certificate.
		 */
		if (!context->server && !given(files->psk))
			SSL_CTX_set_default_verify_paths(context->ssl);
		return 0;
	}
	if (SSL_CTX_load_verify_locations(context->ssl, files->ca, NULL) != 1)
		return refuse(why, "the CA certificates", files->ca, NULL);
	if (!context->server)
		return 0;
	names = SSL_load_client_CA_file(files->ca);
	if (!names)
		return refuse(why, "the CA certificates", files->ca, NULL);
	SSL_CTX_set_client_CA_list(context->ssl, names);
	return 0;
}

static int psks_load(struct tls_context *context, const char *file, char *why)
{
	struct secret_file secret;
	char reason[TLS_WHY_MAX];
	const char *wrong = NULL;
	int err;

	if (!given(file))
		return 0;
	err = secret_read(&secret, why, "the file of keys", file);
	if (err)
		return err;
	err = tls_psks_parse(&context->psks, secret.text, secret.length, reason);
	secret_file_release(&secret);
	if (err)
		wrong = err == -ENOMEM ? "no memory" : reason;
	else if (!context->psks.count)
		wrong = "it has no key";
	return wrong ? refuse(why, "the file of keys", file, wrong) : 0;
}

/* The session of two ends that agreed on the key earlier. NULL: no memory. */
static SSL_SESSION *psk_session(SSL *ssl, const struct tls_psk *psk)
{
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, psk_cipher);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher && SSL_SESSION_set1_master_key(session, psk->key, psk->key_len) &&
	    SSL_SESSION_set_cipher(session, cipher) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) &&
	    SSL_SESSION_set_ex_data(session, psk_index, (void *)psk))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

/* A server: the client says that it has this key. Without one it may show a certificate. */
static int psk_find(SSL *ssl, const unsigned char *name, size_t length, SSL_SESSION **session)
{
	const struct tls_psk *psk = tls_psks_find(&context_of(ssl)->psks, name, length);

	*session = psk ? psk_session(ssl, psk) : NULL;
	/* A resumed session would not say from which key it came. */
	if (*session)
		SSL_set_num_tickets(ssl, 0);
	return !psk || *session;
}

/*
 * A key may be offered and not used, if it does not fit the cipher: the session of the completed
 * handshake counts.
 */
const struct tls_psk *tls_psk_of(const SSL *ssl)
{
	const SSL_SESSION *session = SSL_get0_session(ssl);

	return session ? SSL_SESSION_get_ex_data(session, psk_index) : NULL;
}

/* A client: its first key. @md is set if the server asked for another hash than it has. */
static int psk_use(SSL *ssl, const EVP_MD *md, const unsigned char **name, size_t *length,
		   SSL_SESSION **session)
{
	const struct tls_psk *psk = context_of(ssl)->psks.list;
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, psk_cipher);

	*session = NULL;
	if (md && cipher && SSL_CIPHER_get_handshake_digest(cipher) != md)
		return 1;
	*session = psk_session(ssl, psk);
	*name = (const unsigned char *)psk->name;
	*length = strlen(psk->name);
	return *session != NULL;
}

/*
 * Whether the peer of a session would be accepted now, as in a handshake: by its certificate's time
 * and by the CAs that this end trusts. @chain: the certificates sent with it; a server's tickets
 * have none, so a client whose certificate needs one has full handshakes.
 */
static bool peer_holds(SSL *ssl, X509 *peer, STACK_OF(X509) * chain)
{
	X509_STORE *trusted = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl));
	X509_STORE_CTX *check = X509_STORE_CTX_new();
	bool holds;

	ERR_set_mark();
	holds = check && X509_STORE_CTX_init(check, trusted, peer, chain) &&
		X509_STORE_CTX_set_default(check,
					   SSL_is_server(ssl) ? "ssl_client" : "ssl_server") &&
		X509_VERIFY_PARAM_set1(X509_STORE_CTX_get0_param(check), SSL_get0_param(ssl)) &&
		X509_verify_cert(check) == 1;
	X509_STORE_CTX_free(check);
	ERR_pop_to_mark();
	return holds;
}

/*
 * A server got a ticket, which is valid no longer than the certificate for which it was given: each
 * resumption gives another ticket, so by tickets alone a session would never end. Without a ticket
 * there is a full handshake, which reports the reason.
 */
static SSL_TICKET_RETURN ticket_taken(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
				      size_t length, SSL_TICKET_STATUS status, void *arg)
{
	X509 *peer;

	(void)name, (void)length, (void)arg;
	if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	peer = SSL_SESSION_get0_peer(session);
	if (peer && !peer_holds(ssl, peer, NULL))
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

/* A client got a ticket: its next stream resumes the session. Returns 1: we keep it. */
static int session_new(SSL *ssl, SSL_SESSION *session)
{
	struct tls_context *context = context_of(ssl);
	SSL_SESSION *old;

	pthread_mutex_lock(&context->lock);
	old = context->session;
	context->session = session;
	pthread_mutex_unlock(&context->lock);
	SSL_SESSION_free(old);
	return 1;
}

/* The cipher must have the hash of the key's session, else the key is not used. */
static bool ciphers_set(struct tls_context *context)
{
	return !context->psks.count ||
	       SSL_CTX_set_ciphersuites(context->ssl, "TLS_AES_128_GCM_SHA256:"
						      "TLS_CHACHA20_POLY1305_SHA256");
}

static int sides_set(struct tls_context *context, const struct tls_files *files, char *why)
{
	bool asks = given(files->ca);

	if (!ciphers_set(context))
		return -ENOMEM;
	if (!context->server) {
		SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
		SSL_CTX_set_session_cache_mode(context->ssl,
					       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(context->ssl, session_new);
		if (context->psks.count)
			SSL_CTX_set_psk_use_session_callback(context->ssl, psk_use);
		return 0;
	}
	if (!given(files->certificate) && !context->psks.count) {
		snprintf(why, TLS_WHY_MAX, "a server needs a certificate, or a file of keys");
		return -EINVAL;
	}
	if (files->peer_certificate && !asks && !context->psks.count) {
		snprintf(why, TLS_WHY_MAX,
			 "clients must show a certificate, but the CA certificates that sign them "
			 "are missing: name their file (ca)");
		return -EINVAL;
	}
	SSL_CTX_set_session_id_context(context->ssl, session_context, sizeof(session_context) - 1);
	SSL_CTX_set_session_cache_mode(context->ssl,
				       SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL);
	if (!SSL_CTX_set_session_ticket_cb(context->ssl, NULL, ticket_taken, NULL))
		return -ENOMEM;
	if (asks || files->peer_certificate)
		SSL_CTX_set_verify(context->ssl,
				   SSL_VERIFY_PEER | (files->peer_certificate ?
							      SSL_VERIFY_FAIL_IF_NO_PEER_CERT :
							      0),
				   NULL);
	if (context->psks.count)
		SSL_CTX_set_psk_find_session_callback(context->ssl, psk_find);
	return 0;
}

static int context_load(struct tls_context *context, const struct tls_files *files, char *why)
{
	int err;

	pthread_once(&index_once, index_make);
	context->ssl = SSL_CTX_new(context->server ? TLS_server_method() : TLS_client_method());
	if (!context->ssl || context_index < 0 || psk_index < 0 ||
	    !SSL_CTX_set_ex_data(context->ssl, context_index, context) ||
	    !SSL_CTX_set_min_proto_version(context->ssl, TLS1_3_VERSION))
		return -ENOMEM;
	/*
	 * Connections are many and silent: idle ones need no buffers. A send returns after each
	 * record, and may go on with a copy of the bytes.
	 */
	SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
					       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* A receive handles one message of TLS itself, however many the peer sends. */
	SSL_CTX_clear_mode(context->ssl, SSL_MODE_AUTO_RETRY);
	/* A peer that dies sends no close_notify. */
	SSL_CTX_set_options(context->ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
	err = certificate_load(context, files, why);
	if (!err)
		err = trust_load(context, files, why);
	if (!err)
		err = psks_load(context, files->psk, why);
	return err ? err : sides_set(context, files, why);
}

/* The file's content and permissions: an unusable file differs from a usable one. */
static void file_digest(EVP_MD_CTX *digest, const char *file)
{
	int fd = given(file) ? open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	uint64_t facts[4] = { given(file), 0 }; /* and mode, owner, length */
	unsigned char part[4096];
	struct stat st;
	ssize_t got;

	if (fd >= 0 && !fstat(fd, &st)) {
		facts[1] = st.st_mode;
		facts[2] = st.st_uid;
	}
	while (fd >= 0 && (got = read(fd, part, sizeof(part))) > 0) {
		EVP_DigestUpdate(digest, part, (size_t)got);
		facts[3] += (uint64_t)got;
	}
	if (fd >= 0)
		close(fd);
	explicit_bzero(part, sizeof(part));
	EVP_DigestUpdate(digest, facts, sizeof(facts));
}

static int files_digest(const struct tls_files *files, unsigned char bytes[DIGEST_BYTES])
{
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	bool made = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL);

	if (made) {
		file_digest(digest, files->ca);
		file_digest(digest, files->certificate);
		file_digest(digest, files->key);
		file_digest(digest, files->psk);
		EVP_DigestUpdate(digest, &files->peer_certificate, sizeof(bool));
		made = EVP_DigestFinal_ex(digest, bytes, NULL);
	}
	EVP_MD_CTX_free(digest);
	return made ? 0 : -ENOMEM;
}

int tls_context_make(struct tls_context **out, const struct tls_files *files, const char *host,
		     char *why)
{
	struct tls_context *context = heap_calloc(1, sizeof(*context));
	int err = 0;

	if (!context)
		return -ENOMEM;
	pthread_mutex_init(&context->lock, NULL);
	atomic_init(&context->users, 1);
	context->server = !host;
	if (host) {
		context->host = heap_alloc(strlen(host) + 1);
		if (context->host)
			strcpy(context->host, host);
		else
			err = -ENOMEM;
	}
	ERR_clear_error();
	/* First, so that a change meanwhile is noticed later. */
	if (!err)
		err = files_digest(files, context->digest);
	if (!err)
		err = context_load(context, files, why);
	ERR_clear_error();
	if (err) {
		tls_context_put(context);
		return err;
	}
	*out = context;
	return 0;
}

int tls_context_renew(struct tls_context **context, const struct tls_context *old,
		      const struct tls_files *files, char *why)
{
	unsigned char digest[DIGEST_BYTES];
	int err = files_digest(files, digest);

	*context = NULL;
	if (err || !memcmp(digest, old->digest, sizeof(digest)))
		return err;
	return tls_context_make(context, files, old->host, why);
}

void tls_context_hold(struct tls_context *context)
{
	atomic_fetch_add(&context->users, 1);
}

void tls_context_put(struct tls_context *context)
{
	if (!context || atomic_fetch_sub(&context->users, 1) > 1)
		return;
	SSL_SESSION_free(context->session);
	SSL_CTX_free(context->ssl);
	tls_psks_release(&context->psks);
	pthread_mutex_destroy(&context->lock);
	heap_free(context->host);
	heap_free(context);
}

bool tls_context_is_server(const struct tls_context *context)
{
	return context->server;
}

static bool is_address(const char *host)
{
	unsigned char binary[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, host, binary) == 1 || inet_pton(AF_INET6, host, binary) == 1;
}

/* The server's certificate must name the host that the client wants. */
static bool host_expect(SSL *ssl, const char *host)
{
	char name[256];
	bool address;

	/* "fe80::1%eth0" is in no certificate. */
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, "%"), host);
	address = is_address(name);
	if (address)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, name) && SSL_set_tlsext_host_name(ssl, name);
}

/*
 * Each session is resumed once, as RFC 8446 (C.4) recommends, so that observers can't link the two;
 * and only while the server's certificate is accepted.
 */
static void session_resume(struct tls_context *context, SSL *ssl)
{
	SSL_SESSION *session;
	X509 *peer;

	pthread_mutex_lock(&context->lock);
	session = context->session;
	context->session = NULL;
	pthread_mutex_unlock(&context->lock);
	if (!session)
		return;
	peer = SSL_SESSION_get0_peer(session);
	if (SSL_set_session(ssl, session) &&
	    !(peer && peer_holds(ssl, peer, SSL_get_peer_cert_chain(ssl))))
		SSL_set_session(ssl, NULL);
	SSL_SESSION_free(session);
}

SSL *tls_context_ssl(struct tls_context *context)
{
	SSL *ssl = SSL_new(context->ssl);

	if (!ssl || context->server)
		return ssl;
	if (!host_expect(ssl, context->host)) {
		SSL_free(ssl);
		return NULL;
	}
	session_resume(context, ssl);
	return ssl;
}
