/* SPDX-License-Identifier: MIT */
/*
 * The files of the page for people, server/http/page/, which are part of the program: page.js asks
 * for /metrics and draws them.
 */
#ifndef KVD_SERVER_HTTP_FILES_H
#define KVD_SERVER_HTTP_FILES_H

#include <microhttpd.h>

struct page_file {
	const char *type; /* of its content */
	const char *text, *end;
};

extern const struct page_file page_html, page_css, charts_js, page_js;

/*
 * The file, with headers which allow it nothing but what it needs of this server. NULL: no memory.
 */
struct MHD_Response *page_file_response(const struct page_file *file);

#endif /* KVD_SERVER_HTTP_FILES_H */
