/* SPDX-License-Identifier: MIT */
/*
 * kvd -d: the server runs in a child process, in a session without a terminal. The original process
 * waits until the server is ready and exits with 0; if the server ends first, it exits with the
 * server's status. If Ctrl-C or a signal ends the original process first, the server ends, too.
 * Until it is ready, the server writes its errors, and its log if log.file is not set, to the
 * original stderr.
 */
#ifndef KVD_SERVER_DETACH_H
#define KVD_SERVER_DETACH_H

/*
 * Returns in the child; the original process does not return. Call it before any thread starts.
 * Returns 0, or a negative errno after logging.
 */
int detach(void);

/*
 * Tells the original process that the server is ready. From now on stdin, stdout and stderr are
 * /dev/null, except a stderr that is a file. Does nothing if the server did not detach.
 */
void detach_ready(void);

#endif /* KVD_SERVER_DETACH_H */
