/* SPDX-License-Identifier: MIT */
/*
 * The commands, options and exit statuses of kvctl, each a row of a table. Parsing, the help texts,
 * completion and the manual are generated from these tables, so that they can't disagree.
 *
 * A new command is a row here and a function `int command_NAME(struct kvd *db, const struct
 * arguments *arguments)` (client/kvctl/command.h) that returns one of the exit statuses. A new
 * option is a row here; its value is arguments->NAME (client/kvctl/arguments.h).
 */
#ifndef KVD_CLIENT_KVCTL_TABLE_H
#define KVD_CLIENT_KVCTL_TABLE_H

#include <limits.h>

/* X(name, heading): in the order of the help. */
#define KVCTL_GROUPS(X)                                                                            \
	X(READ, "Read")                                                                            \
	X(CHANGE, "Change")                                                                        \
	X(SERVER, "The server")                                                                    \
	X(HERE, "This program")

/* The kind of a command; flags that can be combined. */
#define COMMAND_LOCAL 0u     /* needs no server: called with a NULL handle */
#define COMMAND_CONNECTED 1u /* called with an open handle */
#define COMMAND_SLOW 2u	     /* calls may take minutes: a longer timeout by default */
#define COMMAND_STOPS 8u     /* after SIGINT it reports what was done, and ends */
#define COMMAND_SCREEN 4u    /* takes over the terminal: not for scripts */
#define COMMAND_EACH 16u     /* is about a server: of a fleet, about each of its members */
#define COMMAND_ONE 32u	     /* is about one server: not for a fleet */

#define WORDS_ANY INT_MAX

/*
 * X(name, aliases, group, words' text, least words, most words, what it is, help). The aliases are
 * the names of the command in redis or memcached, separated by blanks. The words are those after
 * the command's name. The functions are command_NAME().
 */
#define KVCTL_COMMANDS(X)                                                                          \
	X(get, "mget", READ, "KEY...", 1, WORDS_ANY, COMMAND_CONNECTED,                            \
	  "write the value of KEY to the standard output; with several keys a line for "           \
	  "each: the key, a tab and the value")                                                    \
	X(gat, "", READ, "KEY TTL", 2, 2, COMMAND_CONNECTED,                                       \
	  "write the value of KEY, as get does, and set its time to live to TTL")                  \
	X(exists, "", READ, "KEY...", 1, WORDS_ANY, COMMAND_CONNECTED,                             \
	  "print how many of the keys exist, without reading values")                              \
	X(ttl, "", READ, "KEY", 1, 1, COMMAND_CONNECTED,                                           \
	  "print the seconds that KEY has left to live, at least 1, or never if it does "          \
	  "not expire")                                                                            \
	X(count, "", READ, "[PREFIX]", 0, 1, COMMAND_CONNECTED,                                    \
	  "scan and print the number of keys, or of those that begin with PREFIX; items "          \
	  "in stats is quicker, and counts expired keys, too")                                     \
	X(scan, "", READ, "[PREFIX]", 0, 1, COMMAND_CONNECTED,                                     \
	  "print all keys, or those that begin with PREFIX, in no particular order")               \
	X(dump, "", READ, "[FILE|- [PREFIX]]", 0, 2, COMMAND_CONNECTED | COMMAND_STOPS,            \
	  "write all keys, or those that begin with PREFIX, with values, flags and expiry "        \
	  "times to FILE or the standard output; an existing FILE is replaced once the "           \
	  "dump is complete")                                                                      \
	X(bigkeys, "", READ, "[PREFIX]", 0, 1, COMMAND_CONNECTED | COMMAND_STOPS,                  \
	  "print the keys with the longest values, and the distribution of the lengths of "        \
	  "keys and values")                                                                       \
	X(hotkeys, "", READ, "[PREFIX]", 0, 1, COMMAND_CONNECTED | COMMAND_STOPS,                  \
	  "print the most used keys, by the records that a server keeps for eviction. "            \
	  "uses: about how often since the key was stored, at most 32767, halved for each "        \
	  "quarter of the memory that was added since the last use; added since: the data "        \
	  "added since the last use, in percent of the memory. Clients report a sample of "        \
	  "their GETs by READ")                                                                    \
	X(put, "set", CHANGE, "KEY [VALUE]", 1, 2, COMMAND_CONNECTED,                              \
	  "store VALUE; without VALUE, or with -, the standard input")                             \
	X(add, "", CHANGE, "KEY [VALUE]", 1, 2, COMMAND_CONNECTED,                                 \
	  "as put, but only if KEY does not exist")                                                \
	X(replace, "", CHANGE, "KEY [VALUE]", 1, 2, COMMAND_CONNECTED,                             \
	  "as put, but only if KEY exists")                                                        \
	X(cas, "", CHANGE, "KEY VERSION [VALUE]", 2, 3, COMMAND_CONNECTED,                         \
	  "as put, but only if KEY has this version, which get -v prints")                         \
	X(append, "", CHANGE, "KEY [VALUE]", 1, 2, COMMAND_CONNECTED,                              \
	  "add VALUE after the existing value")                                                    \
	X(prepend, "", CHANGE, "KEY [VALUE]", 1, 2, COMMAND_CONNECTED,                             \
	  "add VALUE before the existing value")                                                   \
	X(incr, "", CHANGE, "KEY [N]", 1, 2, COMMAND_CONNECTED,                                    \
	  "add N (default 1) to the number under KEY, and print the result")                       \
	X(decr, "", CHANGE, "KEY [N]", 1, 2, COMMAND_CONNECTED,                                    \
	  "subtract N (default 1) from the number under KEY, not below 0, and print the result")   \
	X(touch, "", CHANGE, "KEY TTL", 2, 2, COMMAND_CONNECTED,                                   \
	  "set the time to live of KEY to TTL; with 0 it never expires")                           \
	X(del, "delete unlink", CHANGE, "KEY...", 1, WORDS_ANY, COMMAND_CONNECTED,                 \
	  "remove the keys")                                                                       \
	X(flush, "flushall flush_all", CHANGE, "[DELAY | --cancel [TICKET]]", 0, 1,                \
	  COMMAND_CONNECTED,                                                                       \
	  "remove all keys, and wait until that is done; with DELAY: remove them after "           \
	  "this time, without waiting; stats prints pending flushes, as flush.TICKET")             \
	X(restore, "", CHANGE, "[FILE|-]", 0, 1, COMMAND_LOCAL | COMMAND_STOPS,                    \
	  "store the keys of a dump, read from FILE or the standard input")                        \
	X(stats, "", SERVER, "", 0, 0, COMMAND_CONNECTED,                                          \
	  "print the server's statistics, which kvd --help explains: in groups on a "              \
	  "terminal, else a name and a value on each line; of a fleet, those of each member")      \
	X(curve, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_EACH,                           \
	  "print the share of GETs that would hit with less and with more memory; a "              \
	  "server with memory.curve = yes estimates it for exact LRU, from a sample of "           \
	  "keys; of a fleet, for each member")                                                     \
	X(clients, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_EACH,                         \
	  "print the server's connections, one per line; of a fleet, those of each member")        \
	X(kill, "", SERVER, "ID", 1, 1, COMMAND_CONNECTED | COMMAND_ONE,                           \
	  "close the connection with this id, which clients prints")                               \
	X(revoke, "", SERVER, "WHO", 1, 1, COMMAND_CONNECTED | COMMAND_EACH,                       \
	  "close all connections of WHO at once, and print their number; WHO is "                  \
	  "user=NAME, identity=NAME, uid=N, addr=ADDRESS or id=N; of a fleet, at each member, "    \
	  "but not id=N")                                                                          \
	X(tenant, "", SERVER, "list | create NAME SIZE | resize NAME SIZE | drop NAME", 1, 3,      \
	  COMMAND_CONNECTED | COMMAND_SLOW | COMMAND_EACH,                                         \
	  "print the server's tenants, one per line; add a tenant, change its size (4096, "        \
	  "64m, 2g), or remove it with all of its keys; of a fleet, at each member")               \
	X(fleet, "", SERVER,                                                                       \
	  "status | members | map [KEY...] | health | drain ID | undrain ID | rebalance", 1,       \
	  WORDS_ANY, COMMAND_CONNECTED,                                                            \
	  "print the state of a fleet: its members with their leases, shards and items, who "      \
	  "its controller is, what moves, and what is wrong; the members alone, one per line; "    \
	  "which member has which shards, or KEYs; or only what is wrong, with status 5 if "       \
	  "anything is. drain: the member ID gives its shards, with their keys, to the others, "   \
	  "before it is stopped; rebalance: each member gets its share, as after one has "         \
	  "joined. -a names the fleet, or any of its members. kvd --fleet-init makes a fleet")     \
	X(info, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_EACH,                            \
	  "print the properties of the connection; of a fleet, of one to each member")             \
	X(whoami, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_EACH,                          \
	  "print this connection's user, rights and tenant, and how the server identified "        \
	  "it; of a fleet, at each member")                                                        \
	X(config, "", SERVER, "get [PATTERN...] | set section.key VALUE... | rewrite", 1,          \
	  WORDS_ANY, COMMAND_CONNECTED | COMMAND_EACH,                                             \
	  "print the server's options as lines section.key = value, all or those that match a "    \
	  "PATTERN (* ? [a-z]); change options, all of them or none, until the server ends or "    \
	  "reads its file again: kvd --help marks those that can change at run time; or write "    \
	  "what was set into the server's file. For administrators; of a fleet, at each member")   \
	X(shutdown, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_ONE,                         \
	  "stop the server, which first executes all requests that have arrived, and wait "        \
	  "until it has ended, for at most -t (default 60s); without memory.file its data is "     \
	  "gone then; for administrators")                                                         \
	X(ping, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_EACH,                            \
	  "send an empty request and print how long it took; of a fleet, to each member")          \
	X(slowlog, "", SERVER, "[reset]", 0, 1, COMMAND_CONNECTED | COMMAND_EACH,                  \
	  "print the last requests that took longer than log.slow of kvd, the newest first, "      \
	  "one per line; of a fleet, of each member. GETs by READ are not among them. With "       \
	  "reset: empty the list; for administrators")                                             \
	X(monitor, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_ONE,                          \
	  "print the operations that the server's workers execute, one per line, until it is "     \
	  "interrupted; GETs by READ are not among them; for administrators")                      \
	X(latency, "", SERVER, "", 0, 0, COMMAND_CONNECTED,                                        \
	  "measure how long a GET takes by each path, with a temporary key, or one of each "       \
	  "member of a fleet: for -c seconds, by default until it is interrupted, or 5 seconds "   \
	  "without a terminal")                                                                    \
	X(top, "", SERVER, "", 0, 0, COMMAND_CONNECTED | COMMAND_SCREEN,                           \
	  "show the server's rates, latencies, memory, workers and connections on the "            \
	  "whole screen; without a terminal print them once, as text; of a fleet, rates and "      \
	  "memory of all members together, and a line for each")                                   \
	X(doctor, "", HERE, "[URL]", 0, 1, COMMAND_LOCAL,                                          \
	  "check this host, and print what is wrong and the command that fixes it; with "          \
	  "URL, or -a, also test each path to that server, with a temporary key; with a "          \
	  "fleet's URL, what is wrong with it, and each member")                                   \
	X(debug, "", HERE, "dump", 1, 1, COMMAND_CONNECTED | COMMAND_ONE,                          \
	  "write an archive for a report of a bug, and print its name: options, process, log, "    \
	  "statistics, connections and slow log of the server, and what doctor says; no keys, "    \
	  "values or secrets; for administrators")                                                 \
	X(completion, "", HERE, "bash|zsh", 1, 1, COMMAND_LOCAL,                                   \
	  "print a script for that shell which completes commands and options")                    \
	X(help, "", HERE, "[COMMAND]", 0, 1, COMMAND_LOCAL,                                        \
	  "print this help, or the help of a command with its options")

/*
 * X(name, what to use): names that users of redis, memcached or a shell may try. kvctl's command
 * has another name and other words, so the name can't be an alias.
 */
#define KVCTL_OTHER_NAMES(X)                                                                       \
	X("keys", "`scan [PREFIX]`, or `scan --match GLOB`")                                       \
	X("list", "`scan [PREFIX]`")                                                               \
	X("ls", "`scan [PREFIX]`")                                                                 \
	X("dbsize", "`count`")                                                                     \
	X("gets", "`get -v KEY`, which prints the version for cas")                                \
	X("getex", "`gat KEY TTL`")                                                                \
	X("pttl", "`ttl KEY`")                                                                     \
	X("setnx", "`add KEY VALUE`")                                                              \
	X("setex", "`put -e TTL KEY VALUE`")                                                       \
	X("mset", "`put KEY VALUE`, once for each key; `kvctl --pipe` for many")                   \
	X("expire", "`touch KEY TTL`")                                                             \
	X("persist", "`touch KEY 0`")                                                              \
	X("incrby", "`incr KEY N`; with -i N it creates a missing key")                            \
	X("decrby", "`decr KEY N`; with -i N it creates a missing key")                            \
	X("rm", "`del KEY...`")                                                                    \
	X("remove", "`del KEY...`")                                                                \
	X("flushdb", "`flush`")                                                                    \
	X("stop", "`shutdown`")                                                                    \
	X("save", "`dump FILE`")                                                                   \
	X("bgsave", "`dump FILE`")                                                                 \
	X("client", "`clients`, `kill ID`, `revoke WHO`")                                          \
	X("select", "`kvctl --tenant NAME`")                                                       \
	X("version", "`kvctl --version`; of the server: `stats`")

/* The kinds of an option's argument: what is accepted, and which field has the value. */
enum option_kind {
	OPTION_FLAG,	/* no argument; .given */
	OPTION_NUMBER,	/* a decimal number; .number */
	OPTION_SECONDS, /* a time: 90, 90s, 5m, 2h, 7d; .number, in seconds */
	OPTION_MS,	/* a time: 500, 500ms, 5s; .number, in milliseconds */
	OPTION_TEXT,	/* .text */
	OPTION_FILE,	/* the name of a file; .text */
};

/* The commands that take an option: names separated by blanks, or one of these. */
#define FOR_ALL "*"
#define FOR_CONNECTION "@" /* all commands, but not in a script, whose connection is open */
#define FOR_NONE ""	   /* the option replaces a command */

#define STORE "put add replace cas"
#define WITH_VALUE STORE " append prepend"
#define OF_KEYS "get gat exists ttl " WITH_VALUE " incr decr touch del"

/*
 * X(name, letter or 0, long name, kind, least, most, argument's text, commands, help)
 */
#define KVCTL_OPTIONS(X)                                                                           \
	X(hex, 'x', "hex", FLAG, 0, 0, "", OF_KEYS " scan count bigkeys dump hotkeys",             \
	  "take and print keys in hexadecimal")                                                    \
	X(ttl, 'e', "ttl", SECONDS, 0, KVD_TTL_MAX, "TTL", STORE " incr decr",                     \
	  "time to live: seconds, or 90s, 5m, 2h, 7d; incr and decr: only with -i")                \
	X(flags, 'f', "flags", NUMBER, 0, UINT32_MAX, "N", STORE " incr decr",                     \
	  "store the flags N with the value; incr and decr: only with -i")                         \
	X(pin, 'p', "pin", SECONDS, 0, KVD_TTL_MAX, "TIME", "put add replace",                     \
	  "the server does not evict the item for TIME")                                           \
	X(low, 'l', "low", FLAG, 0, 0, "", STORE, "the server evicts the item before others")      \
	X(initial, 'i', "initial", NUMBER, 0, UINT64_MAX, "N", "incr decr",                        \
	  "store N if KEY does not exist; repeated, incr -i 1 gives 1, 2, 3")                      \
	X(request, 'r', "request", FLAG, 0, 0, "", "get",                                          \
	  "send a request instead of reading the server's memory")                                 \
	X(range, 0, "range", TEXT, 0, 0, "OFFSET:LENGTH", "get",                                   \
	  "only LENGTH bytes of the value from byte OFFSET on, or what it has there")              \
	X(verbose, 'v', "verbose", FLAG, 0, 0, "", "get gat scan stats",                           \
	  "get, gat: print length, version, flags and expiry time to the standard error; "         \
	  "scan: also print values, after a tab; stats: also print statistics that are 0")         \
	X(json, 0, "json", FLAG, 0, 0, "",                                                         \
	  OF_KEYS " scan count dump restore bigkeys hotkeys info ping stats curve latency "        \
		  "doctor clients revoke tenant fleet whoami slowlog monitor config",              \
	  "print lines of JSON; bytes that are not UTF-8 become {\"hex\": \"00ff\"}")              \
	X(hex_values, 0, "hex-values", FLAG, 0, 0, "", "get gat scan " WITH_VALUE,                 \
	  "take and print values in hexadecimal")                                                  \
	X(output, 'o', "output", FILE, 0, 0, "FILE", "debug",                                      \
	  "write to FILE, which must not exist yet, or with - to the standard output; default: "   \
	  "kvd-debug-TIME.tar.gz")                                                                 \
	X(file, 'F', "file", FILE, 0, 0, "FILE", WITH_VALUE, "store the content of FILE")          \
	X(no_newline, 'n', "no-newline", FLAG, 0, 0, "", "get gat",                                \
	  "print no newline after the value; default: one, on a terminal and in a script")         \
	X(null, '0', "null", FLAG, 0, 0, "", "scan get",                                           \
	  "end lines with a zero byte, not with a newline: for xargs -0")                          \
	X(keep, 0, "keep", FLAG, 0, 0, "", "shutdown",                                             \
	  "stop the server only if the next one serves its data: memory.file is set")              \
	X(cancel, 0, "cancel", FLAG, 0, 0, "", "flush",                                            \
	  "cancel all flushes that you started with a DELAY, or the one with this TICKET")         \
	X(all, 0, "all", FLAG, 0, 0, "", "flush",                                                  \
	  "with --cancel: also cancel flushes that others started; for administrators")            \
	X(raw, 0, "raw", FLAG, 0, 0, "", "stats",                                                  \
	  "print statistics as the server sends them, also on a terminal")                         \
	X(watch, 'w', "watch", SECONDS, 1, 86400, "TIME", "stats top",                             \
	  "stats: print them in groups every TIME (2, 90s, 5m), and counters as growth "           \
	  "per second, unless --raw or --json; top: the interval (default 2)")                     \
	X(sort, 0, "sort", TEXT, 0, 0, "COLUMN", "top",                                            \
	  "sort connections by requests (default), received, sent, idle, age or id")               \
	X(count, 'c', "count", NUMBER, 1, 1000000000, "N",                                         \
	  "ping stats latency top slowlog monitor",                                                \
	  "ping, top: N times (default 1); stats --watch: N times (default: until it is "          \
	  "interrupted); latency: for N seconds; slowlog: at most N; monitor: end after N")        \
	X(sample, 0, "sample", TEXT, 0, 0, "N", "monitor",                                         \
	  "one operation in N, also written 1/N (default 1); of several monitors the smallest "    \
	  "N counts for all")                                                                      \
	X(match, 0, "match", TEXT, 0, 0, "GLOB", "scan count dump bigkeys hotkeys monitor",        \
	  "only keys that match GLOB: * ? [a-z] [!a-z] and \\")                                    \
	X(resume, 0, "resume", FLAG, 0, 0, "", "dump restore",                                     \
	  "continue where it was interrupted")                                                     \
	X(replace, 0, "replace", FLAG, 0, 0, "", "restore",                                        \
	  "overwrite existing keys with those of the dump (default)")                              \
	X(skip_existing, 0, "skip-existing", FLAG, 0, 0, "", "restore",                            \
	  "keep existing keys as they are")                                                        \
	X(absolute, 0, "absolute", FLAG, 0, 0, "", "restore",                                      \
	  "keys expire at the time of day at which they would have expired; default: they "        \
	  "get the time to live that they had left when they were dumped")                         \
	X(skip_damaged, 0, "skip-damaged", FLAG, 0, 0, "", "restore",                              \
	  "skip damaged blocks; default: stop before the first one")                               \
	X(verify, 0, "verify", FLAG, 0, 0, "", "restore", "only check the file, without a server") \
	X(progress, 0, "progress", FLAG, 0, 0, "", "dump restore bigkeys hotkeys",                 \
	  "show the progress even if the standard error is no terminal")                           \
	X(samples, 0, "samples", NUMBER, 1, UINT64_MAX, "N", "bigkeys hotkeys",                    \
	  "look at N keys, chosen by their hashes; default: all keys")                             \
	X(top, 0, "top", NUMBER, 1, 10000, "N", "bigkeys hotkeys", "print N keys (default 10)")    \
	X(url, 'a', "url", TEXT, 0, 0, "URL", FOR_CONNECTION,                                      \
	  "the server: rdma://HOST:PORT, rdma+tcp://HOST:PORT, rdma+tls://HOST:PORT or "           \
	  "softnic:///PATH; or a fleet: fleet://HOST:PORT,HOST:PORT/NAME; default: $KVD_URL, "     \
	  "else the socket of your own kvd, "                                                      \
	  "$XDG_RUNTIME_DIR/kvd/kvd.sock or /tmp/kvd-UID/kvd.sock, else the system's, "            \
	  "/run/kvd/kvd.sock")                                                                     \
	X(timeout, 't', "timeout", MS, 1, 3600000, "TIME", FOR_CONNECTION,                         \
	  "longest time for one call, and for connecting: 500ms, 5s, 2m, or a number of "          \
	  "milliseconds (default 2s, 10m for tenant, and 5s for connecting)")                      \
	X(tenant, 0, "tenant", TEXT, 0, 0, "NAME", FOR_CONNECTION,                                 \
	  "the tenant that has the keys; default: $KVD_TENANT, or as the server decides")          \
	X(tls_ca, 0, "tls-ca", FILE, 0, 0, "FILE", FOR_CONNECTION,                                 \
	  "rdma+tls: the certificate authorities that you trust (kvd_options in kvd.h has more); " \
	  "default: $KVD_TLS_CA")                                                                  \
	X(tls_certificate, 0, "tls-certificate", FILE, 0, 0, "FILE", FOR_CONNECTION,               \
	  "rdma+tls: your certificate; default: $KVD_TLS_CERTIFICATE")                             \
	X(tls_key, 0, "tls-key", FILE, 0, 0, "FILE", FOR_CONNECTION,                               \
	  "rdma+tls: the private key of --tls-certificate; default: $KVD_TLS_KEY")                 \
	X(tls_psk, 0, "tls-psk", FILE, 0, 0, "FILE", FOR_CONNECTION,                               \
	  "rdma+tls: a key that the server shares; default: $KVD_TLS_PSK")                         \
	X(help, 'h', "help", FLAG, 0, 0, "", FOR_ALL, "print this help, or that of the command")   \
	X(pipe, 0, "pipe", FLAG, 0, 0, "", FOR_NONE,                                               \
	  "run the commands on the standard input, one per line, with many changes under "         \
	  "way at once; print how many succeeded and failed")                                      \
	X(version, 'V', "version", FLAG, 0, 0, "", FOR_NONE, "print the version")

/* X(number, what it means) */
#define EXIT_NOT_FOUND 1
#define EXIT_KEY_EXISTS 2
#define EXIT_NOT_A_NUMBER 3
#define EXIT_WARNINGS 4
#define EXIT_ERRORS 5
#define EXIT_INTERRUPTED 130
#define KVCTL_STATUSES(X)                                                                          \
	X(0, "done")                                                                               \
	X(1, "the key does not exist")                                                             \
	X(2, "the key exists, or has another version")                                             \
	X(3, "the value is not a number")                                                          \
	X(4, "doctor found warnings, but no errors")                                               \
	X(5, "doctor found errors, or the fleet is not well")                                      \
	X(64, "bad usage")                                                                         \
	X(65, "not a dump, or damaged")                                                            \
	X(69, "can't connect to the server")                                                       \
	X(70, "the call failed")                                                                   \
	X(71, "out of memory")                                                                     \
	X(74, "can't read the input or write the output")                                          \
	X(75, "a limit of your user was exceeded")                                                 \
	X(77, "you are not allowed, the server is not trusted, or it does not trust you")          \
	X(130, "dump, restore, bigkeys, hotkeys and --pipe: interrupted by SIGINT")

#endif /* KVD_CLIENT_KVCTL_TABLE_H */
