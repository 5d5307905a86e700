/* SPDX-License-Identifier: MIT */
#include "common/rdma/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 3
#define NAME_MAX_SHOWN 40

static const struct {
	const char *name;
	unsigned int least, most;
	enum link_who who;
} options[] = {
#define X(upper, name, least, most, who) { #name, least, most, who },
	LINK_OPTIONS(X)
#undef X
};

static int unknown(const char *name, size_t length, char *why, size_t why_size)
{
	size_t used;

	snprintf(why, why_size, "'%.*s' is not an option of a URL: write one of",
		 (int)(length < NAME_MAX_SHOWN ? length : NAME_MAX_SHOWN), name);
	for (unsigned int i = 0; i < LINK_OPTIONS_COUNT; i++) {
		used = strnlen(why, why_size);
		snprintf(why + used, why_size - used, "%s %s%s", i ? "," : "", options[i].name,
			 i + 1 == LINK_OPTIONS_COUNT ? "." : "");
	}
	return -EINVAL;
}

/* One "name=value", of @length bytes. */
static int parse_one(struct device_link *link, const char *text, size_t length, bool over_tcp,
		     char *why, size_t why_size)
{
	const char *equals = memchr(text, '=', length);
	size_t name_length = equals ? (size_t)(equals - text) : length;
	size_t digits = length - name_length - (equals != NULL);
	unsigned int option = 0, value = 0;

	while (option < LINK_OPTIONS_COUNT && (strlen(options[option].name) != name_length ||
					       memcmp(options[option].name, text, name_length)))
		option++;
	if (option == LINK_OPTIONS_COUNT)
		return unknown(text, name_length, why, why_size);
	for (size_t i = 0; equals && i < digits && i <= DIGITS_MAX; i++)
		value = equals[1 + i] >= '0' && equals[1 + i] <= '9' ?
				value * 10 + (unsigned int)(equals[1 + i] - '0') :
				UINT16_MAX;
	if (!digits || digits > DIGITS_MAX || value < options[option].least ||
	    value > options[option].most) {
		snprintf(why, why_size, "%s has a wrong value: write %s=%u to %u.",
			 options[option].name, options[option].name, options[option].least,
			 options[option].most);
		return -EINVAL;
	}
	if (options[option].who == LINK_BY_TCP && !over_tcp) {
		snprintf(why, why_size,
			 "%s can't be set here, rdma_cm finds it itself: leave it out, or connect "
			 "by rdma+tcp://.",
			 options[option].name);
		return -EINVAL;
	}
	link_set(link, option, (uint8_t)value);
	return 0;
}

int link_parse(struct device_link *link, const char *text, bool over_tcp, char *why,
	       size_t why_size)
{
	struct device_link parsed = *link;
	size_t length;
	int err = 0;

	do {
		length = strcspn(text, "&");
		err = parse_one(&parsed, text, length, over_tcp, why, why_size);
		text += length;
	} while (!err && *text++ == '&');
	if (!err)
		*link = parsed;
	return err;
}
