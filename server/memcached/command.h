/* SPDX-License-Identifier: MIT */
/*
 * A command of memcached's text protocol, classic or meta, as parser.h decodes it: all that its
 * session needs to execute it and to answer. The names mc_* are memcached's.
 */
#ifndef KVD_SERVER_MEMCACHED_COMMAND_H
#define KVD_SERVER_MEMCACHED_COMMAND_H

#include "common/wire.h"

/* The most flags of a meta command, of which each letter may stand once. */
#define MC_FLAGS_MAX 17u
/* The longest opaque token, with its letter O. */
#define MC_OPAQUE_MAX 32u
/* The longest data block, as memcached counts it: with its line's end it fits in an int. */
#define MC_VALUE_MAX (INT32_MAX - 2u)

enum mc_op {
	MC_NONE,    /* a part of a line that says nothing more */
	MC_REFUSED, /* `error` and what follows it say how to go on */
	MC_GET,	    /* get, gets, gat, gats: one key of the line */
	MC_PUT,	    /* set, add, replace, append, prepend, cas */
	MC_DELETE,
	MC_ARITH, /* incr, decr */
	MC_TOUCH,
	MC_FLUSH,
	MC_STATS, /* `key`, if not NULL, is its first argument */
	MC_VERSION,
	MC_VERBOSITY, /* its level is a valid number, and says nothing to kvd */
	MC_QUIT,
	MC_SHUTDOWN,	/* which no client of this protocol may do */
	MC_META_GET,	/* mg */
	MC_META_PUT,	/* ms */
	MC_META_DELETE, /* md */
	MC_META_ARITH,	/* ma */
	MC_META_NOOP,	/* mn */
	MC_META_DEBUG,	/* me */
};

/* Pointers go to the parser's input, and a decoded key lies in `decoded`: do not copy it. */
struct mc_command {
	enum mc_op op;
	uint8_t mode;  /* MC_PUT, MC_META_PUT: enum wire_put; MC_ARITH, MC_META_ARITH: wire_arith */
	bool noreply;  /* no line is sent in answer, not even `error`; only classic commands */
	bool with_cas; /* MC_GET: gets, gats */
	bool with_touch; /* MC_GET: gat, gats, with `exptime` */
	/*
	 * MC_GET: more of its line follows. If not, END follows the answer. The last command of a
	 * line may have no key.
	 */
	bool more;

	/* MC_REFUSED: the line to send, without its end; NULL: none. */
	const char *error;
	uint32_t swallow; /* the number of bytes that follow, and are no command */
	bool close;	  /* the connection ends after the line is sent */

	const uint8_t *key; /* NULL: none */
	uint32_t key_len;
	uint32_t value_len; /* MC_PUT, MC_META_PUT: of the data block, without the \r\n after it */
	uint32_t client_flags;
	/*
	 * Seconds as sent, see mc_ttl(). MC_PUT, MC_TOUCH, MC_GET with_touch, meta flag T. Of
	 * MC_FLUSH its delay, 0 if a negative one was sent.
	 */
	int64_t exptime;
	uint64_t cas;	/* cas, meta flag C */
	uint64_t delta; /* MC_ARITH, meta flag D: 1 if absent */

	/* The rest is of meta commands. */
	uint64_t initial;	 /* flag J: 0 if absent */
	int64_t vivify_exptime;	 /* flag N */
	int64_t recache_exptime; /* flag R */
	const uint8_t *opaque;	 /* flag O with its token, as it goes back; NULL: none */
	const uint8_t *key_text; /* the key as sent, in base64 with flag b: flag k sends it back */
	uint32_t key_text_len;
	uint32_t opaque_len;
	uint64_t flag_set;	  /* mc_has() */
	uint32_t flag_count;	  /* in the order in which they were sent, */
	char flags[MC_FLAGS_MAX]; /* which is that of the answer's */

	uint8_t decoded[KEY_MAX / 4 * 3]; /* a key that was sent in base64 */
};

/* The bit of a meta flag, a letter, in flag_set. */
static inline uint64_t mc_flag(char letter)
{
	return 1ull << (letter - 'A');
}

static inline bool mc_has(const struct mc_command *command, char letter)
{
	return command->flag_set & mc_flag(letter);
}

/* A command of which nothing is known yet. */
void mc_command_clear(struct mc_command *command);

/* Makes it MC_REFUSED with @error; `noreply` stays as it is. */
void mc_refuse(struct mc_command *command, const char *error);

#define MC_EXPIRED (-1)

/*
 * The time to live in seconds that @exptime means when time() is @now_s: 0 is forever, up to 30
 * days count from now, more is a time of time(). MC_EXPIRED: it is over, or @exptime is negative.
 * More than WIRE_TTL_MAX becomes that.
 */
int64_t mc_ttl(int64_t exptime, int64_t now_s);

#endif /* KVD_SERVER_MEMCACHED_COMMAND_H */
