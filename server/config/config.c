/* SPDX-License-Identifier: MIT */
/*
 * Reads the configuration: the file, by inih on top of read_line(), and -o assignments.
 *
 * inih (version 55, as Debian builds it) silently cuts long lines and values, takes any line that
 * begins with a space as a continuation of the value above it, passes no line number to its
 * handler, accepts repeated keys and sections, and skips lines that it does not understand. So it
 * reads through read_line(), which counts the lines and passes on only unambiguous ones. A value is
 * parsed when the next line is known.
 *
 * A file is read into a copy of the configuration, so that one with errors changes nothing.
 */
#include "server/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util/cpu.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/stat.h"
#include "common/util/text.h"
#include "server/config/listen_list.h"
#include "server/config/option_kinds.h"
#include "server/store/store.h"

/* A file with more errors or lines is taken for something else than a configuration. */
#define CONFIG_ERRORS_MAX 20
#define CONFIG_LINES_MAX 10000

/* limits.max_value = auto is at most this, and at most this part of memory.size (1/16). */
#define AUTO_VALUE_MAX OPTION_MIB(64)
#define AUTO_VALUE_SHARE 16u

#define PRINT_COLUMNS 100

/* inih cuts longer section names. */
#define CONFIG_SECTION_MAX 49

/* clang-format off */
static const char *const section_names[] = {
#define S(section) #section,
	OPTION_SECTIONS(S)
#undef S
};
/* clang-format on */

enum section_state {
	SECTION_NONE, /* before the first one */
	SECTION_KNOWN,
	SECTION_REFUSED, /* an error was reported; its options are ignored */
};

struct config_file {
	struct config config; /* the copy */
	FILE *in;
	const char *path;
	unsigned int line;
	unsigned int errors;
	unsigned int unread_line; /* passed to inih, handle_option() not yet called; 0: none */
	enum section_state section;
	bool ended;			    /* inih gets no more lines */
	const struct config_option *option; /* the last one read; NULL: none */
	char value[OPTION_TEXT_MAX];	    /* the option's, as far as it was read */
	unsigned int value_line;	    /* the value's last line; 0: it is in error */
	struct config_places places;
};

static bool errors_in_log;
static struct config_errors *errors_kept;

void config_errors_to_log(void)
{
	errors_in_log = true;
}

void config_errors_keep(struct config_errors *errors)
{
	errors_kept = errors;
	if (errors)
		*errors->text = '\0';
}

/* Keeps the first error, and says if there are more. */
static void error_keep(const char *where, const char *text)
{
	static const char more[] = " (and there are more errors)";
	char *kept = errors_kept->text, line[2 * LOG_LINE_MAX + 2];
	const size_t used = strlen(kept);
	size_t length;

	snprintf(line, sizeof(line), "%s: %s", where, text);
	length = strnlen(line, sizeof(errors_kept->text) - sizeof(more));
	line[length] = '\0';
	if (!used)
		memcpy(kept, line, length + 1);
	else if (used < sizeof(more) || strcmp(kept + used + 1 - sizeof(more), more) != 0)
		strcat(kept, more);
}

void config_report(const char *place, unsigned int line, const char *format, ...)
{
	char at[16] = "", where[LOG_LINE_MAX], text[LOG_LINE_MAX];
	va_list args;

	if (line)
		snprintf(at, sizeof(at), ":%u", line);
	snprintf(where, sizeof(where), "%s%s", place, at);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* Path and text may quote control characters, which a terminal would obey. */
	text_mask(where, strlen(where));
	text_mask(text, strlen(text));
	if (errors_kept)
		error_keep(where, text);
	else if (errors_in_log)
		log_error("%s: %s", where, text);
	else
		fprintf(stderr, "%s: %s\n", where, text);
}

#define file_error(file, at_line, ...)                                                             \
	do {                                                                                       \
		(file)->errors++;                                                                  \
		config_report((file)->path, (at_line), __VA_ARGS__);                               \
	} while (0)

static const struct config_option *option_find(const char *section, const char *key)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (strcmp(option_table[i].section, section) == 0 &&
		    strcmp(option_table[i].key, key) == 0)
			return &option_table[i];
	return NULL;
}

static void *option_field(struct config *config, const struct config_option *option)
{
	return (char *)config + option->offset;
}

static const void *option_field_const(const struct config *config,
				      const struct config_option *option)
{
	return (const char *)config + option->offset;
}

void config_init(struct config *config)
{
	struct parse_why why;

	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct config_option *option = &option_table[i];

		if (option_parse(option, option->text, option_field(config, option), &why)) {
			config_report(option->key, 0, "bad default: %s", why.text);
			abort();
		}
	}
}

/* Checks a section's line, which inih does not do. Returns whether to pass it on to inih. */
static bool begin_section(struct config_file *file, const char *text)
{
	size_t length = strcspn(text + 1, "]");
	const char *name = text + 1;
	const char *after = name + length;

	file->section = SECTION_REFUSED;
	if (*after++ != ']') {
		file_error(file, file->line, "'[' without ']': write [section]");
		return false;
	}
	after += strspn(after, " \t");
	if (*after && !strchr(";#", *after)) {
		file_error(file, file->line, "text after ']': put it on a line of its own");
		return false;
	}
	for (size_t i = 0; i < OPTION_SECTION_COUNT; i++) {
		if (strlen(section_names[i]) != length ||
		    memcmp(section_names[i], name, length) != 0)
			continue;
		if (file->places.section[i]) {
			file_error(file, file->line,
				   "section [%s] is repeated: it began on line %u, merge the two",
				   section_names[i], file->places.section[i]);
			return false;
		}
		file->places.section[i] = file->line;
		file->section = SECTION_KNOWN;
		return true;
	}
	file_error(file, file->line, "unknown section [%.*s]: kvd --help lists them",
		   (int)(length < CONFIG_SECTION_MAX ? length : CONFIG_SECTION_MAX), name);
	return false;
}

/* Parses the value as read so far. An error is in its last line: without that it parsed. */
static void value_parse(struct config_file *file)
{
	const struct config_option *option = file->option;
	struct parse_why why;

	if (!file->value_line ||
	    !option_parse(option, file->value, option_field(&file->config, option), &why))
		return;
	file_error(file, file->value_line, "%s.%s: %s", option->section, option->key, why.text);
	file->value_line = 0;
}

/* All lines of the value are read. */
static void value_finish(struct config_file *file)
{
	if (file->option)
		value_parse(file);
	file->option = NULL;
}

/* The length of @text without a comment at its end, which begins with ';' after a space. */
static size_t uncommented(const char *text)
{
	size_t kept = 0, at = 0;

	while (text[at] && !(text[at] == ';' && at > kept)) {
		if (!strchr(" \t", text[at]))
			kept = at + 1;
		at++;
	}
	return kept;
}

/* Appends a continuation line to a list, up to a comment. Lines may end with a comma. */
static void value_append(struct config_file *file, const char *more)
{
	const size_t length = strlen(file->value), more_length = uncommented(more);
	const bool ended = length && file->value[length - 1] == ',';
	const bool parted = !length || ended || *more == ',';

	if (length) {
		file->value[length - ended] = '\0';
		value_parse(file);
		file->value[length - ended] = ended ? ',' : '\0';
	}
	if (!file->value_line)
		return;
	file->value_line = file->places.last[file->option - option_table] = file->line;
	if (length + !parted + more_length < sizeof(file->value)) {
		snprintf(file->value + length, sizeof(file->value) - length, "%s%.*s",
			 parted ? "" : ",", (int)more_length, more);
		return;
	}
	file_error(file, file->line, "%s.%s: longer than %zu bytes: give a shorter list",
		   file->option->section, file->option->key, sizeof(file->value) - 1);
	file->value_line = 0;
}

/*
 * Checks a line whose newline and trailing space were removed. Returns whether to pass it on to
 * inih; if not, it is a comment, it continues a value, or its error was reported.
 */
static bool check_line(struct config_file *file, const char *line)
{
	const char *start = line + strspn(line, " \t\v\f\r");

	if (!*start || strchr(";#", *start))
		return false;
	if (start > line && file->option && option_is_list(file->option)) {
		value_append(file, start);
		return false;
	}
	value_finish(file);
	if (start > line) {
		file_error(file, file->line,
			   "the line begins with a space: start it in the first column");
		return false;
	}
	if (*line == '[')
		return begin_section(file, line);
	if (!strpbrk(line, "=:")) {
		file_error(file, file->line, "not an option: write key = value");
		return false;
	}
	file->unread_line = file->line;
	return true;
}

/*
 * Reads one line of at most size - 1 bytes. Returns its length without the newline; -1 at the end
 * of the file; -2 after reporting a line that is too long or has a zero byte.
 */
static int fetch_line(struct config_file *file, char *line, int size)
{
	int length = 0, bom, c = getc(file->in);
	bool zero = false;

	if (c == EOF)
		return -1;
	file->line++;
	for (; c != EOF && c != '\n'; c = getc(file->in)) {
		zero |= c == '\0';
		if (length < size)
			line[length++] = (char)c;
	}
	if (length == size) {
		file_error(file, file->line,
			   "the line is longer than %d bytes: shorten it; a list may continue on "
			   "lines that begin with a space",
			   size - 1);
		return -2;
	}
	line[length] = '\0';
	if (zero) {
		file_error(file, file->line, "the line has a zero byte: remove it");
		return -2;
	}
	bom = file->line == 1 ? (int)bom_length(line, (size_t)length) : 0;
	length -= bom;
	memmove(line, line + bom, (size_t)length + 1);
	while (length && isspace((unsigned char)line[length - 1]))
		line[--length] = '\0';
	return length;
}

/* inih has to call handle_option() for an option's line before it reads the next line. */
static void check_unread(struct config_file *file)
{
	if (file->unread_line)
		file_error(file, file->unread_line, "not an option: write key = value");
	file->unread_line = 0;
}

/* The ini_reader: passes inih the next line, or an empty one instead of a comment or an error. */
static char *read_line(char *line, int size, void *stream)
{
	struct config_file *file = stream;
	int length;

	check_unread(file);
	if (file->ended || file->errors >= CONFIG_ERRORS_MAX)
		return NULL;
	/* - 1: for the newline that inih expects. */
	length = fetch_line(file, line, size - 1);
	if (length == -1) {
		file->ended = true;
		return NULL;
	}
	if (file->line > CONFIG_LINES_MAX) {
		file_error(file, file->line, "more than %d lines: is this the right file?",
			   CONFIG_LINES_MAX);
		file->ended = true;
		return NULL;
	}
	if (length == -2 || !check_line(file, line))
		line[0] = '\0';
	strcat(line, "\n");
	return line;
}

/* The ini_handler. Returns 1 always: errors are counted here and not by inih. */
static int handle_option(void *user, const char *section, const char *key, const char *value)
{
	struct config_file *file = user;
	const struct config_option *option;
	unsigned int *set_line;

	file->unread_line = 0;
	if (file->section == SECTION_NONE)
		file_error(file, file->line, "'%s' is in no section: write [section] above it",
			   key);
	if (file->section != SECTION_KNOWN)
		return 1;
	option = option_find(section, key);
	if (!option) {
		file_error(file, file->line, "unknown option '%s' in [%s]: kvd --help lists them",
			   key, section);
		return 1;
	}
	set_line = &file->places.first[option - option_table];
	if (*set_line) {
		file_error(file, file->line, "%s.%s is repeated: line %u sets it, remove one",
			   section, key, *set_line);
		return 1;
	}
	*set_line = file->value_line = file->line;
	file->places.last[option - option_table] = file->line;
	file->option = option;
	snprintf(file->value, sizeof(file->value), "%s", value);
	return 1;
}

/* Returns 0 if the whole file was read without error, else a negative errno. */
static int parse_file(struct config_file *file)
{
	int ret = ini_parse_stream(read_line, file, handle_option, file);

	check_unread(file);
	value_finish(file);
	if (ferror(file->in)) {
		ret = -errno;
		config_report(file->path, 0, "cannot read: %s", strerror(-ret));
		return ret;
	}
	/* inih gets only lines that it understands, so the file is not at fault. */
	if (ret && !file->errors) {
		config_report(file->path, 0, "cannot read: out of memory (inih: %d)", ret);
		return -ENOMEM;
	}
	return file->errors ? -EINVAL : 0;
}

/* /dev/null under any name counts as an empty file. */
static bool is_null_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/*
 * Opens the file, which must be a regular one: on SIGHUP a FIFO would make the control thread wait
 * for a writer.
 */
static int open_file(struct config_file *file)
{
	struct stat st;
	int err, fd = open(file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0) {
		err = -errno;
		config_report(file->path, 0, "cannot open: %s", strerror(-err));
		return err;
	}
	if (!fstat(fd, &st) && !S_ISREG(st.st_mode) && !is_null_device(&st)) {
		err = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
		config_report(file->path, 0, "cannot read: %s",
			      S_ISDIR(st.st_mode) ? strerror(EISDIR) : "it is not a regular file");
		goto close_fd;
	}
	file->in = fdopen(fd, "r");
	if (file->in)
		return 0;
	err = -errno;
	config_report(file->path, 0, "cannot read: %s", strerror(-err));
close_fd:
	close(fd);
	return err;
}

int config_load(struct config *config, const char *path)
{
	return config_load_places(config, path, NULL);
}

int config_load_places(struct config *config, const char *path, struct config_places *places)
{
	struct config_file *file = calloc(1, sizeof(*file));
	int ret;

	if (!file) {
		config_report(path, 0, "cannot read: %s", strerror(ENOMEM));
		return -ENOMEM;
	}
	file->config = *config;
	file->path = path;
	ret = open_file(file);
	if (ret)
		goto free_file;
	ret = parse_file(file);
	if (!ret)
		*config = file->config;
	if (places)
		*places = file->places;
	fclose(file->in);
free_file:
	free(file);
	return ret;
}

/* The option of `section.key=value`, or NULL after reporting, at @place, that it is none. */
static const struct config_option *assigned(const char *assignment, const char *place)
{
	const char *dot = strchr(assignment, '.');
	const char *equals = strchr(assignment, '=');
	char section[CONFIG_SECTION_MAX], key[CONFIG_SECTION_MAX];
	const struct config_option *option;

	if (!dot || !equals || dot > equals) {
		config_report(place, 0,
			      "'%s' is not section.key=value: kvd --help lists all options",
			      assignment);
		return NULL;
	}
	snprintf(section, sizeof(section), "%.*s", (int)(dot - assignment), assignment);
	snprintf(key, sizeof(key), "%.*s", (int)(equals - dot - 1), dot + 1);
	option = option_find(section, key);
	if (!option)
		config_report(place, 0, "unknown option '%.*s': kvd --help lists them",
			      (int)(equals - assignment), assignment);
	return option;
}

/* Whether the option can change while kvd runs. */
static bool is_live(const struct config *config, const struct config_option *option)
{
	return option->change == OPTION_LIVE &&
	       (config->memory.max || option->offset != offsetof(struct config, memory.size));
}

static int assign(struct config *config, const struct config_option *option, const char *assignment,
		  const char *place)
{
	struct parse_why why;

	if (!option_parse(option, strchr(assignment, '=') + 1, option_field(config, option), &why))
		return 0;
	config_report(place, 0, "%s.%s: %s", option->section, option->key, why.text);
	return -EINVAL;
}

int config_set(struct config *config, const char *assignment)
{
	const struct config_option *option = assigned(assignment, "-o");

	return option ? assign(config, option, assignment, "-o") : -EINVAL;
}

int config_set_live(struct config *config, const char *assignment, const char *file,
		    bool set[OPTION_COUNT])
{
	const struct config_option *option = assigned(assignment, "config set");
	bool *is_set;

	if (!option)
		return -EINVAL;
	if (!is_live(config, option)) {
		config_report("config set", 0,
			      "%s.%s needs a restart: change it in %s, and restart kvd",
			      option->section, option->key,
			      file ? file : "its -o, as kvd was started without a file");
		return -EINVAL;
	}
	is_set = &set[option - option_table];
	if (*is_set) {
		config_report("config set", 0, "%s.%s is given twice: give it once",
			      option->section, option->key);
		return -EINVAL;
	}
	*is_set = true;
	return assign(config, option, assignment, "config set");
}

unsigned int config_workers(const struct config *config)
{
	unsigned int n = config->server.workers ? config->server.workers : cpu_count();

	return n < WORKERS_MAX ? n : WORKERS_MAX;
}

uint64_t config_memory_max(const struct config *config)
{
	return config->memory.max ? config->memory.max : config->memory.size;
}

uint64_t config_extent_bytes(const struct config *config)
{
	return config->memory.max ? config->memory.max / EXTENTS_MAX : config->memory.size;
}

uint64_t config_pull_bytes(const struct config *config, uint64_t bytes, uint32_t level)
{
	return memory_bytes_first(bytes, index_bytes(level)) / 100 * config->memory.pull_share;
}

uint64_t config_value_fits(const struct config *config, uint64_t bytes, uint32_t level)
{
	/* A large item takes whole pages. */
	return value_len_max(config_pull_bytes(config, bytes, level) / PAGE_BYTES * PAGE_BYTES);
}

/* The largest value that fits a tenant default of @bytes. */
static uint64_t value_fits(const struct config *config, uint64_t bytes)
{
	uint64_t fits = config_value_fits(config, bytes, index_level(config->index.keys));
	uint64_t in_extent = value_len_max(config_extent_bytes(config));

	return fits < in_extent ? fits : in_extent;
}

uint64_t config_value_max(const struct config *config)
{
	/* Each memory.size has the same one: with a lower one memory.file would not be used. */
	uint64_t bytes = config->memory.max ? config->memory.max / 4 : config->memory.size;
	uint64_t share = bytes / AUTO_VALUE_SHARE, fits = value_fits(config, bytes);

	if (config->limits.max_value != OPTION_SIZE_AUTO)
		return config->limits.max_value;
	/* The index takes that much. */
	if (!fits)
		fits = value_fits(config, config->memory.size);
	share = share < AUTO_VALUE_MAX ? share : AUTO_VALUE_MAX;
	return share < fits ? share : fits;
}

/* Whether clients of memcached's protocol connect over TCP, where nothing says who they are. */
static bool serves_memcached_by_tcp(const char *list)
{
	struct device_addr addr;

	while (listen_list_next(&list, &addr))
		if (addr.kind == LISTEN_MEMCACHED && *addr.host)
			return true;
	return false;
}

static bool http_is_plain(const struct config *config)
{
	struct http_url url;
	struct parse_why why;

	return *config->server.http && !http_url_parse(&url, config->server.http, &why) && !url.tls;
}

/* What lets in clients without an identity, against users.require_identity. NULL: nothing. */
static const char *identity_hole(const struct config *config)
{
	const uint32_t ways = listen_list_kinds(config->server.listen);

	if (!ways)
		return "server.listen = auto may be rdma://, which has no identities: give URLs of "
		       "softnic:// or rdma+tls://";
	if (ways & (DEVICE_RDMA | DEVICE_RDMA_TCP))
		return "clients of rdma:// and rdma+tcp:// have no identity: remove these URLs "
		       "from server.listen";
	if (serves_memcached_by_tcp(config->server.listen))
		return "clients of memcached://HOST:PORT have no identity: remove these URLs from "
		       "server.listen, or give memcached+tls://HOST:PORT, or that of a Unix "
		       "socket, memcached:///PATH";
	if (http_is_plain(config))
		return "clients of server.http have no identity by http://: give https://, or "
		       "remove it";
	if ((ways & (DEVICE_RDMA_TLS | LISTEN_MEMCACHED_TLS) || *config->server.http) &&
	    !config->tls.require_identity)
		return "tls.require_identity = no admits clients without one: set it to yes";
	return NULL;
}

/* Reports options that only mean something with fleet.etcd. */
static int etcd_alone_check(const struct config *config)
{
	const struct {
		const char *key, *value;
	} options[] = {
		{ "name", config->fleet.name },
		{ "url", config->fleet.url },
		{ "etcd_user", config->fleet.etcd_user },
		{ "etcd_ca", config->fleet.etcd_ca },
		{ "etcd_certificate", config->fleet.etcd_certificate },
		{ "etcd_key", config->fleet.etcd_key },
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (*options[i].value) {
			config_report(
				"config", 0,
				"fleet.%s is set without fleet.etcd: set that, too, or remove it",
				options[i].key);
			ret = -EINVAL;
		}
	return ret;
}

static bool has_scheme(const char *urls, const char *scheme)
{
	while (strncmp(urls, scheme, strlen(scheme)) != 0) {
		urls = strchr(urls, ',');
		if (!urls)
			return false;
		urls++;
	}
	return true;
}

/* What does not fit fleet.etcd, or NULL. */
static const char *etcd_misfit(const struct config *config)
{
	const bool https = has_scheme(config->fleet.etcd, "https://");

	if (*config->fleet.file)
		return "fleet.file and fleet.etcd are both set: the map of a fleet is in one of "
		       "them, remove the other";
	if (!*config->fleet.name)
		return "fleet.etcd is set without fleet.name: set the name of the fleet, which "
		       "kvd --fleet-init makes";
	if (https && has_scheme(config->fleet.etcd, "http://"))
		return "fleet.etcd has URLs of http:// and https://: give one kind, of one etcd";
	if (https && !*config->fleet.etcd_ca)
		return "fleet.etcd is at https://, and fleet.etcd_ca is not set: set it to the "
		       "file of the CA of etcd's certificates";
	if (!https &&
	    (*config->fleet.etcd_ca || *config->fleet.etcd_certificate || *config->fleet.etcd_key))
		return "fleet.etcd_ca, fleet.etcd_certificate and fleet.etcd_key are for URLs of "
		       "https://, and fleet.etcd has http://: change it, or remove them";
	if (!*config->fleet.etcd_certificate != !*config->fleet.etcd_key)
		return "one of fleet.etcd_certificate and fleet.etcd_key is set: set both, or "
		       "neither";
	return NULL;
}

/* Returns 0, or -EINVAL after reporting. */
static int fleet_check(const struct config *config)
{
	const bool file = *config->fleet.file, etcd = *config->fleet.etcd;
	const char *misfit = etcd ? etcd_misfit(config) : NULL;
	int ret = etcd ? 0 : etcd_alone_check(config);

	if (misfit) {
		config_report("config", 0, "%s", misfit);
		ret = -EINVAL;
	}
	if ((file || etcd) && config->limits.identities < config->server.max_connections) {
		config_report(
			"config", 0,
			"limits.identities (%u) is less than server.max_connections (%u): in a "
			"fleet (fleet.%s) each client needs one, to know what became of a change; "
			"raise the first or lower the second",
			config->limits.identities, config->server.max_connections,
			file ? "file" : "etcd");
		ret = -EINVAL;
	}
	if (*config->fleet.member && !file && !etcd) {
		config_report(
			"config", 0,
			"fleet.member is set without fleet.file or fleet.etcd: set one of them, or "
			"remove it");
		ret = -EINVAL;
	}
	return ret;
}

/* Takes the host's name for a member's. Returns 0, or -EINVAL after reporting. */
static int member_of_host(char id[FLEET_NAME_MAX + 1])
{
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1))
		*host = '\0';
	memset(id, 0, FLEET_NAME_MAX + 1);
	if (strlen(host) <= FLEET_NAME_MAX)
		strcpy(id, host);
	if (wire_tenant_length(id))
		return 0;
	config_report(
		"config", 0,
		"fleet.member is not set, and the host's name, '%s', can't be a member's: set "
		"fleet.member to 1 to %u letters, digits and -_.",
		host, FLEET_NAME_MAX);
	return -EINVAL;
}

int config_member(const struct config *config, struct config_member *member)
{
	struct parse_why why;
	int ret = 0;

	memset(member, 0, sizeof(*member));
	memcpy(member->id, config->fleet.member, sizeof(member->id));
	strcpy(member->urls, config->fleet.url);
	if (!*member->id)
		ret = member_of_host(member->id);
	if (*member->urls ||
	    !listen_list_urls(config->server.listen, member->urls, sizeof(member->urls), &why))
		return ret;
	config_report(
		"config", 0,
		"%s: set fleet.url to the URLs at which clients reach this member of the fleet",
		why.text);
	return -EINVAL;
}

/* The pages of memory.file are those of its file system, all of them from the start. */
static int memory_file_check(const struct config *config)
{
	const char *why = NULL;

	if (!*config->memory.file)
		return 0;
	if (config->memory.file[0] != '/')
		why = "memory.file has to be a path from the root, like /dev/shm/kvd";
	else if (!config->memory.prefault)
		why = "memory.file needs memory.prefault = yes";
	else if (config->memory.hugepages > HUGEPAGES_OFF)
		why = "with memory.file, memory.hugepages has to be auto or off: for pages that "
		      "the host has put aside, use a file on hugetlbfs";
	if (why)
		config_report("config", 0, "%s", why);
	return why ? -EINVAL : 0;
}

/* A sixteenth is an extent (common/layout.h), which has whole pages of 2 MiB. */
static int memory_max_check(const struct config *config)
{
	uint64_t max = config->memory.max, size = config->memory.size, extent = max / EXTENTS_MAX;
	char texts[2][PARSE_FORMAT_MAX];

	if (!max)
		return 0;
	if (max % (EXTENTS_MAX * OPTION_MIB(2))) {
		config_report("config", 0, "memory.max (%s) is no multiple of 32m",
			      show_size(max, texts[0]));
		return -EINVAL;
	}
	if (size > max) {
		config_report("config", 0,
			      "memory.size (%s) is more than memory.max (%s): lower the first or "
			      "raise the second",
			      show_size(size, texts[0]), show_size(max, texts[1]));
		return -EINVAL;
	}
	if (size % extent) {
		config_report("config", 0,
			      "memory.size (%" PRIu64
			      ") is no multiple of %s, a sixteenth of memory.max: the next one is "
			      "%" PRIu64,
			      size, show_size(extent, texts[0]), (size / extent + 1) * extent);
		return -EINVAL;
	}
	return 0;
}

int config_check(const struct config *config)
{
	const char *hole = config->users.require_identity ? identity_hole(config) : NULL;
	uint64_t value_max = config_value_max(config);
	uint64_t fits = value_fits(config, config->memory.size);
	char value_text[PARSE_FORMAT_MAX], fits_text[PARSE_FORMAT_MAX];
	int ret = 0;

	if (hole) {
		config_report("config", 0, "users.require_identity = yes: %s", hole);
		ret = -EINVAL;
	}
	ret = fleet_check(config) ? -EINVAL : ret;
	if (config->request.window > config->request.srq_depth) {
		config_report(
			"config", 0,
			"request.window (%u) is more than request.srq_depth (%u): no connection "
			"could be granted its window; lower the first or raise the second",
			config->request.window, config->request.srq_depth);
		ret = -EINVAL;
	}
	if (config->memory.curve && config->memory.eviction == EVICTION_NONE) {
		config_report("config", 0,
			      "memory.curve = yes estimates the effect of eviction, and "
			      "memory.eviction = none evicts nothing: change one of them");
		ret = -EINVAL;
	}
	ret = memory_file_check(config) ? -EINVAL : ret;
	ret = memory_max_check(config) ? -EINVAL : ret;
	/* While a value is replaced its old item exists too, and the index needs room. */
	if (value_max > config->memory.size / 4) {
		config_report(
			"config", 0,
			"limits.max_value is more than a quarter of memory.size: memory could "
			"hold few such values; lower the first or raise the second");
		ret = -EINVAL;
	} else if (fits && value_max > fits) {
		/* If no value fits, the index leaves no memory: region_check() says so. */
		config_report(
			"config", 0,
			"limits.max_value (%s) does not fit memory.pull_share: %u %% of the item "
			"memory has room for a value of %s; raise memory.size or "
			"memory.pull_share, or lower limits.max_value",
			show_size(value_max, value_text), config->memory.pull_share,
			show_size(fits, fits_text));
		ret = -EINVAL;
	}
	/* A slot of the index takes 8 bytes, and half of the region is for items. */
	if (config->index.keys > config->memory.size / 16) {
		config_report(
			"config", 0,
			"index.keys needs an index of more than half of memory.size: lower the "
			"first or raise the second");
		ret = -EINVAL;
	}
	return ret;
}

int config_read(struct config *config, const struct config_source *source)
{
	int ret = 0;

	config_init(config);
	if (source->file)
		ret = config_load(config, source->file);
	for (unsigned int i = 0; !ret && i < source->count; i++)
		ret = config_set(config, source->assignments[i]);
	return ret ? ret : config_check(config);
}

void config_compare(const struct config *old, const struct config *new,
		    void (*changed)(const struct config_change *change, void *context),
		    void *context)
{
	char from[OPTION_TEXT_MAX], to[OPTION_TEXT_MAX];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct config_option *option = &option_table[i];
		const struct config_change change = {
			.option = (unsigned int)i,
			.live = is_live(old, option),
			.section = option->section,
			.key = option->key,
			.from = from,
			.to = to,
		};

		option_format(option, option_field_const(old, option), from);
		option_format(option, option_field_const(new, option), to);
		if (strcmp(from, to) != 0)
			changed(&change, context);
	}
}

void config_take(struct config *config, const struct config *fresh, unsigned int number)
{
	const struct config_option *option = &option_table[number];
	const void *from = option_field_const(fresh, option);

	if (option->size == sizeof(uint64_t))
		stat_set(option_field(config, option), *(const uint64_t *)from);
	else
		memcpy(option_field(config, option), from, option->size);
}

bool config_assigns(const char *assignment, unsigned int number)
{
	const struct config_option *option = &option_table[number];
	char name[2 * CONFIG_SECTION_MAX];

	snprintf(name, sizeof(name), "%s.%s=", option->section, option->key);
	return !strncmp(assignment, name, strlen(name));
}

/* A list that would be wider than PRINT_COLUMNS continues on the next line. */
static void value_print(FILE *out, const struct config_option *option, const char *text)
{
	size_t column = (size_t)fprintf(out, "%s =%s", option->key, *text ? " " : ""), length;

	for (; *text; text += length, column += length) {
		length = option_is_list(option) ? strcspn(text, ",") : strlen(text);
		length += text[length] == ',';
		if (column + length > PRINT_COLUMNS && option_is_list(option))
			column = (size_t)fprintf(out, "\n  ") - 1;
		fprintf(out, "%.*s", (int)length, text);
	}
	fputc('\n', out);
}

void config_print_option(const struct config *config, unsigned int number, FILE *out)
{
	const struct config_option *option = &option_table[number];
	char text[OPTION_TEXT_MAX];

	option_format(option, option_field_const(config, option), text);
	value_print(out, option, text);
}

void config_list(const struct config *config, FILE *out)
{
	char text[OPTION_TEXT_MAX];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct config_option *option = &option_table[i];

		option_format(option, option_field_const(config, option), text);
		fprintf(out, "%s.%s =%s%s\n", option->section, option->key, *text ? " " : "", text);
	}
}

static const char *change_name(const struct config_option *option)
{
	return option->change == OPTION_LIVE ? "run time" : "restart";
}

void config_print(const struct config *config, FILE *out)
{
	char text[OPTION_TEXT_MAX];
	const char *section = "";

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct config_option *option = &option_table[i];

		if (strcmp(option->section, section) != 0) {
			section = option->section;
			fprintf(out, "%s[%s]\n", i ? "\n" : "", section);
		} else {
			fputc('\n', out);
		}
		fprintf(out, "; %s\n; (%s; %s)\n", option->help, option_domain(option, text),
			change_name(option));
		config_print_option(config, (unsigned int)i, out);
	}
	region_describe(config->memory.size, index_level(config->index.keys), text, sizeof(text));
	fprintf(out, "\n# With these options kvd divides memory like this:\n# %s\n", text);
	fprintf(out, "# Largest value: %s\n", show_size(config_value_max(config), text));
}

void config_help(FILE *out)
{
	char domain[OPTION_TEXT_MAX];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct config_option *option = &option_table[i];

		fprintf(out, "  %s.%s=%s\n", option->section, option->key, option->text);
		fprintf(out, "      %s (%s; %s)\n", option->help, option_domain(option, domain),
			change_name(option));
	}
}
