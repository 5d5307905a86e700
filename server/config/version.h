/* SPDX-License-Identifier: MIT */
/* The server's version: the client library's too, since they are built and released together. */
#ifndef KVD_SERVER_CONFIG_VERSION_H
#define KVD_SERVER_CONFIG_VERSION_H

#define KVD_SERVER_VERSION "0.4.0"

#endif /* KVD_SERVER_CONFIG_VERSION_H */
