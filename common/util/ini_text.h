/* SPDX-License-Identifier: MIT */
/*
 * Takes apart a text of sections, [KIND NAME], and of key = value lines, which may be of any
 * length: inih, which reads the configuration, cuts values at 192 bytes. Lines that begin with # or
 * ; are comments.
 */
#ifndef KVD_COMMON_UTIL_INI_TEXT_H
#define KVD_COMMON_UTIL_INI_TEXT_H

#include <stddef.h>

struct ini_text {
	char *at, *end;
	unsigned int line; /* the number of the last line taken */
	char *key;	   /* of a setting; of a section what is between the brackets */
	char *value;	   /* of a setting: may begin with spaces, and does not end with one */
};

enum ini_item {
	INI_END,
	INI_SECTION,
	INI_SETTING,
	INI_BAD_SECTION, /* a line that begins with '[', and is no section */
	INI_BAD_LINE,	 /* no key = value */
	INI_BAD_BYTE,	 /* a line with a control character */
};

/* @text has @length bytes and a zero after them. It is cut in place. */
void ini_text_init(struct ini_text *ini, char *text, size_t length);

/* Takes the next section or setting. */
enum ini_item ini_text_next(struct ini_text *ini);

/* The next word of *@text, cut off, or NULL: there is none. */
char *ini_word_take(char **text);

#endif /* KVD_COMMON_UTIL_INI_TEXT_H */
