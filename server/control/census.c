/* SPDX-License-Identifier: MIT */
#include "server/control/census.h"

#include <stdio.h>
#include <string.h>

#include "server/memcached/session.h"
#include "server/worker/conn.h"

void census_init(struct census *census)
{
	memset(census, 0, sizeof(*census));
	pthread_mutex_init(&census->lock, NULL);
}

void census_release(struct census *census)
{
	pthread_mutex_destroy(&census->lock);
}

static unsigned int way_of(enum device_kind kind)
{
	static const enum device_kind kinds[CENSUS_WAYS_COUNT] = {
#define X(kind, name) kind,
		CENSUS_WAYS(X)
#undef X
	};
	unsigned int way = 0;

	while (kinds[way] != kind)
		way++;
	return way;
}

static void count_client(struct census *census, const struct net *net, const struct client *client)
{
	const struct user *user = client_user(client);

	census->next.ways[way_of(client->kind)]++;
	if (user && client->users == net->users && user != &user_unauthenticated)
		census->counts[user - net->users->list]++;
	else if (net->users)
		census->next.users_other++;
}

static void count_all(struct census *census, const struct net *net)
{
	const struct session *session;
	const struct conn *conn;

	for (conn = net->conns; conn; conn = conn->next)
		count_client(census, net, &conn->client);
	LIST_FOREACH(session, &net->sessions, entry)
		count_client(census, net, &session->client);
}

/* Inserts a user into the list, which is sorted; the last one may fall out of it. */
static void user_insert(struct census_report *report, const char *name, uint64_t connections)
{
	unsigned int at = report->users_count;

	if (at == CENSUS_USERS_MAX) {
		at--;
		if (report->users[at].connections >= connections) {
			report->users_other += connections;
			return;
		}
		report->users_other += report->users[at].connections;
	} else {
		report->users_count++;
	}
	for (; at && report->users[at - 1].connections < connections; at--)
		report->users[at] = report->users[at - 1];
	snprintf(report->users[at].name, sizeof(report->users[at].name), "%s", name);
	report->users[at].connections = connections;
}

/* Users with a connection. */
static void list_users(struct census *census, const struct users *users)
{
	for (size_t i = 0; users && i < users->count; i++)
		if (census->counts[i])
			user_insert(&census->next, users->list[i].name, census->counts[i]);
}

static void list_devices(struct census_report *next, const struct net *net)
{
	for (unsigned int i = 0; i < net->nic_count; i++) {
		const struct nic *nic = &net->nics[i];
		struct census_device *device = &next->devices[next->devices_count++];

		device->kind = nic->kind;
		memcpy(device->name, nic->name, sizeof(device->name));
		memcpy(device->address, nic->address, sizeof(device->address));
		device->windows = nic->windows;
		device->serves = nic->state == NIC_SERVES;
	}
}

void census_take(struct census *census, const struct net *net)
{
	struct census_report *next = &census->next;

	memset(next, 0, sizeof(*next));
	memset(census->counts, 0, sizeof(census->counts));
	count_all(census, net);
	list_users(census, net->users);
	next->tenants_bytes = net->tenants.used;
	for (unsigned int i = 0; i < TENANTS_MAX; i++)
		if (net->tenants.list[i])
			next->tenants[i] = net->tenants.list[i]->conns_count;
	list_devices(next, net);
	pthread_mutex_lock(&census->lock);
	census->report = *next;
	pthread_mutex_unlock(&census->lock);
}

void census_read(struct census *census, struct census_report *report)
{
	pthread_mutex_lock(&census->lock);
	*report = census->report;
	pthread_mutex_unlock(&census->lock);
}
