/* SPDX-License-Identifier: MIT */
/* The URL of an endpoint of etcd: see etcd_url.h. */
#include "server/fleet/etcd_url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

/* Whether the URL has that part, other than "/". */
static bool url_has(CURLU *url, CURLUPart part)
{
	char *text = NULL;
	bool has = !curl_url_get(url, part, &text, 0) && *text && strcmp(text, "/") != 0;

	curl_free(text);
	return has;
}

/* What is wrong with it, or NULL. */
static const char *url_check(CURLU *url)
{
	char *scheme = NULL;
	bool known = !curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) &&
		     (!strcmp(scheme, "http") || !strcmp(scheme, "https"));

	curl_free(scheme);
	if (!known)
		return "it must begin with http:// or https://";
	if (url_has(url, CURLUPART_USER) || url_has(url, CURLUPART_PASSWORD))
		return "it must not have a user and a password: write them to a file";
	if (url_has(url, CURLUPART_PATH) || url_has(url, CURLUPART_QUERY) ||
	    url_has(url, CURLUPART_FRAGMENT))
		return "it must end after the host and the port";
	return NULL;
}

static int url_write(char url[ETCD_URL_MAX], CURLU *parts)
{
	char *port = NULL, *text = NULL;
	int err = 0;

	if (curl_url_get(parts, CURLUPART_PORT, &port, 0) &&
	    curl_url_set(parts, CURLUPART_PORT, "2379", 0))
		err = -ENOMEM;
	else if (curl_url_set(parts, CURLUPART_PATH, "/", 0) ||
		 curl_url_get(parts, CURLUPART_URL, &text, 0))
		err = -ENOMEM;
	else if (strlen(text) > ETCD_URL_MAX)
		err = -EMSGSIZE;
	else
		snprintf(url, ETCD_URL_MAX, "%.*s", (int)strlen(text) - 1, text);
	curl_free(text);
	curl_free(port);
	return err;
}

int etcd_url_parse(char url[ETCD_URL_MAX], const char *text, char why[ETCD_WHY_MAX])
{
	const char *wrong = NULL;
	CURLU *parts = curl_url();
	CURLUcode code;
	int err = 0;

	if (!parts)
		return -ENOMEM;
	code = curl_url_set(parts, CURLUPART_URL, text, 0);
	if (code == CURLUE_OUT_OF_MEMORY)
		err = -ENOMEM;
	else if (code == CURLUE_BAD_SCHEME || code == CURLUE_UNSUPPORTED_SCHEME)
		wrong = "it must begin with http:// or https://";
	else if (code)
		wrong = curl_url_strerror(code);
	else
		wrong = url_check(parts);
	if (!wrong && !err)
		err = url_write(url, parts);
	if (err == -EMSGSIZE)
		wrong = "it is too long";
	curl_url_cleanup(parts);
	if (!wrong)
		return err;
	snprintf(why, ETCD_WHY_MAX, "\"%.200s\" is not the URL of an etcd: %s", text, wrong);
	return -EINVAL;
}
