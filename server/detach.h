/* SPDX-License-Identifier: MIT */
/*
 * kvd -d: the server goes on in a process of its own, in a session without a terminal. The process
 * that was started waits until the server is ready, and ends with 0 then; if the server ends
 * instead, with its status. If something ends it before, by Ctrl-C or a signal, the server ends,
 * too. Until it is ready the server writes its errors, and its log if that has no file, to the
 * stderr that it was started with.
 */
#ifndef KVD_SERVER_DETACH_H
#define KVD_SERVER_DETACH_H

/*
 * Goes on in a new process; the old one does not return from here. Before any thread is started. 0
 * or a negative errno after logging.
 */
int detach(void);

/*
 * The server is ready: lets the process that was started end. From now on stdin, stdout and stderr
 * are /dev/null, but a stderr that is a file stays. Nothing if the server did not detach.
 */
void detach_ready(void);

#endif /* KVD_SERVER_DETACH_H */
