/* SPDX-License-Identifier: MIT */
/*
 * What the parser of memcached's protocol (server/memcached/) makes of lines: each command with its
 * forms, each error line. Each input is also cut at every byte, and fed byte by byte.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/memcached/parser.h"
#include "tests/support/mc_feed.h"

#define KEY_LEN 250u /* memcached's */

#define BAD_LINE "! CLIENT_ERROR bad command line format"
#define BAD_TIME "! CLIENT_ERROR invalid exptime argument"
#define BAD_DELTA "! CLIENT_ERROR invalid numeric delta argument"
#define BAD_DELETE "! CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
#define BAD_TOKEN "! CLIENT_ERROR bad token in command line format"
#define BAD_FLAGS "! CLIENT_ERROR invalid or duplicate flag"

/* An input, which may contain zero bytes, and its commands as mc_feed() shows them. */
struct row {
	const char *input;
	size_t len;
	const char *commands;
};

#define ROW(input, commands)                                                                       \
	{                                                                                          \
		input, sizeof(input) - 1, commands                                                 \
	}

static void assert_fed(const char *input, size_t len, size_t first, size_t step,
		       const char *commands)
{
	char *fed = mc_feed((const uint8_t *)input, len, first, step, KEY_LEN);

	if (strcmp(fed, commands))
		fail_msg("%.60s (%zu of %zu bytes first)\n is  %s\n not %s", input, first, len, fed,
			 commands);
	free(fed);
}

static void assert_commands(const char *input, size_t len, const char *commands)
{
	assert_fed(input, len, len, 1, commands);
	assert_fed(input, len, 0, 1, commands);
	for (size_t cut = 0; cut < len; cut++)
		assert_fed(input, len, cut, len, commands);
}

static void assert_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_commands(rows[i].input, rows[i].len, rows[i].commands);
}

#define ASSERT_ROWS(rows) assert_rows(rows, sizeof(rows) / sizeof(*(rows)))

static void gets_of_keys(void **state)
{
	static const struct row rows[] = {
		ROW("get a\r\n", "get a;"),
		ROW("get a\n", "get a;"),
		ROW("  get   a  \r\n", "get a +;get;"),
		ROW("get a bc d\r\nget e\r\n", "get a +;get bc +;get d;get e;"),
		ROW("gets a b\n", "get a cas0 +;get b cas0;"),
		ROW("gat 10 a b\r\n", "get a t10 +;get b t10;"),
		ROW("gats -1 a\r\n", "get a t-1 cas0;"),
		ROW("gat 0 a\r\n", "get a t0;"),
		ROW("gat 9\r\nget a\n", "get t9;get a;"),
		ROW("gat 9 \r\n", "get t9;"),
		ROW("gat x a b\r\nget a\r\n", BAD_TIME ";get a;"),
		ROW("gat 1.5 a\n", BAD_TIME ";"),
		ROW("get\r\nget \r\ngets\n", "! ERROR;! ERROR;! ERROR;"),
		ROW("gat\r\ngat  \r\ngats\n", "! ERROR;! ERROR;! ERROR;"),
		ROW("gett a\r\nge a\r\nGET a\r\n", "! ERROR;! ERROR;! ERROR;"),
		ROW("get\ta\r\n", "! ERROR;"),
		ROW("get a\tb\rc\x7f\xff\r\r\n", "get a\\09b\\0dc\\7f\\ff\\0d;"),
		ROW("get \r\r\n", "get \\0d;"),
		/* A zero byte ends the line's text. */
		ROW("get a\0b c\r\nget d\r\n", "get a;get d;"),
		ROW("get a \0b\r\nget d\r\n", "get a +;get;get d;"),
		ROW("get \0b\r\nget d\r\n", "! ERROR;get d;"),
		ROW("gat 1\0b\r\nget d\r\n", "get t1;get d;"),
	};

	(void)state;
	ASSERT_ROWS(rows);
}

static void stores(void **state)
{
	static const struct row rows[] = {
		ROW("set k 5 10 3\r\nget\r\nget a\r\n", "put k t10 f5 n3;get a;"),
		ROW("set k 0 0 0\r\n\r\nget a\r\n", "put k f0 n0;get a;"),
		ROW("set k 4294967295 -1 1 noreply\na\r\n", "put k t-1 f4294967295 n1 noreply;"),
		ROW("set k 0 4102444800 1 later\r\na\r\n", "put k t4102444800 f0 n1;"),
		ROW("set k +1 -0 2147483645\r\n", "put k f1 n2147483645;"),
		ROW("add k 0 0 1\r\na\r\n", "put:1 k f0 n1;"),
		ROW("replace k 0 0 1\r\na\r\n", "put:2 k f0 n1;"),
		ROW("cas k 0 0 1 18446744073709551615\r\na\r\n",
		    "put:3 k f0 n1 cas18446744073709551615;"),
		ROW("cas k 0 0 1 7 noreply\r\na\r\n", "put:3 k f0 n1 cas7 noreply;"),
		ROW("append k 0 0 1\r\na\r\n", "put:4 k f0 n1;"),
		ROW("prepend k 0 0 1\r\na\r\n", "put:5 k f0 n1;"),
		/* The data of a refused command is taken for a line. */
		ROW("set k 0 0\r\nab\r\n", "! ERROR;! ERROR;"),
		ROW("set k 0 0 1 2 3\r\nset\r\n", "! ERROR;! ERROR;"),
		ROW("cas k 0 0 1\r\ncas k 0 0 1 2 3 4\r\n", "! ERROR;! ERROR;"),
		ROW("set k 0 0 -1\r\n", BAD_LINE ";"),
		ROW("set k 0 0 2147483646\r\n", BAD_LINE ";"),
		ROW("set k 0 0 1x\r\n", BAD_LINE ";"),
		ROW("set k -1 0 1\r\n", BAD_LINE ";"),
		ROW("set k 4294967296 0 1\r\n", BAD_LINE ";"),
		ROW("set k 0 9223372036854775808 1\r\n", BAD_LINE ";"),
		ROW("set k 0 x 1\r\n", BAD_LINE ";"),
		ROW("set k 0 0 - noreply\r\n", BAD_LINE " (noreply);"),
		ROW("set k 0 0 noreply\r\n", BAD_LINE " (noreply);"),
		ROW("cas k 0 0 1 18446744073709551616\r\n", BAD_LINE ";"),
		ROW("cas k 0 0 1 -1\r\n", BAD_LINE ";"),
		ROW("set k\0 0 0 1\r\n", "! ERROR;"),
	};

	(void)state;
	ASSERT_ROWS(rows);
}

static void other_classic(void **state)
{
	static const struct row rows[] = {
		ROW("delete k\r\ndelete k 0\r\n", "delete k;delete k;"),
		ROW("delete k noreply\r\ndelete k 0 noreply\r\n",
		    "delete k noreply;delete k noreply;"),
		ROW("delete noreply\r\n", "delete noreply;"),
		ROW("delete k 1\r\n", BAD_DELETE ";"),
		ROW("delete k 1 noreply\r\n", BAD_DELETE " (noreply);"),
		ROW("delete k 0 0\r\n", BAD_DELETE ";"),
		ROW("delete\r\ndelete k 0 noreply x\r\n", "! ERROR;! ERROR;"),
		ROW("incr k 5\r\n", "arith k d5;"),
		ROW("decr k 18446744073709551615 noreply\r\n",
		    "arith:1 k d18446744073709551615 noreply;"),
		ROW("incr k 1 x\r\n", "arith k d1;"),
		ROW("incr k x\r\ndecr k -1\r\n", BAD_DELTA ";" BAD_DELTA ";"),
		ROW("incr k noreply\r\n", BAD_DELTA " (noreply);"),
		ROW("incr k\r\ndecr k 1 2 3\r\n", "! ERROR;! ERROR;"),
		ROW("touch k 10\r\ntouch k -1 noreply\r\n", "touch k t10;touch k t-1 noreply;"),
		ROW("touch k x\r\n", BAD_TIME ";"),
		ROW("touch k\r\ntouch k 1 2 3\r\n", "! ERROR;! ERROR;"),
		ROW("flush_all\r\nflush_all noreply\r\n", "flush;flush noreply;"),
		ROW("flush_all 10\r\nflush_all -1 noreply\r\n", "flush t10;flush noreply;"),
		ROW("flush_all 10 20\r\n", "flush t10;"),
		ROW("flush_all x\r\n", BAD_TIME ";"),
		ROW("flush_all noreply 1\r\n", BAD_TIME ";"),
		ROW("flush_all x noreply\r\n", BAD_TIME " (noreply);"),
		ROW("flush_all 1 noreply x\r\n", "! ERROR;"),
		ROW("version\r\nversion x\n", "version;version;"),
		ROW("verbosity 1\r\nverbosity 1 noreply\r\n", "verbosity;verbosity noreply;"),
		ROW("verbosity x\r\n", BAD_LINE ";"),
		ROW("verbosity noreply\r\n", BAD_LINE " (noreply);"),
		ROW("verbosity\r\nverbosity 1 2 3\r\n", "! ERROR;! ERROR;"),
		ROW("quit\r\nquit now noreply\r\n", "quit;quit;"),
		ROW("shutdown\r\nshutdown graceful\r\n", "shutdown;shutdown;"),
		ROW("stats\r\nstats items x noreply\r\n", "stats;stats items;"),
	};

	(void)state;
	ASSERT_ROWS(rows);
}

static void unknown(void **state)
{
	static const struct row rows[] = {
		ROW("\r\n\n   \r\n", "! ERROR;! ERROR;! ERROR;"),
		ROW("a\r\nm\r\nmx k\r\nmgg k\r\n", "! ERROR;! ERROR;! ERROR;! ERROR;"),
		ROW("cache_memlimit 5\r\nshut\r\n", "! ERROR;! ERROR;"),
		ROW("slabs automove 1\r\nlru mode flat\r\n", "! ERROR;! ERROR;"),
		ROW("watch\r\nrefresh_certs\r\nbget k\r\n", "! ERROR;! ERROR;! ERROR;"),
		ROW("\xff\r\nsettings\r\nsetx k 0 0 1\r\n", "! ERROR;! ERROR;! ERROR;"),
		/* The tokens after the 23rd do not count. */
		ROW("quit 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5\r\n", "quit;"),
		ROW("GET / HTTP/1.1\r\nget a\r\n", "! - (close);"),
		ROW("POST / HTTP/\r\n", "! - (close);"),
		ROW("HTTP/1.1 x\r\nincr HTTP/1.1\r\n", "! ERROR;! ERROR;"),
		ROW("\x80\x00", "! CLIENT_ERROR the binary protocol is not supported (close);"),
		ROW("get \x80\r\n \x80x\r\n", "get \\80;! ERROR;"),
	};

	(void)state;
	ASSERT_ROWS(rows);
}

static void meta(void **state)
{
	static const struct row rows[] = {
		ROW("mg k\r\n", "mg k  text=k;"),
		ROW("mg k t v c f h l s k q u\n", "mg k tvcfhlskqu text=k;"),
		ROW("mg k v O1234567890123456789012345678901\r\n",
		    "mg k vO text=k opaque=O1234567890123456789012345678901;"),
		ROW("mg k O N30 R-5 T0\r\n", "mg k ONRT text=k opaque=O vivify=30 recache=-5;"),
		ROW("mg k vx Pa Lb\r\n", "mg k vPL text=k;"),
		ROW("mg Zm9v b k\r\n", "mg foo bk text=Zm9v;"),
		ROW("mg AAoN b\r\n", "mg \\00\\0a\\0d b text=AAoN;"),
		ROW("mg +/8= b\r\n", "mg \\fb\\ff b text=+/8=;"),
		ROW("mg YQ== b\r\n", "mg a b text=YQ==;"),
		/* The 17 flags that there may be. */
		ROW("mg k t v c f h l s k q u I O F1 C2 T3 N4 R5\r\n",
		    "mg k t3 cas2 tvcfhlskquIOFCTNR text=k opaque=O vivify=4 recache=5;"),
		ROW("ms k 2\r\nhi\r\nmn\r\n", "ms k f0 n2  text=k;mn ;"),
		ROW("ms k 2 T90 F5 I q O9 k c\r\nhi\r\n", "ms k t90 f5 n2 TFIqOkc text=k "
							  "opaque=O9;"),
		ROW("ms Zm9v 2 b MA\r\nhi\r\n", "ms:4 foo f0 n2 bM text=Zm9v;"),
		ROW("ms k 0 ME\r\n\r\nms k 0 MP\r\n\r\n", "ms:1 k f0 n0 M text=k;"
							  "ms:5 k f0 n0 M text=k;"),
		ROW("ms k 0 MR\r\n\r\nms k 0 MS\r\n\r\n", "ms:2 k f0 n0 M text=k;"
							  "ms k f0 n0 M text=k;"),
		ROW("ms k 0 C5\r\n\r\nms k 0 C5 MR\r\n\r\n", "ms:3 k f0 n0 cas5 C text=k;"
							     "ms:3 k f0 n0 cas5 CM text=k;"),
		ROW("ms k 0 C5 MA\r\n\r\nms k 0 ME C5\r\n\r\n", "ms:4 k f0 n0 cas5 CM text=k;"
								"ms:1 k f0 n0 cas5 MC text=k;"),
		ROW("md k\r\nmd k q I T5 C7 O k\r\n", "md k  text=k;"
						      "md k t5 cas7 qITCOk text=k opaque=O;"),
		ROW("ma k\r\nma k MI\r\nma k M+\r\n", "ma k d1  text=k;ma k d1 M text=k;"
						      "ma k d1 M text=k;"),
		ROW("ma k MD D5 J9 N0 t v\r\n", "ma:1 k d5 MDJNtv text=k initial=9;"),
		ROW("ma k M- D0\r\n", "ma:1 k d0 MD text=k;"),
		ROW("mn\r\nmn k x y\r\n", "mn ;mn ;"),
		ROW("me k\r\nme Zm9v b\r\nme k v b\r\n", "me k  text=k;me foo  text=Zm9v;"
							 "me k  text=k;"),
	};

	(void)state;
	ASSERT_ROWS(rows);
}

static void meta_refused(void **state)
{
	static const struct row rows[] = {
		ROW("mg\r\nms\r\nmd\r\nma\r\n", "! ERROR;! ERROR;! ERROR;! ERROR;"),
		ROW("me\r\nme x=== b\r\n", BAD_LINE ";" BAD_LINE ";"),
		ROW("mg k v v\r\n", "! CLIENT_ERROR duplicate flag;"),
		ROW("mg k \xff\r\nmg k \x7f\r\n", "! CLIENT_ERROR duplicate flag;"
						  "! CLIENT_ERROR duplicate flag;"),
		ROW("mg k x\r\nmg k 0\r\nmg k ~ ~\r\n", "! CLIENT_ERROR invalid flag;"
							"! CLIENT_ERROR invalid flag;"
							"! CLIENT_ERROR invalid flag;"),
		ROW("mg k E1\r\nmg k S1\r\n", "! CLIENT_ERROR invalid flag;"
					      "! CLIENT_ERROR invalid flag;"),
		ROW("mg k Tx\r\nmg k N\r\n", BAD_TOKEN ";" BAD_TOKEN ";"),
		ROW("mg k R1.5\r\nmg k C-1\r\n", BAD_TOKEN ";" BAD_TOKEN ";"),
		ROW("mg k F4294967296\r\nmg k Tx F-1\r\n", BAD_LINE ";" BAD_TOKEN ";"),
		ROW("mg k Fx Tx\r\nmg k Tx x\r\n", BAD_TOKEN ";! CLIENT_ERROR invalid flag;"),
		ROW("mg k M\r\nmg k MAA\r\n", "! CLIENT_ERROR incorrect length for M token;"
					      "! CLIENT_ERROR incorrect length for M token;"),
		ROW("mg k J\r\nmg k D-1\r\n", "! CLIENT_ERROR invalid numeric initial value;"
					      "! CLIENT_ERROR invalid numeric delta value;"),
		ROW("mg k O12345678901234567890123456789012\r\n",
		    "! CLIENT_ERROR opaque token too long;"),
		ROW("mg abc b\r\nmg ==== b\r\n", "! CLIENT_ERROR error decoding key;"
						 "! CLIENT_ERROR error decoding key;"),
		ROW("mg YW b\r\nmg AAAAA=== b\r\n", "! CLIENT_ERROR error decoding key;"
						    "! CLIENT_ERROR error decoding key;"),
		ROW("mg A=== b\r\nmg Zm=v b\r\n", "! CLIENT_ERROR error decoding key;"
						  "! CLIENT_ERROR error decoding key;"),
		ROW("mg Zm9- b\r\nmg YQ==Zm9v b\r\n", "! CLIENT_ERROR error decoding key;"
						      "! CLIENT_ERROR error decoding key;"),
		ROW("mg k t v c f h l s k q u I O F1 C2 T3 N4 R5 MI\r\n",
		    "! CLIENT_ERROR options flags are too long;"),
		ROW("md k 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8\r\n",
		    "! CLIENT_ERROR options flags too long;"),
		ROW("ms k 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8\r\nmn\r\n",
		    "! CLIENT_ERROR options flags too long;mn ;"),
		ROW("ms k\r\nms k x\r\n", BAD_LINE ";" BAD_LINE ";"),
		ROW("ms k -1\r\nms k 2147483646\r\n", BAD_LINE ";" BAD_LINE ";"),
		ROW("ms k S2\r\nms k 2147483645 x\r\n",
		    BAD_LINE ";! CLIENT_ERROR invalid flag (swallow 2147483647);"),
		ROW("ms k 2 Tx\r\nmn\r\nmn\r\n", BAD_TOKEN " (swallow 4);mn ;"),
		ROW("ms k 2 Mx\r\nmn\r\nmn\r\n",
		    "! CLIENT_ERROR invalid mode for ms M token (swallow 4);mn ;"),
		ROW("ms k 0 O12345678901234567890123456789012\r\n\r\nmn\r\n",
		    "! CLIENT_ERROR opaque token too long (swallow 2);mn ;"),
		ROW("md k x\r\nmd k q q\r\n", BAD_FLAGS ";" BAD_FLAGS ";"),
		ROW("ma k Tx\r\nma abc b\r\n", BAD_FLAGS ";" BAD_FLAGS ";"),
		ROW("ma k Mx\r\n", "! CLIENT_ERROR invalid mode for ma M token;"),
		ROW("ma k O12345678901234567890123456789012\r\n",
		    "! CLIENT_ERROR opaque token too long;"),
	};

	(void)state;
	ASSERT_ROWS(rows);
}

/* Copies @text with @count letters in place of each '%'. */
static void spell(char *to, const char *text, size_t count)
{
	for (; *text; text++) {
		size_t n = *text == '%' ? count : 1;

		memset(to, *text == '%' ? 'x' : *text, n);
		to += n;
	}
	*to = 0;
}

static void assert_long(const char *text, size_t count, const char *commands)
{
	static char line[4096], expected[4096];

	spell(line, text, count);
	spell(expected, commands, count);
	assert_commands(line, strlen(line), expected);
}

static void key_lengths(void **state)
{
	static const char *const lines[] = {
		"set % 0 0 1\r\n", "cas % 0 0 1 1\r\n", "incr % 1\r\n", "delete %\r\n",
		"touch % 1\r\n",   "mg %\r\n",		"ms % 1 x\r\n", "md %\r\n",
		"ma %\r\n",	   "me %\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_long(lines[i], KEY_LEN + 1, BAD_LINE ";");
	assert_long("set % 0 0 0 noreply\r\n", KEY_LEN + 1, BAD_LINE " (noreply);");
	assert_long("delete %\r\n", KEY_LEN, "delete %;");
	assert_long("mg %\r\n", KEY_LEN, "mg %  text=%;");
	assert_long("get %\r\n", KEY_LEN, "get %;");
	assert_long("get % a\n", KEY_LEN, "get % +;get a;");
	assert_long("get %\r\nmn\r\n", KEY_LEN + 1, BAD_LINE ";mn ;");
	assert_long("get a % b\nmn\r\n", KEY_LEN + 1, "get a +;" BAD_LINE ";mn ;");
	assert_long("get a %\r\nmn\r\n", KEY_LEN + 9, "get a +;" BAD_LINE ";mn ;");
	assert_long("get a %\r", KEY_LEN, "get a +;");
	assert_long("get a %\rb\r\n", KEY_LEN, "get a +;" BAD_LINE ";");
	assert_long("get a %\r\r\n", KEY_LEN, "get a +;" BAD_LINE ";");
}

/* A line but a get has 2,048 bytes at most before its \n. */
static void line_lengths(void **state)
{
	(void)state;
	assert_long("quit %\nmn\n", MC_LINE_MAX - 5, "quit;mn ;");
	assert_long("quit %\r\nmn\n", MC_LINE_MAX - 6, "quit;mn ;");
	assert_long("quit %\nmn\n", MC_LINE_MAX - 4, "! CLIENT_ERROR line too long (close);");
	assert_long("%", MC_LINE_MAX, "");
	assert_long("%", MC_LINE_MAX + 1, "! CLIENT_ERROR line too long (close);");
	assert_long("gat % 1 a\n", MC_LINE_MAX - 3, "! CLIENT_ERROR line too long (close);");
	assert_long("gat % 1 a\nmn\n", MC_LINE_MAX - 4, BAD_TIME ";mn ;");
}

static void any_number_of_keys(void **state)
{
	size_t len = 4, keys = 4000;
	char *line = malloc(keys * 8), *fed;

	(void)state;
	memcpy(line, "get ", len);
	for (size_t i = 0; i < keys; i++)
		len += (size_t)sprintf(line + len, "k%zu ", i);
	line[len - 1] = '\n';
	for (size_t step = 1; step <= len; step += len - 1) {
		const char *p;

		fed = mc_feed((const uint8_t *)line, len, 0, step, KEY_LEN);
		p = fed;
		for (size_t i = 0; i < keys; i++) {
			char expected[32];

			snprintf(expected, sizeof(expected), "get k%zu%s;", i,
				 i + 1 < keys ? " +" : "");
			assert_memory_equal(p, expected, strlen(expected));
			p += strlen(expected);
		}
		assert_string_equal(p, "");
		free(fed);
	}
	/* Spaces are no token that might be too long. */
	memset(line, ' ', len);
	memcpy(line, "get a", 5);
	memcpy(line + len - 2, "b\n", 2);
	fed = mc_feed((const uint8_t *)line, len, 0, 1, KEY_LEN);
	assert_string_equal(fed, "get a +;get b;");
	free(fed);
	free(line);
}

static void longest_keys(void **state)
{
	struct mc_parser parser = { .key_max = KEY_MAX };
	struct mc_command command;
	char line[KEY_MAX + 16];

	(void)state;
	memset(line, 'A', sizeof(line));
	memcpy(line, "mg ", 3);
	memcpy(line + 3 + KEY_MAX, " b\r\n", 4);
	assert_int_equal(mc_parse(&parser, &command, line, sizeof(line)), KEY_MAX + 7);
	assert_int_equal(command.op, MC_META_GET);
	assert_int_equal(command.key_len, sizeof(command.decoded));
	for (uint32_t i = 0; i < command.key_len; i++)
		assert_int_equal(command.key[i], 0);
	parser.key_max = KEY_MAX - 1;
	assert_int_equal(mc_parse(&parser, &command, line, sizeof(line)), KEY_MAX + 7);
	assert_int_equal(command.op, MC_REFUSED);
}

static void ttl(void **state)
{
	const int64_t now_s = 1700000000, month_s = 30 * 24 * 3600;

	(void)state;
	assert_int_equal(mc_ttl(0, now_s), 0);
	assert_int_equal(mc_ttl(1, now_s), 1);
	assert_int_equal(mc_ttl(month_s, now_s), month_s);
	assert_int_equal(mc_ttl(month_s + 1, now_s), MC_EXPIRED);
	assert_int_equal(mc_ttl(now_s, now_s), MC_EXPIRED);
	assert_int_equal(mc_ttl(now_s + 1, now_s), 1);
	assert_int_equal(mc_ttl(now_s + month_s + 1, now_s), month_s + 1);
	assert_int_equal(mc_ttl(now_s + WIRE_TTL_MAX + 1ll, now_s), WIRE_TTL_MAX);
	assert_int_equal(mc_ttl(INT64_MAX, now_s), WIRE_TTL_MAX);
	assert_int_equal(mc_ttl(-1, now_s), MC_EXPIRED);
	assert_int_equal(mc_ttl(INT64_MIN + 1, now_s), MC_EXPIRED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gets_of_keys),
		cmocka_unit_test(stores),
		cmocka_unit_test(other_classic),
		cmocka_unit_test(unknown),
		cmocka_unit_test(meta),
		cmocka_unit_test(meta_refused),
		cmocka_unit_test(key_lengths),
		cmocka_unit_test(line_lengths),
		cmocka_unit_test(any_number_of_keys),
		cmocka_unit_test(longest_keys),
		cmocka_unit_test(ttl),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
