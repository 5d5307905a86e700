/* SPDX-License-Identifier: MIT */
/*
 * kvd: the server's command line. kvd stays in the foreground; its supervisor (systemd, a
 * container, a shell) sends SIGTERM to stop it and SIGHUP after it moved the log file.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/util/log.h"
#include "server/config/config.h"
#include "server/log_writer.h"
#include "server/server.h"
#include "server/stats.h"
#include "server/version.h"

enum mode { MODE_SERVE, MODE_CHECK, MODE_PRINT };

enum { OPTION_CHECK = 256, OPTION_PRINT };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "option", required_argument, NULL, 'o' },
	{ "check-config", no_argument, NULL, OPTION_CHECK },
	{ "print-config", no_argument, NULL, OPTION_PRINT },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *out)
{
	fputs("Usage: kvd [-c FILE] [-o section.key=value]...\n"
	      "\n"
	      "  -c, --config FILE   read options from FILE; the others keep their defaults\n"
	      "  -o, --option section.key=value\n"
	      "                      set one option, which overrides the file; may be repeated\n"
	      "      --check-config  check the configuration and exit: 0, or 78 if it has errors\n"
	      "      --print-config  print the resulting configuration, as a file, and exit\n"
	      "  -V, --version       print the version and exit\n"
	      "  -h, --help          print this and exit\n"
	      "\n"
	      "Signals: TERM and INT stop kvd after it executed the requests that have arrived; a\n"
	      "second one ends the waiting. HUP opens the log file again.\n"
	      "softnic.socket = auto is /run/kvd/kvd.sock for root and for the owner of /run/kvd,\n"
	      "for others $XDG_RUNTIME_DIR/kvd/kvd.sock, or /tmp/kvd-UID/kvd.sock where that is\n"
	      "not set; the socket's folder is made if it is missing, and removed at the end.\n"
	      "Exit status: 0 stopped by a signal, 1 failed, 64 bad usage, 78 bad configuration.\n"
	      "\n"
	      "Options, as section.key=default; a file has key = value lines under [section]:\n",
	      out);
	config_help(out);
	fputs("\nStatistics (kvctl stats):\n", out);
	stats_help(out);
}

struct arguments {
	enum mode mode;
	const char *file;
	const char **assignments; /* of -o, in the order given */
	unsigned int count;
};

static void arguments_parse(struct arguments *arguments, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "c:o:Vh", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			arguments->file = optarg;
			break;
		case 'o':
			arguments->assignments[arguments->count++] = optarg;
			break;
		case OPTION_CHECK:
			arguments->mode = MODE_CHECK;
			break;
		case OPTION_PRINT:
			arguments->mode = MODE_PRINT;
			break;
		case 'V':
			printf("kvd %s\n", KVD_SERVER_VERSION);
			exit(EX_OK);
		case 'h':
			usage(stdout);
			exit(EX_OK);
		default:
			fputs("Try kvd --help.\n", stderr);
			exit(EX_USAGE);
		}
	}
	if (optind < argc) {
		fprintf(stderr,
			"kvd: unexpected argument '%s': give a file with -c, an option with -o; "
			"try kvd --help\n",
			argv[optind]);
		exit(EX_USAGE);
	}
}

static int configure(struct config *config, const struct arguments *arguments)
{
	unsigned int i;

	config_init(config);
	if (arguments->file && config_load(config, arguments->file))
		return -1;
	for (i = 0; i < arguments->count; i++)
		if (config_set(config, arguments->assignments[i]))
			return -1;
	return config_check(config);
}

/* The control thread reads these signals (server/control_loop.c). All threads inherit the mask. */
static void signals_block(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int serve(const struct config *config)
{
	static struct server server;
	int err;

	server.config = *config;
	if (log_init((enum log_level)config->log.level, config->log.file)) {
		fprintf(stderr,
			"kvd: log.file = %s: can't open it: %m; set a path that this user may "
			"write to, or nothing to log to stderr\n",
			config->log.file);
		return EXIT_FAILURE;
	}
	signals_block();
	if (log_writer_start())
		return EXIT_FAILURE;
	log_notice("kvd %s starts", KVD_SERVER_VERSION);
	err = server_init(&server);
	if (!err) {
		err = server_run(&server);
		server_release(&server);
	}
	log_notice("kvd stopped%s", err ? " because of an error" : "");
	log_writer_stop();
	log_release();
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct config config;
	int status;

	arguments.assignments = calloc((size_t)argc, sizeof(*arguments.assignments));
	if (!arguments.assignments) {
		fputs("kvd: no memory for the arguments\n", stderr);
		return EX_OSERR;
	}
	arguments_parse(&arguments, argc, argv);
	status = configure(&config, &arguments) ? EX_CONFIG : EX_OK;
	free(arguments.assignments);
	if (status)
		return status;
	switch (arguments.mode) {
	case MODE_CHECK:
		return EX_OK;
	case MODE_PRINT:
		config_print(&config, stdout);
		return EX_OK;
	case MODE_SERVE:
		break;
	}
	return serve(&config);
}
