/* SPDX-License-Identifier: MIT */
#include "server/http/files.h"

#include <stddef.h>

/* The file at @path, from the root of the tree, as the struct page_file @name. */
#define PAGE_FILE(name, path, content_type)                                                        \
	__asm__(".pushsection .rodata\n"                                                           \
		".globl " #name "_text, " #name "_end\n" #name "_text: .incbin \"" path            \
		"\"\n" #name "_end:\n"                                                             \
		".popsection\n");                                                                  \
	extern const char name##_text[], name##_end[];                                             \
	const struct page_file name = { content_type "; charset=utf-8", name##_text, name##_end }

PAGE_FILE(page_html, "server/http/page/index.html", "text/html");
PAGE_FILE(page_css, "server/http/page/page.css", "text/css");
PAGE_FILE(charts_js, "server/http/page/charts.js", "text/javascript");
PAGE_FILE(page_js, "server/http/page/page.js", "text/javascript");

/* The page makes no HTML of texts, and may load nothing from elsewhere, nor be in a frame. */
static const char *const headers[][2] = {
	{ "Content-Security-Policy",
	  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	  "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	  "require-trusted-types-for 'script'" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Cache-Control", "no-cache" },
	{ "Referrer-Policy", "no-referrer" },
};

struct MHD_Response *page_file_response(const struct page_file *file)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		(size_t)(file->end - file->text), (char *)file->text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result added;

	if (!response)
		return NULL;
	added = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, file->type);
	for (size_t i = 0; added && i < sizeof(headers) / sizeof(headers[0]); i++)
		added = MHD_add_response_header(response, headers[i][0], headers[i][1]);
	if (added)
		return response;
	MHD_destroy_response(response);
	return NULL;
}
