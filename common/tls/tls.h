/* SPDX-License-Identifier: MIT */
/*
 * TLS 1.3 (RFC 8446) over a TCP socket, by OpenSSL 3: certificates of a server and, if it asks for
 * them, of its clients; or keys that both ends have in a file (pre-shared keys, with a fresh
 * Diffie-Hellman exchange all the same). No other version of TLS is spoken. Nothing here blocks.
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

/* Names of files; "" or NULL: there is none. Private keys and pre-shared ones are secrets. */
struct tls_files {
	const char *ca;		 /* PEM: those who sign the peers' certificates */
	const char *certificate; /* PEM: this end's, then those between it and who signed it */
	const char *key;	 /* PEM: its private key, not encrypted */
	const char *psk;	 /* lines "identity:key", the key in hexadecimal digits */
	bool peer_certificate;	 /* a server: a client has to show one, or to use a key of @psk */
};

/* Bytes of a sentence that says what is wrong. */
#define TLS_WHY_MAX 400
/* Bytes of an identity, with its zero byte. */
#define TLS_IDENTITY_MAX 256

/*
 * What an end shows and trusts. Of a server if @host is NULL; a client's is for connections to
 * @host, a name or an address, which the server's certificate has to name. Without @ca a client
 * trusts those whom the system trusts, or nobody if it has a @psk; a server asks for no
 * certificate. 0; -ENOMEM; or -EINVAL: a file can't be read, does not fit the others, or is a
 * secret that other users may read. @why (TLS_WHY_MAX bytes) then says which, why and what to do,
 * without a full stop.
 */
struct tls_context;
int tls_context_make(struct tls_context **context, const struct tls_files *files, const char *host,
		     char *why);
/*
 * As tls_context_make(), for the end and the host of @old, unless the files have what it was made
 * of: then *@context is NULL. Whom the system trusts is not looked at.
 */
int tls_context_renew(struct tls_context **context, const struct tls_context *old,
		      const struct tls_files *files, char *why);
/* Streams that exist keep what they need. May be NULL. */
void tls_context_put(struct tls_context *context);

/* A connection of the socket @fd, which is connected and stays the caller's. 0 or -ENOMEM. */
struct tls;
int tls_start(struct tls **tls, struct tls_context *context, int fd);
/* May be NULL. */
void tls_end(struct tls *tls);

/*
 * Goes on with the handshake. 0: it is done; -EAGAIN: call again when the socket is *@events
 * (EPOLLIN or EPOLLOUT); -EKEYREJECTED: tls_why() says why; -ECONNRESET: the peer has gone.
 * Afterwards a client's peer is who it should be. A server's may turn out not to accept ours, or be
 * one that we do not accept, in what either end receives next.
 */
int tls_handshake(struct tls *tls, uint32_t *events);
/* As recv(2) and send(2), with a negative errno: -EAGAIN, or as tls_handshake(). */
ssize_t tls_recv(struct tls *tls, void *to, size_t bytes);
ssize_t tls_send(struct tls *tls, const void *from, size_t bytes);
/* Bytes that have come and that no call has returned yet, of those that one record brought. */
size_t tls_pending(const struct tls *tls);
/* Why a call failed, without a full stop. Valid until the next call. */
const char *tls_why(const struct tls *tls);
/* After the handshake: whether it went on from an earlier one, without signatures. */
bool tls_is_resumed(const struct tls *tls);
/*
 * Who the peer has proven to be, after the handshake: "psk:NAME", or of its certificate the first
 * of these that it has: "cert:uri:URI", "cert:dns:NAME", "cert:email:ADDRESS", and else
 * "cert:subject:CN=...". Printable ASCII without spaces; "": nobody, or one whose name is none.
 */
void tls_identity(const struct tls *tls, char identity[TLS_IDENTITY_MAX]);

/*
 * From now on what OpenSSL allocates is in no core dump, and overwritten when it is freed. For a
 * program of its own, before its first call of OpenSSL and before it has threads: a library must
 * not decide that for others. False: OpenSSL has allocated something already.
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
 * Reads the text of a file of keys: a line "identity:key" each, as psktool(1) of GnuTLS writes
 * them; empty lines and those that begin with '#' say nothing. 0, -ENOMEM, or -EINVAL with @why
 * (TLS_WHY_MAX bytes), "line 3: ...". tls_psks_release() frees what was read, also after an error.
 */
int tls_psks_parse(struct tls_psks *psks, const char *text, size_t length, char *why);
/* The key of that identity, or NULL. */
const struct tls_psk *tls_psks_find(const struct tls_psks *psks, const void *name, size_t length);
/* Overwrites the keys before it frees them. They are in memory of secret_alloc(). */
void tls_psks_release(struct tls_psks *psks);

/* context.c, for stream.c */
struct ssl_st *tls_context_ssl(struct tls_context *context);
void tls_context_hold(struct tls_context *context);
bool tls_context_is_server(const struct tls_context *context);
/* The pre-shared key by which the two ends know each other, after the handshake; or NULL. */
const struct tls_psk *tls_psk_of(const struct ssl_st *ssl);

/* peer.c */
/* As tls_identity() of a certificate. */
struct x509_st;
void tls_certificate_identity(struct x509_st *certificate, char identity[TLS_IDENTITY_MAX]);

#endif /* KVD_COMMON_RDMA_TLS_TLS_H */
