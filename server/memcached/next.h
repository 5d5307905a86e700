/* SPDX-License-Identifier: MIT */
#ifndef KVD_SERVER_MEMCACHED_NEXT_H
#define KVD_SERVER_MEMCACHED_NEXT_H

/* What follows the execution of a command, or of a piece of it. */
enum action_next {
	ACTION_DONE,	/* the next command */
	ACTION_AGAIN,	/* the same one, in the session's next turn */
	ACTION_WAIT,	/* the same one, once the session is woken */
	ACTION_MORE,	/* the same one, once more input has arrived */
	ACTION_CLOGGED, /* the same one, once the socket takes output; or the session is shut */
	ACTION_END,	/* none: the session ends after its output */
};

#endif /* KVD_SERVER_MEMCACHED_NEXT_H */
