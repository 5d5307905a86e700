/* SPDX-License-Identifier: MIT */
/*
 * kvd: the server's command line. kvd stays in the foreground, or detaches with -d; its supervisor
 * (systemd, a container, a shell) sends SIGTERM to stop it and SIGHUP after it moved the log file
 * or changed the configuration.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/tls/tls.h"
#include "common/util/log.h"
#include "common/util/streams.h"
#include "server/audit_file.h"
#include "server/config/config.h"
#include "server/crash.h"
#include "server/detach.h"
#include "server/fleet_admin.h"
#include "server/fleet_options.h"
#include "server/journal.h"
#include "server/log_writer.h"
#include "server/notify.h"
#include "server/pidfile.h"
#include "server/server.h"
#include "server/stats.h"
#include "server/config/version.h"
#include "server/worker/audit.h"

enum mode { MODE_SERVE, MODE_CHECK, MODE_PRINT, MODE_FLEET_INIT, MODE_FLEET_ADOPT };

enum { OPTION_CHECK = 256, OPTION_PRINT, OPTION_FLEET_INIT, OPTION_FLEET_ADOPT, OPTION_PIDFILE };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "option", required_argument, NULL, 'o' },
	{ "daemon", no_argument, NULL, 'd' },
	{ "pidfile", required_argument, NULL, OPTION_PIDFILE },
	{ "check-config", no_argument, NULL, OPTION_CHECK },
	{ "print-config", no_argument, NULL, OPTION_PRINT },
	{ "fleet-init", no_argument, NULL, OPTION_FLEET_INIT },
	{ "fleet-adopt", no_argument, NULL, OPTION_FLEET_ADOPT },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *out)
{
	fputs("Usage: kvd [-c FILE] [-o section.key=value]... [-d] [--pidfile FILE]\n"
	      "\n"
	      "  -c, --config FILE   read options from FILE; the others keep their defaults;\n"
	      "                      /dev/null sets none\n"
	      "  -o, --option section.key=value\n"
	      "                      set one option, which overrides the file; may be repeated\n"
	      "  -d, --daemon        continue in the background once the server is ready; set\n"
	      "                      log.file to keep the log\n"
	      "      --pidfile FILE  write the server's process ID to FILE, which is locked\n"
	      "                      while the server runs and removed at the end\n"
	      "      --check-config  check the configuration, and whether this host can serve\n"
	      "                      it; print FILE: ok or the errors, and exit with 0 or 78\n"
	      "      --print-config  print the resulting configuration as a file, and exit\n"
	      "      --fleet-init    make the fleet fleet.name in fleet.etcd, before its members\n"
	      "                      start, and exit\n"
	      "      --fleet-adopt   let a fleet go on, and empty it, after its etcd was restored\n"
	      "                      from a backup, and exit\n"
	      "  -V, --version       print the version and exit\n"
	      "  -h, --help          print this and exit\n"
	      "\n"
	      "Signals: TERM and INT stop kvd after it has executed the requests that have\n"
	      "arrived; a second one stops it at once. HUP reopens the log files and rereads the\n"
	      "configuration, with the files of [tls] and [users]. Options with \"run time\" take\n"
	      "effect, as by kvctl config set; the log names other changed options, which need a\n"
	      "restart.\n"
	      "softnic:// without a path is /run/kvd/kvd.sock for root and the owner of /run/kvd;\n"
	      "for other users $XDG_RUNTIME_DIR/kvd/kvd.sock, or /tmp/kvd-UID/kvd.sock if that is\n"
	      "not set. kvd creates the socket's folder if it is missing, and removes it at the\n"
	      "end.\n"
	      "Exit status: 0 stopped by a signal, 1 failed, 64 bad usage, 74 can't write the\n"
	      "output, 78 bad configuration.\n"
	      "\n"
	      "Options, as section.key=default; a file has key = value lines under [section]:\n",
	      out);
	config_help(out);
	fputs("\nStatistics (kvctl stats):\n", out);
	stats_help(out);
}

struct arguments {
	enum mode mode;
	bool daemon;
	const char *pidfile;
	struct config_source source;
};

/* The exit status of a mode that only prints. */
static int output_status(void)
{
	return streams_flush("kvd") ? EX_IOERR : EX_OK;
}

static void arguments_parse(struct arguments *arguments, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "c:o:dVh", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			arguments->source.file = optarg;
			break;
		case 'o':
			arguments->source.assignments[arguments->source.count++] = optarg;
			break;
		case 'd':
			arguments->daemon = true;
			break;
		case OPTION_PIDFILE:
			arguments->pidfile = optarg;
			break;
		case OPTION_CHECK:
			arguments->mode = MODE_CHECK;
			break;
		case OPTION_PRINT:
			arguments->mode = MODE_PRINT;
			break;
		case OPTION_FLEET_INIT:
			arguments->mode = MODE_FLEET_INIT;
			break;
		case OPTION_FLEET_ADOPT:
			arguments->mode = MODE_FLEET_ADOPT;
			break;
		case 'V':
			printf("kvd %s\n", KVD_SERVER_VERSION);
			exit(output_status());
		case 'h':
			usage(stdout);
			exit(output_status());
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

/* All that must be undone at the end is done from here on, in the process that serves. */
static int run(struct server *server, const char *pidfile)
{
	int err = pidfile_create(pidfile);

	if (err)
		return err;
	notify_init();
	err = server_init(server);
	if (!err) {
		err = server_run(server);
		server_release(server);
	}
	notify_release();
	pidfile_remove();
	return err;
}

static void log_file_error(const struct config *config, int err)
{
	fprintf(stderr,
		"kvd: log.file = %s: can't open it: %s; set a path that this user may write to, or "
		"nothing to log to stderr\n",
		config->log.file, strerror(-err));
}

static void audit_file_error(const struct config *config, int err)
{
	fprintf(stderr,
		"kvd: log.audit = %s: can't open it: %s; set a path that this user may write to, "
		"or nothing for no audit log\n",
		config->log.audit, strerror(-err));
}

/* Whether the log's file can be opened; does not create it. Returns 0 or a negative errno. */
static int log_file_check(const char *path)
{
	char folder[OPTION_FILE_MAX];
	struct stat st;

	if (!*path)
		return 0;
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!faccessat(AT_FDCWD, path, W_OK, AT_EACCESS))
		return 0;
	if (errno != ENOENT)
		return -errno;
	strcpy(folder, path);
	return faccessat(AT_FDCWD, dirname(folder), W_OK | X_OK, AT_EACCESS) ? -errno : 0;
}

/* --check-config: reports all that would stop a start, or ok, and changes nothing. */
static int check(const struct config *config, const char *file)
{
	int log_err = log_file_check(config->log.file), store_err, fleet_err, net_err, http_err;
	int audit_err = log_file_check(config->log.audit);

	log_init(LOG_WARN, NULL);
	if (log_err)
		log_file_error(config, log_err);
	if (audit_err)
		audit_file_error(config, audit_err);
	store_err = server_check(config);
	fleet_err = fleet_options_check(config);
	net_err = net_check(config, true);
	http_err = http_check(config, true);
	log_release();
	if (log_err || audit_err || store_err || fleet_err || net_err || http_err)
		return EX_CONFIG;
	printf("%s: ok\n", file ? file : "the defaults and -o, without a file");
	return output_status();
}

/* Logs where the configuration is from, and a hint if kvd runs as root. */
static void log_origin(const char *file)
{
	if (file)
		log_notice("configuration: %s", file);
	else
		log_notice("configuration: the defaults and -o; no file was read, -c names one");
	if (!geteuid())
		log_notice("kvd runs as root, but does not need to: start it with systemd "
			   "(kvd.service), as the user kvd, or as another user with a raised limit "
			   "of locked memory (`ulimit -l`)");
}

/* If stderr is the journal, it gets entries once the log's thread runs. */
static void journal_begin(const struct config *config)
{
	bool journal = !*config->log.file && notify_is_journal(STDERR_FILENO);
	int err = journal ? journal_open(JOURNAL_SOCKET) : 0;

	log_set_journal(journal);
	if (err)
		log_warn("log: can't make a socket for the journal: %s; its entries have no fields",
			 strerror(-err));
}

static int serve(const struct config *config, const struct arguments *arguments)
{
	static struct server server;
	int err;

	server.config = *config;
	server.source = &arguments->source;
	log_set_style((enum log_style)config->log.format);
	err = log_init((enum log_level)config->log.level, config->log.file);
	if (err) {
		log_file_error(config, err);
		return EXIT_FAILURE;
	}
	journal_begin(config);
	log_echo_errors(true); /* until the server is ready */
	err = arguments->daemon ? detach() : 0;
	if (err)
		goto release;
	signals_block();
	err = log_writer_start();
	if (err)
		goto release;
	err = audit_file_start(config->log.audit);
	if (err)
		goto stop;
	crash_catch();
	log_notice("kvd %s starts", KVD_SERVER_VERSION);
	audit_admin(NULL, "start", "kvd " KVD_SERVER_VERSION, "ok");
	log_origin(arguments->source.file);
	err = run(&server, arguments->pidfile);
	log_notice("kvd stopped%s", err ? " because of an error" : "");
	audit_admin(NULL, "stop", "kvd " KVD_SERVER_VERSION,
		    err ? "because of an error: the log has it" : "ok");
	crash_release();
	audit_file_stop();
stop:
	log_writer_stop();
release:
	journal_close();
	log_release();
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The configuration itself may be valid: systemd starts kvd again after EXIT_FAILURE. */
static bool is_temporary(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct config config;
	const char **assignments;
	int status = EX_OK, err;

	if (streams_init("kvd"))
		return EXIT_FAILURE;
	assignments = calloc((size_t)argc, sizeof(*assignments));
	if (!tls_memory_protect())
		fputs("kvd: OpenSSL's memory is in core dumps: a preloaded library uses it\n",
		      stderr);
	if (!assignments) {
		fputs("kvd: no memory for the arguments\n", stderr);
		return EXIT_FAILURE;
	}
	arguments.source.assignments = assignments;
	arguments_parse(&arguments, argc, argv);
	err = config_read(&config, &arguments.source);
	if (err)
		status = is_temporary(err) ? EXIT_FAILURE : EX_CONFIG;
	else if (arguments.mode == MODE_PRINT) {
		config_print(&config, stdout);
		status = output_status();
	} else if (arguments.mode == MODE_CHECK)
		status = check(&config, arguments.source.file);
	else if (arguments.mode == MODE_FLEET_INIT)
		status = fleet_admin_init(&config);
	else if (arguments.mode == MODE_FLEET_ADOPT)
		status = fleet_admin_adopt(&config);
	else
		status = serve(&config, &arguments);
	free(assignments);
	return status;
}
