/* SPDX-License-Identifier: MIT */
#include "server/http/pem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tls/tls.h"
#include "common/util/log.h"
#include "common/util/secret.h"

/* Bytes of a file of certificates. */
#define CERTIFICATES_MAX (1u << 20)

static int refuse(int err, const char *why)
{
	log_error("server.http: https:// can't use the files of [tls]: %s", why);
	return err;
}

/* OpenSSL says what is wrong with the files, as it does for the other URLs. */
static int files_check(const struct config *config)
{
	const struct tls_files files = {
		.ca = config->tls.ca,
		.certificate = config->tls.certificate,
		.key = config->tls.key,
	};
	char why[TLS_WHY_MAX] = "no memory";
	struct tls_context *context;
	int err;

	if (!*files.certificate || !*files.key)
		return refuse(-EINVAL, "set tls.certificate and tls.key, or give http://");
	if (config->tls.require_identity && !*files.ca)
		return refuse(-EINVAL, "tls.require_identity = yes admits clients by their "
				       "certificate alone: set tls.ca, or tls.require_identity to "
				       "no");
	err = tls_context_make(&context, &files, NULL, why);
	if (err)
		return refuse(err, why);
	tls_context_put(context);
	return 0;
}

/* Certificates are public: it does not matter whose file it is. */
static int certificates_read(char **text, const char *path)
{
	FILE *file = fopen(path, "re");
	size_t length = 0;
	int err;

	*text = calloc(1, CERTIFICATES_MAX);
	if (file && *text)
		length = fread(*text, 1, CERTIFICATES_MAX - 1, file);
	err = *text ? 0 : -ENOMEM;
	if (!file || ferror(file))
		err = -errno;
	else if (length == CERTIFICATES_MAX - 1)
		err = -EFBIG;
	if (file)
		fclose(file);
	if (err)
		log_error("server.http: can't read %s: %s", path, strerror(-err));
	return err;
}

static int key_read(struct http_pem *pem, const char *path)
{
	struct secret_file file;
	const char *why = secret_file_read(&file, path);

	if (why) {
		log_error("server.http: can't use %s: %s", path, why);
		return -EINVAL;
	}
	pem->key_bytes = file.length + 1;
	pem->key = secret_alloc(pem->key_bytes);
	if (pem->key)
		memcpy(pem->key, file.text, file.length);
	secret_file_release(&file);
	return pem->key ? 0 : refuse(-ENOMEM, "no memory");
}

int http_pem_load(struct http_pem *pem, const struct config *config)
{
	int err = files_check(config);

	*pem = (struct http_pem){ 0 };
	if (!err)
		err = certificates_read(&pem->certificate, config->tls.certificate);
	if (!err && *config->tls.ca)
		err = certificates_read(&pem->ca, config->tls.ca);
	if (!err)
		err = key_read(pem, config->tls.key);
	if (err)
		http_pem_release(pem);
	return err;
}

void http_pem_release(struct http_pem *pem)
{
	free(pem->certificate);
	free(pem->ca);
	secret_free(pem->key, pem->key_bytes);
	*pem = (struct http_pem){ 0 };
}
