/* SPDX-License-Identifier: MIT */
/*
 * Tests of connections that are set up over TLS (common/rdma/tcp/setup.c, common/tls/): who the
 * peer is, what each bad credential gets at both ends, and that nothing is left of a connection
 * that was refused. The certificates are a small authority's of the test.
 */
#include "common/tls/stream.c"

#include <sys/stat.h>
#include <time.h>

#include "tests/support/log_fixture.h"
#include "tests/support/tcp_test.h"
#include "tests/support/tls_ca.h"

#define HOUR_S 3600

static struct tls_ca *ca, *other_ca;
static time_t ahead_s;

/* For OpenSSL, by which certificates expire. */
time_t time(time_t *seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec += ahead_s;
	if (seconds)
		*seconds = now.tv_sec;
	return now.tv_sec;
}

static void sign(struct tls_ca *by, const char *name, const char *names)
{
	const struct tls_ca_subject subject = { .common_name = name, .names = names };

	tls_ca_sign(by, name, &subject);
}

static int files_make(void **state)
{
	const struct tls_ca_subject old = { .common_name = "old",
					    .names = "IP:127.0.0.1",
					    .valid_s = -HOUR_S };
	const struct tls_ca_subject hour = { .common_name = "hour",
					     .names = "IP:127.0.0.1",
					     .valid_s = HOUR_S };

	test_log_group_setup(state);
	tls_ca_folder_make();
	ca = tls_ca_make("ca");
	other_ca = tls_ca_make("other-ca");
	sign(ca, "server", "IP:127.0.0.1");
	sign(ca, "elsewhere", "IP:127.0.0.2,DNS:localhost");
	sign(ca, "client", "DNS:client.example");
	sign(other_ca, "stranger", "DNS:client.example,IP:127.0.0.1");
	tls_ca_sign(ca, "old", &old);
	tls_ca_sign(ca, "hour", &hour);
	tls_ca_write("keys",
		     "alice:000102030405060708090a0b0c0d0e0f\n"
		     "bob:ff0102030405060708090a0b0c0d0e0f\n",
		     0600);
	tls_ca_write("bob", "bob:ff0102030405060708090a0b0c0d0e0f\n", 0600);
	tls_ca_write("mallory", "bob:000102030405060708090a0b0c0d0e0f\n", 0600);
	tls_ca_write("nobody", "nobody:000102030405060708090a0b0c0d0e0f\n", 0600);
	return 0;
}

static int files_remove(void **state)
{
	test_log_group_teardown(state);
	tls_ca_free(ca);
	tls_ca_free(other_ca);
	tls_ca_folder_remove();
	return 0;
}

/* Names of files in the folder; NULL: none. */
struct names {
	const char *ca, *certificate, *psk;
	bool required;
};

static struct tls_context *context_of_names(const struct names *names, const char *host)
{
	char certificate[64], key[64], ca_name[64], why[TLS_WHY_MAX] = "";
	struct tls_files files = { .peer_certificate = names->required };
	struct tls_context *made;

	snprintf(ca_name, sizeof(ca_name), "%s.pem", names->ca);
	snprintf(certificate, sizeof(certificate), "%s.pem", names->certificate);
	snprintf(key, sizeof(key), "%s.key", names->certificate);
	if (names->ca)
		files.ca = tls_ca_path(ca_name);
	if (names->certificate) {
		files.certificate = tls_ca_path(certificate);
		files.key = tls_ca_path(key);
	}
	if (names->psk)
		files.psk = tls_ca_path(names->psk);
	if (tls_context_make(&made, &files, host, why))
		fail_msg("%s", why);
	return made;
}

static void use(const struct names *at_server, const struct names *at_client)
{
	tls_context_put(server.od.tls);
	tls_context_put(client.od.tls);
	server.od.tls = at_server ? context_of_names(at_server, NULL) : NULL;
	client.od.tls = at_client ? context_of_names(at_client, "127.0.0.1") : NULL;
}

static int setup(void **state)
{
	return tcp_test_setup(state);
}

static int teardown(void **state)
{
	ahead_s = 0;
	use(NULL, NULL);
	return tcp_test_teardown(state);
}

static const struct names with_certificate = { .certificate = "server" };
static const struct names with_ca = { .ca = "ca" };

static const char *identity_of(struct cm_id *id)
{
	static struct cm_peer peer;

	assert_int_equal(tcp_query_peer(id, &peer), 0);
	return peer.identity ? peer.identity : "";
}

static void end_both(struct cm_id *id, struct cm_id *at_server)
{
	tcp_destroy_id(id);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -ECONNRESET), at_server);
	tcp_destroy_id(at_server);
}

/* The client connects, and the server knows it as @identity. */
static void connects_as(const char *identity)
{
	struct cm_id *id, *at_server;

	id = connected(&at_server);
	assert_string_equal(identity_of(at_server), identity);
	assert_int_equal(id->qp->state, IBV_QPS_RTS);
	quiet();
	end_both(id, at_server);
}

/* The client is told so, and the server keeps nothing. */
static void is_refused(const char *why)
{
	struct cm_id *id = connecting();
	struct cm_event event = next_event(&client);

	assert_int_equal(event.type, CM_UNREACHABLE);
	assert_ptr_equal(event.id, id);
	assert_int_equal(event.status, -EKEYREJECTED);
	assert_string_equal((const char *)event.private_data, why);
	assert_int_equal(event.private_len, strlen(why));
	tcp_destroy_id(id);
	quiet();
	assert_int_equal(tcp_channel_of(server.channel)->setups.count, 0);
}

/* What each end has, and what comes of it: who the server takes the client for, or why not. */
static const struct {
	const char *what;
	struct names server, client;
	const char *identity, *refused;
} credentials[] = {
	{ "a certificate of the server", { .certificate = "server" }, { .ca = "ca" }, "", NULL },
	{ "one of the client, too",
	  { .ca = "ca", .certificate = "server", .required = true },
	  { .ca = "ca", .certificate = "client" },
	  "cert:dns:client.example",
	  NULL },
	{ "the client may have one, and has none",
	  { .ca = "ca", .certificate = "server" },
	  { .ca = "ca" },
	  "",
	  NULL },
	{ "the client may have one, and has",
	  { .ca = "ca", .certificate = "server" },
	  { .ca = "ca", .certificate = "client" },
	  "cert:dns:client.example",
	  NULL },
	{ "the client may have one, but not any",
	  { .ca = "ca", .certificate = "server" },
	  { .ca = "ca", .certificate = "stranger" },
	  NULL,
	  "it does not trust the signer of our certificate" },
	{ "the client has to have one",
	  { .ca = "ca", .certificate = "server", .required = true },
	  { .ca = "ca" },
	  NULL,
	  "it wants a certificate, or a pre-shared key that it knows" },
	{ "a client of another authority",
	  { .ca = "ca", .certificate = "server", .required = true },
	  { .ca = "ca", .certificate = "stranger" },
	  NULL,
	  "it does not trust the signer of our certificate" },
	{ "a client that is too old",
	  { .ca = "ca", .certificate = "server", .required = true },
	  { .ca = "ca", .certificate = "old" },
	  NULL,
	  "our certificate has expired" },
	{ "a server of another authority",
	  { .certificate = "stranger" },
	  { .ca = "ca" },
	  NULL,
	  "its certificate is not accepted: unable to get local issuer certificate" },
	{ "a server of another name",
	  { .certificate = "elsewhere" },
	  { .ca = "ca" },
	  NULL,
	  "its certificate is not accepted: IP address mismatch" },
	{ "a server that is too old",
	  { .certificate = "old" },
	  { .ca = "ca" },
	  NULL,
	  "its certificate is not accepted: certificate has expired" },
	{ "a key", { .psk = "keys", .required = true }, { .psk = "bob" }, "psk:bob", NULL },
	{ "another key of a name",
	  { .psk = "keys", .required = true },
	  { .psk = "mallory" },
	  NULL,
	  "it has another key for our identity" },
	{ "a key of nobody",
	  { .psk = "keys", .required = true },
	  { .psk = "nobody" },
	  NULL,
	  "it knows no key for our identity, and has no certificate" },
	{ "a server with both takes a key",
	  { .ca = "ca", .certificate = "server", .psk = "keys", .required = true },
	  { .psk = "bob" },
	  "psk:bob",
	  NULL },
	{ "a server with both takes a certificate",
	  { .ca = "ca", .certificate = "server", .psk = "keys", .required = true },
	  { .ca = "ca", .certificate = "client" },
	  "cert:dns:client.example",
	  NULL },
	{ "a key of a name that it does not know is as none",
	  { .ca = "ca", .certificate = "server", .psk = "keys", .required = true },
	  { .psk = "nobody", .ca = "ca" },
	  NULL,
	  "it wants a certificate, or a pre-shared key that it knows" },
	{ "and does not harm a certificate",
	  { .ca = "ca", .certificate = "server", .psk = "keys", .required = true },
	  { .ca = "ca", .certificate = "client", .psk = "nobody" },
	  "cert:dns:client.example",
	  NULL },
	{ "who has a key may say who signs certificates",
	  { .certificate = "server" },
	  { .psk = "bob", .ca = "ca" },
	  "",
	  NULL },
};

static void who_connects(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(credentials) / sizeof(credentials[0]); i++) {
		print_message("%s\n", credentials[i].what);
		use(&credentials[i].server, &credentials[i].client);
		if (credentials[i].refused)
			is_refused(credentials[i].refused);
		else
			connects_as(credentials[i].identity);
	}
}

/* The server logs one in a second. */
static void is_refused_and_logged(const char *key, const char *why, const char *logged)
{
	const struct names server_has = { .psk = "keys", .required = true }, has = { .psk = key };
	const time_t until = time(NULL) + 120;

	while (!strstr(test_log_text(), logged)) {
		assert_true(time(NULL) < until);
		use(&server_has, &has);
		is_refused(why);
	}
}

/* The server's log says that keys do not fit, and nothing of signatures. */
static void the_log_names_the_key(void **state)
{
	(void)state;
	test_log_begin();
	is_refused_and_logged("mallory", "it has another key for our identity",
			      "its pre-shared key is not that of its identity in tls.psk");
	is_refused_and_logged("nobody", "it knows no key for our identity, and has no certificate",
			      "it has no pre-shared key, or one whose identity is not in tls.psk");
	log_release();
}

/* The name counts that the client was given. */
static void server_of_several_names(void **state)
{
	const struct names elsewhere = { .certificate = "elsewhere" };

	(void)state;
	use(&elsewhere, NULL);
	client.od.tls = context_of_names(&with_ca, "kvd.example");
	is_refused("its certificate is not accepted: hostname mismatch");
	tls_context_put(client.od.tls);
	client.od.tls = context_of_names(&with_ca, "localhost");
	connects_as("");
}

/* The system's authorities have not signed for it, until ours is one. */
static void client_trusts_the_system(void **state)
{
	const struct names none = { 0 };

	(void)state;
	use(&with_certificate, &none);
	is_refused("its certificate is not accepted: unable to get local issuer certificate");
	setenv("SSL_CERT_FILE", tls_ca_path("ca.pem"), 1);
	use(&with_certificate, &none);
	connects_as("");
	unsetenv("SSL_CERT_FILE");
}

/* No session is resumed, which would not say whose it was. */
static void by_key_again(void **state)
{
	const struct names keys = { .psk = "keys", .required = true }, bob = { .psk = "bob" };

	(void)state;
	use(&keys, &bob);
	connects_as("psk:bob");
	connects_as("psk:bob");
}

/* A client with a key trusts no certificate unless it names the signer. */
static void key_against_a_certificate(void **state)
{
	const struct names bob = { .psk = "bob" };

	(void)state;
	setenv("SSL_CERT_FILE", tls_ca_path("ca.pem"), 1);
	use(&with_certificate, &bob);
	is_refused("its certificate is not accepted: unable to get local issuer certificate");
	unsetenv("SSL_CERT_FILE");
}

static bool resumed(const struct cm_id *id)
{
	const struct tls *tls = ((const struct tcp_id *)id)->tls;

	return tls_is_resumed(tls);
}

/* The second connection needs no signatures, and the client is known all the same. */
static void resumes(void **state)
{
	const struct names asks = { .ca = "ca", .certificate = "server", .required = true };
	const struct names shows = { .ca = "ca", .certificate = "client" };
	struct cm_id *id, *at_server;

	(void)state;
	use(&asks, &shows);
	id = connected(&at_server);
	assert_false(resumed(id));
	end_both(id, at_server);
	id = connected(&at_server);
	assert_true(resumed(id));
	assert_string_equal(identity_of(at_server), "cert:dns:client.example");
	end_both(id, at_server);
}

/* Two connections, of which the second resumes the session of the first; and it leaves another. */
static void connects_and_resumes(const struct names *at_server, const struct names *at_client)
{
	struct cm_id *id, *at_server_id;

	ahead_s = 0;
	use(at_server, at_client);
	for (unsigned int i = 0; i < 3; i++) {
		id = connected(&at_server_id);
		assert_int_equal(resumed(id), i > 0);
		end_both(id, at_server_id);
	}
}

/* A session is worth no more than the certificates of its ends, and not when others are trusted. */
static void resumes_what_is_accepted(void **state)
{
	const struct names asks = { .ca = "ca", .certificate = "server", .required = true };
	const struct names hour = { .ca = "ca", .certificate = "hour" };
	const struct names shows = { .ca = "ca", .certificate = "client" };
	struct tls_files files = { .peer_certificate = true };
	char paths[3][TLS_CA_PATH_MAX], why[TLS_WHY_MAX];

	(void)state;
	connects_and_resumes(&asks, &hour);
	ahead_s = HOUR_S + 1;
	is_refused("our certificate has expired");
	connects_and_resumes(&hour, &shows);
	ahead_s = HOUR_S + 1;
	is_refused("its certificate is not accepted: certificate has expired");
	connects_and_resumes(&asks, &shows);
	files.ca = strcpy(paths[0], tls_ca_path("other-ca.pem"));
	files.certificate = strcpy(paths[1], tls_ca_path("server.pem"));
	files.key = strcpy(paths[2], tls_ca_path("server.key"));
	assert_int_equal(tcp_renew(&server.od.port.dev, &files, why), 0);
	is_refused("it does not trust the signer of our certificate");
}

/* One of two clients that connect at once resumes the only session that there is. */
static void resumes_once(void **state)
{
	struct cm_id *ids[2], *at_server[2];

	(void)state;
	use(&with_certificate, &with_ca);
	connects_as("");
	ids[0] = connecting();
	ids[1] = connecting();
	for (unsigned int i = 0; i < 2; i++)
		at_server[i] = accepted();
	for (unsigned int i = 0; i < 2; i++) {
		expect(&client, CM_ESTABLISHED, 0);
		expect(&server, CM_ESTABLISHED, 0);
	}
	assert_true(resumed(ids[0]) != resumed(ids[1]));
	for (unsigned int i = 0; i < 2; i++)
		tcp_destroy_id(ids[i]);
	for (unsigned int i = 0; i < 2; i++)
		expect(&server, CM_DISCONNECTED, -ECONNRESET);
	for (unsigned int i = 0; i < 2; i++)
		tcp_destroy_id(at_server[i]);
}

/* Existing connections stay; an earlier session is worth nothing. */
static void renews(void **state)
{
	struct tls_files files = { .certificate = "/nowhere", .key = "/nowhere" };
	char why[TLS_WHY_MAX];
	struct cm_id *id, *at_server;

	(void)state;
	use(&with_certificate, &with_ca);
	id = connected(&at_server);
	assert_int_equal(tcp_renew(&server.od.port.dev, &files, why), -EINVAL);
	connects_as("");
	files.certificate = tls_ca_path("stranger.pem");
	files.key = tls_ca_path("stranger.key");
	assert_int_equal(tcp_renew(&server.od.port.dev, &files, why), 0);
	is_refused("its certificate is not accepted: unable to get local issuer certificate");
	quiet();
	assert_int_equal(id->qp->state, IBV_QPS_RTS);
	end_both(id, at_server);
}

static void copy(const char *from, const char *to)
{
	FILE *in = fopen(tls_ca_path(from), "r");
	char text[4096];

	assert_non_null(in);
	text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
	fclose(in);
	tls_ca_write(to, text, 0600);
}

/* The files that a client shows say another thing when it connects again. */
static void client_renews(void **state)
{
	const struct names asks = { .ca = "ca", .certificate = "server", .required = true };
	const struct names shows = { .ca = "ca", .certificate = "mine" };
	char ca_file[TLS_CA_PATH_MAX], certificate[TLS_CA_PATH_MAX], key[TLS_CA_PATH_MAX];
	struct tls_files files = { .ca = strcpy(ca_file, tls_ca_path("ca.pem")),
				   .certificate = strcpy(certificate, tls_ca_path("mine.pem")),
				   .key = strcpy(key, tls_ca_path("mine.key")) };
	struct device *dev = &client.od.port.dev;
	char why[TLS_WHY_MAX] = "";
	struct cm_id *id, *at_server;

	(void)state;
	copy("stranger.pem", "mine.pem");
	copy("stranger.key", "mine.key");
	use(&asks, &shows);
	is_refused("it does not trust the signer of our certificate");
	copy("client.pem", "mine.pem");
	assert_int_equal(tcp_renew(dev, &files, why), -EINVAL);
	assert_non_null(strstr(why, "it is not the certificate's"));
	copy("client.key", "mine.key");
	assert_int_equal(tcp_renew(dev, &files, why), 0);
	connects_as("cert:dns:client.example");
	/* The same files: what there is stays, and so does the session. */
	assert_int_equal(tcp_renew(dev, &files, why), 0);
	id = connected(&at_server);
	assert_true(resumed(id));
	end_both(id, at_server);
	/* A secret that others may read by now. */
	assert_int_equal(chmod(files.key, 0644), 0);
	assert_int_equal(tcp_renew(dev, &files, why), -EINVAL);
	assert_non_null(strstr(why, "other users may read"));
	/* Files that are gone. */
	files.ca = "/nowhere";
	assert_int_equal(chmod(files.key, 0600), 0);
	assert_int_equal(tcp_renew(dev, &files, why), -EINVAL);
	files.ca = NULL;
	assert_int_equal(tcp_renew(dev, &files, why), 0);
	is_refused("its certificate is not accepted: self-signed certificate in certificate chain");
}

static void tcp_against_tls(void **state)
{
	struct cm_event event;
	struct cm_id *id;

	(void)state;
	use(&with_certificate, NULL);
	id = connecting();
	event = next_event(&client);
	assert_int_equal(event.type, CM_UNREACHABLE);
	tcp_destroy_id(id);
	quiet();
	assert_int_equal(tcp_channel_of(server.channel)->setups.count, 0);
	use(NULL, &with_ca);
	id = connecting();
	/* The server awaits a message that is longer than a ClientHello, or takes it for none. */
	quiet();
	time_pass(SETUP_NS + SECOND_NS);
	event = next_event(&client);
	assert_int_equal(event.type, CM_UNREACHABLE);
	tcp_destroy_id(id);
	quiet();
}

/* Silence, in the middle of the handshake too, is ended by the deadline. */
static void silent_peer(void **state)
{
	int fd;

	(void)state;
	use(&with_certificate, NULL);
	assert_int_equal(inet_connect(&server.od.addr, &fd), 0);
	while (tcp_channel_of(server.channel)->setups.count == 0)
		go_on(-1, 0);
	quiet();
	assert_int_equal(send(fd, "\x16\x03\x01", 3, 0), 3);
	quiet();
	assert_int_equal(tcp_channel_of(server.channel)->setups.count, 1);
	time_pass(SETUP_NS);
	quiet();
	assert_int_equal(tcp_channel_of(server.channel)->setups.count, 0);
	close(fd);
}

/* What is refused waits for its peer's end, no longer than the deadline. */
static void refused_and_silent(void **state)
{
	int fd;

	(void)state;
	use(&with_certificate, NULL);
	assert_int_equal(inet_connect(&server.od.addr, &fd), 0);
	while (tcp_channel_of(server.channel)->setups.count == 0)
		go_on(-1, 0);
	assert_int_equal(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	quiet();
	assert_int_equal(send(fd, "more", 4, 0), 4);
	quiet();
	assert_int_equal(tcp_channel_of(server.channel)->setups.count, 1);
	time_pass(SETUP_NS);
	quiet();
	assert_int_equal(tcp_channel_of(server.channel)->setups.count, 0);
	close(fd);
}

/* The client's end of a connection is the test's: TLS, and what it says by it. */
static struct tls *speak(int *fd)
{
	struct tls_context *made = context_of_names(&with_ca, "127.0.0.1");
	uint32_t events = EPOLLOUT;
	struct tls *tls;
	int err;

	assert_int_equal(inet_connect(&server.od.addr, fd), 0);
	assert_int_equal(tls_start(&tls, made, *fd), 0);
	tls_context_put(made);
	while ((err = tls_handshake(tls, &events)) == -EAGAIN)
		go_on(*fd, events == EPOLLIN ? POLLIN : POLLOUT);
	assert_int_equal(err, 0);
	return tls;
}

static const struct tcp_message test_request = {
	.kind = TCP_REQUEST,
	.end = { .qp_num = 1,
		 .link_layer = IBV_LINK_LAYER_ETHERNET,
		 .gid_type = IBV_GID_TYPE_ROCE_V2,
		 .mtu = IBV_MTU_1024 },
};

static void say(struct tls *tls, const struct tcp_message *message)
{
	uint8_t bytes[TCP_MESSAGE_BYTES];

	tcp_message_print(bytes, message);
	assert_int_equal(tls_send(tls, bytes, sizeof(bytes)), sizeof(bytes));
}

/* After READY nothing is allowed, new keys either, which TLS takes as often as they are sent. */
static void messages_of_tls_itself(void **state)
{
	const struct tcp_message ready = { .kind = TCP_READY };
	uint8_t bytes[TCP_MESSAGE_BYTES];
	struct cm_id *id;
	struct tls *tls;
	ssize_t got;
	int fd;

	(void)state;
	use(&with_certificate, NULL);
	tls = speak(&fd);
	say(tls, &test_request);
	id = accepted();
	while ((got = tls_recv(tls, bytes, sizeof(bytes))) == -EAGAIN)
		go_on(fd, POLLIN);
	assert_int_equal(got, sizeof(bytes));
	say(tls, &ready);
	assert_ptr_equal(expect(&server, CM_ESTABLISHED, 0), id);
	quiet();
	assert_int_equal(SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
	assert_int_equal(SSL_do_handshake(tls->ssl), 1);
	assert_ptr_equal(expect(&server, CM_DISCONNECTED, -EPROTO), id);
	tcp_destroy_id(id);
	tls_end(tls);
	close(fd);
	quiet();
}

/* Two messages in one record: the second one would never be seen, since the socket has no more. */
static void two_messages_at_once(void **state)
{
	uint8_t both[2 * TCP_MESSAGE_BYTES];
	struct tls *tls;
	int fd;

	(void)state;
	use(&with_certificate, NULL);
	tls = speak(&fd);
	tcp_message_print(both, &test_request);
	tcp_message_print(both + TCP_MESSAGE_BYTES, &test_request);
	assert_int_equal(tls_send(tls, both, sizeof(both)), sizeof(both));
	quiet();
	assert_int_equal(tcp_channel_of(server.channel)->setups.count, 0);
	tls_end(tls);
	close(fd);
	/* One in two records is one. */
	tls = speak(&fd);
	assert_int_equal(tls_send(tls, both, 100), 100);
	quiet();
	assert_int_equal(tls_send(tls, both + 100, TCP_MESSAGE_BYTES - 100),
			 TCP_MESSAGE_BYTES - 100);
	tcp_destroy_id(expect(&server, CM_CONNECT_REQUEST, 0));
	tls_end(tls);
	close(fd);
	quiet();
}

/* A write to a peer that has gone raises no signal. */
static void peer_has_gone(void **state)
{
	const struct linger at_once = { .l_onoff = 1 };
	struct tls *tls;
	int fd;

	(void)state;
	use(&with_certificate, NULL);
	tls = speak(&fd);
	quiet();
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
	server.count = 0;
	/* The server closes its end: what we write then has nobody to read it. */
	time_pass(SETUP_NS);
	quiet();
	while (tls_send(tls, "x", 1) == 1)
		;
	assert_true(tls_send(tls, "x", 1) < 0);
	tls_end(tls);
	close(fd);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void listens_not(const char *key, unsigned int lines)
{
	struct device_addr addr = { .kind = DEVICE_RDMA_TLS, .host = "127.0.0.1" };
	struct device *dev;

	addr.tls.certificate = tls_ca_path("server.pem");
	addr.tls.key = key;
	assert_int_equal(tcp_open(&dev, &addr, DEVICE_LISTEN, 0), -EKEYREJECTED);
	assert_int_equal(test_log_lines(), lines);
}

/* As long as a removed device is awaited: once a second. */
static void bad_files_are_logged_when_they_change(void **state)
{
	(void)state;
	test_log_begin();
	listens_not(tls_ca_path("client.key"), 1);
	assert_logged("it is not the certificate's");
	listens_not(tls_ca_path("client.key"), 1);
	listens_not("/nowhere", 2);
	listens_not("/nowhere", 2);
	listens_not(tls_ca_path("client.key"), 3);
	log_release();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(who_connects),
		CASE(server_of_several_names),
		CASE(client_trusts_the_system),
		CASE(by_key_again),
		CASE(key_against_a_certificate),
		CASE(resumes),
		CASE(resumes_once),
		CASE(resumes_what_is_accepted),
		CASE(renews),
		CASE(client_renews),
		CASE(tcp_against_tls),
		CASE(the_log_names_the_key),
		CASE(silent_peer),
		CASE(refused_and_silent),
		CASE(messages_of_tls_itself),
		CASE(two_messages_at_once),
		CASE(peer_has_gone),
		cmocka_unit_test(bad_files_are_logged_when_they_change),
	};

	tcp_test_heap();
	return cmocka_run_group_tests(tests, files_make, files_remove);
}
