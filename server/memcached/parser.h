/* SPDX-License-Identifier: MIT */
/*
 * The parser of memcached's text protocol, classic and meta, which takes a connection's bytes apart
 * as they arrive. Commands, flags and error lines are those of memcached 1.6.18; what it leaves out
 * (slabs, lru, watch, ...) is an unknown command. It is stricter with numbers (tokens.h) and with
 * base64, where memcached skips other characters; it refuses an opaque that is too long before the
 * command is executed, and has lines of its own where memcached ends the connection without one.
 *
 *   COMMAND-1. The input may be cut anywhere: the commands are the same, but for MC_NONE. The
 *	 parser never reads past the bytes given, nor writes to them, and keeps no pointer to them.
 *   COMMAND-2. A line ends at \n, and a \r before that is not part of it. A line has at most
 *	 MC_LINE_MAX bytes before its \n, else the connection ends. Keys of get, gets, gat and gats
 *	 are one command each, as soon as a space or the line's end follows them, so such lines have
 *	 no end: only the name, gat's time and each key have to fit in the caller's buffer.
 *   COMMAND-3. Only spaces separate tokens, and a zero byte ends the line's text (tokens.h). All
 *	 other bytes may be part of a key.
 *   COMMAND-4. Data blocks are the caller's. One follows MC_PUT and MC_META_PUT, with \r\n after
 *	 it, and then the parser goes on. A refused ms says how many bytes the caller swallows; the
 *	 data of other refused commands is taken for lines, as memcached does.
 *   COMMAND-5. A refusal drops the whole line. One within a line of keys ends that line without
 *	 END, while its earlier keys have been given out.
 *   COMMAND-6. What is no text of this protocol ends the connection: the binary protocol, whose
 *	 first byte begins no line, and HTTP, of which a browser may be made to send some.
 */
#ifndef KVD_SERVER_MEMCACHED_PARSER_H
#define KVD_SERVER_MEMCACHED_PARSER_H

#include "server/memcached/command.h"

#define MC_LINE_MAX 2048u
/* The caller's buffer holds this much at least, else a command may stay incomplete for ever. */
#define MC_BUFFER_MIN (MC_LINE_MAX + 1)

enum mc_state {
	MC_LINE_START,
	MC_FIRST_KEY, /* of a get */
	MC_KEYS,
	MC_LINE_REST, /* to be dropped */
};

/* Where the input of a connection stands: zeros but key_max at first. */
struct mc_parser {
	enum mc_state state;
	uint16_t key_max; /* the longest key, up to KEY_MAX; memcached's is 250 bytes */
	/* Of the line whose keys come. */
	bool with_cas, with_touch;
	int64_t exptime;
};

/*
 * Decodes the first command of the @len bytes at @input, which follow those that earlier calls
 * took. Returns how many bytes it takes; 0: more are needed, and @command says nothing.
 */
size_t mc_parse(struct mc_parser *parser, struct mc_command *command, const void *input,
		size_t len);

#endif /* KVD_SERVER_MEMCACHED_PARSER_H */
