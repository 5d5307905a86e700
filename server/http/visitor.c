/* SPDX-License-Identifier: MIT */
#include "server/http/visitor.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/x509.h>

#include "common/rdma/inet.h"
#include "common/tls/tls.h"
#include "server/users/password.h"

/* Bytes of an address with a port and the name of its interface. */
#define ADDRESS_MAX 96

static const char *const right_names[] = {
#define X(upper, name) name,
	USER_RIGHTS(X)
#undef X
};

int visitors_init(struct visitors *visitors, bool tls)
{
	*visitors = (struct visitors){ .tls = tls, .logins = http_logins_make() };
	pthread_mutex_init(&visitors->lock, NULL);
	return visitors->logins ? 0 : -ENOMEM;
}

void visitors_release(struct visitors *visitors)
{
	users_put(visitors->users);
	http_logins_free(visitors->logins);
	pthread_mutex_destroy(&visitors->lock);
}

void visitors_renew(struct visitors *visitors, const struct config *config, struct users *users)
{
	struct users *before;

	pthread_mutex_lock(&visitors->lock);
	before = visitors->users;
	visitors->users = users ? users_hold(users) : NULL;
	visitors->require_identity = visitors->tls && config->tls.require_identity;
	pthread_mutex_unlock(&visitors->lock);
	users_put(before);
}

/* The address of the peer as text, or "". */
static void address_text(struct MHD_Connection *connection, char text[ADDRESS_MAX])
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct sockaddr_storage address = { 0 };

	*text = '\0';
	if (!info || !info->client_addr)
		return;
	memcpy(&address, info->client_addr,
	       info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
							  sizeof(struct sockaddr_in));
	inet_text(&address, text, ADDRESS_MAX);
}

/* Whether tls.ca signed the certificate that the peer has shown, for a client. */
static bool is_trusted(gnutls_session_t session)
{
	gnutls_typed_vdata_st purpose = {
		.type = GNUTLS_DT_KEY_PURPOSE_OID,
		.data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT,
	};
	unsigned int status;

	return !gnutls_certificate_verify_peers(session, &purpose, 1, &status) && !status;
}

/* The identity of the peer, as tls_identity() says it. False: it has shown none. */
static bool identity_of(struct MHD_Connection *connection, char identity[TLS_IDENTITY_MAX])
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	const gnutls_datum_t *chain;
	const unsigned char *der;
	unsigned int count;
	X509 *certificate;

	chain = info ? gnutls_certificate_get_peers(info->tls_session, &count) : NULL;
	if (!chain || !count || !is_trusted(info->tls_session))
		return false;
	der = chain[0].data;
	certificate = d2i_X509(NULL, &der, (long)chain[0].size);
	if (!certificate)
		return false;
	tls_certificate_identity(certificate, identity);
	X509_free(certificate);
	return *identity;
}

/* What a request says of its sender. */
struct claim {
	char *name, *password; /* NULL: none is given */
	char address[ADDRESS_MAX];
	char identity[TLS_IDENTITY_MAX];
	bool has_identity;
};

static void claim_read(struct claim *claim, const struct visitors *visitors,
		       struct MHD_Connection *connection)
{
	claim->password = NULL;
	claim->name = MHD_basic_auth_get_username_password(connection, &claim->password);
	address_text(connection, claim->address);
	claim->has_identity = visitors->tls && identity_of(connection, claim->identity);
}

static void claim_release(struct claim *claim)
{
	if (claim->password)
		explicit_bzero(claim->password, strlen(claim->password));
	MHD_free(claim->password);
	MHD_free(claim->name);
}

/* The named user, if it has a password. */
static const struct user *do_named(const struct visitors *visitors, const char *name)
{
	const struct user *user = users_named(visitors->users, name);

	return user && user->password ? user : NULL;
}

/* Asks for the check of a password. One of an unknown user takes as long. */
static enum visit do_ask(struct visitors *visitors, struct MHD_Connection *connection,
			 const struct claim *claim, const struct user *user,
			 struct http_login **login)
{
	const struct user *any = user ? user : visitors->users->with_password;
	struct ip_address address = { 0 };

	if (!any)
		return VISIT_PASSWORD;
	if (ip_address_parse(&address, claim->address))
		ip_address_to_host(&address);
	*login = http_logins_ask(visitors->logins, connection, &address, claim->password,
				 any->password);
	return *login ? VISIT_WAITS : VISIT_BUSY;
}

/* *@user is set with VISIT_OK. */
static enum visit do_check_password(struct visitors *visitors, struct MHD_Connection *connection,
				    const struct claim *claim, struct http_login **login,
				    const struct user **user)
{
	const struct user *named = do_named(visitors, claim->name);
	struct http_login *ended = *login;

	if (!ended && named &&
	    http_logins_know(visitors->logins, claim->password, named->password)) {
		*user = named;
		return VISIT_OK;
	}
	if (!ended)
		return do_ask(visitors, connection, claim, named, login);
	*login = NULL;
	if (!http_login_end(visitors->logins, ended, named ? named->password : ""))
		return VISIT_PASSWORD;
	*user = named;
	return VISIT_OK;
}

/* Clients that match no user otherwise give a password, if there is one: "*" is not for them. */
static enum visit do_match(const struct visitors *visitors, const struct claim *claim,
			   const struct user **user, char why[VISITOR_WHY_MAX])
{
	const struct user_peer peer = {
		.identity = claim->has_identity ? claim->identity : NULL,
		.address = claim->address,
		.open = !visitors->tls,
	};

	*user = users_match(visitors->users, &peer);
	if (visitors->users->with_password && (!*user || user_is_wildcard(*user)))
		return VISIT_PASSWORD;
	if (*user)
		return VISIT_OK;
	snprintf(why, VISITOR_WHY_MAX, "users.file has no user for %.90s",
		 claim->has_identity ? claim->identity : claim->address);
	return VISIT_FORBIDDEN;
}

static unsigned int right_number(enum user_right right)
{
	unsigned int number = 0;

	while (right >> number != 1)
		number++;
	return number;
}

static enum visit do_check(struct visitors *visitors, struct MHD_Connection *connection,
			   const struct claim *claim, struct http_login **login,
			   enum user_right right, char why[VISITOR_WHY_MAX])
{
	const struct user *user = NULL;
	enum visit visit;

	if (visitors->require_identity && !claim->has_identity) {
		snprintf(why, VISITOR_WHY_MAX,
			 "show a certificate that tls.ca has signed (tls.require_identity)");
		return VISIT_FORBIDDEN;
	}
	if (!visitors->users)
		return VISIT_OK;
	if (claim->name && claim->password)
		visit = do_check_password(visitors, connection, claim, login, &user);
	else
		visit = do_match(visitors, claim, &user, why);
	if (visit != VISIT_OK || user->rights & right)
		return visit;
	snprintf(why, VISITOR_WHY_MAX, "user %.64s needs the right '%s' for this", user->name,
		 right_names[right_number(right)]);
	return VISIT_FORBIDDEN;
}

enum visit visitor_check(struct visitors *visitors, struct MHD_Connection *connection,
			 struct http_login **login, enum user_right right,
			 char why[VISITOR_WHY_MAX])
{
	struct claim claim;
	enum visit visit;

	claim_read(&claim, visitors, connection);
	pthread_mutex_lock(&visitors->lock);
	visit = do_check(visitors, connection, &claim, login, right, why);
	pthread_mutex_unlock(&visitors->lock);
	claim_release(&claim);
	return visit;
}
