/* SPDX-License-Identifier: MIT */
/*
 * What other threads may know of what the control thread owns: how many connections there are by
 * each way, of each user and in each tenant, and the state of the devices. The control thread
 * writes it down once a second; any thread reads it.
 */
#ifndef KVD_SERVER_CONTROL_CENSUS_H
#define KVD_SERVER_CONTROL_CENSUS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/control/net.h"

/* Users that are named: those with the most connections. */
#define CENSUS_USERS_MAX 32u

/* X(kind, name): the ways to connect. */
#define CENSUS_WAYS(X)                                                                             \
	X(DEVICE_SOFTNIC, "softnic")                                                               \
	X(DEVICE_RDMA, "rdma")                                                                     \
	X(DEVICE_RDMA_TCP, "rdma+tcp")                                                             \
	X(DEVICE_RDMA_TLS, "rdma+tls")                                                             \
	X(LISTEN_MEMCACHED, "memcached")                                                           \
	X(LISTEN_MEMCACHED_TLS, "memcached+tls")

#define X(kind, name) +1
enum { CENSUS_WAYS_COUNT = CENSUS_WAYS(X) };
#undef X

struct census_user {
	char name[USER_NAME_MAX + 1];
	uint64_t connections;
};

struct census_device {
	enum device_kind kind;
	char name[IBV_SYSFS_NAME_MAX];
	char address[DEVICE_HOST_MAX + 8];
	bool windows, serves;
};

struct census_report {
	uint64_t ways[CENSUS_WAYS_COUNT]; /* connections, in the order of CENSUS_WAYS */
	/* Of users.file, the one with the most connections first. */
	struct census_user users[CENSUS_USERS_MAX];
	unsigned int users_count;
	uint64_t users_other; /* connections of the users that are not listed */
	uint64_t tenants_bytes;
	/* In the order of net->tenants.list; 0 where there is no tenant, too. */
	uint64_t tenants[TENANTS_MAX];
	struct census_device devices[NIC_MAX];
	unsigned int devices_count;
};

struct census {
	pthread_mutex_t lock; /* guards `report` */
	struct census_report report;
	struct census_report next;  /* the control thread's */
	uint32_t counts[USERS_MAX]; /* likewise: connections of each user */
};

void census_init(struct census *census);
void census_release(struct census *census);
/* Counts. Takes some 10 ns for each connection. The control thread. */
void census_take(struct census *census, const struct net *net);
/* Any thread. */
void census_read(struct census *census, struct census_report *report);

#endif /* KVD_SERVER_CONTROL_CENSUS_H */
