/* SPDX-License-Identifier: MIT */
#include "common/util/base64.h"

#include <limits.h>
#include <string.h>

#include <openssl/evp.h>

bool base64_decode(void *bytes, size_t *count, const char *text, size_t len)
{
	size_t pad = 0;
	int decoded;

	if (len % 4 || len > INT_MAX)
		return false;
	while (pad < 2 && pad < len && text[len - pad - 1] == '=')
		pad++;
	/* EVP_DecodeBlock() skips white space at both ends, and takes '=' for a character. */
	if (memchr(text, '=', len - pad))
		return false;
	decoded = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);
	if (decoded < 0 || (size_t)decoded != len / 4 * 3)
		return false;
	*count = (size_t)decoded - pad;
	return true;
}
