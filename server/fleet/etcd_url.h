/* SPDX-License-Identifier: MIT */
/* The URL of an endpoint of etcd, as an option has it and as requests use it. Threads: any. */
#ifndef KVD_SERVER_FLEET_ETCD_URL_H
#define KVD_SERVER_FLEET_ETCD_URL_H

/* Bytes of a sentence that says what is wrong. */
#define ETCD_WHY_MAX 640
/* Bytes of an endpoint's URL, with its zero byte. */
#define ETCD_URL_MAX 256

/*
 * Writes the URL of an endpoint as requests use it: "http://HOST:PORT" or "https://HOST:PORT",
 * where the port is 2379 unless @text has another one. 0, -ENOMEM, or -EINVAL with @why.
 */
int etcd_url_parse(char url[ETCD_URL_MAX], const char *text, char why[ETCD_WHY_MAX]);

#endif /* KVD_SERVER_FLEET_ETCD_URL_H */
