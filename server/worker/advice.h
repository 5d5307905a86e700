/* SPDX-License-Identifier: MIT */
/* Advice for log messages: how to raise the limits of a process that several modules may hit. */
#ifndef KVD_SERVER_WORKER_ADVICE_H
#define KVD_SERVER_WORKER_ADVICE_H

/* EMFILE. */
#define ADVICE_OPEN_FILES                                                                          \
	"raise the limit on open files (`ulimit -n` in the shell that starts kvd, LimitNOFILE= "   \
	"in its systemd unit)"

/* ENOMEM of an RDMA device. */
#define ADVICE_LOCKED_MEMORY                                                                       \
	"raise the limit on locked memory (`ulimit -l` in the shell that starts kvd, "             \
	"LimitMEMLOCK= in its systemd unit)"

/* EAGAIN of pthread_create(). */
#define ADVICE_THREADS                                                                             \
	"raise the limit on threads (`ulimit -u` in the shell that starts kvd, TasksMax= in its "  \
	"systemd unit)"

#endif /* KVD_SERVER_WORKER_ADVICE_H */
