/* SPDX-License-Identifier: MIT */
/* The URLs of server.listen: "rdma://:7471,memcached://:11211", or "auto". */
#ifndef KVD_SERVER_CONFIG_LISTEN_LIST_H
#define KVD_SERVER_CONFIG_LISTEN_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rdma/device.h"
#include "common/util/parse.h"

#define LISTEN_AUTO "auto"

/* URLs in a list: enough for each scheme at several ports of several RDMA devices. */
#define LISTEN_MAX 16

/*
 * Adds the URL @word to @list, whose room is OPTION_LIST_MAX bytes. Returns 0, or -EINVAL or
 * -ERANGE and fills in @why.
 */
int listen_list_add(char *list, const char *word, struct parse_why *why);

/*
 * Decodes the URL at *@at, in a list that listen_list_add() made, and moves *@at to the next one.
 * Returns false at the end of the list, and if it is LISTEN_AUTO.
 */
bool listen_list_next(const char **at, struct device_addr *addr);

/* The schemes of the URLs, as bits of enum device_kind; 0: the list is LISTEN_AUTO. */
uint32_t listen_list_kinds(const char *list);

/*
 * Writes the URLs at which clients of other hosts reach a server that listens at @list, of @size
 * bytes at most. Returns 0, or -EINVAL and fills in @why: it does not say at which addresses.
 */
int listen_list_urls(const char *list, char *urls, size_t size, struct parse_why *why);

#endif /* KVD_SERVER_CONFIG_LISTEN_LIST_H */
