/* SPDX-License-Identifier: MIT */
/*
 * The pid file: the server's process ID, in a file that the server keeps locked. A file
 * that is not locked was left by a server that died, whatever process has its number now.
 */
#ifndef KVD_SERVER_PIDFILE_H
#define KVD_SERVER_PIDFILE_H

/*
 * Creates and locks the file at @path, until pidfile_remove(). NULL: no pid file is wanted. Returns
 * 0, or a negative errno after logging: -EBUSY if a server that runs holds it, -EEXIST if the file
 * is not a pid file.
 */
int pidfile_create(const char *path);

/* Removes the file, if pidfile_create() made it. */
void pidfile_remove(void);

#endif /* KVD_SERVER_PIDFILE_H */
