/* SPDX-License-Identifier: MIT */
/* The server's version is the client library's: they are built and released together. */
#ifndef KVD_SERVER_VERSION_H
#define KVD_SERVER_VERSION_H

#define KVD_SERVER_VERSION "0.2.0"

#endif /* KVD_SERVER_VERSION_H */
