/* SPDX-License-Identifier: MIT */
/* kvctl: get, put and delete keys by hand, and look at a server. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/clock.h"

#define STATS_BYTES (64u << 10)
#define EXIT_NOT_FOUND 1
#define READ_BYTES_FIRST 65536u

struct arguments {
	const char *url;
	struct kvd_options options;
	bool hex; /* the key is given in hexadecimal */
	uint32_t flags;
	unsigned long count; /* of pings */
	char **words;	     /* the command's */
	int word_count;
};

struct key {
	uint8_t bytes[KVD_KEY_MAX + 1];
	size_t len;
};

static void usage(FILE *out)
{
	fputs("Usage: kvctl [-a URL] [options] COMMAND\n"
	      "\n"
	      "  get KEY        write the value of KEY to the standard output\n"
	      "  put KEY VALUE  store VALUE; without VALUE, or with -, the standard input\n"
	      "  del KEY        remove KEY\n"
	      "  stats          print the server's statistics\n"
	      "  info           print what the connection is made of\n"
	      "  ping           ask the server for a sign of life\n"
	      "\n"
	      "  -a URL   rdma://HOST:PORT or softnic:///PATH (default: $KVD_URL, else\n"
	      "           softnic:///run/kvd/kvd.sock)\n"
	      "  -x       KEY is given in hexadecimal\n"
	      "  -f N     put: store the flags N with the value\n"
	      "  -c N     ping: N times (default 1)\n"
	      "  -t MS    longest time for a call in milliseconds (default 2000)\n"
	      "  -V, -h   print the version, this\n"
	      "\n"
	      "Exit status: 0 done, 1 no such key, 64 bad usage, 69 server unavailable,\n"
	      "70 the call failed.\n",
	      out);
}

static _Noreturn void usage_error(const char *what, const char *arg)
{
	fprintf(stderr, "kvctl: %s: %s. Try kvctl -h.\n", arg, what);
	exit(EX_USAGE);
}

static unsigned long parse_number(const char *text, unsigned long min, unsigned long max)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || n < min || n > max)
		usage_error("not a number in range", text);
	return n;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at;

	at = strchr(digits, c | ('A' <= c && c <= 'F' ? 0x20 : 0));
	return at && c ? (int)(at - digits) : -1;
}

static void parse_hex(struct key *key, const char *text)
{
	size_t i, digits = strlen(text);

	if (!digits || digits % 2 || digits / 2 > KVD_KEY_MAX)
		usage_error("not 1 to 1024 bytes in hexadecimal", text);
	for (i = 0; i < digits; i += 2) {
		int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);

		if (high < 0 || low < 0)
			usage_error("not hexadecimal", text);
		key->bytes[key->len++] = (uint8_t)(high << 4 | low);
	}
}

static void parse_key(struct key *key, const struct arguments *arguments)
{
	const char *text = arguments->words[1];

	key->len = 0;
	if (arguments->hex) {
		parse_hex(key, text);
		return;
	}
	key->len = strlen(text);
	if (key->len < 1 || key->len > KVD_KEY_MAX)
		usage_error("a key has 1 to 1024 bytes", text);
	memcpy(key->bytes, text, key->len);
}

static int report(const struct kvd *db, enum kvd_status status)
{
	const char *more = kvd_error(db);

	if (status == KVD_OK)
		return EX_OK;
	if (status == KVD_NOT_FOUND) {
		fputs("kvctl: not found\n", stderr);
		return EXIT_NOT_FOUND;
	}
	fprintf(stderr, "kvctl: %s%s%s\n", kvd_status_text(status), *more ? ": " : "", more);
	return EX_SOFTWARE;
}

static int write_all(const uint8_t *p, size_t bytes)
{
	if (fwrite(p, 1, bytes, stdout) != bytes || fflush(stdout)) {
		fprintf(stderr, "kvctl: standard output: %s\n", strerror(errno));
		return EX_IOERR;
	}
	return EX_OK;
}

/* The first call tells how much room the value needs, if what there is does not do. */
static int command_get(struct kvd *db, const struct arguments *arguments)
{
	size_t size = READ_BYTES_FIRST;
	enum kvd_status status;
	struct kvd_item item;
	struct key key;
	uint8_t *value = NULL, *grown;
	int code;

	parse_key(&key, arguments);
	for (;;) {
		grown = realloc(value, size);
		if (!grown) {
			free(value);
			fprintf(stderr, "kvctl: no memory for a value of %zu bytes\n", size);
			return EX_OSERR;
		}
		value = grown;
		status = kvd_get(db, key.bytes, key.len, value, size, &item);
		if (status != KVD_ERR_BUFFER)
			break;
		size = item.value_len;
	}
	code = report(db, status);
	if (!code)
		code = write_all(value, item.value_len);
	if (!code && isatty(STDOUT_FILENO))
		putchar('\n');
	free(value);
	return code;
}

/* Reads the standard input to its end. */
static uint8_t *read_input(size_t *len)
{
	size_t size = READ_BYTES_FIRST, n;
	uint8_t *bytes = malloc(size), *grown;

	*len = 0;
	while (bytes && (n = fread(bytes + *len, 1, size - *len, stdin)) > 0) {
		*len += n;
		if (*len < size)
			continue;
		size *= 2;
		if (size > 2ull * KVD_VALUE_MAX)
			break;
		grown = realloc(bytes, size);
		if (!grown)
			free(bytes);
		bytes = grown;
	}
	return bytes;
}

static int command_put(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_put_args args = { .flags = arguments->flags };
	const char *word = arguments->word_count > 2 ? arguments->words[2] : "-";
	bool input = !strcmp(word, "-");
	uint8_t *read = NULL;
	struct key key;
	size_t len;
	int code;

	parse_key(&key, arguments);
	if (input) {
		read = read_input(&len);
		if (!read) {
			fputs("kvctl: no memory for the value\n", stderr);
			return EX_OSERR;
		}
	} else {
		len = strlen(word);
	}
	code = report(db, kvd_put(db, key.bytes, key.len, input ? (const void *)read : word, len,
				  &args, NULL));
	free(read);
	return code;
}

static int command_del(struct kvd *db, const struct arguments *arguments)
{
	struct key key;

	parse_key(&key, arguments);
	return report(db, kvd_delete(db, key.bytes, key.len));
}

static int command_stats(struct kvd *db, const struct arguments *arguments)
{
	static char text[STATS_BYTES];
	enum kvd_status status = kvd_server_stats(db, text, sizeof(text), NULL);

	(void)arguments;
	if (!status)
		fputs(text, stdout);
	return report(db, status);
}

static int command_info(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_info info;

	(void)arguments;
	kvd_info(db, &info);
	printf("device.kind %s\ndevice.name %s\ndevice.why %s\n", info.device_kind,
	       info.device_name, info.device_why);
	printf("incarnation %016llx\nregion_bytes %llu\nvalue_max %llu\n",
	       (unsigned long long)info.incarnation, (unsigned long long)info.region_bytes,
	       (unsigned long long)info.value_max);
	printf("window %u\nrequest_bytes %u\ncache_bytes %zu\n", info.window, info.request_bytes,
	       info.cache_bytes);
	return EX_OK;
}

static int command_ping(struct kvd *db, const struct arguments *arguments)
{
	enum kvd_status status = KVD_OK;
	unsigned long i;
	uint64_t start;

	for (i = 0; !status && i < arguments->count; i++) {
		start = clock_ns();
		status = kvd_ping(db);
		if (!status)
			printf("pong from %s: %.1f us\n", arguments->url,
			       (double)(clock_ns() - start) / 1e3);
	}
	return report(db, status);
}

static const struct {
	const char *name;
	int words_min, words_max; /* the command itself included */
	int (*run)(struct kvd *db, const struct arguments *arguments);
} commands[] = {
	{ "get", 2, 2, command_get },	{ "put", 2, 3, command_put },
	{ "del", 2, 2, command_del },	{ "stats", 1, 1, command_stats },
	{ "info", 1, 1, command_info }, { "ping", 1, 1, command_ping },
};

static void parse_arguments(struct arguments *arguments, int argc, char **argv)
{
	int option;

	kvd_options_init(&arguments->options);
	arguments->count = 1;
	arguments->url = getenv("KVD_URL");
	if (!arguments->url)
		arguments->url = "softnic:///run/kvd/kvd.sock";
	while ((option = getopt(argc, argv, "+a:xf:c:t:Vh")) != -1) {
		switch (option) {
		case 'a':
			arguments->url = optarg;
			break;
		case 'x':
			arguments->hex = true;
			break;
		case 'f':
			arguments->flags = (uint32_t)parse_number(optarg, 0, UINT32_MAX);
			break;
		case 'c':
			arguments->count = parse_number(optarg, 1, 1000000000);
			break;
		case 't':
			arguments->options.timeout_ms = (uint32_t)parse_number(optarg, 1, 3600000);
			arguments->options.connect_timeout_ms = arguments->options.timeout_ms;
			break;
		case 'V':
			printf("kvctl %s\n", kvd_version());
			exit(EX_OK);
		case 'h':
			usage(stdout);
			exit(EX_OK);
		default:
			fputs("Try kvctl -h.\n", stderr);
			exit(EX_USAGE);
		}
	}
	arguments->words = argv + optind;
	arguments->word_count = argc - optind;
}

static int run_command(const struct arguments *arguments,
		       int (*command)(struct kvd *, const struct arguments *))
{
	struct kvd *db;
	int code;

	if (kvd_open(&db, arguments->url, &arguments->options)) {
		fprintf(stderr, "kvctl: %s\n", kvd_error(NULL));
		return EX_UNAVAILABLE;
	}
	code = command(db, arguments);
	kvd_close(db);
	return code;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	size_t i;

	parse_arguments(&arguments, argc, argv);
	if (!arguments.word_count) {
		usage(stderr);
		return EX_USAGE;
	}
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(arguments.words[0], commands[i].name))
			continue;
		if (arguments.word_count < commands[i].words_min ||
		    arguments.word_count > commands[i].words_max)
			usage_error("wrong number of arguments", arguments.words[0]);
		return run_command(&arguments, commands[i].run);
	}
	usage_error("no such command", arguments.words[0]);
}
