/* SPDX-License-Identifier: MIT */
/* Failures of commands on many keys: see failures.h. */
#include "client/kvctl/failures.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/kvctl/error.h"
#include "client/kvctl/interrupt.h"
#include "client/kvctl/stats_text.h"
#include "common/util/clock.h"

#define PAUSE_MS_MAX 500u
#define GIVE_UP_NS 30000000000ull
#define KEY_SHOWN 100u
#define KEY_TEXT_BYTES (4 * KEY_SHOWN + sizeof("..."))

static void key_text(char text[KEY_TEXT_BYTES], const uint8_t *key, size_t len)
{
	for (size_t i = 0; i < len && i < KEY_SHOWN; i++)
		text += sprintf(text, isprint(key[i]) && key[i] != '\\' ? "%c" : "\\x%02x", key[i]);
	strcpy(text, len > KEY_SHOWN ? "..." : "");
}

void failures_note(struct failures *failures, const void *key, size_t key_len,
		   enum kvd_status status)
{
	char text[KEY_TEXT_BYTES];

	if (!failures->count)
		failures->first = status;
	failures->count++;
	if (failures->count > FAILURES_SHOWN)
		return;
	key_text(text, key, key_len);
	report_about("kvctl: key %s: %s", text, kvd_status_text(status));
	if (failures->count == FAILURES_SHOWN)
		report_about("kvctl: if more keys fail, they are only counted");
}

bool failure_is_of_all(enum kvd_status status)
{
	switch (status) {
	case KVD_ERR_TIMEOUT:
	case KVD_ERR_DISCONNECTED:
	case KVD_ERR_UNREACHABLE:
	case KVD_ERR_REFUSED:
	case KVD_ERR_DEVICE:
	case KVD_ERR_PROTOCOL:
	case KVD_ERR_AUTH:
	case KVD_ERR_AWAY:
		return true;
	default:
		return false;
	}
}

bool failure_passes(enum kvd_status status)
{
	return status == KVD_ERR_BUSY || status == KVD_ERR_LIMIT || status == KVD_ERR_UNKNOWN;
}

bool retry_pause(struct retry *retry)
{
	const uint64_t now_ns = clock_ns();
	unsigned int ms = 1u << (retry->tries < 9 ? retry->tries : 9);

	if (!retry->tries)
		retry->since_ns = now_ns;
	if (now_ns - retry->since_ns > GIVE_UP_NS || interrupted())
		return false;
	retry->tries++;
	ms = ms < PAUSE_MS_MAX ? ms : PAUSE_MS_MAX;
	nanosleep(&(struct timespec){ .tv_nsec = (long)ms * 1000000 }, NULL);
	return true;
}

bool retry_goes_on(struct retry *retry, enum kvd_status status)
{
	if (status)
		return failure_passes(status) && retry_pause(retry);
	*retry = (struct retry){ 0 };
	return true;
}

enum kvd_status server_now(struct kvd *db, uint64_t *clock_ns, uint64_t *incarnation, bool *same)
{
	enum kvd_status status = KVD_OK;
	struct kvd_info info;

	*clock_ns = kvd_clock_ns(db);
	/* The first time to each member of a fleet: then a restart of any of them is noticed. */
	if (!*clock_ns || !*incarnation) {
		status = kvd_ping(db);
		*clock_ns = kvd_clock_ns(db);
	}
	kvd_info(db, &info);
	*same = !*incarnation || *incarnation == info.incarnation;
	if (!*incarnation)
		*incarnation = info.incarnation;
	return status;
}

uint64_t server_stat(struct kvd *db, const char *name)
{
	char *text = malloc(STATS_BYTES);
	uint64_t number = 0;

	if (text && !kvd_server_stats(db, text, STATS_BYTES, NULL))
		number = stats_number(text, name);
	free(text);
	return number;
}
