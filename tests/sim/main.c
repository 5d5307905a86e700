/* SPDX-License-Identifier: MIT */
/*
 * The simulation, as a program: runs seeds, each in a process of its own in which nothing is left
 * to chance; a run that fails is shrunk and printed. README.md beside it says what it shows and
 * what it can't.
 *
 *	sim [-s SEED] [-n SEEDS] [-t SECONDS] [-o NAME=VALUE,...] [-v] [-k]
 *
 * -s SEED, -n SEEDS: SEEDS seeds from SEED on. -t: begins no further one after this time. -o:
 * parameters instead of what the seed says: clients, ops, keys, features (names with a + between
 * them), schedule, disturbances; broken=1: the clients lie, which must be noticed. -v: shows each
 * disturbance and the history. -k: does not shrink.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/run.h"

#define RUN_SECONDS_MAX 300
/* Seeds that are tried for each smaller form of a run that fails. */
#define SHRINK_SEEDS 24
#define RUN_FORMAT "%016" PRIx64 ":%016" PRIx64 ":%08x:%08x:%08x:%08x:%016" PRIx64 ":%d:%d"
#define RUN_SCAN "%" SCNx64 ":%" SCNx64 ":%x:%x:%x:%x:%" SCNx64 ":%d:%d"
#define OUTPUT_MAX (4u << 20)

int __real_clock_gettime(clockid_t, struct timespec *);
pid_t __real_getpid(void);

static int output; /* of the last run */

/* As its own program, always with the same arguments' lengths and environment. */
static _Noreturn void child_exec(const struct run_params *p, bool verbose)
{
	char text[160], *const argv[] = { (char *)"sim", (char *)"--run", text, NULL };
	char *const envp[] = { (char *)"MALLOC_CONF=narenas:1,dirty_decay_ms:-1,muzzy_decay_ms:-1",
			       NULL };
	cpu_set_t one;
	int cpu, i;

	/* Where it is, so that runs beside each other do not share one. */
	if (!sched_getaffinity(0, sizeof(one), &one)) {
		cpu = sched_getcpu();
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
	snprintf(text, sizeof(text), RUN_FORMAT, p->seed, p->schedule, p->clients, p->ops, p->keys,
		 p->features, p->disturbances, p->broken, verbose);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	for (i = 3; i < 64; i++)
		close(i);
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		fprintf(stderr, "personality: %m: runs do not replay\n");
	alarm(RUN_SECONDS_MAX);
	execve("/proc/self/exe", argv, envp);
	_exit(127);
}

/* Returns whether it was right. */
static bool child_run(const struct run_params *p, bool verbose)
{
	char name[64];
	int status;
	pid_t pid;

	if (ftruncate(output, 0) || lseek(output, 0, SEEK_SET))
		return false;
	pid = fork();
	if (!pid)
		child_exec(p, verbose);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("fork");
		exit(EXIT_FAILURE);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		dprintf(output, "status %#x\n", (unsigned int)status);
	snprintf(name, sizeof(name), "/tmp/kvd-local-%06u/kvd.sock", (unsigned int)pid % 1000000);
	unlink(name);
	*strrchr(name, '/') = 0;
	rmdir(name);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void output_print(void)
{
	static char text[OUTPUT_MAX];
	off_t bytes = lseek(output, 0, SEEK_END);
	ssize_t got;

	/* The end says most. */
	got = pread(output, text, sizeof(text),
		    bytes > (off_t)sizeof(text) ? bytes - (off_t)sizeof(text) : 0);
	if (got > 0)
		fwrite(text, 1, (size_t)got, stdout);
	fflush(stdout);
}

static void params_print(const struct run_params *p)
{
	const char *plus = "";
	unsigned int i;

	printf("-s %" PRIu64 " -o schedule=%" PRIu64
	       ",clients=%u,ops=%u,keys=%u,disturbances=%" PRIu64 ",features=",
	       p->seed, p->schedule, p->clients, p->ops, p->keys, p->disturbances);
	for (i = 0; i < RUN_FEATURE_COUNT; i++) {
		if (!(p->features >> i & 1))
			continue;
		printf("%s%s", plus, run_feature_name(i));
		plus = "+";
	}
	printf("%s\n", p->broken ? ",broken=1" : "");
	fflush(stdout);
}

/* Takes the smaller form if it fails too, with one of some seeds. */
static bool shrink_to(struct run_params *p, struct run_params smaller)
{
	unsigned int i;

	for (i = 0; i < SHRINK_SEEDS; i++) {
		smaller.seed = p->seed + i;
		smaller.schedule = p->schedule + i;
		if (!child_run(&smaller, false)) {
			*p = smaller;
			return true;
		}
	}
	return false;
}

/* The fewest disturbances of this very schedule that are enough. */
static void shrink_disturbances(struct run_params *p)
{
	uint64_t low = 0, high = p->disturbances < 1u << 20 ? p->disturbances : 1u << 20;

	while (low < high) {
		struct run_params smaller = *p;

		smaller.disturbances = (low + high) / 2;
		if (child_run(&smaller, false))
			low = smaller.disturbances + 1;
		else
			high = smaller.disturbances;
	}
	p->disturbances = high;
}

static void shrink(struct run_params *p)
{
	struct run_params smaller;
	bool shrunk;
	unsigned int i;

	do {
		shrunk = false;
		for (i = 0; i < RUN_FEATURE_COUNT; i++) {
			smaller = *p;
			smaller.features &= ~(1u << i);
			if (smaller.features != p->features && shrink_to(p, smaller))
				shrunk = true;
		}
		while (p->clients > 2) {
			smaller = *p;
			smaller.clients--;
			if (!shrink_to(p, smaller))
				break;
			shrunk = true;
		}
		while (p->keys > 1) {
			smaller = *p;
			smaller.keys /= 2;
			if (!shrink_to(p, smaller))
				break;
			shrunk = true;
		}
		for (i = 2; i <= 4 && p->ops > 1;) {
			smaller = *p;
			smaller.ops -= smaller.ops / i ? smaller.ops / i : 1;
			if (shrink_to(p, smaller))
				shrunk = true;
			else
				i++;
		}
	} while (shrunk);
	shrink_disturbances(p);
}

static bool feature_parse(const char *name, uint32_t *features)
{
	unsigned int i;

	for (i = 0; i < RUN_FEATURE_COUNT; i++)
		if (!strcmp(name, run_feature_name(i)))
			*features |= 1u << i;
	for (i = 0; i < RUN_FEATURE_COUNT; i++)
		if (!strcmp(name, run_feature_name(i)))
			return true;
	return !*name;
}

static bool param_parse(struct run_params *p, char *text)
{
	char *value = strchr(text, '='), *name;
	uint64_t number;

	if (!value)
		return false;
	*value++ = 0;
	if (!strcmp(text, "features")) {
		p->features = 0;
		while ((name = strsep(&value, "+")))
			if (!feature_parse(name, &p->features))
				return false;
		return true;
	}
	number = strtoull(value, NULL, 10);
	if (!strcmp(text, "schedule"))
		p->schedule = number;
	else if (!strcmp(text, "disturbances"))
		p->disturbances = number;
	else if (!strcmp(text, "clients") && number >= 1 && number <= RUN_CLIENTS_MAX)
		p->clients = (uint32_t)number;
	else if (!strcmp(text, "keys") && number >= 1 && number <= RUN_KEYS_MAX)
		p->keys = (uint32_t)number;
	else if (!strcmp(text, "ops"))
		p->ops = (uint32_t)number;
	else if (!strcmp(text, "broken"))
		p->broken = number;
	else
		return false;
	return true;
}

static bool params_parse(struct run_params *p, const char *text)
{
	char copy[256], *rest = copy, *one;

	snprintf(copy, sizeof(copy), "%s", text);
	while ((one = strsep(&rest, ",")))
		if (!param_parse(p, one))
			return false;
	return true;
}

static int child_main(const char *text)
{
	struct run_params p;
	int broken, verbose;

	if (sscanf(text, RUN_SCAN, &p.seed, &p.schedule, &p.clients, &p.ops, &p.keys, &p.features,
		   &p.disturbances, &broken, &verbose) != 9)
		return 2;
	p.broken = broken;
	run(&p, verbose);
	return EXIT_SUCCESS;
}

static uint64_t seconds_now(void)
{
	struct timespec now;

	__real_clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, seeds = 1, limit_s = 0, begin_s = seconds_now(), i;
	const char *settings = NULL;
	bool verbose = false, keep = false;
	struct run_params p;
	int option;

	if (argc == 3 && !strcmp(argv[1], "--run"))
		return child_main(argv[2]);
	while ((option = getopt(argc, argv, "s:n:t:o:vk")) != -1) {
		if (option == 's')
			seed = strtoull(optarg, NULL, 10);
		else if (option == 'n')
			seeds = strtoull(optarg, NULL, 10);
		else if (option == 't')
			limit_s = strtoull(optarg, NULL, 10);
		else if (option == 'o')
			settings = optarg;
		else if (option == 'v')
			verbose = true;
		else if (option == 'k')
			keep = true;
		else
			return 2;
	}
	output = memfd_create("sim-output", MFD_CLOEXEC);
	for (i = 0; i < seeds; i++) {
		if (limit_s && seconds_now() - begin_s >= limit_s)
			break;
		run_params_draw(&p, seed + i);
		if (settings && !params_parse(&p, settings)) {
			fprintf(stderr, "sim: what is '%s'?\n", settings);
			return 2;
		}
		if (child_run(&p, verbose)) {
			if (verbose || seeds == 1)
				output_print();
			continue;
		}
		printf("after %" PRIu64 " seeds, failed: ", i);
		params_print(&p);
		output_print();
		if (keep)
			return EXIT_FAILURE;
		shrink(&p);
		child_run(&p, false);
		printf("shrunk: ");
		params_print(&p);
		output_print();
		return EXIT_FAILURE;
	}
	printf("%" PRIu64 " seeds, nothing wrong\n", i);
	return EXIT_SUCCESS;
}
