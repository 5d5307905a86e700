/* SPDX-License-Identifier: MIT */
/* kvctl: the command line tool that reads and changes keys, and prints statistics of a server. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "client/kvd.h"
#include "common/tls/tls.h"
#include "common/util/clock.h"
#include "common/util/parse.h"

#define STATS_BYTES (64u << 10)
#define CLIENTS_BYTES (32u << 20) /* 256 for each of the most connections that a server takes */
#define EXIT_NOT_FOUND 1
#define EXIT_EXISTS 2
#define EXIT_NOT_A_NUMBER 3
#define READ_BYTES_FIRST 65536u

struct arguments {
	const char *url;
	bool given; /* the URL, and not taken by default */
	bool timeout_given;
	struct kvd_options options;
	bool hex; /* keys are given, and printed, in hexadecimal */
	bool request;
	bool verbose;
	bool create; /* incr, decr: store `initial` if the key does not exist */
	uint64_t initial;
	uint32_t flags;
	uint32_t ttl_s;
	uint32_t pin_s;
	enum kvd_priority priority;
	unsigned long count; /* of pings */
	char **words;	     /* the command and its arguments */
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
	      "  get KEY                 write the value of KEY to the standard output\n"
	      "  gat KEY TTL             the same, and set its time to live to TTL seconds\n"
	      "  put KEY [VALUE]         store VALUE; without VALUE, or with -, store the\n"
	      "                          standard input\n"
	      "  add KEY [VALUE]         as put, but only if KEY does not exist\n"
	      "  replace KEY [VALUE]     as put, but only if KEY exists\n"
	      "  cas KEY VERSION [VALUE] as put, but only if KEY has this version; -v get\n"
	      "                          prints it\n"
	      "  append, prepend KEY [VALUE]\n"
	      "                          add VALUE behind or before the existing value\n"
	      "  incr, decr KEY [N]      add N (default 1) to the number under KEY, or subtract\n"
	      "                          it, and print the result\n"
	      "  touch KEY TTL           set the time to live of KEY to TTL seconds; 0: it\n"
	      "                          never expires\n"
	      "  del KEY                 remove KEY\n"
	      "  scan [PREFIX]           print all keys, or those that begin with PREFIX\n"
	      "  flush [DELAY]           remove all keys and wait until that is done; with\n"
	      "                          DELAY: in so many seconds, without waiting\n"
	      "  stats                   print the server's statistics, which kvd --help\n"
	      "                          explains\n"
	      "  clients                 print the server's connections, one a line\n"
	      "  kill ID                 close the connection with this id, as clients prints it\n"
	      "  revoke WHO              close all connections of WHO, at once, and print how\n"
	      "                          many: user=NAME, identity=NAME, uid=N, addr=ADDRESS or\n"
	      "                          id=N\n"
	      "  tenant list             print the server's tenants, one a line\n"
	      "  tenant create NAME SIZE, tenant resize NAME SIZE, tenant drop NAME\n"
	      "                          add a tenant, give it another size (4096, 64m, 2g), or\n"
	      "                          remove it with all of its keys\n"
	      "  info                    print the properties of the connection\n"
	      "  ping                    send an empty request and print how long it took\n"
	      "\n"
	      "  -a URL   rdma://HOST:PORT, rdma+tcp://HOST:PORT, rdma+tls://HOST:PORT or\n"
	      "           softnic:///PATH; default:\n"
	      "           $KVD_URL, else the socket of your own kvd,\n"
	      "           $XDG_RUNTIME_DIR/kvd/kvd.sock or /tmp/kvd-UID/kvd.sock, else the\n"
	      "           system's, /run/kvd/kvd.sock\n"
	      "  -x       keys are given and printed in hexadecimal\n"
	      "  -e TTL   put, add, replace, cas, and incr and decr with -i: time to live in\n"
	      "           seconds\n"
	      "  -f N     the same commands: store the flags N with the value\n"
	      "  -p SECONDS, --pin SECONDS\n"
	      "           put, add, replace: the server does not evict the item for so long\n"
	      "  -l, --low\n"
	      "           put, add, replace, cas: it evicts the item before others\n"
	      "  -i N     incr, decr: store N if KEY does not exist\n"
	      "  -r       get: send a request instead of reading the server's memory\n"
	      "  -v       get, gat: print length, version, flags and expiry time to the\n"
	      "           standard error; scan: print values, too, behind a tab\n"
	      "  -c N     ping: N times (default 1)\n"
	      "  -t MS    longest time for one call, and for connecting, in milliseconds\n"
	      "           (default 2000, 600000 for tenant, and 5000 for connecting)\n"
	      "  --tls-ca, --tls-certificate, --tls-key, --tls-psk FILE\n"
	      "           rdma+tls: whom you trust, and who you are (kvd_options in kvd.h); else\n"
	      "           $KVD_TLS_CA, $KVD_TLS_CERTIFICATE, $KVD_TLS_KEY, $KVD_TLS_PSK\n"
	      "  --tenant NAME\n"
	      "           the tenant whose keys these are; default: $KVD_TENANT, or as the\n"
	      "           server decides\n"
	      "  -V       print the version\n"
	      "  -h       print this help\n"
	      "\n"
	      "Exit status: 0 done, 1 the key does not exist, 2 the key exists or has another\n"
	      "version, 3 the value is not a number, 64 bad usage, 69 can't connect to the\n"
	      "server, 70 the call failed, 71 out of memory, 74 can't read the input\n"
	      "or write the output, 75 over a limit of your user, 77 not allowed, or the server\n"
	      "is not trusted, or does not trust you.\n",
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
	if (errno || *text < '0' || *text > '9' || *end || n < min || n > max)
		usage_error("not a number in the allowed range", text);
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
	if (status == KVD_ERR_EXISTS)
		return EXIT_EXISTS;
	if (status == KVD_ERR_NOT_ALLOWED)
		return EX_NOPERM;
	if (status == KVD_ERR_LIMIT)
		return EX_TEMPFAIL;
	return status == KVD_ERR_NOT_A_NUMBER ? EXIT_NOT_A_NUMBER : EX_SOFTWARE;
}

/* What was printed so far is written. EX_IOERR after printing why it could not be. */
static int output_flush(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return EX_OK;
	fprintf(stderr, "kvctl: standard output: %m\n");
	return EX_IOERR;
}

static void print_item(const struct kvd_item *item)
{
	fprintf(stderr, "length %zu version %llu flags %u expires %u\n", item->value_len,
		(unsigned long long)item->version, item->flags, item->expires_s);
}

static enum kvd_status get_once(struct kvd *db, const struct arguments *arguments,
				const struct key *key, uint8_t *value, size_t size,
				struct kvd_item *item)
{
	if (arguments->word_count > 2)
		return kvd_get_and_touch(db, key->bytes, key->len, arguments->ttl_s, value, size,
					 item);
	if (arguments->request)
		return kvd_get_by_request(db, key->bytes, key->len, value, size, item);
	return kvd_get(db, key->bytes, key->len, value, size, item);
}

/* If the buffer is too small for the value, the call returns its length. */
static int get(struct kvd *db, const struct arguments *arguments)
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
		status = get_once(db, arguments, &key, value, size, &item);
		if (status != KVD_ERR_BUFFER)
			break;
		size = item.value_len;
	}
	code = report(db, status);
	if (!code) {
		fwrite(value, 1, item.value_len, stdout);
		code = output_flush();
	}
	if (!code && isatty(STDOUT_FILENO))
		putchar('\n');
	if (!code && arguments->verbose)
		print_item(&item);
	free(value);
	return code;
}

static int command_get(struct kvd *db, const struct arguments *arguments)
{
	return get(db, arguments);
}

static uint32_t parse_ttl(const char *text)
{
	return (uint32_t)parse_number(text, 0, KVD_TTL_MAX);
}

static int command_gat(struct kvd *db, const struct arguments *arguments)
{
	struct arguments with = *arguments;

	with.ttl_s = parse_ttl(arguments->words[2]);
	return get(db, &with);
}

/* Reads the standard input to its end. NULL after printing why it could not. */
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
	if (!bytes) {
		fputs("kvctl: no memory for the value\n", stderr);
	} else if (ferror(stdin)) {
		fprintf(stderr, "kvctl: can't read the value from the standard input: %m\n");
		free(bytes);
		bytes = NULL;
	}
	return bytes;
}

/* Stores words[@at], or the standard input, as @args says. */
static int put(struct kvd *db, const struct arguments *arguments, int at,
	       const struct kvd_put_args *args)
{
	const char *word = arguments->word_count > at ? arguments->words[at] : "-";
	bool input = !strcmp(word, "-");
	uint8_t *read = NULL;
	struct key key;
	size_t len;
	int code;

	parse_key(&key, arguments);
	if (input) {
		read = read_input(&len);
		if (!read)
			return ferror(stdin) ? EX_IOERR : EX_OSERR;
	} else {
		len = strlen(word);
	}
	code = report(db, kvd_put(db, key.bytes, key.len, input ? (const void *)read : word, len,
				  args, NULL));
	free(read);
	return code;
}

static int put_mode(struct kvd *db, const struct arguments *arguments, enum kvd_put_mode mode)
{
	struct kvd_put_args args = {
		.flags = arguments->flags,
		.ttl_s = arguments->ttl_s,
		.mode = mode,
		.pin_s = arguments->pin_s,
		.priority = arguments->priority,
	};

	return put(db, arguments, 2, &args);
}

static int command_put(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_SET);
}

static int command_add(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_IF_ABSENT);
}

static int command_replace(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_IF_PRESENT);
}

static int command_append(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_APPEND);
}

static int command_prepend(struct kvd *db, const struct arguments *arguments)
{
	return put_mode(db, arguments, KVD_PUT_PREPEND);
}

static int command_cas(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_put_args args = {
		.flags = arguments->flags,
		.ttl_s = arguments->ttl_s,
		.mode = KVD_PUT_IF_VERSION,
		.pin_s = arguments->pin_s,
		.priority = arguments->priority,
		.if_version = parse_number(arguments->words[2], 0, UINT64_MAX),
	};

	return put(db, arguments, 3, &args);
}

static int arith(struct kvd *db, const struct arguments *arguments,
		 enum kvd_status (*change)(struct kvd *, const void *, size_t, uint64_t,
					   const struct kvd_arith_args *, uint64_t *, uint64_t *))
{
	struct kvd_arith_args args = {
		.create = arguments->create,
		.initial = arguments->initial,
		.ttl_s = arguments->ttl_s,
		.flags = arguments->flags,
	};
	uint64_t delta = 1, number;
	enum kvd_status status;
	struct key key;

	parse_key(&key, arguments);
	if (arguments->word_count > 2)
		delta = parse_number(arguments->words[2], 0, UINT64_MAX);
	status = change(db, key.bytes, key.len, delta, &args, &number, NULL);
	if (!status)
		printf("%llu\n", (unsigned long long)number);
	return report(db, status);
}

static int command_incr(struct kvd *db, const struct arguments *arguments)
{
	return arith(db, arguments, kvd_incr);
}

static int command_decr(struct kvd *db, const struct arguments *arguments)
{
	return arith(db, arguments, kvd_decr);
}

static int command_touch(struct kvd *db, const struct arguments *arguments)
{
	struct key key;

	parse_key(&key, arguments);
	return report(db, kvd_touch(db, key.bytes, key.len, parse_ttl(arguments->words[2]), NULL));
}

static int command_del(struct kvd *db, const struct arguments *arguments)
{
	struct key key;

	parse_key(&key, arguments);
	return report(db, kvd_delete(db, key.bytes, key.len));
}

/* Writes a line; returns not 0 if that failed. */
static int print_entry(void *arg, const struct kvd_entry *entry)
{
	const struct arguments *arguments = arg;
	const uint8_t *key = entry->key;

	if (arguments->hex)
		for (size_t i = 0; i < entry->key_len; i++)
			printf("%02x", key[i]);
	else
		fwrite(key, 1, entry->key_len, stdout);
	if (arguments->verbose) {
		putchar('\t');
		if (entry->value)
			fwrite(entry->value, 1, entry->item.value_len, stdout);
		else
			printf("(%zu bytes)", entry->item.value_len);
	}
	putchar('\n');
	return ferror(stdout);
}

static int command_scan(struct kvd *db, const struct arguments *arguments)
{
	struct kvd_scan_args args = { .values = arguments->verbose };
	struct arguments copy = *arguments;
	enum kvd_status status;
	struct key prefix;
	uint64_t cursor = 0;
	int code;

	if (arguments->word_count > 1) {
		parse_key(&prefix, arguments);
		args.prefix = prefix.bytes;
		args.prefix_len = prefix.len;
	}
	do {
		status = kvd_scan(db, &cursor, &args, print_entry, &copy);
	} while (!status && cursor && !ferror(stdout));
	code = output_flush();
	return code ? code : report(db, status);
}

static int command_flush(struct kvd *db, const struct arguments *arguments)
{
	if (arguments->word_count > 1)
		return report(db, kvd_flush_start(db, parse_ttl(arguments->words[1]), NULL));
	return report(db, kvd_flush_all(db));
}

static int command_clients(struct kvd *db, const struct arguments *arguments)
{
	char *text = malloc(CLIENTS_BYTES);
	enum kvd_status status;

	(void)arguments;
	if (!text) {
		fputs("kvctl: out of memory\n", stderr);
		return EX_OSERR;
	}
	status = kvd_client_list(db, text, CLIENTS_BYTES, NULL);
	if (!status)
		fputs(text, stdout);
	free(text);
	return report(db, status);
}

static int command_kill(struct kvd *db, const struct arguments *arguments)
{
	uint64_t id = parse_number(arguments->words[1], 0, UINT64_MAX);

	return report(db, kvd_client_kill(db, id));
}

static int command_revoke(struct kvd *db, const struct arguments *arguments)
{
	uint64_t closed;
	enum kvd_status status = kvd_revoke(db, arguments->words[1], &closed);

	if (!status)
		printf("%llu connections closed\n", (unsigned long long)closed);
	return report(db, status);
}

static int tenant_list(struct kvd *db)
{
	static char text[STATS_BYTES];
	enum kvd_status status = kvd_tenant_list(db, text, sizeof(text), NULL);

	if (!status)
		fputs(text, stdout);
	return report(db, status);
}

static uint64_t parse_bytes(const char *text)
{
	struct parse_why why;
	uint64_t bytes;

	if (parse_size(text, 1, UINT64_MAX, &bytes, &why))
		usage_error("not a size", text);
	return bytes;
}

static int command_tenant(struct kvd *db, const struct arguments *arguments)
{
	char *const *words = arguments->words;
	int count = arguments->word_count;

	if (!strcmp(words[1], "list") && count == 2)
		return tenant_list(db);
	if (!strcmp(words[1], "create") && count == 4)
		return report(db, kvd_tenant_create(db, words[2], parse_bytes(words[3])));
	if (!strcmp(words[1], "resize") && count == 4)
		return report(db, kvd_tenant_resize(db, words[2], parse_bytes(words[3])));
	if (!strcmp(words[1], "drop") && count == 3)
		return report(db, kvd_tenant_drop(db, words[2]));
	usage_error("list, create NAME SIZE, resize NAME SIZE or drop NAME", words[1]);
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
	if (*info.device_link)
		printf("device.link %s\n", info.device_link);
	if (*info.tenant)
		printf("tenant %s\n", info.tenant);
	printf("incarnation %016llx\nregion_bytes %llu\nvalue_max %llu\n",
	       (unsigned long long)info.incarnation, (unsigned long long)info.region_bytes,
	       (unsigned long long)info.value_max);
	printf("window %u\nrequest_bytes %u\ncache_bytes %zu\n", info.window, info.request_bytes,
	       info.cache_bytes);
	printf("buckets %llu\nclock_error_ns %llu\naccess_rate %u\n",
	       (unsigned long long)info.buckets, (unsigned long long)info.clock_error_ns,
	       info.access_rate);
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
	{ "get", 2, 2, command_get },	      { "gat", 3, 3, command_gat },
	{ "put", 2, 3, command_put },	      { "add", 2, 3, command_add },
	{ "replace", 2, 3, command_replace }, { "cas", 3, 4, command_cas },
	{ "append", 2, 3, command_append },   { "prepend", 2, 3, command_prepend },
	{ "incr", 2, 3, command_incr },	      { "decr", 2, 3, command_decr },
	{ "touch", 3, 3, command_touch },     { "del", 2, 2, command_del },
	{ "scan", 1, 2, command_scan },	      { "flush", 1, 2, command_flush },
	{ "stats", 1, 1, command_stats },     { "info", 1, 1, command_info },
	{ "clients", 1, 1, command_clients }, { "kill", 2, 2, command_kill },
	{ "ping", 1, 1, command_ping },	      { "revoke", 2, 2, command_revoke },
	{ "tenant", 2, 4, command_tenant },
};

/* Long options without a letter. */
enum {
	OPTION_TLS_CA = UCHAR_MAX + 1,
	OPTION_TLS_CERTIFICATE,
	OPTION_TLS_KEY,
	OPTION_TLS_PSK,
	OPTION_TENANT,
};

static void parse_arguments(struct arguments *arguments, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "pin", required_argument, NULL, 'p' },
		{ "low", no_argument, NULL, 'l' },
		{ "tls-ca", required_argument, NULL, OPTION_TLS_CA },
		{ "tls-certificate", required_argument, NULL, OPTION_TLS_CERTIFICATE },
		{ "tls-key", required_argument, NULL, OPTION_TLS_KEY },
		{ "tls-psk", required_argument, NULL, OPTION_TLS_PSK },
		{ "tenant", required_argument, NULL, OPTION_TENANT },
		{ 0 },
	};
	static char default_url[KVD_URL_MAX];
	int option;

	kvd_options_init(&arguments->options);
	arguments->count = 1;
	arguments->url = kvd_default_url(default_url);
	while ((option = getopt_long(argc, argv, "+a:xe:f:p:li:rvc:t:Vh", long_options, NULL)) !=
	       -1) {
		switch (option) {
		case 'a':
			arguments->url = optarg;
			arguments->given = true;
			break;
		case 'x':
			arguments->hex = true;
			break;
		case 'f':
			arguments->flags = (uint32_t)parse_number(optarg, 0, UINT32_MAX);
			break;
		case 'e':
			arguments->ttl_s = parse_ttl(optarg);
			break;
		case 'p':
			arguments->pin_s = parse_ttl(optarg);
			break;
		case 'l':
			arguments->priority = KVD_PRIORITY_LOW;
			break;
		case 'i':
			arguments->create = true;
			arguments->initial = parse_number(optarg, 0, UINT64_MAX);
			break;
		case 'r':
			arguments->request = true;
			break;
		case 'v':
			arguments->verbose = true;
			break;
		case 'c':
			arguments->count = parse_number(optarg, 1, 1000000000);
			break;
		case 't':
			arguments->timeout_given = true;
			arguments->options.timeout_ms = (uint32_t)parse_number(optarg, 1, 3600000);
			arguments->options.connect_timeout_ms = arguments->options.timeout_ms;
			break;
		case OPTION_TLS_CA:
			arguments->options.tls_ca = optarg;
			break;
		case OPTION_TLS_CERTIFICATE:
			arguments->options.tls_certificate = optarg;
			break;
		case OPTION_TLS_KEY:
			arguments->options.tls_key = optarg;
			break;
		case OPTION_TLS_PSK:
			arguments->options.tls_psk = optarg;
			break;
		case OPTION_TENANT:
			arguments->options.tenant = optarg;
			break;
		case 'V':
			printf("kvctl %s\n", kvd_version());
			exit(output_flush());
		case 'h':
			usage(stdout);
			exit(output_flush());
		default:
			fputs("Try kvctl -h.\n", stderr);
			exit(EX_USAGE);
		}
	}
	arguments->words = argv + optind;
	arguments->word_count = argc - optind;
}

/* Memory is filled and items are moved meanwhile. */
#define TENANT_TIMEOUT_MS 600000u

static int run_command(const struct arguments *arguments,
		       int (*command)(struct kvd *, const struct arguments *))
{
	enum kvd_status status;
	struct kvd *db;
	int code;

	status = kvd_open(&db, arguments->url, &arguments->options);
	if (status) {
		fprintf(stderr, "kvctl: %s%s\n", kvd_error(NULL),
			arguments->given ? "" : " (-a URL or $KVD_URL name another server)");
		if (status == KVD_ERR_LIMIT)
			return EX_TEMPFAIL;
		return status == KVD_ERR_AUTH ? EX_NOPERM : EX_UNAVAILABLE;
	}
	code = command(db, arguments);
	kvd_close(db);
	return code ? code : output_flush();
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	size_t i;

	if (!tls_memory_protect())
		fputs("kvctl: OpenSSL's memory is in core dumps: a preloaded library uses it\n",
		      stderr);
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
		if (commands[i].run == command_tenant && !arguments.timeout_given)
			arguments.options.timeout_ms = TENANT_TIMEOUT_MS;
		return run_command(&arguments, commands[i].run);
	}
	usage_error("no such command", arguments.words[0]);
}
