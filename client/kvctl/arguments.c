/* SPDX-License-Identifier: MIT */
/* Parsing of command lines: see arguments.h. */
#include "client/kvctl/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "client/kvctl/command.h"
#include "client/kvctl/error.h"
#include "client/kvctl/words.h"
#include "common/util/parse.h"

/* What getopt_long() returns for a long option: this and the number of its row. */
#define LONG_BASE (UCHAR_MAX + 1)
/* What getopt_long() returns for a word that is no option, if the options begin with '-'. */
#define WORD 1

/* Memory is filled and items are moved meanwhile. */
#define SLOW_TIMEOUT_MS 600000u

#define NS_PER_MS 1000000u

const struct option_row option_rows[] = {
#define X(name, letter, long_name, kind, min, max, argument, for_commands, help)                   \
	{ #name, letter,   long_name,	 OPTION_##kind, min,                                       \
	  max,	 argument, for_commands, help,		offsetof(struct arguments, name) },
	KVCTL_OPTIONS(X)
#undef X
};

#define ROW_COUNT (sizeof(option_rows) / sizeof(option_rows[0]))
const size_t option_row_count = ROW_COUNT;

/* The command line that is parsed or run; errors name its help. */
static enum arguments_of line_now;
static const struct command *command_now;

/* "`kvctl help put`", or "`help put`" for commands that are typed on an open connection. */
static const char *help_now(void)
{
	static char text[40];

	if (line_now == ARGUMENTS_OF_PROGRAM && !command_now)
		return "`kvctl -h`";
	snprintf(text, sizeof(text), "`%shelp%s%s`",
		 line_now == ARGUMENTS_OF_PROGRAM ? "kvctl " : "", command_now ? " " : "",
		 command_now ? command_now->name : "");
	return text;
}

int usage_error(const char *word, const char *what)
{
	report_error("%s: %s. Try %s.", word, what, help_now());
	return EX_USAGE;
}

int usage_no_command(const char *name)
{
	char advice[COMMAND_ADVICE_BYTES];

	command_now = NULL;
	command_advise(advice, name);
	if (*advice)
		report_error("no command '%s': %s", name, advice);
	else
		report_error("no command '%s'. Try %s.", name, help_now());
	return EX_USAGE;
}

/* The option whose argument is being parsed; NULL: a word is being parsed. */
static const char *option_now;

static int value_error(const char *text, const char *what)
{
	report_error("%s%s%s%s: %s. Try %s.", option_now ? "--" : "", option_now ? option_now : "",
		     option_now ? " " : "", text, what, help_now());
	return EX_USAGE;
}

int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	char what[100], *end;

	errno = 0;
	*number = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || *number < min || *number > max)
		goto refuse;
	return EX_OK;

refuse:
	snprintf(what, sizeof(what), "not a number from %" PRIu64 " to %" PRIu64, min, max);
	return value_error(text, what);
}

int parse_seconds(const char *text, uint64_t min, uint64_t max, uint64_t *seconds)
{
	static const struct {
		char name;
		unsigned int seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	unsigned int unit = 1;
	char what[100], *end;

	errno = 0;
	*seconds = strtoul(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (*end == units[i].name) {
			unit = units[i].seconds;
			end++;
			break;
		}
	}
	if (errno || *text < '0' || *text > '9' || *end || *seconds > max / unit ||
	    *seconds * unit < min)
		goto refuse;
	*seconds *= unit;
	return EX_OK;

refuse:
	if (min)
		snprintf(what, sizeof(what),
			 "not a time from %" PRIu64 " to %" PRIu64 " seconds: 90, 90s, 5m, 2h, 7d",
			 min, max);
	else
		snprintf(what, sizeof(what),
			 "not a time up to %" PRIu64 " seconds: 90, 90s, 5m, 2h, 7d", max);
	return value_error(text, what);
}

static int parse_ms(const char *text, uint64_t min, uint64_t max, uint64_t *ms)
{
	char low[PARSE_FORMAT_MAX], high[PARSE_FORMAT_MAX], what[100];

	if (!parse_duration(text, NS_PER_MS, min, max, ms, NULL))
		return EX_OK;
	snprintf(what, sizeof(what), "not a time from %s to %s: 500ms, 5s, 2m",
		 format_time(min * NS_PER_MS, low), format_time(max * NS_PER_MS, high));
	return value_error(text, what);
}

int parse_ttl(const char *text, uint32_t *seconds)
{
	uint64_t number;

	if (parse_seconds(text, 0, KVD_TTL_MAX, &number))
		return EX_USAGE;
	*seconds = (uint32_t)number;
	return EX_OK;
}

int parse_bytes(const char *text, uint64_t *bytes)
{
	return parse_size(text, 1, UINT64_MAX, bytes, NULL) ? usage_error(text, "not a size") :
							      EX_OK;
}

static struct option_value *value_of(struct arguments *arguments, const struct option_row *row)
{
	return (struct option_value *)((char *)arguments + row->offset);
}

static int option_take(struct arguments *arguments, const struct option_row *row, const char *text)
{
	struct option_value *value = value_of(arguments, row);
	int code = EX_OK;

	value->given = true;
	value->text = text;
	option_now = row->long_name;
	if (row->kind == OPTION_NUMBER)
		code = parse_number(text, row->min, row->max, &value->number);
	if (row->kind == OPTION_SECONDS)
		code = parse_seconds(text, row->min, row->max, &value->number);
	if (row->kind == OPTION_MS)
		code = parse_ms(text, row->min, row->max, &value->number);
	option_now = NULL;
	return code;
}

/* The row of the option that getopt_long() returned; NULL: no such option. */
static const struct option_row *row_of(int option)
{
	if (option >= LONG_BASE)
		return &option_rows[option - LONG_BASE];
	for (size_t i = 0; option && i < ROW_COUNT; i++)
		if (option_rows[i].letter == option)
			return &option_rows[i];
	return NULL;
}

/* "-t" or "--timeout", as it was given. */
static int option_error(int option, const char *word, const char *what)
{
	const char letter[] = { '-', (char)option, '\0' };

	return usage_error(option && option < LONG_BASE ? letter : word, what);
}

/* "-:abe:...", for getopt_long(): words in order, and no messages of its own. */
static const char *letters(void)
{
	static char text[3 + 2 * ROW_COUNT];
	char *p = text;

	*p++ = '-';
	*p++ = ':';
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (!option_rows[i].letter)
			continue;
		*p++ = (char)option_rows[i].letter;
		if (option_rows[i].kind != OPTION_FLAG)
			*p++ = ':';
	}
	*p = '\0';
	return text;
}

static const struct option *long_options(void)
{
	static struct option options[ROW_COUNT + 1];

	for (size_t i = 0; i < ROW_COUNT; i++)
		options[i] = (struct option){
			.name = option_rows[i].long_name,
			.has_arg = option_rows[i].kind == OPTION_FLAG ? no_argument :
									required_argument,
			.val = LONG_BASE + (int)i,
		};
	return options;
}

/* A whole element of argv[] as a word or an option's argument. */
static char *text_of(char *element, enum arguments_of of)
{
	return of == ARGUMENTS_OF_LINE ? word_text(element) : element;
}

/* Words move to the start of argv[], which getopt_long() has read. */
static int options_parse(struct arguments *arguments, enum arguments_of of, int argc, char **argv)
{
	const struct option *longs = long_options();
	const char *shorts = letters();
	int option, code = EX_OK;

	arguments->words = argv + 1;
	optind = 0; /* another command line */
	while (!code && (option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (optarg && optarg == argv[optind - 1])
			optarg = text_of(optarg, of);
		if (option == WORD && !arguments->word_count)
			command_now = command_find(optarg);
		if (option == WORD)
			arguments->words[arguments->word_count++] = optarg;
		else if (option == ':')
			code = option_error(optopt, argv[optind - 1], "needs an argument");
		else if (option != '?')
			code = option_take(arguments, row_of(option), optarg);
		else if (optopt >= LONG_BASE)
			code = usage_error(argv[optind - 1], "takes no argument");
		else
			code = option_error(optopt, argv[optind - 1],
					    "no such option; put -- before a word that begins "
					    "with -");
	}
	while (!code && optind < argc)
		arguments->words[arguments->word_count++] = text_of(argv[optind++], of);
	return code;
}

/* Checks that the command takes all options that were given. */
static int options_check(const struct arguments *arguments, enum arguments_of of)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		const struct option_row *row = &option_rows[i];
		const struct option_value *value = (const void *)((const char *)arguments +
								  row->offset);
		char what[200];

		if (!value->given)
			continue;
		if (of == ARGUMENTS_OF_LINE && !strcmp(row->commands, FOR_CONNECTION))
			return usage_error(row->long_name, "the connection is open already");
		if (of == ARGUMENTS_OF_LINE && !strcmp(row->name, "pipe"))
			return usage_error(row->long_name, "is not for a line of a script");
		if (command_is_among(arguments->command, row->commands))
			continue;
		if (!arguments->command)
			return usage_error(row->long_name, "needs a command, and none is named");
		snprintf(what, sizeof(what), "--%s is not for this command%s%s", row->long_name,
			 *row->commands ? ", but for " : "", row->commands);
		return usage_error(arguments->command->name, what);
	}
	return EX_OK;
}

static void connection_set(struct arguments *arguments)
{
	static char default_url[KVD_URL_MAX];
	struct kvd_options *options = &arguments->options;

	kvd_options_init(options);
	arguments->server = arguments->url.given ? arguments->url.text :
						   kvd_default_url(default_url);
	if (arguments->command && arguments->command->kind & COMMAND_SLOW)
		options->timeout_ms = SLOW_TIMEOUT_MS;
	if (arguments->timeout.given)
		options->timeout_ms = options->connect_timeout_ms =
			(uint32_t)arguments->timeout.number;
	options->tls_ca = arguments->tls_ca.text;
	options->tls_certificate = arguments->tls_certificate.text;
	options->tls_key = arguments->tls_key.text;
	options->tls_psk = arguments->tls_psk.text;
	options->tenant = arguments->tenant.text;
}

static int words_error(const struct command *command)
{
	char what[200];

	snprintf(what, sizeof(what), "wrong number of arguments (%s%s%s)", command->name,
		 *command->words ? " " : "", command->words);
	return usage_error(command->name, what);
}

/* The first word is the command. */
static int command_take(struct arguments *arguments)
{
	const char *name = arguments->words[0];

	arguments->command = command_now = command_find(name);
	arguments->words++;
	arguments->word_count--;
	return arguments->command ? EX_OK : usage_no_command(name);
}

int arguments_parse(struct arguments *arguments, enum arguments_of of, int argc, char **argv)
{
	*arguments = (struct arguments){ 0 };
	line_now = of;
	command_now = NULL;
	if (options_parse(arguments, of, argc, argv))
		return EX_USAGE;
	if (arguments->word_count && command_take(arguments))
		return EX_USAGE;
	if (of == ARGUMENTS_OF_PROGRAM)
		connection_set(arguments);
	if (arguments->help.given || arguments->version.given)
		return EX_OK;
	if (options_check(arguments, of))
		return EX_USAGE;
	if (!arguments->command)
		return EX_OK;
	if (arguments->word_count < arguments->command->words_min ||
	    arguments->word_count > arguments->command->words_max)
		return words_error(arguments->command);
	return EX_OK;
}
