/* SPDX-License-Identifier: MIT */
/* Metrics of the server: the process, its connections and devices, the fleet. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/util/clock.h"
#include "common/util/stat.h"
#include "server/config/version.h"
#include "server/http/metrics.h"
#include "server/http/ports.h"
#include "server/http/process.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define X(name, help) METRICS_NAME(net_stats, name, help)
static const struct metrics_names net_names[] = { NET_STATS(X) };
#undef X

static const char *const gauges[] = { "connections", "users", "identities", "identities_kept",
				      NULL };
static const char *const ways[] = {
#define X(kind, name) name,
	CENSUS_WAYS(X)
#undef X
};

static void build_write(struct exposition *out, const struct metrics_source *source)
{
	struct labels labels = { 0 };

	exposition_one(out, "kvd_up", METRIC_GAUGE, "1: the server answers", 1);
	exposition_family(out, "kvd_build_info", METRIC_GAUGE, "1, with the server's version");
	exposition_number(out, label_add(&labels, "version", KVD_SERVER_VERSION), 1);
	exposition_family(out, "kvd_start_time_seconds", METRIC_GAUGE,
			  "start of the server, in seconds since 1970");
	exposition_ns(out, NULL, source->started_unix_ns);
	exposition_family(out, "kvd_uptime_seconds", METRIC_GAUGE,
			  "time from the start of the server until these numbers were read");
	exposition_ns(out, NULL, clock_ns() - source->started_ns);
	pthread_mutex_lock(&source->net->workers_lock);
	exposition_one(out, "kvd_workers", METRIC_GAUGE, "worker threads",
		       source->net->worker_count);
	pthread_mutex_unlock(&source->net->workers_lock);
	exposition_one(out, "kvd_log_lines_lost_total", METRIC_COUNTER,
		       "log lines lost because the log's file or pipe was full",
		       source->log_lines_lost());
	exposition_one(out, "kvd_audit_lines_lost_total", METRIC_COUNTER,
		       "lines of the audit log lost because its file was full",
		       source->audit_lines_lost());
}

static void connections_write(struct exposition *out, const struct net *net,
			      const struct census_report *report)
{
	for (size_t i = 0; i < COUNT_OF(net_names); i++) {
		const char *stats = (const char *)&net->stats;

		metrics_family(out, "", &net_names[i],
			       metrics_listed(net_names[i].name, gauges) ? METRIC_GAUGE :
									   METRIC_COUNTER);
		exposition_number(out, NULL,
				  stat_read((const uint64_t *)(stats + net_names[i].offset)));
	}
	exposition_one(out, "kvd_connections_max", METRIC_GAUGE,
		       "connections that there may be: server.max_connections",
		       net->env.config->server.max_connections);
	exposition_family(out, "kvd_connections_by_way", METRIC_GAUGE,
			  "connections open, by the scheme of the URL");
	for (size_t i = 0; i < CENSUS_WAYS_COUNT; i++) {
		struct labels labels = { 0 };

		exposition_number(out, label_add(&labels, "way", ways[i]), report->ways[i]);
	}
}

/* The other users are together in a sample without a name, which no user has. */
static void users_write(struct exposition *out, const struct census_report *report)
{
	struct labels other = { 0 };

	exposition_family(out, "kvd_user_connections", METRIC_GAUGE,
			  "connections open of each user of users.file; of those beyond the first "
			  "32, and of clients without a user, together with user=\"\"");
	for (unsigned int i = 0; i < report->users_count; i++) {
		struct labels labels = { 0 };

		exposition_number(out, label_add(&labels, "user", report->users[i].name),
				  report->users[i].connections);
	}
	exposition_number(out, label_add(&other, "user", ""), report->users_other);
}

static struct labels device_label(const struct census_device *device)
{
	struct labels labels = { 0 };

	label_add(&labels, "device", device->name);
	label_add(&labels, "address", device->address);
	return labels;
}

/* Whether an earlier device is another port of the same hardware: its ports are all written. */
static bool is_repeated(const struct census_report *report, unsigned int number)
{
	for (unsigned int i = 0; i < number; i++)
		if (!strcmp(report->devices[i].name, report->devices[number].name))
			return true;
	return false;
}

static void devices_write(struct exposition *out, const struct metrics_source *source,
			  const struct census_report *report)
{
	exposition_family(
		out, "kvd_device_info", METRIC_GAUGE,
		"1, for each device: how it is used; windows=\"yes\": each connection has "
		"its own key for READs");
	for (unsigned int i = 0; i < report->devices_count; i++) {
		struct labels labels = device_label(&report->devices[i]);

		label_add(&labels, "kind", device_kind_name(report->devices[i].kind));
		label_add(&labels, "windows", report->devices[i].windows ? "yes" : "no");
		exposition_number(out, &labels, 1);
	}
	exposition_family(out, "kvd_device_up", METRIC_GAUGE,
			  "1: the device serves; 0: it failed, and kvd looks for it");
	for (unsigned int i = 0; i < report->devices_count; i++) {
		const struct labels labels = device_label(&report->devices[i]);

		exposition_number(out, &labels, report->devices[i].serves);
	}
	exposition_family(out, "kvd_device_port_counter_total", METRIC_COUNTER,
			  "the counters of the port of an RDMA device in sysfs; port_rcv_data and "
			  "port_xmit_data count 4 bytes");
	for (unsigned int i = 0; i < report->devices_count; i++)
		if (device_kind_is_rdma(report->devices[i].kind) && !is_repeated(report, i))
			ports_write(out, source->devices_folder, report->devices[i].name);
}

/* A map that does not change. */
static void fixed_status(struct membership_status *status, const struct fleet_view *view)
{
	*status = (struct membership_status){
		.epoch = view->map->head->epoch,
		.members = view->map->head->members,
		.shards = view->shards,
		.shards_served = view->shards,
		.move_state = "idle",
	};
}

static void fleet_info(struct exposition *out, const struct metrics_source *source,
		       const struct membership_status *status)
{
	char text[FLEET_NAME_MAX + 1];
	struct labels labels = { 0 }, move = { 0 };

	snprintf(text, sizeof(text), "%.*s", (int)FLEET_NAME_MAX,
		 source->membership ? source->fleet_name : source->fleet->view->map->head->name);
	label_add(&labels, "fleet", text);
	snprintf(text, sizeof(text), "%.*s", (int)FLEET_NAME_MAX, source->fleet->id);
	exposition_family(out, "kvd_fleet_info", METRIC_GAUGE,
			  "1, with the names of the fleet and of this member");
	exposition_number(out, label_add(&labels, "member", text), 1);
	exposition_family(out, "kvd_fleet_move_info", METRIC_GAUGE,
			  "1, with what this member does about its moves, and the member to which "
			  "shards move");
	label_add(&move, "state", status->move_state ? status->move_state : "idle");
	snprintf(text, sizeof(text), "%.*s", (int)FLEET_NAME_MAX, status->move_to);
	exposition_number(out, label_add(&move, "to", text), 1);
}

static void fleet_numbers(struct exposition *out, const struct membership_status *status)
{
	exposition_one(out, "kvd_fleet_epoch", METRIC_GAUGE, "the epoch of the fleet's map",
		       status->epoch);
	exposition_one(out, "kvd_fleet_members", METRIC_GAUGE, "members of the fleet",
		       status->members);
	exposition_one(out, "kvd_fleet_shards", METRIC_GAUGE,
		       "shards of the fleet that this server owns, of 16384", status->shards);
	exposition_one(out, "kvd_fleet_shards_served", METRIC_GAUGE,
		       "shards of the fleet that this server serves while it has a lease",
		       status->shards_served);
	exposition_one(out, "kvd_fleet_registrations_total", METRIC_COUNTER,
		       "times that the server registered in the fleet's etcd",
		       status->registrations);
	exposition_one(out, "kvd_fleet_controller", METRIC_GAUGE,
		       "1: this member assigns the fleet's shards; 0: another one does",
		       status->controller);
	exposition_one(out, "kvd_fleet_waiting", METRIC_GAUGE,
		       "1: the server waits to be registered, or to assign shards",
		       *status->waits != '\0');
	exposition_one(out, "kvd_fleet_moves_left", METRIC_GAUGE,
		       "shards of this member that have to move to others", status->moves_left);
	exposition_one(out, "kvd_fleet_moved_shards_total", METRIC_COUNTER,
		       "shards that moved from this member to others, with their items",
		       status->moved);
	exposition_one(out, "kvd_fleet_moves_failed_total", METRIC_COUNTER,
		       "moves of shards from this member that failed, and were undone",
		       status->moves_failed);
}

static void fleet_write(struct exposition *out, const struct metrics_source *source)
{
	struct membership_status status;
	uint64_t now_ns = 0;

	if (source->membership)
		membership_thread_status(source->membership, &status, &now_ns);
	else if (source->fleet->view)
		fixed_status(&status, source->fleet->view);
	else
		return;
	fleet_info(out, source, &status);
	fleet_numbers(out, &status);
	if (!source->membership)
		return;
	exposition_family(out, "kvd_fleet_lease_seconds", METRIC_GAUGE,
			  "time until the server stops to serve unless it hears of etcd; 0: it "
			  "serves nothing");
	exposition_ns(out, NULL, status.end_ns > now_ns ? status.end_ns - now_ns : 0);
}

static void tenants_write(struct exposition *out, struct net *net,
			  const struct census_report *report)
{
	unsigned int count = 0;

	tenants_lock(&net->tenants);
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		count += net->tenants.list[i] != NULL;
	tenants_unlock(&net->tenants);
	exposition_one(out, "kvd_tenants", METRIC_GAUGE, "number of tenants", count);
	exposition_one(out, "kvd_tenants_bytes", METRIC_GAUGE,
		       "memory of tenants other than default, of tenants.memory",
		       report->tenants_bytes);
	exposition_one(out, "kvd_tenants_max_bytes", METRIC_GAUGE, "tenants.memory",
		       net->tenants.memory);
}

void metrics_server(struct exposition *out, const struct metrics_source *source,
		    const struct census_report *report)
{
	build_write(out, source);
	process_write(out, source->started_unix_ns);
	connections_write(out, source->net, report);
	users_write(out, report);
	tenants_write(out, source->net, report);
	devices_write(out, source, report);
	fleet_write(out, source);
}
