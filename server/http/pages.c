/* SPDX-License-Identifier: MIT */
#include "server/http/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/clock.h"
#include "server/http/files.h"

#define NS_PER_S 1000000000ull
#define DEAD_NS (4 * HTTP_ALIVE_NS)

/* A page, and the right that its visitors need, 0: none. It is a file, or a function answers. */
struct page_row {
	const char *path;
	uint32_t right;
	enum MHD_Result (*answer)(struct pages *pages, struct MHD_Connection *connection);
	const struct page_file *file;
};

/* Takes @response, which may be NULL: then the connection is closed. */
static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned int status,
				     struct MHD_Response *response)
{
	enum MHD_Result sent = MHD_NO;

	if (response)
		sent = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return sent;
}

static struct MHD_Response *text_response(const char *text)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (char *)text,
									MHD_RESPMEM_MUST_COPY);

	if (response)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
					      "text/plain; charset=utf-8");
	return response;
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned int status,
				 const char *text)
{
	return send_response(connection, status, text_response(text));
}

static enum MHD_Result send_status(struct MHD_Connection *connection, const char *why)
{
	return send_text(connection, *why ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
			 *why ? why : "ok\n");
}

static enum MHD_Result answer_health(struct pages *pages, struct MHD_Connection *connection)
{
	uint64_t alive_ns = atomic_load_explicit(&pages->alive_ns, memory_order_relaxed);
	uint64_t now_ns = clock_ns();
	char why[128] = "";

	if (now_ns > alive_ns + DEAD_NS)
		snprintf(why, sizeof(why),
			 "a worker, or the control thread, has not answered for %llu s\n",
			 (unsigned long long)((now_ns - alive_ns) / NS_PER_S));
	return send_status(connection, why);
}

/* A member of a fleet whose map is in etcd answers no request without a lease. */
static bool has_lease(const struct pages *pages)
{
	struct membership_status status;
	uint64_t now_ns;

	if (!pages->source.membership)
		return true;
	membership_thread_status(pages->source.membership, &status, &now_ns);
	return status.end_ns > now_ns;
}

static enum MHD_Result answer_ready(struct pages *pages, struct MHD_Connection *connection)
{
	switch (atomic_load_explicit(&pages->phase, memory_order_acquire)) {
	case HTTP_STARTS:
		return send_status(connection, "kvd starts: its memory is being made ready\n");
	case HTTP_STOPS:
		return send_status(connection, "kvd stops\n");
	default:
		return send_status(connection, has_lease(pages) ?
						       "" :
						       "kvd has no lease of the fleet's etcd\n");
	}
}

static struct MHD_Response *typed_response(char *text, size_t bytes, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text,
									MHD_RESPMEM_MUST_FREE);

	if (response)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	else
		free(text);
	return response;
}

static struct MHD_Response *scrape_make(struct pages *pages)
{
	const bool starts = atomic_load_explicit(&pages->phase, memory_order_acquire) ==
			    HTTP_STARTS;
	struct exposition out = { 0 };

	census_read(&pages->census, &pages->report);
	metrics_write(&out, &pages->source, &pages->gathered, &pages->report, starts);
	if (!out.failed)
		return typed_response(out.text, out.bytes,
				      "text/plain; version=0.0.4; charset=utf-8");
	free(out.text);
	return NULL;
}

static enum MHD_Result answer_metrics(struct pages *pages, struct MHD_Connection *connection)
{
	uint64_t now_ns = clock_ns();

	if (!pages->scrape || now_ns >= pages->scraped_ns + HTTP_SCRAPE_NS) {
		MHD_destroy_response(pages->scrape);
		pages->scrape = scrape_make(pages);
		pages->scraped_ns = now_ns;
	}
	if (!pages->scrape)
		return send_status(connection, "there is no memory for the metrics\n");
	return MHD_queue_response(connection, MHD_HTTP_OK, pages->scrape);
}

static enum MHD_Result answer_config(struct pages *pages, struct MHD_Connection *connection)
{
	enum MHD_Result sent;

	pthread_mutex_lock(&pages->lock);
	sent = pages->config_text ?
		       send_text(connection, MHD_HTTP_OK, pages->config_text) :
		       send_status(connection, "there is no memory for the configuration\n");
	pthread_mutex_unlock(&pages->lock);
	return sent;
}

static const struct page_row list[] = {
	{ "/metrics", USER_STATS, answer_metrics, NULL },
	{ "/config", USER_ADMIN, answer_config, NULL },
	{ "/healthz", 0, answer_health, NULL },
	{ "/readyz", 0, answer_ready, NULL },
	{ "/", USER_STATS, NULL, &page_html },
	{ "/page.css", USER_STATS, NULL, &page_css },
	{ "/charts.js", USER_STATS, NULL, &charts_js },
	{ "/page.js", USER_STATS, NULL, &page_js },
};

static const struct page_row *page_find(const char *path)
{
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (!strcmp(list[i].path, path))
			return &list[i];
	return NULL;
}

static enum MHD_Result refuse_method(struct MHD_Connection *connection)
{
	struct MHD_Response *response = text_response("use GET or HEAD\n");

	if (response)
		(void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	return send_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, response);
}

static bool has_body(struct MHD_Connection *connection)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);

	return (length && strcmp(length, "0") != 0) ||
	       MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
					   MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

static enum MHD_Result ask_password(struct MHD_Connection *connection)
{
	struct MHD_Response *response = text_response("give a user of users.file, and its "
						      "password\n");
	enum MHD_Result sent = MHD_NO;

	if (response)
		sent = MHD_queue_basic_auth_fail_response(connection, "kvd", response);
	MHD_destroy_response(response);
	return sent;
}

static enum MHD_Result forbid(struct MHD_Connection *connection, const char *why)
{
	char text[VISITOR_WHY_MAX + 1];

	snprintf(text, sizeof(text), "%s\n", why);
	return send_text(connection, MHD_HTTP_FORBIDDEN, text);
}

static enum MHD_Result visit(struct pages *pages, struct MHD_Connection *connection,
			     const struct page_row *page, struct http_login **login)
{
	char why[VISITOR_WHY_MAX] = "";
	enum visit result = VISIT_OK;

	if (page->right)
		result = visitor_check(&pages->visitors, connection, login, page->right, why);
	switch (result) {
	case VISIT_WAITS:
		return MHD_YES;
	case VISIT_PASSWORD:
		return ask_password(connection);
	case VISIT_FORBIDDEN:
		return forbid(connection, why);
	case VISIT_BUSY:
		return send_status(connection, "kvd can't check the password now\n");
	default:
		return page->file ? send_response(connection, MHD_HTTP_OK,
						  page_file_response(page->file)) :
				    page->answer(pages, connection);
	}
}

/* What a request has, instead of a login, once its headers have arrived. */
static char arrived;

/* The request has ended; it has a login only if its client is gone. */
void pages_completed(void *context, struct MHD_Connection *connection, void **request,
		     enum MHD_RequestTerminationCode how)
{
	struct pages *pages = context;

	(void)connection, (void)how;
	if (*request && *request != &arrived)
		(void)http_login_end(pages->visitors.logins, *request, "");
	*request = NULL;
}

static bool is_read(const char *method)
{
	return !strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD);
}

/*
 * libmicrohttpd's thread calls it when the headers of a request have arrived, then when all of it
 * has, and again after the connection was suspended: then *@request is a login. An answer to the
 * headers alone would end the connection, so only a request with a body, which is not read, gets
 * one.
 */
enum MHD_Result pages_answer(void *context, struct MHD_Connection *connection, const char *path,
			     const char *method, const char *version, const char *body,
			     size_t *body_bytes, void **request)
{
	const struct page_row *page = page_find(path);
	struct http_login *login = *request == &arrived ? NULL : *request;
	enum MHD_Result result;

	(void)version, (void)body, (void)body_bytes;
	if (!*request && !has_body(connection)) {
		*request = &arrived;
		return MHD_YES;
	}
	if (!is_read(method))
		return refuse_method(connection);
	if (!*request)
		return send_text(connection, MHD_HTTP_CONTENT_TOO_LARGE,
				 "requests have no body here\n");
	if (!page)
		return send_text(connection, MHD_HTTP_NOT_FOUND,
				 "there is no such page: see /, /metrics, /healthz, /readyz and "
				 "/config\n");
	result = visit(context, connection, page, &login);
	*request = login ? (void *)login : &arrived;
	return result;
}

int pages_init(struct pages *pages, const struct metrics_source *source, bool tls)
{
	pages->source = *source;
	pthread_mutex_init(&pages->lock, NULL);
	census_init(&pages->census);
	return visitors_init(&pages->visitors, tls);
}

void pages_forget(struct pages *pages)
{
	MHD_destroy_response(pages->scrape);
	pages->scrape = NULL;
}

void pages_release(struct pages *pages)
{
	pages_forget(pages);
	free(pages->config_text);
	visitors_release(&pages->visitors);
	census_release(&pages->census);
	pthread_mutex_destroy(&pages->lock);
}

void pages_renew(struct pages *pages, const struct config *config)
{
	char *text = NULL, *before;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (out)
		config_print(config, out);
	if (out && fclose(out)) {
		free(text);
		text = NULL;
	}
	pthread_mutex_lock(&pages->lock);
	before = pages->config_text;
	pages->config_text = text;
	pthread_mutex_unlock(&pages->lock);
	free(before);
	visitors_renew(&pages->visitors, config, pages->source.net->users);
}
