/* SPDX-License-Identifier: MIT */
/*
 * The pages at server.http, and what they are made from. http.c has the thread that asks for them.
 */
#ifndef KVD_SERVER_HTTP_PAGES_H
#define KVD_SERVER_HTTP_PAGES_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "server/http/metrics.h"
#include "server/http/visitor.h"

/* For this long metrics are not made again. */
#define HTTP_SCRAPE_NS 1000000000ull
/* How often all threads show that they are alive; /healthz fails when four signs are missing. */
#define HTTP_ALIVE_NS 2500000000ull

enum http_phase {
	HTTP_STARTS, /* the stores are being made */
	HTTP_SERVES,
	HTTP_STOPS,
};

struct pages {
	struct metrics_source source;
	_Atomic(enum http_phase) phase; /* by the control thread */
	_Atomic uint64_t alive_ns;	/* likewise */
	struct census census;
	struct visitors visitors;
	pthread_mutex_t lock; /* guards `config_text` */
	char *config_text;    /* as --print-config prints it; NULL: no memory */

	/* libmicrohttpd's thread's. */
	struct MHD_Response *scrape; /* the last metrics, which connections share; NULL: none */
	uint64_t scraped_ns;
	struct gathered gathered;
	struct census_report report;
};

/*
 * @pages is all zero; visitors come by https:// if @tls. 0, or -ENOMEM after logging;
 * pages_release() is for both. Then pages_renew() is needed.
 */
int pages_init(struct pages *pages, const struct metrics_source *source, bool tls);
void pages_release(struct pages *pages);
/* Takes the options and the users as they are now. The control thread. */
void pages_renew(struct pages *pages, const struct config *config);
/* Drops the text of the last scrape. No thread answers. */
void pages_forget(struct pages *pages);

/* MHD_AccessHandlerCallback and MHD_RequestCompletedCallback; @context is a struct pages. */
enum MHD_Result pages_answer(void *context, struct MHD_Connection *connection, const char *path,
			     const char *method, const char *version, const char *body,
			     size_t *body_bytes, void **request);
void pages_completed(void *context, struct MHD_Connection *connection, void **request,
		     enum MHD_RequestTerminationCode how);

#endif /* KVD_SERVER_HTTP_PAGES_H */
