/* SPDX-License-Identifier: MIT */
/*
 * The pid file: the number of the server's process, in a file that the server keeps locked. A file
 * that is not locked was left by a server that died, whatever process has its number now.
 */
#ifndef KVD_SERVER_PIDFILE_H
#define KVD_SERVER_PIDFILE_H

/*
 * Makes and locks the file at @path, which is kept until pidfile_remove(). NULL: none is wanted. 0
 * or a negative errno after logging: a server runs that has it, or what is there is no pid file.
 */
int pidfile_create(const char *path);

/* Removes the file, if pidfile_create() made it. */
void pidfile_remove(void);

#endif /* KVD_SERVER_PIDFILE_H */
