/* SPDX-License-Identifier: MIT */
#ifndef KVD_SERVER_MEMCACHED_NEXT_H
#define KVD_SERVER_MEMCACHED_NEXT_H

/* What follows the execution of a command, or of a piece of it. */
enum action_next {
	ACTION_DONE,	/* the next command */
	ACTION_AGAIN,	/* this command again, in the session's next turn */
	ACTION_WAIT,	/* this command again, once the session is woken */
	ACTION_MORE,	/* this command again, once more input has arrived */
	ACTION_CLOGGED, /* this command again, once the socket takes output, if it does */
	ACTION_END,	/* none: the session ends after its output */
};

#endif /* KVD_SERVER_MEMCACHED_NEXT_H */
