/* SPDX-License-Identifier: MIT */
#include "server/http/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "server/http/listen.h"
#include "server/http/pem.h"

/* Of GnuTLS: TLS 1.3 alone, as for the other URLs. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3"

struct http {
	struct http_url url;
	int fd;		     /* listens; -1: closed */
	struct http_pem pem; /* of https://, until the thread has started */
	struct MHD_Daemon *daemon;
	struct pages pages;
};

static bool url_of(const struct config *config, struct http_url *url)
{
	struct parse_why why;

	return *config->server.http && !http_url_parse(url, config->server.http, &why);
}

/* Takes the address for a moment. */
static int address_check(const struct http_url *url, bool warn)
{
	char text[HTTP_URL_MAX];
	int fd, err = http_listen(url, &fd);

	if (!err) {
		close(fd);
	} else if (err != -EADDRINUSE) {
		http_listen_error(url, err);
		return err;
	} else if (warn) {
		log_warn("server.http = %s is in use: if not by kvd itself, stop the program that "
			 "listens there, or set another port",
			 http_url_text(url, text));
	}
	return 0;
}

int http_check(const struct config *config, bool warn)
{
	struct http_pem pem = { 0 };
	struct http_url url;
	int err;

	if (!url_of(config, &url))
		return 0;
	err = url.tls ? http_pem_load(&pem, config) : 0;
	http_pem_release(&pem);
	return err ? err : address_check(&url, warn);
}

int http_open(struct http **made, const struct config *config, const struct metrics_source *source)
{
	struct http_url url;
	struct http *http;
	int err;

	if (!url_of(config, &url))
		return 0;
	http = calloc(1, sizeof(*http));
	if (!http) {
		log_error("no memory for server.http");
		return -ENOMEM;
	}
	http->url = url;
	http->fd = -1;
	err = pages_init(&http->pages, source, url.tls);
	if (!err && url.tls)
		err = http_pem_load(&http->pem, config);
	if (!err) {
		err = http_listen(&url, &http->fd);
		if (err)
			http_listen_error(&url, err);
	}
	*made = http;
	if (err) {
		http_close(made);
		return err;
	}
	pages_renew(&http->pages, config);
	http_alive(http, clock_ns());
	return 0;
}

/* libmicrohttpd reads the options of TLS up to MHD_OPTION_END, and the files' texts only now. */
static int daemon_start(struct http *http)
{
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (char *)TLS_PRIORITIES },
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, http->pem.certificate },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, http->pem.key },
		{ http->pem.ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0, http->pem.ca },
		{ MHD_OPTION_END, 0, NULL },
	};
	unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME;

	if (http->url.tls)
		flags |= MHD_USE_TLS;
	else
		tls[0].option = MHD_OPTION_END;
	http_logins_start(http->pages.visitors.logins);
	errno = 0;
	http->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, pages_answer, &http->pages, MHD_OPTION_LISTEN_SOCKET,
		http->fd, MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS_MAX,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, HTTP_CONNECTIONS_OF_ADDRESS_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, HTTP_TIMEOUT_S, MHD_OPTION_NOTIFY_COMPLETED,
		pages_completed, &http->pages, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	http_pem_release(&http->pem);
	if (http->daemon)
		return 0;
	return errno ? -errno : -EINVAL;
}

int http_start(struct http *http)
{
	char text[HTTP_URL_MAX];
	int err;

	if (!http)
		return 0;
	http_tick(http);
	http_url_text(&http->url, text);
	err = daemon_start(http);
	if (err)
		log_error("server.http = %s: can't start its thread: %s", text, strerror(-err));
	else
		log_notice("http: %s/metrics", text);
	return err;
}

/* The socket goes on to listen. */
static void daemon_stop(struct http *http)
{
	if (!http->daemon)
		return;
	(void)MHD_quiesce_daemon(http->daemon);
	http_logins_stop(http->pages.visitors.logins);
	MHD_stop_daemon(http->daemon);
	http->daemon = NULL;
	pages_forget(&http->pages);
}

static void files_renew(struct http *http, const struct config *config)
{
	struct http_pem pem;

	if (http_pem_load(&pem, config)) {
		log_error("server.http: https:// keeps the files of [tls] that it has");
		return;
	}
	daemon_stop(http);
	http->pem = pem;
	if (!http_start(http))
		log_notice("server.http: the files of [tls] were read again");
}

void http_renew(struct http *http, const struct config *config, bool tls)
{
	if (!http)
		return;
	pages_renew(&http->pages, config);
	if (tls && http->url.tls)
		files_renew(http, config);
}

void http_tick(struct http *http)
{
	if (http)
		census_take(&http->pages.census, http->pages.source.net);
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	daemon_stop(http);
	if (http->fd >= 0)
		close(http->fd);
	http->fd = -1;
}

void http_close(struct http **closed)
{
	struct http *http = *closed;

	*closed = NULL;
	if (!http)
		return;
	http_stop(http);
	http_pem_release(&http->pem);
	pages_release(&http->pages);
	free(http);
}

void http_set_phase(struct http *http, enum http_phase phase)
{
	if (http)
		atomic_store_explicit(&http->pages.phase, phase, memory_order_release);
}

void http_alive(struct http *http, uint64_t now_ns)
{
	if (http)
		atomic_store_explicit(&http->pages.alive_ns, now_ns, memory_order_relaxed);
}
