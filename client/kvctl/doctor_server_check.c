/* SPDX-License-Identifier: MIT */
/* Judges the facts of a server: see doctor_server.h. */
#include <inttypes.h>
#include <string.h>

#include "client/kvctl/doctor_server.h"
#include "common/rdma/device.h"

/* The least MTU of a connection at which values go at a good rate. */
#define MTU_GOOD 1024u

static void fix_start(char *fix, size_t size, const struct device_addr *addr)
{
	if (addr->kind == DEVICE_SOFTNIC)
		snprintf(fix, size, "kvd -d -o server.listen=softnic://%s", addr->path);
	else
		snprintf(fix, size, "ssh %s sudo systemctl start kvd", addr->host);
}

static void check_open(struct findings *findings, const struct doctor_server *server)
{
	char fix[DEVICE_HOST_MAX + 64] = "", why[256];
	struct device_addr addr = { 0 };
	bool is_softnic;

	/* An invalid URL gives KVD_ERR_INVALID, which no command fixes. */
	device_addr_parse(&addr, server->url, why, sizeof(why));
	is_softnic = addr.kind == DEVICE_SOFTNIC;
	switch (server->open_status) {
	case KVD_ERR_UNREACHABLE:
		fix_start(fix, sizeof(fix), &addr);
		break;
	case KVD_ERR_DEVICE:
		snprintf(fix, sizeof(fix), "ip route get %s; rdma link", addr.host);
		break;
	case KVD_ERR_TIMEOUT:
	case KVD_ERR_DISCONNECTED:
		snprintf(fix, sizeof(fix),
			 is_softnic ? "sudo systemctl restart kvd" : "ping -c 3 %s", addr.host);
		break;
	case KVD_ERR_REFUSED:
		if (is_softnic)
			snprintf(fix, sizeof(fix), "sudo usermod -aG kvd \"$USER\"");
		break;
	case KVD_ERR_PROTOCOL:
		snprintf(fix, sizeof(fix), "kvctl -V; kvd -V");
		break;
	default:
		break;
	}
	findings_add(findings, SEVERITY_ERROR, "connect", fix, "%s: %s",
		     kvd_status_text(server->open_status), server->open_error);
}

static void check_link(struct findings *findings, const struct doctor_server *server)
{
	const char *mtu = strstr(server->link, " mtu=");
	unsigned int bytes = 0;

	findings_add(findings, SEVERITY_OK, "connect", NULL, "connected in %" PRIu64 " us by %s",
		     server->open_ns / 1000, server->device);
	if (!mtu || sscanf(mtu, " mtu=%u", &bytes) != 1)
		return;
	findings_add(findings, bytes < MTU_GOOD ? SEVERITY_WARNING : SEVERITY_OK, "path",
		     bytes < MTU_GOOD ? "ip -d link" : NULL, "%s%s", server->link,
		     bytes < MTU_GOOD ? ": the MTU is small, at one of the two ends" : "");
}

static void check_version(struct findings *findings, const struct doctor_server *server,
			  const char *version)
{
	if (server->stats_status)
		findings_add(findings, SEVERITY_INFO, "version", NULL,
			     "this user may not ask for it: %s",
			     kvd_status_text(server->stats_status));
	else if (!strcmp(server->version, version))
		findings_add(findings, SEVERITY_OK, "version", NULL,
			     "server and this program have %s", version);
	else
		findings_add(findings, SEVERITY_WARNING, "version", "make && sudo make install",
			     "the server has %s, and this program %s: update the older one",
			     server->version, version);
}

/* This matters not only for expiry: a server that answers so late is busy, or far away. */
#define CLOCK_ERROR_GOOD_NS 10000000u

static void check_clock(struct findings *findings, const struct doctor_server *server)
{
	bool good = server->clock_error_ns <= CLOCK_ERROR_GOOD_NS;

	findings_add(findings, good ? SEVERITY_OK : SEVERITY_WARNING, "clock",
		     good ? NULL : "kvctl stats | grep worker.turn",
		     "the server's clock is known to %" PRIu64 " us%s",
		     server->clock_error_ns / 1000,
		     good ? "" : ": GETs of keys about to expire ask the server");
}

static const char *path_name(enum doctor_path path)
{
	static const char *const names[] = {
#define X(name, text) #name,
		DOCTOR_PATHS(X)
#undef X
	};

	return names[path];
}

static const char *path_text(enum doctor_path path)
{
	static const char *const texts[] = {
#define X(name, text) text,
		DOCTOR_PATHS(X)
#undef X
	};

	return texts[path];
}

static bool is_refused(enum kvd_status status)
{
	return status == KVD_ERR_NOT_ALLOWED || status == KVD_ERR_LIMIT || status == KVD_ERR_BUSY;
}

static void loop_failed(struct findings *findings, const struct doctor_loop *loop,
			enum doctor_path path)
{
	const char *fix = NULL;

	if (loop->status == KVD_ERR_NO_MEMORY)
		fix = "ulimit -Sl hard";
	else if (loop->status == KVD_ERR_NO_SPACE)
		fix = "kvctl stats | grep -E 'item_memory|eviction'";
	else if (!is_refused(loop->status))
		fix = "kvctl stats | grep -E 'failures|errors'";
	findings_add(findings, is_refused(loop->status) ? SEVERITY_INFO : SEVERITY_ERROR,
		     path_name(path), fix, "%s: %s", path_text(path), loop->error);
}

static void check_loop(struct findings *findings, const struct doctor_server *server,
		       enum doctor_path path)
{
	const struct doctor_loop *loop = &server->loop[path];
	char rate[48] = "", bytes[32] = "";

	if (loop->status) {
		loop_failed(findings, loop, path);
		return;
	}
	if (path == DOCTOR_PATH_PULL && loop->bytes <= server->message_max) {
		findings_add(findings, SEVERITY_INFO, path_name(path), NULL,
			     "all values that the server takes fit into a message of %" PRIu32
			     " bytes",
			     server->message_max);
		return;
	}
	if (!loop->count) {
		findings_add(
			findings, SEVERITY_INFO, path_name(path), NULL,
			"%s: not used; for a user who may not read all keys, GETs are requests",
			path_text(path));
		return;
	}
	if (path == DOCTOR_PATH_PULL && loop->p50_ns)
		snprintf(rate, sizeof(rate), ", %.2f GB/s",
			 (double)loop->bytes / (double)loop->p50_ns);
	if (loop->bytes)
		snprintf(bytes, sizeof(bytes), ", %" PRIu64 " bytes", loop->bytes);
	findings_add(findings, SEVERITY_OK, path_name(path), NULL,
		     "%s%s: median %.1f us, longest %.1f us of %" PRIu64 "%s", path_text(path),
		     bytes, (double)loop->p50_ns / 1e3, (double)loop->max_ns / 1e3, loop->count,
		     rate);
}

void doctor_check_server(struct findings *findings, const struct doctor_server *server,
			 const char *version)
{
	if (server->member)
		findings_group(findings, "The member %s, %s", server->member, server->url);
	else
		findings_group(findings, "The server %s", server->url);
	if (server->open_status) {
		check_open(findings, server);
		return;
	}
	check_link(findings, server);
	check_version(findings, server, version);
	check_clock(findings, server);
	for (enum doctor_path path = 0; path < DOCTOR_PATH_COUNT; path++)
		if (path == DOCTOR_PATH_PING || !server->keyless)
			check_loop(findings, server, path);
	if (server->keyless)
		findings_add(findings, SEVERITY_INFO, "keys", NULL,
			     "the member has no key, so GETs and PUTs were not tried");
}
