/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of device_addr_parse() and device_listen_parse(): a URL is either decoded completely
 * or refused with a reason.
 */
#include "common/rdma/device.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *url = exact_copy(data, size), *text = malloc(size + 1), why[80];
	struct device_addr addr;

	must(text);
	memcpy(text, url, size);
	text[size] = '\0';
	memset(why, 'x', sizeof(why));
	memset(&addr, 0xee, sizeof(addr));
	if (device_addr_parse(&addr, text, why, sizeof(why))) {
		must(memchr(why, '\0', sizeof(why)) && why[0]);
	} else if (addr.kind == DEVICE_SOFTNIC) {
		must(memchr(addr.path, '\0', sizeof(addr.path)) && addr.path[0] == '/');
		must(!strncmp(text, "softnic://", 10));
	} else {
		must(device_kind_is_rdma(addr.kind) && addr.port);
		must(memchr(addr.host, '\0', sizeof(addr.host)) && addr.host[0]);
		must(!strncmp(text, device_scheme(addr.kind), strlen(device_scheme(addr.kind))));
		must((addr.kind & DEVICES_OVER_TCP) ||
		     !(addr.link.set & (1u << LINK_GID_INDEX | 1u << LINK_PKEY_INDEX)));
		must(link_or(&addr.link, LINK_SERVICE_LEVEL, 0) <= 15);
	}
	if (!device_listen_parse(&addr, text, why, sizeof(why))) {
		char again[DEVICE_URL_MAX];
		struct device_addr other;

		/* What it says of the address is a URL of the same one. */
		device_addr_text(&addr, again);
		must(!device_listen_parse(&other, again, why, sizeof(why)));
		must(other.kind == addr.kind && other.port == addr.port);
		must(!strcmp(other.host, addr.host) && !strcmp(other.path, addr.path));
	}
	free(text);
	free(url);
	return 0;
}
