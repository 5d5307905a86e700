/* SPDX-License-Identifier: MIT */
/*
 * TLS 1.3 (RFC 8446) over a TCP socket, with OpenSSL 3: certificates of a server and, if it asks
 * for them, of its clients; or keys that both ends have in a file (pre-shared keys, still with a
 * fresh Diffie-Hellman exchange). No other version of TLS is spoken. Nothing here blocks.
 *
 *	context.c  what an end shows and trusts		psk.c	files of pre-shared keys
 *	stream.c   one connection			peer.c	who is at the other end
 *	memory.c   memory for OpenSSL
 *
 * Threads: a context may be used by any; a stream by one at a time.
 */
#ifndef KVD_COMMON_RDMA_TLS_TLS_H
#define KVD_COMMON_RDMA_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names of files; "" or NULL: none. Private and pre-shared keys are secrets. */
struct tls_files {
	const char *ca;		 /* PEM: the CAs that sign the peers' certificates */
	const char *certificate; /* PEM: this end's, then the chain to its CA */
	const char *key;	 /* PEM: its private key, not encrypted */
	const char *psk;	 /* lines "identity:key", the key in hexadecimal digits */
	bool peer_certificate;	 /* a server: a client must show one, or use a key of @psk */
};

/* Bytes of a sentence that says what is wrong. */
#define TLS_WHY_MAX 400
/* Bytes of an identity, with its zero byte. */
#define TLS_IDENTITY_MAX 256

/*
 * Makes the credentials and trusted certificates of a server, if @host is NULL, or of a client for
 * connections to @host, a name or an address that the server's certificate must name. Without @ca a
 * client trusts the system's CAs, or none if it has a @psk; a server asks for no certificate. 0;
 * -ENOMEM; or -EINVAL: a file can't be read, does not fit the others, or is a secret that other
 * users may read. @why (TLS_WHY_MAX bytes) then says which, why and what to do, without a full
 * stop.
 */
struct tls_context;
int tls_context_make(struct tls_context **context, const struct tls_files *files, const char *host,
		     char *why);
/*
 * Like tls_context_make(), for the end and the host of @old; *@context is NULL if the files have
 * not changed since. Changes of the system's CAs are not noticed.
 */
int tls_context_renew(struct tls_context **context, const struct tls_context *old,
		      const struct tls_files *files, char *why);
/* Existing streams keep what they need. @context may be NULL. */
void tls_context_put(struct tls_context *context);

/* A stream over the connected socket @fd, which stays the caller's. 0 or -ENOMEM. */
struct tls;
int tls_start(struct tls **tls, struct tls_context *context, int fd);
/* May be NULL. */
void tls_end(struct tls *tls);

/*
 * Continues the handshake. 0: it is done; -EAGAIN: call again when the socket is *@events (EPOLLIN
 * or EPOLLOUT); -EKEYREJECTED: tls_why() says why; -ECONNRESET: the peer has gone. Afterwards a
 * client has authenticated its server. Either end may still refuse the other's credentials, which
 * the next receive reports.
 */
int tls_handshake(struct tls *tls, uint32_t *events);
/*
 * Like recv(2) and send(2), with a negative errno: -EAGAIN, or as tls_handshake(). Either passes
 * one record, of 16 KiB at most. A send that returned -EAGAIN must be followed by one of the same
 * bytes, which may be elsewhere now, and others after them.
 */
ssize_t tls_recv(struct tls *tls, void *to, size_t bytes);
ssize_t tls_send(struct tls *tls, const void *from, size_t bytes);
/* Bytes of a received record that no call has returned yet: the socket does not show them. */
size_t tls_pending(const struct tls *tls);
/*
 * Tells the peer that nothing more comes, if the socket takes that now. Without it the peer can't
 * tell the end of the stream from one that somebody else made.
 */
void tls_finish(struct tls *tls);
/* Why a call failed, without a full stop. Valid until the next call. */
const char *tls_why(const struct tls *tls);
/* After the handshake: whether it resumed an earlier session, without signatures. */
bool tls_is_resumed(const struct tls *tls);
/*
 * The peer's proven identity, after the handshake: "psk:NAME", or the first of these in its
 * certificate: "cert:uri:URI", "cert:dns:NAME", "cert:email:ADDRESS", else "cert:subject:CN=...".
 * Printable ASCII without spaces; NULL: none, or its name is not valid. Valid until tls_end().
 */
const char *tls_identity(const struct tls *tls);

/*
 * Keeps OpenSSL's memory out of core dumps from now on, and overwrites it when it is freed. For
 * programs, before their first call of OpenSSL and before they have threads: a library must not
 * decide that. False: OpenSSL has allocated memory already.
 */
bool tls_memory_protect(void);

/* psk.c */
#define TLS_PSK_KEY_MAX 64
#define TLS_PSK_KEY_MIN 16
#define TLS_PSK_NAME_MAX 64

struct tls_psk {
	char name[TLS_PSK_NAME_MAX + 1];
	uint8_t key[TLS_PSK_KEY_MAX];
	size_t key_len;
};

struct tls_psks {
	struct tls_psk *list;
	size_t count, room;
};

/*
 * Parses the text of a file of keys: lines "identity:key", as psktool(1) of GnuTLS writes them;
 * empty lines and lines that start with '#' are ignored. 0, -ENOMEM, or -EINVAL with @why
 * (TLS_WHY_MAX bytes), "line 3: ...". tls_psks_release() frees what was read, also after an error.
 */
int tls_psks_parse(struct tls_psks *psks, const char *text, size_t length, char *why);
/* The key of the identity, or NULL. */
const struct tls_psk *tls_psks_find(const struct tls_psks *psks, const void *name, size_t length);
/* Overwrites the keys before it frees them. They are in memory of secret_alloc(). */
void tls_psks_release(struct tls_psks *psks);

/* context.c, for stream.c */
struct ssl_st *tls_context_ssl(struct tls_context *context);
void tls_context_hold(struct tls_context *context);
bool tls_context_is_server(const struct tls_context *context);
/* After the handshake: the pre-shared key that authenticated it, or NULL. */
const struct tls_psk *tls_psk_of(const struct ssl_st *ssl);

/* peer.c */
/* tls_identity() for a certificate. */
struct x509_st;
void tls_certificate_identity(struct x509_st *certificate, char identity[TLS_IDENTITY_MAX]);

#endif /* KVD_COMMON_RDMA_TLS_TLS_H */
