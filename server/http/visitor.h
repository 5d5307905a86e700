/* SPDX-License-Identifier: MIT */
/*
 * Which user of users.file asks by HTTP, and what it may see. A visitor is the user of the password
 * that it gives (Authorization: Basic); else that of its certificate, of https://; else, by
 * http://, that of its address, as a client of memcached's protocol is.
 */
#ifndef KVD_SERVER_HTTP_VISITOR_H
#define KVD_SERVER_HTTP_VISITOR_H

#include <microhttpd.h>
#include <pthread.h>

#include "server/config/config.h"
#include "server/http/login.h"
#include "server/users/users.h"

#define VISITOR_WHY_MAX 200

enum visit {
	VISIT_OK,
	VISIT_WAITS,	 /* the connection is suspended: ask again, with the same login */
	VISIT_PASSWORD,	 /* it has to give a user and the right password */
	VISIT_FORBIDDEN, /* @why says why */
	VISIT_BUSY,	 /* its password can't be checked now */
};

struct visitors {
	pthread_mutex_t lock;  /* guards the fields up to `logins` */
	struct users *users;   /* NULL: all may see everything */
	bool require_identity; /* by https:// */
	struct http_logins *logins;
	bool tls;
};

/* 0 or -ENOMEM after logging. @tls: they come by https://. */
int visitors_init(struct visitors *visitors, bool tls);
void visitors_release(struct visitors *visitors);
/* The users and [tls] as they are now; @users may be NULL. The control thread. */
void visitors_renew(struct visitors *visitors, const struct config *config, struct users *users);

/*
 * Whether the visitor has @right. *@login is NULL at the first call for a request. The thread of
 * libmicrohttpd.
 */
enum visit visitor_check(struct visitors *visitors, struct MHD_Connection *connection,
			 struct http_login **login, enum user_right right,
			 char why[VISITOR_WHY_MAX]);

#endif /* KVD_SERVER_HTTP_VISITOR_H */
