/* SPDX-License-Identifier: MIT */
/*
 * kvtrace: makes traces of a cache's accesses, plays them against kvd, memcached or Redis, and
 * counts the hits that exact LRU would have. For bench/hit-ratio.sh.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/kvtrace/replay.h"
#include "bench/kvtrace/lru.h"
#include "bench/kvtrace/synth.h"
#include "common/util/parse.h"
#include "common/util/streams.h"

enum exit_status { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct arguments {
	const char *command;
	const char *path;
	struct trace_format format;
	struct replay_options replay;
	struct lru_limits lru;
	struct synth_shape shape;
	uint64_t accesses, scan_percent;
	const char *db_name, *url;
	bool cache_given;
};

static const char help_text[] =
	"Usage: kvtrace make -n ACCESSES -k KEYS [-s SIZE[-SIZE]] [-p PERCENT] [-r RUN]\n"
	"               [-D ACCESSES] [-S SEED]\n"
	"       kvtrace play -a URL [-d DB] [-B BATCH] [-w ACCESSES] [-c BYTES] [-R RATE]\n"
	"               [-t MS] [columns] FILE\n"
	"       kvtrace lru [-i ITEMS] [-b BYTES] [-o BYTES] [-w ACCESSES] [columns] FILE\n"
	"\n"
	"make  print a trace: zipfian accesses (0.99) to KEYS keys\n"
	"  -s  bytes of a value; with a range, each key has a fixed size in it (100)\n"
	"  -p  percent of the accesses that are scans of RUN keys, each used only once (0)\n"
	"  -r  keys of one scan (1000)\n"
	"  -D  accesses after which a new key becomes the most popular one (never)\n"
	"  -S  seed of the random numbers (1)\n"
	"play  play FILE (-: standard input) against a server: GET; after a miss, PUT\n"
	"  -d  the store: kvd (the default), memcached or redis\n"
	"  -a  the store's address; default: $KVD_URL, for kvd else its own default:\n";

static const char help_rest[] =
	"  -B  GETs that are sent together (1)\n"
	"  -c  bytes of libkvd's bucket cache (32m); only for -d kvd\n"
	"  -R  accesses per second, at most\n"
	"  -t  timeout of a connection or call, in ms (kvd_options_init() in client/kvd.h)\n"
	"lru   report how many accesses of FILE exact LRU would hit\n"
	"  -i  items it has room for\n"
	"  -b  bytes it has room for\n"
	"  -o  bytes of an item without its value (0)\n"
	"play and lru\n"
	"  -w  accesses before hits are counted (0)\n"
	"  -K  column of the key in FILE, from 1 (1)\n"
	"  -Z  column of the size (2)\n"
	"  -T  keys are text, not numbers\n"
	"  -s  size of a value where FILE has none (100)\n"
	"\n"
	"bench/kvtrace/trace.h describes the format of FILE.\n"
	"Exit status: 0 success; 1 wrong values, a bad trace or a failed operation;\n"
	"2 wrong usage.\n";

static void help(FILE *out)
{
	fputs(help_text, out);
	db_help(out);
	fputs(help_rest, out);
}

/* Flushes the output. EXIT_WRONG, after printing why, if it could not be written. */
static enum exit_status output_flush(void)
{
	return streams_flush("kvtrace") ? EXIT_WRONG : EXIT_FINE;
}

static int usage_error(const char *what, const char *why)
{
	fprintf(stderr, "kvtrace: %s%s%s; see kvtrace -h\n", what, *why ? ": " : "", why);
	return -EINVAL;
}

static int take_number(int option, const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	const char name[] = { '-', (char)option, '\0' };
	struct parse_why why;

	/* Sizes are numbers with an optional unit. */
	return parse_size(text, min, max, number, &why) ? usage_error(name, why.text) : 0;
}

static int take_column(int option, const char *text, uint32_t *column)
{
	uint64_t number;
	int error = take_number(option, text, 1, TRACE_COLUMN_MAX, &number);

	if (!error)
		*column = (uint32_t)number;
	return error;
}

static int take_batch(struct arguments *arguments, const char *text)
{
	uint64_t number;
	int error = take_number('B', text, 1, REPLAY_BATCH_MAX, &number);

	if (!error)
		arguments->replay.batch = (unsigned int)number;
	return error;
}

static int take_timeout(struct arguments *arguments, const char *text)
{
	uint64_t number;
	int error = take_number('t', text, 1, UINT32_MAX - 1, &number);

	if (!error)
		arguments->replay.timeout_ms = (uint32_t)number;
	return error;
}

/* SIZE or MIN-MAX. */
static int take_sizes(struct arguments *arguments, const char *text)
{
	const size_t len = strcspn(text, "-");
	uint64_t min, max;
	char first[32];

	if (len >= sizeof(first))
		return usage_error("-s", "no size");
	memcpy(first, text, len);
	first[len] = '\0';
	if (take_number('s', first, 0, TRACE_SIZE_MAX, &min) ||
	    (text[len] && take_number('s', text + len + 1, min, TRACE_SIZE_MAX, &max)))
		return -EINVAL;
	arguments->shape.size_min = (uint32_t)min;
	arguments->shape.size_max = text[len] ? (uint32_t)max : (uint32_t)min;
	arguments->format.size_default = (uint32_t)min;
	return 0;
}

static int take_option(struct arguments *a, int option, const char *text)
{
	switch (option) {
	case 'a':
		a->url = text;
		return 0;
	case 'b':
		return take_number(option, text, 1, UINT64_MAX, &a->lru.bytes);
	case 'B':
		return take_batch(a, text);
	case 'c':
		a->cache_given = true;
		return take_number(option, text, 0, UINT64_MAX, &a->replay.cache_bytes);
	case 'd':
		a->db_name = text;
		return 0;
	case 'D':
		return take_number(option, text, 1, UINT64_MAX, &a->shape.drift);
	case 'i':
		return take_number(option, text, 1, LRU_ITEMS_MAX, &a->lru.items);
	case 'k':
		return take_number(option, text, 1, SYNTH_KEYS_MAX, &a->shape.keys);
	case 'K':
		return take_column(option, text, &a->format.key_column);
	case 'n':
		return take_number(option, text, 1, UINT64_MAX, &a->accesses);
	case 'o':
		return take_number(option, text, 0, TRACE_SIZE_MAX, &a->lru.item_overhead);
	case 'p':
		return take_number(option, text, 0, 99, &a->scan_percent);
	case 'r':
		return take_number(option, text, 1, SYNTH_KEYS_MAX, &a->shape.scan_run);
	case 'R':
		return take_number(option, text, 1, 1000000000, &a->replay.rate);
	case 's':
		return take_sizes(a, text);
	case 'S':
		return take_number(option, text, 0, UINT32_MAX, &a->shape.seed);
	case 't':
		return take_timeout(a, text);
	case 'T':
		a->format.text_keys = true;
		return 0;
	case 'w':
		return take_number(option, text, 0, UINT64_MAX, &a->replay.warmup);
	case 'Z':
		return take_column(option, text, &a->format.size_column);
	case 'h':
		help(stdout);
		exit(output_flush());
	default: /* getopt has printed the error */
		return -EINVAL;
	}
}

static int arguments_parse(struct arguments *arguments, int argc, char **argv)
{
	int option, error;

	while ((option = getopt(argc, argv, "a:b:B:c:d:D:hi:k:K:n:o:p:r:R:s:S:t:Tw:Z:")) != -1) {
		error = take_option(arguments, option, optarg);
		if (error)
			return error;
	}
	if (optind == argc)
		return usage_error("give a command: make, play or lru", "");
	arguments->command = argv[optind++];
	if (optind < argc)
		arguments->path = argv[optind++];
	return optind < argc ? usage_error("one argument too many", argv[optind]) : 0;
}

static enum exit_status make(struct arguments *arguments)
{
	static struct synth synth;
	struct trace_access access;
	uint64_t i;

	if (!arguments->accesses || !arguments->shape.keys) {
		usage_error("make", "-n and -k are needed");
		return EXIT_USAGE;
	}
	if (arguments->path) {
		usage_error("make", "it takes no FILE, and prints the trace");
		return EXIT_USAGE;
	}
	arguments->shape.scan_share = (double)arguments->scan_percent / 100;
	synth_init(&synth, &arguments->shape);
	for (i = 0; i < arguments->accesses && !ferror(stdout); i++) {
		synth_next(&synth, &access);
		printf("%" PRIu64 " %" PRIu32 "\n", access.key, access.size);
	}
	return output_flush();
}

static void print_hits(uint64_t accesses, uint64_t hits)
{
	printf("accesses %" PRIu64 "\nhits %" PRIu64 "\nhit_percent %.3f\n", accesses, hits,
	       accesses ? 100.0 * (double)hits / (double)accesses : 0);
}

static enum exit_status play(const struct arguments *arguments, struct trace *trace)
{
	struct replay_result result;

	if (replay_run(trace, &arguments->replay, &result))
		return EXIT_WRONG;
	print_hits(result.accesses, result.hits);
	printf("not_stored %" PRIu64 "\nresized %" PRIu64 "\nwrong %" PRIu64 "\n",
	       result.not_stored, result.resized, result.wrong);
	printf("cut %" PRIu64 "\nseconds %.3f\n", trace->cut, (double)result.elapsed_ns / 1e9);
	return result.wrong ? EXIT_WRONG : output_flush();
}

static enum exit_status lru(const struct arguments *arguments, struct trace *trace)
{
	uint64_t done = 0, accesses = 0, hits = 0;
	struct trace_access access;
	struct lru lru;
	int result;

	lru_init(&lru, &arguments->lru);
	while ((result = trace_next(trace, &access)) == 1) {
		const bool counted = done++ >= arguments->replay.warmup;

		result = lru_access(&lru, access.key, access.size);
		if (result < 0)
			break;
		accesses += counted;
		hits += counted && result;
	}
	if (result) {
		fprintf(stderr, "kvtrace: %s\n",
			result == -ENOMEM ? "out of memory" : trace->error);
	} else {
		print_hits(accesses, hits);
		printf("items %" PRIu64 "\nbytes %" PRIu64 "\n", lru.count, lru.bytes);
	}
	lru_release(&lru);
	return result ? EXIT_WRONG : output_flush();
}

static enum exit_status with_trace(const struct arguments *arguments,
				   enum exit_status (*work)(const struct arguments *,
							    struct trace *))
{
	static struct trace trace;
	enum exit_status status;

	if (!arguments->path) {
		usage_error(arguments->command, "a FILE is needed");
		return EXIT_USAGE;
	}
	if (trace_open(&trace, arguments->path, &arguments->format)) {
		fprintf(stderr, "kvtrace: %s\n", trace.error);
		return EXIT_WRONG;
	}
	status = work(arguments, &trace);
	trace_close(&trace);
	return status;
}

static int target_take(struct arguments *arguments)
{
	struct db_target *target = &arguments->replay.target;
	char error[DB_ERROR_MAX];

	if (db_target_parse(target, arguments->db_name, arguments->url, error))
		return usage_error("play", error);
	if (arguments->cache_given && target->backend != &db_kvd)
		return usage_error("play", "-c is for -d kvd only: others have no bucket cache");
	return 0;
}

int main(int argc, char **argv)
{
	struct arguments arguments = {
		.format = TRACE_FORMAT_DEFAULT,
		.replay = { .cache_bytes = 32 << 20, .batch = 1 },
		.shape = { .scan_run = 1000, .size_min = 100, .size_max = 100, .seed = 1 },
	};

	if (streams_init("kvtrace"))
		return EXIT_WRONG;
	if (arguments_parse(&arguments, argc, argv))
		return EXIT_USAGE;
	if (!strcmp(arguments.command, "make"))
		return make(&arguments);
	if (!strcmp(arguments.command, "play"))
		return target_take(&arguments) ? EXIT_USAGE : with_trace(&arguments, play);
	if (!strcmp(arguments.command, "lru"))
		return with_trace(&arguments, lru);
	usage_error("no such command", arguments.command);
	return EXIT_USAGE;
}
